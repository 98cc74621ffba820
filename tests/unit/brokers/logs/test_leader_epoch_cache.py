"""The leader epochs of a log follow Kafka's own cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.brokers.logs import leader_epoch_cache
from klamm.brokers.logs.checkpoints import EpochEntry
from klamm.brokers.logs.leader_epoch_cache import (
    EpochEntries,
    assign,
    end_offset_for,
    latest_epoch,
    truncate_from_end,
)

VECTORS = Path(__file__).parents[3] / "data/brokers/leader_epochs.jsonl"
SEQUENCES = [json.loads(line) for line in VECTORS.read_text().splitlines()]


@pytest.mark.parametrize("steps", SEQUENCES, ids=range(len(SEQUENCES)))
def test_the_cache_has_the_entries_and_answers_of_kafkas_cache(steps: list[dict[str, Any]]) -> None:
    entries: EpochEntries = ()
    for step in steps:
        name, *args = step["call"]
        entries = getattr(leader_epoch_cache, name)(entries, *args)
        assert [list(entry) for entry in entries] == step["entries"]
        assert latest_epoch(entries) == (step["entries"][-1][0] if step["entries"] else None)
        assert [
            list(end_offset_for(entries, epoch, step["log_end_offset"])) for epoch in range(-1, 10)
        ] == step["end_offsets"]


def test_logs_that_are_empty_share_their_only_entry() -> None:
    assert assign((), 5, 0) is assign((EpochEntry(4, 0),), 5, 0)


def test_a_truncation_removes_an_epoch_that_begins_at_the_new_end() -> None:
    entries = assign(assign((), 1, 0), 2, 7)
    assert truncate_from_end(entries, 7) == (EpochEntry(1, 0),)
    assert truncate_from_end(entries, 8) == entries
