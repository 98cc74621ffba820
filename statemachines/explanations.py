"""Explanations of journal rows: for each rule of the controller a sentence and Kafka's source.

Texts only. The keys are states, phases, elections and journal kinds;
tests/unit/statemachines/test_explanations.py fails if one has no text.
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
    """A rule of the controller in one sentence, and its source in Kafka: a file or a KIP."""

    text: str
    source: str


_FOUND_OFFLINE: Final = Rule(
    "The partition no longer has a live leader; its state znode stays unchanged until a leader is"
    " elected.",
    _PARTITIONS,
)
_ELECTED: Final = Rule(
    "A leader is elected and written to the state znode at its cached version; LeaderAndIsr is sent"
    " to the live replicas, UpdateMetadata to every broker.",
    _PARTITIONS,
)

PARTITION_RULES: Final[Mapping[tuple[P, P], Rule]] = {
    (P.NON_EXISTENT, P.NEW): Rule(
        "The partition is assigned and has no state znode yet; nothing is written.", _PARTITIONS
    ),
    (P.NEW, P.ONLINE): Rule(
        "The live assigned replicas become the first ISR, and the first of them the leader; the"
        " state znode is created, LeaderAndIsr is sent to them, UpdateMetadata to every broker.",
        _PARTITIONS,
    ),
    (P.ONLINE, P.ONLINE): _ELECTED,
    (P.OFFLINE, P.ONLINE): _ELECTED,
    (P.NEW, P.OFFLINE): _FOUND_OFFLINE,
    (P.ONLINE, P.OFFLINE): _FOUND_OFFLINE,
    (P.OFFLINE, P.OFFLINE): _FOUND_OFFLINE,
    (P.OFFLINE, P.NON_EXISTENT): Rule(
        "The topic is being deleted: the controller forgets the partition's state before its"
        " replicas are deleted.",
        _DELETION,
    ),
}
"""By the states before and after. ELECTION_RULES adds how the leader was chosen."""

REPLICA_RULES: Final[Mapping[R, Rule]] = {
    R.NEW: Rule(
        "The broker of the new replica is sent LeaderAndIsr and follows the leader.", _REPLICAS
    ),
    R.ONLINE: Rule(
        "The replica counts as alive; unless it was NewReplica, its broker is sent LeaderAndIsr.",
        _REPLICAS,
    ),
    R.OFFLINE: Rule(
        "The replica stops (StopReplica without deletion) and leaves the ISR; the remaining"
        " replicas are sent LeaderAndIsr.",
        _REPLICAS,
    ),
    R.DELETION_STARTED: Rule(
        "The broker is asked to delete the replica: StopReplica with deletion.", _REPLICAS
    ),
    R.DELETION_SUCCESSFUL: Rule("The broker has deleted the replica.", _REPLICAS),
    R.DELETION_INELIGIBLE: Rule(
        "The replica cannot be deleted now: its broker is dead or responded with an error. The"
        " deletion is retried when the broker is back.",
        _DELETION,
    ),
    R.NON_EXISTENT: Rule(
        "The replica is removed from the partition's assignment and forgotten.", _REPLICAS
    ),
}
"""By the state after."""

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
"""By the name of the election strategy in the journal."""

_REASSIGNMENT: Final = f"{_CONTROLLER}, onPartitionReassignment; KIP-455"

PHASE_RULES: Final[Mapping[Phase, Rule]] = {
    phase: Rule(text, _REASSIGNMENT)
    for phase, text in {
        Phase.U1: "The target replicas followed by the original replicas are stored in the topic"
        " znode, along with the added and the removed replicas.",
        Phase.U2: "The controller stores the same assignment in its context.",
        Phase.U3: "Replicas that an earlier reassignment added and this one does not need are"
        " stopped.",
        Phase.A1: "A target replica is not in sync: the leader epoch is incremented, and every old"
        " and new replica is sent LeaderAndIsr.",
        Phase.A2: "The added replicas become NewReplica and start to copy.",
        Phase.B1: "All target replicas are in sync: the added replicas become OnlineReplica.",
        Phase.B2: "The controller stores the target replicas as the assignment in its context.",
        Phase.B3: "A leader that is dead or not a target replica is replaced; otherwise its leader"
        " epoch is incremented, so that it forgets the removed replicas.",
        Phase.B4: "The removed replicas become OfflineReplica and leave the ISR.",
        Phase.B5: "The brokers delete the removed replicas: NonExistentReplica.",
        Phase.B6: "Only the target replicas are stored in the topic znode.",
        Phase.B7: "The partition is removed from /admin/reassign_partitions; the znode is deleted"
        " with the last entry.",
        Phase.B8: "UpdateMetadata sends the new replicas and leader to every broker.",
    }.items()
}

_ALTER_ISR: Final = f"{_CONTROLLER}, processAlterIsr; KIP-497"

KIND_RULES: Final[Mapping[Kind, Rule]] = {
    Kind.RUN_START: Rule("klamm up started; no controller is elected yet.", "klamm"),
    Kind.CONTROLLER_ELECTED: Rule(
        "The first candidate that creates /controller becomes the controller; the same transaction"
        " increments /controller_epoch, which fences all writes of its predecessors.",
        f"{_CONTROLLER}, elect; kafka/zk/KafkaZkClient.scala",
    ),
    Kind.CONTROLLER_READY: Rule(
        "The state of the cluster was loaded, both state machines were started, and unfinished work"
        " of the predecessors was resumed.",
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
    Kind.EVENT: Rule("The controller processes one event at a time.", _CONTROLLER),
    Kind.EVENT_FAILED: Rule(
        "The event ended with an error; the controller continues with the next event.",
        f"{_CONTROLLER}, process",
    ),
    Kind.PARTITION_SNAPSHOT: Rule(
        "A new controller loads the partition from ZooKeeper: Online if its leader is alive,"
        " Offline if not, New without a state znode.",
        f"{_PARTITIONS}, initializePartitionState",
    ),
    Kind.PARTITION_TRANSITION: Rule("The partition changed its state.", _PARTITIONS),
    Kind.PARTITION_FAILED: Rule(
        "The partition keeps its state: the transition is illegal, no replica can lead, or the"
        " write was rejected.",
        _PARTITIONS,
    ),
    Kind.REPLICA_TRANSITION: Rule("The replica changed its state.", _REPLICAS),
    Kind.REPLICA_FAILED: Rule(
        "The replica keeps its state: the transition is illegal, or the write was rejected.",
        _REPLICAS,
    ),
    Kind.ISR_REMOVED: Rule(
        "A replica that goes offline leaves the ISR, unless it is its last member; if it was the"
        " leader, the partition has no leader.",
        f"{_REPLICAS}, removeReplicasFromIsr",
    ),
    Kind.ISR_CHANGED: Rule(
        "The leader proposed a new ISR, and the controller stored it; before 2.7 leaders wrote it"
        " to ZooKeeper themselves and left a notification.",
        f"{_ALTER_ISR}; before 2.7 processIsrChangeNotification",
    ),
    Kind.ALTER_ISR_REFUSED: Rule(
        "The leader's proposal was rejected: it has an old leader, epoch or version, or the"
        " partition is unknown.",
        _ALTER_ISR,
    ),
    Kind.LEADER_EPOCH_BUMPED: Rule(
        "The leader epoch is incremented with the same leader and ISR, so that the leader accepts"
        " the new assignment.",
        f"{_CONTROLLER}, updateLeaderEpochAndSendRequest",
    ),
    Kind.REASSIGNMENT_PHASE: Rule("The reassignment reached its next phase.", _REASSIGNMENT),
    Kind.REASSIGNMENT_FAILED: Rule(
        "The reassignment was rejected, or could not continue.",
        f"{_CONTROLLER}, maybeTriggerPartitionReassignment",
    ),
    Kind.BROKER_ONLINE: Rule(
        "A broker registered in /brokers/ids: it is sent all metadata, its replicas go online, and"
        " leaders are elected for leaderless partitions.",
        f"{_CONTROLLER}, onBrokerStartup",
    ),
    Kind.BROKER_OFFLINE: Rule(
        "A broker's registration is gone: new leaders are elected for the partitions that it led,"
        " and its replicas go offline and leave the ISRs.",
        f"{_CONTROLLER}, onBrokerFailure",
    ),
    Kind.BROKER_MODIFIED: Rule(
        "The end points of a broker changed: UpdateMetadata sends them to every broker.",
        f"{_CONTROLLER}, onBrokerUpdate",
    ),
    Kind.TOPIC_CREATED: Rule(
        "A new topic znode was found: its partitions and replicas go online.",
        f"{_CONTROLLER}, processTopicChange",
    ),
    Kind.TOPIC_DELETION_STARTED: Rule(
        "The topic is in /admin/delete_topics: its partitions are removed first, then its replicas"
        " are deleted, then its znodes.",
        f"{_DELETION}, onTopicDeletion",
    ),
    Kind.TOPIC_DELETION_HALTED: Rule(
        "The deletion waits for a dead replica or for the end of a reassignment; then it is"
        " resumed.",
        f"{_DELETION}, markTopicIneligibleForDeletion",
    ),
    Kind.TOPIC_DELETED: Rule(
        "All replicas are deleted: the topic's znodes and config are deleted too.",
        f"{_DELETION}, completeDeleteTopic",
    ),
    Kind.PARTITIONS_ADDED: Rule(
        "The topic znode has new partitions: they go online.",
        f"{_CONTROLLER}, processPartitionModifications",
    ),
    Kind.ZNODE_MALFORMED: Rule(
        "The znode is malformed: it is quarantined, and everything else is served.",
        "klamm; quirk C2",
    ),
    Kind.REQUEST_SENT: Rule("A control request was queued for a broker.", _CHANNELS),
    Kind.RESPONSE_RECEIVED: Rule("A broker answered a control request.", _CHANNELS),
    Kind.LOG_TRUNCATED: Rule(
        "The follower's log had diverged from its leader's: it was truncated to the point of"
        " divergence, and the records after that point are lost.",
        "kafka/server/AbstractFetcherThread.scala, getOffsetTruncationState",
    ),
    Kind.LOG_REPAIRED: Rule(
        "The broker did not shut down cleanly, or files were damaged: unreadable data was"
        " truncated, indexes were rebuilt, or the replica was taken offline until another replica"
        " restores it.",
        "kafka/log/Log.scala, loadSegments and recoverLog",
    ),
    Kind.LOG_DIR_FAILED: Rule(
        "A disk operation failed: the broker stops using the log directory and notifies the"
        " controller, which takes the replicas in it offline.",
        "kafka/server/ReplicaManager.scala, handleLogDirFailure",
    ),
    Kind.BATCH_SPOILT: Rule(
        "A follower or consumer fetched a corrupt batch: brokers do not validate the records that"
        " they send. A follower keeps fetching that batch; a consumer is stuck at it.",
        "kafka/server/AbstractFetcherThread.scala, processFetchRequest",
    ),
    Kind.JOURNAL_REPAIRED: Rule(
        "klamm was killed while it wrote the journal: the incomplete last line was truncated.",
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
