"""Determines the kinds of logs that a table was made from, and the log levels of Kafka's logs.

The log levels are stored in rows of kind ``log_level``. replay/answers.py declares which questions
a log with this level can answer.
"""

from __future__ import annotations

from typing import Final

from klamm.replay.answers import Reading
from klamm.replay.engines import rows
from klamm.replay.event_schema import (
    CONTROLLER_LOG,
    JOURNAL,
    KAFKA_LOGS,
    KINDS,
    LOG_LEVEL,
    STATE_CHANGE_LOG,
    ZOOKEEPER_LOG,
    code_of,
)
from klamm.replay.event_table import EventTable
from klamm.replay.kafka_order import runs_with_both

_DETAILED: Final = {
    STATE_CHANGE_LOG: (("TRACE",), Reading.STATE_CHANGE_TRACE, Reading.STATE_CHANGE_INFO),
    CONTROLLER_LOG: (("TRACE", "DEBUG"), Reading.CONTROLLER_DEBUG, Reading.CONTROLLER_INFO),
}


def readings(table: EventTable) -> dict[str, set[Reading]]:
    """Return the kinds of logs that an event table was built from, keyed by source.

    The kind of a Kafka log includes its log4j level. In a run with both Kafka logs, these are one
    source. If all its controller.log files have DEBUG lines, the source has a single kind, with the
    level of the least detailed state-change.log. Otherwise it has the kinds of all its files.
    """
    sources = {source.source for source in table.manifest.sources}
    found = {
        source: {reading}
        for source, reading in ((JOURNAL, Reading.JOURNAL), (ZOOKEEPER_LOG, Reading.ZOOKEEPER))
        if source in sources
    }
    united = runs_with_both(table.manifest)
    levels = f"""
SELECT source, run, file, list(DISTINCT detail) AS levels
FROM {table.events} WHERE kind = {code_of(LOG_LEVEL, KINDS)} GROUP BY source, run, file"""
    of_runs: dict[str, set[Reading]] = {}
    for at in rows(table.engine, table.in_words(levels)):
        detailed, high, low = _DETAILED[at["source"]]
        reading = low if set(detailed).isdisjoint(at["levels"]) else high
        of_runs.setdefault(at["run"], set()).add(reading)
    for run, of_run in of_runs.items():
        if run not in united:
            for reading in of_run:
                is_state_change = reading.startswith(STATE_CHANGE_LOG)
                source = STATE_CHANGE_LOG if is_state_change else CONTROLLER_LOG
                found.setdefault(source, set()).add(reading)
        elif Reading.CONTROLLER_INFO in of_run:
            found.setdefault(KAFKA_LOGS, set()).update(of_run)
        else:
            is_info = Reading.STATE_CHANGE_INFO in of_run
            reading = Reading.KAFKA_INFO if is_info else Reading.KAFKA_TRACE
            found.setdefault(KAFKA_LOGS, set()).add(reading)
    return found
