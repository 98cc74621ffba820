"""Drills in the simulated world: those that ship pass, and each of their conditions can fail."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from klamm.cluster.quirks import KAFKA_2_8_2, NO_QUIRKS, Quirks, parse_quirks
from klamm.cluster.requests import Address
from klamm.drills.language import parse_drill
from klamm.drills.library import NAMES, named_drill
from klamm.drills.recordings import compare, is_recording, read_recording
from klamm.drills.run import Failure, Outcome, Verdict, play, worst
from klamm.drills.values import Drill
from klamm.runtime.scenarios.runner import StepResult
from klamm.runtime.scenarios.simulated_driver import SimulatedDriver
from klamm.runtime.scenarios.steps import Check, Condition, Moment, Step
from klamm.runtime.simulated.world import SimulatedWorld
from tests.scenarios import SCENARIOS

RECORDINGS = Path(__file__).parents[1] / "data" / "scenarios"
SEEDS = range(5)
MORE_SEEDS = range(5, 25)
FAILS_WITH = {
    "cancel-back-to-the-dead": ("KAFKA-14424", Outcome.FAILED),
    "delete-while-reassigning": ("KAFKA-8249", Outcome.STUCK),
    "idle-broker-dies": ("KAFKA-13225", Outcome.UNSAFE),
    "malformed-request": ("KAFKA-9478", Outcome.STUCK),
    "reassign-cancel": ("KAFKA-13972", Outcome.FAILED),
    "reassign-override-drops-leader": ("KAFKA-14808", Outcome.STUCK),
    "reassignment-added-to-a-running-one": ("KAFKA-9478", Outcome.STUCK),
}
SKELETON = "drill: d\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps:\n"

SIMULATED = [name for name in NAMES if named_drill(name).real_only is None]


def run(drill: Drill, quirks: Quirks = NO_QUIRKS, seed: int = 0) -> Verdict:
    driver = SimulatedDriver(drill.simulated_world(quirks, seed))
    *_, last = play(drill, driver)
    assert isinstance(last, Verdict)
    return last


def run_text(steps: str, quirks: Quirks = NO_QUIRKS) -> Verdict:
    return run(parse_drill(SKELETON + steps, "d.yaml"), quirks)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SIMULATED)
def test_a_drill_that_ships_passes(name: str, seed: int) -> None:
    verdict = run(named_drill(name), seed=seed)
    assert verdict.failures == ()
    assert verdict.outcome is Outcome.PASSED


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_a_drill_that_ships_passes_whoever_is_the_controller(name: str) -> None:
    drill = named_drill(name)
    failed = {seed: verdict for seed in MORE_SEEDS if (verdict := run(drill, seed=seed)).failures}
    assert failed == {}


@pytest.mark.parametrize("name", FAILS_WITH)
def test_a_drill_for_a_bug_fails_where_the_bug_is(name: str) -> None:
    quirk, outcome = FAILS_WITH[name]
    verdict = run(named_drill(name), parse_quirks([quirk]))
    assert verdict.outcome is outcome
    assert verdict.failures


# Every condition of a drill that ships, turned into one that does not hold.

_IMPOSSIBLE = {
    "brokers": [99],
    "offline_partitions": 99,
    "controller": 99,
    "controller_epoch": 99,
    "exit_code": 99,
    "output": ["what no tool prints"],
    "journal": {"kind": "event", "detail": "what no event has"},
    "reassigning": ["nowhere-0"],
    "acknowledged_at_least": {"t-0": 10**12},
    "exists": ["/nowhere"],
    "absent": ["/brokers"],
}


def falsified(condition: Condition) -> Condition:
    if condition.kind == "deleted":
        return Condition("absent", ["/brokers"])
    wanted = _IMPOSSIBLE.get(condition.kind)
    if wanted is None:
        # The leader, the ISR, the state .. of a partition: one that it never has.
        wanted = {key: [99] if condition.kind == "isr" else "never" for key in condition.wanted}
    return Condition(condition.kind, wanted)


def variants(name: str) -> Iterator[tuple[str, Drill, Check]]:
    """The drill with one condition falsified, for each that its file has."""
    drill = named_drill(name)
    for step_no, step in enumerate(drill.steps):
        for check_no, check in enumerate(step.checks):
            if not isinstance(check, Check) or check.condition == Condition("exit_code", 0):
                continue
            wrong = msgspec.structs.replace(
                check, condition=falsified(check.condition), timeout_ms=6_000
            )
            checks = (*step.checks[:check_no], wrong, *step.checks[check_no + 1 :])
            changed = msgspec.structs.replace(step, checks=checks)
            steps: tuple[Step, ...] = (*drill.steps[:step_no], changed)
            where = f"{name}-{step_no}-{check_no}-{check.condition.kind}"
            yield where, msgspec.structs.replace(drill, steps=steps), wrong


@functools.cache
def all_variants() -> dict[str, tuple[Drill, Check]]:
    return {
        where: (drill, check)
        for name in NAMES
        for where, drill, check in variants(name)
        if drill.real_only is None
    }


@pytest.mark.parametrize("where", all_variants())
def test_every_condition_of_a_drill_that_ships_is_judged(where: str) -> None:
    drill, check = all_variants()[where]
    verdict = run(drill)
    expected = Outcome.STUCK if check.moment is Moment.UNTIL else Outcome.FAILED
    assert verdict.outcome is expected
    assert (check.place, str(check.condition)) in [(f.place, f.expected) for f in verdict.failures]


# What ends a drill, and how it is said.


def test_an_expectation_that_does_not_hold_is_said_with_what_was_seen() -> None:
    verdict = run_text("  - stop: 0\n    expect:\n      isr: {t-0: [0, 1]}\n      brokers: [1]\n")
    assert verdict.outcome is Outcome.FAILED
    assert verdict.failures == (
        Failure("d.yaml:7:7", "isr: {t-0: [0, 1]}", "{t-0: [1]}"),
        Failure("d.yaml:8:7", "brokers: [1]", "[1, 2]"),
    )


def test_a_wait_in_vain_ends_at_its_deadline_and_with_it_the_drill() -> None:
    verdict = run_text("  - until: {leader: {t-0: 1}}\n    within: 700ms\n  - kill: 0\n")
    assert verdict.outcome is Outcome.STUCK
    assert verdict.failures == (
        Failure("d.yaml:5:13", "leader: {t-0: 1}", "{t-0: 0} after 0.700 s"),
    )
    assert verdict.at_ms == pytest.approx(4_700, abs=50)


def test_a_tool_that_fails_fails_the_drill_with_its_words() -> None:
    verdict = run_text("  - run: topics --zookeeper {zk} --delete --topic nowhere\n")
    (failure,) = verdict.failures
    assert verdict.outcome is Outcome.FAILED
    assert failure.place == "d.yaml:5:5"
    assert failure.seen.startswith("1: Error while executing topic command : Topic 'nowhere' does")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("start: 0", "broker 0 is already running"),
        ("resume: paused", "no broker is paused"),
        ("stop: leader of u-0", "cannot act on the leader of u-0: it has no leader"),
        ("create_znode: {/brokers: null}", "cannot write /brokers: NODEEXISTS"),
        ("set_znode: {/nowhere: null}", "cannot write /nowhere: NONODE"),
        ("fail_log_dir: {broker: 0, dir: d}", "broker 0 has no log directory d"),
        ("produce: {u-0: 5}", "cannot produce to u-0: the partition does not exist"),
        ("produce: {t-9: 5}", "cannot produce to t-9: the partition does not exist"),
        (
            "set_topic_partitions: {u-0: [0]}",
            "cannot set partitions: znode /brokers/topics/u does not exist",
        ),
    ],
)
def test_a_step_that_cannot_be_done_fails_the_drill(step: str, why: str) -> None:
    verdict = run_text(f"  - {step}\n")
    (failure,) = verdict.failures
    assert (verdict.outcome, failure.place) == (Outcome.FAILED, "d.yaml:5:5")
    assert failure.seen.startswith(why)


def test_nobody_may_disagree_with_zookeeper_at_the_end_unless_the_drill_says_so() -> None:
    # A registration that the broker does not know of leaves it with another broker epoch.
    step = "  - bounce_registration: 2\n"
    verdict = run_text(step)
    assert verdict.outcome is Outcome.UNSAFE
    assert any("broker 2 has broker epoch" in failure.seen for failure in verdict.failures)
    drill = parse_drill(f"{SKELETON}{step}checks: false\n", "d.yaml")
    assert run(drill).outcome is Outcome.PASSED


def test_an_error_inside_a_broker_is_never_allowed() -> None:
    drill = parse_drill(f"{SKELETON}  - kill: 0\nchecks: false\n", "d.yaml")
    world = SimulatedWorld(drill.spec(NO_QUIRKS, 0))
    driver = SimulatedDriver(world)
    for part in play(drill, driver):
        if isinstance(part, StepResult):
            # A message that no broker can be sent.
            broker = next(iter(world.nodes))
            world.scheduler.actors[Address("broker", broker)].inbox.append(object())
            driver.run_for(100)
    assert isinstance(part, Verdict)
    assert part.outcome is Outcome.UNSAFE
    assert {failure.expected for failure in part.failures} == {"no error in a broker"}


def test_the_worst_outcome_is_that_of_all() -> None:
    passed, failed, stuck = Outcome.PASSED, Outcome.FAILED, Outcome.STUCK
    assert worst([passed, stuck, failed]) is stuck
    assert worst([passed, Outcome.INCONCLUSIVE]) is Outcome.INCONCLUSIVE
    assert worst([stuck, Outcome.UNSAFE]) is Outcome.UNSAFE
    assert worst([]) is passed


# Recordings of real Kafka take the same way.


def run_recording(name: str, quirks: Quirks) -> list[StepResult | Verdict]:
    path = RECORDINGS / f"{name}.json"
    assert is_recording(path)
    recording = read_recording(path)
    driver = SimulatedDriver(SimulatedWorld(recording.spec(quirks, 0)))
    with closing(compare(recording, driver)) as parts:
        return list(parts)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_recording_runs_as_a_drill(name: str) -> None:
    *steps, verdict = run_recording(name, KAFKA_2_8_2)
    assert len(steps) == len(read_recording(RECORDINGS / f"{name}.json").scenario["steps"])
    assert isinstance(verdict, Verdict)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())


def test_a_recording_that_klamm_does_not_repeat_fails() -> None:
    *_, verdict = run_recording("api_reassign_cancel", NO_QUIRKS)
    assert isinstance(verdict, Verdict)
    assert verdict.outcome is Outcome.FAILED
    assert all(failure.expected == "the same as in Kafka 2.8.2" for failure in verdict.failures)


def test_a_drill_changes_and_describes_configs_of_brokers_that_run() -> None:
    entity = "configs --bootstrap-server {bootstrap} --entity-type brokers --entity-name 0"
    drill = parse_drill(
        f"{SKELETON}  - run: {entity} --alter --add-config "
        "klamm.network.out.bytes.per.second=1000000\n"
        f"  - run: {entity} --describe\n",
        "d.yaml",
    )
    world = SimulatedWorld(drill.spec(NO_QUIRKS, 0))
    *parts, verdict = play(drill, SimulatedDriver(world))
    assert isinstance(verdict, Verdict) and verdict.outcome is Outcome.PASSED, verdict
    assert world.copying.is_limited
    described = parts[-1]
    assert isinstance(described, StepResult) and described.tool is not None
    assert "klamm.network.out.bytes.per.second=1000000" in described.tool.stdout


def test_what_was_there_before_a_drill_produces_is_none_of_its_records() -> None:
    filled = "  - preload: {t-0: 10GB}\n"
    produced = "  - {produce: {t-0: 30}, until: {consumed: {t-0: 30}}}\n"
    assert run_text(filled + produced).outcome is Outcome.PASSED
    verdict = run_text(produced + filled)
    assert verdict.outcome is Outcome.FAILED
    assert (
        verdict.failures[0].seen
        == "cannot preload t-0: it already has a producer; preload it first"
    )


def test_records_of_a_constant_rate_that_are_lost_end_a_drill_as_unsafe() -> None:
    text = (
        "drill: d\nabout: x\n"
        "cluster: {config: {unclean.leader.election.enable: true}, topics: {t: [[0, 1]]}}\n"
        "steps:\n"
        "- {stop: 1, until: {isr: {t-0: [0]}}}\n"
        "- {produce_constantly: {t-0: 10}, until: {acknowledged_at_least: {t-0: 30}}}\n"
        "- kill: 0\n"
        "- {start: 1, until: {leader: {t-0: 1}}}\n"
    )
    verdict = run(parse_drill(text, "d.yaml"))
    assert verdict.outcome is Outcome.UNSAFE
    assert any("acknowledged" in failure.seen for failure in verdict.failures), verdict.failures


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("produce: {t-0: 1}", "produce_constantly: {t-0: 1}"),
        ("produce_constantly: {t-0: 1}", "produce: {t-0: 1}"),
        ("produce_constantly: {t-0: 1}", "produce_constantly: {t-0: 2}"),
    ],
)
def test_at_a_constant_rate_one_step_alone_produces_to_a_partition(first: str, second: str) -> None:
    verdict = run_text(f"  - {first}\n  - {second}\n")
    assert verdict.outcome is Outcome.FAILED
    assert verdict.failures[0].seen.startswith("t-0 already has a producer")


def test_an_acknowledged_record_that_is_lost_ends_a_drill_as_unsafe() -> None:
    """An unclean election, which a real cluster has to be told to hold."""
    text = (
        "drill: d\nabout: x\n"
        "cluster: {config: {unclean.leader.election.enable: true}, topics: {t: [[0, 1]]}}\n"
        "steps:\n"
        "- {stop: 1, until: {isr: {t-0: [0]}}}\n"
        "- {produce: {t-0: 30}, until: {consumed: {t-0: 30}}}\n"
        "- kill: 0\n"
        "- {start: 1, until: {leader: {t-0: 1}}}\n"
        "- {produce: {t-0: 10}, until: {acknowledged: {t-0: 40}}}\n"
    )
    verdict = run(parse_drill(text, "d.yaml"))
    assert verdict.outcome is Outcome.UNSAFE
    found = [failure.seen for failure in verdict.failures]
    assert any("inconsistent-offsets" in line for line in found), found


def test_an_acknowledged_record_that_is_lost_after_it_was_read_does_so_too() -> None:
    verdict = run_text(
        "  - {produce: {t-0: 100}, until: {consumed: {t-0: 100}}}\n"
        "  - {kill: 1, until: {isr: {t-0: [0]}}}\n"
        "  - {produce: {t-0: 50}, until: {consumed: {t-0: 150}}}\n"
        "  - {kill: 0, until: {leader: {t-0: none}}}\n"
        "  - {start: 1, until: {brokers: [1, 2]}}\n"
        "  - {elect_unclean: [t-0], until: {leader: {t-0: 1}}}\n"
    )
    assert verdict.outcome is Outcome.UNSAFE
    (failure,) = verdict.failures
    assert failure.seen == (
        "t-0: lost-write: 100-149 were acknowledged, but leader 1 does not have them"
    )
