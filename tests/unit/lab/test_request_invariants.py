"""The limits of the invariants of requests: what is just allowed, and what is a violation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.checks.observations import (
    Answered,
    History,
    IsrAnswered,
    ObservedShutdown,
    Requested,
    State,
    Topic,
)
from klamm.lab.checks.request_invariants import (
    accepted_isrs_are_stored,
    leader_and_isr_goes_to_replicas,
    metadata_comes_first,
    requests_carry_stored_states,
    requests_have_their_controllers_epoch,
    sent_epochs_do_not_decrease,
    shutdown_stops_followers,
    stale_broker_epochs_are_refused,
    stale_controllers_are_refused,
    stop_replica_has_a_new_epoch,
)

T0 = TopicPartition("t", 0)


def history(**changes: Any) -> History:
    """Broker 1 is the controller of epoch 3. It sent broker 2 leader epoch 5 of t-0."""
    found = History(leaders_write_isrs=False, max_imbalance=0.1)
    found.epoch, found.elected = 3, {2: 2, 3: 1}
    found.states = {T0: State(1, 6, (1,), 3, 8)}
    found.topics = {"t": Topic(None, {0: (1, 2)}, {}, {})}
    found.stored = {T0: {(1, 5, (1, 2), 7), (1, 6, (1,), 8)}}
    found.updated = {(3, 2, 12): frozenset((1, 2))}
    found.sent_epochs = {(3, 2, 12, T0): 5}
    found.accepted = {2: 3}
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def leader_and_isr(
    leader: int = 1, epoch: int = 5, broker_epoch: int = 12, controller_epoch: int = 3
) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(T0, controller_epoch, leader, epoch, (1, 2), 7, (1, 2))
    return LeaderAndIsrRequest(1, controller_epoch, broker_epoch, (state,), {}, ())


def metadata(leader: int = 1, controller_epoch: int = 3, broker_epoch: int = 12) -> ControlRequest:
    state = UpdateMetadataPartitionState(T0, controller_epoch, leader, 5, (1, 2), 7, (1, 2))
    return UpdateMetadataRequest(1, controller_epoch, broker_epoch, (state,), (), {})


def stop(epoch: int, broker_epoch: int = 12, *, delete: bool = True) -> StopReplicaRequest:
    return StopReplicaRequest(1, 3, broker_epoch, (StopReplicaPartitionState(T0, epoch, delete),))


@pytest.mark.parametrize(
    ("check", "controller", "broker", "request_", "is_violated"),
    [
        (requests_carry_stored_states, 1, 2, leader_and_isr(), False),
        (requests_carry_stored_states, 1, 2, leader_and_isr(epoch=6), True),
        (requests_carry_stored_states, 1, 2, leader_and_isr(leader=2), True),
        (requests_carry_stored_states, 1, 2, leader_and_isr(leader=-2), False),
        (requests_carry_stored_states, 1, 2, metadata(), False),
        (requests_carry_stored_states, 1, 2, metadata(leader=-1), True),
        (requests_carry_stored_states, 1, 2, stop(9), False),
        (requests_have_their_controllers_epoch, 1, 2, leader_and_isr(), False),
        (requests_have_their_controllers_epoch, 2, 2, leader_and_isr(), True),
        (requests_have_their_controllers_epoch, 2, 2, leader_and_isr(controller_epoch=2), False),
        (requests_have_their_controllers_epoch, 1, 2, leader_and_isr(controller_epoch=4), True),
        (metadata_comes_first, 1, 2, leader_and_isr(), False),
        (metadata_comes_first, 1, 1, leader_and_isr(), True),
        (metadata_comes_first, 1, 2, leader_and_isr(broker_epoch=13), True),
        (metadata_comes_first, 1, 2, leader_and_isr(controller_epoch=4), True),
        (metadata_comes_first, 1, 1, metadata(), False),
        (metadata_comes_first, 1, 1, stop(6), False),
        (leader_and_isr_goes_to_replicas, 1, 2, leader_and_isr(), False),
        (leader_and_isr_goes_to_replicas, 1, 3, leader_and_isr(), True),
        (leader_and_isr_goes_to_replicas, 1, 3, metadata(), False),
        (sent_epochs_do_not_decrease, 1, 2, leader_and_isr(epoch=5), False),
        (sent_epochs_do_not_decrease, 1, 2, leader_and_isr(epoch=4), True),
        (sent_epochs_do_not_decrease, 1, 2, leader_and_isr(epoch=4, broker_epoch=13), False),
        (sent_epochs_do_not_decrease, 1, 1, leader_and_isr(epoch=0), False),
        (sent_epochs_do_not_decrease, 1, 2, stop(4), False),
        (stop_replica_has_a_new_epoch, 1, 2, stop(6), False),
        (stop_replica_has_a_new_epoch, 1, 2, stop(5), True),
        (stop_replica_has_a_new_epoch, 1, 2, stop(0), True),
        (stop_replica_has_a_new_epoch, 1, 2, stop(-1), False),
        (stop_replica_has_a_new_epoch, 1, 2, stop(5, delete=False), False),
        (stop_replica_has_a_new_epoch, 1, 2, stop(5, broker_epoch=13), False),
        (stop_replica_has_a_new_epoch, 1, 1, stop(0), False),
        (stop_replica_has_a_new_epoch, 1, 2, leader_and_isr(), False),
    ],
)
def test_each_invariant_of_requests_has_its_limit(
    check: Callable[[History, Requested], Any],
    controller: int,
    broker: int,
    request_: ControlRequest,
    is_violated: bool,
) -> None:
    assert bool(list(check(history(), Requested(controller, broker, request_)))) == is_violated


@pytest.mark.parametrize(
    ("given", "controller", "broker_epoch", "hosted", "is_violated"),
    [
        pytest.param({}, 1, 12, [T0], True, id="not stopped"),
        pytest.param({}, 1, 12, [], False, id="hosted no longer"),
        pytest.param({}, 2, 12, [T0], False, id="by a deposed controller"),
        pytest.param({}, 1, 13, [T0], False, id="another registration"),
        pytest.param({"epoch": 4, "elected": {4: 1}}, 1, 12, [T0], False, id="another epoch"),
        pytest.param({"sent_epochs": {}}, 1, 12, [T0], False, id="stopped"),
        pytest.param({"sent_epochs": {(3, 2, 12, T0): 6}}, 1, 12, [T0], False, id="told"),
        pytest.param({"sent_epochs": {(3, 1, 12, T0): 5}}, 1, 12, [T0], False, id="another broker"),
        pytest.param({"states": {}}, 1, 12, [T0], False, id="no state"),
        pytest.param({"topics": {}}, 1, 12, [T0], False, id="no topic"),
        pytest.param({"deleting": {"t"}}, 1, 12, [T0], False, id="being deleted"),
        pytest.param(
            {"topics": {"t": Topic(None, {0: (1, 3)}, {}, {})}}, 1, 12, [T0], False, id="moved away"
        ),
    ],
)
def test_a_broker_that_may_shut_down_has_heard_of_every_replica(
    given: dict[str, Any],
    controller: int,
    broker_epoch: int,
    hosted: list[TopicPartition],
    is_violated: bool,
) -> None:
    event = ObservedShutdown(controller, 2, broker_epoch, hosted)
    assert bool(list(shutdown_stops_followers(history(**given), event))) == is_violated


@pytest.mark.parametrize(
    ("error", "broker", "epoch", "broker_epoch", "expected"),
    [
        (Errors.NONE, 2, 3, 12, []),
        (Errors.NONE, 2, 2, 12, ["controller"]),
        (Errors.NONE, 3, 1, 12, []),
        (Errors.NONE, 2, 3, 11, ["broker"]),
        (Errors.NONE, 2, 3, 13, []),
        (Errors.NONE, 2, 3, -1, []),
        (Errors.STALE_CONTROLLER_EPOCH, 2, 2, 12, []),
        (Errors.STALE_BROKER_EPOCH, 2, 3, 11, []),
    ],
)
def test_accepting_a_stale_epoch_is_a_violation(
    error: Errors, broker: int, epoch: int, broker_epoch: int, expected: list[str]
) -> None:
    request = metadata(controller_epoch=epoch, broker_epoch=broker_epoch)
    event = Answered(broker, 12, request, UpdateMetadataResponse(error))
    checks = {
        "controller": stale_controllers_are_refused,
        "broker": stale_broker_epochs_are_refused,
    }
    assert [name for name, check in checks.items() if list(check(history(), event))] == expected


@pytest.mark.parametrize(
    ("asked_version", "answer", "is_violated"),
    [
        (7, LeaderAndIsr(1, 6, (1,), 8), False),
        (8, LeaderAndIsr(1, 6, (1,), 8), False),
        (9, LeaderAndIsr(1, 6, (1,), 8), True),
        (7, LeaderAndIsr(1, 6, (1, 2), 8), True),
        (9, Errors.INVALID_UPDATE_VERSION, False),
    ],
)
def test_an_answered_isr_is_stored(
    asked_version: int, answer: LeaderAndIsr | Errors, is_violated: bool
) -> None:
    request = AlterIsrRequest(1, 11, {T0: LeaderAndIsr(1, 6, (1,), asked_version)})
    event = IsrAnswered(1, 1, request, AlterIsrResponse(Errors.NONE, {T0: answer}))
    assert bool(list(accepted_isrs_are_stored(history(), event))) == is_violated
