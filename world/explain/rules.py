"""Explains the controller's actions: one or two sentences for each, and the Kafka source.

Separate tables explain partition state changes, replica states, election strategies, reassignment
phases and the kinds of journal rows. tests/unit/statemachines/test_explanations.py fails if an
explanation is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.cluster.journal import Kind
from klamm.statemachines.election import (
    ControlledShutdownElection,
    OfflineElection,
    PreferredReplicaElection,
    ReassignElection,
)
from klamm.statemachines.partition_state import PartitionState as P
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState as R

_PARTITIONS: Final = "kafka/controller/PartitionStateMachine.scala"
_REPLICAS: Final = "kafka/controller/ReplicaStateMachine.scala"
_CONTROLLER: Final = "kafka/controller/KafkaController.scala"
_DELETION: Final = "kafka/controller/TopicDeletionManager.scala"
_ELECTION: Final = "kafka/controller/Election.scala"
_CHANNELS: Final = "kafka/controller/ControllerChannelManager.scala"


class Rule(NamedTuple):
    """One or two sentences on what the controller does, and the Kafka source file or KIP."""

    text: str
    source: str


_FOUND_OFFLINE: Final = Rule(
    "The partition no longer has a live leader; its state znode stays unchanged until a leader is"
    " elected.",
    _PARTITIONS,
)
_ELECTED: Final = Rule(
    "A leader is elected and written to the state znode (only if its version is still the cached"
    " version); LeaderAndIsr is sent to the live replicas, and UpdateMetadata to every broker.",
    _PARTITIONS,
)

PARTITION_RULES: Final[Mapping[tuple[P, P], Rule]] = {
    (P.NON_EXISTENT, P.NEW): Rule(
        "The partition has replicas but no state znode yet; nothing is written.", _PARTITIONS
    ),
    (P.NEW, P.ONLINE): Rule(
        "The live assigned replicas become the initial ISR, and the first of them becomes leader;"
        " the state znode is created, LeaderAndIsr is sent to these replicas, and UpdateMetadata to"
        " every broker.",
        _PARTITIONS,
    ),
    (P.ONLINE, P.ONLINE): _ELECTED,
    (P.OFFLINE, P.ONLINE): _ELECTED,
    (P.NEW, P.OFFLINE): _FOUND_OFFLINE,
    (P.ONLINE, P.OFFLINE): _FOUND_OFFLINE,
    (P.OFFLINE, P.OFFLINE): _FOUND_OFFLINE,
    (P.OFFLINE, P.NON_EXISTENT): Rule(
        "The topic is being deleted: the partition leaves the state machine before its replicas are"
        " deleted.",
        _DELETION,
    ),
}
"""Explanations of partition state changes, keyed by (previous state, new state)."""

REPLICA_RULES: Final[Mapping[R, Rule]] = {
    R.NEW: Rule(
        "The new replica's broker is sent LeaderAndIsr and starts to follow the leader.", _REPLICAS
    ),
    R.ONLINE: Rule(
        "The replica is online; unless it was NewReplica, its broker is sent LeaderAndIsr.",
        _REPLICAS,
    ),
    R.OFFLINE: Rule(
        "The replica stops (StopReplica without deletion) and leaves the ISR; the remaining"
        " replicas are sent LeaderAndIsr.",
        _REPLICAS,
    ),
    R.DELETION_STARTED: Rule(
        "The broker is sent StopReplica with deletion, so that it deletes the replica.", _REPLICAS
    ),
    R.DELETION_SUCCESSFUL: Rule("The broker has deleted the replica.", _REPLICAS),
    R.DELETION_INELIGIBLE: Rule(
        "The replica cannot be deleted now: its broker is dead or responded with an error. The"
        " deletion is retried when the broker is back.",
        _DELETION,
    ),
    R.NON_EXISTENT: Rule(
        "The replica leaves the partition's assignment and the state machine.", _REPLICAS
    ),
}
"""Explanations of replica state changes, keyed by the new state."""

ELECTION_RULES: Final[Mapping[str, Rule]] = {
    str(OfflineElection()): Rule(
        "The first assigned replica that is alive and in the ISR becomes leader. If there is none"
        " and unclean.leader.election.enable is true, the first live replica becomes leader.",
        f"{_ELECTION}, leaderForOffline",
    ),
    str(OfflineElection(allow_unclean=True)): Rule(
        "The first assigned replica that is alive and in the ISR becomes leader. If there is none,"
        " the first live replica becomes leader, because an unclean election was requested.",
        f"{_ELECTION}, leaderForOffline; KIP-460",
    ),
    str(ReassignElection()): Rule(
        "The first target replica of the reassignment that is alive and in the ISR becomes leader.",
        f"{_ELECTION}, leaderForReassign",
    ),
    str(PreferredReplicaElection()): Rule(
        "The first assigned replica becomes leader if it is alive and in the ISR; otherwise nothing"
        " changes.",
        f"{_ELECTION}, leaderForPreferredReplica",
    ),
    str(ControlledShutdownElection()): Rule(
        "The first assigned replica in the ISR on a live broker that is not shutting down becomes"
        " leader; brokers that are shutting down leave the ISR.",
        f"{_ELECTION}, leaderForControlledShutdown",
    ),
}
"""How each election strategy chooses a leader, keyed by the strategy's name in the journal."""

