"""The invariants that must hold after every event of a simulated world, in one table.

Each check is a few lines and shares no code with what it checks. The checks are in
znode_invariants.py, request_invariants.py, replica_invariants.py and replicas.py. After each event,
watching.py runs the checks that can fail because of the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from klamm.cluster.errors import KlammError
from klamm.runtime.checks import controller_invariants as controller
from klamm.runtime.checks import replica_invariants as replica
from klamm.runtime.checks import replicas
from klamm.runtime.checks import request_invariants as request
from klamm.runtime.checks import znode_invariants as znode
from klamm.runtime.checks.observations import (
    Answered,
    Committed,
    EventEnded,
    History,
    IsrAnswered,
    IsrApplied,
    ObservedShutdown,
    ReplicaChanged,
    ReplicasChanged,
    Requested,
    RoleChanged,
    StateWritten,
    TopicWritten,
)

Check = Callable[[History, Any], Iterable[str]]


class Invariant(NamedTuple):
    """A statement that must hold after every event.

    ``source``: the JIRA issue, KIP or specification that the statement comes from. ``event``: the
    kind of observation that can violate it. ``check`` yields a line for each violation; it is None
    for invariants that replicas.py checks.
    """

    statement: str
    source: str
    event: type
    check: Check | None = None


class InvariantViolated(KlammError):
    """An invariant did not hold. The message says what was observed, and when.

    ``row``: the number of the last journal row at that time, from 1.
    """

    exit_code = 10

    def __init__(self, name: str, seen: str, row: int) -> None:
        super().__init__(seen)
        self.invariant = name
        self.row = row
        self.statement = INVARIANTS[name].statement


def _states(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, StateWritten, check)


def _topics(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, TopicWritten, check)


def _commits(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, Committed, check)


def _requests(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, Requested, check)


def _events(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, EventEnded, check)


def _replicas(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, ReplicaChanged, check)


def _roles(source: str, check: Check, statement: str) -> Invariant:
    return Invariant(statement, source, RoleChanged, check)


def _partitions(source: str, check: Check | None, statement: str) -> Invariant:
    return Invariant(statement, source, ReplicasChanged, check)


INVARIANTS: Final[Mapping[str, Invariant]] = {
    "isr-is-not-empty": _states("KAFKA-708", znode.isr_is_not_empty, "No ISR is ever empty."),
    "leader-is-in-isr": _states(
        "KIP-320 LeaderInIsr", znode.leader_is_in_isr, "The leader of a partition is in its ISR."
    ),
    "isr-grows-by-assigned-replicas": _states(
        "KIP-455",
        znode.isr_grows_by_assigned_replicas,
        "A broker that joins an ISR is among the replicas in the topic znode.",
    ),
    "isr-grows-by-live-brokers": _states(
        "KAFKA-14140",
        znode.isr_grows_by_live_brokers,
        "A broker that the controller knows to be dead does not join an ISR.",
    ),
    "shut-down-brokers-stay-out": _states(
        "KAFKA-14140",
        znode.shut_down_brokers_stay_out,
        "A broker whose controlled shutdown was granted joins no ISR until it registers again. "
        "ISRs that leaders write to ZooKeeper themselves (inter.broker.protocol.version below 2.7) "
        "are exempt.",
    ),
    "leader-epoch-rises-by-one": _states(
        "KIP-101",
        znode.leader_epoch_rises_by_one,
        "A write keeps the leader epoch of a partition or increments it by one.",
    ),
    "leader-change-raises-epoch": _states(
        "KIP-101",
        znode.leader_change_raises_epoch,
        "Every change of leader increases the leader epoch.",
    ),
    "epoch-has-one-leader": _states(
        "KIP-101",
        znode.epoch_has_one_leader,
        "Each leader epoch of a partition has one leader.",
    ),
    "elections-are-clean": _states(
        "KAFKA-1211",
        znode.elections_are_clean,
        "A new leader comes from the ISR, unless an unclean election was requested or is enabled.",
    ),
    "elections-do-not-grow-the-isr": _states(
        "KIP-497",
        znode.elections_do_not_grow_the_isr,
        "A write that increases the leader epoch adds no broker to the ISR, unless an unclean "
        "election was requested or is enabled.",
    ),
    "states-have-the-current-epoch": _states(
        "KAFKA-6082",
        znode.states_have_the_current_epoch,
        "A controller writes partition states only while its epoch is in /controller_epoch.",
    ),
    "only-the-elected-write": _commits(
        "KAFKA-6082",
        znode.only_the_elected_write,
        "Only the most recently elected controller writes the znodes of topics and admin requests.",
    ),
    "election-is-one-transaction": _commits(
        "KAFKA-6082",
        znode.election_is_one_transaction,
        "A transaction creates /controller if and only if it increments the controller epoch.",
    ),
    "controller-epoch-rises-by-one": _commits(
        "KAFKA-1096",
        znode.controller_epoch_rises_by_one,
        "Every controller election increments the controller epoch by one.",
    ),
    "topic-id-is-kept": _topics(
        "KAFKA-12835", znode.topic_id_is_kept, "The controller never changes the id of a topic."
    ),
    "partitions-are-kept": _topics(
        "KAFKA-6612",
        znode.partitions_are_kept,
        "A topic that is not being deleted keeps all partitions, each with at least one replica.",
    ),
    "moving-replicas-are-replicas": _topics(
        "KIP-455",
        znode.moving_replicas_are_replicas,
        "The replicas that a reassignment adds or removes are among the partition's replicas.",
    ),
    "reassignments-end-in-sync": _topics(
        "KIP-455",
        znode.reassignments_end_in_sync,
        "A reassignment ends with all target replicas in sync, or with the original replicas.",
    ),
    "replicas-change-by-reassignment": _topics(
        "KAFKA-12493",
        znode.replicas_change_by_reassignment,
        "The controller changes a partition's replicas only in a reassignment.",
    ),
    "deletion-waits-for-replicas": _topics(
        "KAFKA-10548",
        znode.deletion_waits_for_replicas,
        "A topic znode is deleted only after every broker has deleted its replicas of the topic.",
    ),
    "deletion-waits-for-reassignments": _topics(
        "KAFKA-8249",
        znode.deletion_waits_for_reassignments,
        "No topic is deleted while one of its partitions is being reassigned.",
    ),
    "requests-carry-stored-states": _requests(
        "KAFKA-9212",
        request.requests_carry_stored_states,
        "A controller sends only leaders, epochs, ISRs and versions that were stored in ZooKeeper.",
    ),
    "requests-have-their-controllers-epoch": _requests(
        "KAFKA-1096",
        request.requests_have_their_controllers_epoch,
        "A controller sends requests only with a controller epoch for which it was elected.",
    ),
    "metadata-comes-first": _requests(
        "KAFKA-4443",
        request.metadata_comes_first,
        "A controller sends a broker UpdateMetadata before it sends the first LeaderAndIsr.",
    ),
    "leader-and-isr-goes-to-replicas": _requests(
        "KAFKA-9539",
        request.leader_and_isr_goes_to_replicas,
        "LeaderAndIsr is sent only to brokers that have a replica of the partition.",
    ),
    "sent-epochs-do-not-decrease": _requests(
        "KAFKA-1188",
        request.sent_epochs_do_not_decrease,
        "The leader epochs of a partition that a controller sends to a broker never decrease.",
    ),
    "stop-replica-has-a-new-epoch": _requests(
        "KAFKA-13972",
        request.stop_replica_has_a_new_epoch,
        "A StopReplica request that deletes a replica has a higher leader epoch than every "
        "LeaderAndIsr request that the controller sent to the broker for that partition.",
    ),
    "shutdown-stops-followers": Invariant(
        "Before the controller grants a shutdown, it sends the broker StopReplica or the current "
        "leader epoch for each replica on the broker.",
        "KAFKA-14140",
        ObservedShutdown,
        request.shutdown_stops_followers,
    ),
    "stale-controllers-are-refused": Invariant(
        "A broker rejects requests with a controller epoch below the highest that it has accepted.",
        "KAFKA-6082",
        Answered,
        request.stale_controllers_are_refused,
    ),
    "stale-broker-epochs-are-refused": Invariant(
        "A broker rejects requests with the broker epoch of an earlier registration.",
        "KIP-380",
        Answered,
        request.stale_broker_epochs_are_refused,
    ),
    "accepted-isrs-are-stored": Invariant(
        "An AlterIsr response contains a stored ISR that is no older than the request's ISR.",
        "KAFKA-14154",
        IsrAnswered,
        request.accepted_isrs_are_stored,
    ),
    "batches-are-sent": _events(
        "KAFKA-12315",
        controller.batches_are_sent,
        "At the end of an event, no request is left in a controller's batches.",
    ),
    "fenced-controllers-resign": _events(
        "C5",
        controller.fenced_controllers_resign,
        "A controller whose write ZooKeeper has rejected because of a newer controller epoch is "
        "not active at the end of the event.",
    ),
    "brokers-know-live-brokers": _events(
        "KAFKA-13225",
        controller.brokers_know_live_brokers,
        "At the end of an event, the last UpdateMetadata that the controller sent to each live "
        "broker lists the brokers that the controller considers live.",
    ),
    "offline-replicas-stay-offline": _events(
        "C10",
        controller.offline_replicas_stay_offline,
        "The controller moves a replica from OfflineReplica to OnlineReplica only if its broker is "
        "alive and its log directory has not failed.",
    ),
    "online-partitions-have-leaders": _events(
        "KAFKA-14808",
        controller.online_partitions_have_leaders,
        "No partition without a leader is online in the controller.",
    ),
    "preferred-leaders-are-elected": _events(
        "KAFKA-10149",
        controller.preferred_leaders_are_elected,
        "After a check for imbalances, every preferred leader that is alive and in sync leads, "
        "unless its partition is being reassigned or the imbalance is small.",
    ),
    "weak-isr": _replicas(
        "KIP-320 WeakIsr",
        replica.weak_isr,
        "Every replica in a leader's cached ISR has all records below the leader's high watermark.",
    ),
    "strong-isr": _partitions(
        "KIP-320 StrongIsr",
        replica.strong_isr,
        "Every replica in ZooKeeper's ISR has all records below the leader's high watermark.",
    ),
    "isr-reaches-high-watermark": _partitions(
        "KIP-497 ValidHighWatermark",
        replica.isr_reaches_high_watermark,
        "No log of a replica in ZooKeeper's ISR ends before the leader's high watermark.",
    ),
    "maximal-isr-covers-the-isr": _roles(
        "KIP-497 ReplicationQuorumSuperset",
        replica.maximal_isr_covers_the_isr,
        "A leader waits for every replica in ZooKeeper's ISR before it advances the high "
        "watermark.",
    ),
    "high-watermark-is-in-the-log": _replicas(
        "KIP-101",
        replica.high_watermark_is_in_the_log,
        "A high watermark never exceeds the log end offset.",
    ),
    "high-watermark-follows-the-isr": Invariant(
        "When a leader applies a new ISR, the high watermark advances to the smallest log end of "
        "the replicas that count.",
        "KAFKA-13091",
        IsrApplied,
        replica.high_watermark_follows_the_isr,
    ),
    "leaders-know-their-epoch": _roles(
        "KAFKA-15608",
        replica.leaders_know_their_epoch,
        "The log of a leader contains the start of its leader epoch.",
    ),
    "leader-was-elected": _roles(
        "KIP-101",
        replica.leader_was_elected,
        "A broker leads a partition only at leader epochs for which it is the leader in ZooKeeper.",
    ),
    "applied-epoch-does-not-decrease": _roles(
        "KIP-101",
        replica.applied_epoch_does_not_decrease,
        "A replica never returns to an earlier leader epoch.",
    ),
    replicas.LOG_MATCHING: _partitions(
        "KIP-101",
        None,
        "Two replicas have the same records below the lower of their high watermarks.",
    ),
    replicas.LEADER_COMPLETENESS: _partitions(
        "KIP-966", None, "The newest leader has every record that was acknowledged with acks=all."
    ),
    replicas.MONOTONIC_HIGH_WATERMARK: _partitions(
        "KIP-101",
        None,
        "The high watermark of a running leader never decreases within a leader epoch.",
    ),
    replicas.ONE_LEADER: _partitions(
        "KIP-101", None, "Two brokers never lead a partition in the same leader epoch."
    ),
}
"""All invariants, keyed by their names in drills."""
