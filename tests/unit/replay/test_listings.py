"""The first rows of answers, in words."""

from __future__ import annotations

from klamm.replay.engines import Engine
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.listings import in_words

TOPICS = 20_001
NAMES = f"SELECT 'topic' AS domain, n AS code, 't' || n AS name FROM range({TOPICS}) AS r(n)"


def test_all_hashes_are_looked_up_however_many_there_are(duckdb: Engine) -> None:
    table = EventTable(duckdb, "events", f"({NAMES})", "damaged", Manifest(1, []))
    hashes = range(-1, TOPICS)
    found = in_words({"topics": [{"topic": code} for code in hashes], "none": []}, table)
    names = ["-1", *(f"t{code}" for code in range(TOPICS))]
    assert found == {"topics": tuple({"topic": name} for name in names), "none": ()}
