"""The shrinker of drills by itself: what it tries, in a drill that is never run."""

from __future__ import annotations

import pytest
import yaml

from klamm.lab.hunt.shrinking import MAX_RUNS, Shrunk, shrink

HEAD = "drill: d\nabout: x\ncluster: {brokers: 3, config: {a: 1, b: 2}, topics: {t: 1, u: 2}}\n"


def drill(*steps: str, more: str = "") -> str:
    return f"{HEAD}{more}steps:\n" + "".join(f"  - {step}\n" for step in steps)


def shrunk(text: str, *needed: str, needs_recovery: bool = True) -> Shrunk:
    """Shrink a drill that fails as long as it has these words."""
    return shrink(
        text, lambda one: all(word in one for word in needed), needs_recovery=needs_recovery
    )


def read(found: Shrunk) -> dict[str, object]:
    value = yaml.safe_load(found.text)
    assert isinstance(value, dict)
    return value


def test_only_the_steps_that_a_failure_needs_are_kept() -> None:
    text = drill(*(f"kill: {n}" for n in range(20)), "heal_all", "wait: 30s")
    found = shrunk(text, "kill: 3\n", "kill: 11\n", "kill: 18\n", "b: 2", "u: 2")
    assert read(found) == {
        "drill": "d",
        "about": "x",
        "cluster": {"config": {"b": 2}, "topics": {"u": 2}},
        "steps": [{"kill": 3}, {"kill": 11}, {"kill": 18}, "heal_all", {"wait": "30s"}],
    }
    assert (found.steps_before, found.steps_after) == (22, 5)
    assert 0 < found.runs < 100


def test_the_last_entry_of_a_mapping_stays() -> None:
    found = shrunk(drill("kill: 0", "heal_all"), "kill: 0")
    cluster = read(found)["cluster"]
    assert isinstance(cluster, dict) and len(cluster) == 1


def test_without_a_recovery_the_last_step_is_kept() -> None:
    found = shrunk(drill("kill: 0", "kill: 1", "until: {healthy: true}"), "drill")
    assert read(found)["steps"] == [{"until": {"healthy": True}}]
    found = shrunk(drill("kill: 0", "kill: 1", "until: {healthy: true}"), "kill: 0")
    assert read(found)["steps"] == [{"kill": 0}, {"until": {"healthy": True}}]


def test_only_the_last_recovery_is_kept() -> None:
    found = shrunk(drill("heal_all", "kill: 1", "heal_all", "wait: 30s"), "kill: 1")
    assert read(found)["steps"] == [{"kill": 1}, "heal_all", {"wait": "30s"}]


def test_a_step_that_only_a_topic_needs_goes_after_the_topic() -> None:
    def fails(one: str) -> bool:
        return "t: 1" not in one or "kill: 1" in one

    found = shrink(drill("kill: 1", "kill: 2", "heal_all"), fails, needs_recovery=True)
    assert read(found)["steps"] == ["heal_all"]


def test_the_check_at_the_end_goes_with_the_recovery() -> None:
    text = drill("kill: 0", "kill: 1", "heal_all", "wait: 1s", more="checks: true\n")
    found = shrunk(text, "kill: 1", needs_recovery=False)
    assert read(found)["steps"] == [{"kill": 1}]
    assert (read(found)["checks"], found.text.count("checks")) == (False, 1)
    found = shrunk(text, "kill: 1", "wait: 1s", needs_recovery=False)
    assert read(found)["steps"] == [{"kill": 1}, "heal_all", {"wait": "1s"}]
    assert read(found)["checks"] is True
    # A drill of its recovery alone would have no steps.
    assert read(shrunk(drill("heal_all"), "drill", needs_recovery=False))["steps"] == ["heal_all"]


@pytest.mark.parametrize(
    ("steps", "needed", "left"),
    [
        (["wait: 2s", "wait: 300ms"], "wait: 2300ms", [{"wait": "2300ms"}]),
        (["wait: 2s", "kill: 0", "wait: 1s"], "wait: 3000ms", [{"wait": "3000ms"}]),
        (["{wait: 2s, name: x}", "wait: 1s"], "name: x", [{"wait": "2s", "name": "x"}]),
        (["wait: 2min", "wait: 1s"], "2min", [{"wait": "2min"}]),
    ],
)
def test_waits_that_follow_each_other_are_joined(
    steps: list[str], needed: str, left: list[object]
) -> None:
    text = drill(*steps, "heal_all")
    sums = {"wait: 2300ms": ("2s", "300ms"), "wait: 3000ms": ("2s", "1s")}

    def fails(one: str) -> bool:
        return needed in one or (
            needed in sums and all(f"wait: {part}\n" in one for part in sums[needed])
        )

    assert read(shrink(text, fails, needs_recovery=True))["steps"] == [*left, "heal_all"]


def test_a_wait_that_has_a_name_is_not_joined() -> None:
    def fails(one: str) -> bool:
        return "3000ms" in one or ("2s" in one and "1s" in one)

    found = shrink(drill("{wait: 2s, name: x}", "wait: 1s", "heal_all"), fails, needs_recovery=True)
    assert read(found)["steps"] == [{"wait": "2s", "name": "x"}, {"wait": "1s"}, "heal_all"]


def test_steps_inside_others_are_removed_one_by_one() -> None:
    inner = "steps: [{kill: 0}, {parallel: [[{kill: 1}, {kill: 2}], {kill: 3}]}]"
    found = shrunk(drill(inner, "heal_all"), "kill: 2")
    assert (found.steps_before, found.steps_after) == (5, 2)
    assert read(found)["steps"] == [{"kill": 2}, "heal_all"]
    # A branch may be a step without a list around it, also one with steps inside.
    found = shrunk(drill("parallel: [kill: 1, {steps: [kill: 2, stop: 3]}]", "heal_all"), "stop: 3")
    assert (found.steps_before, read(found)["steps"]) == (4, [{"stop": 3}, "heal_all"])
    text = drill("parallel: [kill: 1, {steps: [kill: 2, stop: 3]}]", "heal_all")
    found = shrunk(text, "parallel", "kill: 1", "stop: 3")
    kept = {"parallel": [{"kill": 1}, {"steps": [{"stop": 3}]}]}
    assert read(found)["steps"] == [kept, "heal_all"]


def test_a_step_with_a_trigger_is_not_unwrapped() -> None:
    found = shrunk(drill("{at: 1s, steps: [kill: 0, kill: 1]}", "heal_all"), "kill: 1")
    assert read(found)["steps"] == [{"at": "1s", "steps": [{"kill": 1}]}, "heal_all"]
    found = shrunk(drill("{at: 1s, steps: [kill: 0, kill: 1]}", "heal_all"), "at: 1s")
    assert read(found)["steps"] == [{"at": "1s", "steps": [{"kill": 1}]}, "heal_all"], "not empty"
    text = drill("{at: 1s, steps: [{at: 2s, steps: [kill: 0, kill: 1]}]}", "heal_all")
    inner = {"at": "2s", "steps": [{"kill": 1}]}
    assert read(shrunk(text, "kill: 1"))["steps"] == [{"at": "1s", "steps": [inner]}, "heal_all"]


def test_the_number_of_runs_is_limited() -> None:
    steps = [f"kill: {n}" for n in range(90)]
    text = drill(*steps, "heal_all")
    runs = 0

    def fails(one: str) -> bool:
        nonlocal runs
        runs += 1
        return all(f"{step}\n" in one for step in steps[::2])

    found = shrink(text, fails, needs_recovery=True)
    assert found.runs == runs == MAX_RUNS
    assert 46 < found.steps_after < 91
