"""A controller as its events and state machines see it: its parts, and what they share.

Protocols alone. KafkaController puts the parts together and decides which event is whose; nothing
that is called from there knows it, so that imports go one way.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol

from cluster.errors import StateChangeFailed
from cluster.protocols import Clock, DynamicConfigView, MetadataView
from cluster.quirks import Quirks
from cluster.requests import Message, Response
from cluster.types import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller.candidacy import Candidacy
from controller.channel_manager import ChannelManager
from controller.config import ControllerConfig
from controller.event_manager import EventManager
from controller.metrics import ControllerMetrics
from controller.pending_requests import (
    PendingCreation,
    PendingDeletion,
    PendingElection,
    PendingRequests,
)
from controller.recorder import Recorder
from controller.request_sender import RequestSender
from controller.state_change_log import StateChangeLog
from controller.watches import Watches
from placement.draws import IntSource
from statemachines.context import ControllerContext, ReplicasByBroker
from statemachines.election import ElectionStrategy
from statemachines.partition_state import PartitionState
from statemachines.reassignment import Replicas
from statemachines.replica_state import ReplicaState
from statemachines.request_batch import ControllerBrokerRequestBatch
from statemachines.topic_deletion import DeletionCounts
from zk.controller_client import ControllerZkClient
from zk.kafka_zk_client import KafkaZkClient
from zk.store import Store
from zk.znodes import MalformedZNode

ElectionResults = dict[TopicPartition, LeaderAndIsr | StateChangeFailed]
"""What was elected, or why nothing was."""
Failures = dict[TopicPartition, StateChangeFailed]


class PartitionStateMachine(Protocol):
    """Implemented by controller/partition_state_changes.py."""

    def startup(self) -> None:
        """After an election, once the states are known: bring online what is not."""
        ...

    def shutdown(self) -> None:
        """The controller resigned."""
        ...

    def trigger_online_partition_state_change(self, topic: str | None = None) -> ElectionResults:
        """Try to elect leaders for all New and Offline partitions, of one topic or of all."""
        ...

    def handle_state_changes(
        self,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        election: ElectionStrategy | None = None,
    ) -> ElectionResults:
        """Move partitions to ``target`` and tell the brokers."""
        ...


class ReplicaStateMachine(Protocol):
    """Implemented by controller/replica_state_changes.py."""

    def startup(self) -> None:
        """After an election: put every replica into its first state, then tell all brokers."""
        ...

    def shutdown(self) -> None:
        """The controller resigned."""
        ...

    def handle_state_changes(self, replicas: ReplicasByBroker, target: ReplicaState) -> None:
        """Move replicas to ``target`` and tell the brokers."""
        ...


class Reassignments(Protocol):
    """Implemented by controller/partition_reassignments.py."""

    decoded: tuple[bytes | None, dict[TopicPartition, tuple[int, ...]]] | None

    def take_up(self, entries: Replicas) -> Replicas:
        """Those of the znode's ``entries`` that are still to be acted on, as from now they are."""
        ...

    def forget_taken_up(self, left: Container[TopicPartition]) -> None:
        """Only these entries are left in the znode."""
        ...

    def on_partition_reassignment(
        self, reassignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Failures:
        """Begin reassignments, replace them, or go on with them; gives those that failed."""
        ...

    def stop_unneeded_replicas(self, unneeded: Replicas) -> None:
        """Have replicas deleted that nobody wants any more; their leaders are moved first."""
        ...

    def shutdown(self) -> None:
        """The controller resigned."""
        ...


class TopicDeletions(Protocol):
    """Implemented by controller/topic_deletion_manager.py."""

    counts: DeletionCounts
    is_delete_topic_enabled: bool

    def init(self, topics: Iterable[str]) -> None:
        """After an election, before the state machines start: queue what is to be deleted."""
        ...

    def try_topic_deletion(self) -> None:
        """After an election, once replicas, partitions and reassignments were seen to."""
        ...

    def reset(self) -> None:
        """The controller resigned."""
        ...

    def enqueue_topics_for_deletion(self, topics: Iterable[str]) -> None:
        """Somebody asked for the deletion of these topics, or asked for it before."""
        ...

    def resume_deletion_for_topics(self, topics: Iterable[str]) -> None:
        """A broker with replicas of these topics came back, or a reassignment of theirs ended."""
        ...

    def fail_replica_deletion(self, replicas: ReplicasByBroker) -> None:
        """Replicas went offline or could not be deleted: halt the deletion of their topics."""
        ...

    def complete_replica_deletion(self, replicas: ReplicasByBroker) -> None:
        """A broker deleted replicas. A topic goes once it has none left."""
        ...

    def mark_topic_ineligible_for_deletion(self, topics: Iterable[str], reason: str) -> None:
        """Halt the deletion of those of the topics that are queued."""
        ...

    def forget_topics(self, topics: Iterable[str]) -> None:
        """The znodes of topics were deleted by hand: what asks for their deletion goes too."""
        ...


class Controller(Protocol):
    """What whoever processes an event may use. It belongs to the event thread.

    ``malformed``: znodes that cannot be read, by path, and why. ``is_elected``: this broker won
    the last election, and has not resigned. ``previous_session_id``: of the session before this.
    """

    config: ControllerConfig
    broker_info: Broker
    store: Store
    clock: Clock
    metadata: MetadataView
    random: IntSource
    quirks: Quirks
    on_registered: Callable[[int], None] | None
    dynamic_config: DynamicConfigView
    log: StateChangeLog
    recorder: Recorder
    context: ControllerContext
    zk: KafkaZkClient
    controller_zk: ControllerZkClient
    candidacy: Candidacy
    events: EventManager
    channels: ChannelManager
    sender: RequestSender
    batch: ControllerBrokerRequestBatch
    partition_state_machine: PartitionStateMachine
    replica_state_machine: ReplicaStateMachine
    reassignments: Reassignments
    watches: Watches
    topic_deletion_manager: TopicDeletions
    pending_creations: PendingRequests[PendingCreation]
    pending_deletions: PendingRequests[PendingDeletion]
    pending_elections: PendingRequests[PendingElection]
    malformed: dict[str, str]
    active_controller_id: int
    previous_session_id: int
    is_elected: bool
    is_shut_down: bool
    metrics: ControllerMetrics

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller."""
        ...

    def begin_batch(self) -> None:
        """Begin the controller's own batch; with one that is not empty the controller resigns."""
        ...

    def send_update_metadata_request(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Tell brokers who lives and, of ``partitions``, who leads."""
        ...

    def refresh_leaderships(
        self, partitions: Sequence[TopicPartition], watch: bool = False
    ) -> list[TopicPartition]:
        """Read states that others wrote into the context; gives those that cannot be read.

        Raises ControllerMoved if a newer controller wrote one.
        """
        ...

    def set_malformed_apart(self, malformed: Iterable[MalformedZNode]) -> None:
        """Remember, log and journal znodes that cannot be read; the rest is served."""
        ...

    def reply(self, message: Message, body: Response) -> None:
        """Answer a request."""
        ...
