"""A replay's page as text: its sentences and tables, without the plots. Prints only."""

from __future__ import annotations

from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from cli.terminal import HarmlessConsole
from report.values import Page, Table, Tone

ROWS_SHOWN: Final = 10
STATES_SHOWN: Final = 20
_WIDTH: Final = 2_000
_STYLES: Final = {
    Tone.GOOD: "green",
    Tone.WARNING: "yellow",
    Tone.BAD: "bold red",
    Tone.PLAIN: "",
}
_STATE_COLUMNS: Final = ("topic", "partition", "state", "leader", "leader_epoch", "isr")


def show_page(page: Page, states: dict[str, Any] | None, file: TextIO | None = None) -> None:
    """Print the page; ``states`` are the first partitions and how many there are.

    Words are shown as they are: no name is taken for a style.
    """
    console = HarmlessConsole(file=file, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        # Nobody cuts what a file has, so nothing is folded.
        console = HarmlessConsole(file=file, highlight=False, width=_WIDTH, soft_wrap=True)
    console.print(Text(page.title, style="bold"))
    console.print(Text(page.verdict, style=_STYLES[page.tone]))
    for name, value in page.facts:
        console.print(Text(f"{name}: {value}"))
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
    shown = RichTable(title=Text(table.title), title_justify="left", box=None, pad_edge=False)
    rows = table.rows[:most]
    for number, name in enumerate(table.columns):
        is_number = all(isinstance(row[number], int | float | None) for row in rows)
        shown.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        shown.add_row(*(Text(_text(cell)) for cell in row))
    console.print(shown)
    more = (len(table.rows) if table.total is None else table.total) - len(rows)
    if more > 0:
        console.print(Text(f"and {more:,} more"))
    if table.note:
        console.print(Text(table.note))


def _cell(value: Any) -> str | int | None:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "empty"
    return value if isinstance(value, str | int | None) else str(value)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    text = f"{cell:,}" if isinstance(cell, int | float) else str(cell)
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
