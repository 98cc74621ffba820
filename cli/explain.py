"""`klamm explain`: why a partition is as it is, or what an event did, from the journal.

Parses and prints; cli/explanations/ finds the answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from datetime import time as dt_time
from pathlib import Path
from typing import Annotated, Final

import typer

from cli.explain_text import as_json, explained_lines
from cli.explanations.explain import Chosen, Explained, explain_event, explain_partition
from cli.journal import DamageWarnings, FileSource, JournalSource, journal_source
from cli.options import AsJson, DataDirectory, Server, print_json
from cluster.errors import UsageError
from cluster.journal import JournalRow
from cluster.plain_text import harmless_line
from cluster.types import TopicPartition

EXAMPLES = """
\b
Examples:
  klamm explain orders-3
  klamm explain orders-3 --all
  klamm explain orders-3 --at 12:30:05
  klamm explain orders-3 --at epoch:4
  klamm explain '#17'
  klamm explain '2#17' --json --journal ./rehearsal/journal.jsonl
"""
_EVENT: Final = re.compile(r"(?:([0-9]+)?#)?([0-9]+)")
_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")
_LEADER_EPOCH: Final = re.compile(r"epoch:([0-9]+)")


def explain(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC-PARTITION|EVENT",
            help="A partition, as orders-3, or an event, as #17 in klamm journal; 2#17: that of"
            " controller epoch 2.",
        ),
    ],
    show_all: Annotated[bool, typer.Option("--all", help="Every change, not only the last.")] = (
        False
    ),
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|epoch:N",
            help="The last change until then, or the one that led to leader epoch N.",
        ),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A journal.jsonl. [default: the cluster's]")
    ] = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Say why a partition is as it is, or what an event did: the chain of causes, the rules
    applied, the znodes written, the requests sent."""
    source = _source(journal, server, data_dir)
    warnings = DamageWarnings()

    def lines() -> Iterator[bytes]:
        part = source.after(0)
        warnings.show(part)
        while part.lines:
            yield from part.lines
            part = source.after(part.next)
            warnings.show(part)

    explained = _explain(subject, lines, show_all, at)
    if json:
        print_json(as_json(explained))
        return
    for line in explained_lines(explained):
        typer.echo(harmless_line(line))


def _explain(
    subject: str, lines: Callable[[], Iterator[bytes]], show_all: bool, at: str | None
) -> Explained:
    event = _EVENT.fullmatch(subject)
    if event is not None:
        if show_all or at is not None:
            raise UsageError("--all and --at go with a partition, not with an event")
        return explain_event(lines, int(event[2]), None if event[1] is None else int(event[1]))
    topic, dash, number = subject.rpartition("-")
    if not dash or not topic or not number.isdecimal():
        raise UsageError(
            f"'{subject}' is neither a partition nor an event",
            hint="write orders-3 for a partition, '#17' for an event",
        )
    chosen = None if at is None else _chosen(at)
    return explain_partition(lines, TopicPartition(topic, int(number)), chosen, show_all)


def _source(journal: Path | None, server: str | None, data_dir: Path | None) -> JournalSource:
    if journal is None:
        return journal_source(server, data_dir, os.environ)
    if server is not None or data_dir is not None:
        raise UsageError("--journal together with --server or --data-dir", hint="give one of them")
    if not journal.is_file():
        raise UsageError(f"there is no journal {journal}", hint="klamm up writes journal.jsonl")
    return FileSource(journal)


def _chosen(at: str) -> Chosen:
    """Picks the change that --at means."""
    epoch = _LEADER_EPOCH.fullmatch(at)
    if epoch is not None:
        wanted = int(epoch[1])
        return lambda changes: next(
            (n for n, rows in enumerate(changes) if any(r.leader_epoch == wanted for r in rows)),
            None,
        )
    until: datetime | dt_time
    try:
        until = _time_of_day(at) if _CLOCK.fullmatch(at) else datetime.fromisoformat(at)
    except ValueError:
        raise UsageError(
            f"--at {at} is no time", hint="write 12:30:05, 2026-01-31T12:30:05 or epoch:4"
        ) from None

    def is_before(row: JournalRow) -> bool:
        if isinstance(until, dt_time):
            return datetime.fromtimestamp(row.t_ms / 1000).time() <= until
        return row.t_ms <= until.timestamp() * 1000

    return lambda changes: max(
        (n for n, rows in enumerate(changes) if is_before(rows[0])), default=None
    )


def _time_of_day(text: str) -> dt_time:
    return dt_time.fromisoformat(text if text.index(":") == 2 else f"0{text}")
