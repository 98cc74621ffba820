"""A node's broker and controller as actors: their events, startup and shutdown.

The threads and schedulers that run these actors are in world/real/ and world/simulated/.
brokers/broker.py handles the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from klamm.brokers.bandwidth.copying import Arrived
from klamm.brokers.logs.errors import LogStorageError
from klamm.cluster.errors import KlammError, SessionExpired
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address, Message, UpdateMetadataRequest
from klamm.cluster.timers import earliest
from klamm.controller.kafka_controller import KafkaController
from klamm.world.actors import Actor
from klamm.world.node import Node
from klamm.zk.store import SessionEvent, SessionState, StoreEvent, WatchEvent, WatchKind
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes import BrokerIdZNode, ConfigEntityChangeNotificationZNode

REGISTRATION_RETRY_MS = 200.0
CONFIG_CHANGES_PATH = ConfigEntityChangeNotificationZNode.path


@dataclass(frozen=True)
class StartUp:
    """Event for a broker: register, then make the controller on this broker a candidate."""

    deadline_ms: float
    """Deadline for the broker's previous session to expire, in ms of the monotonic clock."""
    holds_controller: bool = False
    """If true, the controller becomes a candidate only after a BeginCandidacy event."""


@dataclass(frozen=True)
class BeginCandidacy:
    """Event for a registered broker: make the controller on this broker a candidate."""


@dataclass(frozen=True)
class ReRegister:
    """Event for a broker without a candidate: the session expired, so register again."""


@dataclass(frozen=True)
class ConfigChanges:
    """Event for a broker: the children of /config/changes may have changed."""


@dataclass(frozen=True)
class RegistrationChanged:
    """Event for a broker: its registration znode was created, changed or deleted."""

    is_deleted: bool


@dataclass(frozen=True)
class ShutDown:
    """Event for a broker: start a controlled shutdown. The broker is stopped afterwards."""


@dataclass(frozen=True)
class LogDirFailed:
    """Event for a broker: one of its log directories failed.

    ``reason``: the disk error, or None if a user requested the failure."""

    path: str
    reason: str | None = None


