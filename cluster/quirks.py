"""Switches for the known bugs of Kafka 2.8.2, one per bug; all are off by default.

With a quirk on, klamm reproduces that bug of Kafka 2.8.2. Quirks are passed in as a value, so two
controllers of one cluster may have different quirks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from klamm.cluster.errors import UsageError


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """The bugs of 2.8.2 that are reproduced.

    Field ``kafka_NNNNN`` is the switch of KAFKA-NNNNN, and ``cmak_NNN`` that of CMAK issue NNN, to
    which the cluster manager CMAK contributes. The other fields are bugs without a known ticket;
    ``NAMES`` has their short names.

    In each field's docstring the first paragraph describes Kafka 2.8.2, the second klamm without
    the quirk. Both are printed in docs/deviations.md.
    """

    kafka_8249: bool = False
    """Kafka deletes a topic while its partitions are being reassigned, and the entries of that
    reassignment stay in ZooKeeper forever.

    The deletion waits until the reassignment has ended; the topic is served until then."""
    kafka_9087: bool = False
    """When a LeaderAndIsr request names a replica whose future log is still empty, the broker
    resumes the log directory move at the high watermark. The future log does not start there, and
    the move is stuck.

    The move resumes at the end offset of the future log."""
    kafka_9478: bool = False
    """Entries added to /admin/reassign_partitions while the znode exists are never read and keep it
    from being deleted. An entry that lists a broker twice and an empty list of entries do the same.

    Every change is read: each entry is either acted on or removed, and the znode is deleted with
    the last entry."""
    kafka_10149: bool = False
    """While any partition of the cluster is being reassigned, no leadership is rebalanced.

    Only the partitions that are being reassigned are skipped."""
    kafka_12315: bool = False
    """The request batch is not cleared when the controller moves in the middle of an event; that
    broker never sends control requests again, even if it is elected again.

    The batch is cleared at that moment and at every election."""
    kafka_12493: bool = False
    """Replicas that another tool changes in a topic znode are ignored until the controller
    overwrites them, or until the next failover adopts them without moving any data.

    The controller restores the assignment at once: only a reassignment may change it."""
    kafka_13091: bool = False
    """When a lagging replica leaves the ISR, the high watermark does not advance until the next
    fetch or produce request: with acks=all the last record waits until the request times out.

    The high watermark advances as soon as the controller accepts the smaller ISR."""
    kafka_13225: bool = False
    """A dead broker that hosted no partitions stays in the metadata of the other brokers while any
    partition is offline.

    Every broker failure is sent to all live brokers."""
    kafka_13461: bool = False
    """After an authentication failure in a live session the controller resigns, finds its own
    /controller znode, believes that it is still active, and does nothing.

    A live session is kept. If a resigned controller finds a /controller znode of its own session,
    it deletes the znode, and an election follows."""
    kafka_13572: bool = False
    """Each request to delete a topic subtracts the imbalance of the topics that are already being
    deleted again, so PreferredReplicaImbalanceCount becomes negative.

    The imbalance of a topic is subtracted once."""
    kafka_13972: bool = False
    """A cancel or an override sends StopReplica for a replica that was being added with the leader
    epoch that its broker already has: the broker rejects the request and keeps the replica.

    The leader epoch is incremented before any other step."""
    kafka_14140: bool = False
    """AlterIsr lets a dead or shutting-down replica back into the ISR.

    The proposal is rejected with OPERATION_NOT_ATTEMPTED; the leader retries later."""
    kafka_14154: bool = False
    """A zombie controller answers an AlterIsr request from its stale cache.

    A leader that is ahead of the controller's cache gets NOT_CONTROLLER."""
    kafka_14424: bool = False
    """A reassignment is completed, or cancelled, although none of the remaining replicas can lead:
    the partition stays without a leader.

    The cancel is rejected with INVALID_REPLICA_ASSIGNMENT; the reassignment waits."""
    kafka_14808: bool = False
    """An override drops the replica that is the leader: the partition has no leader, although it
    is reported as online.

    The leader is moved first; if that is impossible, the override is rejected with
    INVALID_REPLICA_ASSIGNMENT."""
    kafka_15608: bool = False
    """A leader that moves to another log directory loses its leader epoch if it has written no
    record in that epoch: a follower that asks for an epoch in between is rejected and drops out of
    the ISR.

    The leader epoch moves along with the records."""
    cmak_878: bool = False
    """A tool that does not know topic ids writes a topic znode without its id. The controller does
    not react, and the next controller assigns a new id, which differs from the id in the logs.

    The id is written back at once. A topic that loses its id while there is no controller gets a
    new one."""
    leaderless_preferred_election_fails_the_event: bool = False
    """A request for the preferred leader of a partition that never had a leader fails the event or
    the failover. The request stays, so every later controller fails too.

    The partition is skipped, and the request is removed."""
    malformed_znode_fails_the_event: bool = False
    """One malformed znode fails the whole event or failover; a znode that is not JSON counts as
    empty or absent and is overwritten.

    The znode is quarantined: it is left unchanged, logged, journalled and shown by `klamm status`,
    and everything else is served."""
    lost_reply_leaves_the_partition_stuck: bool = False
    """A state znode that is found after a lost reply is not adopted: the partition is stuck.

    The znode is read back, and adopted if it holds the value that the controller wrote."""
    fenced_controller_does_not_resign: bool = False
    """A fenced AlterIsr request gets UNKNOWN_SERVER_ERROR, and the controller does not resign; nor
    does it resign after a fenced controlled shutdown.

    The request gets NOT_CONTROLLER, and the controller resigns."""
    failed_state_change_leaves_the_batch_dirty: bool = False
    """A failed state change is only logged, and the requests that it leaves in the batch block all
    later state changes.

    The batch is cleared, and the event ends with the error."""
    stop_replica_before_the_epoch_bump: bool = False
    """At a controlled shutdown, StopReplica for a follower is sent with the leader epoch that the
    broker already has: the broker rejects the request and keeps following.

    StopReplica is sent after the leader epoch was incremented."""
    deleted_topic_znode_leaves_stale_state: bool = False
    """A topic whose znode was deleted manually leaves its states and reassignments in memory: a new
    topic of the same name is not served, and a request to delete it stays.

    The controller forgets the topic and removes the request."""
    crash_leaves_stray_replicas: bool = False
    """If a controller crashes after it stored a cancel or an override and before it stopped the
    dropped replicas, they stay in the ISR, or keep leading, forever.

    The next controller takes them out of the ISR."""
    log_dir_failure_revives_offline_replicas: bool = False
    """A notification of a failed log directory marks replicas as online that are offline: all those
    of a broker that has died since, and those on a directory that failed earlier.

    Only a live broker is sent all of its replicas, and replicas that were offline stay offline
    until it answers NONE for them."""
    empty_reassignment_is_started: bool = False
    """An entry of /admin/reassign_partitions without replicas is started: the topic znode then says
    that the partition loses all its replicas, and no controller ever completes the reassignment.

    The entry is rejected with INVALID_REPLICA_ASSIGNMENT and removed. A partition that is already
    in this state keeps its replicas."""


