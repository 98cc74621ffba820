"""`klamm explain`: explains a partition's state, or an event's effects, from the journal.

Only parses options and prints; cli/explanations/ finds the explanation.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from datetime import time as dt_time
from typing import Annotated, Final

import msgspec
import typer

from klamm.cli.completion import complete_partition
from klamm.cli.journal_origin import CountedRows, JournalFile, chosen_source
from klamm.cli.options import AsJson, print_result
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.waiting import waiting
from klamm.cluster.counting import parse_whole_number, plural
from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.world.clock import SIMULATION_START_MS
from klamm.world.explain.explain import Chosen, Explained, explain_event, explain_partition
from klamm.world.explain.journal_text import event_text, row_time_text, summary_text
from klamm.world.explain.linked_events import Cause, ExplainedRow, LinkedEvent, Rows
from klamm.world.explain.rows import PartitionStatus, is_unclean
from klamm.world.explain.rules import Rule

EXAMPLES = """
\b
Examples:
  klamm explain orders-3
  klamm explain orders-3 --all
  klamm explain orders-3 --at 12:30:05
  klamm explain orders-3 --at epoch:4
  klamm explain orders-3 --at 9.5s --journal ./drill/1-leader-loss/journal.jsonl
  klamm explain orders-3 --at 'row 46' --journal ./drill/1-leader-loss/journal.jsonl
  klamm explain '#17'
  klamm explain '2#17' --json --journal ./rehearsal/journal.jsonl
"""
STEPS_SHOWN: Final = 40
FOLLOWED_SHOWN: Final = 5
LOGS_SHOWN: Final = 10
WRITES_NOTE: Final = (
    "Derived from the rows above, because the journal does not record writes to ZooKeeper."
    " A znode's version is shown only if a row contains it."
)
EARLIER_RUN: Final = (
    "does not exist in the last run in this journal; this is its state in an earlier run"
)
OLD_ROWS: Final = "this is its last state; --server or --data-dir selects another cluster"
REQUESTS_NOTE: Final = "not recorded; klamm up --journal-messages records them"
CONTROLLER_NOTE: Final = "not recorded by klamm controller run; its state-change.log counts them"
_EVENT: Final = re.compile(r"(?:([0-9]{1,15})?#)?([0-9]{1,15})")
_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")
_ELAPSED: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?s")
"""Simulated time since the beginning of a run, as a drill prints it."""
_LEADER_EPOCH: Final = re.compile(r"epoch:([0-9]{1,15})")
_ROW: Final = re.compile(r"row ([0-9]{1,15})")


def explain(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC-PARTITION|EVENT",
            help="A partition such as orders-3, or an event such as #17 (see klamm journal)."
            " 2#17 is event 17 of controller epoch 2.",
            autocompletion=complete_partition,
        ),
    ],
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every change to the partition, not only the last.")
    ] = (False),
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|row N|epoch:N",
            help="Show the last change up to this time or row of the journal, or the change that"
            " set leader epoch N. 9.5s is a time of a simulated run.",
        ),
    ] = None,
    journal: JournalFile = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Explain the state of a partition or the effects of an event.

    Prints the chain of causes, the rules applied, the znodes written and the requests sent. The
    first line names the journal.
    """
    rows = CountedRows(chosen_source(journal, server, data_dir))
    if not rows.is_written and journal is None:
        typer.echo(f"warning: the cluster of {rows.path} has ended: {OLD_ROWS}", err=True)
    with waiting("the whole journal"):
        explained = explain_subject(subject, rows.rows, show_all, at)
    if explained.is_of_earlier_run:
        typer.echo(f"warning: {explained.subject} {EARLIER_RUN}", err=True)
    values = {"journal": rows.origin, **as_json(explained)}
    lines = (rows.origin.text, *explained_lines(explained))
    print_result(json, values, lines)


def explain_subject(
    subject: str,
    rows: Rows,
    show_all: bool = False,
    at: str | None = None,
) -> Explained:
    """Explain the partition or the event that ``subject`` names. ``at``: the value of --at.

    Raises UsageError for another subject, and NotFound if the journal does not contain it.
    """
    event = _EVENT.fullmatch(subject)
    if event is not None:
        if show_all or at is not None:
            raise UsageError("--all and --at apply to a partition, not to an event")
        return explain_event(rows, int(event[2]), None if event[1] is None else int(event[1]))
    topic, dash, number = subject.rpartition("-")
    partition = parse_whole_number(number)
    if not dash or not topic or partition is None:
        raise UsageError(
            f"'{subject}' is neither a partition nor an event",
            hint="write orders-3 for a partition, '#17' for an event",
        )
    chosen = None if at is None else _chosen(at, rows)
    return explain_partition(rows, TopicPartition(topic, partition), chosen, show_all)


