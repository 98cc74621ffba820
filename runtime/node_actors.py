"""A node's broker and controller as actors: their events, startup and shutdown.

Threads and schedulers that run the actors are elsewhere. brokers/broker.py handles messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from klamm.brokers.bandwidth.copying import Arrived
from klamm.brokers.broker import Broker
from klamm.cluster.errors import KlammError, NotFound, SessionExpired
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address, Message
from klamm.controller.kafka_controller import KafkaController
from klamm.runtime.actors import Actor
from klamm.runtime.node import Node
from klamm.zk.store import SessionEvent, SessionState, StoreEvent, WatchEvent, WatchKind
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes import BrokerIdZNode, ConfigEntityChangeNotificationZNode

REGISTRATION_RETRY_MS = 200.0
CONFIG_CHANGES_PATH = ConfigEntityChangeNotificationZNode.path


@dataclass(frozen=True)
class StartUp:
    """Event of a broker: register, and make its controller a candidate."""

    deadline_ms: float
    """When another session must have released the broker id, in monotonic milliseconds."""
    holds_controller: bool = False
    """True: the controller becomes a candidate only after a BeginCandidacy."""


@dataclass(frozen=True)
class BeginCandidacy:
    """Event of a registered broker: make its controller a candidate."""


@dataclass(frozen=True)
class ReRegister:
    """Event of a broker that is not a candidate: its session expired."""


@dataclass(frozen=True)
class ConfigChanges:
    """Event of a broker: the children of /config/changes may have changed."""


@dataclass(frozen=True)
class RegistrationChanged:
    """Event of a broker: its registration znode was created, changed or deleted."""

    is_deleted: bool


@dataclass(frozen=True)
class ShutDown:
    """Event of a broker: drain its leaderships, after which it can be stopped."""


@dataclass(frozen=True)
class FailLogDir:
    """Event of a broker: one of its log directories fails.

    ``reason``: the disk's error; None if the failure was only requested."""

    path: str
    reason: str | None = None


def check_log_dir(broker: Broker, path: str) -> None:
    """Raise NotFound if the broker has no such log directory."""
    if path not in broker.config.log_dirs:
        raise NotFound(
            f"broker {broker.info.id} has no log directory {path}",
            hint=f"it has {', '.join(broker.config.log_dirs)}",
        )


class BrokerActor(Actor):
    """A broker's events: messages, startup, timers, shutdown.

    ``on_started`` is called once the broker is registered, or with the error that prevented it.
    ``on_shut_down`` is called after a ShutDown once the broker may be stopped. ``on_halted`` is
    called with the reason if the last log directory failed, or an event raised an error, or,
    without ``on_started``, the session expired before the registration. A halted broker does
    nothing more; in Kafka the last case fails the broker's start.
    """

    def __init__(
        self,
        node: Node,
        clock: Clock,
        on_started: Callable[[int, Exception | None], None] | None = None,
        on_shut_down: Callable[[int], None] | None = None,
        on_halted: Callable[[int, str], None] | None = None,
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
        """Handle changes of configs, of the registration, and of the session.

        A broker without a controller registers again after its session expired."""
        if isinstance(event, WatchEvent):
            if event.path == CONFIG_CHANGES_PATH:
                self.give(ConfigChanges())
            elif event.path == self._registration_path:
                self.give(RegistrationChanged(event.kind is WatchKind.DELETED))
        elif event.state is SessionState.EXPIRED:
            self._is_expired = True
            if self._node.controller is None:
                self.give(ReRegister())
        elif event.state is SessionState.CONNECTED and self._is_expired:
            self._is_expired = False
            self.give(ConfigChanges())
            # A new session has no watches yet.
            self.give(RegistrationChanged(is_deleted=False))

    def next_due_ms(self) -> float | None:
        """Return when the broker's next timer is due."""
        due = (self._node.broker.next_due_ms(), self._retry[0] if self._retry else None)
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def run_event(self) -> None:
        """Handle one message, or the timers that are due."""
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
            case RegistrationChanged(is_deleted):
                self._on_registration_changed(is_deleted)
            case ShutDown():
                self._is_shutting_down = True
                self._node.broker.begin_controlled_shutdown()
            case FailLogDir(path, reason):
                self._node.broker.fail_log_dir(path, reason)
            case Message():
                self._node.broker.receive(event)
            case Arrived():
                self._node.broker.on_arrived(event)
            case _:
                raise AssertionError(f"{self.address} cannot handle {event}")

    def on_failed(self, error: BaseException) -> None:
        """Halt after a bug, because the broker's state is unknown.

        Errors of ZooKeeper or a disk are not bugs."""
        if not isinstance(error, KlammError) and not self.stopped:
            self._halt(f"{type(error).__name__}: {error}")

    def _maybe_halt(self) -> None:
        reason = self._node.broker.halt_reason
        if reason is not None and not self.stopped:
            self._halt(reason)

    def _halt(self, reason: str) -> None:
        self.stopped = True
        if self._on_halted is not None:
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
        if self._node.controller is not None:
            self._node.controller.startup(self._node.broker.cluster_id)

    def _report_started(self, error: Exception | None) -> None:
        if self._on_started is not None:
            self._on_started(self._node.id, error)
        elif isinstance(error, SessionExpired):
            self._halt("its session expired before it was registered")
        elif error is not None:
            raise error


class ControllerActor(Actor):
    """A controller as an actor in the simulated world."""

    def __init__(self, controller: KafkaController, clock: Clock) -> None:
        super().__init__(Address("controller", controller.config.broker_id))
        self._controller = controller
        self._clock = clock
        controller.events.on_put = self.woken

    def receive(self, message: Message) -> None:
        """Queue a message."""
        self._controller.receive(message)

    def has_events(self) -> bool:
        """Return True if an event other than a timer is queued."""
        return self._controller.events.event_queue_size > 0

    def next_due_ms(self) -> float | None:
        """Return when the controller's next timer is due."""
        return self._controller.next_due_ms()

    def run_event(self) -> None:
        """Process one event."""
        self._controller.step()
