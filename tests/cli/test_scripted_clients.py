"""What klamm produce and klamm consume send to a server, and what they make of its answers."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from klamm.cli import produce
from klamm.cli.client_text import ClientProgress
from klamm.cli.main import main
from klamm.cli.terminal import STATUS_LINE
from klamm.cluster.errors import WrongState
from tests.scripted_api import Script, scripted_api
from tests.waiting import replace_sleep

PRODUCER: Final = {"id": 4, "partitions": [0], "has_values": True}
NEW_PRODUCER: Final = {
    **{"topic": "t", "partition": None, "acks": -1, "enable_idempotence": False},
    **{"compression_type": "none", "delivery_timeout_ms": 120_000, "request_timeout_ms": 30_000},
}
SENDS: Final = "POST /producers/4/records"
CLOSES: Final = "POST /producers/4/close"
POLLS: Final = "POST /consumers/3/poll"
ENDS: Final = "POST /consumers/3/close"
NOTHING: Final[dict[str, Any]] = {
    **{"counted": [], "records": [], "errors": [], "truncations": [], "waiting_for": []},
    **{"positions": {}, "high_watermarks": {}},
}


def sent(acknowledged: int = 0, failed: int = 0, undecided: int = 0, **more: Any) -> dict[str, Any]:
    """The status of a producer."""
    return {
        **{"sent": acknowledged + failed + undecided, "acknowledged": acknowledged},
        **{"failed": failed, "in_doubt": 0, "undecided": undecided, "offsets": []},
        **{"not_acknowledged": [], "waiting_for": [], **more},
    }


def producing(*closed: Any, records: Any = None) -> dict[str, Any]:
    answers = sent() if records is None else records
    return {"POST /producers": PRODUCER, SENDS: answers, CLOSES: list(closed)}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes to the standard input of the command, which then ends."""
    reader, writer = os.pipe()
    kept = os.dup(0)
    os.dup2(reader, 0)
    os.close(reader)
    with open(0, closefd=False) as stream:
        monkeypatch.setattr("sys.stdin", stream)

        def write(text: str) -> None:
            os.write(writer, text.encode())
            os.close(writer)

        yield write
        os.dup2(kept, 0)
        os.close(kept)


def run(script: Script, *args: str, code: int = 0) -> list[tuple[str, Any]]:
    """Run a command on topic t; what it asked."""
    with scripted_api(script) as api:
        assert main([*args, "--topic", "t", "--server", api.address]) == code
    return api.asked


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ([], {}),
        (["--partition", "2"], {"partition": 2}),
        (["--acks", "0"], {"acks": 0}),
        (["--acks", "1"], {"acks": 1}),
        (["--acks", "all"], {}),
        (["--acks", "-1"], {}),
        (["--idempotent"], {"enable_idempotence": True}),
        (["--compression-codec", "lz4"], {"compression_type": "lz4"}),
        (["--timeout-ms", "40000"], {"delivery_timeout_ms": 40_000}),
        (["--timeout-ms", "700"], {"delivery_timeout_ms": 700, "request_timeout_ms": 700}),
    ],
)
def test_the_options_of_a_producer(options: list[str], body: dict[str, Any]) -> None:
    asked = run(producing(sent(2)), "produce", "--records", "2", *options)
    assert asked == [
        ("POST /producers", {**NEW_PRODUCER, **body}),
        (SENDS, {"record_count": 2, "record_size_bytes": 100, "max_undecided": 100_000}),
        (CLOSES, {"wait_ms": 1_000}),
    ]


def test_generated_records_are_sent_in_parts() -> None:
    asked = run(
        producing(sent(undecided=7), sent(25_000)),
        *("produce", "--records", "25000", "--record-size", "7"),
    )
    bodies = [body for request, body in asked if request == SENDS]
    assert [body["record_count"] for body in bodies] == [10_000, 10_000, 5_000]
    assert {body["record_size_bytes"] for body in bodies} == {7}
    assert [request for request, _ in asked].count(CLOSES) == 2