def _chosen(at: str, rows: Rows) -> Chosen:
    """Return a function that selects the change for --at. Raises UsageError for an invalid value.

    ``at``: a time, ``row 46``, or ``epoch:N`` for the change that set leader epoch N.
    """
    row = _ROW.fullmatch(at)
    if row is not None:
        if int(row[1]) == 0:
            raise UsageError(f"--at {at}: rows are numbered from 1")
        first = [_key(r) for r in itertools.islice(rows(), int(row[1]))]
        if len(first) < int(row[1]):
            raise UsageError(f"--at {at}: the journal has only {len(first):,} rows")
        keys = frozenset(first)
        return _last(lambda r: _key(r) in keys)
    epoch = _LEADER_EPOCH.fullmatch(at)
    if epoch is not None:
        wanted = int(epoch[1])
        return lambda changes: next(
            (n for n, rows in enumerate(changes) if any(r.leader_epoch == wanted for r in rows)),
            None,
        )
    elapsed = _ELAPSED.fullmatch(at)
    if elapsed is not None:
        until_ms = SIMULATION_START_MS + float(elapsed[1]) * 1000
        return _last(lambda row: row.t_ms <= until_ms)
    return _last(_until(at))


def _until(at: str) -> Callable[[JournalRow], bool]:
    """Return a function that is true for rows up to a time, or up to a time of each day.

    Raises UsageError for an invalid time.
    """
    try:
        if _CLOCK.fullmatch(at):
            clock = _time_of_day(at)
            return lambda row: datetime.fromtimestamp(row.t_ms / 1000).time() <= clock
        # Also fails for a time so early or late that it has no timestamp.
        until_ms = datetime.fromisoformat(at).timestamp() * 1000
    except (ValueError, OverflowError):
        raise UsageError(
            f"--at {at} is not a valid time",
            hint="write 12:30:05, 2026-01-31T12:30:05, 9.5s (in a simulated run), 'row 46' or"
            " epoch:4",
        ) from None
    return lambda row: row.t_ms <= until_ms


def _key(row: JournalRow) -> tuple[str, int, int, int]:
    """Return the fields that identify a row in a journal."""
    return row.run_id, row.controller, row.epoch, row.seq


def _last(is_before: Callable[[JournalRow], bool]) -> Chosen:
    """Return a function that selects the last change of which ``is_before`` is true."""
    return lambda changes: max(
        (n for n, rows in enumerate(changes) if is_before(rows[0])), default=None
    )


def _time_of_day(text: str) -> dt_time:
    return dt_time.fromisoformat(text if text.index(":") == 2 else f"0{text}")


def explained_lines(explained: Explained) -> Iterator[str]:
    """Yield the explanation as lines of text."""
    if explained.status is not None:
        yield f"{explained.subject}: {_status_text(explained.status)}"
    for wait in explained.waits:
        yield f"  {wait}"
    if explained.logs:
        yield ""
        yield "Failures and truncations of the partition's logs"
    for row in explained.logs[-LOGS_SHOWN:]:
        yield f"    {_clock(row.t_ms)}  {_row_text(row)}"
    if len(explained.logs) > LOGS_SHOWN:
        yield f"    and {len(explained.logs) - LOGS_SHOWN} earlier; --json prints all"
    for change in explained.changes:
        yield ""
        yield from _change_lines(change)
    if explained.others:
        others = ", ".join(
            f"{key.epoch}#{key.event_id} (controller {key.controller})" for key in explained.others
        )
        yield ""
        yield f"Earlier events with this number: {others}"


def as_json(explained: Explained) -> dict[str, object]:
    """Return the explanation as plain values for JSON, with the journal's rows unchanged."""
    return {
        "subject": explained.subject,
        "standing": None if explained.status is None else explained.status._asdict(),
        "is_of_earlier_run": explained.is_of_earlier_run,
        "waits": explained.waits,
        "logs": explained.logs,
        "changes": [_change_as_json(change) for change in explained.changes],
        "others": [key._asdict() for key in explained.others],
    }


