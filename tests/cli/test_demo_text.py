"""`klamm demo`: its options, the text of its steps, and its exit codes; nothing is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from klamm.cli import demo, demo_replay
from klamm.cli.main import main
from klamm.lab.demo.demo import DemoEnd, DemoStep, StepBegins
from klamm.lab.demo.demo_stage import DemoOptions

AGREED = DemoStep("A step", ("a line", "[a] line"), {"count": 1}, 1_234)
DIFFERENT = DemoStep("Check", ("they differ",), {"disagreements": ["broker 1: x", "topic t: y"]}, 5)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the demo was started with; ``steps`` are the steps that it makes."""
    seen: dict[str, Any] = {"steps": [AGREED], "closed": False}

    def run_demo(options: DemoOptions) -> Iterator[StepBegins | DemoStep | DemoEnd]:
        seen["options"] = options
        try:
            for step in seen["steps"]:
                yield StepBegins(step.title)
                yield step
            yield DemoEnd(None, Path("journal"))  # type: ignore[arg-type]
        finally:
            seen["closed"] = True

    def replay_steps(end: DemoEnd, table: Path, page: Path) -> Iterator[DemoStep]:
        seen["replay"] = (end.journal, table, page)
        yield DemoStep("Replay", ("replayed",), {}, 1)

    monkeypatch.setattr(demo, "run_demo", run_demo)
    monkeypatch.setattr(demo_replay, "replay_steps", replay_steps)
    return seen


def test_a_demo_in_which_all_agrees(
    played: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    assert main(["demo", "--brokers", "7", "--seed", "5", "--data-dir", str(kept)]) == 0
    options = played["options"]
    assert (options.brokers, options.seed, options.data_dir) == (7, 5, kept)
    assert played["replay"] == (Path("journal"), kept / "events", kept / "replay.html")
    assert played["closed"]
    out = capsys.readouterr().out
    assert out == (
        "1. A step (1.2 s)\n   a line\n   [a] line\n2. Replay (0.0 s)\n   replayed\n"
        f"Everything agrees, after 0 s.\nJournal, logs and ZooKeeper's data: {kept}\n"
    )


def test_a_demo_without_spark_has_no_replay(
    played: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--no-spark"]) == 0
    assert "replay" not in played
    assert (played["options"].brokers, played["options"].seed) == (6, 0)
    assert not played["options"].data_dir.exists()
    assert "ZooKeeper's data:" not in capsys.readouterr().out


def test_the_page_of_a_temporary_demo_is_kept_elsewhere(played: dict[str, Any]) -> None:
    assert main(["demo"]) == 0
    page = played["replay"][2]
    assert page.parent != played["options"].data_dir and page.suffix == ".html"


@pytest.mark.parametrize("as_json", [True, False])
def test_disagreements_end_a_demo_with_10(
    played: dict[str, Any], as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    played["steps"] = [AGREED, DIFFERENT]
    assert main(["demo", "--no-spark", *(["--json"] if as_json else [])]) == 10
    out, err = capsys.readouterr()
    assert err == ""
    if as_json:
        told = json.loads(out)
        assert (told["agrees"], told["disagreements"]) == (False, ["broker 1: x", "topic t: y"])
        assert [step["title"] for step in told["steps"]] == ["A step", "Check"]
        assert told["steps"][0]["facts"] == {"count": 1} and told["elapsed_s"] >= 0
    else:
        assert out == (
            "1. A step (1.2 s)\n   a line\n   [a] line\n2. Check (0.0 s)\n   they differ\n"
            "2 disagreements, after 0 s.\n"
        )


def test_a_demo_as_json_prints_nothing_else(
    played: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--json", "--data-dir", str(tmp_path / "kept")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["agrees"], told["disagreements"]) == (True, [])
    assert [step["title"] for step in told["steps"]] == ["A step", "Replay"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_an_interrupted_demo_closes_its_cluster(
    played: dict[str, Any], error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[DemoStep]:
        raise error

    monkeypatch.setattr(demo_replay, "replay_steps", fail)
    assert main(["demo"]) == (130 if isinstance(error, KeyboardInterrupt) else 143)
    assert played["closed"]
    assert not played["options"].data_dir.exists()


def test_a_page_that_nobody_was_told_of_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_replay(_: object, journal: Path, table: Path, page: Path) -> DemoStep:
        page.touch()
        return AGREED

    monkeypatch.setattr(demo_replay, "draw_replay", draw_replay)
    for is_told in (False, True):
        page = tmp_path / f"{is_told}.html"
        end = DemoEnd(None, Path("journal"))  # type: ignore[arg-type]
        with closing(demo_replay.replay_steps(end, tmp_path / "events", page)) as steps:
            assert isinstance(next(steps), StepBegins)
            assert next(steps) is AGREED and page.exists()
            if is_told:
                next(steps)
        assert page.exists() is is_told
