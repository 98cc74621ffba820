"""`klamm drill run --on kafka` and `klamm drill compare` refuse what they cannot do at once.

None of these tests needs Kafka's jars, and none starts a process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from klamm.world.kafka.jars import KAFKA_JAR
from tests.serving import RunKlamm

HEAD = "drill: mine\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps:\n"
ON_KAFKA = ("run", "--on", "kafka")
UNDER_KLAMM = ("run", "--on", "kafka-with-klamm")


@pytest.fixture
def run(run_klamm: RunKlamm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run `klamm drill`, with a folder of jars that has only the name of Kafka's."""
    (tmp_path / KAFKA_JAR).touch()
    monkeypatch.setenv("KAFKA_LIBS", str(tmp_path))

    def run(*words: str) -> tuple[int, str, list[str]]:
        code, out, errors = run_klamm("drill", *words)
        return code, out, errors.splitlines()

    return run


@pytest.mark.parametrize("words", [("run", "leader-loss", "--on", "kafka"), ("compare", "c11")])
def test_without_kafkas_jars_one_line_says_how_to_get_them(
    run: Any, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("KAFKA_LIBS", str(empty))
    code, out, errors = run(*words)
    assert (code, out, len(errors)) == (1, "", 2)
    assert errors[0] == f"error: no {KAFKA_JAR} in {empty}"
    assert errors[1].startswith("hint: make peer-kafka, or set KAFKA_LIBS")


@pytest.mark.parametrize(
    ("world", "step", "reason"),
    [
        (ON_KAFKA, "power_off: controller", "is not possible with brokers of Kafka"),
        (ON_KAFKA, "cut: {from: 1, to: zookeeper}", "is not possible with brokers of Kafka"),
        (ON_KAFKA, "expire_session: 1", "is not possible with brokers of Kafka"),
        (
            UNDER_KLAMM,
            "kill: controller",
            "acts on the controller, which is no broker of the drill",
        ),
    ],
)
def test_an_impossible_action_is_refused_with_its_step(
    run: Any, tmp_path: Path, world: tuple[str, ...], step: str, reason: str
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"{HEAD}  - wait: 1s\n  - repeat: 2\n    steps: [{{{step}}}]\n")
    code, out, errors = run(*world, str(mine))
    assert (code, out) == (2, "")
    assert errors[0].startswith(
        f"error: mine: the step '{step.replace('zookeeper}', 'zookeeper}')}"
    )
    assert errors[0].endswith(reason)


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        ("before: B6", "requires the simulated world"),
        ("on: {kind: broker_offline}", "waits for a row of klamm's journal"),
    ],
)
def test_a_trigger_that_kafka_does_not_show_is_refused(
    run: Any, tmp_path: Path, trigger: str, reason: str
) -> None:
    mine = tmp_path / "mine.yaml"
    reassign = "  - reassign: {t-0: [1, 2]}\n"
    mine.write_text(f"{HEAD}  - {trigger}\n    kill: 0\n{reassign}")
    code, _, errors = run(*ON_KAFKA, str(mine))
    assert code == 2
    assert errors[0].endswith(reason)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--real",), "give either --real or --on, but not both"),
        (("--seed", "1"), "give either --seed or --on kafka, but not both"),
        (("--twice",), "--twice requires the simulated world"),
        (("--quirks", "2.8.2"), "--quirks is for klamm's brokers and controllers"),
        (("--page", "run.html"), "--page requires klamm's own brokers"),
        (("--zookeeper", "h:1"), "--zookeeper requires --real"),
        (("--until", "5s"), "--until cannot be combined with"),
        (("--on", "flink"), "Invalid value for '--on': 'flink' is not one of"),
    ],
)
def test_options_of_other_worlds_are_refused(
    run: Any, words: tuple[str, ...], message: str
) -> None:
    code, out, errors = run(*ON_KAFKA, "leader-loss", *words)
    assert (code, out) == (2, "")
    assert errors[0].startswith(f"error: {message}")


def test_a_recording_is_refused(run: Any) -> None:
    recording = Path(__file__).parents[1] / "data" / "scenarios" / "reassign_move_all.json"
    code, _, errors = run(*ON_KAFKA, str(recording))
    assert code == 2
    assert errors[0] == f"error: {recording}: a recording is run on klamm's brokers"


@pytest.mark.parametrize("words", [(*ON_KAFKA, "leader-loss"), ("compare", "c11")])
def test_a_directory_with_a_comma_is_refused(
    run: Any, words: tuple[str, ...], tmp_path: Path
) -> None:
    code, out, errors = run(*words, "--data-dir", str(tmp_path / "a,b"))
    assert (code, out) == (2, "")
    start = "error: Kafka's log.dirs cannot contain a directory with a comma: "
    assert errors[0].startswith(f"{start}{tmp_path / 'a,b'}")
