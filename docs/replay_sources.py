"""Compares the answers that a replay gets from each kind of log of the same run.

Generates the tables of docs/replay.md from two sets of recordings:

- Four scenarios of a real Kafka. The reference is ZooKeeper's transaction log.
- A run of ``klamm up`` with failovers, deletions and reassignments. The reference is the journal.

Kafka's logs were recorded at TRACE. The logs at INFO are made from them by removing the lines that
Kafka does not log at INFO.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from docs.markdown import table
from klamm.replay.answers import How, Question, Reading
from klamm.replay.answers import how_answered as declared
from klamm.replay.engines import Engine, Row, rows
from klamm.replay.engines.duckdb_engine import duckdb_engine
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.filters import Filters
from klamm.replay.ingest import make_table
from klamm.replay.listings import in_strings
from klamm.replay.page import life_rows
from klamm.replay.run import Answers, answering

DATA: Final = Path(__file__).parents[1] / "tests" / "data"
SCENARIOS: Final = ("controller_kill", "delete_one_down", "reassign_move_all", "rolling_restart")
OF_KAFKA: Final = (
    Reading.KAFKA_TRACE,
    Reading.KAFKA_INFO,
    Reading.STATE_CHANGE_TRACE,
    Reading.STATE_CHANGE_INFO,
    Reading.CONTROLLER_DEBUG,
)


class Facts(NamedTuple):
    """The answer to a question, as a set of facts that can be compared.

    - ``counts``: how often each fact occurs in the answer.
    - ``times``: start and end in ms of each interval, keyed by the fact; empty for other facts.
    """

    counts: Counter[tuple[Any, ...]]
    times: Mapping[tuple[Any, ...], list[tuple[int, int | None]]] = {}


Answered = dict[Question, Facts]


def facts_of_run(stored: EventTable, answers: Answers, run: str, to_ms: int | None) -> Answered:
    """Return the facts about one run, taken from the answers and from the events up to ``to_ms``.

    ``run``: the end of the run's name. ``to_ms``: None for all events.
    """
    found = {
        name: [row for row in words if row["run"].endswith(run)]
        for name, words in in_strings(
            {name: rows(stored.engine, answers.tables[name]()) for name in _TABLES}, stored
        ).items()
    }
    lives = [row for row in life_rows(stored, answers) if row["run"].endswith(run)]
    events = in_strings({"": rows(stored.engine, f"FROM {stored.events}")}, stored)[""]
    kinds = [
        row
        for row in events
        if row["run"].endswith(run) and (to_ms is None or row["t_ms"] <= to_ms)
    ]
    facts = {
        question: [tuple(map(_plain, read(row))) for row in found[name]]
        for question, name, read in _READ
    }
    return {
        # A value that is not known is no fact.
        **{
            question: Facts(Counter(fact for fact in found if fact[-1] is not None))
            for question, found in facts.items()
        },
        Question.LEADERS_OVER_TIME: Facts(Counter(_leaders(lives))),
        Question.LEADERLESS: _intervals(found["leaderless_intervals"]),
        Question.OFFLINE: _intervals(found["offline_intervals"]),
        Question.ISR_CHURN: _churn(found["isr_churn"]),
        Question.BROKERS: _of_kind(kinds, "broker_offline", "replica"),
        Question.DELETIONS: _of_kind(kinds, "topic_deleted", "topic"),
    }


def _plain(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, list) else value


def _key(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["partition"]


_READ: Final[tuple[tuple[Question, str, Callable[[Row], tuple[Any, ...]]], ...]] = (
    (Question.PARTITION_STATES, "partitions", lambda row: (*_key(row), row["state"])),
    (
        Question.REPLICA_STATES,
        "replicas",
        lambda row: (*_key(row), row["replica"], row["state"]),
    ),
    (
        Question.LEADERSHIPS,
        "partitions",
        lambda row: (*_key(row), row["leader"], row["leader_epoch"], row["isr"]),
    ),
    (Question.UNCLEAN, "unclean", lambda row: (*_key(row), row["leader"], row["leader_epoch"])),
    (
        Question.REASSIGNMENTS,
        "reassignments",
        lambda row: (row["reassignment"], row["status"]),
    ),
    (Question.FAILOVERS, "failovers", lambda row: (row["epoch"], row["controller"])),
)
_TABLES: Final = (
    *("partitions", "replicas", "unclean", "reassignments", "failovers"),
    *("leaderless_intervals", "offline_intervals", "isr_churn"),
)


def _leaders(lives: Sequence[Row]) -> Iterator[tuple[Any, ...]]:
    """Yield each partition with its leaders, in order.

    Leader -2 means that the partition did not exist at that time.
    """
    for key, changes in groupby(lives, _key):
        leaders = [row["leader"] for row in changes if row["leader"] is not None]
        in_order = [leader for leader, _ in groupby(leaders)]
        # To the controller, a partition ceases to exist before its leader is removed.
        in_order = [
            leader
            for leader, following in pairwise((*in_order, None))
            if (leader, following) != (-1, -2)
        ]
        # Before its first leader a partition may or may not be known.
        yield (*key, *(in_order[1:] if in_order[:1] == [-2] else in_order))


def _intervals(found: Sequence[Row]) -> Facts:
    times: dict[tuple[Any, ...], list[tuple[int, int | None]]] = {}
    for row in sorted(found, key=lambda row: row["start_ms"] or 0):
        if row["took_ms"] == 0:
            continue
        times.setdefault(_key(row), []).append((row["start_ms"], row["end_ms"]))
    return Facts(Counter({key: len(at) for key, at in times.items()}), times)


def _churn(found: Sequence[Row]) -> Facts:
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in found:
        counts[row["broker"], "left"] += row["shrinks"]
        counts[row["broker"], "joined"] += row["expands"]
    return Facts(+counts)


def _of_kind(kinds: Sequence[Row], kind: str, name: str) -> Facts:
    return Facts(Counter((row[name],) for row in kinds if row["kind"] == kind))


# Reading the recordings


Run = tuple[str, int | None]
"""The end of a run's name, and the time in ms of the last event to use (None: use all events)."""


