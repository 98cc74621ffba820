"""How `klamm` ends: words, hints and exit codes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from klamm.cli import errors
from klamm.cli.client import ServerUnavailable
from klamm.cli.interrupted import NOTHING_STARTED
from klamm.cli.kafka_tools import _Pauses
from klamm.cli.main import main
from klamm.cluster.errors import Interrupted, KlammError, NotKlamm
from klamm.placement.broker_metadata import MAX_BROKERS
from klamm.tools.command_result import ErrorDescription
from klamm.world.journal.archive import MAX_SEGMENT_BYTES
from tests.scripted_api import STATUS, scripted_api
from tests.waiting import replace_sleep

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nope"], "error: No such command 'nope'.\nhint: klamm --help lists its commands\n"),
        (["--nope"], "error: No such option: --nope\nhint: klamm --help lists its options\n"),
        (
            ["pools", "plan", "--zookeeper"],
            "error: Option '--zookeeper' requires an argument.\n"
            "hint: klamm pools plan --help lists its options\n",
        ),
        (
            ["--version=5"],
            "error: Option '--version' does not take a value.\n"
            "hint: klamm --help lists its options\n",
        ),
        (
            ["zk", "secure"],
            "error: Missing option '--zookeeper'.\n"
            "hint: klamm zk secure --help lists its options\n",
        ),
        (
            ["placement", "assign", "--brokers", "0", "--partitions", "x", "--rf", "1"],
            "error: Invalid value for '--partitions': 'x' is not a whole number\n"
            "hint: klamm placement assign --help lists its options\n",
        ),
        (
            ["disk", "fail", "--kind", "full"],
            "error: Invalid value for '--kind': 'full' is not one of "
            "'enospc', 'eio', 'short-write', 'fsync'.\n"
            "hint: klamm disk fail --help lists its options\n",
        ),
        (
            ["disk", "fail", "--kind", "eio", "--broker", "-1"],
            "error: Invalid value for '--broker': must be at least 0, not -1\n"
            "hint: klamm disk fail --help lists its options\n",
        ),
        (
            ["disk", "fail", "1", "--kind", "eio"],
            "error: Got unexpected extra argument(s) (1)\n"
            "hint: write the broker as an option: klamm disk fail --broker 1\n",
        ),
        (
            ["status", "1"],
            "error: Got unexpected extra argument(s) (1)\n"
            "hint: klamm status --help lists its options\n",
        ),
        (
            ["up", "--journal-segment-bytes", "9999999999999"],
            "error: Invalid value for '--journal-segment-bytes': must be between "
            f"1024 and {MAX_SEGMENT_BYTES}, not 9999999999999\n"
            "hint: klamm up --help lists its options\n",
        ),
        (
            ["produce", "--topic", "t", "--rate", "fast"],
            "error: Invalid value for '--rate': 'fast' is not a number\n"
            "hint: klamm produce --help lists its options\n",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line_and_a_hint(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == 2
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["drill", "run", "leader-loss", "--until", "row {}"], "is not a moment"),
        (["explain", "t-{}", "--journal", "JOURNAL"], "is neither a partition nor an event"),
        (["explain", "#{}", "--journal", "JOURNAL"], "is neither a partition nor an event"),
        (["explain", "t-0", "--at", "epoch:{}", "--journal", "JOURNAL"], "is not a valid time"),
        (["replay", "run", "JOURNAL", "--from", "{}"], "invalid time"),
        (["replay", "generate", "--plant", "gap={}", "--out", "x"], "expected KIND=N"),
        (["controller", "run", "--zookeeper", "x:1", "--listener", "x:{}"], "not [NAME://]HOST"),
    ],
)
def test_a_number_with_more_digits_than_python_reads_is_one_line(
    args: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(
        b'{"v":1,"run_id":"r","t_ms":5,"seq":1,"controller":0,"epoch":1,"kind":"event"}\n'
    )
    words = [word.format("1" * 5000).replace("JOURNAL", str(journal)) for word in args]
    assert main(words) == 2
    error, *hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ") and said in error
    assert len(hint) <= 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "zk dump --zookeeper z:1 --server s:1",
            "--server and --data-dir cannot be combined with --zookeeper",
        ),
        (
            "zk dump --zookeeper z:1 --data-dir d",
            "--server and --data-dir cannot be combined with --zookeeper",
        ),
        ("consume --topic t --offset 3", "The partition is required when offset is specified."),
        ("produce --topic t --acks 2", "--acks 2: unknown value"),
        (
            "placement assign --brokers 0-2 --partitions 1 --rf 1 --seed 1 --start-index 0 "
            "--shift 0",
            "--seed has no effect if --start-index and --shift are both given",
        ),
        (
            "placement assign --brokers 0-99999 --partitions 1 --rf 1",
            f"--brokers: the range 0-99999 has more than {MAX_BROKERS} brokers",
        ),
        (
            "reassign-partitions --zookeeper z:1 --verify --reassignment-json-file f "
            "--save-throttles s",
            "--save-throttles requires --execute",
        ),
        (
            "reassign-partitions --zookeeper z:1 --execute --reassignment-json-file f "
            "--restore-throttles s",
            "--restore-throttles requires --verify or --cancel",
        ),
        (
            "reassign-partitions --zookeeper z:1 --execute --reassignment-json-file f "
            "--show-throttles",
            "--show-throttles requires --verify, --cancel or --list",
        ),
        (
            "reassign-partitions --zookeeper z:1 --verify --reassignment-json-file f "
            "--preserve-throttles --restore-throttles s",
            "give either --restore-throttles or --preserve-throttles, but not both",
        ),
        ("replay ingest a b --follow --out o", "--follow takes one journal, not 2 paths"),
        (
            "replay ingest a --follow --out o --master local",
            "--follow reads local files only; it cannot be combined with --master",
        ),
    ],
)
def test_options_that_do_not_go_together(
    line: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_SERVER", "127.0.0.1:1")
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.partition("\n")[0]) == ("", f"error: {said}")


def test_a_command_finds_the_zookeeper_of_a_running_klamm(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.cli.connect.CONNECTION_TIMEOUT_MS", 100)
    zookeeper = {**STATUS["zookeeper"], "connect": "127.0.0.1:1/deep"}
    with scripted_api({"GET /status": {**STATUS, "zookeeper": zookeeper}}) as api:
        assert main(["zk", "dump", "--server", api.address]) == 1
    assert "no ZooKeeper server responds at 127.0.0.1:1 within 100 ms" in capsys.readouterr().err


def test_a_tool_that_waits_for_brokers_says_so_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    replace_sleep(monkeypatch, slept.append)
    pauses = _Pauses()
    for _ in range(3):
        pauses.sleep(600)
    assert capsys.readouterr().err == ""
    for _ in range(3):
        pauses.sleep(600)
    assert capsys.readouterr().err == (
        "waiting for brokers to create the replicas that are to be moved\n"
    )
    assert slept == [0.6] * 6


@pytest.mark.parametrize("package", ["duckdb", "pyspark.sql"])
def test_a_package_that_is_not_installed(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert errors.run(lambda: fail(ModuleNotFoundError("no", name=package))) == 1
    name = package.partition(".")[0]
    assert capsys.readouterr().err == (
        f"error: this command needs {name}, which is not installed\n"
        "hint: pip install 'klamm[replay]'\n"
    )
    with pytest.raises(ModuleNotFoundError):
        errors.run(lambda: fail(ModuleNotFoundError("no", name="klamm.nothing")))


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (KlammError("m", definite=False), errors.MAY_BE_DONE),
        (ServerUnavailable("m"), errors.MAY_BE_REPEATED),
        (ServerUnavailable("m", definite=False), errors.MAY_BE_DONE),
        (ServerUnavailable("m", hint="own"), "own"),
        (KlammError("m"), None),
    ],
)
def test_what_is_known_of_the_outcome_is_a_hint(
    error: KlammError, hint: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    errors.print_error(error)
    assert capsys.readouterr().err == "error: m\n" + ("" if hint is None else f"hint: {hint}\n")


@pytest.mark.parametrize("args", [["--json", "broker", "kill"], ["broker", "--json", "kill"]])
def test_json_before_the_command_has_a_hint(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "7"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["message"] == "No such option: --json"
    assert error["hint"] == "write --json after the command, e.g. klamm status --json"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["--zk-digest", "klamm"],
            "error: --zk-digest (KLAMM_ZK_DIGEST) is not USER:PASSWORD\n"
            "hint: write a user name, a colon and the password\n",
        ),
        (
            ["--max-partitions", "0"],
            "error: --max-partitions must be at least 1, not 0\n"
            "hint: the defaults are 200000 partitions per request and 1000000 in the cluster\n",
        ),
        (
            ["--host", "0.0.0.0"],
            "error: --host 0.0.0.0 is reachable from other machines, so a token is required\n"
            "hint: give --token-file FILE or --token, or set KLAMM_TOKEN\n",
        ),
        (
            ["--host", "0.0.0.0", "--token", "t"],
            "error: --host 0.0.0.0 requires --allowed-host\n"
            "hint: --allowed-host NAME is a host name that clients use in their requests\n",
        ),
    ],
)
def test_refused_options_of_up_have_a_hint(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--brokers", "1", *args]) == 2
    assert capsys.readouterr() == ("", said)


def test_an_unusable_token_file_has_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "token"
    assert main(["up", "--brokers", "1", "--token-file", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"error: the token file {path} cannot be read or written: No such file or directory\n"
        "hint: use a file that this user may read; klamm creates a missing file, but not a "
        "missing directory\n"
    )


@pytest.mark.parametrize(
    ("command", "example"),
    [
        ("up", "--zk-tls-ca ca.pem"),
        ("up", "--zk-digest klamm:secret"),
        ("up", "--journal-fsync"),
        ("up", "--max-partitions 50000"),
        ("zk", "klamm zk load kafka.json"),
        ("zk servers", "klamm zk servers --json"),
        ("zk kill", "klamm zk kill 2"),
        ("zk start", "klamm zk start 2"),
        ("zk pause", "klamm zk pause 2"),
        ("zk resume", "klamm zk resume 2"),
        ("disk fail", "klamm disk fail --journal --kind eio"),
    ],
)
def test_the_help_has_examples(
    command: str, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--help"]) == 0
    assert example in capsys.readouterr().out.partition("Examples:\n")[2]


@pytest.mark.parametrize("args", [["--help"], ["zk", "dump", "--help"], ["placement", "--help"]])
def test_help_is_on_standard_output(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Usage: klamm")
    assert printed.err == ""


def test_no_command_shows_the_help_as_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "klamm placement assign --brokers 0-4" in printed.err


def test_the_option_version_prints_the_version_of_klamm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("klamm ")


def test_the_help_begins_with_what_one_begins_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    commands = text.partition("Run and watch a cluster:\n")[2].splitlines()
    assert [line.split()[0] for line in commands[:2]] == ["up", "status"]
    assert "..." not in text.partition("Run and watch")[2]


@pytest.mark.parametrize(
    ("module", "args", "said"),
    [
        ("typer", ["--help"], "Interrupted\n"),
        ("typer", ["up", "--brokers", "3"], f"{NOTHING_STARTED}\n"),
        ("yaml", ["drill", "run", "leader-loss"], "Interrupted\n"),
    ],
)
def test_an_interrupt_during_the_imports_is_one_line(
    tmp_path: Path, module: str, args: list[str], said: str
) -> None:
    # Found instead of the real one, it sends a Ctrl-C while klamm imports it.
    (tmp_path / f"{module}.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "klamm", *args],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


@pytest.mark.parametrize("closed", [">&-", "2>&- >&-", "<&-"])
def test_a_closed_standard_stream_is_like_dev_null(closed: str) -> None:
    command = f"{shlex.join([sys.executable, '-m', 'klamm', '--version'])} {closed}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def fail(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KlammError("a\nb"), 1, "error: a b\n"),
        (NotKlamm("no", hint="go elsewhere"), 1, "error: no\nhint: go elsewhere\n"),
        (KeyboardInterrupt(), 130, "Interrupted\n"),
        (typer.Abort(), 130, "Interrupted\n"),
        (Interrupted("left", hint="go on"), 130, "left\nhint: go on\n"),
        (SystemExit(130), 130, "Interrupted\n"),
        (SystemExit(143), 143, "Ended by SIGTERM\n"),
        (PermissionError(13, "Permission denied", "f"), 1, "error: f: Permission denied\n"),
        (OSError("odd"), 1, "error: odd\n"),
    ],
)
def test_what_a_command_raises(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert errors.run(lambda: fail(error)) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(said)
    assert errors.run(lambda: fail(error), as_json=True) == code
    printed = capsys.readouterr()
    described = json.loads(printed.err)
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert described["exit_code"] == code
    assert list(described["error"]) == list(ErrorDescription.__struct_fields__)
    assert " ".join(described["error"]["message"].split()) in said


def test_an_unexpected_exception_is_raised_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        errors.run(lambda: fail(ZeroDivisionError()))


@pytest.mark.parametrize("partitions", ["1", "20000"])
def test_a_reader_that_has_enough_hears_no_complaint(partitions: str) -> None:
    line = f"placement assign --brokers 0-9 --rf 3 --partitions {partitions}".split()
    with subprocess.Popen(
        [sys.executable, "-m", "klamm", *line],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_the_short_option_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (["-h"], ["broker", "start", "-h"]):
        assert main(args) == 0
        assert "Show this message and exit." in capsys.readouterr().out
