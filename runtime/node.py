"""One machine of a cluster: a broker and, where it is a candidate, its controller.

Broker and controller of a node share one ZooKeeper session, as in Kafka, so one death removes both
ephemerals. Here they are made and wired, and wrapped as actors; which thread or scheduler runs the
actors is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from admin.topics import new_topic_id
from brokers.broker import Broker
from brokers.config import broker_config
from brokers.copying import Arrived, Copying
from brokers.log_journal import LogJournal
from brokers.logs.log_store import LogStore
from cluster import types
from cluster.api_version import inter_broker_protocol
from cluster.errors import KlammError, SessionExpired, UsageError
from cluster.protocols import Clock, Connections, Journal, Transport
from cluster.quirks import NO_QUIRKS, Quirks
from cluster.requests import Address, Message
from controller.config import ControllerConfig
from controller.kafka_controller import KafkaController
from controller.state_change_log import StateChangeLog
from placement.draws import JavaRandom
from placement.pools import Pools
from runtime.actors import Actor
from zk.fenced_writes import GROUP_SIZE
from zk.store import SessionEvent, SessionState, Store, StoreEvent, WatchEvent
from zk.znode_client import NodeExists
from zk.znodes import ConfigEntityChangeNotificationZNode

FIRST_PORT = 9092
MAX_PORT = 65_535
REGISTRATION_RETRY_MS = 200.0
CONFIG_CHANGES_PATH = ConfigEntityChangeNotificationZNode.path


@dataclass(frozen=True)
class StartUp:
    """Event of a broker: register, and let the controller begin to be a candidate."""

    deadline_ms: float
    """Until when another session may hold the broker's id, in monotonic milliseconds."""
    holds_controller: bool = False
    """The controller is no candidate before a BeginCandidacy."""


@dataclass(frozen=True)
class BeginCandidacy:
    """Event of a broker that is registered: let its controller begin to be a candidate."""


@dataclass(frozen=True)
class ReRegister:
    """Event of a broker that is no candidate: its session expired."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """What a cluster is made of. ``racks`` and ``end_points`` by broker id; times in milliseconds.

    ``candidates`` None: every broker is a controller candidate. ``config``: Kafka's property names.
    A broker without ``end_points`` has a port made from its id; nothing listens on any of them.
    ``write_group_size``: writes of a controller in one transaction, at most.
    ``pools``: where topics may be placed; None: anywhere. ``segments``: the directory in which
    brokers keep logs of real files; None: their logs are in memory, and only count.
    """

    broker_ids: tuple[int, ...]
    racks: Mapping[int, str] = field(default_factory=dict)
    end_points: Mapping[int, tuple[types.EndPoint, ...]] = field(default_factory=dict)
    candidates: tuple[int, ...] | None = None
    session_timeout_ms: int = 6000
    quirks: Quirks = NO_QUIRKS
    config: Mapping[str, str] = field(default_factory=dict)
    run_id: str = "run"
    cluster_id: str | None = None
    seed: int = 0
    journal_messages: bool = False
    write_group_size: int = GROUP_SIZE
    pools: Pools | None = None
    segments: Path | None = None

    def is_candidate(self, broker_id: int) -> bool:
        """True if this broker may become the controller."""
        return self.candidates is None or broker_id in self.candidates

    def broker_info(self, broker_id: int) -> types.Broker:
        """What the broker registers in ZooKeeper."""
        end_points = self.end_points.get(broker_id) or (_end_point(broker_id),)
        return types.Broker(broker_id, end_points, self.racks.get(broker_id))

    def controller_config(self, broker_id: int) -> ControllerConfig:
        """What the broker's controller is told."""
        config, protocol = self.config, inter_broker_protocol(self.config)
        return ControllerConfig(
            broker_id=broker_id,
            run_id=self.run_id,
            cluster_id=self.cluster_id,
            num_partitions=int(config.get("num.partitions", "1")),
            default_replication_factor=int(config.get("default.replication.factor", "1")),
            unclean_leader_election_enable=config.get("unclean.leader.election.enable") == "true",
            delete_topic_enable=config.get("delete.topic.enable", "true") == "true",
            auto_leader_rebalance_enable=config.get("auto.leader.rebalance.enable", "true")
            == "true",
            leader_imbalance_check_interval_seconds=int(
                config.get("leader.imbalance.check.interval.seconds", "300")
            ),
            leader_imbalance_per_broker_percentage=int(
                config.get("leader.imbalance.per.broker.percentage", "10")
            ),
            controller_socket_timeout_ms=int(config.get("controller.socket.timeout.ms", "30000")),
            is_alter_isr_enabled=protocol.is_alter_isr_supported,
            is_feature_versioning_supported=protocol.is_feature_versioning_supported,
            uses_topic_ids=protocol.uses_topic_ids,
            pools=self.pools,
            journal_messages=self.journal_messages,
            write_group_size=self.write_group_size,
        )

    def with_broker(self, broker_id: int, rack: str | None) -> ClusterSpec:
        """The same cluster with one more broker, which is no controller candidate."""
        racks = dict(self.racks) if rack is None else {**self.racks, broker_id: rack}
        candidates = self.broker_ids if self.candidates is None else self.candidates
        broker_ids = (*self.broker_ids, broker_id)
        return replace(self, broker_ids=broker_ids, racks=racks, candidates=candidates)