def _change_lines(change: LinkedEvent) -> Iterator[str]:
    key = change.key
    yield f"{_clock(change.t_ms)}, controller {key.controller} epoch {key.epoch}"
    yield "  Why"
    for cause in change.causes:
        yield f"    {_cause_text(cause)}"
    yield "  What it did"
    rules: dict[Rule, int] = {}
    for step in change.steps[:STEPS_SHOWN]:
        numbers = [rules.setdefault(rule, len(rules) + 1) for rule in step.rules]
        unclean = " UNCLEAN: the new leader was not in the ISR" if is_unclean(step.row) else ""
        yield f"    {_row_text(step.row)}{unclean}  ({','.join(map(str, numbers))})"
    if len(change.steps) > STEPS_SHOWN:
        yield f"    and {len(change.steps) - STEPS_SHOWN} more; --json prints all"
    if not change.steps:
        yield "    nothing recorded in the journal"
    if rules:
        yield "  Rules"
    for rule, number in rules.items():
        yield f"    {number}. {rule.text} [{rule.source}]"
    yield "  Znodes written"
    yield from _znode_lines(change.steps)
    yield "  Requests sent"
    yield from _request_lines(change)
    if change.followed:
        yield "  Led to"
        for cause in change.followed[:FOLLOWED_SHOWN]:
            yield f"    {_cause_text(cause)}"
        if len(change.followed) > FOLLOWED_SHOWN:
            yield f"    and {len(change.followed) - FOLLOWED_SHOWN} more"


def _znode_lines(steps: Sequence[ExplainedRow]) -> Iterator[str]:
    writes = [write for step in steps for write in step.znodes]
    for write in writes[:STEPS_SHOWN]:
        version = "" if write.version is None else f", version {write.version}"
        yield f"    {write.path}: {write.action}{version}"
    if len(writes) > STEPS_SHOWN:
        yield f"    and {len(writes) - STEPS_SHOWN} more; --json prints all"
    yield f"    {WRITES_NOTE}" if writes else "    none derived from these rows"


def _request_lines(change: LinkedEvent) -> Iterator[str]:
    requests = change.requests
    if requests is None:
        yield f"    {CONTROLLER_NOTE if change.is_of_controller_run else REQUESTS_NOTE}"
        return
    by_text: dict[str, list[int]] = {}
    for row in requests:
        by_text.setdefault(row.detail or "", []).append(row.replica)
    for text, brokers in by_text.items():
        shown = ", ".join(
            f"{broker}" if times == 1 else f"{broker} (x{times})"
            for broker, times in Counter(brokers).items()
        )
        many = "" if text.endswith(" for 1") else "s"
        yield f"    {text} partition{many} to broker{plural(len({*brokers}))} {shown}"
    if not requests:
        yield "    none"


def _status_text(status: PartitionStatus) -> str:
    words = [status.state or "state not recorded"]
    if status.leader is not None:
        leader = "no leader" if status.leader < 0 else f"leader {status.leader}"
        words += [leader, f"leader epoch {status.leader_epoch}"]
    if status.isr is not None:
        words.append(f"isr {','.join(map(str, status.isr))}")
    if status.zk_version is not None:
        words.append(f"state znode version {status.zk_version}")
    if status.replicas:
        words.append(
            "replicas " + ", ".join(f"{id_} {state}" for id_, state in status.replicas.items())
        )
    return ", ".join(words)


def _cause_text(cause: Cause) -> str:
    number = f"#{cause.event_id} " if cause.event_id else ""
    when = "" if cause.t_ms is None or not cause.event_id else f"  ({_clock(cause.t_ms)})"
    text = event_text(cause.text) if cause.event_id else cause.text
    return f"{cause.relation} {number}{text}{when}"


def _row_text(row: JournalRow) -> str:
    return summary_text(msgspec.to_builtins(row))


def _clock(t_ms: int) -> str:
    day = datetime.fromtimestamp(t_ms / 1000).strftime("%Y-%m-%d")
    return f"{day} {row_time_text({'t_ms': t_ms})}"


def _change_as_json(change: LinkedEvent) -> dict[str, object]:
    return {
        **change.key._asdict(),
        "event": change.name,
        "t_ms": change.t_ms,
        "causes": [msgspec.to_builtins(cause) for cause in change.causes],
        "steps": [
            {
                "row": step.row,
                "unclean": is_unclean(step.row),
                "rules": [rule._asdict() for rule in step.rules],
                "znodes": [write._asdict() for write in step.znodes],
            }
            for step in change.steps
        ],
        "requests": change.requests,
        "led_to": [msgspec.to_builtins(cause) for cause in change.followed],
    }
