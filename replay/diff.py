"""Comparison of two logs, or of a log with ZooKeeper: final states and the first divergence.

Fields that one of the logs does not contain are not compared. Both sides identify topics by the
hash of their name; names are looked up only for the differences that are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.types import (
    NO_LEADER,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.replay.encode import WORDS, word_of, xxhash64
from klamm.replay.engines import Engine, row, rows
from klamm.replay.event_schema import (
    JOURNAL,
    KAFKA_LOGS,
    SOURCES,
    code_of,
)
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.kafka_order import BOTH
from klamm.replay.questions.columns import IS_SNAPSHOT, judged
from klamm.replay.questions.final_states import LEADERSHIP, final_tables
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState

MOST_SHOWN: Final = 50
_PARTITION: Final = ("topic", "partition")
_REPLICA: Final = (*_PARTITION, "replica")
_STORED_SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("isr", pa.list_(pa.int32())),
        ("zk_version", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("topic", pa.int64()),
    ]
)
_VERSION: Final = "zk_version"
_PARTITION_FIELDS: Final = ("state", "leader", "leader_epoch", "isr")
_STORED_FIELDS: Final = (*_PARTITION_FIELDS[1:], _VERSION)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides of a comparison: a log, or the znodes of a ZooKeeper.

    These fields are names of SQL relations:

    - ``partitions``: topic, partition, state (a name), leader, leader_epoch, isr, zk_version.
    - ``replicas``: topic, partition, replica, state; None if the side has no replica states.
    - ``writes``: each recorded write of a partition's leader and ISR, with file and line; None for
      a ZooKeeper.

    ``is_whole``: the side records every write of a state znode.
    """

    name: str
    what: str
    partitions: str
    replicas: str | None
    writes: str | None
    names: str
    is_whole: bool


class Difference(NamedTuple):
    """A field whose value differs between A and B.

    The field belongs to a replica, or to a partition if ``replica`` is -1.
    """

    topic: str
    partition: int
    replica: int
    field: str
    a: str | None
    b: str | None

    def text(self, in_a: str, in_b: str) -> str:
        """Return a line about the difference; ``in_a`` and ``in_b`` name the sides."""
        replica = "" if self.replica < 0 else f" on broker {self.replica}"
        if self.field == "existence":
            return f"{self.topic}-{self.partition}{replica}: {self.a} {in_a}, {self.b} {in_b}"
        a, b = ("none" if value is None else value or "empty" for value in (self.a, self.b))
        return f"{self.topic}-{self.partition}{replica}: {self.field} {a} {in_a}, {b} {in_b}"


class Divergence(NamedTuple):
    """The earliest write of a leader and ISR that only one side has.

    ``side``: the side that has the write, "A" or "B".
    """

    side: str
    file: str
    line: int
    t_ms: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: Sequence[int] | None
    zk_version: int | None


@dataclass(frozen=True, slots=True)
class Differences:
    """Result of a comparison.

    - ``partitions``, ``replicas``: how many were compared; None if replicas were not compared.
    - ``total``: number of differences. ``shown`` lists the first ones.
    - ``divergence``: the earliest write that only one side has; None if there is none.
    - ``not_compared``: descriptions of the fields that were not compared, with the reason.
    """

    partitions: int
    replicas: int | None
    total: int
    shown: list[Difference]
    divergence: Divergence | None
    not_compared: list[str]


class Choice(NamedTuple):
    """The log that is compared, chosen from the logs in an event table.

    - ``what``: description of the log.
    - ``sources``: the kind of the log. Kafka's two logs count as one log, with two kinds.
    - ``run``: the run to compare; None if all runs are compared.
    - ``is_latest``: the table has several clusters, and the latest was chosen.
    """

    what: str
    sources: tuple[str, ...]
    run: str | None
    rows: int
    is_latest: bool = False


