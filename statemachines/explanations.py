"""Why the state machines do what a journal row says: a sentence and Kafka's source for each rule.

Only words; nothing is decided here. The keys are the machines' own states, phases and elections,
and the journal's kinds; tests/unit/statemachines/test_explanations.py finds one without words.
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
    """What is done and why, in one sentence, and where Kafka does it: a file or a KIP."""

    text: str
    source: str


_FOUND_OFFLINE: Final = Rule(
    "The partition has no live leader from now on; its state znode stays as it is until a leader"
    " is elected.",
    _PARTITIONS,
)
_ELECTED: Final = Rule(
    "A leader is elected, the state znode is set at the version that is known, and LeaderAndIsr"
    " goes to the live replicas, UpdateMetadata to every broker.",
    _PARTITIONS,
)

PARTITION_RULES: Final[Mapping[tuple[P, P], Rule]] = {
    (P.NON_EXISTENT, P.NEW): Rule(
        "The partition is assigned and has no state znode yet; nothing is written.", _PARTITIONS
    ),
    (P.NEW, P.ONLINE): Rule(
        "The live assigned replicas are the first ISR and the first of them leads; the state znode"
        " is created, LeaderAndIsr goes to them, UpdateMetadata to every broker.",
        _PARTITIONS,
    ),
    (P.ONLINE, P.ONLINE): _ELECTED,
    (P.OFFLINE, P.ONLINE): _ELECTED,
    (P.NEW, P.OFFLINE): _FOUND_OFFLINE,
    (P.ONLINE, P.OFFLINE): _FOUND_OFFLINE,
    (P.OFFLINE, P.OFFLINE): _FOUND_OFFLINE,
    (P.OFFLINE, P.NON_EXISTENT): Rule(
        "The topic is being deleted: the partition leaves the controller's books before its"
        " replicas are deleted.",
        _DELETION,
    ),
}
"""By the states before and after. Where an election was held, its own rule says who leads."""

REPLICA_RULES: Final[Mapping[R, Rule]] = {
    R.NEW: Rule("A new replica is told by LeaderAndIsr whom to follow.", _REPLICAS),
    R.ONLINE: Rule(
        "The replica counts as alive; its broker is told of the partition by LeaderAndIsr, if it"
        " was not by becoming new.",
        _REPLICAS,
    ),
    R.OFFLINE: Rule(
        "The replica stops (StopReplica without deletion) and leaves the ISR; the remaining"
        " replicas are told by LeaderAndIsr.",
        _REPLICAS,
    ),
    R.DELETION_STARTED: Rule(
        "The broker is told to delete the replica: StopReplica with deletion.", _REPLICAS
    ),
    R.DELETION_SUCCESSFUL: Rule("The broker has deleted the replica.", _REPLICAS),
    R.DELETION_INELIGIBLE: Rule(
        "The replica cannot be deleted now: its broker is dead or answered with an error. It is"
        " tried again once the broker is back.",
        _DELETION,
    ),
    R.NON_EXISTENT: Rule(
        "The replica is taken out of the partition's assignment and forgotten.", _REPLICAS
    ),
}
"""By the state after."""

ELECTION_RULES: Final[Mapping[str, Rule]] = {
    str(OfflineElection()): Rule(
        "The first assigned replica that is alive and in the ISR leads; if there is none, the first"
        " live one does where unclean.leader.election.enable allows it, else nobody.",
        f"{_ELECTION}, leaderForOffline",
    ),
    str(OfflineElection(allow_unclean=True)): Rule(
        "The first assigned replica that is alive and in the ISR leads; if there is none, the first"
        " live one does, because an unclean election was asked for.",
        f"{_ELECTION}, leaderForOffline; KIP-460",
    ),
    str(ReassignElection()): Rule(
        "The first target replica of the reassignment that is alive and in the ISR leads.",
        f"{_ELECTION}, leaderForReassign",
    ),
    str(PreferredReplicaElection()): Rule(
        "The first assigned replica leads if it is alive and in the ISR; else nothing changes.",
        f"{_ELECTION}, leaderForPreferredReplica",
    ),
    str(ControlledShutdownElection()): Rule(
        "The first assigned replica in the ISR whose broker lives and is not shutting down leads;"
        " brokers that are shutting down leave the ISR.",
        f"{_ELECTION}, leaderForControlledShutdown",
    ),
}
"""By the name that the journal gives an election."""

_REASSIGNMENT: Final = f"{_CONTROLLER}, onPartitionReassignment; KIP-455"

PHASE_RULES: Final[Mapping[Phase, Rule]] = {
    phase: Rule(text, _REASSIGNMENT)
    for phase, text in {
        Phase.U1: "The target, then the original replicas are stored in the topic znode, with those"
        " that are added and removed.",
        Phase.U2: "The controller remembers the same.",
        Phase.U3: "Replicas that an earlier reassignment added and this one does not want stop.",
        Phase.A1: "A target replica is not in sync: the leader epoch is raised and every replica,"
        " old and new, gets LeaderAndIsr.",
        Phase.A2: "The added replicas become NewReplica and begin to copy.",
        Phase.B1: "All target replicas are in sync: the added ones become OnlineReplica.",
        Phase.B2: "The controller remembers the target replicas as the assigned ones.",
        Phase.B3: "A leader outside the target replicas, or dead, is replaced; one that may stay"
        " gets a higher leader epoch, so that it forgets the removed replicas.",
        Phase.B4: "The removed replicas become OfflineReplica and leave the ISR.",
        Phase.B5: "The removed replicas are deleted by their brokers: NonExistentReplica.",
        Phase.B6: "The target replicas are stored in the topic znode as the only ones.",
        Phase.B7: "The partition leaves /admin/reassign_partitions, and the znode goes with the"
        " last entry.",
        Phase.B8: "Every broker is told of the new replicas and leader by UpdateMetadata.",
    }.items()
}

_ALTER_ISR: Final = f"{_CONTROLLER}, processAlterIsr; KIP-497"

KIND_RULES: Final[Mapping[Kind, Rule]] = {
    Kind.RUN_START: Rule("klamm up began; no controller did anything yet.", "klamm"),
    Kind.CONTROLLER_ELECTED: Rule(
        "The first candidate that creates /controller is the controller; the same transaction"
        " raises /controller_epoch, which fences all its predecessors' writes.",
        f"{_CONTROLLER}, elect; kafka/zk/KafkaZkClient.scala",
    ),
    Kind.CONTROLLER_READY: Rule(
        "The cluster's state was read, both state machines are started, and what a predecessor"
        " left undone goes on.",
        f"{_CONTROLLER}, onControllerFailover",
    ),
    Kind.CONTROLLER_RESIGNED: Rule(
        "It is not the controller any more: its books are cleared, its watches and timers end.",
        f"{_CONTROLLER}, onControllerResignation",
    ),
    Kind.CONTROLLER_MOVED: Rule(
        "A write met a newer /controller_epoch: the event ends there and the controller resigns.",
        f"{_CONTROLLER}, process",
    ),
    Kind.EVENT: Rule("The controller processes one event after the other.", _CONTROLLER),
    Kind.EVENT_FAILED: Rule(
        "The event ended with an error; the controller goes on with the next one.",
        f"{_CONTROLLER}, process",
    ),
    Kind.PARTITION_SNAPSHOT: Rule(
        "A new controller starts from what ZooKeeper holds: Online if the leader is alive, Offline"
        " if not, New without a state znode.",
        f"{_PARTITIONS}, initializePartitionState",
    ),
    Kind.PARTITION_TRANSITION: Rule("The partition changed its state.", _PARTITIONS),
    Kind.PARTITION_FAILED: Rule(
        "The partition stays as it is: the move is not legal from its state, no replica may lead,"
        " or the write was refused.",
        _PARTITIONS,
    ),
    Kind.REPLICA_TRANSITION: Rule("The replica changed its state.", _REPLICAS),
    Kind.REPLICA_FAILED: Rule(
        "The replica stays as it is: the move is not legal from its state, or the write was"
        " refused.",
        _REPLICAS,
    ),
    Kind.ISR_REMOVED: Rule(
        "A replica that goes offline leaves the ISR, unless it is the last one in it; if it was the"
        " leader there is none.",
        f"{_REPLICAS}, removeReplicasFromIsr",
    ),
    Kind.ISR_CHANGED: Rule(
        "The leader proposed another ISR and it was stored; before 2.7 leaders stored it themselves"
        " and told of it.",
        f"{_ALTER_ISR}; before 2.7 processIsrChangeNotification",
    ),
    Kind.ALTER_ISR_REFUSED: Rule(
        "The leader's proposal was refused: it came from an old leader, epoch or version, or"
        " nothing is known of the partition.",
        _ALTER_ISR,
    ),
    Kind.LEADER_EPOCH_BUMPED: Rule(
        "Leader and ISR stay, the leader epoch rises, so that the leader takes the new assignment.",
        f"{_CONTROLLER}, updateLeaderEpochAndSendRequest",
    ),
    Kind.REASSIGNMENT_PHASE: Rule("The reassignment came to its next phase.", _REASSIGNMENT),
    Kind.REASSIGNMENT_FAILED: Rule(
        "The reassignment was refused, or could not go on.",
        f"{_CONTROLLER}, maybeTriggerPartitionReassignment",
    ),
    Kind.BROKER_ONLINE: Rule(
        "A broker registered in /brokers/ids: it is told everything, its replicas come online and"
        " partitions without a leader are elected one.",
        f"{_CONTROLLER}, onBrokerStartup",
    ),
    Kind.BROKER_OFFLINE: Rule(
        "A broker's registration is gone: what it led is elected another leader, its replicas go"
        " offline and leave the ISRs.",
        f"{_CONTROLLER}, onBrokerFailure",
    ),
    Kind.BROKER_MODIFIED: Rule(
        "A broker's endpoints or features changed: every broker is told by UpdateMetadata.",
        f"{_CONTROLLER}, onBrokerUpdate",
    ),
    Kind.TOPIC_CREATED: Rule(
        "A topic znode that was not known: its partitions and replicas are brought online.",
        f"{_CONTROLLER}, processTopicChange",
    ),
    Kind.TOPIC_DELETION_STARTED: Rule(
        "The topic is in /admin/delete_topics: its partitions go first, then its replicas, and its"
        " znodes last.",
        f"{_DELETION}, onTopicDeletion",
    ),
    Kind.TOPIC_DELETION_HALTED: Rule(
        "The deletion waits, for a dead replica or a running reassignment, and is resumed when"
        " that is over.",
        f"{_DELETION}, markTopicIneligibleForDeletion",
    ),
    Kind.TOPIC_DELETED: Rule(
        "All replicas are deleted: the topic's znodes and its config go, and it is forgotten.",
        f"{_DELETION}, completeDeleteTopic",
    ),
    Kind.PARTITIONS_ADDED: Rule(
        "The topic znode holds partitions that were not known: they are brought online.",
        f"{_CONTROLLER}, processPartitionModifications",
    ),
    Kind.ZNODE_MALFORMED: Rule(
        "The znode cannot be read: it is set apart and the rest is served.", "klamm; quirk C2"
    ),
    Kind.REQUEST_SENT: Rule("A control request was queued for a broker.", _CHANNELS),
    Kind.RESPONSE_RECEIVED: Rule("A broker answered a control request.", _CHANNELS),
    Kind.LOG_TRUNCATED: Rule(
        "The follower's log was no beginning of its leader's: it was cut to where they part, and"
        " what it had beyond that is gone.",
        "kafka/server/AbstractFetcherThread.scala, getOffsetTruncationState",
    ),
    Kind.LOG_REPAIRED: Rule(
        "The broker did not stop in order, or files were damaged: what could not be read was cut,"
        " indexes were rebuilt, or the replica was taken offline until another one restores it.",
        "kafka/log/Log.scala, loadSegments and recoverLog",
    ),
    Kind.LOG_DIR_FAILED: Rule(
        "The disk refused something: the broker uses the directory no more, and tells the"
        " controller, which takes the replicas in it offline.",
        "kafka/server/ReplicaManager.scala, handleLogDirFailure",
    ),
    Kind.BATCH_SPOILT: Rule(
        "A broker does not check the records that it sends: who read them found a batch that is not"
        " whole. A follower asks for it again and again, a consumer stands still there.",
        "kafka/server/AbstractFetcherThread.scala, processFetchRequest",
    ),
    Kind.JOURNAL_REPAIRED: Rule(
        "klamm was killed while it wrote the journal: the torn last line was truncated.", "klamm"
    ),
    Kind.JOURNAL_ROWS_LOST: Rule(
        "The journal's disk failed for so long that rows were dropped; they are missing here.",
        "klamm",
    ),
    Kind.BROKER_REGISTERED_AGAIN: Rule(
        "The broker's znode was deleted while its session lived. A Kafka 2.8.2 broker stays"
        " unregistered until it is restarted; klamm's broker registers again, with a new epoch.",
        "klamm",
    ),
}
