"""The commands that README.md shows are there, with the options it gives them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from klamm.admin import log_dirs_command
from klamm.admin.configs.options import ConfigOptions
from klamm.admin.elections import command as election_command
from klamm.admin.reassignments.options import ReassignOptions
from klamm.admin.topics.options import TopicCommandOptions
from klamm.cli.app import app

ROOT = Path(__file__).parents[3]
LINES = [
    line.strip()
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("    ")
]
KLAMM = [shlex.split(line, comments=True)[1:] for line in LINES if line.startswith("klamm ")]
KAFKA_TOOLS = {
    "configs": ConfigOptions,
    "leader-election": election_command.PARSER.parse,
    "log-dirs": log_dirs_command.PARSER.parse,
    "reassign-partitions": ReassignOptions,
    "topics": TopicCommandOptions,
}


@pytest.mark.parametrize("words", KLAMM, ids=" ".join)
def test_klamm_takes_the_command(words: list[str]) -> None:
    if words[0] in KAFKA_TOOLS:
        assert KAFKA_TOOLS[words[0]](words[1:])
        return
    command: Any = typer.main.get_command(app)
    context = command.make_context("klamm", list(words), resilient_parsing=True)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
        assert name is not None
        context = command.make_context(name, list(words))
    assert context.params


def test_make_has_the_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {line.split()[1] for line in LINES if line.startswith("make ")}
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^([a-z-]+):", makefile, re.M))
