"""Computes all answers of a replay, reading all events as few times as possible.

Only a few queries read all events: those for controller epochs, final states, changes of state and
leader, ISR changes, and infrequent events (failures, unclean elections, reassignments). Their
results are kept until the answers are closed, and all other queries use these results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.replay.data_loss import DataLoss, data_loss
from klamm.replay.engines import Engine, Row, rows_together
from klamm.replay.event_table import EventTable
from klamm.replay.filters import Filters, check, narrow
from klamm.replay.kafka_order import as_one_log
from klamm.replay.listings import Listing, first_listed, first_rows, number_listed
from klamm.replay.questions.columns import IS_FAILURE, RUN, judged, since, total
from klamm.replay.questions.controllers import (
    IS_START,
    epochs,
    failovers,
    late_writes,
    shared_epochs,
    starts,
)
from klamm.replay.questions.duplicates import duplicates, without
from klamm.replay.questions.final_states import final_partitions, final_replicas
from klamm.replay.questions.histories import by_partition, by_replica
from klamm.replay.questions.isrs import flapping_replicas, isr_churn, moves, unclean_elections
from klamm.replay.questions.lives import (
    leaders_over_time,
    lives,
    offline_intervals,
    offline_timeline,
    width_of,
)
from klamm.replay.questions.logs import counts_by_log
from klamm.replay.questions.outages import (
    IS_OF_OUTAGES,
    Planned,
    deaths,
    deletions,
    leaderless_intervals,
    shutdowns,
    unplanned_shrinks,
)
from klamm.replay.questions.reassignments import IS_REASSIGNMENT, OPEN, reassignments
from klamm.replay.questions.row_checks import (
    doubtful_epochs,
    failed_transitions,
    gaps,
    histories_with_gaps,
    illegal_transitions,
    lost_rows,
    lost_tails,
)
from klamm.replay.questions.timeline import MARKS, life_lines, marks
from klamm.replay.questions.trouble import Found, brokers_by_trouble, topics_by_trouble

VIOLATIONS: Final = (
    "illegal",
    "missing",
    "lost_tails",
    "lost_transactions",
    "unclean",
    "repeated",
    "late_writes",
    "shared_epochs",
)
"""The kinds of violations. If any has a count above 0, `klamm replay run` exits with code 14."""
SHOWN_PARTITIONS: Final = (
    "illegal",
    "gaps",
    "unclean",
    "late_writes",
    "offline_intervals",
    "leaderless_intervals",
    "flapping",
    "reassignments",
)
"""Answers whose partitions always have a timeline (states and leaders over time) on the page."""
_COUNTED: Final = ("gaps", "lost_tails", "late_writes", "shared_epochs", "flapping")
"""Answers whose number of rows is one of ``Answers.counts``."""
_ONLY_LISTED: Final = (
    *("lost_rows", "offline_intervals", "leaderless_intervals", "reassignments"),
    *("topics", "brokers"),
)
"""Further answers whose rows are counted before they are listed."""
_SUMMED: Final = (
    *("failovers", "lost_rows", "lost_tails", "duplicates", "late_writes", "shared_epochs"),
    "reassignments",
)
"""Answers whose rows are counted for each log."""
_FEW_MISSING: Final = 100_000
"""Number of lost rows up to which a join may copy the histories with gaps, and the gaps."""
_NOT_LISTED: Final = "since_ms, key_seq, zxid, event_id, cause_id, has_predecessors"


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers of a replay. Close them to free the query results that ``tables`` refer to.

    - ``counts``: number of events, partitions, leader changes, violations and problems.
    - ``first_ms``, ``last_ms``: times of the first and last event.
    - ``bucket_ms``: width of the time buckets of plots.
    - ``listings``: first rows of each answer, with strings instead of codes.
    - ``tables``: a query for all rows of each answer, with codes.
    - ``data_loss``: damaged lines and lost ZooKeeper transactions.
    - ``life_lines``: query for the states and leaders of partitions over time; run only for the
      page.
    """

    counts: Mapping[str, int]
    first_ms: int | None
    last_ms: int | None
    bucket_ms: int
    listings: Mapping[str, Listing]
    tables: Mapping[str, str]
    data_loss: DataLoss
    life_lines: str = ""
    close: Callable[[], None] = field(default=lambda: None, repr=False)
    """Frees the query results that ``tables`` refer to."""

    @property
    def violations(self) -> dict[str, int]:
        """Number of violations of each kind (``VIOLATIONS``), without kinds that do not occur."""
        return {name: self.counts[name] for name in VIOLATIONS if self.counts[name]}

    @property
    def logs(self) -> list[tuple[str, str]]:
        """Source and run of each log. All answers are computed separately for each log."""
        return sorted({(row["source"], row["run"]) for row in self.listings["epochs"].rows})

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Kept:
    """Runs queries whose results several answers use, and keeps the results until ``close``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names: list[str] = []

    def __call__(self, sql: str, name: str, *, is_small: bool = False) -> str:
        self._names.append(self._engine.keep(sql, name, is_small=is_small))
        return self._names[-1]

    def close(self) -> None:
        """Free all results that were kept."""
        self._engine.drop(self._names)
        self._names = []


def answer(table: EventTable, filters: Filters | None = None) -> Answers:
    """Compute all answers from the events that pass the filters.

    Raises UsageError if the table has no events for a filter.
    """
    asked = filters or Filters()
    check(table, asked)
    kept = _Kept(table.engine)
    try:
        return _answer(_given(table, asked, kept))
    except BaseException:
        kept.close()
        raise


@dataclass(frozen=True, slots=True)
class _Given:
    """Input for the questions of a replay, prepared once for all of them.

    Names of relations:

    - ``events``: the events that pass the filters, without duplicates.
    - ``unfiltered``: all events, without duplicates.
    - ``epochs``: result of ``questions.controllers.epochs``.
    - ``repeated``: result of ``questions.duplicates``.

    Facts about the events:

    - ``doubtful``: name of the result of ``questions.row_checks.doubtful_epochs``.
    - ``missing``: number of rows whose row numbers are missing.
    - ``copies``: number of rows that were removed as duplicates.
    - ``extent``: number of events, the times of the first and last event, and whether there are
      writes by controllers of older epochs.
    """

    table: EventTable
    kept: _Kept
    events: str
    unfiltered: str
    epochs: str
    extent: Row
    doubtful: str
    missing: int
    repeated: str
    copies: int
    from_ms: int | None

    @property
    def start_ms(self) -> int:
        """Start of the first time bucket, in ms since 1970."""
        return max(self.extent["first_ms"] or 0, self.from_ms or 0)

    @property
    def width_ms(self) -> int:
        """Width of the time buckets in ms."""
        return width_of(self.start_ms, self.extent["last_ms"] or self.start_ms)

    @property
    def marks_at(self) -> tuple[int, int]:
        """Start of the first interval for marks in plots, and width of these intervals, in ms."""
        start_ms = self.start_ms
        return start_ms, width_of(start_ms, self.extent["last_ms"] or start_ms, MARKS)


def _given(table: EventTable, filters: Filters, kept: _Kept) -> _Given:
    engine, events = table.engine, as_one_log(table)
    runs = [run for source in table.manifest.sources for run in source.runs]
    copies = sum(run.repeated or 0 for run in runs)
    repeated = kept(duplicates(events if copies else _none(events)), "duplicates")
    if copies:
        events = engine.view(without(events, repeated))
    from_ms = filters.from_ms
    narrowed = engine.view(judged(f"({narrow(engine, events, filters)})"), "judged")
    found = every = kept(epochs(narrowed, from_ms), "epochs", is_small=True)
    if filters.excludes_events:
        every = kept(epochs(engine.view(judged(events), "judged")), "every_epoch")
    doubtful = kept(doubtful_epochs(every), "doubtful", is_small=True)
    known = rows_together(
        engine,
        {
            "extent": f"SELECT {total('rows')} AS rows, min(first_ms) AS first_ms, "
            "max(last_ms) AS last_ms, coalesce(bool_or(last_write_at > newer_at), false) "
            f"AS has_late FROM {found}",
            "doubtful": f"SELECT {total('missing')} AS missing FROM {doubtful}",
        },
    )
    (extent,) = known["extent"]
    missing = known["doubtful"][0]["missing"]
    return _Given(
        *(table, kept, narrowed, events, found, extent, doubtful, missing),
        *(repeated, copies, from_ms),
    )


def _none(relation: str) -> str:
    """Return SQL for an empty relation with the columns of ``relation``. It reads no data."""
    return f"(SELECT * FROM {relation} WHERE false)"


def _answer(given: _Given) -> Answers:
    engine, kept, from_ms = given.table.engine, given.kept, given.from_ms
    replicas = kept(by_replica(given.events, from_ms), "replicas")
    partitions = kept(by_partition(replicas), "partitions")
    marked = kept(_marked(given.events), "marked")
    moved = kept(moves(given.events, from_ms), "moves")
    counted = engine.view(since(marked, from_ms), "counted")
    lost, in_partitions = _lost(given)
    lived = kept(lives(given.events, in_partitions), "lives")
    reassigned = kept(reassignments(marked), "reassignments")
    dead = kept(deaths(marked), "deaths", is_small=True)
    deleted = kept(deletions(marked), "deletions", is_small=True)
    planned = Planned(deleted, kept(shutdowns(marked), "shutdowns", is_small=True), reassigned)
    found = Found(
        *(partitions, counted, in_partitions, moved),
        kept(unplanned_shrinks(moved, dead, planned), "shrinks"),
        *(_stays(given, lived), _leaderless(given, lived, dead, deleted)),
    )
    of_epochs = _of_epochs(given)
    tables = {
        **of_epochs,
        "starts": starts(counted, given.epochs),
        "marks": marks(counted, f"({of_epochs['failovers']})", reassigned, lived, given.marks_at),
        "lost_rows": f"SELECT * FROM {lost}",
        "lost_tails": f"SELECT * FROM {kept(lost_tails(given.events), 'lost_tails')}",
        "gaps": f"SELECT * FROM {found.gaps}",
        "illegal": illegal_transitions(counted),
        "failed": failed_transitions(counted),
        "unclean": unclean_elections(counted),
        "reassignments": _ended_since(reassigned, from_ms),
        "flapping": f"SELECT * FROM {kept(flapping_replicas(moved), 'flapping')}",
        "isr_churn": isr_churn(moved, given.start_ms, given.width_ms),
        "offline_intervals": _ended_since(found.stays, from_ms),
        "leaderless_intervals": _ended_since(found.leaderless, from_ms),
        "offline_timeline": offline_timeline(found.stays, given.start_ms, given.width_ms),
        "leaders_over_time": leaders_over_time(lived, given.start_ms, given.width_ms),
        "topics": f"SELECT * FROM {kept(topics_by_trouble(found), 'topics')}",
        "brokers": f"SELECT * FROM {kept(brokers_by_trouble(found), 'brokers')}",
    }
    tables["logs"] = counts_by_log(
        {
            **{name: f"({tables[name]})" for name in _SUMMED},
            **found._asdict(),
            "epochs": given.epochs,
        }
    )
    loss = data_loss(given.table)
    problems, totals = _counts(engine, found, tables)
    totals |= {} if given.copies else {"duplicates": 0}
    counts = {
        "events": given.extent["rows"],
        "repeated": given.copies,
        "lost_transactions": loss.ranges,
        **problems,
    }
    return Answers(
        counts=counts,
        first_ms=given.extent["first_ms"],
        last_ms=given.extent["last_ms"],
        bucket_ms=given.width_ms,
        listings=first_listed(given.table, tables, totals),
        tables={
            **tables,
            "partitions": final_partitions(partitions, given.events),
            "replicas": final_replicas(replicas),
        },
        data_loss=loss,
        life_lines=life_lines(given.events, lived, moved, first_rows(tables, SHOWN_PARTITIONS)),
        close=kept.close,
    )


def _marked(events: str) -> str:
    """Return a query for the infrequent kinds of events, which several questions use."""
    rare = ("is_illegal", IS_FAILURE, "is_unclean", f"({IS_REASSIGNMENT})", IS_OF_OUTAGES, IS_START)
    return f"SELECT * EXCLUDE ({_NOT_LISTED}) FROM {events} WHERE {' OR '.join(rare)}"


def _lost(given: _Given) -> tuple[str, str]:
    """Find lost rows. Return the names of two relations, the results of ``lost_rows`` and ``gaps``.

    Filters do not apply to ``lost_rows``, because a lost row may have been about any topic. If no
    row numbers are missing, which is the normal case, no further events are read.
    """
    doubtful, events, unfiltered = given.doubtful, given.events, given.unfiltered
    if not given.missing:
        events, unfiltered = _none(events), _none(unfiltered)
    are_few = given.missing <= _FEW_MISSING
    lost = given.kept(lost_rows(unfiltered, doubtful), "lost_rows")
    incomplete = given.kept(
        histories_with_gaps(events, doubtful), "histories_with_gaps", is_small=are_few
    )
    return lost, given.kept(gaps(events, doubtful, incomplete), "gaps", is_small=are_few)


def _stays(given: _Given, lived: str) -> str:
    """Compute the intervals in OfflinePartition. Return the name of a relation.

    ``is_counted``: the log shows when the partition went Offline, and this was not before
    ``from_ms``. ``offline_ms``: length of the interval after ``from_ms``; an interval that has not
    ended is measured until the last event of the run.
    """
    is_counted = "is_new AND start_ms IS NOT NULL"
    if given.from_ms is not None:
        is_counted += f" AND start_ms >= {given.from_ms}"
    stays = f"SELECT *, {is_counted} AS is_counted FROM ({offline_intervals(lived)})"
    return given.kept(_with_length(given, stays, "offline_ms"), "stays")


def _leaderless(given: _Given, lived: str, dead: str, deleted: str) -> str:
    """Compute the intervals without a live leader; return the name of a relation with them.

    The relation includes the length of each interval.
    """
    found = leaderless_intervals(lived, dead, deleted)
    return given.kept(_with_length(given, found, "leaderless_ms"), "leaderless")


def _with_length(given: _Given, intervals: str, name: str) -> str:
    """Return a query that adds each interval's length between ``from_ms`` and the run's end."""
    start_ms, end_ms = "start_ms", "coalesce(end_ms, run_last_ms)"
    if given.from_ms is not None:
        start_ms, end_ms = (f"greatest({ms}, {given.from_ms})" for ms in (start_ms, end_ms))
    return f"""
