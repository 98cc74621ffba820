"""One simulated broker, which handles each message to completion before the next.

The broker registers in ZooKeeper and otherwise only reacts: the caller delivers messages and calls
``on_timer``. A broker never elects leaders. Mirrors the dispatch and the epoch checks of
kafka.server.KafkaApis and the startup order of kafka.server.KafkaServer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

from klamm.brokers.bandwidth.copying import Arrived, Copying, ReplicaCopy
from klamm.brokers.config import BrokerConfig, broker_config
from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.constant_rate.constant_rates import ConstantRates
from klamm.brokers.controlled_shutdown import ControlledShutdownRequests
from klamm.brokers.dynamic_config import DynamicConfigManager
from klamm.brokers.followers.fetchers import ReplicaFetcherManager
from klamm.brokers.groups.group_coordinator import GroupCoordinator
from klamm.brokers.groups.group_log import GroupLog
from klamm.brokers.kafka_apis import ClientApis, ControlApis
from klamm.brokers.leaders.alter_isr_manager import AlterIsrManager, AlterIsrResult
from klamm.brokers.leaders.copies import Copies
from klamm.brokers.leaders.zk_isr_manager import IsrManager, ZkIsrManager
from klamm.brokers.log_configs import TopicLogConfigs
from klamm.brokers.log_dir_failure_handler import LogDirFailureHandler
from klamm.brokers.log_maintenance import LogMaintenance
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.logs.log_manager import LogManager
from klamm.brokers.logs.log_store import LogStore, MemoryLogStore
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.producer_id_manager import ProducerIdManager
from klamm.brokers.replica_log_dirs import alter_replica_log_dirs, describe_log_dirs
from klamm.brokers.replica_manager import ReplicaManager
from klamm.brokers.topic_creation import TopicCreation
from klamm.cluster.constant_rate import ConstantRateRequest, RevokeRates
from klamm.cluster.data_requests import CONSUMER_REPLICA_ID, FetchRequest, FetchResponse
from klamm.cluster.protocols import Clock, Transport
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.requests import (
    NO_CORRELATION_ID,
    Address,
    AlterIsrResponse,
    AlterReplicaLogDirsRequest,
    ControlledShutdownResponse,
    CreateTopicsResponse,
    DescribeLogDirsRequest,
    Disconnected,
    LeaderAndIsrRequest,
    Message,
    Request,
    Response,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from klamm.cluster.timers import earliest
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import NO_BROKER_EPOCH
from klamm.cluster.types import Broker as RegisteredBroker
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo

logger = logging.getLogger(__name__)


class KafkaServer:
    """A simulated broker of the cluster.

    - ``broker_epoch``: czxid of the broker's registration znode; -1 before the broker registers.
    - ``proposed_cluster_id``: id to write to ZooKeeper if the cluster has no id yet.
    - ``cluster_id``: the cluster id found in ZooKeeper; None before ``startup``.
    - ``log_store``: the broker's disk, with the files of earlier runs.
    - ``log_journal``: receives journal rows about log truncations and log directories.
    - ``connections``: connections between brokers and clients that lose no messages; if None, the
      broker rejects constant-rate workloads.
    - ``copying``: the bandwidth model that delays replica copies.

    Not thread-safe: only one thread at a time may call a broker. However, any thread may read
    attributes of ``metadata_cache``, and look up one topic or partition in it.
    """

    def __init__(
        self,
        info: RegisteredBroker,
        store: Store,
        transport: Transport,
        clock: Clock,
        config: BrokerConfig | None = None,
        proposed_cluster_id: str | None = None,
        quirks: Quirks = NO_QUIRKS,
        log_store: LogStore | None = None,
        connections: CertainConnections | None = None,
        log_journal: LogJournal | None = None,
        copying: Copying | None = None,
    ) -> None:
        config = config or broker_config({})
        self.info, self.config = info, config
        self.address = Address("broker", info.id)
        self.broker_epoch = NO_BROKER_EPOCH
        self.cluster_id: str | None = None
        self.metadata_cache = MetadataCache()
        self._zk = KafkaZkClient(store)
        self.dynamic_config_manager = DynamicConfigManager(
            info.id, self._zk, clock, config.unclean_leader_election_enable, quirks
        )
        self._topic_logs = TopicLogConfigs(config.log, self.dynamic_config_manager.topic_configs)
        disk = log_store or MemoryLogStore()
        self.log_manager = LogManager(LogDirs(config.log_dirs), disk, self._topic_logs)
        self.alter_isr_manager = self._new_isr_manager(clock)
        self.copies = Copies(info.id, config, copying or Copying(clock, transport.send))
        self.fetchers = ReplicaFetcherManager(
            info.id, config, self._send, self.log_manager.on_error, log_journal
        )
        self.replica_manager = ReplicaManager(
            info.id,
            config,
            self.metadata_cache,
            self.fetchers,
            self.alter_isr_manager,
            self.log_manager,
            clock.monotonic_ms,
            self.copies,
            quirks,
        )
        self.rates = self._new_rates(connections, clock)
        self._moves = self.replica_manager.replica_alter_log_dirs_manager
        self.log_maintenance = LogMaintenance(
            config, self.replica_manager, clock, self.rates, log_journal
        )
        self._log_journal = log_journal
        self._log_dir_failures = LogDirFailureHandler(
            info.id, config, self.replica_manager, self._zk, log_journal
        )
        self._store = store
        self._control_apis = ControlApis(self.replica_manager, self._topic_logs, clock)
        self._client_apis = self._new_client_apis(clock)
        self._transport = transport
        self._clock = clock
        self._proposed_cluster_id = proposed_cluster_id
        self._correlation_id = 0
        self._propose_at_ms: float | None = None
        self.controlled_shutdown = ControlledShutdownRequests(
            info.id, config, self._find_controller, self._send
        )

    def _new_rates(self, connections: CertainConnections | None, clock: Clock) -> ConstantRates:
        leaders, copying = self.replica_manager.leaders, self.copies.copying
        rates = ConstantRates(
            self.info.id, self.config, connections, copying, clock.monotonic_ms, leaders
        )
        leaders.use(rates)
        self.fetchers.schedules = rates
        return rates

    def _new_client_apis(self, clock: Clock) -> ClientApis:
        group_log = self._new_group_log(clock)
        self.groups = GroupCoordinator(
            self.info.id, self.config, clock, self.metadata_cache, group_log
        )
        self._topic_creation = TopicCreation(self.config, self.metadata_cache, self._send)
        return ClientApis(
            self.config,
            self.metadata_cache,
            self.replica_manager.leaders,
            ProducerIdManager(self.info.id, self._zk),
            self.groups,
            group_log,
            self._topic_creation,
        )

    def _new_group_log(self, clock: Clock) -> GroupLog:
        return GroupLog(
            self.address,
            self.replica_manager.partitions,
            self.replica_manager.leaders.produces,
            self.config.offsets_commit_timeout_ms,
            clock,
            self.log_maintenance.on_message,
        )

    def _new_isr_manager(self, clock: Clock) -> IsrManager:
        if self.config.is_alter_isr_enabled:
            return AlterIsrManager(self.info.id, self.config, self.metadata_cache, self._send)
        return ZkIsrManager(self._zk, clock.monotonic_ms())

    @property
    def halt_reason(self) -> str | None:
        """Description of the failures that force the broker to halt, or None if there are none."""
        return self._log_dir_failures.halt_reason

    # -- registration

    def startup(self) -> int:
        """Create the top-level znodes and the cluster id, and register the broker.

        Return the broker epoch.

        Raises NodeExists while another session holds the broker id, for example the session of a
        broker that was just killed; the caller retries later. Raises MalformedZNode if the cluster
        id cannot be read, and EnvironmentProblem or LogStorageError if the log directories cannot
        be used.
        """
        self._zk.create_top_level_paths()
        if self._proposed_cluster_id is not None:
            self.cluster_id = self._zk.create_or_get_cluster_id(self._proposed_cluster_id)
        else:
            self.cluster_id = self._zk.get_cluster_id()
        self.copies.startup(self.log_manager.dirs.path_of, self.rates.reserve_traffic)
        self.dynamic_config_manager.on_own_config = self.copies.on_config
        self.dynamic_config_manager.on_topic_config = self._on_topic_config
        self.dynamic_config_manager.initialize()
        if not self.log_manager.is_open:
            owner = MetaProperties(self.cluster_id or "", self.info.id)
            topics = self._zk.get_all_topics_in_cluster()
            if OFFSETS_TOPIC in topics:
                self._startup_groups()
            with self._topic_logs.read_ahead(topics):
                self.log_maintenance.startup(owner)
            # The controller is not notified: no replica in these directories has been online yet.
            self._log_dir_failures.take_offline()
        self._register()
        self.dynamic_config_manager.process_notifications()
        return self.broker_epoch

    def _startup_groups(self) -> None:
        found = self._zk.get_topic_assignments([OFFSETS_TOPIC]).values.get(OFFSETS_TOPIC)
        if found is not None:
            self.groups.startup(len(found.assignment))

    def on_session_expired(self) -> None:
        """Begin a new ZooKeeper session, and register again if the broker was registered.

        Call this only while the broker's controller is not a candidate. A candidate shares the
        broker's session: it reopens the session, registers the broker, and passes the new epoch to
        ``on_registered``.
        """
        self._store.reopen()
        if self.broker_epoch != NO_BROKER_EPOCH:
            self._register()

    def on_registered(self, broker_epoch: int) -> None:
        """Store the broker epoch of a new registration.

        Requests with an earlier broker epoch are rejected from now on.
        """
        self.broker_epoch = broker_epoch

    def watch_registration(self) -> bool:
        """Set a watch on the znode /brokers/ids/ID of this broker; return True if it exists."""
        return self._zk.paths_exist([BrokerIdZNode.path(self.info.id)], watch=True)[0]

    def register_again(self) -> None:
        """Register again if the broker's znode was deleted although its session is still alive.

        A 2.8.2 broker does not detect the deletion, and the controller considers the broker dead
        until the broker restarts. Does nothing while another session holds the broker id. Raises
        NodeExists if another session registers the id at the same time.
        """
        if self.broker_epoch == NO_BROKER_EPOCH or self.watch_registration():
            return
        before, epoch = self.broker_epoch, self._register()
        logger.warning(
            "broker %d: its registration was deleted while its session was alive; "
            "registered again with broker epoch %d",
            self.info.id,
            epoch,
        )
        if self._log_journal is not None:
            self._log_journal.registered_again(self.info.id, before, epoch)

    def _register(self) -> int:
        info = BrokerInfo(self.info)
        self.on_registered(self._zk.register_broker(info, self._clock.now_ms()))
        self.watch_registration()
        return self.broker_epoch

    # -- messages and timers

    def receive(self, message: Message) -> None:
        """Handle one request or response, then send every message that is now due."""
        body, now_ms = message.body, self._clock.monotonic_ms()
        match body:
            case LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest():
                response = self._control_apis.handle(body, self.broker_epoch)
                self.groups.on_control_request(body, response)
                self._reply(message, response)
            case FetchResponse():
                self._on_fetch_response(message, body)
            case FetchRequest() if body.replica_id != CONSUMER_REPLICA_ID:
                self._reply(message, self.replica_manager.leaders.fetch(body, now_ms))
            case ConstantRateRequest() | RevokeRates() | Disconnected():
                self.rates.handle(message.source, body, now_ms)
            case DescribeLogDirsRequest():
                self.rates.materialize_all()
                self.replica_manager.take_arrived()
                self._reply(message, describe_log_dirs(self.replica_manager, body))
            case AlterReplicaLogDirsRequest():
                wall_ms = self._clock.now_ms()
                self._reply(message, alter_replica_log_dirs(self.replica_manager, body, wall_ms))
            case AlterIsrResponse():
                self._on_alter_isr_response(message, body)
            case CreateTopicsResponse():
                self._topic_creation.on_response(message.correlation_id, body)
            case ControlledShutdownResponse():
                self.controlled_shutdown.on_response(message.correlation_id, body, now_ms)
            case _:
                self._client_apis.handle(message, now_ms, self._clock.now_ms())
        self.log_maintenance.on_message(body)
        self._send_what_is_due()

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return -inf if ``on_timer`` must be called at once. Return None if nothing is due before the
        next message arrives.
        """
        due = (
            -math.inf if self.log_manager.has_failures else None,
            self._moves.next_due_ms(),
            self._propose_at_ms,
            self.controlled_shutdown.next_due_ms(),
            self.alter_isr_manager.next_due_ms(),
            self.fetchers.next_due_ms(self.metadata_cache.alive_brokers),
            self.replica_manager.leaders.next_due_ms(),
            self.groups.next_due_ms(),
            self.log_maintenance.next_due_ms(),
        )
        return earliest(due)

    def on_timer(self) -> None:
        """Run all tasks that are due by now."""
        now_ms = self._clock.monotonic_ms()
        if self._moves.on_timer(now_ms, self._clock.now_ms()):
            self.log_maintenance.schedule_checkpoints()
        self.log_maintenance.on_timer()
        self.fetchers.on_timer(now_ms)
        self.replica_manager.leaders.on_timer(now_ms)
        self.groups.on_timer(now_ms)
        self.alter_isr_manager.on_timer(now_ms)
        self.controlled_shutdown.on_timer(self.broker_epoch, now_ms)
        if self._propose_at_ms is not None and now_ms >= self._propose_at_ms:
            self._propose_at_ms = None
            self.replica_manager.leaders.isr_changes.propose_waiting()
        self._send_what_is_due()

    def fail_log_dir(self, path: str, reason: str | None = None) -> None:
        """Take a log directory and its replicas offline, and notify the controller.

        Does nothing if the directory has already failed. If the broker must halt because of the
        failure, ``halt_reason`` is set instead of notifying the controller.
        """
        self._log_dir_failures.fail(path, reason)

    def on_arrived(self, arrived: Arrived) -> None:
        """Handle the end of a copy: all its bytes have arrived, or it was ended early."""
        now_ms, (copy_id, size_bytes, _) = self._clock.monotonic_ms(), arrived
        if isinstance(copy_id, ReplicaCopy):
            self.replica_manager.leaders.on_arrived(copy_id, size_bytes, now_ms)
        else:
            self._moves.on_arrived(copy_id, size_bytes)
        self._send_what_is_due()

    def begin_shutdown(self) -> None:
        """Stop fetching as a follower from now on, so that this broker cannot rejoin an ISR."""
        self.replica_manager.is_shutting_down = True

    def begin_controlled_shutdown(self) -> None:
        """Ask the controller to move leadership away from this broker.

        The caller stops the broker once ``controlled_shutdown.is_over`` is True, whatever the
        outcome.
        """
        self.begin_shutdown()
        self.controlled_shutdown.attempt(self.broker_epoch, self._clock.monotonic_ms())

    def _find_controller(self) -> int | None:
        controller_id = self._zk.get_controller_id()
        if controller_id is None or self._zk.get_broker(controller_id) is None:
            return None
        return controller_id

    def _on_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        self.log_maintenance.on_topic_config(topic, overrides)
        self.copies.on_topic_config(topic, self.replica_manager.partitions)
        self.rates.reserve_traffic(topic)

    # -- responses

    def _on_fetch_response(self, message: Message, response: FetchResponse) -> None:
        now_ms, leader = self._clock.monotonic_ms(), message.source.id
        if not response.is_unsolicited:
            self.fetchers.on_response(leader, message.correlation_id, response, now_ms)
        else:
            self.replica_manager.on_unsolicited_responses(leader, response, now_ms)

    def _on_alter_isr_response(self, message: Message, response: AlterIsrResponse) -> None:
        now_ms = self._clock.monotonic_ms()
        self._take_isr_results(
            self.alter_isr_manager.on_response(message.correlation_id, response, now_ms)
        )

    def _take_isr_results(self, results: list[AlterIsrResult]) -> None:
        now_ms = self._clock.monotonic_ms()
        leaders = self.replica_manager.leaders
        for result in results:
            leaders.on_alter_isr_result(result, now_ms)
        if self._propose_at_ms is None and leaders.isr_changes.has_waiting:
            # Propose a refused replica again. In Kafka, its next fetch would do this.
            self._propose_at_ms = now_ms + self.config.replica_fetch_wait_max_ms

    # -- sending

    def _send_what_is_due(self) -> None:
        self._log_dir_failures.handle_failures()
        now_ms = self._clock.monotonic_ms()
        self.fetchers.maybe_fetch(self.metadata_cache.alive_brokers, now_ms)
        while results := self.alter_isr_manager.maybe_propagate(self.broker_epoch, now_ms):
            self._take_isr_results(results)
        for request, client_answer in self._client_apis.take_answers():
            self._reply(request, client_answer)
        for address, body in self.rates.take_messages(now_ms):
            self._transport.send(Message(self.address, address, NO_CORRELATION_ID, body))
        for replica_id, answer in self.replica_manager.leaders.take_unsolicited_responses(now_ms):
            follower = Address("broker", replica_id)
            self._transport.send(Message(self.address, follower, NO_CORRELATION_ID, answer))

    def _send(self, destination: Address, body: Request) -> int:
        self._correlation_id += 1
        self._transport.send(Message(self.address, destination, self._correlation_id, body))
        return self._correlation_id

    def _reply(self, request: Message, body: Response) -> None:
        self._transport.send(Message(self.address, request.source, request.correlation_id, body))
