"""`klamm drill record`: a journal becomes a drill that does the same to a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.main import main

HAPPENED = """\
drill: happened
about: Controllers move and die, and topics come, move and go.
cluster:
  brokers: 4
  topics: {"1": [[0, 1], [1, 2]], u: [[3, 2]]}
steps:
  - move_controller:
    until: {exists: [/controller]}
  - wait: 5s
  - stop: 1
    until: {unregistered: 1}
  - start: 1
    until: {healthy: true}
  - kill: controller
    until: {unregistered: 0, exists: [/controller]}
  - start: 0
    until: {healthy: true}
  - reassign: {1-0: [2, 3]}
    until: {reassigning: []}
  - run: topics --zookeeper {zk} --create --topic v --replica-assignment 0:1,2:3
  - run: topics --zookeeper {zk} --delete --topic u
    until: {deleted: u}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1:0
    until: {leader: {u-0: 1}}
  - run: topics --zookeeper {zk} --delete --topic u
    until: {deleted: u}
"""
STEPS = """\
cluster:
  brokers: [0, 1, 2, 3]
  topics:
    "1": [[0, 1], [1, 2]]
    u: [[3, 2]]
steps:
  - move_controller:
    until: {exists: [/controller]}
  - stop: 1
    until: {unregistered: 1}
  - start: 1
    until: {brokers: [0, 1, 2, 3]}
  - kill: 0
    until: {unregistered: 0, exists: [/controller]}
  - start: 0
    until: {brokers: [0, 1, 2, 3]}
  - reassign: {1-0: [2, 3]}
  - run: topics --zookeeper {zk} --create --topic v --replica-assignment 0:1,2:3
  - run: topics --zookeeper {zk} --delete --topic u
  - until: {deleted: u}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1:0
  - run: topics --zookeeper {zk} --delete --topic u
eventually: {healthy: true}
"""


def recorded(drill: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a drill, and return the drill that its journal becomes."""
    folder = drill.with_suffix("")
    assert main(["drill", "run", str(drill), "--data-dir", str(folder)]) == 0
    (journal,) = folder.glob("*/journal.jsonl")
    capsys.readouterr()
    assert main(["drill", "record", "--journal", str(journal)]) == 0
    return capsys.readouterr().out


def without_waits(text: str) -> str:
    lines = text.splitlines(keepends=True)[2:]
    return "".join(line for line in lines if not line.startswith("  - wait: "))


def test_a_recorded_drill_does_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drill = tmp_path / "happened.yaml"
    drill.write_text(HAPPENED)
    first = recorded(drill, capsys)
    assert without_waits(first) == STEPS
    assert "  - wait: 5" in first  # it was 5 s between the controller's move and the shutdown
    again = tmp_path / "again.yaml"
    again.write_text(first)
    assert without_waits(recorded(again, capsys)) == STEPS


def test_a_journal_without_a_controller_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(
        '{"v":1,"run_id":"r","t_ms":1,"seq":1,"controller":-1,"epoch":0,"kind":"run_start"}\n'
    )
    assert main(["drill", "record", "--journal", str(journal)]) == 2
    assert "the journal has no rows of a controller" in capsys.readouterr().err