def choose(
    manifest: Manifest, name: str, source: str | None = None, run: str | None = None
) -> Choice:
    """Choose the log of an event table to compare.

    ``source`` and ``run`` select the log if the table has several. If a journal has several
    clusters, the default is the latest. Raises UsageError if the choice is ambiguous.
    """
    held = {summary.source: summary for summary in manifest.sources}
    taken = [held[source]] if source in held else list(held.values())
    sources = tuple(summary.source for summary in taken)
    if len(taken) > 1 and set(sources) != set(BOTH):
        raise UsageError(
            f"{name} has several kinds of logs: {', '.join(held)}",
            hint=f"select one, for example --source {sources[0]}",
        )
    what = " and ".join(sources)
    covered = [covered for summary in taken for covered in summary.runs]
    runs: dict[str, int] = {}
    for at in covered:
        runs[at.run] = runs.get(at.run, 0) + at.rows
    if run in runs:
        return Choice(f"{what} of {run}", sources, run, runs[run])
    if len(runs) > 1 and sources == (JOURNAL,):
        latest = max(covered, key=lambda at: at.last_ms).run
        words = f"{what} of {latest}, the latest of {len(runs)}"
        return Choice(words, sources, latest, runs[latest], is_latest=True)
    if len(runs) > 1 and not set(sources) <= set(BOTH):
        raise UsageError(
            f"{name} has several runs or chroots: {', '.join(runs)}",
            hint=f"select one, for example --run {next(iter(runs))}",
        )
    return Choice(what, sources, None, sum(summary.rows for summary in taken))


def side_of(
    table: EventTable, name: str, source: str | None = None, run: str | None = None
) -> Side:
    """Prepare a log of an event table as one side of a comparison.

    Raises UsageError like ``choose``.
    """
    choice = choose(table.manifest, name, source, run)
    codes = ", ".join(str(code_of(kind, SOURCES)) for kind in choice.sources)
    chosen = f"source IN ({codes})"
    if choice.run is not None:
        chosen += f" AND run = {xxhash64(choice.run)}"
    missing = sum(
        run.missing or 0
        for summary in table.manifest.sources
        for run in summary.runs
        if summary.source in choice.sources and choice.run in (None, run.run)
    )
    lost = f", {counted(missing, 'lost row')}" if missing else ""
    engine = table.engine
    one = code_of(choice.sources[0] if len(choice.sources) == 1 else KAFKA_LOGS, SOURCES)
    events = engine.view(
        f"SELECT * EXCLUDE (source), CAST({one} AS TINYINT) AS source "
        f"FROM {table.events} WHERE {chosen}"
    )
    state = f"{word_of('state', WORDS['state'])} AS state"
    partitions, replicas = (
        engine.view(f"SELECT * EXCLUDE (state), {state} FROM {found}")
        for found in final_tables(engine, events)
    )
    return Side(
        name=name,
        what=f"{choice.what}, {choice.rows:,} events{lost}",
        partitions=partitions,
        replicas=replicas if _count(engine, replicas) else None,
        writes=engine.view(_writes(events)),
        names=table.names,
        # Kafka's logs do not record every write of a state znode.
        is_whole=not set(choice.sources) <= set(BOTH),
    )