def test_no_more_is_sent_while_too_much_is_undecided() -> None:
    full, most = sent(undecided=100_001), sent(undecided=100_000)
    script = producing(sent(20_000), records=[full, full, most])
    asked = run(script, "produce", "--records", "20000")
    bodies = [body for request, body in asked if request == SENDS]
    waits = [body for body in bodies if "wait_ms" in body]
    assert waits == [{"wait_ms": 1_000}] * 2
    assert "wait_ms" not in bodies[0] and "wait_ms" not in bodies[-1]


@pytest.mark.parametrize(
    ("options", "text", "records"),
    [
        ([], "a\nb:1\n", [{"value": "a"}, {"value": "b:1"}]),
        ([], "a\nb", [{"value": "a"}, {"value": "b"}]),
        ([], "a\n\n", [{"value": "a"}, {"value": ""}]),
        (
            ["--key-separator", ":"],
            "k:v:w\n:x\ny:",
            [
                {"key": "k", "value": "v:w"},
                {"key": "", "value": "x"},
                {"key": "y", "value": ""},
            ],
        ),
    ],
)
def test_lines_become_records(
    options: list[str], text: str, records: list[dict[str, str]], typed: Any
) -> None:
    typed(text)
    asked = run(producing(sent(len(records))), "produce", *options)
    bodies = [body for request, body in asked if request == SENDS]
    assert [record for body in bodies for record in body["records"]] == records
    assert {body["max_undecided"] for body in bodies} == {100_000}


