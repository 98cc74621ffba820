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
  - reassign: {1-0: [2, 3], u-0: [3, 1]}
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
    until: {exists: /brokers/ids/1}
  - kill: 0
    until: {unregistered: 0, exists: [/controller]}
  - start: 0
    until: {exists: /brokers/ids/0}
  - reassign:
      1-0: [2, 3]
      u-0: [3, 1]
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


OVERLAPPING = """\
drill: overlapping
about: Two brokers die, one soon after the other, and a topic is created before anyone notices.
cluster:
  brokers: 4
  controllers: [0, 3]
  topics: {t: [[1, 2, 3]]}
steps:
  - move_controller:
    until: {controller: moved}
  - wait: 1s
  - kill: %d
  - wait: 500ms
  - kill: %d
  - wait: 1s
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 3
  - wait: 3s
  - start: [1, 2]
    until: {healthy: true}
"""
OVERLAPPING_STEPS = """\
steps:
  - move_controller:
    until: {exists: [/controller]}
  - wait: 1000ms
  - kill: %d
  - wait: 500ms
  - kill: %d
  - wait: 1000ms
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 3
  - wait: 3000ms
"""


@pytest.mark.parametrize("killed", [(1, 2), (2, 1)])
def test_deaths_overlap_again(
    killed: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A controller notices both only after the creation of the topic."""
    drill, again = tmp_path / "overlapping.yaml", tmp_path / "again.yaml"
    drill.write_text(OVERLAPPING % killed)
    first = recorded(drill, capsys)
    assert OVERLAPPING_STEPS % killed in first
    again.write_text(first.replace("cluster:\n", "cluster:\n  controllers: [0, 3]\n"))
    assert OVERLAPPING_STEPS % killed in recorded(again, capsys)


def test_a_broker_does_not_die_before_it_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal's cluster had a shorter session timeout than the drill."""
    drill = tmp_path / "restarted.yaml"
    drill.write_text(
        "drill: restarted\nabout: x\ncluster: {session_timeout: 1s, controllers: [0]}\nsteps:\n"
        "  - kill: 2\n    until: {unregistered: 2}\n  - start: 2\n    until: {healthy: true}\n"
        "  - kill: 2\n    until: {unregistered: 2}\n"
    )
    text = without_waits(recorded(drill, capsys))
    assert text.count("  - kill: 2\n") == 2
    assert text.index("start: 2") < text.rindex("kill: 2")


def test_a_file_that_is_no_journal_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("No journal.\n" * 50)
    assert main(["drill", "record", "--journal", str(path)]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: {path} has no journal rows"
    assert hint.startswith("hint: ")


def test_a_journal_without_a_controller_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text(
        '{"v":1,"run_id":"r","t_ms":1,"seq":1,"controller":-1,"epoch":0,"kind":"run_start"}\n'
    )
    assert main(["drill", "record", "--journal", str(journal)]) == 2
    assert "the journal has no rows of a controller" in capsys.readouterr().err
