"""A cluster of simulated brokers on a real ZooKeeper, in this process.

One thread for each controller candidate, one for all brokers, one connection for each session.
Creates, kills, stops, pauses and restarts nodes; decides nothing about partitions. The counterpart
in the simulated world is runtime/simulated/world.py.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.status import broker_status
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.protocols import Journal
from klamm.cluster.requests import Address
from klamm.controller.candidacy import Candidacy
from klamm.controller.request_sender import RequestTap
from klamm.runtime.bandwidth import Bandwidth
from klamm.runtime.clock import WallClock
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.runtime.disks import ClusterDisks, local_disk
from klamm.runtime.journal_guard import JournalGuard
from klamm.runtime.kafka_logs import KafkaLogs
from klamm.runtime.log_stores import LogStores
from klamm.runtime.node import build_node
from klamm.runtime.node_actors import (
    BeginCandidacy,
    BrokerActor,
    FailLogDir,
    ShutDown,
    StartUp,
    check_log_dir,
)
from klamm.runtime.real.broker_hub import BrokerHub
from klamm.runtime.real.hub_clients import HubClients
from klamm.runtime.real.running_node import EventThread, MortalJournal, MortalTransport, RunningNode
from klamm.runtime.real.running_nodes import RunningNodes
from klamm.runtime.real.sessions import OwnSession, SessionPool
from klamm.runtime.transport import RoutedTransport
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import ANY_VERSION, Delete, SessionState

logger = logging.getLogger(__name__)

_START_MARGIN_MS = 5_000.0


class RealCluster:
    """Brokers and controllers of one ``klamm up``; thread-safe.

    ``logs``: the Kafka logs of the controllers, if they have any. ``disk`` has the files of the
    brokers, and of the journal. ``on_failure`` is called, on any thread, when the cluster cannot
    continue."""

    def __init__(
        self,
        spec: ClusterSpec,
        connect_string: str,
        journal: Journal,
        logs: KafkaLogs | None = None,
        on_failure: Callable[[KlammError], None] = lambda _: None,
        disk: FaultyDisk | None = None,
    ) -> None:
        self.spec = spec
        self.connect_string = connect_string
        self.clock = WallClock()
        self.transport = RoutedTransport()
        self.nodes = RunningNodes()
        self.request_taps: list[RequestTap] = []
        self._logs = logs
        self._hub = BrokerHub(self.clock)
        self.candidacy = Candidacy(self.clock, on_failure)
        notify, post = self.nodes.on_candidacy_changed, self._hub.post
        self.journal = JournalGuard(journal, logs, self.clock, post, self.candidacy, notify)
        self.clients = HubClients(self._hub, self.transport, self.clock)
        self._copying = Copying(
            self.clock, self.transport.send, self._hub.give, self.transport.reaches
        )
        self.transport.on_change = lambda: self._call(self._copying.on_links_cut)
        self._random = random.Random(spec.seed)
        self._pool = SessionPool(connect_string, spec, lambda: self.newest_zxid)
        self._incarnations, self._is_closed = 0, False
        self.log_journal = LogJournal(self.journal, self.clock, spec.run_id)
        stores = LogStores(spec.segments, self.log_journal, disk or local_disk())
        self.disks = ClusterDisks(
            spec, stores, self._copying, journal, self._send_event, self._call
        )
        self.own_session = OwnSession(connect_string, spec)
        self._hub.start()
        self._hub.add(Bandwidth(self._copying))
        self._hub.add(self.journal)

    @property
    def store(self) -> KazooStore:
        """The cluster's session for commands and checks; a new one if it expired.

        Its calls raise ZooKeeperUnavailable if ZooKeeper does not answer within STORE_TIMEOUT_S.
        """
        return self.own_session.store()

    @property
    def session_state(self) -> SessionState:
        """The state of the session that is used by ``store``."""
        return self.own_session.state

    @property
    def newest_zxid(self) -> int:
        """The newest zxid seen by any session of the cluster."""
        return max(self.own_session.last_zxid, self.nodes.newest_zxid)

    # -- starting and stopping

    def start(self, broker_id: int, *, wait_for_session: bool = True) -> None:
        """Start a broker; return when it is registered.

        While its former session is alive, waits for its expiry, or, with ``wait_for_session``
        False, fails with Kafka's error. Raises UsageError if the broker is running.
        """
        self.begin_start(broker_id, wait_for_session=wait_for_session).result()

    def begin_start(
        self, broker_id: int, *, wait_for_session: bool = True, holds_controller: bool = False
    ) -> Future[None]:
        """Start a broker without waiting: the future completes when it is registered.

        With ``holds_controller`` its controller is held until ``begin_candidacy``. A broker that
        cannot register is released before its future fails.
        """
        self.nodes.await_end(broker_id)
        if broker_id in self.nodes:
            raise UsageError(f"broker {broker_id} is already running")
        running = self._build(broker_id)
        started = self.nodes.add(broker_id, running)
        actor = BrokerActor(
            running.node, self.clock, self._on_started, self.nodes.on_drained, self._on_halted
        )
        self.transport.register(actor.address, lambda m: self._hub.post(actor.address, m))
        controller = running.node.controller
        if controller is not None:
            self.transport.register(Address("controller", broker_id), controller.receive)
            running.event_thread = EventThread(controller, self.clock)
            running.event_thread.start()
        running.listen(
            lambda event: (
                self._hub.soon(lambda: actor.on_store_event(event)) if actor.wants(event) else None
            )
        )
        self._hub.add(actor)
        timeout_ms = (self.spec.session_timeout_ms + _START_MARGIN_MS) if wait_for_session else 0
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        self._hub.post(actor.address, StartUp(deadline_ms, holds_controller))
        return started

    def begin_start_all(self) -> None:
        """Start every broker without waiting; their controllers are held."""
        for broker_id in self.spec.broker_ids:
            self.begin_start(broker_id, holds_controller=True)

    def begin_candidacy(self, broker_id: int) -> None:
        """Make a held controller a candidate. Raises UsageError if it is not running."""
        self._hub.post(self.nodes.running(broker_id).node.broker.address, BeginCandidacy())

    def _build(self, broker_id: int) -> RunningNode:
        session, is_pooled = self._pool.session_of(broker_id)
        with contextlib.ExitStack() as unless_built:
            if not is_pooled:
                unless_built.callback(session.close)
            transport, journal = MortalTransport(self.transport), MortalJournal(self.journal)
            self._incarnations += 1
            node = build_node(
                self.spec,
                broker_id,
                broker_store=KazooStore(session, self._hub.wait),
                controller_store=KazooStore(session),
                transport=transport,
                clock=self.clock,
                journal=journal,
                state_change_log=self._logs.open(broker_id) if self._logs else None,
                incarnation=self._incarnations,
                log_store=self.disks.stores[broker_id],
                log_journal=self.log_journal,
                copying=self._copying,
                candidacy=self.candidacy,
                request_taps=self.request_taps,
            )
            unless_built.pop_all()
        return RunningNode(
            node=node, session=session, is_pooled=is_pooled, transport=transport, journal=journal
        )

    def _on_started(self, broker_id: int, error: Exception | None) -> None:
        if error is not None:
            # Not on this thread, because _free waits for it.
            name = f"broker-{broker_id}-give-up"
            threading.Thread(target=self._give_up, args=(broker_id, error), name=name).start()
            return
        self.nodes.on_started(broker_id)

    def _give_up(self, broker_id: int, error: Exception) -> None:
        running, started = self.nodes.give_up(broker_id, error)
        try:
            if running is not None:
                self._free(broker_id, running)
        finally:
            if started is not None:
                started.set_exception(error)

    def _free(self, broker_id: int, running: RunningNode) -> None:
        """Release a node without resigning; a pooled session keeps its registration."""
        running.silence()
        self._detach(broker_id, running)
        running.end_controller()
        if not running.is_pooled:
            running.session.close()
        running.kill_controller()
        running.node.broker.log_maintenance.shutdown()

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker; its session is not closed, and ZooKeeper expires it after its timeout.

        With a pooled session its registration is deleted at once. Its data is still there after a
        restart. With ``loses_unflushed`` the machine crashes, too: each log loses its unflushed
        data from a randomly chosen offset onward.
        """
        running = self.nodes.take(broker_id)
        running.silence()
        self._detach(broker_id, running)
        if running.is_pooled:
            self.store.write([[Delete(f"/brokers/ids/{broker_id}", ANY_VERSION)]])
        else:
            running.session.abandon()
        running.kill_controller()
        running.node.broker.log_maintenance.abandon(
            self._random.randint if loses_unflushed else None
        )

    def drain(self, broker_id: int) -> None:
        """Make the controller move leadership away from a broker, as before a shutdown.

        Returns when the controller has responded, or could not be reached. The broker keeps
        running, outside every ISR. Does nothing if it is paused or not registered yet, or
        while ZooKeeper is unreachable. Raises UsageError if it is not running.
        """
        running = self.nodes.running(broker_id)
        is_lost = self.session_state is SessionState.DISCONNECTED
        if is_lost or running.is_paused or self.nodes.is_starting(broker_id):
            return
        over = self.nodes.drain_of(broker_id)
        self._hub.post(Address("broker", broker_id), ShutDown())
        with contextlib.suppress(TimeoutError):
            over.result(running.node.broker.controlled_shutdown.timeout_ms / 1000)

    def shut_down(self, broker_id: int, *, drain: bool = True) -> None:
        """Stop a broker: drain its leaderships, then close its session.

        Raises UsageError if it is not running, or is stopped by another call meanwhile."""
        if drain:
            self.drain(broker_id)
        running = self.nodes.take(broker_id)
        if running.is_paused:
            running.session.resume()
        self._detach(broker_id, running)
        if running.event_thread is not None:
            running.event_thread.stop()
        running.silence()
        if running.is_pooled:
            self.store.write([[Delete(f"/brokers/ids/{broker_id}", ANY_VERSION)]])
        else:
            running.session.close()
        running.node.broker.log_maintenance.shutdown()

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory of a broker, which handles it in its next event.

        A broker is killed if its last directory fails. Raises UsageError if the broker is not
        running, NotFound if it has no such directory.
        """
        check_log_dir(self.nodes.running(broker_id).node.broker, path)
        self._send_event(broker_id, FailLogDir(path))

    def _send_event(self, broker_id: int, event: FailLogDir) -> None:
        self._hub.post(Address("broker", broker_id), event)

    def _call(self, function: Callable[[], None]) -> None:
        self._hub.call(function).result()

    def _on_halted(self, broker_id: int, reason: str) -> None:
        logger.warning("broker %d failed: %s", broker_id, reason)
        # Not on this thread, because kill waits for it.
        name = f"broker-{broker_id}-halt"
        thread = threading.Thread(target=self._end_halted, args=(broker_id,), name=name)
        thread.start()
        self.nodes.on_failed(broker_id, reason, thread)

    def _end_halted(self, broker_id: int) -> None:
        with contextlib.suppress(UsageError):  # already stopped in another way
            self.kill(broker_id)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller: nothing is processed, no heartbeat is sent."""
        running = self.nodes.running(broker_id)
        if running.is_pooled:
            raise UsageError(
                f"broker {broker_id} shares its ZooKeeper session with other brokers and cannot "
                "be paused"
            )
        running.pause()
        self._set_paused(broker_id, True)

    def resume(self, broker_id: int) -> None:
        """Resume a paused broker."""
        running = self.nodes.running(broker_id)
        running.resume()
        self._set_paused(broker_id, False)

    def _set_paused(self, broker_id: int, paused: bool) -> None:
        self._hub.set_paused(Address("broker", broker_id), paused)
        self._call(lambda: self._copying.set_paused(broker_id, paused))

    def add_broker(self, broker_id: int, rack: str | None = None) -> None:
        """Add a broker to the cluster without starting it. Raises UsageError if it exists."""
        if broker_id in self.spec.broker_ids:
            raise UsageError(
                f"broker {broker_id} already exists",
                hint="klamm status shows all brokers; a new one needs another id",
            )
        self.spec = self.spec.with_broker(broker_id, rack)

    def close(self) -> None:
        """Stop every broker at once and release all connections and threads; idempotent.

        No broker or controller reacts, so leaders and ISRs in ZooKeeper stay as they are.
        """
        if self._is_closed:
            return
        self._is_closed = True
        for running in tuple(self.nodes.values()):
            running.end_controller()
        with contextlib.ExitStack() as stack:
            stack.callback(self._hub.close)
            stack.callback(self.own_session.close)
            stack.callback(self._pool.close)
            for broker_id in tuple(self.nodes):
                stack.callback(self._close_node, broker_id)

    def _close_node(self, broker_id: int) -> None:
        with contextlib.suppress(UsageError):  # given up in the meantime
            self._free(broker_id, self.nodes.take(broker_id))

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inspection

    @property
    def is_idle(self) -> bool:
        """True if no event is queued or in progress, and no request to a live broker in flight."""
        return self._hub.is_idle and self.nodes.is_idle

    @property
    def active_controller(self) -> int | None:
        """Id of the broker with the active controller; None without one."""
        return self.nodes.active_controller

    @property
    def isolated_broker_ids(self) -> list[int]:
        """The brokers cut off from the others."""
        return sorted(self.transport.isolated)

    @property
    def errors(self) -> list[str]:
        """Internal errors of brokers, one line each: these are bugs."""
        return [f"{address}: {error!r}" for address, error in tuple(self._hub.errors)]

    def status(self) -> dict[str, Any]:
        """Return brokers and controllers as plain values."""
        nodes = sorted(self.nodes.copy().items())
        with self._hub.held():
            brokers = [{**broker_status(r.node.broker), "paused": r.is_paused} for _, r in nodes]
        return {
            "zookeeper": self.connect_string,
            "active_controller": self.active_controller,
            "brokers": brokers,
            "controllers": [c.status() for _, r in nodes if (c := r.node.controller) is not None],
        }

    @contextlib.contextmanager
    def broker_thread_paused(self) -> Iterator[None]:
        """Process no broker event within the context, to read several brokers at one moment."""
        with self._hub.held():
            yield

    def _detach(self, broker_id: int, running: RunningNode) -> None:
        for role in ("broker", "controller"):
            self.transport.unregister(Address(role, broker_id))
        self._hub.remove(Address("broker", broker_id))
        self._call(running.node.broker.replica_manager.break_connections)