def stored_side(
    engine: Engine,
    name: str,
    what: str,
    assignments: Mapping[TopicPartition, ReplicaAssignment],
    stored: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
    live_brokers: Collection[int] | None = None,
) -> Side:
    """Prepare the znodes of a live or dumped ZooKeeper as one side of a comparison.

    ``assignments`` and ``stored``: the contents of topic and state znodes. If ``live_brokers`` is
    given, replicas are compared: those on live brokers must be Online. A replica on a dead broker
    may have any state, because Kafka sets the replicas of a new topic Online even on dead brokers.
    """
    found = []
    for tp, assignment in assignments.items():
        of_topic = {"topic": xxhash64(tp.topic), "name": tp.topic, "partition": tp.partition}
        leadership = {}
        if tp in stored:
            at = stored[tp].leader_and_isr
            leadership = {field: getattr(at, field) for field in _STORED_FIELDS}
        found.append({**of_topic, "replicas": assignment.replicas, **leadership})
    states = engine.table(pa.Table.from_pylist(found, _STORED_SCHEMA))
    names = f"SELECT DISTINCT 'topic' AS domain, topic AS code, name FROM {states}"
    state = f"{_STATE_BY_LEADER} AS state"
    partitions = f"SELECT topic, partition, {state}, {LEADERSHIP} FROM {states}"
    replicas = None
    if live_brokers is not None:
        live = ", ".join(map(str, live_brokers)) or "-1"
        online = f"CASE WHEN replica IN ({live}) THEN '{ReplicaState.ONLINE.value}' END AS state"
        each = f"SELECT topic, partition, unnest(replicas) AS replica FROM {states}"
        replicas = engine.view(f"SELECT topic, partition, replica, {online} FROM ({each})")
    return Side(name, what, engine.view(partitions), replicas, None, engine.view(names), True)


_STATE_BY_LEADER: Final = (
    f"CASE WHEN leader IS NULL THEN '{PartitionState.NEW.value}' "
    f"WHEN leader = {NO_LEADER} THEN '{PartitionState.OFFLINE.value}' "
    f"ELSE '{PartitionState.ONLINE.value}' END"
)
"""SQL for a partition's state. ``leader`` is null if the partition has no state znode."""


def compare(
    engine: Engine, a: Side, b: Side, most: int = MOST_SHOWN, *, versions: bool = False
) -> Differences:
    """Compare final states, and find the first write of a leader and ISR that only one side has.

    ``versions``: also compare the versions of state znodes, which a dump does not keep.
    """
    not_compared = []
    is_whole = a.is_whole and b.is_whole
    if not is_whole:
        partial = a if not a.is_whole else b
        not_compared.append(
            f"ISRs whose znode versions differ: {partial.name} does not record all ISR changes"
        )
    fields = (*_PARTITION_FIELDS, _VERSION)
    partitions = engine.keep(_beside(a.partitions, b.partitions, _PARTITION, fields), "beside")
    compared = fields if versions else _PARTITION_FIELDS
    found = list(_differing(partitions, "-1", compared, is_whole=is_whole))
    replicas = None
    if a.replicas is not None and b.replicas is not None:
        both = engine.keep(_beside(a.replicas, b.replicas, _REPLICA, ("state",)), "beside")
        replicas = _count(engine, both)
        found += _differing(both, "replica", ("state",), is_whole=True)
    else:
        unknowing = a if a.replicas is None else b
        not_compared.append(f"replica states: {unknowing.name} has none")
    names = engine.view(f"SELECT * FROM {a.names} UNION SELECT * FROM {b.names}", "names")
    differing = engine.keep(" UNION ALL ".join(found), "differing")
    shown = rows(
        engine,
        f"""
SELECT name AS topic, partition, replica, field, a, b
FROM {differing} LEFT JOIN (SELECT code AS topic, name FROM {names} WHERE domain = 'topic')
  USING (topic)
ORDER BY topic, partition, replica, field LIMIT {most}""",
    )
    return Differences(
        _count(engine, partitions),
        replicas,
        _count(engine, differing),
        [Difference(**at) for at in shown],
        _first_divergence(engine, a, b, names, is_whole=is_whole),
        not_compared,
    )


def _count(engine: Engine, relation: str) -> int:
    found: int = row(engine, f"SELECT count(*) AS n FROM {relation}")["n"]
    return found


def _beside(a: str, b: str, key: Sequence[str], fields: Sequence[str]) -> str:
    """Return SQL for a full join of tables A and B by ``key``.

    Each field X becomes the columns a_X and b_X. The column ``a`` is true if A has a row with this
    key, otherwise null; the same holds for ``b``.
    """

    def side(name: str, relation: str) -> str:
        columns = ", ".join(f"{field} AS {name}_{field}" for field in fields)
        return f"(SELECT {', '.join(key)}, true AS {name}, {columns} FROM {relation})"

    return f"SELECT * FROM {side('a', a)} FULL JOIN {side('b', b)} USING ({', '.join(key)})"


