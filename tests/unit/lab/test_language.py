"""The drill language: what it compiles to, and where and how it complains."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cluster.disk_faults import FaultKind
from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.lab.actions import actions, network_actions, steps
from klamm.lab.actions.action import InRack, IsrFollower
from klamm.lab.actions.table import ACTIONS
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.conditions import conditions as scenario_conditions
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.conditions.triggers import At, AtBreakpoint, AtStep, Every, OnRow
from klamm.lab.drill import Drill, Quiesce, Step
from klamm.lab.drills.library import BUGS, NAMES, find_drill, named_drill
from klamm.lab.language.language import DRILL_WORDS, parse_drill, read_drill
from klamm.lab.language.step_language import STEP_WORDS
from klamm.statemachines.reassignment import Phase
from klamm.world.network import Traffic
from klamm.world.simulated.breakpoints import Breakpoint

HEAD = "drill: d\nabout: x\ncluster: {brokers: 3, topics: {t: [[0, 1]]}}\nsteps:\n"
LARGE_HEAD = (
    "drill: d\nabout: x\ncluster: {brokers: 10, racks: [a], zookeeper_servers: 3,"
    " config: {log.dirs: 'd0,d1'}, topics: {t: [[0, 1], [1, 0]], u: [[2]]}}\nsteps:\n"
)
T0 = TopicPartition("t", 0)


def drill_of(lines: str) -> Drill:
    return parse_drill(HEAD + lines, "d.yaml")


def last_step(lines: str, head: str = LARGE_HEAD) -> Step:
    return parse_drill(head + lines, "d.yaml").steps[-1]


def test_a_drill_begins_with_its_brokers_and_topics() -> None:
    drill = parse_drill(
        "drill: d\nabout: >\n  two\n  lines\n"
        "cluster:\n  brokers: [4, 7]\n  controllers: [7]\n  racks: [a, b]\n"
        "  session_timeout: 1.5s\n  config: {num.partitions: 2}\n"
        "  topics:\n    t: {replicas: [[7, 4], [4, 7]], config: {retention.ms: 1}}\n"
        "checks: false\nsteps:\n  - wait: 250ms\n",
        "d.yaml",
    )
    spec = drill.spec(NO_QUIRKS, 3)
    assert (drill.about, drill.is_checked, drill.source) == ("two lines", False, "d.yaml")
    assert (spec.broker_ids, spec.candidates, spec.racks) == ((4, 7), (7,), {4: "a", 7: "b"})
    assert (spec.session_timeout_ms, spec.seed) == (1500, 3)
    assert spec.config == {"auto.leader.rebalance.enable": "false", "num.partitions": "2"}
    start, create, wait = drill.steps
    assert start.actions == (actions.Start(4), actions.Start(7))
    (tool,) = create.actions
    assert isinstance(tool, steps.RunTool)
    assert tool.args[2:] == (
        *("--create", "--topic", "t", "--replica-assignment", "7:4,4:7"),
        *("--config", "retention.ms=1"),
    )
    assert wait == Step("wait: 250ms", (steps.Wait(250.0),), (), "d.yaml:15:5")


ACTION_CASES = {
    "kill: 1": (actions.Kill(1),),
    "kill: controller": (actions.Kill("controller"),),
    "start: dead": (actions.Start("dead"),),
    "resume: paused": (actions.Resume("paused"),),
    "kill: [rack a, any ISR follower of t-0]": (
        actions.Kill(InRack("a")),
        actions.Kill(IsrFollower("t-0")),
    ),
    "pause: [0, 2]": (actions.Pause(0), actions.Pause(2)),
    "stop: leader of t-0": (actions.Stop(T0),),
    "power_off: [0, leader of t-0]": (actions.PowerOff(0), actions.PowerOff(T0)),
    "isolate: [0, leader of t-0]": (network_actions.Isolate((0, T0)),),
    "degrade_network: {loss: 0.25, reordering: 1}": (
        network_actions.DegradeNetwork(loss=0.25, reordering=1.0),
    ),
    "cut: {from: [0, controller], to: zookeeper}": (
        network_actions.Cut(sources=(0, "controller"), destinations=("zookeeper",)),
    ),
    "cut: {between: [[0], [1, 2], clients], only: records}": (
        network_actions.Cut(between=((0,), (1, 2), ("clients",)), only=Traffic.RECORDS),
    ),
    "fail_requests: {api: Fetch, client: c, broker: 1, cut: true, times: 2}": (
        network_actions.FailRequests(api="Fetch", client="c", broker=1, cut=True, times=2),
    ),
    "clog: {between: [leader of t-0, others]}": (
        network_actions.Clog(between=((T0,), ("others",))),
    ),
    "delay: {from: zookeeper, to: 1, ms: 200}": (
        network_actions.Delay(sources=("zookeeper",), destinations=(1,), ms=200),
    ),
    "lag_zookeeper: {broker: 1, ms: 500}": (network_actions.LagZookeeper(1, 500),),
    "skew_clock: {broker: controller, ms: -60000}": (actions.SkewClock("controller", -60_000),),
    "heal_network": (network_actions.HealNetwork(),),
    "bounce_registration: 2": (actions.BounceRegistration(2),),
    "fail_log_dir: {broker: 1, log_dir: d1}": (actions.FailLogDir(1, "d1"),),
    "fail_disk: {broker: 1, log_dir: d1, kind: enospc}": (
        actions.FailDisk(FaultKind.ENOSPC, 1, "d1"),
    ),
    "fail_disk: {broker: leader of t-0, kind: fsync, times: 2, after_bytes: 9}": (
        actions.FailDisk(FaultKind.FSYNC, T0, after_bytes=9, times=2),
    ),
    "fail_disk: {broker: 1, kind: eio, after_bytes: 0}": (actions.FailDisk(FaultKind.EIO, 1),),
    "fail_disk: {journal: true, kind: short-write}": (
        actions.FailDisk(FaultKind.SHORT_WRITE, journal=True),
    ),
    "slow_disk: {broker: 1, bytes_per_s: 1000}": (actions.SlowDisk(1, 1000),),
    "slow_disk: {broker: 1, log_dir: d1, bytes_per_s: 5}": (actions.SlowDisk(1, 5, "d1"),),
    "heal_disks": (actions.HealDisks(),),
    "kill_all": (steps.KillAll(),),
    "up_again": (steps.UpAgain(),),
    "move_controller:": (actions.MoveController(),),
    "move_controller": (actions.MoveController(),),
    "preload: {t-0: 1.5GB}": (steps.Preload({T0: 1_500_000_000}),),
    "produce: {t-0: 25}": (steps.Produce({T0: 25}),),
    "produce_constantly: {t-0: 2.5}": (steps.ProduceConstantly({T0: 2.5}),),
    "reassign: {t-0: [2, 9]}": (steps.Reassign({T0: (2, 9)}),),
    "cancel_reassignment: [t-0]": (steps.CancelReassignment([T0]),),
    "elect_preferred: all": (steps.ElectLeaders(ElectionType.PREFERRED, None),),
    "elect_unclean: t-0": (steps.ElectLeaders(ElectionType.UNCLEAN, (T0,)),),
    "create_znode: {/a: null, /b: 'x'}": (steps.CreateZnode({"/a": None, "/b": b"x"}),),
    "set_znode: {/a: {v: [1, -2.5, true, null, no, 010]}}": (
        steps.SetZnode({"/a": b'{"v": [1, -2.5, true, null, "no", "010"]}'}),
    ),
    "delete_znode: [/a/b]": (steps.DeleteZnode(["/a/b"]),),
    "set_topic_partitions: {t-1: [0], t-2: [1], u-0: [2]}": (
        steps.SetTopicPartitions(
            {
                TopicPartition("t", 1): (0,),
                TopicPartition("t", 2): (1,),
                TopicPartition("u", 0): (2,),
            }
        ),
    ),
    "wait: 2min": (steps.Wait(120_000.0),),
    "advance: 40": (steps.Advance(40),),
    "heal_all": (steps.HealAll(),),
    "expire_session: [0, controller]": (
        steps.BreakSession(0, "expire_session"),
        steps.BreakSession("controller", "expire_session"),
    ),
    "lose_request: leader of t-0": (steps.BreakSession(T0, "lose_request"),),
    "fail_authentication: 2": (steps.BreakSession(2, "fail_authentication"),),
    "lose_reply: 1": (steps.BreakSession(1, "lose_reply"),),
    "kill_zookeeper: leader": (steps.ActOnZooKeeper("kill", "leader"),),
    "start_zookeeper: 3": (steps.ActOnZooKeeper("start", "3"),),
    "pause_zookeeper: follower": (steps.ActOnZooKeeper("pause", "follower"),),
    "resume_zookeeper: 1": (steps.ActOnZooKeeper("resume", "1"),),
    "lose_quorum": (steps.ActOnZooKeeper("lose_quorum"),),
    "regain_quorum": (steps.ActOnZooKeeper("regain_quorum"),),
    "run: topics --zookeeper {zk} 'a b'": (
        steps.RunTool("topics", ("--zookeeper", "{zk}", "a b")),
    ),
    "run: topics --version": (steps.RunTool("topics", ("--version",)),),
    "run: [configs, --zookeeper, z]": (steps.RunTool("configs", ("--zookeeper", "z")),),
}


@pytest.mark.parametrize("line", ACTION_CASES)
def test_an_action_compiles(line: str) -> None:
    assert last_step(f"  - {line}\n").actions == ACTION_CASES[line]


def test_every_action_has_a_case_and_an_example_that_compiles() -> None:
    assert {line.split(":")[0] for line in ACTION_CASES} == set(ACTIONS)
    for word, kind in ACTIONS.items():
        assert kind.example.split(":")[0] == word
        assert last_step(f"  - {kind.example}\n").actions


def test_the_conditions_are_those_that_can_be_looked_at_and_their_examples_compile() -> None:
    for word, kind in scenario_conditions.CONDITIONS.items():
        step = last_step(f"  - run: topics --version\n    expect:\n      {kind.example}\n")
        found = [c for c in step.checks if isinstance(c, StepCheck) and c.condition.kind == word]
        assert len(found) == 1, word
        assert kind.example.startswith(f"{word}: ")


def test_checks_come_in_the_order_in_which_they_can_be_known() -> None:
    step = last_step(
        "  - run: topics --zookeeper {zk} --list\n"
        "    within: 5s\n"
        "    expect:\n      - {leader: {t-0: none}}\n      - output: a\n"
        "    until: {isr: {t-0: [1, 0]}, controller: moved}\n"
    )
    assert [
        c if isinstance(c, Quiesce) else (c.moment, str(c.condition), c.place) for c in step.checks
    ] == [
        (Moment.EXPECT, "exit_code: 0", "d.yaml:5:5"),
        (Moment.EXPECT, "output: [a]", "d.yaml:9:9"),
        (Moment.UNTIL, "isr: {t-0: [1, 0]}", "d.yaml:10:13"),
        (Moment.UNTIL, "controller: moved", "d.yaml:10:33"),
        Quiesce(),
        (Moment.EXPECT, "leader: {t-0: -1}", "d.yaml:8:10"),
    ]
    assert [c.timeout_ms for c in step.checks if isinstance(c, StepCheck)][2:4] == [5000.0, 5000.0]


def test_an_exit_code_that_is_expected_replaces_that_of_success() -> None:
    step = last_step("  - cancel_reassignment: t-0\n    expect: {exit_code: 1}\n")
    (check,) = step.checks
    assert isinstance(check, StepCheck)
    assert check.condition == Condition("exit_code", 1)


def test_files_are_handed_to_the_tool() -> None:
    (tool,) = last_step(
        "  - run: configs --zookeeper {file:a} {file:b}\n    files: {a: {v: 1}, b: text}\n"
    ).actions
    assert isinstance(tool, steps.RunTool)
    assert tool.args == ("--zookeeper", "{file:a}", "{file:b}")
    assert tool.files == {"a": '{"v": 1}', "b": "text"}


RACKS = "drill: d\nabout: x\ncluster: {brokers: 4, racks: [a, b], topics: {t: [[0, 1]]}}\nsteps:\n"


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("{until: {isr: {t-0: [0, 1]}}}", "wait"),
        ("{expect: {isr: {t-0: [0, 1]}}}", "look"),
        ("{kill: 0, until: {leader: {t-0: 1}}}", "kill: 0"),
        ("kill_all", "kill_all"),
        ("{name: mine, kill: 0}", "mine"),
    ],
)
def test_a_step_has_a_name(step: str, name: str) -> None:
    assert drill_of(f"- {step}\n").steps[-1].name == name


def test_a_step_is_repeated_and_run_for_each_broker_or_rack() -> None:
    def names_and_actions(lines: str) -> list[tuple[str, object]]:
        found = parse_drill(RACKS + lines, "d.yaml").steps[2:]
        return [(step.name, action) for step in found for action in step.actions]

    assert names_and_actions("  - {repeat: 2, kill: controller}\n") == [
        ("kill: controller (1 of 2)", actions.Kill("controller")),
        ("kill: controller (2 of 2)", actions.Kill("controller")),
    ]
    lines = "  - {for_each: [3, 0], repeat: 2, steps: [kill: each, start: each]}\n"
    assert [action for _, action in names_and_actions(lines)] == [
        *(actions.Kill(3), actions.Start(3)) * 2,
        *(actions.Kill(0), actions.Start(0)) * 2,
    ]
    assert names_and_actions("  - {for_each: rack, isolate: each}\n") == [
        (f"isolate: each (rack {rack})", network_actions.Isolate((InRack(rack),)))
        for rack in ("a", "b")
    ]
    assert len(names_and_actions("  - {for_each: broker, kill: [each, controller]}\n")) == 8


def test_each_stands_for_brokers_in_conditions() -> None:
    lines = "  - {for_each: rack, kill: each, until: {unregistered: each}}\n"
    steps_ = parse_drill(RACKS + lines, "d.yaml").steps[2:]
    wanted = [c.condition.wanted for s in steps_ for c in s.checks if isinstance(c, StepCheck)]
    assert wanted == [[0, 2], [1, 3]]
    lines = "  - {for_each: [1], kill: 0, until: {leader: {t-0: each}, hosts: {each: [t-0]}}}\n"
    (step,) = parse_drill(RACKS + lines, "d.yaml").steps[2:]
    found = [check.condition for check in step.checks if isinstance(check, StepCheck)]
    assert found == [Condition("leader", {"t-0": 1}), Condition("hosts", {"1": ["t-0"]})]


def test_branches_are_steps_or_lists_of_steps() -> None:
    step = last_step("  - parallel:\n    - kill: 1\n    - [wait: 1s, kill: 2]\n    - heal_all\n")
    assert [[inner.name for inner in branch] for branch in step.branches] == [
        ["kill: 1"],
        ["wait: 1s", "kill: 2"],
        ["heal_all"],
    ]


@pytest.mark.parametrize(
    ("step", "worlds"),
    [
        ("parallel: [expire_session: 1, kill: 0]", "simulated only"),
        ("advance: 3", "simulated only"),
        ("produce_constantly: {t-0: 10}", "simulated only"),
        ("lag_zookeeper: {broker: 1, ms: 500}", "simulated only"),
        ("delay: {from: zookeeper, to: 1, ms: 500}", "simulated only"),
        ("delay: {between: [[0, 1], [zookeeper]], ms: 500}", "simulated only"),
        ("{at: {step: 1, wait: 1s}, kill: 1}", "simulated only"),
        ("delay: {from: 0, to: 1, ms: 500}", "both"),
        ("cut: {from: zookeeper, to: 1}", "both"),
        ("kill: 1", "both"),
        ("kill_zookeeper: leader", "real only"),
    ],
)
def test_a_drill_knows_the_worlds_that_can_run_it(step: str, worlds: str) -> None:
    assert drill_of(f"  - {step}\n").worlds == worlds


def test_a_trigger_makes_a_step_wait_beside_the_others() -> None:
    moved = "  - reassign: {t-0: [2]}\n"
    step = last_step(f"{moved}  - {{before: B6, repeat: 2, kill: controller}}\n")
    assert step.trigger == AtBreakpoint(Breakpoint(True, Phase.B6))
    ((first, second),) = step.branches
    assert [first.name, second.name] == [f"kill: controller ({n} of 2) (before B6)" for n in (1, 2)]
    assert last_step("  - {at: 1.5s, wait: 1s}\n").trigger == At(1500.0)
    assert last_step("  - {at: {step: 1}, wait: 1s}\n").trigger == AtStep(1)
    assert last_step("  - {at: {step: 1, advance: 7}, wait: 1s}\n").trigger == AtStep(1, 7)
    timed = last_step("  - {at: {step: 1, wait: 2s}, wait: 1s}\n").trigger
    assert timed == AtStep(1, wait_ms=2000.0)
    assert last_step("  - {every: 2min, steps: [kill: 1, start: 1]}\n").trigger == Every(120_000.0)
    row = last_step("  - {on: {kind: event, detail: x}, kill: 1}\n").trigger
    assert row == OnRow({"kind": "event", "detail": "x"})
    deletion = "  - run: topics --zookeeper {zk} --delete --topic t\n"
    around = last_step(
        f"{deletion}  - {{after: {{event: TopicDeletion, operation: 3}}, kill: 1}}\n"
    ).trigger
    assert around == AtBreakpoint(Breakpoint(False, None, "TopicDeletion", 3))
    assert drill_of(f"  - {{before: U1, kill: 1}}\n{moved}").worlds == "simulated only"


WRONG = {
    "- {at: soon, kill: 1}": ("5:10", "at must be a duration, not 'soon'", "as in 500ms"),
    "- {every: 1ms, kill: 1}": ("5:13", "every: the interval must be at least 10ms", ""),
    "- {at: 1s, every: 1s, kill: 1}": ("5:14", "a step has at most one trigger: give either", ""),
    "- {at: 1s}": ("5:5", "a step requires an action, 'until' or 'expect'", ""),
    "- {on: {knd: event}, kill: 1}": ("5:11", "unknown word in a journal row 'knd'", "kind?"),
    "- {before: B9, kill: 1}": ("5:14", "unknown controller step 'B9'", "known: U1, U3"),
    "- {before: U2, kill: 1}": ("5:14", "unknown controller step 'U2'", "known: U1, U3"),
    "- {before: {operation: 2}, kill: 1}": (
        "5:14",
        "before requires 'event'",
        "one of ControllerEvent",
    ),
    "- {before: {event: TopicDelet}, kill: 1}": (
        "5:22",
        "unknown controller event",
        "TopicDeletion",
    ),
    "- {after: {event: TopicDeletion, operation: 0}, kill: 1}": ("5:47", "operation must be", ""),
    "- {at: 1s, advance: 5}": ("5:14", "advance is not possible in a branch", ""),
    "- {parallel: [kill: 1, {at: 1s, kill: 0}]}": (
        "5:27",
        "a step with a trigger cannot be inside 'parallel'",
        "put it before",
    ),
    "- {at: {step: 3}, kill: 1}": ("5:6", "there is no step 3", "1 is their end"),
    "- {at: {advance: 3}, kill: 1}": ("5:10", "at requires 'step'", ""),
    "- {at: {step: 1, advance: 3, wait: 1s}, kill: 1}": (
        "5:10",
        "at: give either 'advance' or 'wait'",
        "",
    ),
    "- {at: {step: 0}, kill: 1}": ("5:17", "step must be from 1", ""),
    "- {at: 1s, steps: [{at: 1s, kill: 0}]}": ("5:6", "a step with a trigger is already", ""),
    "- {repeat: 0, kill: 1}": ("5:14", "repeat must be from 1 to 1000, not 0", ""),
    "- {repeat: 2, for_each: racks, kill: 1}": ("5:27", "'racks' is not a set", "use broker, rack"),
    "- {for_each: rack, kill: each}": ("5:16", "the cluster has no racks", "racks: [a, b, c]"),
    "- {for_each: [0, 7], kill: each}": ("5:20", "the cluster has no broker 7", "brokers: 0"),
    "- {kill: each}": ("5:12", "'each' is not a broker", "each in a step with for_each"),
    "- {kill: rack a}": ("5:12", "the cluster has no racks", ""),
    "- {steps: []}": ("5:13", "the list of steps is empty", ""),
    "- {steps: [kill: 1], until: {healthy: true}}": (
        "5:24",
        "'until' cannot be combined with 'steps'",
        "",
    ),
    "- {parallel: [kill: 1]}": ("5:16", "parallel needs at least two branches", ""),
    "- {parallel: [advance: 5, kill: 1]}": (
        "5:17",
        "advance is not possible in a branch",
        "use wait: 10ms",
    ),
    "- {repeat: 500, steps: [{repeat: 500, wait: 1s}]}": ("5:27", "the drill has more than", ""),
    "- {until: {unregistered: leader of t-0}}": (
        "5:28",
        "the brokers must be known in advance",
        "use ids, or rack a",
    ),
    "- kil: 1": ("5:5", "unknown word in a step 'kil'", "did you mean kill?"),
    "- frobnicate": ("5:5", "unknown step 'frobnicate'", "known: kill, start"),
    "- kill: 7": ("5:11", "the cluster has no broker 7", "brokers: 0, 1, 2"),
    "- {until: {deleted: 'a b'}}": ("5:23", 'Topic name "a b" is illegal, it', "as in t"),
    "- {until: {not_reassigning: [t, 5 parsecs]}}": (
        "5:35",
        'Topic name "5 parsecs" is',
        "as in t",
    ),
    "- kill: bob": ("5:11", "'bob' is not a broker", "use an id, controller"),
    "- kill: []": ("5:11", "name at least one broker", "use an id, controller, dead"),
    "- kill: {a: 1}": ("5:11", "a broker must be a single word", ""),
    "- {kill: 1, start: 1}": (
        "5:15",
        "a step has at most one action: give either kill or start",
        "",
    ),
    "- {name: x}": ("5:5", "a step requires an action", ""),
    "- {kill: 1, kill: 2}": ("5:15", "'kill' is given twice", ""),
    "- {kill: 1, within: 3s}": (
        "5:15",
        "'within' is the timeout of 'until', which is missing here",
        "",
    ),
    "- {wait: soon}": ("5:12", "wait must be a duration, not 'soon'", "as in 500ms"),
    "- {move_controller: 1}": ("5:23", "move_controller takes no value", ""),
    "- {preload: {t-0: 1001TB}}": ("5:21", "preload of t-0 must be at most 1000TB", ""),
    "- {heal_network: 1}": ("5:20", "heal_network takes no value", ""),
    "- isolate: []": ("5:14", "name at least one broker", "heal_network ends an isolation"),
    "- isolate: [0, 2, 1]": ("5:14", "cannot isolate all brokers of the cluster", "leave at"),
    "- cut: {from: 0}": ("5:10", "cut: give either 'from' and 'to', or at least two groups", ""),
    "- cut: {between: [0]}": ("5:10", "cut: give either 'from' and 'to', or at least two", ""),
    "- cut: {between: [0, 1], to: 2}": ("5:10", "cut: give either 'from' and 'to'", ""),
    "- cut: {between: [0, []]}": ("5:10", "cut: give either 'from' and 'to', or at least two", ""),
    "- cut: {between: [0, [1, 0]]}": ("5:10", "cut: 0 is named twice", ""),
    "- cut: {from: 9, to: 1}": ("5:17", "the cluster has no broker 9", "brokers: 0, 1, 2"),
    "- cut: {from: 0, to: zookeper}": ("5:24", "'zookeper' is not a broker", "use an id"),
    "- cut: {from: clients, to: zookeeper}": ("5:10", "cut: clients have no connections", ""),
    "- cut: {from: 0, to: zookeeper, only: control}": ("5:10", "cut: 'only' does not apply", ""),
    "- cut: {from: 0, to: 1, only: metadata}": ("5:33", "unknown only 'metadata'", ""),
    "- clog: {from: 0, to: zookeeper}": ("5:11", "clog: links with zookeeper cannot be", ""),
    "- skew_clock: {broker: 1, ms: 1e9}": ("5:33", "ms must be a whole number", ""),
    "- skew_clock: {broker: 1, ms: 86400001}": (
        "5:33",
        "ms must be from -86400000 to 86400000",
        "",
    ),
    "- delay: {from: 0, to: 1}": ("5:12", "delay requires 'ms'", ""),
    "- degrade_network: {}": (
        "5:22",
        "degrade_network must be at least one 'name: value' line",
        "",
    ),
    "- degrade_network: {only: records, loss: 1}": ("5:22", "degrade_network: 'only' req", ""),
    "- degrade_network: {loss: 0, repetition: 0.0}": (
        "5:22",
        "degrade_network: one of 'loss', 'repetition' and 'reordering' must be greater than 0",
        "",
    ),
    "- degrade_network: {lost: 1}": ("5:23", "unknown word", "did you mean loss?"),
    "- degrade_network: {loss: 10%}": ("5:29", "loss must be a number, not '10%'", "as in 0.1"),
    "- degrade_network: {loss: 1.5}": ("5:29", "loss must be from 0 to 1, not 1.5", ""),
    "- degrade_network: {loss: -0.5}": ("5:29", "loss must be from 0 to 1, not -0.5", ""),
    "- {fail_disk: {kind: eio}}": (
        "5:17",
        "fail_disk: give either 'broker' or 'journal'",
        "",
    ),
    "- {fail_disk: {broker: 1}}": ("5:17", "fail_disk requires 'kind'", "enospc, eio, short-write"),
    "- {fail_disk: {broker: 1, kind: eioo}}": (
        "5:35",
        "unknown kind",
        "did you mean eio?",
    ),
    "- {fail_disk: {broker: 1, kind: eio, times: 0}}": ("5:47", "times must be from 1", ""),
    "- {slow_disk: {broker: 1}}": ("5:17", "slow_disk requires 'bytes_per_s'", ""),
    "- {heal_disks: 1}": ("5:18", "heal_disks takes no value", ""),
    "- {fail_log_dir: {broker: 1}}": ("5:20", "fail_log_dir requires 'log_dir'", ""),
    "- {fail_log_dir: {broker: 1, log_dri: x}}": ("5:32", "unknown word", "did you mean log_dir?"),
    "- {reassign: {t: [1]}}": ("5:17", "a key must be a partition, not 't'", "as in t-0"),
    "- {reassign: {t-0: []}}": ("5:22", "a partition needs at least one replica", ""),
    "- {reassign: {t-0: [1, 1]}}": ("5:26", "broker 1 is listed twice", ""),
    "- kill: [1, 1]": ("5:11", "broker 1 is listed twice", ""),
    "- {for_each: [0, 1], start: [0, 1, each]}": ("5:31", "broker 0 is listed twice", ""),
    "- {delete_znode: a}": ("5:20", "delete_znode must be the path of a znode, not 'a'", ""),
    "- {delete_znode: /a/}": ("5:20", "delete_znode must be the path of a znode, not '/a/'", ""),
    "- {delete_znode: [/a, /a//b]}": (
        "5:25",
        "delete_znode must be the path of a znode, not '/a//b'",
        "",
    ),
    "- {run: topic --list}": ("5:11", "unknown tool 'topic'", "did you mean topics?"),
    "- run: topics --list": (
        "5:10",
        "topics requires the address of the cluster",
        "add --bootstrap-server {bootstrap}",
    ),
    "- {run: topics --replikation-factor 3}": (
        "5:11",
        "topics: replikation-factor is not a recognized option",
        "klamm topics --help",
    ),
    "- run: topics 'x": ("5:10", "not a command: No closing quotation", ""),
    "- {run: 'topics --zookeeper {file:x}'}": ("5:11", "file 'x' is missing", ""),
    "- {run: configs, files: {x: 1}}": ("5:20", "no argument of 'run' uses the file 'x'", ""),
    "- {run: 'topics --zookeeper {file:..}', files: {..: 1}}": (
        "5:51",
        "'..' is not a file name",
        "",
    ),
    "- {kill: 1, files: {x: 1}}": ("5:15", "'files' requires 'run' in the same step", ""),
    "- {until: {leader: {t-0: 4}}}": ("5:28", "the cluster has no broker 4", ""),
    "- {until: {leadr: {t-0: 1}}}": ("5:14", "unknown word in until 'leadr'", "mean leader?"),
    "- {until: {isr: [1]}}": ("5:19", "partitions with their values must be", ""),
    "- {until: []}": ("5:13", "until has no condition", ""),
    "- {until: {exit_code: 0}}": ("5:14", "exit_code cannot be waited for", "under 'expect'"),
    "- {kill: 1, expect: {output: x}}": (
        "5:24",
        "the step has no action with an exit",
        "require run",
    ),
    "- {expect: {offline_partitions: many}}": (
        "5:35",
        "offline_partitions must be a whole",
        "",
    ),
    "- {expect: {offline_partitions: -1}}": ("5:35", "offline_partitions must be from 0", ""),
    "- {expect: {journal: {knd: x}}}": ("5:25", "unknown word in a journal row", "mean kind?"),
    "- {expect: {journal: {kind: evnt}}}": ("5:31", "unknown kind of row", "mean event?"),
    "- {expect: {partition_state: {t-0: Online}}}": ("5:38", "unknown partition state", "Online"),
    "- {expect: {controller: x}}": ("5:27", "'x' is not a controller", "an id, moved, or none"),
    "- {always: {leader: {t-0: 1}}}": ("5:6", "unknown word in a step 'always'", "known: kill"),
    "- when: {step: U2}": ("5:5", "unknown word in a step 'when'", ""),
    "- {fail_log_dir: {broker: 1, log_dir: d}}": (
        "5:41",
        "the brokers have no log directory d",
        "known: kafka-logs; cluster: {config: {log.dirs: 'a,b'}}",
    ),
    "- {fail_log_dir: {broker: 1, log_dir: kafka}}": (
        "5:41",
        "the brokers have no log directory kafka",
        "did you mean kafka-logs?",
    ),
    "- {kill_zookeeper: 2}": ("5:22", "the drill has no ZooKeeper server 2", "servers: 1;"),
    "- {pause_zookeeper: follower}": ("5:23", "the drill has no ZooKeeper server follower", "1;"),
    "- {expect: {journal: {to: OflinePartition}}}": ("5:29", "unknown state", "OfflinePartition?"),
    "- {on: {kind: replica_transition, to: OnlinePartition}, kill: 1}": (
        "5:41",
        "unknown state 'OnlinePartition'",
        "known: NewReplica, OnlineReplica",
    ),
    "- {expect: {journal: {to: 5}}}": ("5:29", "'to' of a journal row must be text, not '5'", ""),
    "- {expect: {journal: {leader: x}}}": ("5:33", "'leader' of a journal row must be a whole", ""),
    "- {expect: {journal: {isr: 5}}}": ("5:30", "'isr' of a journal row must be a list of", ""),
    "- {skew_clock: {broker: 1, ms: 99999999999999999999999}}": (
        "5:34",
        "ms must be from -86400000 to 86400000, not 99999999999999999999999",
        "",
    ),
    "- {wait: 2h}": ("5:12", "wait must be a duration, not '2h'", "5min"),
    "- {for_each: [], kill: each}": ("5:16", "for_each has no broker", "use broker, or a list"),
    "- {until: {healthy: true}, within: 0s}": ("5:38", "within must be more than 0s", "as in"),
    "- run: topics --zookeeper {zkk} --list": ("5:10", "unknown placeholder '{zkk}'", "{zk}?"),
    "- {fail_disk: {journal: yes, kind: eio}}": (
        "5:27",
        "journal must be true or false, not 'yes'",
        "",
    ),
    "- preload: {t-0: 5}": ("5:20", "preload of t-0 must be a size, not '5'", "as in 500MB, 2TB"),
    "- preload: {t-0: 1001TB}": ("5:20", "preload of t-0 must be at most 1000TB, not 1001TB", ""),
    f"- preload: {{t-0: {'9' * 400}B}}": ("5:20", "preload of t-0 must be at most 1000TB", ""),
    f"- create_znode: {{/x: 1{'0' * 400}.5}}": ("5:24", "the number 10", ""),
    "- kill: rack x": ("5:11", "the cluster has no racks", "cluster: {racks: [a, b, c]}"),
    "- kill_zookeeper: boss": ("5:21", "'boss' is not a server", "use an id, leader or follower"),
    "- kill_zookeeper: 2": ("5:21", "the drill has no ZooKeeper server 2", "servers: 1; cluster:"),
    "- run: []": ("5:10", "name a tool", ""),
    "- {until: {unregistered: []}}": ("5:28", "name at least one broker", "use ids, or rack a"),
    "- {until: {unregistered: controller}}": ("5:28", "the brokers must be known in advance", ""),
    "- {until: {healthy: false}}": ("5:23", "healthy must be true", "to expect a fault, use e.g."),
    "- &a kill": ("5:5", "anchors and aliases are not allowed", ""),
    "- !!python/name:x kill": ("5:5", "the tag !!python/name:x is not allowed", ""),
    "- [": ("6:1", "", ""),
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_said_with_its_place(line: str) -> None:
    place, problem, hint = WRONG[line]
    with pytest.raises(UsageError) as caught:
        drill_of(f"  {line}\n")
    assert caught.value.message.startswith(f"d.yaml:{place}: {problem}")
    assert hint in str(caught.value.hint)
    assert "\n" not in caught.value.message


WRONG_FILES = {
    "": "d.yaml: the file is empty",
    "- a": "d.yaml:1:1: a drill must be at least one 'name: value' line",
    "drill: d": "d.yaml:1:1: a drill requires 'about'",
    "drill: D\nabout: x\nsteps: [wait]": "d.yaml:1:8: the name 'D' must be lower case",
    f"drill: {'d' * 101}\nabout: x\nsteps: [wait]": (
        "d.yaml:1:8: the name is longer than 100 characters"
    ),
    "drill: d\nabout: x\nsteps: []": "d.yaml:3:8: the list of steps is empty",
    "drill: d\nabout: x\nsteps: 1": "d.yaml:3:8: steps must be a list",
    "drill: d\nabouts: x": "d.yaml:2:1: unknown word in a drill 'abouts'",
    "cluster: {brokers: 0}": "d.yaml:1:20: brokers must be from 1 to 100, not 0",
    "cluster: {brokers: 101}": "d.yaml:1:20: brokers must be from 1 to 100, not 101",
    f"cluster: {{brokers: {list(range(101))}}}": "d.yaml:1:20: a drill has at most 100 brokers",
    "cluster: {brokers: []}": "d.yaml:1:20: brokers must be a list of different ids",
    "cluster: {controllers: []}": "d.yaml:1:24: a cluster needs at least one controller",
    "cluster: {zookeeper_servers: 2}": "d.yaml:1:30: zookeeper_servers must be 1, 3 or 5",
    "cluster: {brokers: [1, 1]}": "d.yaml:1:20: brokers must be a list of different ids",
    "cluster: {controllers: 1}": "d.yaml:1:24: controllers must be a list",
    'cluster: {racks: ["\\ud83d"]}': "d.yaml:1:19: \\ud83d is not a character",
    "cluster: {controllers: [5]}": "d.yaml:1:25: the cluster has no broker 5",
    "cluster: {brokers: 2, racks: [a, b, c]}": "d.yaml:1:37: 3 racks for 2 brokers",
    'cluster: {racks: [a, "\\u0007"]}': r"d.yaml:1:22: the rack name '\x07' has control characters",
    "cluster: {segments: true, config: {log.dirs: ../a}}": "d.yaml:1:35: log directory ../a: with ",
    "cluster: {session_timeout: 1ms}": "d.yaml:1:28: session_timeout must be from 1s to 60s",
    "cluster: {config: {num.partition: 1}}": "d.yaml:1:20: unknown config num.partition",
    "cluster: {config: {num.partitions: x}}": "d.yaml:1:20: Invalid value x for configuration num.",
    "cluster: {topics: {t: [[]]}}": "d.yaml:1:23: each partition needs at least one replica",
    "cluster: {topics: {t: {config: {a: b}}}}": "d.yaml:1:23: a topic requires 'replicas'",
    "cluster: {topics: {'a b': [[0]]}}": 'd.yaml:1:20: Topic name "a b" is illegal',
    "cluster: {topics: {a.b: [[0]], a_b: [[0]]}}": "d.yaml:1:32: Topic 'a_b' collides with",
    "cluster: {topics: {t: [[0], [1, 2]]}}": "d.yaml:1:20: All partitions should have the same",
    "cluster: {topics: {t: {replicas: [[0]], config: {retention.ms: x}}}}": (
        "d.yaml:1:64: Invalid value x for configuration retention.ms"
    ),
    "cluster: {topics: {t: {replicas: [[0]], config: {retention: 1}}}}": (
        "d.yaml:1:50: unknown topic config 'retention'"
    ),
    "a: b: c": "d.yaml:1:5: mapping values are not allowed here",
    "a\n---\nb": "d.yaml:2:1: but found another document",
    "a\0": ("d.yaml:1:2: not YAML: special characters are not allowed"),
}


@pytest.mark.parametrize("text", WRONG_FILES)
def test_a_file_that_is_no_drill_is_refused(text: str) -> None:
    whole = f"{text}\ndrill: d\nabout: x\nsteps: [wait: 1s]" if text[:1] == "c" else text
    with pytest.raises(UsageError) as caught:
        parse_drill(whole, "d.yaml")
    assert caught.value.message.startswith(WRONG_FILES[text])


@pytest.mark.parametrize(
    "step",
    [
        "kill: LONG",
        "LONG: 1",
        "wait: LONG",
        "run: LONG",
        "produce: {LONG-0: x}",
        "preload: {t-0: LONG}",
        "fail_log_dir: {broker: 0, log_dir: LONG}",
        "until: {deleted: LONG}",
        "expect: {healthy: LONG}",
        "expect: {journal: {kind: LONG}}",
        "expect: {journal: {partition: {a: [LONG]}}}",
    ],
)
def test_a_long_value_is_cut_in_the_error(step: str) -> None:
    with pytest.raises(UsageError, match=r"x{60,79}…") as caught:
        drill_of(f"  - {step.replace('LONG', 'x' * 900)}\n")
    assert len(caught.value.message) < 250


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "deep").write_text("[" * 5000)
    (tmp_path / "long").write_bytes(b" " * 1_000_001)
    (tmp_path / "wide").write_text("\u00e9" * 500_001, encoding="utf-8")
    for name, problem in (
        ("latin", "not UTF-8 text"),
        ("deep", "nested too deeply"),
        ("long", "at most 1000000 bytes"),
        ("wide", "at most 1000000 bytes"),
        ("absent", "No such file"),
        (".", "Is a directory"),
    ):
        with pytest.raises(UsageError, match=problem):
            read_drill(tmp_path / name)


def test_the_words_kept_for_later_are_free() -> None:
    for word in ("when", "if"):
        assert word not in (
            *DRILL_WORDS,
            *ACTIONS,
            *scenario_conditions.CONDITIONS,
            *STEP_WORDS,
        )


def test_drills_are_found_by_name_and_by_file(tmp_path: Path) -> None:
    assert len(NAMES) >= 10
    for name in (*NAMES, *BUGS):
        assert named_drill(name).name == name
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "  - wait: 1s\n")
    assert find_drill(str(path)).source == str(path)
    with pytest.raises(UsageError, match="unknown drill leader-los") as caught:
        find_drill("leader-los")
    assert caught.value.hint == "did you mean leader-loss?"


def test_a_drill_may_turn_automatic_rebalancing_on() -> None:
    drill = parse_drill(
        "drill: d\nabout: x\ncluster: {config: {auto.leader.rebalance.enable: true}}\n"
        "steps: [wait: 1s]\n",
        "d.yaml",
    )
    assert drill.spec(NO_QUIRKS, 0).config == {"auto.leader.rebalance.enable": "true"}


def test_a_drill_names_invariants_or_takes_all() -> None:
    head = HEAD.removesuffix("steps:\n")

    def always(value: str) -> tuple[str, ...]:
        return parse_drill(f"{head}always: {value}\nsteps: [kill_all]\n", "d.yaml").always

    assert always("all") == tuple(INVARIANTS)
    assert always("weak-isr") == ("weak-isr",)
    assert always("[weak-isr, isr-is-not-empty]") == ("isr-is-not-empty", "weak-isr")
    assert drill_of("  - kill: 0\n").always == ()
    with pytest.raises(UsageError, match=r"d.yaml:4:9: unknown invariant 'weak-is'") as refused:
        always("weak-is")
    assert refused.value.hint == "did you mean weak-isr?"
    with pytest.raises(UsageError, match=r"d.yaml:4:9: name at least one invariant"):
        always("[]")


WRONG_WHOLE_RUNS = {
    "sometimes: {leadr: {t-0: 1}}": ("4:13", "unknown word in sometimes 'leadr'", "mean leader?"),
    "sometimes: []": ("4:12", "sometimes has no condition", ""),
    "sometimes: {exit_code: 1}": ("4:13", "exit_code cannot be waited for", "under 'expect'"),
    "eventually: {within: 5s}": ("4:13", "eventually has no condition", "as in healthy: true"),
    "eventually: {within: soon, healthy: true}": ("4:22", "within must be a duration", "500ms"),
    "eventually: {healty: true}": ("4:14", "unknown word in eventually 'healty'", "mean healthy?"),
}


@pytest.mark.parametrize("line", WRONG_WHOLE_RUNS)
def test_a_wrong_condition_over_the_whole_run_is_refused(line: str) -> None:
    place, problem, hint = WRONG_WHOLE_RUNS[line]
    with pytest.raises(UsageError) as refused:
        parse_drill(HEAD.replace("steps:\n", f"{line}\nsteps: [wait: 1s]\n"), "d.yaml")
    assert refused.value.message.startswith(f"d.yaml:{place}: {problem}")
    assert hint in (refused.value.hint or "")


def test_a_tolerant_drill_expects_no_success_of_its_tools() -> None:
    steps_of = "steps:\n  - elect_preferred: all\n"
    text = HEAD.removesuffix("steps:\n") + "tolerant: true\n" + steps_of
    drill = parse_drill(text, "d.yaml")
    assert drill.is_tolerant
    assert drill.steps[-1].checks == ()


def test_the_isr_of_a_journal_row_is_compared_as_the_row_has_it() -> None:
    step = last_step("  - expect: {journal: {kind: isr_changed, isr: [0, 1]}}\n")
    (check,) = (check for check in step.checks if isinstance(check, StepCheck))
    row = JournalRow(1, "", 0, 1, 0, 1, "isr_changed", isr=(0, 1))
    assert scenario_conditions.matches_row(row, check.condition.wanted)
