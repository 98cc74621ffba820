"""lab/recordings/diff.py: which differences from Kafka count, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.lab.recordings.diff import compare_scenario, masked
from klamm.lab.recordings.rows import StepRecord
from klamm.tools.command_result import CommandResult

STATE = "/brokers/topics/t/partitions/0/state"


def state(*isr: int, epoch: int = 0, leader: int = 0) -> dict[str, Any]:
    return {"leader": leader, "leader_epoch": epoch, "isr": list(isr), "controller_epoch": 1}


def online(*isr: int, leader: int = 0, **more: Any) -> list[Any]:
    return [
        "partition",
        "t-0",
        None,
        "NewPartition",
        "OnlinePartition",
        {**state(*isr, leader=leader), **more},
    ]


def leader_and_isr(to: int, *isr: int, **more: Any) -> dict[str, Any]:
    return {"api": "LeaderAndIsr", "to": to, "tp": "t-0", "isr": list(isr), **more}


def metadata(to: list[int], partitions: int) -> dict[str, Any]:
    return {"api": "UpdateMetadata", "to": to, "partitions": partitions}


def differences(
    section: str, kafka: Any, klamm: Any, *ignore: str, op: str = "kill", writes: Any = ()
) -> list[str]:
    """What differs in the last step, if only one section has anything."""
    empty = {"tree": {STATE: {"data": state(0, 1)}}, "transitions": [], "requests": []}
    start = {**empty, "step": {"op": "up"}, "zk_writes": []}
    recorded = {**start, "step": {"op": op}, "zk_writes": list(writes), section: kafka}
    steps = [recorded] if op == "up" else [start, recorded]
    seen = [
        StepRecord(**{**empty, **({section: klamm} if n == len(steps) - 1 else {})})
        for n in range(len(steps))
    ]
    return compare_scenario({"steps": steps, "ignore": list(ignore)}, seen)


@pytest.mark.parametrize(
    ("section", "kafka", "klamm", "expected"),
    [
        (
            "tree",
            {"/controller": {"ephemeral": True, "data": 1}},
            {"/controller": {"ephemeral": True, "data": 2}},
            [],
        ),
        (
            "tree",
            {"/controller": {"ephemeral": True}},
            {"/controller": {}},
            ['znode /controller: Kafka "ephemeral", klamm "persistent"'],
        ),
        ("tree", {STATE: {"data": state(0, 1)}}, {STATE: {"data": state(1, 0)}}, []),
        (
            "tree",
            {"/b": {}, "/a": {}},
            {"/c": {}},
            [
                "znode /a: Kafka {}, klamm null",
                "znode /b: Kafka {}, klamm null",
                "znode /c: Kafka null, klamm {}",
            ],
        ),
        ("transitions", [online(0, 1)], [online(1, 0, controller_epoch=2)], []),
        (
            "transitions",
            [["replica", "t-0", 1, "a", "b"], ["replica", "t-0", 0, "a", "b"]],
            [["replica", "t-0", 0, "a", "b"], ["replica", "t-0", 1, "a", "b"]],
            [],
        ),
        (
            "transitions",
            [["replica", "t-0", 1, "a", "b"], ["replica", "t-0", 1, "b", "a"]],
            [["replica", "t-0", 1, "b", "a"], ["replica", "t-0", 1, "a", "b"]],
            [
                'transitions t-0 replica 1: Kafka [["replica", "a", "b", null], '
                '["replica", "b", "a", null]], klamm [["replica", "b", "a", null], '
                '["replica", "a", "b", null]]'
            ],
        ),
        (
            "transitions",
            [["replica", "t-1", 1, "a", "b"], ["replica", "t-0", 1, "a", "b"]],
            [],
            [
                f'transitions t-{n} replica 1: Kafka [["replica", "a", "b", null]], klamm null'
                for n in (0, 1)
            ],
        ),
        (
            "requests",
            [leader_and_isr(0, 0, 1, at=1, become="leader")],
            [leader_and_isr(0, 1, 0, at=2)],
            [],
        ),
        (
            "requests",
            [leader_and_isr(0, 0)] * 3,
            [leader_and_isr(0, 0), leader_and_isr(1, 0)],
            [
                'LeaderAndIsr sent only by Kafka: {"isr": [0], "to": 0, "tp": "t-0"} x2',
                'LeaderAndIsr sent only by klamm: {"isr": [0], "to": 1, "tp": "t-0"} x1',
            ],
        ),
        (
            "requests",
            [{"api": "StopReplica", "to": 1}],
            [],
            ['StopReplica sent only by Kafka: {"to": 1} x1'],
        ),
        (
            "requests",
            [metadata([0, 1], 1)],
            [metadata([0], 1)],
            ["UpdateMetadata sent only by Kafka: to 1: 1 partitions x1"],
        ),
        ("requests", [metadata([0, 1], 1)], [metadata([1], 1), metadata([0], 1)], []),
    ],
)
def test_differences_from_kafka_are_listed_unless_they_do_not_count(
    section: str, kafka: Any, klamm: Any, expected: list[str]
) -> None:
    found = differences(section, kafka, klamm)
    assert found == [f"step 1 kill: {line}" for line in expected]
    assert differences(section, kafka, klamm, section) == []
    assert differences(section, kafka, klamm, "tool") == found


def test_the_output_of_a_tool_is_compared_but_for_ids_and_ends_of_lines() -> None:
    kafka = {"stdout": "Topic: t\tTopicId: <id>", "stderr": "", "rc": 0}
    same = CommandResult("Topic: t\tTopicId: Ab-_5678901234567890Ab\n\n", "", 0)
    assert differences("tool", kafka, same) == []
    assert differences("tool", kafka, CommandResult("Topic: t\tTopicId: <id>", "no", 1)) == [
        "step 1 kill: tool stderr: Kafka '', klamm 'no'",
        "step 1 kill: tool rc: Kafka 0, klamm 1",
    ]
    assert differences("tool", kafka, None) == []
    assert masked("[I@1f0c and TopicId: short") == "[I@<hash> and TopicId: short"


@pytest.mark.parametrize(("op", "count"), [("up", 0), ("kill", 1)])
def test_registrations_come_in_any_order_in_the_first_step(op: str, count: int) -> None:
    assert len(differences("requests", [metadata([0], 0)], [], op=op)) == count
    assert len(differences("requests", [metadata([0], 1)], [], op=op)) == 1


@pytest.mark.parametrize(
    ("writes", "partitions", "count"),
    [
        pytest.param([["setData", STATE, 0, state(0, 1, 2), 1]], 1, 0, id="an ISR grew"),
        pytest.param([["setData", STATE, 0, state(0, 1, 2), 1]], 2, 1, id="more partitions"),
        pytest.param([["setData", STATE, 0, state(0, 1, 2), 1]], 0, 1, id="brokers alone"),
        pytest.param([["setData", STATE, 0, state(0, epoch=1), 1]], 1, 1, id="a new epoch"),
        pytest.param(
            [["setData", STATE, 0, state(0, epoch=1), n] for n in (1, 2)],
            1,
            0,
            id="epoch, then ISR",
        ),
        pytest.param([["create", STATE, 0, state(0, 1), 1]], 1, 1, id="a new partition"),
        pytest.param([["setData", "/controller", 0, {}, 1]], 1, 1, id="another znode"),
    ],
)
def test_updates_about_isrs_that_grew_are_grouped_in_any_way(
    writes: list[list[Any]], partitions: int, count: int
) -> None:
    found = differences("requests", [metadata([0], partitions)], [], writes=writes)
    assert len(found) == count
