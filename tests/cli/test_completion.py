"""What shells complete, as their completion scripts ask for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import KLAMM, ROOT, Up, environ_for, klamm_up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with klamm_up(tmp_path_factory.mktemp("up"), "--brokers", "2") as running:
        server = ("--bootstrap-server", running.url.removeprefix("http://"))
        running.ok("topics", *server, "--create", "--topic", "orders", "--partitions", "2")
        yield running


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
        ("klamm disk fail --kind e", ["enospc", "eio"]),
        ("klamm broker kill ", []),
    ],
)
def test_commands_and_options(tmp_path: Path, words: str, completed: list[str]) -> None:
    assert complete(tmp_path, words).split() == completed


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
    ],
)
def test_brokers_topics_and_partitions(up: Up, words: str, completed: list[str]) -> None:
    assert complete(up.data_dir, words).split() == completed


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "drill\n"),
        ("zsh", '"drill":"Run scripted failures, simulated or for real."'),
        ("fish", "drill\tRun scripted failures, simulated or for real."),
    ],
)
def test_three_shells_are_answered(tmp_path: Path, shell: str, line: str) -> None:
    assert line in complete(tmp_path, "klamm dr", shell)
