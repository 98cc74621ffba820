"""Quirks: switches that make klamm reproduce known bugs of Kafka 2.8.2. All are off by default.

Quirks are passed around as a value, so two controllers of one cluster may have different quirks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from klamm.cluster.errors import UsageError
from klamm.cluster.suggestions import suggestion


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Set of Kafka 2.8.2 bugs that klamm reproduces, one boolean field per bug.

    Field ``kafka_NNNNN`` reproduces KAFKA-NNNNN. Field ``cmak_NNN`` reproduces issue NNN of the
    cluster manager CMAK. The other fields are bugs without a known ticket; their short names are
    in ``NAMES``.

    In each field's docstring, the first paragraph describes the bug in Kafka 2.8.2, and the second
    paragraph describes klamm without the quirk. docs/deviations.md contains both paragraphs.
    """

    kafka_8249: bool = False
    """Kafka deletes a topic while its partitions are being reassigned, and the entries of that
    reassignment stay in ZooKeeper forever.

    The deletion waits until the reassignment has ended, and the topic is served until then."""
    kafka_9087: bool = False
    """When a LeaderAndIsr request names a replica whose future log is still empty, the broker
    resumes the log directory move at the high watermark. The future log does not start there, and
    the move is stuck.

    klamm resumes the move at the end offset of the future log."""
    kafka_9478: bool = False
    """Entries added to /admin/reassign_partitions while the znode exists are never read, so the
    znode is never deleted. An entry that lists a broker twice, or an empty list of entries, also
    keeps the znode from being deleted.

    Every change is read: each entry is either acted on or removed, and the znode is deleted with
    the last entry."""
    kafka_10149: bool = False
    """While any partition of the cluster is being reassigned, no preferred leaders are elected
    automatically.

    Only the partitions that are being reassigned are skipped."""
    kafka_12315: bool = False
    """The request batch is not cleared when the controller moves in the middle of an event. The
    deposed controller never sends control requests again, even if it is elected again.

    The batch is cleared when the controller moves, and at every election."""
    kafka_12493: bool = False
    """If another tool changes the replicas in a topic znode, the controller ignores the change
    until it overwrites the znode, or until the next failover adopts the change without moving data.

    The controller restores the assignment immediately: only a reassignment may change it. A change
    made while there is no controller becomes a reassignment if no new replica could lead."""
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
    """Each request to delete a topic subtracts again the imbalance of all topics that are already
    being deleted, so PreferredReplicaImbalanceCount becomes negative.

    The imbalance of a topic is subtracted only once."""
    kafka_13972: bool = False
    """Cancelling or overriding a reassignment sends StopReplica for the dropped replica with the
    leader epoch that the broker already has. The broker rejects the request and keeps the replica.

    The leader epoch is incremented before any other step."""
    kafka_14140: bool = False
    """AlterIsr can return a replica to the ISR although its broker is dead or shutting down.

    The controller responds with the current ISR, and the leader retries later."""
    kafka_14154: bool = False
    """A zombie controller responds to an AlterIsr request from its stale cache.

    A leader that is ahead of the controller's cache gets NOT_CONTROLLER."""
    kafka_14424: bool = False
    """A reassignment is completed or cancelled although none of the remaining replicas can become
    leader, so the partition is left without a leader.

    A cancellation is rejected with INVALID_REPLICA_ASSIGNMENT, and completion is postponed."""
    kafka_14808: bool = False
    """If the override of a reassignment removes the current leader from the replicas, the partition
    has no leader, although it is reported as online.

    Leadership is moved first. If that is impossible, the override is rejected with
    INVALID_REPLICA_ASSIGNMENT."""
    kafka_15608: bool = False
    """When a leader's log moves to another log directory, the current leader epoch is lost if no
    record was written in it. A follower that fetches with an epoch between the last written and the
    current epoch is rejected and drops out of the ISR.

    The leader epoch moves along with the records."""
    cmak_878: bool = False
    """A tool that does not know topic ids writes a topic znode without the topic id. The controller
    does not react, and the next controller assigns a new id, which differs from the id in the logs.

    The id is written back immediately. A topic that loses its id while there is no controller gets
    a new id."""
    leaderless_preferred_election_fails_the_event: bool = False
    """A preferred leader election of a partition that never had a leader fails the event or the
    failover. The request stays in ZooKeeper, so every later controller fails too.

    The partition is skipped, and the request is removed."""
    malformed_znode_fails_the_event: bool = False
    """One malformed znode fails the whole event or failover. A znode that is not JSON is treated as
    empty or absent, and is overwritten.

    The znode is quarantined: it is left unchanged, logged, journalled and shown by `klamm status`,
    and everything else is served."""
    lost_reply_leaves_the_partition_stuck: bool = False
    """If the reply to the creation of a state znode is lost, the retry finds that the znode exists,
    and the partition is stuck.

    The znode is read back, and adopted if it holds the value that the controller wrote."""
    fenced_controller_does_not_resign: bool = False
    """An AlterIsr request whose write is fenced gets UNKNOWN_SERVER_ERROR, and the controller does
    not resign. The controller does not resign after a fenced controlled shutdown either.

    The request gets NOT_CONTROLLER, and the controller resigns."""
    failed_state_change_leaves_the_batch_dirty: bool = False
    """A failed state change is only logged, and the requests that it leaves in the batch block all
    later state changes.

    The batch is cleared, and the event ends with the error."""
    stop_replica_before_the_epoch_bump: bool = False
    """During a controlled shutdown, StopReplica for a follower is sent with the leader epoch that
    the broker already has. The broker rejects the request and keeps following.

    StopReplica is sent after the leader epoch was incremented."""
    deleted_topic_znode_leaves_stale_state: bool = False
    """After a topic znode was deleted manually, states and reassignments of the topic stay in
    memory. A new topic of the same name is not served, and a request to delete it stays queued.

    The controller removes the topic from its context, and the deletion request from ZooKeeper."""
    crash_leaves_stray_replicas: bool = False
    """If a controller crashes after it stored the cancellation or override of a reassignment, but
    before it stopped the dropped replicas, these replicas stay in the ISR, or stay leader, forever.

    The next controller removes them from the ISR."""
    log_dir_failure_revives_offline_replicas: bool = False
    """A notification of a failed log directory marks offline replicas as online: all replicas of a
    broker that has died since, and replicas in a directory that failed earlier.

    Only a live broker is sent LeaderAndIsr for all its replicas, and an offline replica stays
    offline until the broker responds without an error for that replica."""
    empty_reassignment_is_started: bool = False
    """A reassignment with an empty replica list in /admin/reassign_partitions is started: all
    replicas become removing replicas in the topic znode, and no controller ever completes the
    reassignment.

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
"""Names of the fields of Quirks, keyed by the quirk's short name, such as ``C4``."""


