"""Rules for every command: its help, its examples, how it fails, and its errors as JSON."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from socket import create_server
from typing import Any, Final

import msgspec
import pytest
import typer

from klamm.cli.app import app
from klamm.cli.kafka_tools import OwnArguments
from klamm.cli.main import main
from klamm.tools import log_dirs_command
from klamm.tools.configs import options as configs_options
from klamm.tools.elections import command as election_command
from klamm.tools.elections import preferred_command
from klamm.tools.jopt import OptionParser
from klamm.tools.reassignments import options as reassign_options
from klamm.tools.topics import options as topics_options
from tests.waiting import WaitingEnds

TOOLS: Final = {
    "topics": topics_options.PARSER,
    "reassign-partitions": reassign_options.PARSER,
    "leader-election": election_command.PARSER,
    "configs": configs_options.PARSER,
    "log-dirs": log_dirs_command.PARSER,
    "preferred-replica-election": preferred_command.PARSER,
}
NOWHERE: Final = "127.0.0.1:1"


class CommandHelp(msgspec.Struct, frozen=True):
    """One command: its words after klamm, its object, and its help."""

    words: tuple[str, ...]
    command: Any
    help: str

    @property
    def options(self) -> set[str]:
        return {name for param in self.command.params for name in param.opts}

    @property
    def examples(self) -> list[list[str]]:
        """The examples of this command in its help, as words after its name."""
        lines = self.help.replace("\\\n", " ").splitlines()
        start = f"klamm {' '.join(self.words)}"
        calls = [line for line in lines if re.match(rf"  .*\b{start}( |$)", line)]
        return [_arguments(line.partition(start)[2]) for line in calls]


def _arguments(line: str) -> list[str]:
    """The words of a shell's line up to a pipe, a redirection or a comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [n for n, word in enumerate(words) if word in ("|", ">")]
    return words[: ends[0]] if ends else words


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below one, with its words."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaves(inner, (*words, name))
    if not hasattr(command, "commands"):
        yield words, command


LEAVES: Final = dict(leaves(typer.main.get_command(app)))
GROUPS: Final = sorted({words[0] for words in LEAVES if len(words) > 1})
NAMES: Final = [" ".join(words) for words in LEAVES]