SELECT *, coalesce({end_ms} - {start_ms}, 0) AS {name}
FROM ({intervals}) JOIN (
  SELECT {RUN}, max(last_ms) AS run_last_ms FROM {given.epochs} GROUP BY {RUN}) USING ({RUN})"""


def _of_epochs(given: _Given) -> dict[str, str]:
    elected = given.table.engine.view(failovers(given.epochs))
    shared = given.kept(shared_epochs(given.epochs), "shared")
    events = given.events if given.extent["has_late"] else _none(given.events)
    late = given.kept(late_writes(events, given.epochs), "late")
    return {
        "epochs": f"SELECT * FROM {given.epochs}",
        "failovers": since(elected, given.from_ms, "elected_ms"),
        "shared_epochs": since(shared, given.from_ms, "last_ms"),
        "late_writes": since(late, given.from_ms),
        "duplicates": f"SELECT * FROM {given.repeated}",
    }


def _counts(
    engine: Engine, found: Found, tables: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Count problems, and the rows of most answers, in one query.

    Returns ``Answers.counts``, except those that need no query, and the numbers of rows that are
    worth listing by answer. Answers that are not counted are small, or expensive to compute twice.
    """
    of_relations = {
        found.partitions: f"{total('leader_changes')} AS leader_changes, "
        "count(*) FILTER (WHERE partition >= 0) AS partitions",
        found.marked: "count(*) FILTER (WHERE is_illegal) AS illegal, "
        f"count(*) FILTER (WHERE {IS_FAILURE}) AS failed, "
        "count(*) FILTER (WHERE is_unclean) AS unclean",
        found.moved: "count(*) FILTER (WHERE has_left) AS shrinks, "
        "count(*) FILTER (WHERE NOT has_left) AS expands",
        found.stays: "count(*) FILTER (WHERE is_counted) AS offlines, "
        f"{total('offline_ms')} AS offline_ms",
        found.leaderless: f"{total('leaderless_ms')} AS leaderless_ms",
        f"({tables['lost_rows']})": f"{total('missing')} AS missing",
        f"({tables['reassignments']})": (
            f"count(*) FILTER (WHERE status = '{OPEN}') AS open_reassignments"
        ),
    }
    answered = rows_together(
        engine,
        {
            **{name: f"SELECT {columns} FROM {name}" for name, columns in of_relations.items()},
            **{
                name: f"SELECT {number_listed(name)} AS listed FROM ({tables[name]})"
                for name in (*_COUNTED, *_ONLY_LISTED)
            },
        },
    )
    counts = {name: n for key in of_relations for name, n in answered[key][0].items()}
    totals = {name: answered[name][0]["listed"] for name in (*_COUNTED, *_ONLY_LISTED)}
    counts |= {name: totals[name] for name in _COUNTED}
    totals |= {name: counts[name] for name in ("illegal", "failed", "unclean")}
    return counts, totals


def _ended_since(intervals: str, from_ms: int | None) -> str:
    """Return a query for the intervals that ended at or after ``from_ms`` or have not ended.

    The result has an additional column ``took_ms``, the duration of each interval.
    """
    in_time = "true" if from_ms is None else f"end_ms IS NULL OR end_ms >= {from_ms}"
    return f"SELECT *, end_ms - start_ms AS took_ms FROM {intervals} WHERE {in_time}"
