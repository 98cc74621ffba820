"""What klamm hunt and klamm drill crash and run --twice report of given results."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.cli import drill_crash
from klamm.cli.drill_run import compare_journals, repeat
from klamm.cli.hunt import _Report, _seeds
from klamm.cli.main import main
from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.cluster.quirks import NO_QUIRKS, Quirks, parse_quirks
from klamm.lab.crash_points import Crashing, PointResult, Undisturbed
from klamm.lab.hunt.hunting import ENDS_IN_TIME, HuntOptions, SeedResult
from klamm.lab.hunt.shrinking import Shrunk
from klamm.lab.run.drill_run import Failure, Outcome
from klamm.world.simulated.breakpoints import ControllerOperation

C7 = parse_quirks(["C7"])
KILL_PAUSE = ("kill", "pause")
PASSED = SeedResult(1, Outcome.PASSED, "", "", "", 3_600_000, 20)
HEAD = "drill: d\nabout: x\nalways: all\ncluster: {topics: {t: [[0, 1, 2]]}}\nsteps:\n"
STEP = "  - stop: 1\n  - wait: 9s\n"
WHOLE = f"{HEAD}  - wait: 1s\n{STEP}"
HUNG = SeedResult(9, Outcome.STUCK, ENDS_IN_TIME, "still in step", WHOLE, 1_800_000, 4)
HUNG_TOO = msgspec.structs.replace(HUNG, seed=10)
VIOLATED = SeedResult(
    8,
    Outcome.UNSAFE,
    "always shutdown-stops-followers: x",
    "at 3 s",
    WHOLE,
    5_400_000,
    7,
    Shrunk(HEAD + STEP, 3, 2, 5),
    "at 2 s",
)


@pytest.mark.parametrize(
    ("text", "first"),
    [(None, [0, 1, 2]), ("1", [0]), ("3", [0, 1, 2]), ("7..7", [7]), ("7..9", [7, 8, 9])],
)
def test_the_seeds_of_a_hunt(text: str | None, first: list[int]) -> None:
    seeds = _seeds(text)
    assert list(seeds if text else itertools.islice(seeds, 3)) == first


def report_of(out: Path, faults: str | None = None, quirks: Quirks = C7) -> _Report:
    return _Report(out, faults, quirks, overwrite=False, quiet=True)


def test_the_counts_of_a_hunt(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    for result in (PASSED, HUNG):
        report.add(result)
    report._began_s -= 90
    line = report.counts()
    assert line.startswith("2 seeds (0.0/s), 24 faults and operations, 1.5 simulated hours (60 ")
    assert line.endswith(" times real time), 0 violations, 1 other failure")
    values = report.values()
    assert {name: values[name] for name in ("seeds", "actions", "simulated_ms")} == {
        "seeds": 2,
        "actions": 24,
        "simulated_ms": 5_400_000,
    }
    assert 90 <= values["seconds"] < 120


def test_the_worst_result_of_a_hunt_is_its_exit_code(tmp_path: Path) -> None:
    report = report_of(tmp_path)
    assert report.values()["exit_code"] == 0
    for result in (HUNG, VIOLATED, PASSED, HUNG_TOO):
        report.add(result)
    assert report.values()["exit_code"] == 10
    assert [found["outcome"] for found in report.values()["violations"]] == [
        "stuck",
        "unsafe",
        "stuck",
    ]


def test_what_is_written_of_a_shrunk_drill(tmp_path: Path) -> None:
    report = report_of(tmp_path / "out")
    report.add(VIOLATED)
    (found,) = report.values()["violations"]
    whole, shrunk = (tmp_path / "out" / f"hunt-8{end}.yaml" for end in ("", "-shrunk"))
    repeat = "klamm drill run {} --seed 8 --quirks C7"
    assert found == {
        "seed": 8,
        "outcome": "unsafe",
        "violated": VIOLATED.violated,
        "seen": "at 3 s",
        "repeat": repeat.format(whole),
        "test": str(tmp_path / "out" / "test_hunt_8.py"),
        "shrunk": {
            "steps_before": 3,
            "steps_after": 2,
            "seen": "at 2 s",
            "repeat": repeat.format(shrunk),
        },
        "page": str(tmp_path / "out" / "hunt-8.html"),
    }
    assert (whole.read_text(), shrunk.read_text()) == (WHOLE, HEAD + STEP)
    page, test = (Path(found[name]).read_text(encoding="utf-8") for name in ("page", "test"))
    assert f"<dd>{repeat.format(shrunk)}</dd>" in page
    assert "stop: 1" in page and "wait: 1s" not in page
    assert "stop: 1" in test and "wait: 1s" not in test


@pytest.mark.parametrize(("faults", "option"), [(None, ""), ("stop,kill", " --faults stop,kill")])
def test_a_hunt_that_cannot_write_says_how_to_repeat_a_seed(
    tmp_path: Path, faults: str | None, option: str
) -> None:
    (tmp_path / "hunt-9.yaml").mkdir()
    report = report_of(tmp_path, faults, NO_QUIRKS)
    with pytest.raises(EnvironmentProblem):
        report.add(HUNG)
    assert report.outcomes == [Outcome.STUCK]
    assert report.values()["violations"][0]["repeat"] == f"klamm hunt --seeds 9..9{option}"


def test_nothing_is_left_of_directories_that_were_tried(tmp_path: Path) -> None:
    report_of(tmp_path / "a" / "b" / "c").check_out(range(9))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "count", "seconds", "options"),
    [
        ([], None, 60.0, HuntOptions(NO_QUIRKS, (), shrinks=True, time_limit_s=60.0)),
        (["--seeds", "2"], 2, None, HuntOptions()),
        (["--seeds", "2", "--minutes", "3"], 2, 180.0, HuntOptions()),
        (["--minutes", "0.5", "--no-shrink"], None, 30.0, HuntOptions(shrinks=False)),
        (["--faults", "kill,pause", "--quirks", "C7"], None, 60.0, HuntOptions(C7, KILL_PAUSE)),
        (["--seed-timeout", "5"], None, 60.0, HuntOptions(time_limit_s=5.0)),
    ],
)
def test_what_the_options_of_a_hunt_mean(
    words: list[str],
    count: int | None,
    seconds: float | None,
    options: HuntOptions,
    hunts: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = hunts([])
    assert main(["hunt", *words]) == 0
    ((seeds, *rest, limit_s),) = asked
    assert (rest[0], limit_s) == (options, seconds)
    assert len(seeds) == (10**12 if count is None else count)
    assert capsys.readouterr().out == "no seed was run\n"


def test_a_hunt_ends_with_its_worst_result(hunts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    hunts([HUNG, VIOLATED, HUNG_TOO])
    assert main(["hunt", "--seeds", "3"]) == 10
    assert "\n  page: hunt/hunt-8.html\n" in capsys.readouterr().out
    hunts([PASSED])
    assert main(["hunt", "--seeds", "1"]) == 0


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ([HUNG, VIOLATED, HUNG_TOO], ", 1 violation, 2 other failures\n"),
        ([HUNG], ", 0 violations, 1 other failure\n"),
    ],
)
def test_only_violations_of_invariants_are_counted_as_such(
    given: list[SeedResult], end: str, hunts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    hunts(given)
    main(["hunt", "--seeds", "3"])
    assert capsys.readouterr().out.endswith(end)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--seeds", "10"], 2),
        (["--seeds", "8"], 0),
        (["--seeds", "9..12"], 0),
        (["--overwrite"], 0),
    ],
)
def test_the_files_of_an_earlier_hunt_are_kept(
    words: list[str], code: int, hunts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    hunts([VIOLATED])
    main(["hunt", "--seeds", "8..8"])
    hunts([])
    capsys.readouterr()
    assert main(["hunt", *words]) == code
    refused = "error: hunt/hunt-8-shrunk.yaml of an earlier hunt already exists\nhint: --overwrite"
    assert capsys.readouterr().err.startswith(refused if code else "")


@pytest.mark.parametrize(("words", "codes"), [([], (10, 1)), (["--overwrite"], (10, 10))])
def test_two_hunts_at_a_time_do_not_mix_the_files_of_a_seed(
    words: list[str], codes: tuple[int, int], hunts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    other = msgspec.structs.replace(VIOLATED, drill=f"{WHOLE}  - wait: 2s\n", shrunk=None)
    found = []

    def results() -> Iterator[SeedResult]:
        hunts([VIOLATED])
        found.append(main(["hunt", *words]))
        yield other

    hunts(results())
    found.append(main(["hunt", *words]))
    assert tuple(found) == codes
    whole = other.drill if words else WHOLE
    assert Path("hunt/hunt-8.yaml").read_text(encoding="utf-8") == whole
    out, err = capsys.readouterr()
    line = "error: hunt/hunt-8.yaml cannot be written: File exists\nhint: choose another directory"
    assert err.startswith(line) == (not words)
    assert ("\n  repeat it with: klamm hunt --seeds 8..8\n" in out) == (not words)


@pytest.fixture
def hunts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Let hunts have given results; what they were asked for."""
    monkeypatch.chdir(tmp_path)

    def results(given: Iterable[SeedResult]) -> list[Any]:
        asked: list[Any] = []

        def hunt(*options: Any) -> Iterable[SeedResult]:
            asked.append(options)
            return given

        monkeypatch.setattr("klamm.cli.hunt.run_hunt", hunt)
        return asked

    return results