def descriptive_name(field: str) -> str:
    """Return the name under which users select a quirk without a ticket."""
    return field.replace("_", "-")


def quirk_label(name: str) -> str:
    """Return a quirk's short name, followed by the descriptive name if the quirk has no ticket."""
    field = _WITHOUT_TICKET.get(name)
    return name if field is None else f"{name} ({descriptive_name(field)})"


def quirk_names(quirks: Quirks) -> list[str]:
    """Return the short names of quirks, or only ``2.8.2`` for all; `parse_quirks` reads them."""
    if quirks == KAFKA_2_8_2:
        return ["2.8.2"]
    return [name for name, field in NAMES.items() if getattr(quirks, field)]


def quirk_options(quirks: Quirks) -> list[str]:
    """Return the words of a command line that choose these quirks."""
    names = quirk_names(quirks)
    return ["--quirks", ",".join(names)] if names else []


def parse_quirks(words: Sequence[str]) -> Quirks:
    """Return the quirks named by ``words``, e.g. ``KAFKA-13225`` or ``C11``; ``2.8.2`` means all.

    A quirk without a ticket also has a descriptive name. For example, ``C11`` and
    ``empty-reassignment-is-started`` name the same quirk. Raises UsageError for an unknown name.
    """
    fields = NAMES | {descriptive_name(field): field for field in _WITHOUT_TICKET.values()}
    chosen: dict[str, bool] = {}
    for word in words:
        if word == "2.8.2":
            return KAFKA_2_8_2
        field = fields.get(word.upper()) or fields.get(word.lower().replace("_", "-"))
        if field is None:
            every = f"use 2.8.2 or one of {', '.join(map(quirk_label, NAMES))}"
            # Tickets of one project are similar even if their numbers are not.
            if word.rpartition("-")[2].isdecimal():
                hint = suggestion(word.upper(), NAMES, every, likeness=0.85)
            else:
                hint = suggestion(word, fields, every)
            raise UsageError(f"unknown quirk {word}", hint=hint)
        chosen[field] = True
    return Quirks(**chosen)