@contextmanager
def _table_of(engine: Engine, logs: Sequence[Path]) -> Iterator[EventTable]:
    with tempfile.TemporaryDirectory() as name:
        make_table(engine, logs, Path(name) / "table")
        yield open_table(engine, Path(name) / "table")


def _facts_of_runs(engine: Engine, logs: Sequence[Path], runs: Sequence[Run]) -> list[Answered]:
    """Return the facts about each of these runs, as replayed from the logs."""
    found = []
    with _table_of(engine, logs) as read:
        for to_ms, of_time in groupby(runs, lambda run: run[1]):
            with answering(read, Filters(to_ms=to_ms)) as answers:
                found += [facts_of_run(read, answers, run, to_ms) for run, _ in of_time]
    return found


def _last_ms(engine: Engine, logs: Sequence[Path]) -> int:
    with _table_of(engine, logs) as read:
        return max(run.last_ms for source in read.manifest.sources for run in source.runs)


def at_info(logs: Path, folder: Path) -> Path:
    """Copy Kafka's logs into ``folder``, without the lines at TRACE in state-change.log."""
    copied = folder / logs.name
    shutil.copytree(logs, copied)
    for path in copied.rglob("state-change.log"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if "] TRACE [" not in line[:40]))
    return copied


def _of_kafka(
    engine: Engine, logs: Sequence[Path], runs: Sequence[Run]
) -> list[dict[Reading, Answered]]:
    """Return the facts in Kafka's logs about each run, keyed by kind of log and log level."""
    with tempfile.TemporaryDirectory() as name:
        info = [at_info(of_run, Path(name)) for of_run in logs]
        chosen = {
            Reading.KAFKA_TRACE: logs,
            Reading.KAFKA_INFO: info,
            Reading.STATE_CHANGE_TRACE: _written(logs, "state-change.log"),
            Reading.STATE_CHANGE_INFO: _written(info, "state-change.log"),
            Reading.CONTROLLER_DEBUG: _written(logs, "controller.log"),
        }
        found = {reading: _facts_of_runs(engine, paths, runs) for reading, paths in chosen.items()}
    return [{reading: found[reading][n] for reading in found} for n in range(len(runs))]


def _written(folders: Sequence[Path], name: str) -> list[Path]:
    """Return all files called ``name`` that are not empty."""
    return [
        path for folder in folders for path in sorted(folder.rglob(name)) if path.stat().st_size
    ]


def recorded_kafka() -> list[tuple[Answered, dict[Reading, Answered]]]:
    """Return, for each scenario, the facts in ZooKeeper's log and the facts in Kafka's logs."""
    logs = [DATA / "kafka_logs" / "trace" / scenario for scenario in SCENARIOS]
    zookeeper = [DATA / "kafka_logs" / "trace" / "zookeeper" / "version-2"]
    with duckdb_engine(2, 1024) as engine:
        # Each recording ended with the deletion of the chroot.
        runs = [(f"oracle-{of_run.name}-4011", _last_ms(engine, [of_run])) for of_run in logs]
        reference = _facts_of_runs(engine, zookeeper, runs)
        found = _of_kafka(engine, logs, [(scenario, None) for scenario in SCENARIOS])
    return list(zip(reference, found, strict=True))