@pytest.mark.parametrize(("text", "number"), [("a:1\nnone\nb:2", 2), ("a:1\nb:2\nnone", 3)])
def test_a_line_without_a_key_is_named(
    text: str, number: int, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(text)
    asked = run(producing(sent(0)), "produce", "--key-separator", ":", code=2)
    assert asked[-1] == (CLOSES, {"wait_ms": 0, "gives_up": True})
    assert capsys.readouterr().err == (
        f"error: No key found on line number {number}: none\nhint: lines are KEY:VALUE\n"
    )


OFFSETS: Final = [{"partition": 0, "leader_epoch": 3, "start": 5, "end": 9}]
LOST: Final = [
    {"partition": 0, "record_count": 2, "error": "NONE", "text": "why", "is_in_doubt": True},
    {
        **{"partition": 1, "record_count": 1, "error": "NOT_ENOUGH_REPLICAS"},
        **{"text": "", "is_in_doubt": False},
    },
]


@pytest.mark.parametrize(
    ("options", "status", "code", "lines"),
    [
        (
            [],
            sent(4, offsets=OFFSETS),
            0,
            ["4 records acknowledged, 0 failed; ", "  partition 0: offsets 5 to 8, leader epoch 3"],
        ),
        (
            [],
            sent(1, 1, in_doubt=2, not_acknowledged=LOST),
            1,
            [
                "1 record acknowledged, 1 failed, 2 in doubt; ",
                "  partition 0: in doubt: why (2 records)",
                "  partition 1: failed: NOT_ENOUGH_REPLICAS (1 records)",
            ],
        ),
        ([], sent(1, 0, in_doubt=2), 1, ["1 record acknowledged, 0 failed, 2 in doubt; "]),
        (["--acks", "1"], sent(0, 0, in_doubt=2), 1, ["0 records acknowledged, 0 failed, 2 in "]),
        (["--acks", "0"], sent(0, 0, in_doubt=2), 0, ["0 records acknowledged, 0 failed, 2 in "]),
        (["--acks", "0"], sent(0, 1), 1, ["0 records acknowledged, 1 failed; "]),
    ],
)
def test_the_outcome_of_producing(
    options: list[str],
    status: dict[str, Any],
    code: int,
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(producing(status), "produce", "--records", "4", *options, code=code)
    out, err = capsys.readouterr()
    assert err == ""
    first, *others = out.splitlines()
    assert first.startswith(lines[0]) and first.endswith(" records/s")
    assert others == lines[1:]
    run(producing(status), "produce", "--records", "4", *options, "--json", code=code)
    values = msgspec.json.decode(capsys.readouterr().out)
    took_s, rate = values.pop("took_ms") / 1000, values.pop("records_per_s")
    assert values == status
    assert 0 <= took_s < 30
    assert status["acknowledged"] == 0 or rate >= status["acknowledged"] / (took_s + 0.001) - 0.1


@pytest.mark.parametrize("as_json", [False, True])
def test_a_server_that_ends_leaves_records_in_doubt(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    script = producing(records=[sent(6_000, 1_000, 3_000), None])
    json = ["--json"] if as_json else []
    asked = run(script, "produce", "--records", "15000", *json, code=1)
    assert [request for request, _ in asked] == ["POST /producers", SENDS, SENDS]
    out, err = capsys.readouterr()
    assert "has ended: Remote end closed connection without response" in err
    if as_json:
        status = msgspec.json.decode(out)
        assert (status["sent"], status["in_doubt"], status["undecided"]) == (15_000, 8_000, 0)
        assert (status["acknowledged"], status["failed"]) == (6_000, 1_000)
    else:
        assert out.startswith("6000 records acknowledged, 1000 failed, 8000 in doubt; ")


def test_records_that_a_refused_request_would_have_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = producing(sent(0), records=WrongState("the producer 4 is closed"))
    asked = run(script, "produce", "--records", "2", code=1)
    assert asked[-1] == (CLOSES, {"wait_ms": 0, "gives_up": True})
    assert capsys.readouterr().err.startswith("error: the producer 4 is closed\n")


def test_a_refused_request_does_not_hide_what_was_sent_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = sent(9_000, in_doubt=1_000) | {"sent": 10_000}
    script = producing(done, records=[sent(undecided=10_000), WrongState("no more")])
    run(script, "produce", "--records", "15000", "--json", code=1)
    out, err = capsys.readouterr()
    status, error = msgspec.json.decode(out), msgspec.json.decode(err)["error"]
    assert (status["sent"], status["acknowledged"], status["in_doubt"]) == (10_000, 9_000, 1_000)
    assert (error["message"], error["definite"]) == ("no more", False)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"a\n\xff\n", "line number 2 is not UTF-8"),
        (b"\xe9", "line number 1 is not UTF-8"),
        (b"a" * 1_048_577, "line number 1 has 1048577 characters; the limit is 1048576"),
    ],
)
def test_a_line_that_would_not_be_stored_as_it_is_is_refused(
    line: bytes,
    problem: str,
    typed: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    read, chunks = os.read, [b"", line]
    monkeypatch.setattr(os, "read", lambda fd, size: chunks.pop() if fd == 0 else read(fd, size))
    asked = run(producing(sent(0)), "produce", code=2)
    assert [request for request, _ in asked] == ["POST /producers", CLOSES]
    assert capsys.readouterr().err.startswith(f"error: {problem}\n")


def test_an_interrupt_gives_up_what_is_undecided(
    typed: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read, chunks = os.read, [b"a\nb\n"]

    def read_then_interrupt(descriptor: int, size: int) -> bytes:
        if descriptor != 0:
            return read(descriptor, size)
        if not chunks:
            signal.raise_signal(signal.SIGINT)
        return chunks.pop()

    monkeypatch.setattr(os, "read", read_then_interrupt)
    asked = run(producing(sent(1, in_doubt=1)), "produce", code=130)
    assert asked[-1] == (CLOSES, {"wait_ms": 0, "gives_up": True})
    out, err = capsys.readouterr()
    assert out.startswith("1 record acknowledged, 0 failed, 1 in doubt; ")
    assert err == "Interrupted\n"


def test_input_that_would_not_be_read_is_refused(
    typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("a\n")
    assert run(producing(), "produce", "--records", "2", code=2) == []
    assert capsys.readouterr().err == (
        "error: --records is given, but standard input has data\n"
        "hint: omit --records to send the lines of standard input, or add < /dev/null\n"
    )


class Clock:
    """A clock that moves only while the command sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)
        replace_sleep(monkeypatch, self.sleep)

    def sleep(self, wait_s: float) -> None:
        self.slept.append(wait_s)
        self.now_s += wait_s


def test_a_rate_is_kept_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    batches = produce._generated(1_000, 7, 200.0)
    counts = [batch.record_count for batch in batches]
    assert sum(counts) == 1_000 and counts[0] == 20
    assert clock.now_s == pytest.approx(4.9, abs=0.1)
    assert min(clock.slept) >= 0.1
    begun_s = clock.now_s
    assert [b.record_count for b in produce._generated(3, 7, 0.5)] == [1, 1, 1]
    assert clock.now_s - begun_s == pytest.approx(6.0, abs=0.2)
    assert [b.record_count for b in produce._generated(10_001, 7, None)] == [10_000, 1]


def test_what_is_waited_for_is_said_once_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch)
    progress = ClientProgress()

    def said(after_s: float, *waiting: str) -> str:
        clock.now_s += after_s
        progress.show(list(waiting), "1 sent, 0 acknowledged")
        out, err = capsys.readouterr()
        assert out == ""
        return err

    assert said(0, "a") == said(2, "a") == ""
    assert said(0.1, "a") == "waiting: a\n"
    assert said(5, "a") == ""
    assert said(0, "a", "b") == "waiting: a\nwaiting: b\n"
    assert said(0) == said(1.9, "a") == ""
    assert said(0.2, "a") == "waiting: a\n"
    many = [str(number) for number in range(25)]
    assert said(0, *many).splitlines() == [f"waiting: {number}" for number in range(20)]


def test_a_terminal_shows_the_counts_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    shown: list[str] = []
    monkeypatch.setattr(STATUS_LINE, "show", shown.append)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = ClientProgress()
    for sent_count in range(5):
        progress.show([], f"{sent_count} sent, 1 acknowledged")
        clock.now_s += 0.6
    progress.show([])
    assert shown == ["2 sent, 1 acknowledged", "4 sent, 1 acknowledged"]


def consuming(*polled: Any) -> dict[str, Any]:
    return {
        "POST /consumers": {"id": 3, "partitions": [0], "has_values": True},
        POLLS: list(polled),
        ENDS: NOTHING,
    }


def record(offset: int, key: str | None = None, value: str | None = "v") -> dict[str, Any]:
    return {
        **{"partition": 1, "leader_epoch": 2, "offset": offset, "timestamp_ms": 9},
        **{"key": key, "value": value},
    }


RECORDS: Final = {**NOTHING, "records": [record(7), record(8, "k")]}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        ([], {"start": "end"}),
        (["--from-beginning"], {"start": "beginning"}),
        (["--partition", "4"], {"start": "end", "partition": 4}),
        (
            ["--partition", "0", "--offset", "0"],
            {"start": "offset", "partition": 0, "offset": 0},
        ),
        (["--from-time", "123"], {"start": "time", "timestamp_ms": 123}),
        (
            ["--from-time", "2026-05-01T12:00:00Z"],
            {"start": "time", "timestamp_ms": 1_777_636_800_000},
        ),
        (
            ["--from-time", "2026-05-01T12:00:00.250+02:00"],
            {"start": "time", "timestamp_ms": 1_777_629_600_250},
        ),
    ],
)
def test_the_options_of_a_consumer(options: list[str], body: dict[str, Any]) -> None:
    asked = run(consuming(RECORDS), "consume", "--max-messages", "1", *options)
    wanted = {"topic": "t", "partition": None, **body}
    assert asked == [("POST /consumers", wanted), (POLLS, {"wait_ms": 400}), (ENDS, None)]


@pytest.mark.parametrize(
    "options",
    [
        ["--from-beginning", "--offset", "0", "--partition", "0"],
        ["--from-beginning", "--from-time", "5"],
        ["--offset", "0", "--partition", "0", "--from-time", "5"],
    ],
)
def test_a_consumer_begins_in_one_place(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(consuming(RECORDS), "consume", *options, code=2) == []
    said = "error: --from-beginning, --offset and --from-time are mutually exclusive\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("options", "shown"), [([], 3), (["--max-messages", "1"], 1)])
def test_records_are_printed(
    options: list[str], shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "1\t7\tleader epoch 2\tv\n",
        "1\t8\tleader epoch 2\tk\tv\n",
        "1\t9\tleader epoch 2\tk\tnull\n",
    ][:shown]
    records = [*RECORDS["records"], record(9, "k", None)]
    script = consuming({**NOTHING, "records": records}, NOTHING)
    run(script, "consume", "--timeout-ms", "1", *options)
    said = f"Processed a total of {shown} messages\n"
    assert capsys.readouterr() == ("".join(lines), said)
    run(script, "consume", "--timeout-ms", "1", *options, "--json")
    printed, notes = capsys.readouterr()
    decoded = [msgspec.json.decode(line) for line in printed.splitlines()]
    assert decoded == records[:shown]
    assert msgspec.json.decode(notes) == {"note": said.rstrip()}


def test_records_of_logs_in_memory_share_their_size(capsys: pytest.CaptureFixture[str]) -> None:
    part = {"partition": 1, "leader_epoch": 2, "start": 5, "end": 8, "size_bytes": 100}
    run(consuming({**NOTHING, "counted": [part]}, NOTHING), "consume", "--timeout-ms", "1")
    assert capsys.readouterr().out == (
        "1\t5\tleader epoch 2\t33 bytes\n"
        "1\t6\tleader epoch 2\t33 bytes\n"
        "1\t7\tleader epoch 2\t34 bytes\n"
    )


def test_a_truncation_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    cut = {**RECORDS, "truncations": ["t-1 lost offset 9"]}
    run(consuming(cut, cut, NOTHING), "consume", "--max-messages", "4")
    assert capsys.readouterr().err == (
        "warning: t-1 lost offset 9\nProcessed a total of 4 messages\n"
    )


def test_a_partition_that_cannot_be_read_ends_the_consumer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = {**RECORDS, "errors": ["offset 9 of t-1 is out of range"]}
    asked = run(consuming(broken), "consume", code=1)
    assert asked[-1] == (ENDS, None)
    out, err = capsys.readouterr()
    assert out.count("\n") == 2
    assert err == (
        "Processed a total of 2 messages\n"
        "error: offset 9 of t-1 is out of range\n"
        "hint: choose another position with --partition and --offset\n"
    )


def test_a_server_that_ends_ends_the_consumer(capsys: pytest.CaptureFixture[str]) -> None:
    run({**consuming(RECORDS, None), ENDS: None}, "consume", code=1)
    counted, error, _ = capsys.readouterr().err.splitlines()
    assert counted == "Processed a total of 2 messages"
    assert "has ended: Remote end closed connection without response" in error


def test_a_consumer_that_is_interrupted_says_how_much_it_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ClientProgress, "show", interrupted)
    asked = run(consuming(RECORDS), "consume", code=130)
    assert asked[-1] == (ENDS, None)
    assert capsys.readouterr().err == "Processed a total of 2 messages\n"


@pytest.mark.parametrize(("timeout_ms", "wait_ms"), [(300, 300), (700, 400)])
def test_a_consumer_waits_until_nothing_came_for_its_timeout(
    timeout_ms: int, wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    show = ClientProgress.show

    def show_after_a_poll(progress: ClientProgress, waiting: list[str]) -> None:
        clock.now_s += wait_ms / 1000
        show(progress, waiting)

    monkeypatch.setattr(ClientProgress, "show", show_after_a_poll)
    script = consuming(NOTHING, RECORDS, NOTHING) if timeout_ms == 700 else consuming(NOTHING)
    asked = run(script, "consume", "--timeout-ms", str(timeout_ms))
    polls = [body for request, body in asked if request == POLLS]
    assert polls == [{"wait_ms": wait_ms}] * (4 if timeout_ms == 700 else 1)


def test_standard_input_that_cannot_be_asked_has_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")

    monkeypatch.setattr(produce, "ioctl", refuse)
    assert produce._waiting_input_bytes() == 0
