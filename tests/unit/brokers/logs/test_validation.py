"""What a leader asks of a producer's batch, and changes in it: times and compression."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.record_batch import COMPRESSIONS, check_batches, parse_header, stamped
from klamm.brokers.logs.validation import check_produced, check_timestamp
from klamm.cluster.records import NO_TIMESTAMP
from tests.unit.brokers.logs.batches import NOW_MS, batch, decode_batches


def test_each_record_of_a_batch_has_its_own_time() -> None:
    three = batch(b"a", b"b", b"c", compression="gzip")
    limit = LogConfig(timestamp_difference_max_ms=1)
    with pytest.raises(InvalidTimestamp, match=f"Timestamp {NOW_MS + 2} .* {NOW_MS + 1}]"):
        check_produced(three, "t-0", limit, NOW_MS)
    assert check_produced(three, "t-0", limit, NOW_MS + 1)[0] == three
    with pytest.raises(InvalidTimestamp, match=f"Timestamp {NOW_MS} "):
        check_produced(three, "t-0", limit, NOW_MS + 2)
    check_timestamp(NO_TIMESTAMP, limit, NOW_MS)


def test_a_stamped_batch_is_whole_and_all_its_records_have_that_time() -> None:
    sent = batch(b"a", b"b", compression="gzip")
    given, header = stamped(sent, parse_header(sent), NOW_MS + 500)
    assert check_batches(given) == [header]
    assert header.is_log_append_time and header.max_timestamp_ms == NOW_MS + 500
    times = [stored.record.timestamp_ms for stored in decode_batches(given)]
    assert times == [NOW_MS + 500] * 2


@pytest.mark.parametrize("is_log_append_time", [False, True])
def test_a_compacted_topic_takes_only_records_with_keys(is_log_append_time: bool) -> None:
    config = LogConfig(cleanup_policy=("delete", "compact"), is_log_append_time=is_log_append_time)
    without = batch(b"a", key=None)
    with pytest.raises(InvalidRecord, match="without key in topic partition t-0"):
        check_produced(without, "t-0", config, NOW_MS)
    _, header = check_produced(batch(b"a", b"b"), "t-0", config, NOW_MS)
    assert header.record_count == 2
    check_produced(without, "t-0", LogConfig(), NOW_MS)


@pytest.mark.parametrize("is_log_append_time", [False, True])
def test_only_a_leader_marks_batches_with_its_append_time(is_log_append_time: bool) -> None:
    sent = batch(b"a")
    given, _ = stamped(sent, parse_header(sent), NOW_MS)
    with pytest.raises(InvalidTimestamp, match="Producer should not set timestamp type"):
        check_produced(given, "t-0", LogConfig(is_log_append_time=is_log_append_time), NOW_MS)


@pytest.mark.parametrize("asked", ["none", "gzip", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("sent_as", ["none", "gzip"])
def test_a_log_compresses_by_its_config_whatever_the_producer_did(asked: str, sent_as: str) -> None:
    producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3}
    sent = batch(*[b"the same again" * 9] * 9, compression=sent_as, **producer)
    config = LogConfig(compression_id=COMPRESSIONS.index(asked))
    stored, header = check_produced(sent, "t-0", config, NOW_MS)
    assert check_batches(stored) == [header]
    assert COMPRESSIONS[header.compression_id] == asked
    assert header.producer_batch == parse_header(sent).producer_batch
    assert [*decode_batches(stored)] == [*decode_batches(sent)]


def test_batches_of_an_uncompressed_log_must_fit_the_limit() -> None:
    sent = batch(bytes(10_000), compression="gzip")
    small = LogConfig(compression_id=0, max_message_bytes=5_000)
    with pytest.raises(RecordTooLarge):
        check_produced(sent, "t-0", small, NOW_MS)
