"""The leader epochs of a log follow Kafka's own cache, in memory and in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.brokers.logs.checkpoints import EpochEntry, read_epochs
from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.leader_epoch_cache import LeaderEpochFileCache, assign, truncate_from_end
from klamm.cluster.records import EpochEndOffset

VECTORS = Path(__file__).parents[3] / "data/brokers/leader_epochs.jsonl"
SEQUENCES = [json.loads(line) for line in VECTORS.read_text().splitlines()]


def call(cache: LeaderEpochFileCache, name: str, *args: int) -> None:
    {
        "assign": cache.assign,
        "truncate_from_end": cache.truncate_from_end,
        "truncate_from_start": cache.truncate_from_start,
    }[name](*args)


@pytest.mark.parametrize("steps", SEQUENCES, ids=range(len(SEQUENCES)))
def test_entries_and_answers_are_kafkas(steps: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochFileCache(path, read_epochs(path))
    for step in steps:
        call(cache, *step["call"])
        assert [list(entry) for entry in read_epochs(path)] == step["entries"]
        assert [
            list(cache.end_offset_for(epoch, step["log_end_offset"])) for epoch in range(-1, 10)
        ] == step["end_offsets"]


def test_what_was_noted_is_there_when_the_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochFileCache(path, read_epochs(path))
    cache.assign(2, 6)
    cache.assign(3, 8)
    assert read_epochs(path) == (EpochEntry(2, 6), EpochEntry(3, 8))
    again = LeaderEpochFileCache(path, read_epochs(path))
    assert again.latest_epoch == 3
    assert again.end_offset_for(2, 20) == EpochEndOffset(2, 8)
    assert again.end_offset_for(3, 20) == EpochEndOffset(3, 20)
    again.replace(())
    assert LeaderEpochFileCache(path, read_epochs(path)).latest_epoch is None


def test_a_file_follows_its_directory(tmp_path: Path) -> None:
    (tmp_path / "t-0.future").mkdir()
    cache = LeaderEpochFileCache(tmp_path / "t-0.future" / "leader-epoch-checkpoint")
    cache.assign(1, 0)
    (tmp_path / "t-0.future").rename(tmp_path / "t-0")
    cache.move_to(tmp_path / "t-0" / "leader-epoch-checkpoint")
    cache.assign(2, 5)
    moved = read_epochs(tmp_path / "t-0" / "leader-epoch-checkpoint")
    assert moved == (EpochEntry(1, 0), EpochEntry(2, 5))


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "leader-epoch-checkpoint"
    with pytest.raises(LogStorageError, match=str(path)):
        LeaderEpochFileCache(path, read_epochs(path)).assign(1, 0)


def test_logs_that_are_empty_share_their_only_entry() -> None:
    assert assign((), 5, 0) is assign((EpochEntry(4, 0),), 5, 0)


def test_an_epoch_that_begins_at_the_new_end_goes_too() -> None:
    entries = assign(assign((), 1, 0), 2, 7)
    assert truncate_from_end(entries, 7) == (EpochEntry(1, 0),)
    assert truncate_from_end(entries, 8) == entries
