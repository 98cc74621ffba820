"""What shells complete, as their completion scripts ask for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pexpect
import pytest

from klamm.cli.completion import (
    complete_drill,
    complete_drill_file,
    complete_fault,
    complete_shipped_drill,
    complete_tool,
)
from klamm.cli.main import main
from klamm.server.data_dir import ADDRESS_FILE
from tests.scripted_api import BROKER, STATUS, scripted_api
from tests.serving import KLAMM, ROOT, Up, environ_for, klamm_up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with klamm_up(tmp_path_factory.mktemp("up"), "--brokers", "2") as running:
        server = ("--bootstrap-server", running.url.removeprefix("http://"))
        running.ok("topics", *server, "--create", "--topic", "orders", "--partitions", "2")
        yield running


def test_drill_files_are_completed_literally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a[1].yaml", "a1.yaml", "b.yml", "c.txt"):
        (tmp_path / name).touch()
    assert complete_drill_file("a[1]") == ["a[1].yaml"]
    assert complete_drill_file("") == ["a1.yaml", "a[1].yaml", "b.yml"]
    assert complete_drill("leader-l") == ["leader-loss"]
    assert complete_drill("b") == [*complete_shipped_drill("b"), "b.yml"]
    assert complete_fault("kill,ki") == ["kill,kill-all"]
    assert complete_fault("pause,ki") == ["pause,kill", "pause,kill-all"]


def test_a_tool_has_its_own_options_and_those_of_klamm() -> None:
    assert complete_tool("kafka-topics", [], "--js") == ["--json"]
    assert complete_tool("kafka-topics", [], "--data") == ["--data-dir"]
    assert complete_tool("kafka-configs", ["--entity-type"], "br") == ["brokers"]
    assert complete_tool("kafka-topics", ["--partitions"], "1") == []


def complete(data_dir: Path, words: str, shell: str = "bash") -> str:
    """Return what klamm prints for a line up to the cursor."""
    position = len(words.split()) - (not words.endswith(" "))
    asked = {
        "_KLAMM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(position),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    environ = environ_for(data_dir, **asked)
    done = subprocess.run(
        KLAMM, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("klamm re", ["reassign-partitions", "replay"]),
        ("klamm broker k", ["kill"]),
        ("klamm replay ge", ["generate"]),
        ("klamm topics --desc", ["--describe"]),
        ("klamm reassign-partitions --boot", ["--bootstrap-server"]),
        ("klamm reassign-partitions --ser", ["--server"]),
        ("klamm disk fail --kind e", ["enospc", "eio"]),
        ("klamm broker kill ", []),
        ("klamm broker kill --data-dir nowhere ", []),
        ("klamm consume --data-dir nowhere --topic ", []),
        ("klamm topics --data-dir nowhere --topic ", []),
        ("klamm drill run leader-l", ["leader-loss"]),
        (
            "klamm drill run leader-loss lab/drills/shipped/leader-l",
            ["lab/drills/shipped/leader-loss.yaml"],
        ),
        ("klamm drill show leader-l", ["leader-loss"]),
        ("klamm produce --acks a", ["all"]),
        ("klamm up --zookeeper-servers ", ["1", "3", "5"]),
        ("klamm hunt --faults kill,pau", ["kill,pause"]),
        ("klamm leader-election --election-type un", ["unclean"]),
        ("klamm configs --entity-type ", ["topics", "brokers"]),
    ],
)
def test_commands_and_options(tmp_path: Path, words: str, completed: list[str]) -> None:
    assert complete(tmp_path, words).split() == completed


def test_a_damaged_address_file_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / ADDRESS_FILE).mkdir()
    assert complete(tmp_path, f"klamm broker kill --data-dir {tmp_path} ").split() == []


@pytest.mark.slow
@pytest.mark.parametrize("words", ["klamm broker kill", "klamm network isolate 0"])
def test_the_data_directory_of_the_line(tmp_path: Path, up: Up, words: str) -> None:
    assert complete(tmp_path, f"{words} --data-dir {up.data_dir} ").split() == ["0", "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("klamm broker kill ", ["0", "1"]),
        ("klamm network isolate ", ["0", "1"]),
        ("klamm disk slow --broker ", ["0", "1"]),
        ("klamm produce --topic ", ["orders"]),
        ("klamm consume --topic or", ["orders"]),
        ("klamm consume --topic x", []),
        ("klamm topics --describe --topic ", ["orders"]),
        ("klamm explain ", ["orders-0", "orders-1"]),
        ("klamm consume --topic orders --partition ", ["0", "1"]),
        ("klamm produce --topic orders --partition ", ["0", "1"]),
        ("klamm broker fail-log-dir 1 ", ["kafka-logs"]),
        ("klamm disk fail --broker 1 --log-dir k", ["kafka-logs"]),
        ("klamm zk kill ", ["1", "follower", "leader"]),
        ("klamm configs --broker ", ["0", "1"]),
        ("klamm configs --entity-type brokers --entity-name ", ["0", "1"]),
        ("klamm configs --entity-type topics --entity-name ", ["orders"]),
        ("klamm log-dirs --broker-list 0,", ["0,1"]),
        ("klamm log-dirs --topic-list or", ["orders"]),
        ("klamm reassign-partitions --broker-list ", ["0", "1"]),
        ("klamm leader-election --topic orders --partition ", ["0", "1"]),
    ],
)
def test_brokers_topics_and_partitions(up: Up, words: str, completed: list[str]) -> None:
    assert complete(up.data_dir, words).split() == completed


TOPICS: Final = ("orders", "others")
PARTITION: Final[dict[str, Any]] = {
    **{"leader": 0, "replicas": [0], "isr": [0], "min_isr": None, "marked_for_deletion": False},
    "reassignment": None,
}
DESCRIBED: Final = [
    {
        **{"topic": topic, "topic_id": None, "configs": {}, "marked_for_deletion": False},
        "partitions": [{**PARTITION, "topic": topic, "partition": n} for n in (1, 0)],
    }
    for topic in TOPICS
]
SERVERS: Final = [{"id": n, "address": "h:1", "state": "follower"} for n in (1, 2)]
STATE: Final = {
    **STATUS,
    "brokers": [{**BROKER, "id": n} for n in (2, 0, 10)],
    "zookeeper": {**STATUS["zookeeper"], "servers": SERVERS},
}
LOG_DIRS: Final = {
    "brokers": [
        {
            "broker": 1,
            "log_dirs": [{"path": path, "error": None, "replicas": []} for path in ("d1", "d0")],
        }
    ]
}


@pytest.mark.parametrize(
    ("words", "request_", "body", "completed"),
    [
        ("klamm broker kill ", "GET /status", None, ["0", "10", "2"]),
        ("klamm broker kill 1", "GET /status", None, ["10"]),
        ("klamm configs --broker ", "GET /status", None, ["0", "10", "2"]),
        (
            "klamm configs --entity-type brokers --entity-name ",
            "GET /status",
            None,
            ["0", "10", "2"],
        ),
        ("klamm configs --entity-type topics --entity-name or", "GET /topics", None, ["orders"]),
        ("klamm zk kill ", "GET /status", None, ["1", "2", "follower", "leader"]),
        ("klamm consume --topic o", "GET /topics", None, ["orders", "others"]),
        ("klamm topics --topic ot", "GET /topics", None, ["others"]),
        ("klamm log-dirs --broker-list 0,", "GET /status", None, ["0,10", "0,2"]),
        ("klamm log-dirs --topic-list orders,", "GET /topics", None, ["orders,others"]),
        (
            "klamm consume --topic orders --partition ",
            "POST /topics/describe",
            {"topics": ["orders"]},
            ["0", "1"],
        ),
        (
            "klamm leader-election --topic orders --partition ",
            "POST /topics/describe",
            {"topics": ["orders"]},
            ["0", "1"],
        ),
        (
            "klamm explain or",
            "POST /topics/describe",
            {"topics": ["orders", "others"]},
            ["orders-0", "orders-1"],
        ),
        (
            "klamm broker fail-log-dir 1 ",
            "POST /log-dirs/describe",
            {"brokers": [1]},
            ["d0", "d1"],
        ),
        (
            "klamm disk fail --broker 1 --log-dir ",
            "POST /log-dirs/describe",
            {"brokers": [1]},
            ["d0", "d1"],
        ),
    ],
)
@pytest.mark.parametrize("place", ["variable", "--server", "--bootstrap-server"])
def test_names_in_the_running_cluster(
    place: str,
    words: str,
    request_: str,
    body: object,
    completed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools = ("configs", "topics", "log-dirs", "leader-election")
    if place == "--bootstrap-server" and words.split()[1] not in tools:
        place = "--server"
    described = DESCRIBED[:1] if body == {"topics": ["orders"]} else DESCRIBED
    script = {
        "GET /status": STATE,
        "GET /topics": {"topics": list(TOPICS)},
        "POST /topics/describe": {"topics": described},
        "POST /log-dirs/describe": LOG_DIRS,
    }
    with scripted_api(script) as api:
        if place == "variable":
            monkeypatch.setenv("KLAMM_SERVER", api.address)
        else:
            *before, last = words.split(" ")
            words = " ".join([*before[:2], *before[2:], place, api.address, last])
            option = before[-1] if before[-1].startswith("--") else None
            if option is not None:
                words = " ".join([*before[:-1], place, api.address, option, last])
        assert completions(words, monkeypatch, capsys) == completed
    assert api.asked[-1] == (request_, body)


def completions(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """What klamm in this process prints for a line up to the cursor."""
    monkeypatch.setenv("_KLAMM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - (not words.endswith(" "))))
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.split()


SHELLS = ("bash", "zsh", "fish")


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_tab_key_completes_in_a_shell_on_a_terminal(tmp_path: Path, up: Up, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = environ_for(up.data_dir, PATH=path, HOME=str(tmp_path), TERM="xterm")
    installed = subprocess.run(
        [*KLAMM, "--install-completion", shell],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert installed.stdout.startswith(f"{shell} completion is installed in {tmp_path}")
    process = pexpect.spawn(shell, env=environ, encoding="utf-8", timeout=30, dimensions=(40, 200))
    try:
        process.sendline("echo start''ed")
        process.expect_exact("started")
        for words, added in (
            ("klamm broker pow", "er-off"),
            ("klamm status --js", "on"),
            ("klamm consume --topic or", "ders"),
        ):
            process.send(f"\x15{words}\t")
            # fish repaints the whole word in colours.
            process.expect_exact(f"{words.split()[-1]}{added}")
    finally:
        process.close(force=True)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "completed"), [("klamm consume --topic or", "orders"), ("klamm broker kill ", "1")]
)
def test_three_shells_are_answered_with_topics_and_brokers(
    up: Up, shell: str, words: str, completed: str
) -> None:
    assert re.search(rf"\b{completed}\b", complete(up.data_dir, words, shell))


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "drill\n"),
        ("zsh", '"drill":"Run scripted failures, in simulation or on a real ZooKeeper."'),
        ("fish", "drill\tRun scripted failures, in simulation or on a real ZooKeeper."),
    ],
)
def test_three_shells_are_answered(tmp_path: Path, shell: str, line: str) -> None:
    assert line in complete(tmp_path, "klamm dr", shell)


@pytest.mark.parametrize(
    ("words", "help_"),
    [
        ("klamm network hea", "End all faults of the network and of requests, and deliver the"),
        ("klamm network cut --onl", "Which messages: records (Fetch and Produce) or control"),
    ],
)
def test_a_help_line_is_not_wrapped(tmp_path: Path, words: str, help_: str) -> None:
    """Shells would take its second line for another completion."""
    (line,) = complete(tmp_path, words, "fish").splitlines()
    assert line.startswith(f"{words.rpartition(' ')[2]}")
    assert help_ in line and line.endswith(".")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_installed_script_is_the_one_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["--show-completion", shell]) == 0
    shown = capsys.readouterr().out
    assert main(["--install-completion", shell]) == 0
    installed = re.match(rf"{shell} completion is installed in (.*?);", capsys.readouterr().out)
    assert installed is not None
    assert Path(installed[1]).read_text() == shown


def test_the_script_of_the_shell_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for shell, part in (("bash", "complete -o"), ("zsh", "#compdef klamm"), ("fish", "--no-files")):
        assert main(["--show-completion", shell]) == 0
        assert part in capsys.readouterr().out
    assert main(["--show-completion", "tcsh"]) == 2
    assert "'tcsh' is not one of" in capsys.readouterr().err