def _end_point(broker_id: int) -> types.EndPoint:
    port = FIRST_PORT + broker_id
    return types.EndPoint("localhost", port if port <= MAX_PORT else FIRST_PORT)


def rack_map(broker_ids: Sequence[int], racks: Sequence[str]) -> dict[int, str]:
    """Racks dealt to the brokers in turn; none if ``racks`` is empty."""
    if not racks:
        return {}
    return {broker_id: racks[n % len(racks)] for n, broker_id in enumerate(broker_ids)}


@dataclass(kw_only=True)
class Node:
    """A broker and its controller (None: it is no candidate)."""

    broker: Broker
    controller: KafkaController | None

    @property
    def id(self) -> int:
        """The broker's id."""
        return self.broker.info.id


def build_node(
    spec: ClusterSpec,
    broker_id: int,
    *,
    broker_store: Store,
    controller_store: Store,
    transport: Transport,
    clock: Clock,
    journal: Journal,
    state_change_log: StateChangeLog | None = None,
    incarnation: int = 0,
    log_store: LogStore | None = None,
    connections: Connections | None = None,
    log_journal: LogJournal | None = None,
    copying: Copying | None = None,
) -> Node:
    """Make a node's broker and, if it is a candidate, its controller.

    The two stores are views of one session. ``incarnation`` counts the starts of this broker, so
    that it does not draw the same numbers again. ``log_journal`` is told what is cut from logs.
    """
    info = spec.broker_info(broker_id)
    broker = Broker(
        info,
        broker_store,
        transport,
        clock,
        broker_config(spec.config),
        # A topic id and a cluster id are written alike: a random UUID in base64.
        spec.cluster_id or new_topic_id(JavaRandom(spec.seed)),
        spec.quirks,
        log_store,
        connections,
        log_journal,
        copying,
    )
    if not spec.is_candidate(broker_id):
        return Node(broker=broker, controller=None)
    controller = KafkaController(
        spec.controller_config(broker_id),
        info,
        controller_store,
        transport,
        clock,
        journal,
        broker.metadata_cache,
        JavaRandom(hash((spec.seed, broker_id, incarnation))),
        spec.quirks,
        state_change_log,
        broker.on_registered,
        broker.dynamic_config_manager.config,
    )
    broker.dynamic_config_manager.on_unclean_election_enabled = (
        controller.enable_unclean_leader_election
    )
    return Node(broker=broker, controller=controller)


@dataclass(frozen=True)
class ConfigChanges:
    """Event of a broker: the children of /config/changes changed, or may have."""


@dataclass(frozen=True)
class ShutDown:
    """Event of a broker: be relieved by the controller, and then be ended by the owner."""


@dataclass(frozen=True)
class FailLogDir:
    """Event of a broker: one of its log directories fails."""

    path: str


def check_log_dir(broker: Broker, path: str) -> None:
    """Raises UsageError if the broker has no such log directory."""
    if path not in broker.config.log_dirs:
        raise UsageError(
            f"broker {broker.info.id} has no log directory {path}",
            hint=f"it has {', '.join(broker.config.log_dirs)}",
        )


