"""Computes all answers of a replay.

Events are divided into blocks of partitions (engines/blocks.py). Most questions are answered within
each block; what is about the whole cluster is gathered from the blocks. Events that are not about
single partitions, and the times of controller epochs, are collected when the events are divided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from klamm.replay.data_loss import DataLoss, data_loss
from klamm.replay.division import Divided, divided_events, no_rows
from klamm.replay.engines import row
from klamm.replay.event_table import EventTable
from klamm.replay.filters import Filters, check
from klamm.replay.listings import MOST_LISTED, Listing, first_listed, first_rows, number_listed
from klamm.replay.questions.columns import IS_FAILURE, PARTITION, RUN, in_time, since, summed, total
from klamm.replay.questions.controllers import (
    failovers,
    late_writes,
    shared_epochs,
    starts,
)
from klamm.replay.questions.counts import rows_of_topics
from klamm.replay.questions.final_states import final_partitions, final_replicas
from klamm.replay.questions.histories import by_partition, by_replica
from klamm.replay.questions.isrs import flapping_replicas, isr_churn, moves, unclean_elections
from klamm.replay.questions.lives import (
    leader_changes,
    leaders_over_time,
    lives,
    offline_changes,
    offline_intervals,
    offline_timeline,
)
from klamm.replay.questions.outages import (
    Planned,
    deaths,
    deletions,
    leaderless_intervals,
    shutdowns,
    unplanned_shrinks,
    while_reassigned,
)
from klamm.replay.questions.problems import (
    Problems,
    all_counts_by_log,
    brokers_by_trouble,
    counts_by_log,
    problems_of_brokers,
    problems_of_topics,
    topics_by_trouble,
)
from klamm.replay.questions.reassignments import IS_REASSIGNMENT, reassignments
from klamm.replay.questions.row_checks import (
    all_lost_tails,
    failed_transitions,
    gaps,
    histories_with_gaps,
    illegal_transitions,
    lost_tails,
)
from klamm.replay.questions.timeline import (
    chosen_partitions,
    life_lines,
    marks,
    marks_of_partitions,
    most_changed,
    named_partitions,
)

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
_SUMMED: Final = ("failovers", "lost_rows", "lost_tails", "duplicates", "shared_epochs")
"""Answers at home whose rows are counted for each log."""
_SUMS: Final = {
    **dict.fromkeys(("events", "repeated"), "logs"),
    **dict.fromkeys(("leader_changes", "partitions"), "rows_of_topics"),
    **dict.fromkeys(("illegal", "failed", "unclean"), "topics"),
    **dict.fromkeys(("shrinks", "expands"), "isr_churn"),
    **dict.fromkeys(("offlines", "offline_ms", "undated", "leaderless_ms"), "topics"),
    **dict.fromkeys(("open_reassignments", "missing"), "logs"),
}
"""``Answers.counts`` that are sums, each with the answer whose rows have the column."""
_FIRST: Final = "first_"


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers of a replay.

    - ``counts``: number of events, partitions, leader changes, violations and problems.
    - ``first_ms``, ``last_ms``: times of the first and last event.
    - ``bucket_ms``: width of the time buckets of plots.
    - ``listings``: first rows of each answer, with strings instead of codes.
    - ``tables``: makes the query for all rows of each answer, with codes.
    - ``data_loss``: damaged lines and lost ZooKeeper transactions.
    """

    counts: Mapping[str, int]
    first_ms: int | None
    last_ms: int | None
    bucket_ms: int
    listings: Mapping[str, Listing]
    tables: Mapping[str, Callable[[], str]]
    data_loss: DataLoss
    life_lines: Callable[[], str] = str
    """Makes the query for the states and leaders of partitions over time, for the page only."""

    @property
    def violations(self) -> dict[str, int]:
        """Number of violations of each kind (``VIOLATIONS``), without kinds that do not occur."""
        return {name: self.counts[name] for name in VIOLATIONS if self.counts[name]}

    @property
    def logs(self) -> list[tuple[str, str]]:
        """Source and run of each log. All answers are computed separately for each log."""
        return sorted({(row["source"], row["run"]) for row in self.listings["epochs"].rows})


