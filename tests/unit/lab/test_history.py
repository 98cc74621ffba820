"""What the checks of invariants remember of a run, and when they forget it."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from klamm.cluster.types import Broker, TopicPartition
from klamm.lab.checks.observations import (
    NO_NODE,
    Answered,
    Committed,
    History,
    ObservedShutdown,
    Requested,
    RoleChanged,
    State,
    StateWritten,
    Topic,
    TopicWritten,
    decode_state,
    decode_topic,
    is_current_leader,
)
from klamm.world.views.replica_view import ReplicaView

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LED = State(1, 3, (1, 2), 7, 4)
LEADERLESS = State(-1, 4, (1,), 7, 5)
MOVING = Topic("id", {0: (1, 2, 3), 1: (4, 5)}, {0: (3,)}, {0: (1,)})


@pytest.fixture
def history() -> History:
    return History(leaders_write_isrs=False, max_imbalance=0.1)


def elect(history: History, broker: int, epoch: int, session: int = 1) -> None:
    history.on_commit(Committed(session, broker, (), history.epoch, epoch, True))


def test_a_topic_knows_the_origin_and_target_of_its_reassignment() -> None:
    assert (MOVING.is_reassigning(0), MOVING.is_reassigning(1)) == (True, False)
    assert (MOVING.target(0), MOVING.origin(0)) == ((2, 3), (1, 2))
    assert (MOVING.target(1), MOVING.origin(1)) == ((4, 5), (4, 5))
    assert Topic(None, {0: (1, 2)}, {}, {0: (2,)}).is_reassigning(0)


def test_states_are_remembered_until_their_znode_goes(history: History) -> None:
    for state in (LED, LEADERLESS):
        history.on_state(StateWritten(T0, None, state, 1))
    history.on_state(StateWritten(T1, None, LED, 1))
    assert history.states == {T0: LEADERLESS, T1: LED}
    assert history.leaders == {(T0, 3): 1, (T1, 3): 1}
    assert history.leaderless == {T0}
    assert history.stored[T0] == {(1, 3, (1, 2), 4), (-1, 4, (1,), 5)}
    history.on_state(StateWritten(T0, LEADERLESS, LED, 1))
    assert history.leaderless == set()
    history.on_state(StateWritten(T0, LED, None, 1))
    assert history.states == {T1: LED}
    assert history.leaders == {(T1, 3): 1}
    assert history.served == {T0, T1}


def test_a_deleted_topic_was_never_served_and_has_no_deleted_replicas(history: History) -> None:
    for tp in (T0, U0):
        history.on_state(StateWritten(tp, None, LED, 1))
        history.deleted_replicas[tp] = {1}
    history.on_topic(TopicWritten("t", None, MOVING, 1))
    history.on_topic(TopicWritten("t", MOVING, None, 1))
    assert (history.topics, history.served, history.deleted_replicas) == ({}, {U0}, {U0: {1}})


@pytest.mark.parametrize(("writer", "edited"), [(NO_NODE, {(1, 2, 3)}), (1, None)])
def test_the_replicas_before_an_edit_by_a_tool_are_remembered(
    history: History, writer: int, edited: set[tuple[int, ...]] | None
) -> None:
    history.on_topic(TopicWritten("t", None, MOVING, NO_NODE))
    assert history.edited == {}
    history.on_topic(TopicWritten("t", MOVING, MOVING._replace(replicas={0: (9,)}), writer))
    assert history.edited.get(T0) == edited
    assert history.topics["t"].replicas == {0: (9,)}


def test_a_new_controller_knows_the_registered_brokers_and_those_that_come_as_it_loads(
    history: History,
) -> None:
    history.on_registration(1, 11)
    history.on_registration(2, 12)
    assert history.alive is None
    elect(history, 1, 5, session=77)
    assert (history.epoch, history.elected_session, history.elected) == (5, 77, {5: 1})
    history.on_registration(3, 13)
    history.on_registration(2, None)
    assert history.alive == {1, 2, 3}
    assert history.registered == {1: 11, 3: 13}
    on_row(history, Kind.CONTROLLER_READY, epoch=5)
    history.on_registration(4, 14)
    assert history.alive == {1, 2, 3}
    on_row(history, Kind.BROKER_OFFLINE, 2, epoch=5)
    on_row(history, Kind.BROKER_ONLINE, 4, epoch=5)
    on_row(history, Kind.BROKER_OFFLINE, 1, epoch=4)
    assert history.alive == {1, 3, 4}
    # A commit in the same epoch is no election.
    history.on_commit(Committed(9, 2, (), 5, 5, False))
    assert (history.elected_session, history.is_loaded) == (77, True)
    elect(history, 3, 6)
    assert (history.alive, history.is_loaded, history.elected) == ({1, 3, 4}, False, {5: 1, 6: 3})


def on_row(history: History, kind: Kind, broker: int = -1, *, epoch: int) -> None:
    history.on_row(
        JournalRow(
            v=1, run_id="r", t_ms=0, seq=1, controller=1, epoch=epoch, kind=kind, replica=broker
        )
    )


def test_a_shutdown_counts_if_the_newest_controller_grants_it(history: History) -> None:
    elect(history, 1, 5)
    history.on_shut_down(ObservedShutdown(2, 3, 33, ()))
    assert history.shut_down == {}
    history.on_shut_down(ObservedShutdown(1, 3, 33, ()))
    assert history.shut_down == {3: (5, 33)}
    elect(history, 2, 6)
    assert history.shut_down == {}


def leader_and_isr(*epochs: int, controller_epoch: int = 5) -> LeaderAndIsrRequest:
    states = tuple(
        LeaderAndIsrPartitionState(TopicPartition("t", n), 5, 1, epoch, (1,), 1, (1,))
        for n, epoch in enumerate(epochs)
    )
    return LeaderAndIsrRequest(1, controller_epoch, 70, states, {}, ())


def stop(epoch: int, *, delete: bool = True, controller_epoch: int = 5) -> StopReplicaRequest:
    return StopReplicaRequest(
        1, controller_epoch, 70, (StopReplicaPartitionState(T0, epoch, delete),)
    )


@pytest.mark.parametrize(("epoch", "is_known"), [(2, True), (3, True), (4, False), (-2, False)])
def test_the_last_epoch_that_was_sent_is_known_until_the_replica_is_stopped(
    history: History, epoch: int, is_known: bool
) -> None:
    history.on_request(Requested(1, 2, leader_and_isr(2, 8)))
    history.on_request(Requested(1, 2, leader_and_isr(3)))
    history.on_request(Requested(1, 2, stop(epoch)))
    found = {(5, 2, 70, T1): 8}
    assert history.sent_epochs == ({**found, (5, 2, 70, T0): 3} if is_known else found)


def test_the_brokers_in_the_last_metadata_are_remembered(history: History) -> None:
    for live in ((1, 2), (2, 3)):
        brokers = tuple(Broker(broker_id, ()) for broker_id in live)
        history.on_request(Requested(1, 2, UpdateMetadataRequest(1, 5, 70, (), brokers, {})))
    assert history.updated == {(5, 2, 70): frozenset({2, 3})}


def answered(history: History, request: Any, response: Any, broker: int = 2) -> None:
    history.on_answer(Answered(broker, 70, request, response))


def test_a_replica_is_deleted_from_its_stop_to_its_next_leader_and_isr(history: History) -> None:
    done, failed = {T0: Errors.NONE}, {T0: Errors.KAFKA_STORAGE_ERROR}
    answered(history, stop(3), StopReplicaResponse(Errors.NONE, failed))
    answered(history, stop(3), StopReplicaResponse(Errors.STALE_CONTROLLER_EPOCH, done))
    answered(history, stop(3, delete=False), StopReplicaResponse(Errors.NONE, done))
    assert history.deleted_replicas == {}
    for broker in (2, 3):
        answered(history, stop(3), StopReplicaResponse(Errors.NONE, done), broker)
    assert history.deleted_replicas == {T0: {2, 3}}
    answered(history, leader_and_isr(4), LeaderAndIsrResponse(Errors.NONE, done))
    assert history.deleted_replicas == {T0: {3}}


def test_a_restarted_broker_has_accepted_and_applied_nothing(history: History) -> None:
    fine = LeaderAndIsrResponse(Errors.NONE, {})
    for broker, epoch in ((2, 5), (2, 4), (3, 6)):
        answered(history, leader_and_isr(controller_epoch=epoch), fine, broker)
    stale = LeaderAndIsrResponse(Errors.STALE_CONTROLLER_EPOCH, {})
    answered(history, leader_and_isr(controller_epoch=9), stale, 2)
    assert history.accepted == {2: 5, 3: 6}
    for broker in (2, 3):
        applied = ReplicaView(T0, broker, (), 0, applied_epoch=8)
        history.on_role(RoleChanged(T0, broker, applied, (), (), None))
    assert history.applied == {(T0, 2): 8, (T0, 3): 8}
    history.on_restart(2)
    assert (history.accepted, history.applied) == ({3: 6}, {(T0, 3): 8})
    history.on_role(RoleChanged(T0, 3, None, (), (), None))
    assert history.applied == {}


def test_an_unclean_election_is_asked_for_or_allowed(history: History) -> None:
    assert not history.may_be_unclean(T0)
    history.unclean.add(T0)
    assert (history.may_be_unclean(T0), history.may_be_unclean(T1)) == (True, False)
    history.unclean_configs["topics"].add("u")
    assert (history.may_be_unclean(T1), history.may_be_unclean(U0)) == (False, True)
    history.unclean_configs["brokers"].add("1")
    assert history.may_be_unclean(T1)


STATE = b'{"leader": 1, "leader_epoch": 3, "isr": [1, 2], "controller_epoch": 7}'


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (STATE, LED),
        (None, None),
        (b"?", None),
        (b"[]", None),
        (b"[" * 100_000, None),
        (STATE.replace(b"isr", b"x"), None),
        (STATE.replace(b"[1, 2]", b'["1"]'), None),
        (STATE.replace(b'"leader": 1', b'"leader": "1"'), None),
    ],
)
def test_a_malformed_state_znode_is_none(data: bytes | None, state: State | None) -> None:
    assert decode_state(data, 4) == state


PARTITIONS = b'{"partitions": {"0": [1, 2], "10": [3]}'


@pytest.mark.parametrize(
    ("data", "topic"),
    [
        (PARTITIONS + b"}", Topic(None, {0: (1, 2), 10: (3,)}, {}, {})),
        (
            PARTITIONS
            + b', "topic_id": "i", "adding_replicas": {"0": [2]}, "removing_replicas": {"0": [1]}}',
            Topic("i", {0: (1, 2), 10: (3,)}, {0: (2,)}, {0: (1,)}),
        ),
        (
            PARTITIONS + b', "adding_replicas": null, "removing_replicas": null}',
            Topic(None, {0: (1, 2), 10: (3,)}, {}, {}),
        ),
        (b'{"partitions": {"x": [1]}}', None),
        (b'{"partitions": {"0": 1}}', None),
        (b'{"partitions": {"0": [[1]]}}', None),
        (b'{"partitions": [1]}', None),
        (b"{}", None),
        (None, None),
    ],
)
def test_a_malformed_topic_znode_is_none(data: bytes | None, topic: Topic | None) -> None:
    assert decode_topic(data) == topic


@pytest.mark.parametrize(
    ("leading", "state", "is_current"),
    [(3, LED, True), (2, LED, False), (-1, LED._replace(leader_epoch=-1), False), (3, None, False)],
)
def test_a_leader_of_an_older_epoch_is_not_the_current_one(
    leading: int, state: State | None, is_current: bool
) -> None:
    view = ReplicaView(T0, 1, (), 0, leading_epoch=leading)
    assert is_current_leader(view, state) == is_current