@pytest.fixture
def of(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> CommandHelp:
    """The command of a parametrized test."""
    words = tuple(request.param.split())
    main([*words, "--help"])
    return CommandHelp(words, LEAVES[words], "".join(capsys.readouterr()))


every_command = pytest.mark.parametrize("of", NAMES, indirect=True)
own_command = pytest.mark.parametrize("of", [n for n in NAMES if n not in TOOLS], indirect=True)
asks_server = pytest.mark.parametrize(
    "of",
    [
        " ".join(words)
        for words, command in LEAVES.items()
        if (any("--server" in param.opts for param in command.params) or words[0] in TOOLS)
        and words[0] != "pools"  # whose commands first read a file that does not exist here
    ],
    indirect=True,
)
asks_zookeeper = pytest.mark.parametrize(
    "of", ["zk secure", "pools check", "pools plan", "topics"], indirect=True
)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (words, param.opts[0])
        for words, command in LEAVES.items()
        for param in command.params
        if "float" in param.type.name
    ],
)
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_number_is_finite(
    words: tuple[str, ...], option: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison with nan is never true, so that it is within every range."""
    assert main([*words, option, number]) == 2
    assert option in (error := capsys.readouterr().err)
    assert "is not a finite number" in error or "must be between" in error


@own_command
def test_the_help_has_nouns_and_is_whole(of: CommandHelp) -> None:
    usage, _, text = of.help.partition("Examples:")[0].partition("\n")
    assert usage.startswith(f"Usage: klamm {' '.join(of.words)} [OPTIONS]")
    assert not re.search(r"[<{}]", usage), usage
    assert not re.search(
        r"<[a-z|]|x>=|<=x|\bTEXT\b|\bINTEGER\b|\bFLOAT\b|\.\.\.$", text, re.MULTILINE
    )
    for param in of.command.params:
        assert param.help or param.name == "help", param.name
    assert (".." in usage) == any(param.nargs == -1 for param in of.command.params), usage


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_has_examples_and_whole_summaries(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([group, "--help"])
    commands, _, examples = "".join(capsys.readouterr()).partition("Examples:")
    assert re.search(rf"^ +klamm {group} ", examples, re.MULTILINE)
    assert not re.search(r"(e\.g|i\.e)\.\n(\n|  \S)", commands)


@every_command
def test_the_help_has_examples_that_parse(of: CommandHelp) -> None:
    assert of.examples
    for words in of.examples:
        if of.words[0] in TOOLS:
            parse_with_tool(TOOLS[of.words[0]], words)
        else:
            with of.command.make_context(of.words[-1], list(words)) as context:
                assert context.args == []


def parse_with_tool(parser: OptionParser, words: list[str]) -> None:
    own = OwnArguments(words)
    for name in ("--seed", "--pools", "--save-throttles", "--restore-throttles"):
        own.value(name)
    own.flag("--show-throttles")
    assert parser.parse(own.kafka_args).names[0] in ("bootstrap-server", "zookeeper")


@every_command
def test_a_wrong_option_is_a_usage_error_in_json_too(
    of: CommandHelp, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*of.words, "--nonsense", "--json"]) == 2
    printed = capsys.readouterr()
    error = error_of(printed.err, 2)
    assert error["error"] == "UsageError"
    assert "nonsense" in error["message"]
    assert "nonsense" not in printed.out
    is_tool = of.words[0] in TOOLS
    assert main([*of.words, "--nonsense"]) == (1 if is_tool else 2)
    printed = capsys.readouterr()
    assert printed.out.replace(preferred_command._DEPRECATED, "").strip() == ""
    if not is_tool:
        assert printed.err == (
            f"error: {error['message']}\n"
            f"hint: klamm {' '.join(of.words)} --help lists its options\n"
        )


@asks_server
def test_without_a_server_each_command_fails_alike(
    of: CommandHelp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setenv("KLAMM_SERVER", NOWHERE)
    words = [word for word in served_example(of) if word != "--json"]
    assert main([*of.words, *words]) == 1
    said = f"no klamm server responds at http://{NOWHERE}: Connection refused"
    printed = capsys.readouterr()
    warning = (preferred_command._DEPRECATED + "\n") if of.words[0].startswith("pref") else ""
    assert printed.out in ("", warning)
    assert printed.err == f"error: {said}\nhint: klamm up --brokers 3 starts a cluster\n"
    if "--json" in of.options or of.words[0] in TOOLS:
        assert main([*of.words, *words, "--json"]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        error = error_of(printed.err, 1)
        assert (error["error"], error["message"]) == ("ServerUnavailable", said)
        assert error["hint"] == "klamm up --brokers 3 starts a cluster"


@asks_server
def test_each_command_says_without_a_terminal_that_it_waits_for_the_server(
    of: CommandHelp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klamm.cli.waiting.PLAIN_AFTER_S", 0.01)
    monkeypatch.setattr("klamm.cli.client.TIMEOUT_S", 5)
    monkeypatch.setattr("sys.stdin", None)
    has_json = "--json" in of.options or of.words[0] in TOOLS
    for more in ((), ("--json",)) if has_json else ((),):
        with create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never responds
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            monkeypatch.setenv("KLAMM_SERVER", address)
            errors = WaitingEnds(silent.close)
            monkeypatch.setattr("sys.stderr", errors)
            words = [word for word in served_example(of) if word != "--json"]
            words = [address if word == NOWHERE else word for word in words]
            assert main([*of.words, *words, *more]) == 1
        said, *_, last = errors.getvalue().splitlines()
        assert said.startswith('{"note":"waiting for ' if more else "waiting for ")
        assert "did not respond within" not in errors.getvalue()
        assert last.startswith('{"error":' if more else "hint: ")


def served_example(of: CommandHelp) -> list[str]:
    """The words of an example, without any place to ask."""
    if of.words == ("preferred-replica-election",):
        return ["--server", NOWHERE]
    places = {"--server", "--data-dir", "--bootstrap-server"}
    fitting = [words for words in of.examples if "--zookeeper" not in words]
    words = list(min(fitting, key=len))
    for at in [at for at, word in enumerate(words) if word in places][::-1]:
        del words[at : at + 2]
    return words


@asks_zookeeper
def test_without_a_zookeeper_each_command_fails_alike(
    of: CommandHelp,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pools.yaml").write_text("pools: {p: [0]}\ntopics: {t: p}\n")
    monkeypatch.setattr("klamm.cli.connect.CONNECTION_TIMEOUT_MS", 200)
    monkeypatch.setenv("KLAMM_ZK_DIGEST", "klamm:secret")
    [words, *_] = [words for words in of.examples if "--zookeeper" in words]
    words = [NOWHERE if words[n - 1] == "--zookeeper" else word for n, word in enumerate(words)]
    assert main([*of.words, *words, "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert error_of(printed.err, 1)["error"] == "ZooKeeperUnavailable"


def error_of(errors: str, exit_code: int) -> dict[str, Any]:
    """The error in the last line of standard error, which must be JSON, with its exit code."""
    said = msgspec.json.decode(errors.splitlines()[-1])
    assert (list(said), said["exit_code"]) == (["error", "exit_code"], exit_code)
    assert list(said["error"]) == ["error", "code", "message", "hint", "definite", "retriable"]
    return dict(said["error"])
