"""Filters on an event table: topics, brokers, a time range, and the moment given by ``--as-of``.

Filters by topic and broker include or exclude whole partitions, because an incomplete history of a
partition would give wrong answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from klamm.cluster.errors import UsageError
from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine, literal, row, rows
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.questions.columns import PARTITION, equal
from klamm.report.scales import time_text


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on the events to use.

    - ``brokers``: use only partitions that have or had a replica on one of these brokers.
    - ``from_ms``: do not count or list earlier events; they still determine initial states.
    - ``to_ms``, ``as_of_*``: ignore events after this time, controller epoch or zxid.

    Times are in ms since 1970; all bounds are inclusive.
    """

    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    as_of_ms: int | None = None
    as_of_epoch: int | None = None
    as_of_zxid: int | None = None

    @property
    def excludes_events(self) -> bool:
        """Whether the filters exclude any events. ``from_ms`` does not."""
        return replace(self, from_ms=None) != Filters()


def check(table: EventTable, filters: Filters) -> None:
    """Raise UsageError if the table has no events for a topic, broker or moment in ``filters``.

    The answers to a replay of no events would look as if the cluster had no problems.
    """
    _check_moments(table.manifest, filters)
    if filters.as_of_zxid is not None:
        _check_zxid(table, filters.as_of_zxid)
    _check_topics(table, filters.topics)
    if not filters.brokers:
        return
    events = narrow(table.engine, table.events, replace(filters, brokers=()))
    for broker in filters.brokers:
        found = f"SELECT 1 FROM ({events}) WHERE {_is_about((broker,))} LIMIT 1"
        if not rows(table.engine, found):
            raise UsageError(
                f"no events about partitions of broker {broker}",
                hint="--broker selects the partitions that have or had a replica on this broker",
            )


def narrow(engine: Engine, events: str, filters: Filters) -> str:
    """Return a query for the events that pass all filters except ``from_ms``."""
    conditions = list(_conditions(filters))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    found = f"SELECT * FROM {events}{where}"
    if not filters.brokers:
        return found
    keys = engine.keep(
        f"SELECT DISTINCT {PARTITION} FROM ({found}) WHERE {_is_about(filters.brokers)}", "keys"
    )
    return f"""
SELECT * FROM ({found}) WHERE topic IS NULL UNION ALL
SELECT e.* FROM ({found}) AS e SEMI JOIN {keys} AS k ON {equal("e", "k", PARTITION)}"""


def _conditions(filters: Filters) -> Iterator[str]:
    """Yield SQL conditions on rows. A limit on the zxid excludes all rows that have no zxid."""
    for name, last in (
        ("t_ms", filters.as_of_ms),
        ("t_ms", filters.to_ms),
        ("epoch", filters.as_of_epoch),
        ("zxid", filters.as_of_zxid),
    ):
        if last is not None:
            yield f"{name} <= {last}"
    if filters.topics:
        wanted = ", ".join(str(xxhash64(topic)) for topic in filters.topics)
        yield f"(topic IS NULL OR topic IN ({wanted}))"


def _is_about(brokers: tuple[int, ...]) -> str:
    ids = ", ".join(map(str, brokers))
    about = [f"{name} IN ({ids})" for name in ("replica", "leader", "prev_leader")]
    about += [
        f"list_contains({name}, {broker})" for name in ("isr", "prev_isr") for broker in brokers
    ]
    return f"topic IS NOT NULL AND coalesce({' OR '.join(about)}, false)"


def _check_moments(manifest: Manifest, filters: Filters) -> None:
    runs = [run for source in manifest.sources for run in source.runs]
    if not runs:
        return
    first_ms, last_ms = min(run.first_ms for run in runs), max(run.last_ms for run in runs)
    for until_ms in (filters.as_of_ms, filters.to_ms):
        if until_ms is not None and until_ms < first_ms:
            raise UsageError(
                f"no events up to {time_text(until_ms)} UTC",
                hint=f"the first event is at {time_text(first_ms)} UTC",
            )
    if filters.from_ms is not None and filters.from_ms > last_ms:
        raise UsageError(
            f"no events from {time_text(filters.from_ms)} UTC on",
            hint=f"the last event is at {time_text(last_ms)} UTC",
        )
    epoch = filters.as_of_epoch
    first = min((run.first_epoch for run in runs if run.first_epoch), default=0)
    last = max(run.last_epoch for run in runs)
    if epoch is not None and not max(first, 1) <= epoch <= last:
        hint = f"epochs: {first} to {last}" if first else "these logs have no controller epochs"
        raise UsageError(f"no events of controller epoch {epoch}", hint=hint)


def _check_zxid(table: EventTable, zxid: int) -> None:
    """Raise UsageError if the table has no event up to a zxid.

    A zxid after the last event is valid: it may belong to a transaction that is not about Kafka.
    """
    first = row(table.engine, f"SELECT min(zxid) AS first FROM {table.events}")["first"]
    if first is None or zxid < first:
        hint = (
            f"the first event has zxid 0x{first:x}" if first else "only ZooKeeper's logs have zxids"
        )
        raise UsageError(f"no events up to zxid 0x{zxid:x}", hint=hint)


def _check_topics(table: EventTable, topics: tuple[str, ...]) -> None:
    if not topics:
        return
    wanted = ", ".join(map(literal, topics))
    found = rows(
        table.engine,
        f"SELECT name FROM {table.names} WHERE domain = 'topic' AND name IN ({wanted})",
    )
    missing = [topic for topic in topics if topic not in {at["name"] for at in found}]
    if missing:
        raise UsageError(
            f"no events of topic {missing[0]}", hint="--topic takes an exact topic name"
        )
