"""Drills in the simulated world: those that ship pass, and each of their conditions can fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from klamm.cluster.errors import StoreError
from klamm.cluster.quirks import KAFKA_2_8_2, NO_QUIRKS, Quirks
from klamm.cluster.requests import Address
from klamm.lab.actions.action import Action
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.conditions.partition_times import PartitionTimes
from klamm.lab.drill import Drill, Step
from klamm.lab.drills.library import NAMES, named_drill
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.recordings.recordings import is_recording, play_recording, read_recording
from klamm.lab.run.drill_run import Failure, Outcome, Verdict, play, play_steps, verdict_of, worst
from klamm.lab.run.runner import StepResult
from klamm.lab.run.text import verdict_lines
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.scenarios import SCENARIOS
from tests.sim.drills import run_drill
from tests.sim.worlds import create_topic, replicas_of, three_brokers

RECORDINGS = Path(__file__).parents[1] / "data" / "scenarios"
DOCUMENTATION = Path(__file__).parents[2] / "docs" / "drills.md"
MORE_SEEDS = range(1, 10)
TOPIC = "/brokers/topics/t"
STATE = f"{TOPIC}/partitions/0/state"
SKELETON = "drill: d\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps:\n"

OUTCOMES = {
    Moment.UNTIL: Outcome.STUCK,
    Moment.EXPECT: Outcome.FAILED,
    Moment.SOMETIMES: Outcome.INCONCLUSIVE,
}

SIMULATED = [name for name in NAMES if named_drill(name).real_only is None]


def run_text(steps: str, quirks: Quirks = NO_QUIRKS) -> Verdict:
    return run_drill(parse_drill(SKELETON + steps, "d.yaml"), quirks)


@pytest.mark.parametrize("name", SIMULATED)
def test_a_drill_that_ships_passes(name: str) -> None:
    verdict = run_drill(named_drill(name))
    assert verdict.failures == ()
    assert verdict.outcome is Outcome.PASSED


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_a_shipped_drill_passes_with_any_controller(name: str) -> None:
    drill = named_drill(name)
    verdicts = {seed: run_drill(drill, seed=seed) for seed in MORE_SEEDS}
    assert {seed: verdict for seed, verdict in verdicts.items() if verdict.failures} == {}


# Every condition of a drill that ships, turned into one that does not hold.

_IMPOSSIBLE = {
    "brokers": [99],
    "unregistered": [0, 1, 2, 3, 4, 5],
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
    if condition.kind in ("deleted", "healthy"):
        return Condition("absent", ["/brokers"])
    wanted = _IMPOSSIBLE.get(condition.kind)
    if wanted is None:
        # The leader, the ISR, the state .. of a partition: one that it never has.
        wanted = {key: [99] if condition.kind == "isr" else "never" for key in condition.wanted}
    return Condition(condition.kind, wanted)


def variants(drill: Drill) -> Iterator[tuple[Drill, Moment, list[StepCheck]]]:
    """The drill with the conditions of one moment of one step falsified, for each that it has."""
    for step_no, step in enumerate(drill.steps):
        for moment in (Moment.UNTIL, Moment.EXPECT):
            wrong = {
                number: wrongly(check)
                for number, check in enumerate(step.checks)
                if isinstance(check, StepCheck)
                and check.moment is moment
                and check.condition != Condition("exit_code", 0)
            }
            if wrong:
                checks = tuple(wrong.get(n, check) for n, check in enumerate(step.checks))
                changed = msgspec.structs.replace(step, checks=checks)
                steps = (*drill.steps[:step_no], changed, *drill.steps[step_no + 1 :])
                yield msgspec.structs.replace(drill, steps=steps), moment, [*wrong.values()]
    if drill.sometimes:
        never = [wrongly(check) for check in drill.sometimes]
        yield msgspec.structs.replace(drill, sometimes=tuple(never)), Moment.SOMETIMES, never


def wrongly(check: StepCheck) -> StepCheck:
    """The check with a condition that never holds; those of the same moment are checked too."""
    wrong = falsified(check.condition)
    return msgspec.structs.replace(check, condition=wrong, timeout_ms=100, is_required=False)


@pytest.mark.parametrize("name", SIMULATED)
def test_every_condition_of_a_drill_that_ships_is_judged(name: str) -> None:
    for drill, moment, wrong in variants(named_drill(name)):
        verdict = run_drill(drill)
        assert verdict.outcome is OUTCOMES[moment], wrong
        prefix = "sometimes " if moment is Moment.SOMETIMES else ""
        expected = {(check.place, f"{prefix}{check.condition}") for check in wrong}
        assert expected <= {(f.place, f.expected) for f in verdict.failures}


# Conditions over a whole run.


def run_whole(words: str, steps: str) -> Verdict:
    return run_drill(parse_drill(SKELETON.replace("steps:\n", f"{words}steps:\n{steps}"), "d.yaml"))


def test_what_happened_once_counts_even_if_it_ended_before_the_step_did() -> None:
    bounce = "  - move_controller\n  - kill: 0\n  - wait: 10s\n  - start: 0\n  - wait: 10s\n"
    verdict = run_whole(
        "sometimes: {leader: {t-0: 1}, controller: moved, isr: {t-0: [1]}}\n", bounce
    )
    assert verdict.outcome is Outcome.PASSED
    at_ms = {result.check.condition.kind: result.at_ms for result in verdict.sometimes}
    # Broker 0 dies at 4 s; its session expires 3 s later.
    assert (at_ms["leader"], at_ms["controller"]) == (pytest.approx(7_000, abs=100), 4_000)


def test_a_drill_in_which_something_never_happens_is_inconclusive() -> None:
    verdict = run_whole("sometimes: {leader: {t-0: 1}}\n", "  - move_controller\n")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.failures == (Failure("d.yaml:4:13", "sometimes leader: {t-0: 1}", "{t-0: 0}"),)


@pytest.mark.parametrize("kind", ["acknowledged", "consumed"])
def test_a_number_of_records_is_seen_although_zookeeper_does_not_change(kind: str) -> None:
    steps = "  - wait: 5s\n" + "  - produce: {t-0: 5}\n  - wait: 5s\n" * 2
    verdict = run_whole(f"sometimes: {{{kind}: {{t-0: 5}}}}\n", steps)
    assert verdict.outcome is Outcome.PASSED, verdict


def test_a_paused_broker_is_resumed_although_another_is_dead() -> None:
    steps = "  - pause: 1\n  - kill: 2\n  - resume: paused\n  - start: dead\n"
    assert run_text(steps).outcome is Outcome.PASSED


@pytest.mark.parametrize("up", ["  - kill: 1\n  - heal_all\n", "  - kill_all\n  - up_again\n"])
def test_a_broker_that_was_started_with_all_others_is_not_dead(up: str) -> None:
    assert run_text(f"{up}  - kill: 2\n  - start: dead\n").outcome is Outcome.PASSED


def test_a_time_counts_from_the_first_step_wherever_its_step_stands() -> None:
    results, verdict, _ = play_text("  - wait: 3s\n  - {at: 4s, create_znode: {/a: x}}\n")
    assert verdict.outcome is Outcome.PASSED
    # The first step begins at 4 s.
    assert [r.began_ms for r in results if "znode" in r.step.name] == [8_000]


def test_preloaded_records_are_on_disk() -> None:
    head = f"checks: false\n{SKELETON}"
    _, verdict, world = play_text("  - preload: {t-0: 5MB}\n  - power_off: 1\n", head)
    assert verdict.outcome is Outcome.PASSED
    assert [log.log_end_offset for _, log, _ in replicas_of(world, 1)] == [5_000]


def test_brokers_that_are_killed_together_are_all_dead() -> None:
    assert run_text("  - kill_all\n  - start: dead\n").outcome is Outcome.PASSED


def test_what_happened_before_the_first_step_does_not_count() -> None:
    verdict = run_whole("sometimes: {journal: {kind: topic_created}}\n", "  - wait: 1s\n")
    assert verdict.outcome is Outcome.INCONCLUSIVE


def test_a_failure_is_worse_than_what_never_happened() -> None:
    steps = "  - {move_controller: , until: {leader: {t-0: 1}}, within: 1s}\n"
    verdict = run_whole("sometimes: {leader: {t-0: 1}}\n", steps)
    assert verdict.outcome is Outcome.STUCK


def test_eventually_ends_every_fault_and_waits() -> None:
    faults = "  - pause: 1\n  - kill: 0\n  - wait: 10s\n"
    eventually = "eventually: {within: 20s, healthy: true}\n"
    assert run_whole(eventually, faults).outcome is Outcome.PASSED
    verdict = run_whole("eventually: {within: 500ms, brokers: [2]}\n", faults)
    assert verdict.outcome is Outcome.STUCK
    (failure,) = verdict.failures
    assert failure == Failure("d.yaml:4:29", "brokers: [2]", "[0, 1, 2] after 0.500 s")


# Branches.


def test_branches_run_at_the_same_time() -> None:
    steps = (
        "  - parallel:\n"
        "    - [wait: 3s, {kill: 0, until: {leader: {t-0: 1}}}]\n"
        "    - {name: moves, move_controller: , until: {controller: moved}}\n"
        "    - {wait: 0s, until: {leader: {t-0: 1}}, within: 7s}\n"
        "    - [wait: 1s, {name: creates, create_znode: {/x: null}}]\n"
    )
    drill = parse_drill(SKELETON + steps, "d.yaml")
    *results, verdict = play(drill, SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0)))
    assert isinstance(verdict, Verdict) and verdict.outcome is Outcome.PASSED, verdict
    began_s = {r.step.name: r.began_ms / 1000 for r in results if isinstance(r, StepResult)}
    assert (began_s["moves"], began_s["creates"], began_s["kill: 0"]) == (4.0, 5.0, 7.0)


def test_a_failure_in_a_branch_ends_the_drill_at_once() -> None:
    verdict = run_text(
        "  - parallel:\n"
        "    - [wait: 60s]\n"
        "    - {wait: 1s, until: {leader: {t-0: none}}, within: 2s}\n"
        "  - kill: 1\n"
    )
    assert (verdict.outcome, verdict.at_ms) == (Outcome.STUCK, pytest.approx(7_000))
    assert [failure.place for failure in verdict.failures] == ["d.yaml:7:26"]
    verdict = run_text("  - parallel: [{wait: 60s}, {delete_znode: /admin/x}]\n")
    assert (verdict.outcome, verdict.failures[0].seen) == (
        Outcome.FAILED,
        "cannot write /admin/x: NONODE",
    )


def test_a_rack_and_a_follower_are_found_when_the_step_runs() -> None:
    text = (
        "drill: d\nabout: x\ncluster: {brokers: 4, racks: [a, b], topics: {t: [[0, 1, 2, 3]]}}\n"
        "steps:\n- {kill: rack a, until: {brokers: [1, 3], isr: {t-0: [1, 3]}}}\n"
        "- {kill: any ISR follower of t-0, until: {brokers: [1], isr: {t-0: [1]}}}\n"
        "- kill: any ISR follower of t-0\n"
    )
    verdict = run_drill(parse_drill(text, "d.yaml"))
    assert [f.seen for f in verdict.failures] == [
        "cannot act on an ISR follower of t-0: it has none"
    ]


# Results of partitions.


def results_of(steps: str, head: str = SKELETON) -> dict[str, tuple[float, float, object, object]]:
    """Seconds unavailable and under-replicated, records in doubt and lost, by partition."""
    drill = parse_drill(head + steps, "d.yaml")
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    verdict = verdict_of(play(drill, driver, is_measured=True))
    return {
        str(tp): (
            round(one.unavailable_ms / 1000, 1),
            round(one.under_replicated_ms / 1000, 1),
            one.records_in_doubt,
            one.records_lost,
        )
        for tp, one in verdict.partitions.items()
    }


def test_a_partition_is_unavailable_from_the_death_of_its_leader_to_the_next_leader() -> None:
    # The session expires after 3 s, and broker 0 returns 5 s later.
    steps = "  - kill: 0\n  - wait: 8s\n  - {start: 0, until: {isr: {t-0: [0, 1]}}}\n"
    assert results_of(steps) == {"t-0": (3.0, 8.0, None, None)}
    # The controller may be on broker 0, too.
    steps = "  - pause: 0\n  - wait: 8s\n  - {resume: 0, until: {isr: {t-0: [0, 1]}}}\n"
    assert results_of(steps) == {"t-0": (3.0, 8.0, None, None)}
    assert results_of("  - move_controller\n  - wait: 5s\n") == {"t-0": (0.0, 0.0, None, None)}
    # Without its only in-sync replica it is unavailable until the end of the run.
    one = SKELETON.replace("[[0, 1]]", "[[0]]")
    assert results_of("  - kill: 0\n  - wait: 8s\n", one) == {"t-0": (10.0, 10.0, None, None)}


def test_a_deposed_leader_does_not_hide_that_its_partition_is_under_replicated() -> None:
    # Cut off, broker 1 leads on with its old ISR, and the others cannot tell it of its successor.
    four = SKELETON.replace("topics: {t: [[0, 1]]}", "brokers: 4, topics: {t: [[1, 2, 3]]}")
    steps = "  - {cut: {between: [[1], [zookeeper, 0, 2, 3]]}}\n  - wait: 20s\n"
    assert results_of(steps, four) == {"t-0": (0.0, 29.0, None, None)}


def test_a_topic_that_was_created_and_deleted_between_two_observations_has_no_result() -> None:
    world = three_brokers()
    create_topic(world, "t", {0: (0, 1)})
    world.run_for(1_000)
    KafkaZkClient(world.open_store()).create("/admin/delete_topics/t")
    world.run_for(1_000)
    assert PartitionTimes(SimulatedDriver(world)).results() == {}


def test_a_deleted_topic_has_no_result_and_a_created_one_does() -> None:
    deletion = "  - {run: 'topics --zookeeper Z --delete --topic t', until: {deleted: t}}\n"
    creation = "  - run: topics --zookeeper Z --create --topic u --replica-assignment 1:2\n"
    steps = (deletion + creation).replace(" Z ", " {zk} ")
    assert results_of(steps) == {"u-0": (0.0, 0.0, None, None)}
    # Partitions are sorted, whenever they came.
    later = creation.replace(" Z ", " {zk} ").replace("topic u", "topic a")
    assert list(results_of(later)) == ["a-0", "t-0"]


def test_records_in_doubt_and_lost_records_are_counted() -> None:
    lost = (
        "  - {produce: {t-0: 100}, until: {consumed: {t-0: 100}}}\n"
        "  - {kill: 1, until: {isr: {t-0: [0]}}}\n"
        "  - {produce: {t-0: 50}, until: {consumed: {t-0: 150}}}\n"
        "  - {kill: 0, until: {leader: {t-0: none}}}\n"
        "  - {start: 1, until: {brokers: [1, 2]}}\n"
        "  - {elect_unclean: [t-0], until: {leader: {t-0: 1}}}\n"
    )
    assert results_of(lost)["t-0"][2:] == (0, 50)
    in_doubt = "  - {kill: [0, 1], until: {leader: {t-0: none}}}\n  - produce: {t-0: 30}\n"
    assert results_of(in_doubt)["t-0"][2:] == (30, None)


# Triggers.


def play_text(steps: str, head: str = SKELETON) -> tuple[list[StepResult], Verdict, SimulatedWorld]:
    drill = parse_drill(head + steps, "d.yaml")
    world = drill.simulated_world(NO_QUIRKS, 0)
    *results, verdict = play(drill, SimulatedDriver(world))
    assert isinstance(verdict, Verdict)
    return [part for part in results if isinstance(part, StepResult)], verdict, world


def test_steps_run_at_a_time_and_at_every_interval() -> None:
    results, verdict, _ = play_text(
        "  - {at: 4s, kill: 0}\n  - {every: 1.5s, set_znode: {/a: x}}\n"
        "  - {at: 1s, create_znode: {/b: x}}\n  - create_znode: {/a: x}\n  - wait: 2s\n"
    )
    assert verdict.outcome is Outcome.PASSED, verdict
    began_s = [(r.began_ms / 1000, r.step.name) for r in results if "znode" in r.step.name]
    # The first step begins at 4 s.
    assert sorted(began_s) == [
        (4.0, "create_znode: {/a: x}"),
        (5.0, "create_znode: {/b: x} (at 1s)"),
        (5.5, "set_znode: {/a: x} (every 1.5s)"),
        (7.0, "set_znode: {/a: x} (every 1.5s)"),
    ]
    assert [r.began_ms for r in results if r.step.name == "kill: 0 (at 4s)"] == [8_000.0]


def test_a_step_with_a_time_is_waited_for_however_late_it_is() -> None:
    results, verdict, _ = play_text("  - {at: 100s, create_znode: {/a: x}}\n  - wait: 1s\n")
    assert verdict.outcome is Outcome.PASSED, verdict
    assert results[-1].began_ms == 104_000


def test_a_step_is_repeated_until_the_steps_that_were_triggered_once_have_ended() -> None:
    results, verdict, _ = play_text(
        "  - {on: {kind: broker_offline}, wait: 5s}\n  - {every: 1.5s, set_znode: {/a: x}}\n"
        "  - create_znode: {/a: x}\n  - kill: 1\n  - wait: 4s\n"
    )
    assert verdict.outcome is Outcome.PASSED
    began_s = {name: [] for name in ("set_znode", "wait: 5s", "wait: 4s")}
    for step in results:
        for name, found in began_s.items():
            if step.step.name.startswith(name):
                found.append(step.began_ms / 1000)
    # The session of broker 1 ends after the 3 s.
    assert began_s == {
        "set_znode": [5.5, 7.0, 8.5, 10.0, 11.5],
        "wait: 5s": [7.0],
        "wait: 4s": [4.0],
    }


def test_a_step_runs_when_a_row_is_written() -> None:
    steps = (
        "  - {on: {kind: broker_offline, replica: 0}, name: seen, create_znode: {/x: null}}\n"
        "  - {kill: 0, until: {leader: {t-0: 1}}}\n"
    )
    results, verdict, world = play_text(steps)
    assert verdict.outcome is Outcome.PASSED
    (seen,) = [r for r in results if r.step.name.startswith("seen")]
    (row,) = [row for row in world.journal.rows if row.kind == "broker_offline"]
    assert seen.began_ms == row.t_ms - world.journal.rows[0].t_ms


REASSIGNED = "drill: d\nabout: x\ncluster: {brokers: 5, topics: {t: [[0, 1]]}}\nsteps:\n"
REASSIGNMENT = (
    "  - create_znode: {/admin/reassign_partitions:"
    " {version: 1, partitions: [{topic: t, partition: 0, replicas: [2, 3]}]}}\n"
    "  - wait: 10s\n"
)


@pytest.mark.parametrize("phase", ["U1", "A1", "B3", "B4", "B6", "B7"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_controller_is_stopped_around_a_write(phase: str, moment: str) -> None:
    stop = f"  - {{{moment}: {phase}, kill: controller}}\n"
    eventually = "eventually: {healthy: true, replicas: {t-0: [2, 3]}}\n"
    results, verdict, world = play_text(stop + REASSIGNMENT + eventually, REASSIGNED)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())
    assert [r.step.name for r in results if "kill" in r.step.name] == [
        f"kill: controller ({moment} {phase})"
    ]
    first = [row for row in world.journal.rows if row.epoch == 1]
    reached = [str(row.to) for row in first if row.kind == "reassignment_phase"]
    bumps = [row for row in first if row.kind == "leader_epoch_bumped"]
    # U1, B6 and B7 are reported after the write, A1, B3 and B4 before it.
    expected = {"U1": [], "A1": ["U1", "U2", "A1"], "B3": "B3", "B4": "B4", "B6": "B5", "B7": "B6"}
    if isinstance(expected[phase], list):
        assert reached == expected[phase] and bumps == []
    else:
        assert reached[-1] == expected[phase]


@pytest.mark.parametrize(("moment", "stored"), [("before", "[2, 3, 0, 1]"), ("after", "[2, 3]")])
def test_before_a_write_it_is_not_stored_and_after_it_it_is(moment: str, stored: str) -> None:
    until = f"until: {{replicas: {{t-0: {stored}}}}}, within: 1ms"
    stop = f"  - {{{moment}: B6, kill: controller, {until}}}\n"
    _, verdict, _ = play_text(f"{stop}{REASSIGNMENT}eventually: {{healthy: true}}\n", REASSIGNED)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())


def test_a_controller_is_stopped_around_an_operation_of_an_event() -> None:
    deletion = "  - run: topics --zookeeper {zk} --delete --topic t\n  - wait: 10s\n"
    for moment, operation, has_begun in (("before", 1, False), ("before", 2, True)):
        event = f"{{event: TopicDeletion, operation: {operation}}}"
        stop = f"  - {{{moment}: {event}, kill: controller}}\n"
        _, verdict, world = play_text(stop + deletion + "eventually: {deleted: t}\n", REASSIGNED)
        assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())
        kinds = [row.kind for row in world.journal.rows if row.epoch == 1]
        assert ("topic_deletion_started" in kinds) is has_begun


def test_a_drill_whose_trigger_never_occurs_is_inconclusive() -> None:
    _, verdict, _ = play_text("  - {on: {kind: log_truncated}, kill: controller}\n  - wait: 1s\n")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.failures == (
        Failure("d.yaml:5:6", "the step to be triggered on {kind: log_truncated}", "it never was"),
    )
    assert verdict.at_ms == pytest.approx(35_000)


def documented_drills() -> Iterator[str]:
    """The drills in the page about the language."""
    for block in DOCUMENTATION.read_text(encoding="utf-8").split("```yaml\n")[1:]:
        text = block.partition("```")[0]
        if text.startswith("drill:"):
            yield text


@pytest.mark.parametrize("text", list(documented_drills()), ids=lambda text: text.split()[1])
def test_a_documented_drill_passes(text: str) -> None:
    verdict = run_drill(parse_drill(text, "docs/drills.md"))
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())


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
    # The time is that since the step began.
    late = "{wait: 1s, until: {leader: {t-0: 1}}, within: 700ms}"
    verdict = run_text(f"  - wait: 9s\n  - {late}\n  - kill: 0\n")
    assert [failure.seen for failure in verdict.failures] == ["{t-0: 0} after 1.700 s"]


def test_conditions_that_a_cluster_does_not_show_are_counted_and_test_nothing() -> None:
    hidden = "  - {wait: 1s, until: {controller_epoch: 99}, expect: {controller: 1}}\n"
    head = SKELETON.replace("steps:", "sometimes: {controller: 2}\nsteps:")
    seen = "until: {exists: /brokers}"
    for more, outcome in (("", Outcome.INCONCLUSIVE), (seen, Outcome.PASSED)):
        drill = parse_drill(f"{head}{hidden}  - move_controller:\n    {more}\n", "d.yaml")
        driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
        driver.unobservable = ("controller", "controller_epoch")
        *results, verdict = play(drill, driver)
        assert isinstance(verdict, Verdict)
        assert (verdict.outcome, verdict.unobserved, verdict.failures) == (outcome, 3, ())
        steps = (part for part in results if isinstance(part, StepResult))
        step = next(one for one in steps if one.step.name == "wait: 1s")
        assert [(c.is_met, c.seen) for c in step.checks] == [(None, "not observable")] * 2
        assert [(c.is_met, c.seen) for c in verdict.sometimes] == [(None, "not observable")]
        # The cluster becomes idle instead of what is waited for, and for the expectation.
        assert step.ended_ms - step.began_ms == 5_000


def test_zookeeper_that_is_lost_makes_a_drill_inconclusive() -> None:
    class Lost(Action, frozen=True):
        """An operation whose reply never arrives."""

        def act(self, target: object) -> None:
            raise StoreError("lost", definite=False)

    drill = parse_drill(f"{SKELETON}  - kill: 0\n", "d.yaml")
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    (verdict,) = play_steps([Step("loses", (Lost(),), (), "d.yaml:1:1")], driver)
    failure = Failure("d.yaml:1:1", "'loses' to succeed", "lost")
    assert verdict == Verdict(Outcome.INCONCLUSIVE, 0.0, (failure,))


def test_a_tool_that_fails_fails_the_drill_with_its_words() -> None:
    deletion = "  - run: topics --zookeeper {zk} --delete --topic t\n    until: {deleted: t}\n"
    verdict = run_text(f"{deletion}  - run: topics --zookeeper {{zk}} --delete --topic t\n")
    (failure,) = verdict.failures
    assert verdict.outcome is Outcome.FAILED
    assert failure.place == "d.yaml:7:5"
    assert failure.seen.startswith("1: Error while executing topic command : Topic 't' does")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("kill: [leader of t-0, leader of t-0]", "broker 0 is not running"),
        ("stop: leader of u-0", "cannot act on the leader of u-0: the partition does not exist"),
        ("produce: {u-0: 5}", "cannot produce to u-0: the partition does not exist"),
        ("create_znode: {/brokers: null}", "cannot write /brokers: NODEEXISTS"),
        ("set_znode: {/admin/nowhere: null}", "cannot write /admin/nowhere: NONODE"),
        (
            "set_topic_partitions: {u-0: [0]}",
            "cannot set partitions: znode /brokers/topics/u is missing or malformed",
        ),
    ],
)
def test_a_step_that_cannot_be_done_fails_the_drill(step: str, why: str) -> None:
    later = "  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 0\n"
    verdict = run_text(f"  - {step}\n{later}")
    (failure,) = verdict.failures
    assert (verdict.outcome, failure.place) == (Outcome.FAILED, "d.yaml:5:5")
    assert failure.seen.startswith(why)


def test_nothing_can_be_done_to_the_leader_of_a_partition_that_has_none() -> None:
    gone = "  - delete_znode: /brokers/topics/t/partitions/0/state\n"
    (failure,) = run_text(f"{gone}  - kill: leader of t-0\n").failures
    assert failure.seen == "cannot act on the leader of t-0: it has no leader"


def written(path: str, data: str) -> str:
    return f"set_znode: {{{path}: '{data}'}}"


@pytest.mark.parametrize("always", ["", "always: all\n"])
@pytest.mark.parametrize(
    ("edit", "later", "seen"),
    [
        (written(STATE, '{"leader": "1"}'), "kill: leader of t-0", "cannot act on the leader"),
        (written(STATE, '{"isr": 7}'), "kill: any ISR follower of t-0", "cannot act on an ISR"),
        (written(STATE, '{"isr": ["a", 1]}'), "expect: {isr: {t-0: [0]}}", "{t-0: null}"),
        (written(TOPIC, "{}"), "produce: {t-0: 1}", "cannot produce to t-0: the partition does"),
        (written(TOPIC, "{}"), "set_topic_partitions: {t-1: [0]}", "cannot set partitions"),
        (
            written(TOPIC, '{"partitions": {"0": 1}}'),
            "expect: {replicas: {t-0: [0]}}",
            "{t-0: null}",
        ),
        (
            written(TOPIC, '{"partitions": {"0": [1]}, "adding_replicas": {"x": [1]}}'),
            "expect: {reassigning: [t-0]}",
            "[]",
        ),
        (written("/controller", '{"brokerid": "x"}'), "kill: controller", "cannot act on the"),
        (written("/controller", "{}"), "expect: {controller: 1}", "none"),
        (written("/controller_epoch", "x"), "expect: {controller_epoch: 1}", "0"),
        ("create_znode: {/brokers/ids/x: null}", "expect: {brokers: [0]}", "[0, 1, 2]"),
        (
            f"create_znode: {{? /brokers/ids/{'1' * 5000} : null}}",
            "expect: {brokers: [0]}",
            "[0, 1, 2]",
        ),
        (
            written("/brokers", "[" * 100_000),
            "expect: {znode: {/brokers: 1}}",
            "{/brokers: [[",
        ),
    ],
)
def test_a_malformed_znode_is_none(edit: str, later: str, seen: str, always: str) -> None:
    text = f"{always}{SKELETON}  - {edit}\n  - {later}\nchecks: false\n"
    (failure,) = run_drill(parse_drill(text, "d.yaml")).failures
    assert failure.seen.startswith(seen)


@pytest.mark.parametrize(
    "edit", ["delete_znode: /controller_epoch", "set_znode: {/controller_epoch: 7}"]
)
def test_a_tools_edit_of_the_controller_epoch_is_not_the_next_controllers(edit: str) -> None:
    steps = f"  - {edit}\n  - move_controller:\n    until: {{controller: moved}}\nchecks: false\n"
    assert run_drill(parse_drill(f"always: all\n{SKELETON}{steps}", "d.yaml")).failures == ()


def test_a_second_resume_fails_the_drill() -> None:
    verdict = run_text("  - pause: 2\n  - resume: 2\n  - resume: paused\n")
    (failure,) = verdict.failures
    assert (failure.place, failure.seen) == ("d.yaml:7:5", "no broker is paused")


def test_every_node_agrees_with_zookeeper_at_the_end_unless_the_drill_skips_it() -> None:
    # A registration that the broker does not know of leaves it with another broker epoch.
    step = "  - bounce_registration: 2\n"
    verdict = run_text(step)
    assert verdict.outcome is Outcome.UNSAFE
    assert any("broker 2 has broker epoch" in failure.seen for failure in verdict.failures)
    drill = parse_drill(f"{SKELETON}{step}checks: false\n", "d.yaml")
    assert run_drill(drill).outcome is Outcome.PASSED


def test_an_error_inside_a_broker_is_never_allowed() -> None:
    steps = "  - kill: 0\n  - {wait: 1s, expect: {controller_epoch: 99}}\n"
    drill = parse_drill(f"{SKELETON}{steps}checks: false\n", "d.yaml")
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
    *errors, failure = (failure.expected for failure in part.failures)
    assert ({*errors}, failure) == ({"no error in a broker"}, "controller_epoch: 99")


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
    with closing(play_recording(recording, driver)) as parts:
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
    verdict = run_drill(parse_drill(text, "d.yaml"))
    assert verdict.outcome is Outcome.UNSAFE
    assert any("acknowledged" in failure.seen for failure in verdict.failures), verdict.failures


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
    verdict = run_drill(parse_drill(text, "d.yaml"))
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
        "t-0: lost-write: offsets 100 to 149 were acknowledged, but are not in the log of leader 1"
    )


def test_conditions_of_sometimes_are_printed_in_the_order_in_which_they_held() -> None:
    text = SKELETON.replace(
        "steps:\n", "sometimes: [{brokers: [0, 1]}, {leader: {t-0: 0}}]\nsteps:\n"
    )
    _, verdict, _ = play_text("  - kill: 2\n  - wait: 5s\n", text)
    assert verdict.outcome is Outcome.PASSED
    held = [line for line in verdict_lines("d", verdict) if "sometimes" in line]
    assert [line.split("sometimes ")[1] for line in held] == ["leader: {t-0: 0}", "brokers: [0, 1]"]


@pytest.mark.parametrize(
    ("first", "second", "refusal"),
    [
        ("produce: {t-0: 1}", "produce_constantly: {t-0: 1}", "t-0 already has a producer"),
        ("produce_constantly: {t-0: 1}", "produce: {t-0: 1}", "t-0 already has a producer"),
        ("produce_constantly: {t-0: 1}", "produce_constantly: {t-0: 2}", "t-0 already has a prod"),
        ("produce: {t-0: 1}", "preload: {t-0: 1GB}", "cannot preload t-0: an earlier step"),
        ("produce: {t-0: 1}", "kill_all", "kill_all loses the records of t-0: the logs of"),
    ],
)
def test_a_step_whose_records_would_be_judged_wrongly_is_refused(
    first: str, second: str, refusal: str
) -> None:
    verdict = run_text(f"- {first}\n- {second}\n")
    assert verdict.outcome is Outcome.FAILED
    assert verdict.failures[0].seen.startswith(refusal)
