"""A shrunk drill as a file for pytest: the test fails as long as the drill does."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import klamm
from klamm.cluster.quirks import parse_quirks
from klamm.lab.run.as_pytest import pytest_path, pytest_text

DRILL = """\
drill: stop-replica
about: 'a text with "quotes", \"\"\"three of them\"\"\", and a \\ backslash "'
cluster: {topics: {t: [[0, 1, 2]]}}
steps:
  - kill: 0
  - until: {leader: {t-0: 1}}
"""


def written(folder: Path, drill: str, quirks: list[str]) -> Path:
    """The file for pytest of this drill."""
    path = pytest_path(folder / "stop-replica.yaml")
    violated = 'always x: it\'s "wrong"'
    path.write_text(pytest_text("stop-replica", drill, 0, parse_quirks(quirks), violated))
    return path


def test_the_test_fails_as_long_as_the_drill_does(tmp_path: Path) -> None:
    passes = runpy.run_path(str(written(tmp_path, DRILL, ["KAFKA-13972"])))
    assert passes["DRILL"] == DRILL
    passes["test_stop_replica"]()
    never = DRILL.replace("leader: {t-0: 1}", "leader: {t-0: 2}")
    fails = runpy.run_path(str(written(tmp_path, never, [])))
    with pytest.raises(
        klamm.ClusterError, match=r"drill:6:\d+: expected leader: \{t-0: 2\},"
    ) as raised:
        fails["test_stop_replica"]()
    assert raised.value.replay == "klamm.run_drill(DRILL, seed=0)"


def test_the_replay_line_names_the_seed_and_the_quirks() -> None:
    never = DRILL.replace("leader: {t-0: 1}", "leader: {t-0: 2}")
    with pytest.raises(klamm.ClusterError) as raised:
        klamm.run_drill(never, seed=3, quirks=["C1"])
    assert raised.value.replay == "klamm.run_drill(DRILL, seed=3, quirks=['C1'])"


@pytest.mark.slow
def test_pytest_runs_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, DRILL.replace("leader: {t-0: 1}", "leader: {t-0: 2}"), ["C1"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "DrillError: drill:6:" in done.stdout and "1 failed" in done.stdout
    assert f"replay: pytest {path.name}::test_stop_replica\npage: " in done.stdout
    (page,) = (line[6:] for line in done.stdout.splitlines() if line.startswith("page: "))
    assert "kill: 0" in Path(page).read_text(encoding="utf-8")


def test_an_invalid_drill_is_refused() -> None:
    with pytest.raises(klamm.ClusterError, match="drill:5:11: the cluster has no broker 5"):
        klamm.run_drill(DRILL.replace("kill: 0", "kill: 5"))
    with pytest.raises(klamm.ClusterError, match=r"must be text \(str\), not bytes"):
        klamm.run_drill(DRILL.encode())  # type: ignore[arg-type]
    with pytest.raises(klamm.ClusterError, match="unknown quirk"):
        klamm.run_drill(DRILL, quirks=["KAFKA-1"])
    with pytest.raises(klamm.ClusterError, match="quirks must be a list of names, "):
        klamm.run_drill(DRILL, quirks="2.8.2")
    with pytest.raises(klamm.ClusterError, match="real ZooKeeper servers"):
        klamm.run_drill(DRILL.replace("kill: 0", "lose_quorum"))


@pytest.mark.parametrize("seed", ["x", -1])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(klamm.ClusterError, match="seed must be a whole number from 0 on, not"):
        klamm.run_drill(DRILL, seed=seed)  # type: ignore[arg-type]