def recorded_klamm() -> tuple[Answered, dict[Reading, Answered]]:
    """Return the facts in the journal of a ``klamm up``, and the facts in its other logs."""
    folder = DATA / "klamm_up"
    journal = [folder / "journal.jsonl.gz"]
    with duckdb_engine(2, 1024) as engine:
        (reference,) = _facts_of_runs(engine, journal, [("", None)])
        (found,) = _of_kafka(engine, [folder / "logs"], [("", None)])
        # The brokers ended after the controller had.
        last_ms = _last_ms(engine, journal)
        (zookeeper,) = _facts_of_runs(engine, [folder / "version-2"], [("", last_ms)])
    return reference, {**found, Reading.ZOOKEEPER: zookeeper}


# Comparing


class Verdict(NamedTuple):
    """Result of comparing a log with the reference.

    - ``same``: number of facts of the reference that the log has, too.
    - ``expected``: number of facts of the reference.
    - ``others``: number of facts of the log that the reference does not have.
    - ``apart_ms``: largest difference between the times of an interval.
    """

    same: int
    expected: int
    others: int
    apart_ms: int

    @property
    def is_equal(self) -> bool:
        """Whether the log has exactly the facts of the reference; their times may differ."""
        return self.same == self.expected and not self.others


def compare(reference: Facts, found: Facts) -> Verdict:
    """Compare a log's facts with those of the reference, for one question."""
    same = (reference.counts & found.counts).total()
    apart = [
        abs(one - other)
        for key, times in found.times.items()
        for pair in zip(times, reference.times.get(key, ()), strict=False)
        for one, other in zip(*pair, strict=True)
        if one is not None and other is not None
    ]
    others = found.counts.total() - same
    return Verdict(same, reference.counts.total(), others, max(apart, default=0))


# Tables


def klamm_table() -> str:
    """Return the table for the run of ``klamm up``: each log compared with the journal."""
    reference, found = recorded_klamm()
    return _table(Reading.JOURNAL, [(reference, found)], (*OF_KAFKA, Reading.ZOOKEEPER), _QUESTIONS)


def kafka_table() -> str:
    """Return the table for the real Kafka, in which each log is compared with ZooKeeper's log."""
    # ZooKeeper stores no states.
    stateless = (Question.PARTITION_STATES, Question.REPLICA_STATES, Question.OFFLINE)
    asked = [question for question in _QUESTIONS if question not in stateless]
    return _table(Reading.ZOOKEEPER, recorded_kafka(), OF_KAFKA, asked)


_QUESTIONS: Final = (
    *(Question.PARTITION_STATES, Question.REPLICA_STATES, Question.LEADERSHIPS),
    *(Question.LEADERS_OVER_TIME, Question.LEADERLESS, Question.OFFLINE),
    *(Question.UNCLEAN, Question.ISR_CHURN, Question.REASSIGNMENTS, Question.FAILOVERS),
    *(Question.BROKERS, Question.DELETIONS),
)


def _table(
    reference: Reading,
    recorded: Sequence[tuple[Answered, dict[Reading, Answered]]],
    logs: Sequence[Reading],
    questions: Sequence[Question],
) -> str:
    lines = []
    for question in questions:
        expected = sum(facts[question].counts.total() for facts, _ in recorded)
        cells = [
            "no"
            if declared(question, log).how is How.NO
            else _cell([compare(of[question], found[log][question]) for of, found in recorded])
            for log in logs
        ]
        lines.append((question, expected, *cells))
    return table(("question", f"facts of {reference}", *logs), lines)


def _cell(verdicts: Sequence[Verdict]) -> str:
    """Describe how well a log agrees with the reference in all recordings."""
    apart_ms = max(verdict.apart_ms for verdict in verdicts)
    apart = f", times ± {apart_ms} ms" if apart_ms else ""
    if all(verdict.is_equal for verdict in verdicts):
        return f"equal{apart}"
    same, expected, others = (sum(column) for column in list(zip(*verdicts, strict=True))[:3])
    beside = f", {others} others" if others else ""
    return f"{same} of {expected}{beside}{apart}"


SECTIONS: Final[dict[str, Callable[[], str]]] = {
    "recorded klamm": klamm_table,
    "recorded kafka": kafka_table,
}
