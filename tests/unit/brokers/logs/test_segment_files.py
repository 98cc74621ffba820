"""Names of directories and files: 20 digits, marks of deletion and of future logs."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.segment_files import (
    LogDirName,
    SegmentFile,
    file_name,
    log_delete_dir_name,
    log_dir_name,
    log_future_dir_name,
    parse_file_name,
    parse_log_dir_name,
)
from klamm.cluster.types import TopicPartition

ID = "0123456789abcdef" * 2
TP = TopicPartition("a-topic.b", 12)


def test_segments_are_named_by_their_first_offset_in_twenty_digits() -> None:
    assert file_name(368769, ".log") == "00000000000000368769.log"
    assert parse_file_name("00000000000000368769.timeindex") == SegmentFile(368769, ".timeindex")
    for name in ("368769.log", "00000000000000368769.log.deleted", "leader-epoch-checkpoint"):
        assert parse_file_name(name) is None


def test_directories_are_named_by_partition_and_purpose() -> None:
    assert log_dir_name(TP) == "a-topic.b-12"
    assert log_future_dir_name(TP, ID) == f"a-topic.b-12.{ID}-future"
    assert log_delete_dir_name(TP, ID) == f"a-topic.b-12.{ID}-delete"
    assert parse_log_dir_name(log_dir_name(TP)) == LogDirName(TP, "")
    assert parse_log_dir_name(log_future_dir_name(TP, ID)) == LogDirName(TP, "-future")
    assert parse_log_dir_name(log_delete_dir_name(TP, ID)) == LogDirName(TP, "-delete")


def test_a_long_topic_is_shortened_to_be_deleted() -> None:
    name = log_delete_dir_name(TopicPartition("t" * 249, 3), ID)
    assert len(name) == 255 and name.endswith(f"t-3.{ID}-delete")
    assert parse_log_dir_name(name).partition.partition == 3


@pytest.mark.parametrize(
    "name", ["topic", "-1", "topic-", "topic-x", "topic-1-delete", "a-1-future"]
)
def test_a_directory_that_is_no_log_is_refused(name: str) -> None:
    with pytest.raises(LogStorageError, match=f"Found directory {name} which is not in the form"):
        parse_log_dir_name(name)