_REASSIGNMENT: Final = f"{_CONTROLLER}, onPartitionReassignment; KIP-455"

PHASE_RULES: Final[Mapping[Phase, Rule]] = {
    phase: Rule(text, _REASSIGNMENT)
    for phase, text in {
        Phase.U1: "The target replicas followed by the original replicas are stored in the topic"
        " znode, along with the added and the removed replicas.",
        Phase.U2: "The controller stores the same assignment in its context.",
        Phase.U3: "Replicas that an earlier reassignment added are stopped if this reassignment"
        " does not need them.",
        Phase.A1: "A target replica is not in sync: the leader epoch is incremented, and every old"
        " and new replica is sent LeaderAndIsr.",
        Phase.A2: "The added replicas become NewReplica and start to copy the partition.",
        Phase.B1: "All target replicas are in sync: the added replicas become OnlineReplica.",
        Phase.B2: "The controller stores the target replicas as the assignment in its context.",
        Phase.B3: "If the leader is dead or not a target replica, another leader is elected;"
        " otherwise the leader epoch is incremented, and the leader drops the removed replicas.",
        Phase.B4: "The removed replicas become OfflineReplica and leave the ISR.",
        Phase.B5: "The brokers delete the removed replicas, which become NonExistentReplica.",
        Phase.B6: "Only the target replicas are stored in the topic znode.",
        Phase.B7: "The partition is removed from /admin/reassign_partitions; the znode is deleted"
        " when no partition is left in it.",
        Phase.B8: "UpdateMetadata sends the new replicas and leader to every broker.",
    }.items()
}

_ALTER_ISR: Final = f"{_CONTROLLER}, processAlterIsr; KIP-497"