class BrokerActor(Actor):
    """A broker's events: messages, its start, its timers, its end.

    ``on_started`` is called once the broker is registered, or with the error that prevented it;
    ``on_shut_down`` once the broker may be ended after a ShutDown; ``on_halted`` if its last log
    directory failed, or, where nobody is told of its start, if its session expired before it was
    registered: it does nothing more, as Kafka's, whose start that ends.
    """

    def __init__(
        self,
        node: Node,
        clock: Clock,
        on_started: Callable[[int, Exception | None], None] | None = None,
        on_shut_down: Callable[[int], None] | None = None,
        on_halted: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(Address("broker", node.id), self._handle)
        self._node = node
        self._clock = clock
        self._on_started = on_started
        self._on_shut_down = on_shut_down
        self._on_halted = on_halted
        self._is_shutting_down = False
        self._is_expired = False
        self._retry: tuple[float, StartUp] | None = None

    @staticmethod
    def wants(event: StoreEvent) -> bool:
        """True if ``on_store_event`` is to be told; may be called from any thread."""
        return isinstance(event, SessionEvent) or event.path == CONFIG_CHANGES_PATH

    def on_store_event(self, event: StoreEvent) -> None:
        """Take that configs changed, or what became of the session: of a broker that has no
        controller to see to it this registers again."""
        if isinstance(event, WatchEvent):
            if event.path == CONFIG_CHANGES_PATH:
                self.give(ConfigChanges())
        elif event.state is SessionState.EXPIRED:
            self._is_expired = True
            if self._node.controller is None:
                self.give(ReRegister())
        elif event.state is SessionState.CONNECTED and self._is_expired:
            self._is_expired = False
            self.give(ConfigChanges())

    def has_events(self) -> bool:
        """True if a message waits or a timer is due."""
        due_ms = self.next_due_ms()
        return bool(self.inbox) or (due_ms is not None and due_ms <= self._clock.monotonic_ms())

    def next_due_ms(self) -> float | None:
        """When the broker's next timer is due."""
        due = (self._node.broker.next_due_ms(), self._retry[0] if self._retry else None)
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def run_event(self) -> None:
        """Handle one message, or what is due."""
        if self._retry is not None and self._retry[0] <= self._clock.monotonic_ms():
            (_, again), self._retry = self._retry, None
            self._start_up(again)
        elif self.inbox:
            self._handle(self.inbox.popleft())
        else:
            self._node.broker.on_timer()
        self._maybe_halt()
        if self._is_shutting_down and self._node.broker.controlled_shutdown.is_over:
            self._is_shutting_down = False
            if self._on_shut_down is not None:
                self._on_shut_down(self._node.id)

    def _handle(self, event: object) -> None:
        match event:
            case StartUp():
                self._start_up(event)
            case BeginCandidacy():
                self._begin_candidacy()
            case ReRegister():
                self._node.broker.on_session_expired()
            case ConfigChanges():
                self._node.broker.dynamic_config_manager.process_notifications()
            case ShutDown():
                self._is_shutting_down = True
                self._node.broker.begin_controlled_shutdown()
            case FailLogDir(path):
                self._node.broker.fail_log_dir(path)
            case Message():
                self._node.broker.receive(event)
            case Arrived():
                self._node.broker.on_arrived(event)
            case _:
                raise AssertionError(f"{self.address} cannot handle {event}")

    def _maybe_halt(self) -> None:
        if self._node.broker.is_halted and not self.stopped:
            self._halt()

    def _halt(self) -> None:
        self.stopped = True
        if self._on_halted is not None:
            self._on_halted(self._node.id)

    def _start_up(self, event: StartUp) -> None:
        try:
            self._node.broker.startup()
        except NodeExists as error:
            now_ms = self._clock.monotonic_ms()
            if now_ms < event.deadline_ms:
                self._retry = (now_ms + REGISTRATION_RETRY_MS, event)
            else:
                self._tell_started(error)
        except KlammError as error:
            self._tell_started(error)
        else:
            if not event.holds_controller:
                self._begin_candidacy()
            self._tell_started(None)

    def _begin_candidacy(self) -> None:
        if self._node.controller is not None:
            self._node.controller.startup(self._node.broker.cluster_id)

    def _tell_started(self, error: Exception | None) -> None:
        if self._on_started is not None:
            self._on_started(self._node.id, error)
        elif isinstance(error, SessionExpired):
            self._halt()
        elif error is not None:
            raise error


class ControllerActor(Actor):
    """A controller whose events are run by a scheduler, in the simulated world."""

    def __init__(self, controller: KafkaController, clock: Clock) -> None:
        super().__init__(Address("controller", controller.config.broker_id), self._handle)
        self._controller = controller
        self._clock = clock
        controller.events.on_put = self.woken

    def receive(self, message: Message) -> None:
        """Take a message; it is handled later."""
        self._controller.receive(message)

    def has_events(self) -> bool:
        """True if an event or a timer is due."""
        return self._controller.events.has_work()

    def next_due_ms(self) -> float | None:
        """When the controller's next timer is due."""
        return self._controller.next_due_ms()

    def run_event(self) -> None:
        """Process one event."""
        self._controller.step()

    def _handle(self, event: object) -> None:
        raise AssertionError(f"{self.address} takes its events from its own queue, not {event}")
