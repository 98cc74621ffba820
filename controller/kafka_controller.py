"""The controller of one broker: a candidate until it is elected, then the one that decides.

A table of contents: it wires the parts, takes one event at a time, and says which is whose; what an
event means is in on_*.py. Everything that comes from outside (messages, watches, session events) is
only put on the queue. Mirrors kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cluster.api_errors import Errors
from cluster.errors import ControllerMoved
from cluster.journal import Kind
from cluster.protocols import Clock, DynamicConfigView, Journal, MetadataView, Transport
from cluster.quirks import NO_QUIRKS, Quirks
from cluster.requests import AlterIsrResponse, Message, Response
from cluster.types import Broker, TopicPartition
from controller import (
    election,
    events,
    on_alter_isr,
    on_broker_change,
    on_config_change,
    on_controlled_shutdown,
    on_controller_change,
    on_create_topics,
    on_delete_topics,
    on_elect_leaders,
    on_isr_change,
    on_leader_election,
    on_log_dir_event,
    on_malformed_state,
    on_partition_modifications,
    on_reassignment,
    on_responses,
    on_session,
    on_topic_change,
    on_topic_deletion,
)
from controller.candidacy import Candidacy
from controller.channel_manager import ChannelManager
from controller.config import ControllerConfig
from controller.event_manager import EventManager, QueuedEvent
from controller.events import ControllerEvent
from controller.messages import event_of_message
from controller.metrics import ControllerMetrics
from controller.partition_reassignments import PartitionReassignments
from controller.partition_state_changes import PartitionStateChanges
from controller.parts import (
    PartitionStateMachine,
    Reassignments,
    ReplicaStateMachine,
    TopicDeletions,
)
from controller.pending_requests import (
    PendingCreation,
    PendingDeletion,
    PendingElection,
    PendingRequests,
)
from controller.recorder import Recorder
from controller.replica_state_changes import ReplicaStateChanges
from controller.request_sender import RequestSender
from controller.state_change_log import StateChangeLog
from controller.status import controller_status
from controller.topic_deletion_manager import TopicDeletionManager
from controller.watches import Watches
from placement.draws import IntSource
from statemachines.context import ControllerContext
from statemachines.request_batch import BatchNotEmpty, ControllerBrokerRequestBatch
from zk.controller_client import ControllerZkClient
from zk.kafka_zk_client import KafkaZkClient
from zk.store import SessionEvent, Store, StoreEvent
from zk.znodes import MalformedZNode


class KafkaController:
    """One candidate. ``step`` belongs to its event thread; ``receive``, ``on_store_event``,
    ``startup`` and ``shutdown`` may be called from anywhere, and only enqueue.

    ``on_registered`` is called with the new broker epoch after the broker was registered again.
    ``random`` draws assignments and topic ids. ``dynamic_config`` None: configs do not change.
    ``candidacy``: shared with the other candidates of the process.
    """

    def __init__(
        self,
        config: ControllerConfig,
        broker_info: Broker,
        store: Store,
        transport: Transport,
        clock: Clock,
        journal: Journal,
        metadata: MetadataView,
        random: IntSource,
        quirks: Quirks = NO_QUIRKS,
        state_change_log: StateChangeLog | None = None,
        on_registered: Callable[[int], None] | None = None,
        dynamic_config: DynamicConfigView | None = None,
        candidacy: Candidacy | None = None,
    ) -> None:
        self.config = config
        self.broker_info = broker_info
        self.store = store
        self.transport = transport
        self.clock = clock
        self.metadata = metadata
        self.random = random
        self.quirks = quirks
        self.on_registered = on_registered
        self.dynamic_config: DynamicConfigView = dynamic_config or config
        self.candidacy = candidacy or Candidacy(clock)
        self.log = state_change_log or StateChangeLog(config.broker_id, clock)
        self.recorder = Recorder(config, clock, journal)
        self.context = ControllerContext(quirks, config.broker_id)
        self.zk = KafkaZkClient(store, quirks)
        self.controller_zk = ControllerZkClient(store, quirks, config.write_group_size)
        self.events = EventManager(clock, self)
        self.channels = ChannelManager(
            config.broker_id,
            transport,
            clock,
            self.events.schedule,
            config.controller_socket_timeout_ms,
        )
        self.sender = RequestSender(config, self.channels, self.recorder, self.log)
        self.batch = ControllerBrokerRequestBatch(self.context, config.broker_id)
        self.partition_state_machine: PartitionStateMachine = PartitionStateChanges(self)
        self.replica_state_machine: ReplicaStateMachine = ReplicaStateChanges(self)
        self.reassignments: Reassignments = PartitionReassignments(self)
        self.watches = Watches(quirks)
        self.topic_deletion_manager: TopicDeletions = TopicDeletionManager(self)
        self.pending_creations = PendingRequests[PendingCreation](
            self.events, events.CreateTopicsTimeout
        )
        self.pending_deletions = PendingRequests[PendingDeletion](
            self.events, events.DeleteTopicsTimeout
        )
        self.pending_elections = PendingRequests[PendingElection](
            self.events, events.ElectLeadersTimeout
        )
        self.malformed: dict[str, str] = {}
        self.active_controller_id = election.NO_CONTROLLER
        self.previous_session_id = 0
        self.is_elected = False
        self.is_shut_down = False
        self.is_candidate = False
        self.metrics = ControllerMetrics(self.events, self.channels)

    # From outside: enqueue only

    def startup(self, cluster_id: str | None = None) -> None:
        """Begin to be a candidate. The broker is registered already, and told ``cluster_id``."""
        if cluster_id is not None:
            self.recorder.cluster_id = cluster_id
        self.store.add_listener(self.on_store_event)
        self.is_candidate = True
        self.events.put(events.Startup())

    def on_candidacy_changed(self) -> None:
        """Handle that ``candidacy.hold`` was set or cleared."""
        if self.is_candidate:
            self.events.put(events.Reelect())

    def shutdown(self) -> None:
        """Resign once the event being processed has ended, and process nothing after that."""
        self.store.remove_listener(self.on_store_event)
        self.events.clear_and_put(events.ShutdownEventThread())

    def receive(self, message: Message) -> None:
        """Take a request for the controller, or a broker's answer to one of the controller's."""
        event = event_of_message(message)
        if event is not None:
            self.events.put(event)

    def on_store_event(self, event: StoreEvent) -> None:
        """Take what a watch saw, or what became of the session."""
        if isinstance(event, SessionEvent):
            on_session.on_session_event(self, event)
            return
        wanted = self.watches.event_of(event)
        if wanted is not None:
            self.events.put(wanted)

    def enable_unclean_leader_election(self, topic: str | None) -> None:
        """A topic's config, or with None the broker's own, now allows leaders out of sync."""
        if topic is None:
            self.events.put(events.UncleanLeaderElectionEnable())
        elif self.is_active:
            self.events.put(events.TopicUncleanLeaderElectionEnable(topic))

    # The event thread

    def step(self) -> bool:
        """Process exactly one event; False if none is due."""
        return self.events.step()

    def next_due_ms(self) -> float | None:
        """When the next timer is due, in the clock's monotonic milliseconds."""
        return self.events.next_due_ms()

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller."""
        return self.active_controller_id == self.config.broker_id and (
            self.is_elected or self.quirks.kafka_13461
        )

    def process(self, queued: QueuedEvent) -> None:
        """Process one event to its end. What goes wrong is logged and journalled here."""
        event = queued.event
        if self.is_shut_down:
            return
        self.recorder.event_id, self.recorder.cause_id = queued.event_id, queued.cause_id
        if self.is_elected and not isinstance(
            event, events.ResponseReceived | events.RequestTimeout
        ):
            self.recorder.occurrence(Kind.EVENT, detail=str(event))
        try:
            self._dispatch(event)
        except ControllerMoved as moved:
            self.log.info(f"Controller moved to another broker when processing {event}.")
            self.recorder.occurrence(Kind.CONTROLLER_MOVED, detail=str(event), outcome=str(moved))
            self._after_moved(event)
        except Exception as error:
            self._report_failure(event, error)
        self.metrics.topic_deletions = self.topic_deletion_manager.counts
        self.metrics.update(self.context, self.is_active)
        self.recorder.flush()

    def preempt(self, event: ControllerEvent) -> None:
        """Answer an event that was thrown away; called by whoever threw it away."""
        match event:
            case events.AlterIsrReceived(message):
                self.reply(message, AlterIsrResponse(Errors.NOT_CONTROLLER, {}))
            case events.CreateTopicsReceived(message, request):
                self.reply(message, on_create_topics.not_controller(request))
            case events.ApiPartitionReassignment(message, _) | events.ListPartitionReassignments(
                message, _
            ):
                self.reply(message, on_reassignment.not_controller(event))
            case events.DeleteTopicsReceived(message, request):
                self.reply(message, on_delete_topics.not_controller(request))
            case events.ControlledShutdown(message, _):
                self.reply(message, on_controlled_shutdown.NOT_CONTROLLER)
            case events.ElectLeadersReceived(message, request):
                self.reply(message, on_elect_leaders.not_controller(request))
            case (
                events.CreateTopicsTimeout()
                | events.DeleteTopicsTimeout()
                | events.ElectLeadersTimeout()
            ):
                self.events.put(event)

    def _dispatch(self, event: ControllerEvent) -> None:  # noqa: C901 - a table of contents
        match event:
            case events.BrokerChange():
                on_broker_change.process_broker_change(self)
            case events.BrokerModifications(broker_id):
                on_broker_change.process_broker_modification(self, broker_id)
            case events.TopicChange():
                on_topic_change.process_topic_change(self)
            case events.PartitionModifications(topic):
                on_partition_modifications.process_partition_modifications(self, topic)
            case events.AlterIsrReceived(message, request):
                on_alter_isr.process_alter_isr(self, message, request)
            case events.IsrChangeNotification():
                on_isr_change.process_isr_change_notification(self)
            case events.LogDirEventNotification():
                on_log_dir_event.process_log_dir_event_notification(self)
            case events.PartitionStateModifications(tp):
                on_malformed_state.process_partition_state_modifications(self, tp)
            case events.UncleanLeaderElectionEnable():
                on_config_change.process_unclean_leader_election_enable(self)
            case events.TopicUncleanLeaderElectionEnable(topic):
                on_config_change.process_topic_unclean_leader_election_enable(self, topic)
            case events.CreateTopicsReceived(message, request):
                on_create_topics.process_create_topics(self, message, request)
            case events.CreateTopicsTimeout(creation):
                on_create_topics.process_timeout(self, creation)
            case events.TopicDeletion():
                on_topic_deletion.process_topic_deletion(self)
            case events.DeleteTopicsReceived(message, request):
                on_delete_topics.process_delete_topics(self, message, request)
            case events.DeleteTopicsTimeout(deletion):
                on_delete_topics.process_timeout(self, deletion)
            case events.ZkPartitionReassignment():
                on_reassignment.process_zk_partition_reassignment(self)
            case events.PartitionReassignmentIsrChange(tp):
                on_reassignment.process_partition_reassignment_isr_change(self, tp)
            case events.ApiPartitionReassignment(message, request):
                on_reassignment.process_api_partition_reassignment(self, message, request)
            case events.ListPartitionReassignments(message, request):
                on_reassignment.process_list_partition_reassignments(self, message, request)
            case events.ElectLeadersReceived(message, request):
                on_elect_leaders.process_elect_leaders(self, message, request)
            case events.ElectLeadersTimeout(election_number):
                on_elect_leaders.process_timeout(self, election_number)
            case events.AutoPreferredReplicaLeaderElection():
                on_leader_election.process_auto_preferred_replica_leader_election(self)
            case events.ControlledShutdown(message, request):
                on_controlled_shutdown.process_controlled_shutdown(self, message, request)
            case events.ReplicaLeaderElection():
                on_leader_election.process_zk_replica_leader_election(self)
            case events.ResponseReceived():
                on_responses.process_response(self, event)
            case events.RequestTimeout(broker_id):
                on_responses.process_request_timeout(self, broker_id)
            case events.ControllerChange():
                on_controller_change.process_controller_change(self)
            case events.Reelect():
                on_controller_change.process_reelect(self)
            case events.RegisterBrokerAndReelect():
                on_session.process_register_broker_and_reelect(self)
            case events.Expire(reopen):
                on_session.process_expire(self, reopen)
            case events.Startup():
                on_controller_change.process_startup(self)
            case events.ShutdownEventThread():
                on_session.process_shutdown(self)
            case _:
                raise AssertionError(f"no handler for {event}")

    def _after_moved(self, event: ControllerEvent) -> None:
        try:
            election.maybe_resign(self)
        except Exception as error:
            self._report_failure(event, error)

    def _report_failure(self, event: ControllerEvent, error: Exception) -> None:
        self.log.error(f"Error processing event {event}", error=error)
        self.recorder.occurrence(
            Kind.EVENT_FAILED, detail=str(event), outcome=f"{type(error).__name__}: {error}"
        )

    # What events share

    def begin_batch(self) -> None:
        """Begin the controller's own batch; with one that is not empty the controller resigns."""
        try:
            self.batch.new_batch()
        except BatchNotEmpty:
            self.log.error("Forcing the controller to resign")
            self.batch.clear()
            election.trigger_controller_move(self)
            raise

    def send_update_metadata_request(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Tell brokers who lives and, of ``partitions``, who leads."""
        self.begin_batch()
        self.batch.add_update_metadata_request_for_brokers(broker_ids, partitions)
        self.sender.send(self.batch)

    def refresh_leaderships(
        self, partitions: Sequence[TopicPartition], watch: bool = False
    ) -> list[TopicPartition]:
        """Read states that others wrote into the context; gives those that cannot be read.

        Raises ControllerMoved if a newer controller wrote one.
        """
        return on_malformed_state.refresh_leaderships(self, partitions, watch)

    def set_malformed_apart(self, malformed: Iterable[MalformedZNode]) -> None:
        """Remember, log and journal znodes that cannot be read; the rest is served."""
        on_malformed_state.set_malformed_apart(self, malformed)

    def reply(self, message: Message, body: Response) -> None:
        """Answer a request."""
        self.transport.send(
            Message(message.destination, message.source, message.correlation_id, body)
        )

    # What others read

    def status(self) -> dict[str, Any]:
        """What ``klamm status`` shows of this controller: plain values."""
        return controller_status(self)