KIND_RULES: Final[Mapping[Kind, Rule]] = {
    Kind.RUN_START: Rule("klamm up was started; there is no controller yet.", "klamm"),
    Kind.CONTROLLER_ELECTED: Rule(
        "The first candidate that creates /controller becomes the controller; the same transaction"
        " increments /controller_epoch, which fences all writes of earlier controllers.",
        f"{_CONTROLLER}, elect; kafka/zk/KafkaZkClient.scala",
    ),
    Kind.CONTROLLER_READY: Rule(
        "The state of the cluster was loaded, both state machines were started, and work that the"
        " previous controller had not finished was resumed.",
        f"{_CONTROLLER}, onControllerFailover",
    ),
    Kind.CONTROLLER_RESIGNED: Rule(
        "The broker is no longer the controller: its context, watches and timers are cleared.",
        f"{_CONTROLLER}, onControllerResignation",
    ),
    Kind.CONTROLLER_MOVED: Rule(
        "A write was fenced by a newer /controller_epoch: the event ends and the controller"
        " resigns.",
        f"{_CONTROLLER}, process",
    ),
    Kind.EVENT: Rule("The controller processed an event; it processes one at a time.", _CONTROLLER),
    Kind.EVENT_FAILED: Rule(
        "The event ended with an error; the controller continues with the next event.",
        f"{_CONTROLLER}, process",
    ),
    Kind.PARTITION_SNAPSHOT: Rule(
        "A new controller loads the partition from ZooKeeper. Its state is Online if the leader is"
        " alive, Offline if not, and New if there is no state znode.",
        f"{_PARTITIONS}, initializePartitionState",
    ),
    Kind.PARTITION_TRANSITION: Rule("The partition changed its state.", _PARTITIONS),
    Kind.PARTITION_FAILED: Rule(
        "The partition keeps its state: the transition is illegal, no replica can become leader, or"
        " the write was rejected.",
        _PARTITIONS,
    ),
    Kind.REPLICA_TRANSITION: Rule("The replica changed its state.", _REPLICAS),
    Kind.REPLICA_FAILED: Rule(
        "The replica keeps its state: the transition is illegal, or the write was rejected.",
        _REPLICAS,
    ),
    Kind.ISR_REMOVED: Rule(
        "A replica that goes offline is removed from the ISR, unless it is the last ISR member; if"
        " it was the leader, the partition becomes leaderless.",
        f"{_REPLICAS}, removeReplicasFromIsr",
    ),
    Kind.ISR_CHANGED: Rule(
        "The leader proposed a new ISR, and the controller wrote it to ZooKeeper; before"
        " inter-broker protocol 2.7, leaders wrote ISRs and then notified the controller.",
        f"{_ALTER_ISR}; before 2.7 processIsrChangeNotification",
    ),
    Kind.ALTER_ISR_REFUSED: Rule(
        "The ISR that the leader proposed was rejected, for example because the leader epoch or the"
        " znode version in the request is outdated.",
        _ALTER_ISR,
    ),
    Kind.LEADER_EPOCH_BUMPED: Rule(
        "The leader epoch is incremented, with the same leader and ISR: the leader accepts the new"
        " assignment only with a newer epoch.",
        f"{_CONTROLLER}, updateLeaderEpochAndSendRequest",
    ),
    Kind.REASSIGNMENT_PHASE: Rule("The reassignment reached its next phase.", _REASSIGNMENT),
    Kind.REASSIGNMENT_FAILED: Rule(
        "The reassignment was rejected, or could not continue.",
        f"{_CONTROLLER}, maybeTriggerPartitionReassignment",
    ),
    Kind.BROKER_ONLINE: Rule(
        "A broker registered in /brokers/ids: it is sent all metadata, its replicas come online,"
        " and leaders are elected for leaderless partitions.",
        f"{_CONTROLLER}, onBrokerStartup",
    ),
    Kind.BROKER_OFFLINE: Rule(
        "A broker's registration was deleted: new leaders are elected for the partitions that the"
        " broker led, and its replicas go offline and leave the ISRs.",
        f"{_CONTROLLER}, onBrokerFailure",
    ),
    Kind.BROKER_MODIFIED: Rule(
        "The end points of a broker changed: UpdateMetadata sends them to every broker.",
        f"{_CONTROLLER}, onBrokerUpdate",
    ),
    Kind.TOPIC_CREATED: Rule(
        "A new topic znode was found: its partitions and replicas come online.",
        f"{_CONTROLLER}, processTopicChange",
    ),
    Kind.TOPIC_DELETION_STARTED: Rule(
        "The topic is listed in /admin/delete_topics: its partitions are taken offline, then its"
        " replicas are deleted, and finally its znodes.",
        f"{_DELETION}, onTopicDeletion",
    ),
    Kind.TOPIC_DELETION_HALTED: Rule(
        "The deletion waits until a replica comes back online or a reassignment ends, and is then"
        " resumed.",
        f"{_DELETION}, markTopicIneligibleForDeletion",
    ),
    Kind.TOPIC_DELETED: Rule(
        "The brokers deleted all replicas; the controller then deleted the znodes and config.",
        f"{_DELETION}, completeDeleteTopic",
    ),
    Kind.PARTITIONS_ADDED: Rule(
        "New partitions were added to the topic znode: they come online.",
        f"{_CONTROLLER}, processPartitionModifications",
    ),
    Kind.ZNODE_MALFORMED: Rule(
        "The znode is malformed: the controller ignores it, and everything else keeps working.",
        "klamm; quirk C2",
    ),
    Kind.REQUEST_SENT: Rule("A control request was queued for a broker.", _CHANNELS),
    Kind.RESPONSE_RECEIVED: Rule("A broker responded to a control request.", _CHANNELS),
    Kind.LOG_TRUNCATED: Rule(
        "The follower's log had diverged from its leader's: it was truncated to the point of"
        " divergence, and the records after that point are lost.",
        "kafka/server/AbstractFetcherThread.scala, getOffsetTruncationState",
    ),
    Kind.LOG_REPAIRED: Rule(
        "The broker did not shut down cleanly, or files were damaged: unreadable data was"
        " truncated, indexes were rebuilt, or the replica was taken offline until it is restored"
        " from another replica.",
        "kafka/log/Log.scala, loadSegments and recoverLog",
    ),
    Kind.LOG_DIR_FAILED: Rule(
        "A disk operation failed: the broker stops using the log directory and notifies the"
        " controller, which takes the replicas in that directory offline.",
        "kafka/server/ReplicaManager.scala, handleLogDirFailure",
    ),
    Kind.CORRUPT_BATCH: Rule(
        "A follower or consumer fetched a corrupt batch: brokers do not validate the records that"
        " they send. A follower fetches the batch again and again; a consumer cannot read past the"
        " batch.",
        "kafka/server/AbstractFetcherThread.scala, processFetchRequest",
    ),
    Kind.JOURNAL_REPAIRED: Rule(
        "klamm was killed while it wrote the journal: the incomplete last line was removed.",
        "klamm",
    ),
    Kind.JOURNAL_ROWS_LOST: Rule(
        "The journal could not be written to disk for a long time, and rows were dropped.",
        "klamm",
    ),
    Kind.BROKER_REGISTERED_AGAIN: Rule(
        "The broker's znode was deleted while its session was alive. A Kafka 2.8.2 broker stays"
        " unregistered until it is restarted; klamm's broker registers again with a new epoch.",
        "klamm",
    ),
}
