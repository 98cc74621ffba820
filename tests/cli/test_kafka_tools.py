"""What klamm takes from the command lines of Kafka's tools, and what it leaves for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from klamm.cli.kafka_tools import OwnArguments, ask_before_write, finish, tool_services
from klamm.cli.main import main
from klamm.cluster.errors import KlammError, UsageError
from klamm.tools.command_result import CommandResult, report_of

FOUND = "--bootstrap-server http://h:1"


@pytest.mark.parametrize(
    ("line", "kafkas"),
    [
        ("--list", f"{FOUND} --list"),
        ("--json --list --yes", f"{FOUND} --list"),
        ("--describe --topic zookeeper", f"{FOUND} --describe --topic zookeeper"),
        ("--server h:2", "--bootstrap-server http://h:2"),
        ("--list --server h:2 --topic t", "--bootstrap-server http://h:2 --list --topic t"),
        ("--list --server=h:2", "--bootstrap-server http://h:2 --list"),
        ("--bootstrap-server s:1 --list", "--bootstrap-server s:1 --list"),
        ("--bootstrap-server=s:1 --list --json", "--bootstrap-server=s:1 --list"),
        ("--list --zookeeper z:1", "--list --zookeeper z:1"),
        ("--help", "--help"),
        ("--list --version", "--list --version"),
        ("", ""),
    ],
)
def test_the_arguments_that_a_tool_gets(
    line: str, kafkas: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_SERVER", "h:1")
    own = OwnArguments(line.split())
    assert own.kafka_args == kafkas.split()
    assert (own.as_json, own.yes) == ("--json" in line, "--yes" in line)


@pytest.mark.parametrize("named", ["--bootstrap-server s:1", "--zookeeper z:1", "--zookeeper=z:1"])
@pytest.mark.parametrize("place", ["--server h:1", "--data-dir d"])
def test_an_address_is_given_once(named: str, place: str) -> None:
    own = OwnArguments(f"--list {named} {place}".split())
    with pytest.raises(UsageError, match="--server and --data-dir cannot be combined with --boot"):
        own.kafka_args  # noqa: B018


@pytest.mark.parametrize(
    "tool", ["topics", "configs", "reassign-partitions", "leader-election", "log-dirs"]
)
def test_json_without_arguments_says_so_and_help_is_text(
    tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([tool, "--json"]) == 2
    out, errors = capsys.readouterr()
    assert (out, '"message":"no arguments are given","hint":"--help lists' in errors) == ("", True)
    main([tool, "--help", "--json"])
    out, errors = capsys.readouterr()
    assert "Option" in out + errors and "UsageError" not in errors


def test_wrong_arguments_are_reported_before_a_server_that_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KLAMM_SERVER", "h:1")
    place = ("--data-dir", str(tmp_path))
    own = OwnArguments(["--list", *place])
    assert own.kafka_args == ["--bootstrap-server", "localhost", "--list"]
    with pytest.raises(KlammError, match="no running klamm found"), own.open_cluster("localhost"):
        pass
    assert main(["topics", "--lst", *place]) == 1
    assert "lst is not a recognized option" in capsys.readouterr().err
    assert main(["topics", "--list", *place]) == 1
    assert "no running klamm found" in capsys.readouterr().err


def test_own_options_are_taken_out() -> None:
    own = OwnArguments(["--seed", "5", "--a", "--pools=p=q", "--flag", "--flag"])
    assert (own.value("--seed"), own.value("--pools"), own.value("--none")) == ("5", "p=q", None)
    assert (own.flag("--flag"), own.flag("--flag")) == (True, False)
    assert own.flag("--a")
    empty = OwnArguments(["--pools=", "rest"])
    assert (empty.value("--pools"), empty.flag("rest")) == ("", True)
    with pytest.raises(UsageError, match="--last requires a value"):
        OwnArguments(["--last"]).value("--last")


def test_a_write_is_asked_for_unless_the_answer_is_given() -> None:
    assert tool_services(OwnArguments([])).before_write is ask_before_write
    assert tool_services(OwnArguments(["--yes"])).before_write is not ask_before_write


FAILED = CommandResult(
    "out\n", "err\n", 3, report_of({"action": "list"}, KlammError("no"), 12), "do it"
)


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ([], 3, "out\n", "err\nhint: do it\n"),
        (["--help"], 3, "out\n", "err\nhint: do it\nown\n"),
        (["--json"], 12, '{"action":"list","exit_code":12}\n', '{"error":{"error":"KlammError",'),
    ],
)
def test_how_a_tool_ends(
    words: list[str], code: int, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        finish(OwnArguments(words), FAILED, "own\n")
    printed = capsys.readouterr()
    assert (ended.value.exit_code, printed.out) == (code, out)
    assert printed.err.startswith(err) if "--json" in words else printed.err == err
