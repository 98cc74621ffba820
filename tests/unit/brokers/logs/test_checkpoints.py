"""Checkpoint files: Kafka's formats, written whole, and a clear word when one is not right."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.brokers.logs.checkpoints import (
    EpochEntry,
    MetaProperties,
    read_epochs,
    read_meta_properties,
    read_offsets,
    read_topic_id,
    write_epochs,
    write_meta_properties,
    write_offsets,
    write_text,
    write_topic_id,
)
from klamm.brokers.logs.errors import LogStorageError
from klamm.cluster.types import TopicPartition

TOPIC_ID = "KCQ2jcUUQY2hcpS0zUO8Yg"
_MANY = "9" * 5_000
"""More digits than int() takes."""


def written(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text)
    return path


def test_offsets_are_lines_of_topic_partition_and_offset(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("a", 0): 12, TopicPartition("b.c", 11): 2**62}
    write_offsets(path, offsets)
    assert path.read_text() == "0\n2\na 0 12\nb.c 11 4611686018427387904\n"
    assert read_offsets(path) == offsets


def test_epochs_are_lines_of_epoch_and_start_offset(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_epochs(path, [EpochEntry(0, 0), EpochEntry(7, 300)])
    assert path.read_text() == "0\n2\n0 0\n7 300\n"
    assert read_epochs(path) == (EpochEntry(0, 0), EpochEntry(7, 300))


def test_a_topic_id_has_kafkas_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    write_topic_id(path, TOPIC_ID)
    assert path.read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert read_topic_id(path) == TOPIC_ID


def test_meta_properties_name_the_broker_and_cluster_of_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    write_meta_properties(path, MetaProperties("c1", 3))
    assert path.read_text() == "cluster.id=c1\nversion=0\nbroker.id=3\n"
    assert read_meta_properties(path) == MetaProperties("c1", 3)


def test_meta_properties_that_kafka_wrote_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "#\n#Sun Nov 22 00:05:12 UTC 2026\ncluster.id=TVxqtpTSQpKd5ZjtMfV9TQ\nversion=0\n"
        "broker.id=2\n",
    )
    assert read_meta_properties(path) == MetaProperties("TVxqtpTSQpKd5ZjtMfV9TQ", 2)


def test_meta_properties_are_read_as_java_reads_properties(tmp_path: Path) -> None:
    path = written(tmp_path, "! a comment\r\ncluster.id : a\\\n  \\u0062c\nbroker.id 2\n")
    assert read_meta_properties(path) == MetaProperties("abc", 2)


@pytest.mark.parametrize(
    ("read", "nothing"),
    [(read_offsets, {}), (read_epochs, ()), (read_topic_id, None), (read_meta_properties, None)],
)
def test_a_missing_file_reads_as_empty(
    read: Callable[[Path], object], nothing: object, tmp_path: Path
) -> None:
    assert read(tmp_path / "missing") == nothing


@pytest.mark.parametrize("text", ["", "0", "0\n", "0\n0\n"])
def test_a_checkpoint_that_ends_early_has_no_entries(text: str, tmp_path: Path) -> None:
    assert read_offsets(written(tmp_path, text)) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n0\n", "Unrecognized version of the checkpoint file ({path}): 1"),
        ("zero\n0\n", "Malformed line in checkpoint file ({path}): 'zero' (line 1)"),
        ("0\nmany\n", "Malformed line in checkpoint file ({path}): 'many' (line 2)"),
        ("0\n1\nt 0\n", "Malformed line in checkpoint file ({path}): 't 0' (line 3)"),
        ("0\n1\nt 0 x\n", "Malformed line in checkpoint file ({path}): 't 0 x' (line 3)"),
        ("0\n1\nt 0 5 6\n", "Malformed line in checkpoint file ({path}): 't 0 5 6' (line 3)"),
        ("0\n0\n\n", "Malformed line in checkpoint file ({path}): '' (line 3)"),
        ("0\n1\nt 0 -5\n", "Malformed line in checkpoint file ({path}): 't 0 -5' (line 3)"),
        pytest.param(
            f"0\n1\nt 0 {_MANY}\n",
            f"Malformed line in checkpoint file ({{path}}): 't 0 {_MANY}' (line 3)",
            id="many digits",
        ),
        ("0\n2\nt 0 5\nt 0 6\n", "t-0 occurs twice in checkpoint file ({path})"),
        ("0\n2\nt 0 5\n", "Expected 2 entries in checkpoint file ({path}), but found only 1"),
    ],
)
def test_an_error_in_a_checkpoint_names_its_file_and_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(LogStorageError) as caught:
        read_offsets(path)
    assert caught.value.message == message.format(path=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"version: 1\ntopic_id: {TOPIC_ID}", "Unrecognized version of partition metadata file"),
        (f"version 0\ntopic_id: {TOPIC_ID}", "Malformed line"),
        ("version: 0\n", "Malformed line"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "Invalid topic ID"),
        ("version: 0\ntopic_id: short", "Invalid topic ID"),
    ],
)
def test_partition_metadata_that_is_wrong_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(LogStorageError, match=message):
        read_topic_id(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version=1\nbroker.id=1\ncluster.id=c\n", "Unrecognized version of .*: 1"),
        ("version=0\ncluster.id=c\n", "has no cluster id or no valid broker id"),
        ("version=0\ncluster.id=c\nbroker.id=one\n", "broker.id=one"),
        pytest.param(
            f"version=0\ncluster.id=c\nbroker.id={_MANY}\n", "no valid broker id", id="many digits"
        ),
        ("version=0\nbroker.id=1\n", "cluster.id=None"),
        ("version=0\nbroker.id=1 \ncluster.id=c\n", "broker.id=1 $"),
        ("cluster.id=\\u00\n", r"Error while reading .*file: .*u00"),
    ],
)
def test_meta_properties_that_are_wrong_are_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(LogStorageError, match=message):
        read_meta_properties(written(tmp_path, text))


@pytest.mark.parametrize("line", ["-1 0", "0 -1", "0", "0 0 0"])
def test_epochs_that_cannot_be_are_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(LogStorageError, match=f"Malformed line .*: '{line}'"):
        read_epochs(written(tmp_path, f"0\n1\n{line}\n"))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0\n1\n\xff\xfe 0 1\n")
    with pytest.raises(LogStorageError, match="it is not UTF-8 text"):
        read_offsets(path)


def test_a_write_replaces_what_a_crash_left_half_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / "file.tmp").write_text("0\n9\nhalf")
    write_offsets(path, {TopicPartition("t", 0): 1})
    assert read_offsets(path) == {TopicPartition("t", 0): 1}
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = written(tmp_path, "0\n0\n")
    (tmp_path / "file.tmp").mkdir()
    with pytest.raises(LogStorageError, match=os.strerror(errno.EISDIR)):
        write_text(path, "new")
    assert path.read_text() == "0\n0\n"
