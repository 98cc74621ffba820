"""Names and reasons from outside are escaped: no control codes, forged lines or bidi marks."""

from __future__ import annotations

import io
import logging
import os
import sys
import termios
from collections import deque
from pathlib import Path

import msgspec
import pexpect
import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

import klamm.cli.terminal
import klamm.cli.waiting
from klamm.cli.console import HarmlessConsole
from klamm.cli.options import table_lines
from klamm.cli.own_log import FileLines, OneLine
from klamm.cli.terminal import STATUS_LINE, HarmlessStream, JsonStream, harmless_output
from klamm.cli.waiting import waiting
from klamm.cli.watch import ClusterWatcher, events_table, notes_text, page
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.plain_text import harmless, harmless_line
from klamm.controller.state_change_log import StateChangeLog
from klamm.server.states import Status
from klamm.world.clock import WallClock
from klamm.world.explain.journal_text import EventNames
from tests.scripted_api import BROKER, CONTROLLER, STATUS
from tests.serving import on_terminal

EVIL = "orders\x1b[2J\x9b31m\x07\u202egnp.exe\nforged line\r\u2066\x7f"
HARMLESS = r"orders\u001b[2J\u009b31m\u0007\u202egnp.exe\u000aforged line\u000d\u2066\u007f"


def test_what_is_escaped_and_what_is_not() -> None:
    assert harmless_line(EVIL) == HARMLESS
    assert harmless(EVIL) == HARMLESS.replace(r"\u000a", "\n")
    for text in ("orders-3", "Größe → 5 µs, 時間 😀", "a\tb\nc\n", ""):
        assert harmless(text) == text
    assert harmless_line("a\tb\u2028c\x85") == r"a\u0009b\u2028c\u0085"
    bounds = "\x00\x08\x0b\x1f\x7f\x9f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff"
    for char in bounds:
        assert harmless(char) == harmless_line(char) == f"\\u{ord(char):04x}"


@pytest.mark.parametrize("text", [EVIL, "\x80\x9f\u2029\ufeff", '"\\\x1b'])
def test_json_stays_json_and_means_the_same(text: str) -> None:
    document = msgspec.json.encode({text: text}).decode()
    assert msgspec.json.decode(harmless(document)) == {text: text}


def on_a_terminal(data_dir: Path, *args: str) -> str:
    """Return everything that a command prints to a terminal."""
    with on_terminal(data_dir, *args, columns=10_000) as process:
        process.expect(pexpect.EOF)
        return str(process.before).replace("\r\n", "\n")


def test_a_row_of_the_journal_on_a_terminal(tmp_path: Path) -> None:
    row = JournalRow(1, "run", 0, 1, 1, 1, Kind.TOPIC_CREATED, topic=EVIL, detail=EVIL)
    (tmp_path / "journal.jsonl").write_bytes(msgspec.json.encode(row) + b"\n")
    text = on_a_terminal(tmp_path, "journal", "tail")
    warning, shown = text.splitlines(keepends=True)
    assert warning.endswith(" has ended: these are its last rows\n")
    assert shown.endswith(f"topic created {HARMLESS} {HARMLESS}\n")
    document = on_a_terminal(tmp_path, "journal", "tail", "--json")
    document = document.partition("\n")[2]
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


