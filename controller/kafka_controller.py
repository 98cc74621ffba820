"""The controller of one broker: a candidate until it is elected, then the active controller.

KafkaController connects the components and processes one event at a time. event_handlers.py maps
each event to a handler function in on_*.py. External input (messages, fired watches and session
events) is only enqueued. Mirrors kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import ControllerMoved
from klamm.cluster.journal import Kind
from klamm.cluster.protocols import Clock, DynamicConfigView, Journal, MetadataView, Transport
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.refusals import refusal
from klamm.cluster.requests import Message, Response
from klamm.cluster.status import ControllerStatus
from klamm.cluster.types import NO_CONTROLLER, Broker, TopicPartition
from klamm.controller import controller_election, events, on_malformed_state, on_session
from klamm.controller.candidacy import Candidacy
from klamm.controller.channel_manager import ChannelManager
from klamm.controller.config import ControllerConfig
from klamm.controller.event_handlers import HANDLERS, event_of_message
from klamm.controller.event_manager import EventManager, QueuedEvent
from klamm.controller.events import ControllerEvent, RequestReceived
from klamm.controller.metrics import ControllerMetrics
from klamm.controller.partition_reassignments import PartitionReassignments
from klamm.controller.partition_state_machine import PartitionStateMachine
from klamm.controller.pending_requests import PendingRequests
from klamm.controller.recorder import JournalRecorder
from klamm.controller.replica_state_machine import ReplicaStateMachine
from klamm.controller.request_sender import RequestSender, RequestTap
from klamm.controller.state_change_log import StateChangeLog
from klamm.controller.status import controller_status
from klamm.controller.topic_deletion_manager import TopicDeletionManager
from klamm.controller.watches import Watches
from klamm.placement.draws import IntSource
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.request_batch import BatchNotEmpty, ControllerBrokerRequestBatch
from klamm.zk.controller_client import ControllerZkClient
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import SessionEvent, Store, StoreEvent
from klamm.zk.znodes import MalformedZNode


class KafkaController:
    """Controller of one broker: a candidate, or the active controller after winning an election.

    Only the event thread calls ``step``. Any thread may call ``receive``, ``on_store_event``,
    ``on_metadata_updated``, ``startup`` and ``shutdown``, which only enqueue events.

    - ``on_registered``: called with the new broker epoch after the broker was registered again.
    - ``random``: random source for replica assignments and topic ids.
    - ``dynamic_config``: the broker's current configs, or None if configs never change.
    - ``candidacy``: shared with the other candidates of the process.
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
        request_taps: Iterable[RequestTap] = (),
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
        self.events = EventManager(clock, self)
        self.recorder = JournalRecorder(config, clock, journal, self.events)
        self.context = ControllerContext(quirks, config.broker_id)
        self.zk = KafkaZkClient(store, quirks)
        self.controller_zk = ControllerZkClient(store, quirks, config.write_group_size)
        self.channels = ChannelManager(
            config.broker_id,
            transport,
            clock,
            self.events.schedule,
            config.controller_socket_timeout_ms,
        )
        self.sender = RequestSender(config, self.channels, self.recorder, self.log, request_taps)
        self.batch = ControllerBrokerRequestBatch(self.context, config.broker_id)
        self.partition_state_machine = PartitionStateMachine(self)
        self.replica_state_machine = ReplicaStateMachine(self)
        self.reassignments = PartitionReassignments(self)
        self.malformed: dict[str, str] = {}
        self.watches = Watches(self.malformed, quirks)
        self.topic_deletion_manager = TopicDeletionManager(self)
        self.pending_requests = PendingRequests(self)
        self.active_controller_id = NO_CONTROLLER
        self.is_elected = False
        self.is_shut_down = False
        self.is_candidate = False
        self.metrics = ControllerMetrics(self.events, self.channels)

    # External input: enqueue only

    def startup(self, cluster_id: str | None = None) -> None:
        """Start as a candidate. Call this after the broker was registered in ZooKeeper."""
        if cluster_id is not None:
            self.recorder.cluster_id = cluster_id
        self.store.add_listener(self.on_store_event)
        self.is_candidate = True
        self.events.put(events.Startup())

    def on_candidacy_changed(self) -> None:
        """Enqueue an election attempt, because ``candidacy.hold`` was set or cleared."""
        if self.is_candidate:
            self.events.put(events.Reelect())

    def shutdown(self) -> None:
        """Resign after the current event has been processed. Later events are ignored."""
        self.store.remove_listener(self.on_store_event)
        self.events.clear_and_put(events.ShutdownEventThread())

    def receive(self, message: Message) -> None:
        """Enqueue a request to the controller, or a broker's response to a control request."""
        event = event_of_message(message)
        if event is not None:
            self.events.put(event)

    def on_store_event(self, event: StoreEvent) -> None:
        """Enqueue the controller event for a fired watch or a ZooKeeper session state change."""
        if isinstance(event, SessionEvent):
            on_session.on_session_event(self, event)
            return
        wanted = self.watches.event_of(event)
        if wanted is not None:
            self.events.put(wanted)

    def enable_unclean_leader_election(self, topic: str | None) -> None:
        """Enqueue an event because unclean leader election was enabled for ``topic``.

        If ``topic`` is None, unclean leader election was enabled in the broker's config.
        """
        if topic is None:
            self.events.put(events.UncleanLeaderElectionEnable())
        elif self.is_active:
            self.events.put(events.TopicUncleanLeaderElectionEnable(topic))

    def on_metadata_updated(self) -> None:
        """Enqueue an event if a former controller has pending requests.

        The active controller notices the update when its broker responds to UpdateMetadata.
        """
        if not self.is_active and len(self.pending_requests):
            self.events.put(events.MetadataUpdated())

    # The event thread

    def step(self) -> bool:
        """Process one event. Return False if no event is queued or due."""
        return self.events.step()

    def next_due_ms(self) -> float | None:
        """Return the time at which the next timer is due, or None if no timer is set.

        The time is in monotonic milliseconds.
        """
        return self.events.next_due_ms()

    @property
    def is_active(self) -> bool:
        """True if this broker is the active controller."""
        return self.active_controller_id == self.config.broker_id and (
            self.is_elected or self.quirks.kafka_13461
        )

    @property
    def has_unsent_requests(self) -> bool:
        """True if a batch holds requests; at the end of an event, all have been sent."""
        machines = (self.partition_state_machine, self.replica_state_machine)
        return not (self.batch.is_empty and all(machine.batch.is_empty for machine in machines))

    def process(self, queued: QueuedEvent) -> None:
        """Process one event completely. Errors are logged and journalled, not raised."""
        event = queued.event
        if self.is_shut_down:
            return
        if not isinstance(event, events.ResponseReceived | events.RequestTimeout):
            self.recorder.occurrence(Kind.EVENT, detail=str(event))
        try:
            self._handle(event)
        except ControllerMoved as moved:
            self.log.info(f"Controller moved to another broker when processing {event}.")
            self.recorder.occurrence(Kind.CONTROLLER_MOVED, detail=str(event), outcome=str(moved))
            self._after_moved(event)
        except Exception as error:
            self._report_failure(event, error)
        self.metrics.topic_deletions = self.topic_deletion_manager.counts
        self.metrics.update(self.context, self.is_active)
        self.recorder.flush()

    def _handle(self, event: ControllerEvent) -> None:
        handler = HANDLERS[type(event)]
        if handler.is_for_all or self.is_active:
            handler.process(self, event)
        else:
            self.preempt(event)

    def preempt(self, event: ControllerEvent) -> None:
        """Drop an event. If it is a request, send the response NOT_CONTROLLER."""
        if isinstance(event, RequestReceived):
            self._refuse(event, Errors.NOT_CONTROLLER)

    def _refuse(self, event: RequestReceived, error: Errors) -> None:
        self.reply(event.message, refusal(event.request, error))

    def _after_moved(self, event: ControllerEvent) -> None:
        try:
            controller_election.maybe_resign(self)
        except Exception as error:
            self._report_failure(event, error)

    def _report_failure(self, event: ControllerEvent, error: Exception) -> None:
        self.log.error(f"Error processing event {event}", error=error)
        self.recorder.occurrence(
            Kind.EVENT_FAILED, detail=str(event), outcome=f"{type(error).__name__}: {error}"
        )

    # Shared by the event handlers

    @contextmanager
    def answering_failure(self, event: RequestReceived) -> Iterator[None]:
        """Context manager: if its body raises, send an error response and re-raise the error."""
        try:
            yield
        except ControllerMoved:
            self._refuse(event, Errors.NOT_CONTROLLER)
            raise
        except Exception:
            self._refuse(event, Errors.UNKNOWN_SERVER_ERROR)
            raise

    def begin_batch(self) -> None:
        """Start a new request batch; all event handlers share one batch object.

        If the batch still holds requests, the controller resigns, and BatchNotEmpty is raised.
        """
        try:
            self.batch.new_batch()
        except BatchNotEmpty:
            self.log.error("Forcing the controller to resign")
            self.batch.clear()
            controller_election.trigger_controller_move(self)
            raise

    def send_update_metadata_request(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Send UpdateMetadata with the live brokers and ``partitions`` to ``broker_ids``."""
        self.begin_batch()
        self.batch.add_update_metadata_request_for_brokers(broker_ids, partitions)
        self.sender.send(self.batch)

    def refresh_leaderships(
        self, partitions: Sequence[TopicPartition], watch: bool = False
    ) -> list[TopicPartition]:
        """Read partition state znodes into the context.

        Return the partitions whose state znode is missing or malformed. Raises ControllerMoved if
        a newer controller wrote one of the states.
        """
        return on_malformed_state.refresh_leaderships(self, partitions, watch)

    def quarantine_malformed(self, malformed: Iterable[MalformedZNode]) -> None:
        """Log and ignore malformed znodes, so that the rest of the cluster keeps working."""
        on_malformed_state.quarantine_malformed(self, malformed)

    def reply(self, message: Message, body: Response) -> None:
        """Send ``body`` as the response to the request in ``message``."""
        self.transport.send(
            Message(message.destination, message.source, message.correlation_id, body)
        )

    # Read by other threads

    def status(self) -> ControllerStatus:
        """Return this controller's view of the cluster, and its pending work."""
        return controller_status(self)
