"""Names and reasons from outside are escaped: no control codes, forged lines or bidi marks."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
from pathlib import Path

import msgspec
import pytest
from rich.table import Table
from rich.text import Text

from klamm.cli.console import HarmlessConsole
from klamm.cli.options import table_lines
from klamm.cli.own_log import FileLines, OneLine
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.plain_text import harmless, harmless_line
from klamm.controller.state_change_log import StateChangeLog
from klamm.runtime.clock import WallClock
from tests.serving import KLAMM, ROOT, environ_for

EVIL = "orders\x1b[2J\x9b31m\x07\u202egnp.exe\nforged line\r\u2066\x7f"
HARMLESS = r"orders\u001b[2J\u009b31m\u0007\u202egnp.exe\u000aforged line\u000d\u2066\u007f"


def test_what_is_escaped_and_what_is_not() -> None:
    assert harmless_line(EVIL) == HARMLESS
    assert harmless(EVIL) == HARMLESS.replace(r"\u000a", "\n")
    for text in ("orders-3", "Größe → 5 µs, 時間 😀", "a\tb\nc\n", ""):
        assert harmless(text) == text
    assert harmless_line("a\tb\u2028c\x85") == r"a\u0009b\u2028c\u0085"


@pytest.mark.parametrize("text", [EVIL, "\x80\x9f\u2029\ufeff", '"\\\x1b'])
def test_json_stays_json_and_means_the_same(text: str) -> None:
    document = msgspec.json.encode({text: text}).decode()
    assert msgspec.json.decode(harmless(document)) == {text: text}


def on_a_terminal(data_dir: Path, *args: str) -> str:
    """Return everything that a command prints to a terminal."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*KLAMM, *args], cwd=ROOT, env=environ_for(data_dir), stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    printed = b""
    try:
        while data := os.read(controller, 4096):
            printed += data
    except OSError:
        pass  # end of a terminal on Linux after its other side was closed
    finally:
        os.close(controller)
        process.wait(60)
    return printed.decode().replace("\r\n", "\n")


def test_a_row_of_the_journal_on_a_terminal(tmp_path: Path) -> None:
    row = JournalRow(1, "run", 0, 1, 1, 1, Kind.TOPIC_CREATED, topic=EVIL, detail=EVIL)
    (tmp_path / "journal.jsonl").write_bytes(msgspec.json.encode(row) + b"\n")
    text = on_a_terminal(tmp_path, "journal", "tail")
    assert text.count("\n") == 1
    assert text.endswith(f"topic created {HARMLESS} {HARMLESS}\n")
    document = on_a_terminal(tmp_path, "journal", "tail", "--json")
    assert all(character.isprintable() for character in document.removesuffix("\n"))
    assert msgspec.json.decode(document, type=JournalRow) == row
    error = on_a_terminal(tmp_path, "explain", f"{EVIL}-0")
    assert "\x1b" not in error
    assert "error: the journal has no partition orders\\u001b[2J" in error


def test_a_console_keeps_its_own_colours_only() -> None:
    output = io.StringIO()
    console = HarmlessConsole(
        file=output, force_terminal=True, width=200, color_system="standard", highlight=False
    )
    table = Table(box=None)
    table.add_column("name")
    table.add_row(Text("a\x1b[2J\x9b", style="red"))
    console.print(table)
    console.print("plain \x1b]0;title\x07", markup=False)
    printed = output.getvalue()
    assert "\x1b[31ma\\u" in printed  # and cut off, as the width of a column was measured before
    assert "\x1b[2J" not in printed
    assert "plain \\u001b]0;title" in printed
    assert "\x9b" not in printed


def test_cells_of_a_table_are_in_their_line() -> None:
    assert table_lines([["rack", "host"], ["a\nb", "h\x1b"]]) == [
        "rack      host",
        "a\\u000ab  h\\u001b",
    ]


def test_kafka_logs_and_klamm_log() -> None:
    state_change, controller = io.StringIO(), io.StringIO()
    log = StateChangeLog(1, WallClock(), state_change=state_change, controller=controller)
    log.infos([EVIL, "second"])
    log.error(EVIL, error=ValueError(EVIL))
    log.state_change("TRACE", [EVIL])
    log.state_change_failed([(EVIL, EVIL)])
    assert state_change.getvalue().count("\n") == 3
    assert controller.getvalue().count("\n") == 4
    for text in (state_change.getvalue(), controller.getvalue()):
        assert text.replace("\n", "").isprintable()
        assert HARMLESS in text
    record = logging.LogRecord("klamm", logging.WARNING, __file__, 1, EVIL, None, None)
    assert OneLine().format(record) == f"warning: {HARMLESS}"
    assert FileLines().format(record).endswith(f" WARNING klamm: {HARMLESS}")