def test_watch_shows_causes_at_80_columns_and_what_status_says_of_dead_brokers() -> None:
    detail = "the reassignment of a topic with a long name"
    row = {"kind": Kind.TOPIC_CREATED, "t_ms": 1, "controller": 0, "epoch": 1, "detail": detail}
    names = EventNames()
    caused = {**row, "detail": "t", "event_id": 7}
    console = Console(file=io.StringIO(), width=80)
    console.print(events_table([row, caused], names, room=5))
    assert isinstance(console.file, io.StringIO)
    first, second = console.file.getvalue().splitlines()
    assert first.rstrip().endswith(detail)
    assert second.rstrip().endswith("  topic created t  #7")
    status = {
        **STATUS,
        "brokers": [
            {**BROKER, "id": 1, "state": "failed", "reason": "its last log directory failed"}
        ],
        "controller": CONTROLLER,
        "dead_leaders": [{"broker": 1, "partition_count": 1, "partitions": ["t-0"]}],
        "failed_log_dirs": [{"broker": 0, "log_dir": "d1"}],
        "isolated_brokers": [0, 2],
        "network_faults": ["cut: 1 | zookeeper"],
    }
    dead, failed, log_dir, isolated, network = notes_text(
        msgspec.convert(status, Status)
    ).plain.splitlines()
    assert log_dir == "Failed: broker 0, log directory d1"
    assert isolated == "Isolated: brokers 0,2 (klamm network heal)"
    assert network == "Network cut: 1 | zookeeper (klamm network heal)"
    assert failed == "Broker 1 failed: its last log directory failed (klamm broker start 1)"
    assert dead.startswith("Broker 1 is dead but leads t-0: the controller elects other leaders ")


@pytest.mark.parametrize(
    ("columns", "lines", "events"),
    [(90, 14, 0), (60, 12, 0), (90, 17, 3), (90, 30, 12), (60, 7, 0)],
)
def test_watch_in_a_low_terminal_shows_whole_panels(columns: int, lines: int, events: int) -> None:
    watcher = ClusterWatcher.__new__(ClusterWatcher)
    watcher.names = EventNames()
    row = {"kind": Kind.TOPIC_CREATED, "t_ms": 1, "controller": 0, "epoch": 1, "detail": "t"}
    watcher.rows = deque([row] * 30)
    status = {
        **STATUS,
        "controller": {**CONTROLLER, "offline_partitions": 0},
        "partitions_without_live_leader": 1,
        "dead_leaders": [{"broker": 1, "partition_count": 1, "partitions": ["t-0"]}],
        "isolated_brokers": [0],
        "brokers": [{**BROKER, "id": n, "is_controller": n == 0} for n in range(3)],
    }
    watcher.status = msgspec.convert(status, Status)
    console = Console(file=io.StringIO(), width=columns, height=lines)
    console.print(page(watcher, console))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()[:lines]
    assert shown[0].startswith("Broker 1 is dead but leads t-0")
    assert sum(line.startswith("╭") for line in shown) == sum(
        line.startswith("╰") for line in shown
    )
    assert sum("topic created t" in line for line in shown) == events


def test_the_streams_are_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), harmless_output(as_json=True):
        assert sys.stderr is not before[1]
        print("warning: a", file=sys.stderr)
        raise ZeroDivisionError
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().err == '{"warning":"a"}\n'


def test_standard_error_has_one_json_object_per_line() -> None:
    stream = io.StringIO()
    errors = JsonStream(stream)
    for text in ("warning: a: ", "b\nhint: c\n", '{"error":{}}\n', "Processed 2\n\n"):
        errors.write(text)
    assert stream.getvalue().splitlines() == [
        '{"warning":"a: b"}',
        '{"hint":"c"}',
        '{"error":{}}',
        '{"note":"Processed 2"}',
    ]


def test_a_status_line_is_cut_to_the_terminal_and_erased_before_other_output(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (24, 20))
    # However slow the machine is.
    monkeypatch.setattr(klamm.cli.terminal, "_REFRESH_INTERVAL_S", 60)
    monkeypatch.setattr(klamm.cli.waiting, "_TICK_S", 60)
    with open(reader, "rb", buffering=0) as seen, open(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        STATUS_LINE.show("x" * 30 + EVIL)
        STATUS_LINE.refresh(lambda: "too soon")
        HarmlessStream(terminal).writelines(["a\x1b\n", "b"])
        terminal.flush()
        STATUS_LINE.erase()  # nothing is shown
        with waiting("it", is_certain=True):
            shown = b""
            while not shown.endswith(b"(0 s"):
                shown += seen.read(99)
        terminal.write("end")
        terminal.flush()
        while not shown.endswith(b"end"):
            shown += seen.read(99)
    cleared = b"\r\x1b[K"
    first = cleared + b"x" * 19 + cleared + b"a\\u001b\r\nb"
    assert shown == first + cleared + b"waiting for it (0 s" + cleared + b"end"
