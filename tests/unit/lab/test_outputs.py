"""What is said of a drill: lines, plain values, JUnit XML, and what differs between worlds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from klamm.cluster.types import TopicPartition
from klamm.lab.conditions.condition import CheckResult, Condition, Moment, StepCheck
from klamm.lab.conditions.partition_times import PartitionAvailability
from klamm.lab.drill import Step
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.run.comparison import PartitionEnd, WorldResult, differences, summary
from klamm.lab.run.drill_run import Failure, Outcome, Verdict, judge_step
from klamm.lab.run.junit import junit_xml
from klamm.lab.run.runner import StepResult
from klamm.lab.run.text import step_lines, step_values, verdict_lines, verdict_values
from klamm.lab.run.worlds import World
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from tests.unit.tools.vectors import memory_server

T0 = TopicPartition("t", 0)


def check(moment: Moment, met: bool | None, at_ms: float = 1_500.0, wanted: int = 1) -> CheckResult:
    asked = StepCheck(moment, Condition("exit_code", wanted), place="d.yaml:7:5")
    return CheckResult(asked, met, 2, at_ms)


def test_a_step_shows_its_conditions_and_how_long_it_waited() -> None:
    checks = (
        check(Moment.UNTIL, met=True),
        check(Moment.EXPECT, met=False),
        check(Moment.EXPECT, met=None),
    )
    step = Step("kill: 1", place="d.yaml:6:3")
    result = StepResult(step, 1_000.0, 2_000.4, checks)
    assert list(step_lines(result)) == [
        "   1.000 s  kill: 1",
        "            held after 0.500 s: until exit_code: 1",
        "            NOT HELD: expect exit_code: 1",
        "            not observable: expect exit_code: 1",
    ]
    assert not result.has_held
    assert StepResult(step, 0.0, 0.0, checks[::2]).has_held
    skipped = StepResult(step, 0.0, 0.0, (), refusal="it is dead")
    assert list(step_lines(skipped))[1:] == ["            skipped: it is dead"]
    assert step_values(result) == {
        "step": "kill: 1",
        "place": "d.yaml:6:3",
        "began_ms": 1_000.0,
        "ended_ms": 2_000.4,
        "skipped": None,
        "checks": [
            {
                "moment": moment,
                "condition": {"exit_code": 1},
                "place": "d.yaml:7:5",
                "held": held,
                "seen": 2,
                "at_ms": 1_500.0,
            }
            for moment, held in (("until", True), ("expect", False), ("expect", None))
        ],
    }


def test_only_conditions_that_did_not_hold_make_a_step_fail() -> None:
    checks = (check(Moment.UNTIL, met=None), check(Moment.EXPECT, met=True))
    failed = check(Moment.EXPECT, met=False)
    assert judge_step(StepResult(Step("s"), 0.0, 0.0, checks), 2_000.0) is None
    verdict = judge_step(StepResult(Step("s"), 0.0, 0.0, (*checks, failed)), 2_000.0)
    assert verdict is not None
    assert (verdict.outcome, len(verdict.failures)) == (Outcome.FAILED, 1)


def test_a_verdict_counts_conditions_names_failures_and_shows_what_the_cluster_suffered() -> None:
    verdict = Verdict(
        Outcome.FAILED,
        12_345.6,
        (Failure("d.yaml:9:1", "leader: {t-0: 1}", "leader: {t-0: 2}", row=8),),
        agreement="all agree",
        sometimes=(
            check(Moment.SOMETIMES, met=True, at_ms=9_000.0, wanted=3),
            check(Moment.SOMETIMES, met=True, at_ms=8_000.0, wanted=4),
            check(Moment.SOMETIMES, met=False, at_ms=1_000.0, wanted=5),
        ),
        partitions={
            T0: PartitionAvailability(1_500.0, 2_500.0, 1, 0),
            TopicPartition("t", 1): PartitionAvailability(0.0, 1.0),
            TopicPartition("t", 2): PartitionAvailability(0.0, 0.0, 0, None),
        },
        unobserved=2,
    )
    assert list(verdict_lines("d", verdict)) == [
        "   8.000 s  held: sometimes exit_code: 4",
        "   9.000 s  held: sometimes exit_code: 3",
        "d.yaml:9:1: expected leader: {t-0: 1}",
        "            seen leader: {t-0: 2}",
        "            t-0: unavailable 1.500 s, under-replicated 2.500 s, 1 record in doubt, "
        "0 records lost",
        "            t-1: unavailable 0.000 s, under-replicated 0.001 s",
        "  12.346 s  all agree",
        "d FAILED after 12.346 s; conditions not observable: 2",
    ]
    values = verdict_values(verdict)
    assert values["outcome"] == "failed" and values["exit_code"] == int(Outcome.FAILED)
    assert values["failures"] == [
        {"place": "d.yaml:9:1", "expected": "leader: {t-0: 1}", "seen": "leader: {t-0: 2}"}
    ]
    assert values["partitions"]["t-0"] == {
        "unavailable_ms": 1_500.0,
        "under_replicated_ms": 2_500.0,
        "records_in_doubt": 1,
        "records_lost": 0,
    }
    assert (values["not_observable"], len(values["sometimes"])) == (2, 3)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.PASSED, "d passed after 1.000 s"),
        (Outcome.UNSAFE, "d FAILED: safety violated after 1.000 s"),
        (Outcome.STUCK, "d FAILED: timed out after 1.000 s"),
        (Outcome.INCONCLUSIVE, "d inconclusive after 1.000 s"),
    ],
)
def test_the_last_line_names_the_outcome(outcome: Outcome, words: str) -> None:
    assert list(verdict_lines("d", Verdict(outcome, 1_000.0))) == [words]


def report(name: str, outcome: str, exit_code: int, *failures: str) -> dict[str, Any]:
    told = [{"place": f"{name}.yaml:1:1", "expected": "a", "seen": seen} for seen in failures]
    return {
        "drill": name,
        "world": "simulated",
        "outcome": outcome,
        "exit_code": exit_code,
        "failures": told,
        "repeat": f"klamm drill run {name}",
    }


def test_junit_distinguishes_failures_from_errors() -> None:
    reports = [
        report("good", "passed", 0),
        report("bad", "failed", 1, "b", "c"),
        report("vague", "inconclusive", 3),
        report("unsafe", "unsafe", 2, "d"),
    ]
    text = junit_xml(reports, [1.0, 0.25, 0.5, 0.125], {"left": "it needs Kafka"})
    suite = ET.fromstring(text.encode())  # noqa: S314 klamm's own
    assert suite.attrib == {
        "name": "klamm drill run",
        "tests": "5",
        "skipped": "1",
        "failures": "2",
        "errors": "1",
        "time": "1.875",
    }
    cases = {case.get("name"): case for case in suite}
    assert cases["good"].attrib == {"name": "good", "classname": "klamm.simulated", "time": "1.000"}
    assert [len(case) for case in suite] == [0, 1, 1, 1, 1]
    (bad,), (vague,), (left,) = (cases[name] for name in ("bad", "vague", "left"))
    assert (bad.tag, bad.attrib) == (
        "failure",
        {"type": "failed", "message": "bad.yaml:1:1: a; seen: b"},
    )
    assert bad.text == (
        "bad.yaml:1:1: a; seen: b\nbad.yaml:1:1: a; seen: c\nrepeat it with: klamm drill run bad"
    )
    assert (vague.tag, vague.get("message")) == ("error", "inconclusive")
    assert (left.tag, left.get("message")) == ("skipped", "it needs Kafka")


def test_junit_is_valid_xml_whatever_was_seen() -> None:
    text = junit_xml([report("bad", "failed", 1, "\x1b[2J\x00")], [1.0], {})
    suite = ET.fromstring(text.encode())  # noqa: S314 klamm's own
    assert suite[0][0].get("message") == "bad.yaml:1:1: a; seen: \\u001b[2J\\u0000"


def ended(outcome: Outcome, **states: PartitionEnd) -> WorldResult:
    failures = (Failure("p", "a", "b"),) if outcome is Outcome.FAILED else ()
    verdict = Verdict(outcome, 0.0, failures, unobserved=1)
    return WorldResult(verdict, states={f"t-{name[1:]}": end for name, end in states.items()})


def test_isrs_do_not_differ_in_their_order() -> None:
    store = MemoryStore(memory_server())
    client = KafkaZkClient(store)
    client.create_recursive("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2,3]}}')
    state = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":4,"isr":[3,1,2]}'
    client.create_recursive("/brokers/topics/t/partitions/0/state", state)
    driver = cast("ScenarioDriver", SimpleNamespace(store=store))
    result = WorldResult.of(Verdict(Outcome.PASSED, 0.0), driver)
    assert result.states == {"t-0": PartitionEnd(2, 4, (1, 2, 3))}


def test_worlds_differ_in_outcomes_and_in_the_ends_of_partitions() -> None:
    one, other = PartitionEnd(1, 4, (1, 2)), PartitionEnd(2, 4, (1, 2))
    results = {
        World.SIMULATION: ended(Outcome.PASSED, p0=one, p1=one, p2=one),
        World.KAFKA_WITH_KLAMM: WorldResult(None, "no disks there"),
        World.KAFKA: ended(Outcome.FAILED, p0=one, p1=other),
    }
    assert differences(results) == [
        "outcome",
        "t-1: simulation: leader 1, epoch 4, ISR [1, 2]; kafka: leader 2, epoch 4, ISR [1, 2]",
        "t-2: simulation: leader 1, epoch 4, ISR [1, 2]; kafka: deleted",
    ]
    assert list(summary("d", results)) == [
        "d",
        "  simulation        passed (1 not observable)",
        "  kafka-with-klamm  cannot run: no disks there",
        "  kafka             FAILED (1 not observable): a; seen b",
        *(f"  differs: {line}" for line in differences(results)[1:]),
    ]
    assert differences({World.KAFKA: results[World.KAFKA]}) == []
    assert results[World.KAFKA].values() == {
        "outcome": "failed",
        "not_observable": 1,
        "failure": "a; seen b",
        "partitions": {
            "t-0": "leader 1, epoch 4, ISR [1, 2]",
            "t-1": "leader 2, epoch 4, ISR [1, 2]",
        },
    }
    assert results[World.SIMULATION].values()["failure"] is None
    assert results[World.KAFKA_WITH_KLAMM].values() == {"outcome": None, "reason": "no disks there"}
