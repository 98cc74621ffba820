"""Admin operations are linearizable: each violation planted into a running cluster is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import pytest

from klamm.admin import kafka_admin
from klamm.admin.topics import TopicAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import ApiError, ListPartitionReassignmentsResponse
from klamm.controller import on_reassignment, on_topic_requests
from klamm.lab.checks.admin_history import LINEARIZABLE, AdminHistory
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, Verdict
from tests.sim.drills import run_drill

HEAD = """\
drill: d
about: Clients call the controller.
tolerant: true
cluster:
  brokers: 3
  controllers: [0]
  topics:
    t: [[0, 1], [1, 2]]
steps:
"""
TOPICS = "run: topics --bootstrap-server b:9092"
CONFIGS = "run: configs --bootstrap-server b:9092 --alter --entity-type topics"
LIST = "run: reassign-partitions --bootstrap-server b:9092 --list"
CREATE = f"{TOPICS} --create --topic u --replica-assignment '0:1'"
Patch = Callable[[pytest.MonkeyPatch], None]


def run(*steps: str) -> Verdict:
    """The verdict on a drill with these steps."""
    drill = parse_drill(HEAD + "".join(f"  - {step}\n" for step in steps), "d.yaml")
    return run_drill(drill)


def _deletion_without_effect(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(on_topic_requests, "_mark", lambda _, topics: dict.fromkeys(topics, Errors.NONE))
    patch.setattr(on_topic_requests.PendingDeletion, "late", lambda *_: [])


def _topics_are_created_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(on_topic_requests, "check_topic_absent", lambda *_: None)
    patch.setattr(on_topic_requests, "validate_topic_create", lambda *_, **__: None)
    patch.setattr(on_topic_requests, "_is_ours", lambda *_: True)


def _nothing_is_reassigned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(on_reassignment, "_alter", lambda _, asked: dict.fromkeys(asked, ApiError()))


def _nothing_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    alter = on_reassignment._alter

    def alter_unless_cancelled(controller: Any, asked: Any) -> Any:
        return (
            dict.fromkeys(asked, ApiError()) if None in asked.values() else alter(controller, asked)
        )

    patch.setattr(on_reassignment, "_alter", alter_unless_cancelled)


def _stale_list(patch: pytest.MonkeyPatch) -> None:
    respond, first = ListPartitionReassignmentsResponse, []

    def respond_as_at_first(*args: Any) -> Any:
        first.append(respond(*args))
        return first[0]

    patch.setattr(on_reassignment, "ListPartitionReassignmentsResponse", respond_as_at_first)


def _no_partitions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicAdmin, "create_partitions", lambda *_, **__: [])


def _no_configs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kafka_admin, "alter_configs", lambda *_, **__: None)


MOVE = ("pause: 2", "reassign: {t-0: [2]}")
PLANTS: dict[str, tuple[Patch, tuple[str, ...], str]] = {
    "deleteTopics-without-effect": (
        _deletion_without_effect,
        (f"{TOPICS} --delete --topic t",),
        "topic t: in the end the topic has 0: ",
    ),
    "createTopics-twice": (
        _topics_are_created_twice,
        (f"parallel: [{{{CREATE}}}, {{{CREATE}}}]",),
        "topic u: CreateTopics: NONE",
    ),
    "alterPartitionReassignments-without-effect": (
        _nothing_is_reassigned,
        ("reassign: {t-0: [2]}",),
        "topic t: in the end the topic has 0: ",
    ),
    "cancellation-without-effect": (
        _nothing_is_cancelled,
        (*MOVE, "cancel_reassignment: [t-0]", LIST, "resume: 2"),
        "topic t: ListPartitionReassignments: 0: ",
    ),
    "stale-list": (
        _stale_list,
        (*MOVE, LIST, "cancel_reassignment: [t-0]", LIST, "resume: 2"),
        "topic t: ListPartitionReassignments: 0: ",
    ),
    "createPartitions-without-effect": (
        _no_partitions,
        (f"{TOPICS} --alter --topic t --partitions 3",),
        "topic t: createPartitions, 3 in total: NONE",
    ),
    "incrementalAlterConfigs-without-effect": (
        _no_configs,
        (f"{CONFIGS} --entity-name t --add-config retention.ms=1000",),
        "topic t: incrementalAlterConfigs retention.ms=1000",
    ),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_violation_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, steps, seen = PLANTS[name]
    assert run(*steps).outcome is Outcome.PASSED
    plant(monkeypatch)
    verdict = run(*steps)
    (failure,) = verdict.failures
    assert (verdict.outcome, failure.expected) == (Outcome.UNSAFE, LINEARIZABLE)
    assert failure.seen.startswith(seen)
    assert "; impossible after: " in failure.seen


def test_operations_at_the_same_time_are_linearizable() -> None:
    """Two clients create and delete the same topic, and override and cancel a reassignment."""
    create, delete = f"{{{CREATE}}}", f"{{{TOPICS} --delete --topic u}}"
    first = "{reassign: {t-0: [2]}}, {cancel_reassignment: [t-0]}"
    second = "{reassign: {t-0: [2, 1]}}, {cancel_reassignment: [t-0]}"
    branches = ((create, delete, first), (create, first, delete), (second, delete, create))
    listed = ", ".join(f"[{', '.join(branch)}]" for branch in branches)
    step = f"parallel: [{listed}]"
    assert run(step, LIST, step).outcome is Outcome.PASSED


def test_writes_of_tools_and_indefinite_results_are_in_the_history() -> None:
    """The controller dies while it is asked; what a znode asks for takes effect later or never."""
    verdict = run(
        "run: topics --zookeeper {zk} --alter --topic t --partitions 3",
        "create_znode: {/admin/reassign_partitions: {version: 1, partitions: [{topic: t, "
        "partition: 0, replicas: [2]}]}}",
        "parallel: [[reassign: {t-1: [0]}], [wait: 5ms, kill: controller, wait: 9s, start: dead]]",
        LIST,
        "create_znode: {/admin/delete_topics/t: null}",
        "wait: 9s",
        "run: topics --zookeeper {zk} --create --topic t --replica-assignment 1:2",
        f"{TOPICS} --alter --topic t --partitions 2",
        "wait: 9s",
    )
    assert verdict.outcome is Outcome.PASSED, verdict.failures


def test_a_search_that_gives_up_is_inconclusive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdminHistory, "check", partialmethod(AdminHistory.check, limit=1))
    verdict = run("reassign: {t-0: [2]}", LIST)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.failures[0].seen == "topic t: the search gave up after 1 states"
