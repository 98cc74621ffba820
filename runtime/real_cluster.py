"""A cluster of simulated brokers over a real ZooKeeper, in this process.

One thread for each controller candidate, one for all brokers, one connection for each session.
Makes, kills, stops, pauses and restarts nodes; decides nothing about partitions. The counterpart
in the simulated world is runtime/simulated_world.py.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import KlammError, UsageError
from cluster.protocols import Journal
from cluster.requests import Address
from controller.state_change_log import StateChangeLog
from runtime.broker_hub import BrokerHub
from runtime.clock import WallClock
from runtime.event_thread import EventThread
from runtime.lifeline import MortalJournal, MortalTransport
from runtime.node import BrokerActor, ClusterSpec, Node, StartUp, build_node
from runtime.session_pool import SessionPool
from runtime.transport import RoutedTransport
from zk.kafka_zk_client import KafkaZkClient
from zk.kazoo_session import KazooSession
from zk.kazoo_store import KazooStore
from zk.store import ANY_VERSION, Delete

logger = logging.getLogger(__name__)

OpenLogs = Callable[[int], StateChangeLog | None]
_START_MARGIN_MS = 5_000.0


@dataclass(kw_only=True)
class RunningNode:
    """A node that was started: its parts, its session, and whether it is paused."""

    node: Node
    session: KazooSession
    is_pooled: bool
    transport: MortalTransport
    journal: MortalJournal
    event_thread: EventThread | None
    is_paused: bool = False


class RealCluster:
    """Brokers and controllers of one ``klamm up``. Its methods may be called from any thread.

    ``open_logs`` gives the Kafka logs of a broker's controller, or None.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        connect_string: str,
        journal: Journal,
        open_logs: OpenLogs | None = None,
    ) -> None:
        self.spec = spec
        self.connect_string = connect_string
        self.clock = WallClock()
        self.transport = RoutedTransport()
        self.nodes: dict[int, RunningNode] = {}
        self._journal = journal
        self._open_logs = open_logs
        self._hub = BrokerHub(self.clock)
        self._pool = SessionPool(connect_string, spec)
        self._starting: dict[int, Future[None]] = {}
        self._incarnations = 0
        self._session = KazooSession(connect_string, spec.session_timeout_ms)
        self._hub.start()

    @property
    def store(self) -> KazooStore:
        """A session of the cluster's own, for commands and checks."""
        return KazooStore(self._session)

    # -- starting and ending

    def start(self, broker_id: int, *, wait_for_session: bool = True) -> None:
        """Start a broker; returns when it is registered.

        While its former session lives, waits until that has expired, or with
        ``wait_for_session`` False fails with Kafka's error. Raises UsageError if it runs.
        """
        self.begin_start(broker_id, wait_for_session=wait_for_session).result()

    def begin_start(self, broker_id: int, *, wait_for_session: bool = True) -> Future[None]:
        """Start a broker without waiting: the future ends when it is registered."""
        if broker_id in self.nodes:
            raise UsageError(f"broker {broker_id} runs already")
        running = self._build(broker_id)
        self.nodes[broker_id] = running
        started: Future[None] = Future()
        self._starting[broker_id] = started
        actor = BrokerActor(running.node, self.clock, self._on_started)
        self.transport.register(actor.address, lambda m: self._hub.post(actor.address, m))
        controller = running.node.controller
        if controller is not None:
            address = Address("controller", broker_id)
            self.transport.register(address, controller.receive)
            running.event_thread = EventThread(controller, self.clock)
            running.event_thread.start()
        else:
            running.session.add_listener(
                lambda event: self._hub.soon(lambda: actor.on_store_event(event))
            )
        self._hub.add(actor)
        patience_ms = (self.spec.session_timeout_ms + _START_MARGIN_MS) if wait_for_session else 0
        self._hub.post(actor.address, StartUp(self.clock.monotonic_ms() + patience_ms))
        return started

    def _build(self, broker_id: int) -> RunningNode:
        session, is_pooled = self._pool.session_of(broker_id)
        transport = MortalTransport(self.transport)
        journal = MortalJournal(self._journal)
        self._incarnations += 1
        node = build_node(
            self.spec,
            broker_id,
            broker_store=KazooStore(session, self._hub.wait),
            controller_store=KazooStore(session),
            transport=transport,
            clock=self.clock,
            journal=journal,
            state_change_log=self._open_logs(broker_id) if self._open_logs else None,
            incarnation=self._incarnations,
        )
        return RunningNode(
            node=node,
            session=session,
            is_pooled=is_pooled,
            transport=transport,
            journal=journal,
            event_thread=None,
        )

    def _on_started(self, broker_id: int, error: Exception | None) -> None:
        started = self._starting.pop(broker_id)
        if error is None:
            started.set_result(None)
        else:
            started.set_exception(error)

    def kill(self, broker_id: int) -> None:
        """Kill a broker: no session is closed, ZooKeeper expires it after its timeout.

        A broker of a session pool loses its ephemeral at once.
        """
        running = self._take(broker_id)
        running.transport.is_dead = running.journal.is_dead = True
        self._detach(broker_id)
        if running.is_pooled:
            self.store.write([[Delete(f"/brokers/ids/{broker_id}", ANY_VERSION)]])
        else:
            running.session.abandon()
        if running.event_thread is not None:
            running.event_thread.kill()

    def stop(self, broker_id: int) -> None:
        """Stop a broker: its session is closed and its ephemerals go at once."""
        running = self._take(broker_id)
        if running.is_paused:
            running.session.resume()
        self._detach(broker_id)
        if running.event_thread is not None:
            running.event_thread.stop()
        running.transport.is_dead = running.journal.is_dead = True
        if running.is_pooled:
            self.store.write([[Delete(f"/brokers/ids/{broker_id}", ANY_VERSION)]])
        else:
            running.session.close()

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller: nothing is processed, no heartbeat is sent."""
        running = self._running(broker_id)
        if running.is_pooled:
            raise UsageError(f"broker {broker_id} shares its session and cannot be paused")
        running.is_paused = True
        running.session.suspend()
        if running.event_thread is not None:
            running.event_thread.pause()
        self._hub.set_paused(Address("broker", broker_id), True)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on where it was."""
        running = self._running(broker_id)
        running.is_paused = False
        running.session.resume()
        if running.event_thread is not None:
            running.event_thread.resume()
        self._hub.set_paused(Address("broker", broker_id), False)

    def move_controller(self) -> None:
        """Delete /controller, so that another election is held."""
        KafkaZkClient(self.store).delete("/controller")

    def close(self) -> None:
        """Stop every broker and free every connection and thread; idempotent."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._hub.close)
            stack.callback(self._session.close)
            stack.callback(self._pool.close)
            for broker_id in list(self.nodes):
                stack.callback(self.stop, broker_id)

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- looking on

    @property
    def is_idle(self) -> bool:
        """True if no event waits, nothing is in flight to a live broker and no broker works."""
        return self._hub.is_idle and all(
            (c := running.node.controller) is None
            or running.is_paused
            or (not c.events.has_work() and c.events.current is None and c.channels.is_idle())
            for running in tuple(self.nodes.values())
        )

    @property
    def active_controller(self) -> int | None:
        """The id of the broker whose controller is active; None while there is none."""
        for broker_id, running in sorted(self.nodes.items()):
            controller = running.node.controller
            if controller is not None and controller.is_active and not running.is_paused:
                return broker_id
        return None

    def status(self) -> dict[str, Any]:
        """Brokers and controllers as plain values."""
        nodes = sorted(self.nodes.items())
        return {
            "zookeeper": self.connect_string,
            "active_controller": self.active_controller,
            "brokers": [
                {**running.node.broker.status(), "paused": running.is_paused}
                for _, running in nodes
            ],
            "controllers": [c.status() for _, r in nodes if (c := r.node.controller) is not None],
        }

    @contextlib.contextmanager
    def broker_thread_paused(self) -> Iterator[None]:
        """No broker handles anything meanwhile: for reading several brokers at one moment."""
        with self._hub.held():
            yield

    def _running(self, broker_id: int) -> RunningNode:
        running = self.nodes.get(broker_id)
        if running is None:
            raise UsageError(f"broker {broker_id} does not run")
        return running

    def _take(self, broker_id: int) -> RunningNode:
        running = self._running(broker_id)
        del self.nodes[broker_id]
        started = self._starting.pop(broker_id, None)
        if started is not None:
            started.set_exception(KlammError(f"broker {broker_id} was ended before it registered"))
        return running

    def _detach(self, broker_id: int) -> None:
        for role in ("broker", "controller"):
            self.transport.unregister(Address(role, broker_id))
        self._hub.remove(Address("broker", broker_id))


def kafka_logs(folder: Path, clock: WallClock, level: str) -> OpenLogs:
    """Opens state-change.log and controller.log of each broker under ``folder``/broker-N.

    ``level``: TRACE or INFO for state-change.log. Files are appended to, line by line.
    """

    def open_logs(broker_id: int) -> StateChangeLog:
        directory = folder / f"broker-{broker_id}"
        directory.mkdir(parents=True, exist_ok=True)
        return StateChangeLog(
            broker_id,
            clock,
            state_change=(directory / "state-change.log").open("a", encoding="utf-8"),
            controller=(directory / "controller.log").open("a", encoding="utf-8"),
            is_trace=level.upper() == "TRACE",
        )

    return open_logs
