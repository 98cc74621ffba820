"""README.md and the pages: klamm takes the commands they show, and prose is wrapped."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer

from klamm.cli.app import app
from klamm.tools import log_dirs_command
from klamm.tools.configs.options import ConfigOptions
from klamm.tools.elections import command as election_command
from klamm.tools.reassignments.options import ReassignOptions
from klamm.tools.topics.options import TopicCommandOptions
from tests.shown_commands import PAGES, ROOT, blocks, page_commands

COLUMNS_MAX = 100
LANGUAGES = {"console", "json", "mermaid", "properties", "python", "sh", "text", "yaml"}
WRAPPED = [*PAGES, *(f"docs/adr/{page.name}" for page in (ROOT / "docs/adr").glob("*.md"))]
COMMANDS = [str(command) for page in PAGES for command in page_commands(page)]
KLAMM = [text for text in COMMANDS if re.search(r": (\w+=\S+ )*klamm ", text)]
KAFKA_TOOLS = {
    "configs": ConfigOptions,
    "leader-election": election_command.PARSER.parse,
    "log-dirs": log_dirs_command.PARSER.parse,
    "reassign-partitions": ReassignOptions,
    "topics": TopicCommandOptions,
}


@pytest.mark.parametrize("shown", KLAMM)
def test_klamm_takes_the_command(shown: str) -> None:
    words = shlex.split(re.sub(r" [|>] .*", "", shown.partition("klamm ")[2]), comments=True)
    if words[0] in KAFKA_TOOLS:
        is_addressed = {"--bootstrap-server", "--zookeeper"} & {*words}
        address = [] if is_addressed else ["--bootstrap-server", "localhost"]
        assert KAFKA_TOOLS[words[0]]([*words[1:], *address])
        return
    command: Any = typer.main.get_command(app)
    context = command.make_context("klamm", list(words), resilient_parsing=True)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, words)
        assert name is not None
        context = command.make_context(name, list(words), parent=context)
    assert context.params


def test_make_has_the_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {found[1] for text in COMMANDS if (found := re.search(r": make ([a-z-]+)", text))}
    assert {"demo", "test"} <= targets
    assert targets <= set(re.findall(r"^([a-z-]+):", makefile, re.M))


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_fenced_and_says_its_language(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert {block.language for block in blocks(page)} <= LANGUAGES
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    assert re.findall(r"(?m)^\n    .*", prose) == []


@pytest.mark.parametrize("page", WRAPPED)
def test_prose_is_wrapped(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    prose = re.sub(r"(?ms)^<!-- generated: .*?^<!-- end -->$|^```.*?^```$", "", text)
    shown = "".join(block.text for block in blocks(page) if block.language == "sh")
    long = [
        line
        for line in (prose + shown).splitlines()
        if len(line) > COLUMNS_MAX and not line.startswith("|")
    ]
    assert long == []