def _differing(both: str, replica: str, fields: Sequence[str], *, is_whole: bool) -> Iterator[str]:
    """Yield a query for each field that finds the keys whose values differ between A and B.

    Its columns are topic, partition, replica, field, and the two values a and b.
    """
    head = f"SELECT topic, partition, {replica} AS replica"
    a, b = (f"CASE WHEN {x} THEN 'present' ELSE 'absent' END AS {x}" for x in "ab")
    yield f"{head}, 'existence' AS field, {a}, {b} FROM {both} WHERE a IS NULL OR b IS NULL"
    for name in fields:
        both_say = f"(a_{name} IS NOT NULL AND b_{name} IS NOT NULL)"
        if name == "isr" and not is_whole:
            both_say += f" AND a_{_VERSION} IS NOT DISTINCT FROM b_{_VERSION}"
        elif name != "state" and is_whole:
            # If both logs are complete, null means that the partition has no state znode.
            both_say = "true"
        shown = ", ".join(f"{_text(f'{x}_{name}', name)} AS {x}" for x in "ab")
        yield (
            f"{head}, '{name}' AS field, {shown} FROM {both} "
            f"WHERE a AND b AND {both_say} AND a_{name} IS DISTINCT FROM b_{name}"
        )


def _text(column: str, name: str) -> str:
    if name != "isr":
        return f"CAST({column} AS VARCHAR)"
    return f"array_to_string({column}, ',')"


# The first divergence


def _writes(events: str) -> str:
    """Return a query for the recorded writes of leaders and ISRs, with file and line.

    ``is_snapshot``: the row is not a write, but a value that a new controller read from ZooKeeper.
    """
    return f"""
SELECT topic, partition, {LEADERSHIP}, file, line, place, t_ms, {IS_SNAPSHOT} AS is_snapshot
FROM ({judged(events)}) WHERE is_leadership AND topic IS NOT NULL"""


def _first_divergence(
    engine: Engine, a: Side, b: Side, names: str, *, is_whole: bool
) -> Divergence | None:
    """Return the earliest write that only one side has, or None if both sides have the same writes.

    If a side does not record every write, only leaders and leader epochs are compared. Returns None
    if a side is a ZooKeeper, which has no history of writes.
    """
    if a.writes is None or b.writes is None:
        return None
    key = [*_PARTITION, "leader_epoch", "leader", *(("isr", _VERSION) if is_whole else ())]
    # A row without a znode version was not written to ZooKeeper.
    stored = f"{_VERSION} IS NOT NULL" if is_whole else "true"

    def alone(ours: str, theirs: str, side: str) -> str:
        equal = " AND ".join(f"o.{name} IS NOT DISTINCT FROM t.{name}" for name in key)
        return (
            f"SELECT o.*, '{side}' AS side "
            f"FROM (SELECT * FROM {ours} WHERE {stored} AND NOT is_snapshot) AS o "
            f"ANTI JOIN (SELECT DISTINCT {', '.join(key)} FROM {theirs} WHERE {stored}) AS t "
            f"ON {equal}"
        )

    first = f"""
SELECT * FROM ({alone(a.writes, b.writes, "A")} UNION ALL {alone(b.writes, a.writes, "B")})
ORDER BY t_ms, place, side LIMIT 1"""
    found = engine.fetch(f"""
SELECT side, f.name AS file, line, t_ms, n.name AS topic, partition, {LEADERSHIP}
FROM ({first}) AS w
LEFT JOIN {names} AS n ON n.domain = 'topic' AND n.code = w.topic
LEFT JOIN {names} AS f ON f.domain = 'file' AND f.code = w.file""")
    return Divergence(*found.rows[0]) if found.rows else None
