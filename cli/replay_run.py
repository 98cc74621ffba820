"""`klamm replay run`: reports what a cluster did, as text, JSON, Parquet or an HTML page.

Only parses options and prints; replay/run.py computes the answers.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from klamm.cli.console import HarmlessConsole
from klamm.cli.errors import FINDINGS
from klamm.cli.options import print_json
from klamm.cli.replay_input import (
    MEMORY_MB,
    Cores,
    EngineName,
    Master,
    Memory,
    Opened,
    Paths,
    Timezone,
    open_tables,
    read_resources,
)
from klamm.cluster.errors import UsageError
from klamm.report.scales import time_text
from klamm.report.values import Cell, Page, Table, Tone

if TYPE_CHECKING:
    from klamm.replay.filters import Filters
    from klamm.replay.run import Answers

EXAMPLES = """
\b
Examples:
  klamm replay run ./rehearsal/journal.jsonl
  klamm replay run ./events --topic orders --from 2026-01-02T10:00 --to 2026-01-02T11:00
  klamm replay run ./events --as-of epoch:7 --format json
  klamm replay run ./events --out ./answers --format html      # ./answers/page.html
  klamm replay run /shared/events --master spark://host:7077 --out ./answers --format parquet
\b
Exit code 14 if there are violations: illegal transitions, lost or duplicate rows, lost
ZooKeeper transactions, unclean elections, two controllers in one epoch, writes by a controller
after a newer controller epoch began.
"""
_STATES_LISTED = 100
_FILTERS = {
    "topics": "only topics",
    "brokers": "only partitions of brokers",
    "from_ms": "counted from",
    "to_ms": "read up to",
    "as_of_ms": "as of",
    "as_of_epoch": "as of controller epoch",
    "as_of_zxid": "as of zxid",
}
"""The label of each filter in the summary of a replay."""
_YEAR_DIGITS = 4
_MAX_LONG = 2**63 - 1


class RunFormat(StrEnum):
    """Output formats of `klamm replay run`."""

    TEXT = "text"
    JSON = "json"
    PARQUET = "parquet"
    HTML = "html"


_MADE = {
    RunFormat.TEXT: "replay.txt",
    RunFormat.JSON: "answers.json",
    RunFormat.PARQUET: "",
    RunFormat.HTML: "page.html",
}
"""The file in --out that holds the answers in each format."""

Out = Annotated[
    str | None,
    typer.Option(
        "--out", metavar="DIR", help="Write the answers to this new directory, a path or a URL."
    ),
]


def run(
    paths: Paths,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="T|epoch:N|zxid:X",
            help="Show the state as of a time (UTC), a controller epoch or a zxid.",
        ),
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; repeatable.")] = None,
    broker: Annotated[
        list[int] | None,
        typer.Option(min=0, help="Report only partitions with this broker as leader or replica."),
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="T", help="Count only events since T (UTC).")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="T", help="Ignore events after T (UTC).")
    ] = None,
    out_: Out = None,
    format_: Annotated[
        RunFormat, typer.Option("--format", help="Output format; parquet and html need --out.")
    ] = RunFormat.TEXT,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing answers.")
    ] = False,
    master: Master = None,
    timezone: Timezone = None,
    engine: EngineName = "auto",
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
) -> None:
    """Report what a cluster did, from logs or an event table: states, elections, violations."""
    resources = read_resources(engine, master, cores, memory_mb, timezone)
    from klamm.replay.full_disk import full_disk_errors
    from klamm.replay.locations import given_location
    from klamm.replay.opening import inspect_paths
    from klamm.replay.result_folder import as_values, check_out, result_folder, write_answers

    out = None if out_ is None else given_location(out_)
    if out is None and format_ in (RunFormat.PARQUET, RunFormat.HTML):
        raise UsageError(f"--format {format_} needs --out", hint="--out takes a new directory")
    filters = read_filters(as_of, topic or (), broker or (), from_, to)
    given = inspect_paths(list(map(given_location, paths)))
    if out is not None:
        check_out(out, overwrite=overwrite)
    folder = nullcontext() if out is None else result_folder(out, overwrite=overwrite)
    with (
        folder as partial,
        open_tables([given], resources, out or Path(tempfile.gettempdir())) as opened,
        answered(opened, filters) as answers,
    ):
        page = page_of(given.name, opened, filters, answers, has_lives=format_ is RunFormat.HTML)
        states = _states(opened, answers) if _is_narrow(filters) else None
        about = {"paths": given.name, "filters": dataclasses.asdict(filters)}
        values = {**about, **as_values(answers), "states": states}
        if out is not None and partial is not None:
            with full_disk_errors(out):
                _write(partial, format_, opened, answers, page)
                write_answers(partial, values)
    if format_ is RunFormat.JSON and out is None:
        print_json(values)
    else:
        show_page(page, states)
        if out is not None:
            typer.echo(f"Written: {out / _MADE[format_]}")
    raise typer.Exit(FINDINGS if answers.violations else 0)


@contextmanager
def answered(opened: Opened, filters: Filters) -> Iterator[Answers]:
    """Context manager that computes all answers. The engine keeps them until the context ends."""
    from klamm.replay.run import answering

    with ExitStack() as stack:
        with opened.progress.step("answer every question"):
            answers = stack.enter_context(answering(opened.tables[0], filters))
        yield answers


def page_of(
    name: str, opened: Opened, filters: Filters, answers: Answers, *, has_lives: bool = False
) -> Page:
    """Return a page with the answers, and with the questions that these logs cannot answer.

    ``has_lives``: include the state of each partition over time, which only the HTML page can show.
    """
    from klamm.replay.answers import limits
    from klamm.replay.data_loss import damaged_lines
    from klamm.replay.locations import common_folder
    from klamm.replay.page import life_rows, replay_page
    from klamm.replay.page_head import Replayed
    from klamm.replay.readings import readings

    (table,) = opened.tables
    with opened.progress.step("check which questions the sources can answer"):
        found = readings(table)
    facts = [("read", name)]
    for source in table.manifest.sources:
        damaged = damaged_lines(source.damaged)
        words = f", damaged lines: {damaged:,}" if damaged else ""
        facts.append((source.source, source.words + words))
        orders = (run.out_of_order for run in source.runs)
        facts += [("out of order", order.words) for order in orders if order is not None]
    folder = common_folder(
        [file.path for source in table.manifest.sources for file in source.files]
    )
    if folder and folder != name:
        facts.append(("files in", folder))
    facts += filter_facts(filters)
    asked = Replayed(
        name, filters.from_ms, facts, limits(set().union(*found.values())), found, folder
    )
    if not has_lives:
        return replay_page(asked, answers)
    with opened.progress.step("collect the states of individual partitions"):
        lives = life_rows(table, answers)
    return replay_page(asked, answers, lives)


def read_filters(
    as_of: str | None,
    topics: Sequence[str],
    brokers: Sequence[int],
    from_: str | None,
    to: str | None,
) -> Filters:
    """Parse the filter options. Raises UsageError for an invalid time, epoch, zxid or range."""
    from klamm.replay.filters import Filters

    moment: dict[str, int] = {}
    if as_of is not None:
        kind, _, number = as_of.partition(":")
        if kind in ("epoch", "zxid"):
            moment[f"as_of_{kind}"] = _number(as_of, number)
        else:
            moment["as_of_ms"] = _time_ms("--as-of", as_of)
    if "" in topics:
        raise UsageError("--topic is empty", hint="for example --topic orders")
    from_ms = None if from_ is None else _time_ms("--from", from_)
    to_ms = None if to is None else _time_ms("--to", to)
    for option, text, end_ms in (("--to", to, to_ms), ("--as-of", as_of, moment.get("as_of_ms"))):
        if from_ms is not None and end_ms is not None and from_ms > end_ms:
            raise UsageError(
                f"--from {from_} is after {option} {text}",
                hint="times are in UTC unless they end in an offset like +02:00",
            )
    return Filters(
        topics=tuple(topics), brokers=tuple(brokers), from_ms=from_ms, to_ms=to_ms, **moment
    )


def _number(as_of: str, text: str) -> int:
    """Parse the epoch or zxid of --as-of: a non-negative 64-bit number, decimal or 0x hex."""
    try:
        number = int(text, 16 if text.startswith("0x") else 10)
    except ValueError:
        number = -1
    if not 0 <= number <= _MAX_LONG:
        raise UsageError(
            f"--as-of {as_of}: invalid number", hint="for example epoch:7 or zxid:0x10000002a"
        )
    return number


def _time_ms(option: str, text: str) -> int:
    """Parse milliseconds since 1970, or an ISO 8601 time (UTC unless it has an offset)."""
    try:
        if text.isdecimal() and len(text) > _YEAR_DIGITS:
            return int(text)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text}: invalid time",
            hint="use 2026-01-02T10:15:00.250 (UTC unless it ends in an offset like +02:00) or "
            "milliseconds since 1970",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def filter_facts(filters: Filters) -> Iterator[tuple[str, str]]:
    """Yield a label and a description of each filter that the user has set."""
    for name, value in dataclasses.asdict(filters).items():
        if value in (None, ()):
            continue
        if name.endswith("_ms"):
            words = f"{time_text(value)} UTC"
        elif isinstance(value, tuple):
            words = ", ".join(map(str, value))
        else:
            words = f"0x{value:x}" if name == "as_of_zxid" else str(value)
        yield _FILTERS[name], words


def _is_narrow(filters: Filters) -> bool:
    """Return True if a filter selects partitions or a point in time.

    Only then does the report list partition states; otherwise there would be too many.
    """
    moment = (filters.as_of_ms, filters.as_of_epoch, filters.as_of_zxid)
    return bool(filters.topics or filters.brokers or any(at is not None for at in moment))


def _states(opened: Opened, answers: Answers) -> dict[str, Any]:
    """Return the number of partitions, and the states of the first ones, sorted by topic and
    number.
    """
    from klamm.replay.engines import row, rows

    partitions = answers.tables["partitions"]()
    words = opened.tables[0].in_words(partitions)
    order = f"ORDER BY source, run, topic, partition LIMIT {_STATES_LISTED}"
    with opened.progress.step("look up the states of partitions"):
        first = rows(opened.engine, f"SELECT * FROM ({words}) {order}")
        count = row(opened.engine, f"SELECT count(*) AS n FROM ({partitions})")["n"]
    return {"partitions": count, "first": first}


def _write(folder: Path, format_: RunFormat, opened: Opened, answers: Answers, page: Page) -> None:
    from klamm.replay.result_folder import PAGE, write_tables
    from klamm.report.page import page_html

    if format_ is RunFormat.HTML:
        (folder / PAGE).write_text(page_html(page), encoding="utf-8")
    elif format_ is RunFormat.PARQUET:
        with opened.progress.step("write the tables"):
            write_tables(folder, opened.tables[0], answers)
    elif format_ is RunFormat.TEXT:
        with (folder / _MADE[format_]).open("w", encoding="utf-8") as file:
            show_page(page, None, file)


ROWS_SHOWN: Final = 10
STATES_SHOWN: Final = 20
_WIDTH: Final = 2_000
_STYLES: Final = {
    Tone.GOOD: "green",
    Tone.WARNING: "yellow",
    Tone.BAD: "bold red",
    Tone.PLAIN: "",
}
_UNBROKEN: Final = 7
"""Width up to which the cells of a column stay on one line if a table has to be narrow."""
_STATE_COLUMNS: Final = ("topic", "partition", "state", "leader", "leader_epoch", "isr")


def show_page(page: Page, states: dict[str, Any] | None, file: TextIO | None = None) -> None:
    """Print the page as text to ``file`` or standard output.

    ``states``: the result of ``_states``. Topic names are printed literally: rich must not
    interpret them as markup.
    """
    console = HarmlessConsole(file=file, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        # A file has no width: do not wrap its lines.
        console = HarmlessConsole(file=file, highlight=False, width=_WIDTH, soft_wrap=True)
    console.print(Text(page.title, style="bold"))
    console.print(Text(page.verdict, style=_STYLES[page.tone]))
    for name, value in page.facts:
        console.print(Text(f"{name}: {value}"))
    if page.figures:
        console.print(Text(", ".join(f"{at.value} {at.name}" for at in page.figures)))
    for section in page.sections:
        tables = [block for block in section.blocks if isinstance(block, Table)]
        if not tables:
            continue
        console.print()
        console.print(Text(section.title, style="bold"))
        for table in tables:
            _show_table(console, table, ROWS_SHOWN)
    if states is not None:
        console.print()
        console.print(Text("States", style="bold"))
        rows = [tuple(_cell(row.get(name)) for name in _STATE_COLUMNS) for row in states["first"]]
        table = Table("Partitions", _STATE_COLUMNS, rows, states["partitions"])
        _show_table(console, table, STATES_SHOWN)


def _show_table(console: Console, table: Table, most: int) -> None:
    rows = table.rows[:most]
    shown = _rich_table(table, rows, is_narrow=False)
    unlimited = console.options.update_width(sys.maxsize)
    if console.measure(shown, options=unlimited).maximum > console.width:
        shown = _rich_table(table, rows, is_narrow=True)
    if console.is_terminal:
        console.print(shown)
    else:
        with console.capture() as captured:
            console.print(shown)
        for line in captured.get().removesuffix("\n").split("\n"):
            console.print(Text(line.rstrip()))
    more = (len(table.rows) if table.total is None else table.total) - len(rows)
    if more > 0:
        console.print(Text(f"and {more:,} more"))
    if table.note:
        console.print(Text(table.note))


def _rich_table(table: Table, rows: Sequence[Sequence[Cell]], *, is_narrow: bool) -> RichTable:
    """Return a table for the terminal.

    ``is_narrow``: headings are as narrow as they can be without breaks inside words.
    """
    padding = (0, 1, 0, 0) if is_narrow else (0, 1)
    shown = RichTable(
        title=Text(table.title), title_justify="left", box=None, pad_edge=False, padding=padding
    )
    for number, name in enumerate(table.columns):
        is_number = all(isinstance(row[number], int | float | None) for row in rows)
        shortest = max(map(len, name.split()), default=1)
        width = max(shortest, *(len(_text(row[number])) for row in rows))
        is_fixed = is_narrow and (is_number or width <= _UNBROKEN)
        shown.add_column(
            textwrap.fill(name, width) if is_fixed else name,
            justify="right" if is_number else "left",
            overflow="fold",
            min_width=shortest if is_narrow else None,
            no_wrap=is_fixed,
        )
    for row in rows:
        shown.add_row(*(Text(_text(cell)) for cell in row))
    return shown


def _cell(value: object) -> str | int | None:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "empty"
    return value if isinstance(value, str | int | None) else str(value)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    text = f"{cell:,}" if isinstance(cell, int | float) else str(cell)
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