class BrokerActor(Actor):
    """Actor that runs a broker: messages, startup, timers and shutdown.

    - ``on_shut_down`` is called after a ShutDown event, when the broker may be stopped.
    - ``on_halted`` is called with the reason when the broker halts. A halted broker processes no
      more events.
    - ``on_started`` is called when the broker is registered, or with the error that prevented the
      registration.

    A broker halts if its last log directory fails or an event raises an error. If ``on_started`` is
    None, the broker also halts if its session expires during an attempt to register, or if no log
    directory is usable; in Kafka, both make the startup of a broker fail. Between attempts the
    broker begins a new session, as kafka.zookeeper.ZooKeeperClient does.
    """

    def __init__(
        self,
        node: Node,
        clock: Clock,
        on_shut_down: Callable[[int], None],
        on_halted: Callable[[int, str], None],
        on_started: Callable[[int, Exception | None], None] | None = None,
    ) -> None:
        super().__init__(Address("broker", node.id))
        self._node = node
        self._clock = clock
        self._on_started = on_started
        self._on_shut_down = on_shut_down
        self._on_halted = on_halted
        self._registration_path = BrokerIdZNode.path(node.id)
        self._is_shutting_down = False
        self._is_expired = False
        self._retry: tuple[float, StartUp] | None = None

    def wants(self, event: StoreEvent) -> bool:
        """Return True for events that ``on_store_event`` handles; thread-safe."""
        paths = (CONFIG_CHANGES_PATH, self._registration_path)
        return isinstance(event, SessionEvent) or event.path in paths

    def on_store_event(self, event: StoreEvent) -> None:
        """Handle a config change, a change of the registration znode, or a session expiry.

        After an expiry, the node's controller begins a new session and registers the broker again.
        If the controller is not a candidate yet, or if there is none, the broker itself does."""
        if isinstance(event, WatchEvent):
            if event.path == CONFIG_CHANGES_PATH:
                self.give(ConfigChanges())
            elif event.path == self._registration_path:
                self.give(RegistrationChanged(event.kind is WatchKind.DELETED))
        elif event.state is SessionState.EXPIRED:
            self._is_expired = True
            if not self._node.has_candidate:
                self.give(ReRegister())
        elif event.state is SessionState.CONNECTED and self._is_expired:
            self._is_expired = False
            self.give(ConfigChanges())
            # Watch the registration again: a new session has no watches.
            self.give(RegistrationChanged(is_deleted=False))

    def next_due_ms(self) -> float | None:
        due_ms = self._node.broker.next_due_ms()
        return due_ms if self._retry is None else earliest((due_ms, self._retry[0]))

    def run_event(self) -> None:
        if self._retry is not None and self._retry[0] <= self._clock.monotonic_ms():
            (_, again), self._retry = self._retry, None
            self._start_up(again)
        elif self.inbox:
            self._handle(self.inbox.popleft())
        else:
            self._node.broker.on_timer()
        self._maybe_halt()
        is_over = self._is_shutting_down and self._node.broker.controlled_shutdown.is_over
        if is_over and not self.stopped:
            self._is_shutting_down = False
            self._on_shut_down(self._node.id)

    def _handle(self, event: object) -> None:
        match event:
            case StartUp():
                self._start_up(event)
            case BeginCandidacy():
                self._begin_candidacy()
            case ReRegister():
                if not self._node.has_candidate:
                    # If the next session has expired already, its ReRegister follows.
                    with suppress(SessionExpired):
                        self._node.broker.on_session_expired()
            case ConfigChanges():
                self._node.broker.dynamic_config_manager.process_notifications()
            case RegistrationChanged(is_deleted):
                self._on_registration_changed(is_deleted)
            case ShutDown():
                # Another one, during the first, would use up an attempt.
                if not self._is_shutting_down:
                    self._is_shutting_down = True
                    self._node.broker.begin_controlled_shutdown()
            case LogDirFailed(path, reason):
                self._node.broker.fail_log_dir(path, reason)
            case Message():
                self._receive(event)
            case Arrived():
                self._node.broker.on_arrived(event)
            case _:
                raise AssertionError(f"{self.address} cannot handle {event}")

    def _receive(self, message: Message) -> None:
        self._node.broker.receive(message)
        controller = self._node.controller
        if controller is not None and isinstance(message.body, UpdateMetadataRequest):
            controller.on_metadata_updated()

    def on_failed(self, error: BaseException) -> None:
        """Halt the broker after an unexpected error, because its state is unknown.

        A KlammError does not halt it: failures of ZooKeeper and disks are expected."""
        if not isinstance(error, KlammError) and not self.stopped:
            self._halt(f"{type(error).__name__}: {error}")

    def _maybe_halt(self) -> None:
        reason = self._node.broker.halt_reason
        if reason is not None and not self.stopped:
            self._halt(reason)

    def _halt(self, reason: str) -> None:
        self.stopped = True
        self._on_halted(self._node.id, reason)

    def _on_registration_changed(self, is_deleted: bool) -> None:
        broker = self._node.broker
        try:
            if is_deleted and not self._is_shutting_down:
                broker.register_again()
            else:
                broker.watch_registration()
        except SessionExpired:
            pass  # the broker registers in the next session anyway
        except NodeExists:
            self.give(RegistrationChanged(is_deleted=False))
        except KlammError as error:
            self._halt(f"its registration was deleted, and it cannot register again: {error}")

    def _start_up(self, event: StartUp) -> None:
        try:
            self._node.broker.startup()
        except NodeExists as error:
            now_ms = self._clock.monotonic_ms()
            if now_ms < event.deadline_ms:
                self._retry = (now_ms + REGISTRATION_RETRY_MS, event)
            else:
                self._report_started(error)
        except Exception as error:
            self._report_started(error)
        else:
            if not event.holds_controller:
                self._begin_candidacy()
            self._report_started(None)

    def _begin_candidacy(self) -> None:
        controller = self._node.controller
        if controller is None:
            return
        controller.startup(self._node.broker.cluster_id)
        if self._is_expired:
            # The session expired before the controller was notified of expiries.
            controller.on_store_event(SessionEvent(SessionState.EXPIRED))

    def _report_started(self, error: Exception | None) -> None:
        if self._on_started is not None:
            self._on_started(self._node.id, error)
        elif isinstance(error, SessionExpired):
            self._halt("its session expired before it was registered")
        elif isinstance(error, LogStorageError):
            self._halt(error.message)
        elif error is not None:
            raise error


class ControllerActor(Actor):
    """Actor that runs a controller in the simulated world."""

    def __init__(self, controller: KafkaController, clock: Clock) -> None:
        super().__init__(Address("controller", controller.config.broker_id))
        self._controller = controller
        self._clock = clock
        controller.events.on_put = self.woken

    def receive(self, message: Message) -> None:
        self._controller.receive(message)

    def has_events(self) -> bool:
        return self._controller.events.event_queue_size > 0

    def next_due_ms(self) -> float | None:
        return self._controller.next_due_ms()

    @property
    def has_resigned(self) -> bool:
        """True if the controller has shut down and its last event has ended."""
        return self._controller.is_shut_down and self.task is None

    def run_event(self) -> None:
        self._controller.step()
