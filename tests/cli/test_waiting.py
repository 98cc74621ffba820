"""Commands that wait say for what, and Ctrl-C ends them with one line, on real terminals."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server

import pexpect
import pytest

from klamm.cli.main import main
from klamm.cli.waiting import waiting
from tests.serving import KLAMM, ROOT, environ_for, klamm_up, on_terminal, start_klamm

SLOW_BODY = (
    b'{"error":{"error":"WrongState","code":null,"message":"the answer","hint":null,'
    b'"definite":true,"retriable":false}}'
)
WAITS = [
    ("broker stop 1", "the controlled shutdown of broker 1"),
    ("broker start 1 --no-wait", "SERVER to respond to POST /brokers/1/start"),
    ("broker add", "the new broker to register"),
    ("controller move", "the next controller"),
    ("zk start 2", "ZooKeeper server 2 (start)"),
    ("status", "SERVER to respond to GET /status"),
    ("topics --list", "SERVER to respond to GET /topics"),
]
ERASED = r"\r\x1b\[K"


class SlowServer(ThreadingHTTPServer):
    """A server whose first request is answered after ``answer`` was called."""

    daemon_threads = True

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        super().__init__(("127.0.0.1", 0), SlowHandler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the client may have been interrupted."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class SlowHandler(BaseHTTPRequestHandler):
    """Refuses every request, late."""

    server: SlowServer

    def do_GET(self) -> None:
        self.server.may_answer.wait(60)
        self.send_response(409)
        self.send_header("Content-Length", str(len(SLOW_BODY)))
        self.end_headers()
        self.wfile.write(SLOW_BODY)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def slow() -> Iterator[SlowServer]:
    with SlowServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("words", "what"), WAITS)
def test_a_terminal_shows_what_a_command_waits_for(
    slow: SlowServer, tmp_path: Path, words: str, what: str
) -> None:
    what = what.replace("SERVER", f"http://{slow.address}")
    with on_terminal(tmp_path, *words.split(), KLAMM_SERVER=slow.address) as process:
        process.expect(re.escape(f"waiting for {what} (") + r"\d s\)")
        assert process.before == "\r\x1b[K"
        slow.may_answer.set()
        process.expect(rf"^{ERASED}[Ee]rror.*: the answer\r\n")
        process.expect(pexpect.EOF)
        assert process.before == ""
        process.close()
        assert process.exitstatus == 1


@pytest.mark.parametrize(("words", "what"), WAITS[0:6:5])
def test_a_pipe_gets_one_plain_line(
    slow: SlowServer, tmp_path: Path, words: str, what: str
) -> None:
    what = what.replace("SERVER", f"http://{slow.address}")
    with subprocess.Popen(
        [*KLAMM, *words.split()],
        cwd=ROOT,
        env=environ_for(tmp_path, KLAMM_SERVER=slow.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"waiting for {what}\n"
        slow.may_answer.set()
        assert process.communicate(timeout=30) == ("", "error: the answer\n")


def test_a_long_status_line_is_cut_to_the_width_of_the_terminal(
    slow: SlowServer, tmp_path: Path
) -> None:
    with on_terminal(tmp_path, "status", columns=30, KLAMM_SERVER=slow.address) as process:
        process.expect(rf"{ERASED}(waiting[^\r]*)\r")
        assert len(process.match[1]) == 29


def test_a_hunt_counts_on_one_line_of_the_terminal(tmp_path: Path) -> None:
    words = ("hunt", "--seeds", "2", "--jobs", "1", "--out", str(tmp_path))
    with on_terminal(tmp_path, *words, columns=200) as process:
        process.expect(pexpect.EOF)
    live, _, summary = process.before.rpartition("\x1b[K")
    assert live.startswith("\r\x1b[K1 seed (")
    assert "\\u" not in live
    assert re.fullmatch(r"2 seeds \(.*, 0 violations\r\n", summary)


@pytest.mark.parametrize(
    ("words", "json"),
    [("broker stop 1", False), ("topics --list", False), ("broker stop 1 --json", True)],
)
def test_ctrl_c_ends_a_wait_with_one_line(
    slow: SlowServer, tmp_path: Path, words: str, json: bool
) -> None:
    with on_terminal(tmp_path, *words.split(), KLAMM_SERVER=slow.address) as process:
        process.expect_exact("waiting for ")
        assert_interrupted(process, '{"error":{"error":"Interrupted"' if json else "Interrupted")


def test_ctrl_c_at_the_very_start_of_a_wait_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt), waiting("nothing"):
            pass
    with waiting("nothing"):  # the interrupted wait does not count as going on
        assert any(one.name == "waiting" for one in threading.enumerate())


def test_ctrl_c_ends_the_wait_for_a_zookeeper(tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        for words in ("zk dump", "topics --list", "pools check --pools pools.yaml"):
            (tmp_path / "pools.yaml").write_text("pools: {p: [0]}\ntopics: {t: p}\n")
            pools = str(tmp_path / "pools.yaml")
            command = [word.replace("pools.yaml", pools) for word in words.split()]
            with on_terminal(tmp_path, *command, "--zookeeper", place) as process:
                process.expect_exact(f"waiting for ZooKeeper at {place} (")
                assert_interrupted(process)


@pytest.mark.slow
def test_ctrl_c_ends_each_long_command_with_one_line(tmp_path: Path) -> None:
    with klamm_up(tmp_path, "--brokers", "1") as up:
        up.ok("topics", "--create", "--topic", "t", "--partitions", "1")
        for words, seen in (
            ("journal tail --follow", "topic created t"),
            ("produce --topic t --records 1000000 --rate 10", "acknowledged"),
        ):
            with on_terminal(tmp_path, *words.split()) as process:
                process.expect_exact(seen)
                assert_interrupted(process, is_last=True)
        with on_terminal(tmp_path, "consume", "--topic", "t", "--from-beginning") as process:
            process.expect_exact("leader epoch")
            assert_interrupted(process, r"Processed a total of \d+ messages", is_last=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("demo --no-spark", "running step: "),
        ("drill run leader-loss --real", "start brokers 0, 1, 2"),
    ],
)
def test_ctrl_c_ends_a_private_cluster_with_one_line(tmp_path: Path, words: str, seen: str) -> None:
    with on_terminal(tmp_path, *words.split(), TMPDIR=str(tmp_path)) as process:
        process.expect_exact(seen)
        assert_interrupted(process, is_last=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_the_start_of_spark_is_said_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    folder = tmp_path / "drill"
    assert main(["drill", "run", "leader-loss", "--data-dir", str(folder)]) == 0
    journal = str(folder / "1-leader-loss" / "journal.jsonl")
    with create_server(("127.0.0.1", 0)) as master:  # it never answers
        address = f"spark://127.0.0.1:{master.getsockname()[1]}"
        words = ("replay", "run", journal, "--master", address)
        with on_terminal(tmp_path, *words) as process:
            process.expect(r"waiting for Spark to start \(\d+ s\)")
        with subprocess.Popen(
            [*KLAMM, *words], env=environ_for(tmp_path), stderr=subprocess.PIPE, text=True
        ) as piped:
            assert piped.stderr is not None
            said = [next(line for line in piped.stderr if "Spark" in line)]
            piped.terminate()
            piped.communicate(timeout=60)
    assert said == ["waiting for Spark to start\n"]


@pytest.mark.slow
def test_up_shows_its_start_on_standard_error_and_ends_with_one_line(tmp_path: Path) -> None:
    with on_terminal(tmp_path, "up", "--brokers", "2", "--port", "0") as process:
        for line in (
            "Starting ZooKeeper",
            "Starting 2 brokers",
            "Controller elected",
            "klamm is up",
        ):
            process.expect_exact(line)
        process.expect_exact("Ctrl-C ends the cluster.\r\n")
        assert_interrupted(process, "klamm has ended")
    with start_klamm(tmp_path, "up", "--brokers", "1", "--port", "0") as process:
        try:
            assert process.stdout is not None
            addresses = [process.stdout.readline() for _ in range(2)]
            process.terminate()
            printed, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert [line.split(": ")[0] for line in addresses] == ["Journal and logs", "klamm is up"]
    assert printed == "klamm has ended\n"
    assert said.startswith("Starting ZooKeeper\n")


def assert_interrupted(
    process: pexpect.spawn[str], line: str = "Interrupted", *, is_last: bool = False
) -> None:
    """Press Ctrl-C: the command must end with 130, and print this line, the only or last one."""
    process.sendintr()
    process.expect(pexpect.EOF)
    printed = re.sub(r"[^\n]*\r\x1b\[K", "", str(process.before).replace("\r\n", "\n"))
    lines = re.sub(r"\x1b\[\??[0-9;]*[A-Za-z]", "", printed).splitlines()
    assert "Traceback" not in printed
    assert re.match(line, lines[-1]), printed
    assert is_last or len(lines) == 1, printed
    process.close()
    assert (process.exitstatus, process.signalstatus) == (130, None)