NO_QUIRKS: Final = Quirks()
KAFKA_2_8_2: Final = Quirks(**{field: True for field in Quirks.__struct_fields__})
_WITHOUT_TICKET: Final = {
    "C1": "leaderless_preferred_election_fails_the_event",
    "C2": "malformed_znode_fails_the_event",
    "C4": "lost_reply_leaves_the_partition_stuck",
    "C5": "fenced_controller_does_not_resign",
    "C6": "failed_state_change_leaves_the_batch_dirty",
    "C7": "stop_replica_before_the_epoch_bump",
    "C8": "deleted_topic_znode_leaves_stale_state",
    "C9": "crash_leaves_stray_replicas",
    "C10": "log_dir_failure_revives_offline_replicas",
    "C11": "empty_reassignment_is_started",
}
NAMES: Final = {
    **{
        field.replace("_", "-").upper(): field
        for field in Quirks.__struct_fields__
        if field not in _WITHOUT_TICKET.values()
    },
    **_WITHOUT_TICKET,
}
"""Field of every quirk by the name that users type and see, such as ``KAFKA-13225`` or ``C4``."""


def parse_quirks(words: Sequence[str]) -> Quirks:
    """Return the quirks named by words such as ``2.8.2`` (all), ``KAFKA-13225`` or ``C4``.

    Raises UsageError for an unknown name.
    """
    chosen: dict[str, bool] = {}
    for word in words:
        if word == "2.8.2":
            return KAFKA_2_8_2
        field = NAMES.get(word.upper())
        if field is None:
            raise UsageError(
                f"unknown quirk {word}", hint=f"use 2.8.2 or one of {', '.join(NAMES)}"
            )
        chosen[field] = True
    return Quirks(**chosen)