def interrupted(results: list[Any]) -> Any:
    """A function that yields results, until Ctrl-C."""

    def run(*_: Any, **__: Any) -> Iterator[Any]:
        yield from results
        raise KeyboardInterrupt

    return run


@pytest.mark.parametrize(
    ("words", "replaced", "results", "printed"),
    [
        (
            ["run", "leader-loss", "controller-loss"],
            "drill_run.play",
            [],
            "\n0 of 0 drills passed; 2 not completed\n",
        ),
        (
            ["crash", "leader-loss"],
            "drill_crash.crash_points.crash_everywhere",
            [PointResult(1, Outcome.PASSED)],
            "\n1 crash point: 1 converged, 0 did not (",
        ),
    ],
)
def test_ctrl_c_prints_the_counts_so_far(
    words: list[str],
    replaced: str,
    results: list[Any],
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(f"klamm.cli.{replaced}", interrupted(results))
    assert main(["drill", *words]) == 130
    out, errors = capsys.readouterr()
    assert printed in out
    assert "Interrupted" in errors


PLAN = Crashing("", "mine.yaml", 7, C7)
OPERATIONS = (
    ControllerOperation(2, "Startup", "Create /a"),
    ControllerOperation(1, "", "SetData /b"),
)
UNDISTURBED = Undisturbed(OPERATIONS, (), {})


@pytest.mark.parametrize(
    ("text", "points"),
    [(None, range(1, 13)), ("1..12", range(1, 13)), ("12", range(12, 13)), ("3..4", range(3, 5))],
)
def test_the_crash_points_of_a_drill(text: str | None, points: range) -> None:
    assert drill_crash._chosen(text, UNDISTURBED) == points


@pytest.mark.parametrize("text", ["0", "13", "1..13", "4..3"])
def test_points_that_a_drill_does_not_have(text: str) -> None:
    with pytest.raises(UsageError, match="the drill has crash points 1 to 12") as caught:
        drill_crash._chosen(text, UNDISTURBED)
    assert caught.value.hint == "e.g. 1 or 1..12"


def test_what_is_reported_of_crashes(capsys: pytest.CaptureFixture[str]) -> None:
    report = drill_crash._Report(PLAN, UNDISTURBED, 12, quiet=False)
    assert report.outcome is Outcome.PASSED
    unsafe, stuck = (Failure("mine.yaml:1:1", f"expected {n}", f"seen {n}") for n in (1, 2))
    report.add(PointResult(12, Outcome.UNSAFE, unsafe))
    report.add(PointResult(2, Outcome.STUCK, stuck))
    report.add(PointResult(5, Outcome.PASSED))
    report.add(PointResult(1, Outcome.PASSED))
    assert report.outcome is Outcome.UNSAFE
    command = "klamm drill crash mine.yaml --seed 7 --points {} --quirks C7"
    first, second = (
        f"point 12, resume after operation 2 of broker 1's controller (SetData /b, in between "
        f"events):\n  expected expected 1\n  seen seen 1\n  repeat it with: {command.format(12)}\n",
        f"point 2, takeover before operation 1 of broker 2's controller (Create /a, in Startup):\n"
        f"  expected expected 2\n  seen seen 2\n  repeat it with: {command.format(2)}\n",
    )
    assert capsys.readouterr().out == first + second
    assert list(report.table())[:-1] == [
        "event               restart     takeover       resume",
        "Startup              1 of 1       1 of 2             ",
        "between events                                 0 of 1",
    ]
    assert list(report.table())[-1].startswith("4 crash points: 2 converged, 2 did not (")
    values = report.values()
    failures = values.pop("failures")
    assert values == {
        "exit_code": 10,
        "drill": "mine.yaml",
        "seed": 7,
        "operations": 2,
        "points": 4,
        "converged": 2,
        "events": [
            {
                "event": "Startup",
                "crashes": {
                    "restart": {"converged": 1, "points": 1},
                    "takeover": {"converged": 1, "points": 2},
                },
            },
            {"event": "between events", "crashes": {"resume": {"converged": 0, "points": 1}}},
        ],
    }
    assert failures[0] == {
        "point": 2,
        "crash": "takeover",
        "moment": "before",
        "operation": 1,
        "text": "Create /a",
        "event": "Startup",
        "broker": 2,
        "outcome": "stuck",
        "expected": "expected 2",
        "seen": "seen 2",
        "repeat": command.format(2),
    }
    assert [(failure["point"], failure["event"]) for failure in failures] == [
        (2, "Startup"),
        (12, ""),
    ]


@pytest.mark.parametrize(
    ("first", "second", "lines"),
    [
        (b"a\nb\n", b"a\nb\n", ["d: both runs wrote the same journal, 2 rows"]),
        (b"a\nb\n", b"a\nc\n", ["2", "b", "c"]),
        (b"a\n", b"a\nc\n", ["2", "no row", "c"]),
        (b"a\nb\n", b"a\n", ["2", "b", "no row"]),
        (b"\xff" + b"x" * 999, b"", ["1", "\N{REPLACEMENT CHARACTER}" + "x" * 299, "no row"]),
    ],
)
def test_what_is_said_of_two_journals(
    tmp_path: Path, first: bytes, second: bytes, lines: list[str]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(first)
    other.write_bytes(second)
    if len(lines) > 1:
        number, seen, again = lines
        lines = [
            f"d is NOT DETERMINISTIC: row {number} of the journal differs",
            f"  first run:  {seen}",
            f"  second run: {again}",
        ]
    assert compare_journals(one, other).lines("d") == lines


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    """Journals of eleven drills: that of drill N has N rows."""
    for number in range(1, 12):
        folder = tmp_path / "journals" / f"{number}-d"
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").write_text("row\n" * number)
    return tmp_path / "journals"


def second_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let a script run instead of klamm; its last argument is the directory for journals."""
    script = tmp_path / "script"
    script.write_text("\n".join(("#!/bin/sh", *lines)) + "\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


@pytest.mark.parametrize(("own", "others"), [(None, "1"), ("0", "1"), ("1", "2"), ("2", "1")])
def test_the_second_run_has_another_hash_seed(
    tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch, own: str | None, others: str
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    if own is not None:
        monkeypatch.setenv("PYTHONHASHSEED", own)
    said = f'echo "$PYTHONHASHSEED $*" > {tmp_path}/said; for last; do :; done'
    second_run(tmp_path, monkeypatch, said, f'cp -r {journals}/. "$last"')
    found = repeat(["a", "--seed", "7"], journals)
    assert [(one.row_count, one.is_same) for one in found] == [(n, True) for n in range(1, 12)]
    words, _, folder = (tmp_path / "said").read_text().strip().rpartition(" ")
    assert words == f"{others} -m klamm drill run a --seed 7 --json --data-dir"
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [("echo a >&2; echo b >&2; exit 3", "3: b"), ("exit 0", "0: no error message")],
)
def test_a_second_run_without_a_verdict_is_an_error(
    tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    second_run(tmp_path, monkeypatch, line)
    with pytest.raises(KlammError, match=f"the second run failed with exit code {said}$"):
        repeat(["a"], journals)