@contextmanager
def answering(table: EventTable, filters: Filters | None = None) -> Iterator[Answers]:
    """Context manager that computes all answers from the events that pass the filters.

    Frees the query results that ``tables`` refer to on exit. Raises UsageError if the table has no
    events for a filter.
    """
    asked = filters or Filters()
    check(table, asked)
    with ExitStack() as stack:
        yield _answer(divided_events(table, asked, stack))


@dataclass(frozen=True, slots=True)
class _Found:
    """Names of relations in blocks that several answers use.

    ``problems``: relations in which problems are counted. ``lived``: result of ``lives``.
    ``late``, ``reassigned``, ``flapping``: late writes, reassignments and flapping replicas.
    """

    problems: Problems
    lived: str
    reassigned: str
    late: str
    flapping: str


def _found(given: Divided) -> _Found:
    blocks, kept, from_ms = given.blocks, given.blocks.keep, given.from_ms
    events = blocks.events
    for relation in (given.epochs, given.doubtful):
        blocks.share(relation)
    marked = kept(_marked(events), "marked")
    in_partitions = _gaps(given)
    lived = kept(lives(events, in_partitions), "lives")
    reassigned = kept(reassignments(marked), "reassignments")
    moved = kept(while_reassigned(f"({moves(events, from_ms)})", reassigned), "moves")
    dead = blocks.share(given.at_home(deaths(given.rare), "deaths"))
    deleted = blocks.share(given.at_home(deletions(given.rare), "deletions"))
    shut_down = blocks.share(given.at_home(shutdowns(given.rare), "shutdowns"))
    late = late_writes(events if given.extent["has_late"] else no_rows(events), given.epochs)
    leaderless = _with_length(given, leaderless_intervals(lived, dead, deleted), "leaderless_ms")
    problems = Problems(
        marked=blocks.view(since(marked, from_ms), "counted"),
        gaps=in_partitions,
        moved=moved,
        shrinks=kept(unplanned_shrinks(moved, dead, Planned(deleted, shut_down)), "shrinks"),
        stays=_stays(given, lived),
        leaderless=kept(leaderless),
    )
    return _Found(
        problems=problems,
        lived=lived,
        reassigned=reassigned,
        late=kept(since(f"({late})", from_ms), "late"),
        flapping=kept(flapping_replicas(moved), "flapping"),
    )


def _answer(given: Divided) -> Answers:
    blocks = given.blocks
    found = _found(given)
    listed = _listed(given, found)
    gathered = blocks.gather(_to_gather(given, found, listed))
    firsts = {name: f"SELECT * FROM {gathered[_FIRST + name]}" for name in listed}
    home = _at_home(given, gathered)
    loss = data_loss(given.table)
    by_topic = {"rows_of_topics": f"SELECT * FROM {gathered['rows_of_topics']}"}
    counts, totals = _totals(given, gathered, {**home, **by_topic})
    counts["lost_transactions"] = loss.ranges
    in_blocks = {**listed, **_final_states(given)}
    return Answers(
        counts=counts,
        first_ms=given.extent["first_ms"],
        last_ms=given.extent["last_ms"],
        bucket_ms=given.width_ms,
        listings=first_listed(given.table, blocks.home, {**home, **firsts}, totals),
        tables={
            **{name: partial(blocks.of_home, sql) for name, sql in home.items()},
            **{name: partial(blocks.of_all, sql) for name, sql in in_blocks.items()},
        },
        data_loss=loss,
        life_lines=lambda: _life_lines(given, found, firsts),
    )


def _listed(given: Divided, found: _Found) -> dict[str, str]:
    """Return queries for the answers that are listed and computed within each block."""
    problems, from_ms = found.problems, given.from_ms
    return {
        "late_writes": f"SELECT * FROM {found.late}",
        "gaps": f"SELECT * FROM {problems.gaps}",
        "illegal": illegal_transitions(problems.marked),
        "failed": failed_transitions(problems.marked),
        "unclean": unclean_elections(problems.marked),
        "reassignments": _ended_since(found.reassigned, from_ms),
        "flapping": f"SELECT * FROM {found.flapping}",
        "offline_intervals": _ended_since(problems.stays, from_ms),
        "leaderless_intervals": _ended_since(problems.leaderless, from_ms),
    }


