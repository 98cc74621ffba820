"""`klamm drill compare`: what it prints, its JSON and its exit codes. No broker of Kafka starts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest

from klamm.cli import drill_compare
from klamm.cli.main import main
from klamm.cluster.errors import KlammError
from klamm.lab.drill import Drill
from klamm.lab.run.comparison import PartitionEnd, WorldResult
from klamm.lab.run.drill_run import Failure, Outcome, Verdict
from klamm.lab.run.worlds import World, Worlds
from klamm.world.kafka.jars import KAFKA_JAR

ONLY_SIMULATED: Final = """\
drill: mine
about: x
cluster: {topics: {t: [[0, 1]]}}
steps:
  - power_off: 1
  - until: {isr: {t-0: [0]}}
"""
REASON: Final = "the step 'power_off: 1' is not possible with brokers of Kafka"
KAFKAS: Final = (World.KAFKA_WITH_KLAMM, World.KAFKA)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A drill that brokers of Kafka cannot run, and a folder with only the name of Kafka's jar."""
    (tmp_path / KAFKA_JAR).touch()
    monkeypatch.setenv("KAFKA_LIBS", str(tmp_path))
    # Kafka's worlds would start a ZooKeeper although they run no drill.
    server = SimpleNamespace(start=lambda: nullcontext(SimpleNamespace(connect_string="")))
    monkeypatch.setattr("klamm.lab.run.worlds.EmbeddedZooKeeper", lambda _: server)
    path = tmp_path / "mine.yaml"
    path.write_text(ONLY_SIMULATED)
    return path


def test_worlds_that_cannot_run_a_drill_say_why(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    assert main(["drill", "compare", str(mine), "--data-dir", str(kept)]) == 12
    name, simulation, *kafkas, end = capsys.readouterr().out.splitlines()
    assert (name, simulation) == ("mine", "  simulation        passed")
    assert [line.split(maxsplit=1)[0] for line in kafkas] == ["kafka-with-klamm", "kafka"]
    assert all("cannot run: " in line for line in kafkas)
    assert end == "  not compared: fewer than two worlds ran the drill"
    assert {one.name for one in kept.iterdir() if one.is_dir()} == {"simulation", *KAFKAS}
    assert any((kept / "simulation").rglob("journal.jsonl"))

    assert main(["drill", "compare", str(mine), str(mine), "--json"]) == 12
    found, again = msgspec.json.decode(capsys.readouterr().out)
    assert found == again
    assert (found["drill"], found["differences"]) == ("mine", [])
    assert found["worlds"]["simulation"]["outcome"] == "passed"
    assert found["worlds"]["simulation"]["partitions"] == {"t-0": "leader 0, epoch 1, ISR [0]"}
    for world in KAFKAS:
        assert found["worlds"][world]["outcome"] is None
        assert "power_off" in found["worlds"][world]["reason"]


def result(leader: int, outcome: Outcome = Outcome.PASSED, **more: Any) -> WorldResult:
    states = {"t-0": PartitionEnd(leader, 3, (0, 1))}
    return WorldResult(Verdict(outcome, 5.0, **more), states=states)


@pytest.mark.parametrize(
    ("results", "code", "lines", "different"),
    [
        ([result(0), result(0), result(0)], 0, ["passed"] * 3, []),
        (
            [result(0), WorldResult(None, "no"), result(0)],
            0,
            ["passed", "cannot run: no", "passed"],
            [],
        ),
        (
            [result(0), result(1), WorldResult(None, "no")],
            1,
            [
                *("passed", "passed", "cannot run: no"),
                "differs: t-0: simulation: leader 0, epoch 3, ISR [0, 1]; "
                "kafka-with-klamm: leader 1, epoch 3, ISR [0, 1]",
            ],
            [
                "t-0: simulation: leader 0, epoch 3, ISR [0, 1]; "
                "kafka-with-klamm: leader 1, epoch 3, ISR [0, 1]"
            ],
        ),
        (
            [
                result(0, unobserved=2),
                result(0),
                result(0, Outcome.FAILED, failures=(Failure("step 1", "leader 0", "leader 1"),)),
            ],
            1,
            ["passed (2 not observable)", "passed", "FAILED: leader 0; seen leader 1"],
            ["outcome"],
        ),
    ],
)
def test_the_exit_code_says_whether_worlds_differ(
    results: list[WorldResult],
    code: int,
    lines: list[str],
    different: list[str],
    mine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def result_of(_: Drill, worlds: Worlds) -> WorldResult:
        return dict(zip((World.SIMULATION, *KAFKAS), results, strict=True))[worlds.world]

    monkeypatch.setattr(drill_compare, "_result", result_of)
    assert main(["drill", "compare", str(mine)]) == code
    _, *shown = capsys.readouterr().out.splitlines()
    worlds = ("simulation", *KAFKAS)
    for line, world in zip(shown[:3], worlds, strict=True):
        assert line.startswith(f"  {world} ")
    assert [line[20:] for line in shown[:3]] + [line.strip() for line in shown[3:]] == lines
    assert main(["drill", "compare", str(mine), "--json"]) == code
    [values] = msgspec.json.decode(capsys.readouterr().out)
    assert values["differences"] == different


def test_one_of_several_drills_that_differs_is_enough(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second drill runs in one world only: the first one's difference is worse.
    found = iter([result(0), result(1), result(1), result(0), *[WorldResult(None, "no")] * 2])
    monkeypatch.setattr(drill_compare, "_result", lambda *_: next(found))
    assert main(["drill", "compare", str(mine), str(mine)]) == 1


def test_a_world_that_fails_is_a_reason_and_not_the_end(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise KlammError("no port is free")

    monkeypatch.setattr(drill_compare, "play", fail)
    assert main(["drill", "compare", str(mine)]) == 12
    shown = capsys.readouterr().out.splitlines()
    assert "  simulation        cannot run: no port is free" in shown
    assert shown[-1] == "  not compared: fewer than two worlds ran the drill"
