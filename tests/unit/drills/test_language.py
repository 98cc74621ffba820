"""The drill language: what it compiles to, and where and how it complains."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.brokers.storage.faults import FaultKind
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.drills.actions import ACTIONS
from klamm.drills.conditions import CONDITIONS
from klamm.drills.language import STEP_WORDS, parse_drill, read_drill
from klamm.drills.library import NAMES, find_drill, named_drill
from klamm.drills.values import Drill
from klamm.runtime import actions
from klamm.runtime.scenarios import conditions as scenario_conditions
from klamm.runtime.scenarios import steps
from klamm.runtime.scenarios.steps import Check, Condition, Moment, Quiesce, Step

HEAD = "drill: d\nabout: x\ncluster: {brokers: 3, topics: {t: [[0, 1]]}}\nsteps:\n"
T0 = TopicPartition("t", 0)


def drill_of(lines: str) -> Drill:
    return parse_drill(HEAD + lines, "d.yaml")


def last_step(lines: str) -> Step:
    return drill_of(lines).steps[-1]


def test_a_drill_begins_with_its_brokers_and_topics() -> None:
    drill = parse_drill(
        "drill: d\nabout: >\n  two\n  lines\n"
        "cluster:\n  brokers: [4, 7]\n  controllers: [7]\n  racks: [a, b]\n"
        "  session_timeout: 1.5s\n  config: {num.partitions: 2}\n"
        "  topics:\n    t: {replicas: [[7, 4], [4]], config: {retention.ms: 1}}\n"
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
        *("--create", "--topic", "t", "--replica-assignment", "7:4,4"),
        *("--config", "retention.ms=1"),
    )
    assert wait == Step("wait: 250ms", (steps.Wait(250.0),), (), "d.yaml:15:5")


ACTION_CASES = {
    "kill: 1": (actions.Kill(1),),
    "kill: controller": (actions.Kill("controller"),),
    "start: dead": (actions.Start("dead"),),
    "resume: paused": (actions.Resume("paused"),),
    "pause: [0, 2]": (actions.Pause(0), actions.Pause(2)),
    "stop: leader of t-0": (actions.Stop(T0),),
    "power_off: [0, leader of t-0]": (actions.PowerOff(0), actions.PowerOff(T0)),
    "isolate: [0, leader of t-0]": (actions.Isolate((0, T0)),),
    "degrade_network: {loss: 0.25, reordering: 1}": (steps.DegradeNetwork(0.25, 0.0, 1.0),),
    "heal_network": (steps.HealNetwork(),),
    "bounce_registration: 2": (actions.BounceRegistration(2),),
    "fail_log_dir: {broker: 1, dir: d1}": (actions.FailLogDir(1, "d1"),),
    "fail_disk: {broker: 1, dir: d1, kind: enospc}": (actions.FailDisk(FaultKind.ENOSPC, 1, "d1"),),
    "fail_disk: {broker: leader of t-0, kind: fsync, times: 2, after_bytes: 9}": (
        actions.FailDisk(FaultKind.FSYNC, T0, after_bytes=9, times=2),
    ),
    "fail_disk: {journal: true, kind: short-write}": (
        actions.FailDisk(FaultKind.SHORT_WRITE, journal=True),
    ),
    "slow_disk: {broker: 1, bytes_per_s: 1000}": (actions.SlowDisk(1, 1000),),
    "slow_disk: {broker: 1, dir: d1, bytes_per_s: 5}": (actions.SlowDisk(1, 5, "d1"),),
    "heal_disks": (actions.HealDisks(),),
    "kill_all": (steps.KillAll(),),
    "up_again": (steps.UpAgain(),),
    "move_controller:": (actions.MoveController(),),
    "move_controller": (actions.MoveController(),),
    "preload: {t-0: 1.5GB}": (steps.Preload(T0, 1_500_000_000),),
    "produce: {t-0: 25}": (steps.Produce({T0: 25}),),
    "produce_constantly: {t-0: 2.5}": (steps.ProduceConstantly({T0: 2.5}),),
    "reassign: {t-0: [2, 9]}": (steps.Reassign({T0: (2, 9)}),),
    "cancel_reassignment: [t-0]": (steps.Reassign({T0: None}),),
    "elect_preferred: all": (steps.ElectLeaders(ElectionType.PREFERRED, None),),
    "elect_unclean: t-0": (steps.ElectLeaders(ElectionType.UNCLEAN, (T0,)),),
    "create_znode: {/a: null, /b: 'x'}": (
        steps.CreateZnode("/a", None),
        steps.CreateZnode("/b", b"x"),
    ),
    "set_znode: {/a: {v: [1, -2.5, true, null, no, 010]}}": (
        steps.SetZnode("/a", b'{"v": [1, -2.5, true, null, "no", "010"]}'),
    ),
    "delete_znode: [/a/b]": (steps.DeleteZnode("/a/b"),),
    "set_topic_partitions: {t-1: [0], t-2: [1], u-0: [2]}": (
        steps.SetTopicPartitions("t", {"1": [0], "2": [1]}),
        steps.SetTopicPartitions("u", {"0": [2]}),
    ),
    "wait: 2min": (steps.Wait(120_000.0),),
    "kill_zookeeper: leader": (steps.ActOnZooKeeper("kill", "leader"),),
    "start_zookeeper: 3": (steps.ActOnZooKeeper("start", "3"),),
    "pause_zookeeper: follower": (steps.ActOnZooKeeper("pause", "follower"),),
    "resume_zookeeper: 1": (steps.ActOnZooKeeper("resume", "1"),),
    "lose_quorum": (steps.ActOnZooKeeper("lose_quorum"),),
    "regain_quorum": (steps.ActOnZooKeeper("regain_quorum"),),
    "run: topics --list 'a b'": (steps.RunTool("topics", ("--list", "a b")),),
    "run: [configs, --describe]": (steps.RunTool("configs", ("--describe",)),),
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
    assert set(CONDITIONS) == set(scenario_conditions.CONDITIONS)
    for word, kind in CONDITIONS.items():
        step = last_step(f"  - run: topics\n    expect:\n      {kind.example}\n")
        found = [c for c in step.checks if isinstance(c, Check) and c.condition.kind == word]
        assert len(found) == 1, word
        assert kind.example.startswith(f"{word}: ")


def test_checks_come_in_the_order_in_which_they_can_be_known() -> None:
    step = last_step(
        "  - run: topics --list\n"
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
    assert [c.timeout_ms for c in step.checks if isinstance(c, Check)][2:4] == [5000.0, 5000.0]


def test_an_exit_code_that_is_expected_replaces_that_of_success() -> None:
    step = last_step("  - cancel_reassignment: t-0\n    expect: {exit_code: 1}\n")
    (check,) = step.checks
    assert isinstance(check, Check)
    assert check.condition == Condition("exit_code", 1)


def test_files_are_handed_to_the_tool() -> None:
    (tool,) = last_step(
        "  - run: configs {file:a} {file:b}\n    files: {a: {v: 1}, b: text}\n"
    ).actions
    assert isinstance(tool, steps.RunTool)
    assert (tool.args, tool.files) == (("{file:a}", "{file:b}"), {"a": '{"v": 1}', "b": "text"})


WRONG = {
    "- kil: 1": ("5:5", "unknown word in a step 'kil'", "did you mean kill?"),
    "- frobnicate": ("5:5", "unknown step 'frobnicate'", "known: kill, start"),
    "- kill: 7": ("5:11", "the drill has no broker 7", "brokers: 0, 1, 2"),
    "- kill: bob": ("5:11", "'bob' is not a broker", "use an id, controller"),
    "- kill: []": ("5:11", "no broker is given", ""),
    "- kill: {a: 1}": ("5:11", "a broker must be a single word", ""),
    "- {kill: 1, start: 1}": (
        "5:15",
        "a step has at most one action: give either kill or start",
        "",
    ),
    "- {name: x}": ("5:5", "a step requires an action", ""),
    "- {kill: 1, kill: 2}": ("5:15", "'kill' is given twice", ""),
    "- {kill: 1, within: 3s}": ("5:15", "'within' is the timeout of 'until': add one", ""),
    "- {wait: soon}": ("5:12", "a wait must be a duration, not 'soon'", "as in 500ms"),
    "- {move_controller: 1}": ("5:23", "move_controller takes no value", ""),
    "- {preload: {t-0: 1001TB}}": ("5:21", "a preloaded size must be at most 1000TB", ""),
    "- {heal_network: 1}": ("5:20", "heal_network takes no value", ""),
    "- isolate: []": ("5:14", "no broker is given", "heal_network ends an isolation"),
    "- degrade_network: {}": ("5:22", "a network must be 'name: value' lines", ""),
    "- degrade_network: {lost: 1}": ("5:23", "unknown word", "did you mean loss?"),
    "- degrade_network: {loss: 10%}": ("5:29", "loss must be a number, not '10%'", "as in 0.1"),
    "- degrade_network: {loss: 1.5}": ("5:29", "loss must be from 0 to 1, not 1.5", ""),
    "- degrade_network: {loss: -0.5}": ("5:29", "loss must be from 0 to 1, not -0.5", ""),
    "- {fail_disk: {kind: eio}}": (
        "5:17",
        "fail_disk requires either 'broker' or 'journal: true'",
        "",
    ),
    "- {fail_disk: {broker: 1}}": ("5:17", "fail_disk requires 'kind'", "enospc, eio, short-write"),
    "- {fail_disk: {broker: 1, kind: eioo}}": (
        "5:35",
        "unknown fault kind",
        "did you mean eio?",
    ),
    "- {fail_disk: {broker: 1, kind: eio, times: 0}}": ("5:47", "times must be from 1", ""),
    "- {slow_disk: {broker: 1}}": ("5:17", "slow_disk requires 'bytes_per_s'", ""),
    "- {heal_disks: 1}": ("5:18", "heal_disks takes no value", ""),
    "- {fail_log_dir: {broker: 1}}": ("5:20", "fail_log_dir requires 'dir'", ""),
    "- {fail_log_dir: {broker: 1, dri: x}}": ("5:32", "unknown word", "did you mean dir?"),
    "- {reassign: {t: [1]}}": ("5:17", "a key must be a partition, not 't'", "as in t-0"),
    "- {reassign: {t-0: []}}": ("5:22", "a partition requires a replica", ""),
    "- {reassign: {t-0: [1, 1]}}": ("5:26", "broker 1 is given twice", ""),
    "- {delete_znode: a}": ("5:20", "a znode must be the path of a znode, not 'a'", ""),
    "- {run: topic --list}": ("5:11", "unknown tool 'topic'", "did you mean topics?"),
    "- run: topics 'x": ("5:10", "not a command: No closing quotation", ""),
    "- {run: 'topics {file:x}'}": ("5:11", "file 'x' is missing", ""),
    "- {run: topics, files: {x: 1}}": ("5:19", "no argument of 'run' uses the file 'x'", ""),
    "- {run: 'topics {file:..}', files: {..: 1}}": ("5:39", "'..' is not a file name", ""),
    "- {kill: 1, files: {x: 1}}": ("5:15", "'files' requires 'run' in the same step", ""),
    "- {until: {leader: {t-0: 4}}}": ("5:28", "the drill has no broker 4", ""),
    "- {until: {leadr: {t-0: 1}}}": ("5:14", "unknown word in until 'leadr'", "mean leader?"),
    "- {until: {isr: [1]}}": ("5:19", "partitions with their values must be", ""),
    "- {until: []}": ("5:13", "until has no condition", ""),
    "- {until: {exit_code: 0}}": ("5:14", "exit_code is never waited for", "under 'expect'"),
    "- {kill: 1, expect: {output: x}}": (
        "5:24",
        "the step has no action with an exit",
        "require run",
    ),
    "- {expect: {offline_partitions: many}}": ("5:35", "a count must be a whole number", ""),
    "- {expect: {offline_partitions: -1}}": ("5:35", "a count must be from 0", ""),
    "- {expect: {journal: {knd: x}}}": ("5:25", "unknown word in a journal row", "mean kind?"),
    "- {expect: {journal: {kind: evnt}}}": ("5:31", "unknown kind of row", "mean event?"),
    "- {expect: {partition_state: {t-0: Online}}}": ("5:38", "unknown partition state", "Online"),
    "- {expect: {controller: x}}": ("5:27", "'x' is not a controller", "an id, moved, or none"),
    "- {always: {leader: {t-0: 1}}}": ("5:6", "unknown word in a step 'always'", "known: kill"),
    "- when: {step: U2}": ("5:5", "unknown word in a step 'when'", ""),
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
    "- a": "d.yaml:1:1: a drill must be 'name: value' lines",
    "drill: d": "d.yaml:1:1: a drill requires 'about'",
    "drill: D\nabout: x\nsteps: [wait]": "d.yaml:1:8: the name 'D' must be lower case",
    "drill: d\nabout: x\nsteps: []": "d.yaml:3:8: a drill requires a step",
    "drill: d\nabout: x\nsteps: 1": "d.yaml:3:8: steps must be a list",
    "drill: d\nabouts: x": "d.yaml:2:1: unknown word in a drill 'abouts'",
    "cluster: {brokers: 0}": "d.yaml:1:20: brokers must be from 1 to 100, not 0",
    "cluster: {brokers: [1, 1]}": "d.yaml:1:20: brokers must be a list of different ids",
    "cluster: {controllers: [5]}": "d.yaml:1:25: the drill has no broker 5",
    "cluster: {session_timeout: 1ms}": "d.yaml:1:28: session_timeout must be from 1s to 60s",
    "cluster: {config: {num.partition: 1}}": "d.yaml:1:20: unknown config num.partition",
    "cluster: {config: {num.partitions: x}}": "d.yaml:1:20: Invalid value x for configuration num.",
    "cluster: {topics: {t: [[]]}}": "d.yaml:1:23: each partition requires a replica",
    "cluster: {topics: {t: {config: {a: b}}}}": "d.yaml:1:23: a topic requires 'replicas'",
    "a: b: c": "d.yaml:1:5: mapping values are not allowed here",
    "a\n---\nb": "d.yaml:2:1: but found another document",
}


@pytest.mark.parametrize("text", WRONG_FILES)
def test_a_file_that_is_no_drill_is_refused(text: str) -> None:
    whole = f"{text}\ndrill: d\nabout: x\nsteps: [wait: 1s]" if text[:1] == "c" else text
    with pytest.raises(UsageError) as caught:
        parse_drill(whole, "d.yaml")
    assert caught.value.message.startswith(WRONG_FILES[text])


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "deep").write_text("[" * 5000)
    (tmp_path / "long").write_bytes(b" " * 1_000_001)
    for name, problem in (
        ("latin", "not UTF-8 text"),
        ("deep", "nested too deeply"),
        ("long", "at most 1000000 bytes"),
        ("absent", "No such file"),
        (".", "Is a directory"),
    ):
        with pytest.raises(UsageError, match=problem):
            read_drill(tmp_path / name)


def test_the_words_kept_for_later_are_free() -> None:
    for word in ("always", "sometimes", "eventually", "when"):
        assert word not in (*ACTIONS, *CONDITIONS, *STEP_WORDS)


def test_drills_are_found_by_name_and_by_file(tmp_path: Path) -> None:
    assert len(NAMES) >= 10
    for name in NAMES:
        assert named_drill(name).name == name
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "  - wait: 1s\n")
    assert find_drill(str(path)).source == str(path)
    with pytest.raises(UsageError, match="unknown drill leader-los") as caught:
        find_drill("leader-los")
    assert caught.value.hint == "did you mean leader-loss?"