def _to_gather(given: Divided, found: _Found, listed: Mapping[str, str]) -> dict[str, str]:
    """Return the queries whose results are gathered from all blocks.

    ``listed``: results of ``_listed``. Their rows are counted in ``numbers``, and their first rows
    have names that begin with ``_FIRST``.
    """
    events, problems, start_ms = given.blocks.events, found.problems, given.start_ms
    numbers = [f"(SELECT count(*) AS {name} FROM ({sql}))" for name, sql in listed.items()]
    of_logs = {
        **problems._asdict(),
        "late_writes": f"({listed['late_writes']})",
        "reassignments": f"({listed['reassignments']})",
    }
    firsts = first_rows(listed, MOST_LISTED + 1)
    return {
        "numbers": f"SELECT * FROM {', '.join(numbers)}",
        "topics": problems_of_topics(problems),
        "rows_of_topics": rows_of_topics(events, given.from_ms),
        "brokers": problems_of_brokers(problems),
        "logs": counts_by_log(of_logs),
        "isr_churn": isr_churn(problems.moved, start_ms, given.width_ms),
        "leader_changes": leader_changes(found.lived, start_ms, given.width_ms),
        "offline_changes": offline_changes(problems.stays, start_ms),
        "marks": marks_of_partitions(found.reassigned, found.lived, given.marks_at),
        "lost_tails": lost_tails(events),
        **{_FIRST + name: sql for name, sql in firsts.items()},
    }


def _final_states(given: Divided) -> dict[str, str]:
    """Return queries for the final states of partitions and replicas in each block."""
    blocks = given.blocks
    replicas = blocks.view(by_replica(blocks.events))
    return {
        "partitions": final_partitions(f"({by_partition(replicas)})", blocks.events),
        "replicas": final_replicas(replicas),
    }


def _marked(events: str) -> str:
    """Return a query for the infrequent kinds of events that several questions use."""
    rare = ("is_illegal", IS_FAILURE, "is_unclean", f"({IS_REASSIGNMENT})")
    return f"SELECT * FROM {events} WHERE {' OR '.join(rare)}"


def _gaps(given: Divided) -> str:
    """Find the gaps in the row numbers of partitions. Return the name of a relation in blocks."""
    blocks = given.blocks
    events = blocks.events if given.missing else no_rows(blocks.events)
    incomplete = blocks.keep(histories_with_gaps(events, given.doubtful), "histories_with_gaps")
    return blocks.keep(gaps(events, given.doubtful, incomplete), "gaps")


def _stays(given: Divided, lived: str) -> str:
    """Compute the intervals in OfflinePartition. Return the name of a relation in blocks.

    ``is_counted``: the log shows when the partition went Offline, and this was not before
    ``from_ms``. ``offline_ms``: length of the interval after ``from_ms``; an interval that has not
    ended is measured until the last event of the run.
    """
    is_counted = f"is_new AND start_ms IS NOT NULL AND {in_time(given.from_ms, 'start_ms')}"
    stays = f"SELECT *, {is_counted} AS is_counted FROM ({offline_intervals(lived)})"
    return given.blocks.keep(_with_length(given, stays, "offline_ms"), "stays")


def _with_length(given: Divided, intervals: str, name: str) -> str:
    """Return a query that adds each interval's length between ``from_ms`` and the run's end."""
    start_ms, end_ms = "start_ms", "coalesce(end_ms, run_last_ms)"
    if given.from_ms is not None:
        start_ms, end_ms = (f"greatest({ms}, {given.from_ms})" for ms in (start_ms, end_ms))
    return f"""
SELECT *, coalesce({end_ms} - {start_ms}, 0) AS {name}
FROM ({intervals}) JOIN (
  SELECT {RUN}, max(last_ms) AS run_last_ms FROM {given.epochs} GROUP BY {RUN}) USING ({RUN})"""


