"""Invariants of the answers for every log: no count is negative, the totals of all logs are those
of the answers, and leaders over time, also those of each partition, end with the final states."""

from __future__ import annotations

from collections import Counter

from klamm.cluster.types import NO_LEADER
from klamm.replay.engines import rows
from klamm.replay.event_table import EventTable
from klamm.replay.run import Answers

_LAST = """
SELECT source, run, {key}{name} AS value FROM ({sql})
QUALIFY row_number() OVER (PARTITION BY source, run{by} ORDER BY bucket_ms DESC) = 1"""


def check_invariants(table: EventTable, answers: Answers) -> None:
    """Assert both, for each source and run."""
    engine, tables = table.engine, answers.tables
    for name, columns in (
        ("leaders_over_time", ("leaders",)),
        ("offline_timeline", ("offline", "most", "went_offline", "came_back")),
        ("isr_churn", ("shrinks", "expands")),
    ):
        below = " OR ".join(f"{column} < 0" for column in columns)
        assert rows(engine, f"SELECT * FROM ({tables[name]()}) WHERE {below}") == [], name
    last = _LAST.format(
        key="broker, ", name="leaders", sql=tables["leaders_over_time"](), by=", broker"
    )
    leading = {
        (row["source"], row["run"], row["broker"]): row["value"]
        for row in rows(engine, last)
        if row["value"]
    }
    final = rows(
        engine,
        "SELECT source, run, leader, count(*) AS n "
        f"FROM ({tables['partitions']()}) WHERE leader >= {NO_LEADER} GROUP BY source, run, leader",
    )
    assert leading == {(row["source"], row["run"], row["leader"]): row["n"] for row in final}
    logs = rows(engine, tables["logs"]())
    totals = {name: sum(row[name] for row in logs) for name in logs[0].keys() & answers.counts}
    assert totals == {name: answers.counts[name] for name in totals}
    _check_life_lines(table, answers)
    last = _LAST.format(key="", name="offline", sql=tables["offline_timeline"](), by="")
    offline = {(row["source"], row["run"]): row["value"] for row in rows(engine, last)}
    open_stays = Counter(
        (row["source"], row["run"])
        for row in rows(engine, tables["offline_intervals"]())
        if row["end_ms"] is None
    )
    assert +Counter(offline) == open_stays


def _check_life_lines(table: EventTable, answers: Answers) -> None:
    lives = {
        (row["source"], row["run"], row["topic"], row["partition"]): row
        for row in rows(table.engine, answers.life_lines())
    }
    for row in rows(table.engine, answers.tables["partitions"]()):
        last = lives.pop((row["source"], row["run"], row["topic"], row["partition"]), None)
        if last is None:
            assert row["leader"] is None and not row["state"], row
            continue
        if row["leader"] is not None and row["leader"] >= NO_LEADER:
            assert last["leader"] == row["leader"], row
        if row["isr"] is not None:
            assert last["in_sync"] == len(row["isr"]), row
        assert (last["state"] or 0) == (row["state"] or 0), row
    assert all(last["leader"] < NO_LEADER for last in lives.values()), "deleted ones are left"
