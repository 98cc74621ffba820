"""The limits of the invariants of znodes: what is just allowed, and what is a violation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from klamm.cluster.types import TopicPartition
from klamm.lab.checks.observations import (
    NO_NODE,
    Committed,
    History,
    State,
    StateWritten,
    Topic,
    TopicWritten,
)
from klamm.lab.checks.znode_invariants import (
    controller_epoch_rises_by_one,
    deletion_waits_for_reassignments,
    deletion_waits_for_replicas,
    election_is_one_transaction,
    elections_are_clean,
    elections_do_not_grow_the_isr,
    epoch_has_one_leader,
    isr_grows_by_assigned_replicas,
    isr_grows_by_live_brokers,
    isr_is_not_empty,
    leader_change_raises_epoch,
    leader_epoch_rises_by_one,
    leader_is_in_isr,
    moving_replicas_are_replicas,
    only_the_elected_write,
    partitions_are_kept,
    reassignments_end_in_sync,
    replicas_change_by_reassignment,
    shut_down_brokers_stay_out,
    states_have_the_current_epoch,
    topic_id_is_kept,
)

T0 = TopicPartition("t", 0)
BEFORE = State(1, 5, (1, 2), 3, 7)
TOPIC = Topic("id", {0: (1, 2, 3), 1: (2, 3)}, {}, {})
MOVING = Topic("id", {0: (1, 2, 3), 1: (2, 3)}, {0: (3,)}, {0: (1,)})


def history(**changes: Any) -> History:
    """Broker 1 is the controller of epoch 3, in session 30, and leads t-0 at leader epoch 5.

    Brokers 1, 2 and 3 are registered; broker 4 is not. Partition t-1 has no state yet."""
    found = History(leaders_write_isrs=False, max_imbalance=0.1)
    found.states = {T0: BEFORE}
    found.topics = {"t": TOPIC}
    found.leaders = {(T0, 4): 2, (T0, 5): 1}
    found.registered = {1: 11, 2: 12, 3: 13}
    found.alive = {1, 2, 3}
    found.epoch, found.elected_session, found.elected = 3, 30, {2: 2, 3: 1}
    found.served = {T0}
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def state(**changes: Any) -> State:
    return BEFORE._replace(**changes)


UNCLEAN = history(unclean={T0})
OWN = history(leaders_write_isrs=True, epoch=4, alive={1, 2}, shut_down={3: (4, 13)})
SHUT_DOWN = history(shut_down={3: (3, 13)})
OTHER_EPOCH = history(shut_down={3: (2, 13)})
OTHER_REGISTRATION = history(shut_down={3: (3, 12)})


@pytest.mark.parametrize(
    ("check", "given", "before", "after", "writer", "expected"),
    [
        (isr_is_not_empty, history(), BEFORE, state(isr=()), 1, 1),
        (isr_is_not_empty, history(), BEFORE, state(isr=(1,)), 1, 0),
        (isr_is_not_empty, history(), BEFORE, None, 1, 0),
        (leader_is_in_isr, history(), BEFORE, state(leader=3), 1, 1),
        (leader_is_in_isr, history(), BEFORE, state(leader=2), 1, 0),
        (leader_is_in_isr, history(), BEFORE, state(leader=-1), 1, 0),
        (isr_grows_by_assigned_replicas, history(), BEFORE, state(isr=(1, 4)), 1, 1),
        (isr_grows_by_assigned_replicas, history(), BEFORE, state(isr=(1, 3)), 1, 0),
        (isr_grows_by_assigned_replicas, history(topics={}), BEFORE, state(isr=(4,)), 1, 0),
        (leader_epoch_rises_by_one, history(), BEFORE, state(leader_epoch=5), 1, 0),
        (leader_epoch_rises_by_one, history(), BEFORE, state(leader_epoch=6), 1, 0),
        (leader_epoch_rises_by_one, history(), BEFORE, state(leader_epoch=7), 1, 1),
        (leader_epoch_rises_by_one, history(), BEFORE, state(leader_epoch=4), 1, 1),
        (leader_epoch_rises_by_one, history(), None, state(leader_epoch=7), 1, 0),
        (leader_change_raises_epoch, history(), BEFORE, state(leader=2), 1, 1),
        (leader_change_raises_epoch, history(), BEFORE, state(leader=-1), 1, 1),
        (leader_change_raises_epoch, history(), BEFORE, state(isr=(1,)), 1, 0),
        (leader_change_raises_epoch, history(), BEFORE, state(leader=2, leader_epoch=6), 1, 0),
        (epoch_has_one_leader, history(), BEFORE, state(leader=2), 1, 1),
        (epoch_has_one_leader, history(), BEFORE, state(leader_epoch=4), 1, 1),
        (epoch_has_one_leader, history(), BEFORE, state(leader_epoch=6), 1, 0),
        (epoch_has_one_leader, history(), BEFORE, state(leader=-1), 1, 0),
        (elections_are_clean, history(), BEFORE, state(leader=3), 1, 1),
        (elections_are_clean, history(), BEFORE, state(leader=2), 1, 0),
        (elections_are_clean, history(), BEFORE, state(leader=-1), 1, 0),
        (elections_are_clean, history(), state(isr=(2,)), state(isr=(2,)), 1, 0),
        (elections_are_clean, UNCLEAN, BEFORE, state(leader=3), 1, 0),
        (elections_do_not_grow_the_isr, history(), BEFORE, state(leader_epoch=6, isr=(1, 3)), 1, 1),
        (elections_do_not_grow_the_isr, history(), BEFORE, state(leader_epoch=6, isr=(1,)), 1, 0),
        (elections_do_not_grow_the_isr, history(), BEFORE, state(isr=(1, 2, 3)), 1, 0),
        (elections_do_not_grow_the_isr, UNCLEAN, BEFORE, state(leader_epoch=6, isr=(3,)), 1, 0),
        (states_have_the_current_epoch, history(), BEFORE, state(controller_epoch=2), 2, 1),
        (states_have_the_current_epoch, history(), BEFORE, state(controller_epoch=4), 2, 1),
        (states_have_the_current_epoch, history(), BEFORE, BEFORE, 1, 0),
        (states_have_the_current_epoch, history(), BEFORE, state(controller_epoch=2), NO_NODE, 0),
        (states_have_the_current_epoch, OWN, BEFORE, BEFORE, 1, 0),
        (states_have_the_current_epoch, OWN, BEFORE, BEFORE, 2, 1),
        (states_have_the_current_epoch, OWN, BEFORE, state(leader_epoch=6), 1, 1),
        (states_have_the_current_epoch, OWN, None, BEFORE, 1, 1),
        (isr_grows_by_live_brokers, history(alive={1, 2}), BEFORE, state(isr=(1, 3)), 1, 1),
        (isr_grows_by_live_brokers, history(alive={1, 3}), BEFORE, state(isr=(1, 2, 3)), 1, 0),
        (isr_grows_by_live_brokers, history(alive=None), BEFORE, state(isr=(1, 3)), 1, 0),
        (isr_grows_by_live_brokers, OWN, BEFORE, state(isr=(1, 2, 3)), 1, 0),
        (isr_grows_by_live_brokers, OWN, BEFORE, state(isr=(1, 2, 3)), 2, 1),
        (shut_down_brokers_stay_out, SHUT_DOWN, BEFORE, state(isr=(1, 2, 3)), 1, 1),
        (shut_down_brokers_stay_out, SHUT_DOWN, BEFORE, state(isr=(1,)), 1, 0),
        (
            shut_down_brokers_stay_out,
            history(shut_down={3: (2, 13)}),
            BEFORE,
            state(isr=(3,)),
            1,
            0,
        ),
        (
            shut_down_brokers_stay_out,
            history(shut_down={3: (3, 12)}),
            BEFORE,
            state(isr=(3,)),
            1,
            0,
        ),
        (shut_down_brokers_stay_out, history(), BEFORE, state(isr=(1, 3)), 1, 0),
        (shut_down_brokers_stay_out, OWN, BEFORE, state(isr=(1, 2, 3)), 1, 0),
        (shut_down_brokers_stay_out, OWN, BEFORE, state(isr=(1, 2, 3)), 2, 1),
        (shut_down_brokers_stay_out, OWN, BEFORE, None, 1, 0),
    ],
)
def test_each_invariant_of_state_znodes_has_its_limit(
    check: Callable[[History, StateWritten], Any],
    given: History,
    before: State | None,
    after: State | None,
    writer: int,
    expected: int,
) -> None:
    assert len(list(check(given, StateWritten(T0, before, after, writer)))) == expected


STATE_PATH = "/brokers/topics/t/partitions/0/state"


@pytest.mark.parametrize(
    ("check", "session", "path", "epochs", "creates", "expected"),
    [
        (only_the_elected_write, 30, STATE_PATH, (3, 3), False, 0),
        (only_the_elected_write, 20, STATE_PATH, (3, 3), False, 1),
        (only_the_elected_write, 20, "/brokers/topics/t", (3, 3), False, 1),
        (only_the_elected_write, 20, "/admin/delete_topics/t", (3, 3), False, 1),
        (only_the_elected_write, 20, "/admin/reassign_partitions", (3, 3), False, 1),
        (only_the_elected_write, 20, "/admin/preferred_replica_election", (3, 3), False, 1),
        (only_the_elected_write, 20, "/brokers/ids/2", (3, 3), False, 0),
        (only_the_elected_write, 20, STATE_PATH, (3, 4), True, 0),
        (election_is_one_transaction, 20, "/controller", (3, 4), True, 0),
        (election_is_one_transaction, 20, "/controller", (3, 3), True, 1),
        (election_is_one_transaction, 20, "/controller_epoch", (3, 4), False, 1),
        (election_is_one_transaction, 20, "/config/topics/t", (3, 3), False, 0),
        (controller_epoch_rises_by_one, 20, "/controller", (3, 3), False, 0),
        (controller_epoch_rises_by_one, 20, "/controller", (3, 4), True, 0),
        (controller_epoch_rises_by_one, 20, "/controller", (3, 5), True, 1),
        (controller_epoch_rises_by_one, 20, "/controller", (3, 2), True, 1),
    ],
)
def test_each_invariant_of_transactions_has_its_limit(
    check: Callable[[History, Committed], Any],
    session: int,
    path: str,
    epochs: tuple[int, int],
    creates: bool,
    expected: int,
) -> None:
    event = Committed(session, 2, (path,), *epochs, creates)
    assert len(list(check(history(), event))) == expected


def test_leaders_that_write_isrs_change_states_and_nothing_else() -> None:
    event = Committed(20, 2, (STATE_PATH, "/brokers/topics/t"), 3, 3, creates_controller=False)
    [line] = only_the_elected_write(OWN, event)
    assert line.startswith("/brokers/topics/t was changed by broker 2, but the controller is")


def topic(zero: tuple[int, ...] = (1, 2, 3), one: tuple[int, ...] | None = (2, 3)) -> Topic:
    return Topic("id", {0: zero} if one is None else {0: zero, 1: one}, {}, {})


def moving(**changes: Any) -> Topic:
    return MOVING._replace(**changes)


IN_SYNC = history(states={T0: state(isr=(2, 3))})
DELETED = {T0: {1, 2, 3}}


@pytest.mark.parametrize(
    ("check", "given", "before", "after", "expected"),
    [
        (topic_id_is_kept, history(), TOPIC, TOPIC._replace(topic_id="other"), 1),
        (topic_id_is_kept, history(), TOPIC, TOPIC, 0),
        (topic_id_is_kept, history(), TOPIC._replace(topic_id=None), TOPIC, 0),
        (topic_id_is_kept, history(), TOPIC, None, 0),
        (partitions_are_kept, history(), TOPIC, TOPIC._replace(replicas={1: (2, 3)}), 1),
        (partitions_are_kept, history(), TOPIC, topic(one=None), 0),
        (partitions_are_kept, history(), None, topic((), (2, 2)), 2),
        (partitions_are_kept, history(), TOPIC, topic((1,)), 0),
        (partitions_are_kept, history(deleting={"t"}), TOPIC, topic(()), 0),
        (moving_replicas_are_replicas, history(), TOPIC, MOVING, 0),
        (moving_replicas_are_replicas, history(), None, moving(adding={0: (3, 4)}), 1),
        (moving_replicas_are_replicas, history(), None, moving(removing={1: (1,)}), 1),
        (moving_replicas_are_replicas, history(), None, moving(removing={2: (1,)}), 1),
        # t-0 moves from 1, 2 to 2, 3.
        (reassignments_end_in_sync, IN_SYNC, MOVING, topic((2, 3)), 0),
        (reassignments_end_in_sync, history(), MOVING, topic((2, 3)), 1),
        (reassignments_end_in_sync, history(states={}), MOVING, topic((2, 3)), 1),
        (reassignments_end_in_sync, history(), MOVING, topic((1, 2)), 0),
        (reassignments_end_in_sync, history(), MOVING, topic((2, 1)), 0),
        (reassignments_end_in_sync, IN_SYNC, MOVING, topic((1, 2, 3)), 1),
        (reassignments_end_in_sync, IN_SYNC, MOVING, MOVING, 0),
        (reassignments_end_in_sync, history(), TOPIC, topic((2, 3)), 0),
        (replicas_change_by_reassignment, history(), TOPIC, topic((2, 3)), 1),
        (replicas_change_by_reassignment, history(), TOPIC, topic((3, 2, 1)), 0),
        (replicas_change_by_reassignment, history(), MOVING, topic((2, 3)), 0),
        (replicas_change_by_reassignment, history(), topic((1, 2)), MOVING, 0),
        (replicas_change_by_reassignment, history(), topic(one=None), TOPIC, 0),
        (replicas_change_by_reassignment, history(edited={T0: {(2, 3)}}), TOPIC, topic((2, 3)), 0),
        (replicas_change_by_reassignment, history(edited={T0: {(2, 1)}}), TOPIC, topic((2, 3)), 1),
        (deletion_waits_for_replicas, history(), TOPIC, None, 1),
        (deletion_waits_for_replicas, history(deleted_replicas={T0: {1, 3}}), TOPIC, None, 1),
        (deletion_waits_for_replicas, history(deleted_replicas=DELETED), TOPIC, None, 0),
        (deletion_waits_for_replicas, history(served=set()), TOPIC, None, 0),
        (deletion_waits_for_replicas, history(), TOPIC, TOPIC, 0),
        (deletion_waits_for_reassignments, history(), MOVING, None, 1),
        (deletion_waits_for_reassignments, history(), TOPIC, None, 0),
        (deletion_waits_for_reassignments, history(), MOVING, MOVING, 0),
    ],
)
def test_each_invariant_of_topic_znodes_has_its_limit(
    check: Callable[[History, TopicWritten], Any],
    given: History,
    before: Topic | None,
    after: Topic | None,
    expected: int,
) -> None:
    assert len(list(check(given, TopicWritten("t", before, after, 1)))) == expected
    assert not list(check(given, TopicWritten("t", before, after, NO_NODE)))