def _at_home(given: Divided, gathered: Mapping[str, str]) -> dict[str, str]:
    """Return queries for the answers that combine what was gathered from all blocks."""
    kept, home, from_ms = given.at_home, given.blocks.home, given.from_ms
    elected = home.view(failovers(given.epochs))
    tables = {
        "epochs": f"SELECT * FROM {given.epochs}",
        "failovers": since(elected, from_ms, "elected_ms"),
        "shared_epochs": since(f"({shared_epochs(given.epochs)})", from_ms, "last_ms"),
        "duplicates": f"SELECT * FROM {given.repeated}",
        "starts": starts(f"({since(given.rare, from_ms)})", given.epochs),
        "marks": marks(
            f"({since(given.rare, from_ms)})",
            f"({since(elected, from_ms, 'elected_ms')})",
            gathered["marks"],
            given.marks_at,
        ),
        "lost_rows": f"SELECT * FROM {given.lost}",
        "lost_tails": all_lost_tails(gathered["lost_tails"]),
        "isr_churn": summed(
            gathered["isr_churn"], f"{RUN}, bucket_ms, broker", ("shrinks", "expands")
        ),
        "offline_timeline": offline_timeline(
            gathered["offline_changes"], given.start_ms, given.width_ms
        ),
        "leaders_over_time": leaders_over_time(gathered["leader_changes"]),
        "topics": topics_by_trouble(gathered["topics"], gathered["rows_of_topics"]),
        "brokers": brokers_by_trouble(gathered["brokers"]),
    }
    logs = counts_by_log(
        {
            **{name: f"({tables[name]})" for name in _SUMMED},
            "epochs": given.epochs,
            "counted": gathered["rows_of_topics"],
        }
    )
    tables["logs"] = all_counts_by_log((logs, f"SELECT * FROM {gathered['logs']}"))
    return {name: f"SELECT * FROM {kept(sql, name)}" for name, sql in tables.items()}


def _totals(
    given: Divided, gathered: Mapping[str, str], home: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return ``Answers.counts``, and the numbers of rows that are worth listing by answer.

    ``gathered``: relations with results of blocks. ``home``: queries for the answers at home; those
    that are neither in ``_COUNTED`` nor in ``_ONLY_LISTED`` are small.
    """
    engine, numbers = given.blocks.home, gathered["numbers"]
    names = engine.columns(f"SELECT * FROM {numbers}")
    totals = row(
        engine, f"SELECT {', '.join(f'{total(at)} AS {at}' for at in names)} FROM {numbers}"
    )
    for name in (*_COUNTED, *_ONLY_LISTED):
        if name in home:
            listed = f"SELECT {number_listed(name)} AS n FROM ({home[name]})"
            totals[name] = row(engine, listed)["n"]
    sums = (f"(SELECT {total(name)} FROM ({home[of]})) AS {name}" for name, of in _SUMS.items())
    counts = row(engine, f"SELECT {', '.join(sums)}")
    return {**counts, **{name: totals[name] for name in _COUNTED}}, totals


def _life_lines(given: Divided, found: _Found, firsts: Mapping[str, str]) -> str:
    """Return a query for the states and leaders of some partitions over time."""
    blocks = given.blocks
    shown = {name: firsts[name] for name in SHOWN_PARTITIONS}
    named = named_partitions(first_rows(shown, MOST_LISTED).values())
    named = blocks.share(given.at_home(named, "named"))
    changed = blocks.gather({"changed": most_changed(found.lived, found.problems.moved, named)})
    chosen = blocks.share(given.at_home(chosen_partitions(changed["changed"]), "chosen"))
    lines = blocks.of_all(life_lines(blocks.events, chosen))
    return f"SELECT * FROM ({lines}) ORDER BY {PARTITION}, number DESC"


def _ended_since(intervals: str, from_ms: int | None) -> str:
    """Return a query for the intervals that ended at or after ``from_ms`` or have not ended.

    The result has an additional column ``took_ms``, the duration of each interval.
    """
    ended = f"end_ms IS NULL OR {in_time(from_ms, 'end_ms')}"
    return f"SELECT *, end_ms - start_ms AS took_ms FROM {intervals} WHERE {ended}"
