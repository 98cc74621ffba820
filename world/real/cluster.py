"""A cluster of simulated brokers on a real ZooKeeper, in this process.

There is one thread for each controller candidate, one thread for all brokers, and one connection
for each ZooKeeper session. This module creates, kills, stops, pauses and restarts nodes; decisions
about partitions are left to controllers and brokers. The counterpart in the simulated world is
world/simulated/world.py.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.errors import KlammError, WrongState
from klamm.cluster.protocols import Journal
from klamm.cluster.requests import Address, Message
from klamm.controller.kafka_controller import KafkaController
from klamm.world.bandwidth import Bandwidth
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.disks import local_disk
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.live.live_host import LiveHost
from klamm.world.live.sessions import SessionPool
from klamm.world.node_actors import (
    BrokerActor,
    ShutDown,
    StartUp,
)
from klamm.world.node_host import NodeHost
from klamm.world.real.late_messages import ADDRESS as LATE_MESSAGES
from klamm.world.real.late_messages import LateMessage, LateMessages
from klamm.world.real.running_node import EventThread, MortalJournal, MortalTransport, RunningNode
from klamm.world.real.running_nodes import RunningNodes
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import ANY_VERSION, Delete, SessionEvent, SessionState, StoreEvent
from klamm.zk.znodes import BrokerIdZNode

logger = logging.getLogger(__name__)

_START_MARGIN_MS = 5_000.0


class RealCluster(NodeHost[RunningNode], LiveHost):
    """The brokers and controllers of one ``klamm up`` process; thread-safe.

    ``logs``: the Kafka-like log files of the controllers, or None for no such files. ``disk``:
    stores the files of the brokers and the journal. ``on_failure`` may be called on any thread; it
    is called when the cluster cannot continue."""

    def __init__(
        self,
        spec: ClusterSpec,
        connect_string: str,
        journal: Journal,
        logs: KafkaLogs | None = None,
        on_failure: Callable[[KlammError], None] | None = None,
        disk: FaultyDisk | None = None,
    ) -> None:
        LiveHost.__init__(self, spec, connect_string)
        self.nodes: RunningNodes = RunningNodes()
        self._logs = logs
        clock, transport, hub = self.clock, self.transport, self._hub
        disk = disk or local_disk()
        NodeHost.__init__(
            self, spec, clock, transport, journal, disk, hub.give, hub.post, logs, on_failure
        )
        self.transport.on_change = self._on_network_change
        self._random = random.Random(spec.seed)
        self._pool = SessionPool(connect_string, spec, lambda: self.newest_zxid)
        self._hub.add(Bandwidth(self.copying))
        self._hub.add(self.guard)
        self._hub.add(LateMessages(self.transport.deliver_late, self.clock))
        self.transport.deliver_later = self._deliver_later

    @property
    def store(self) -> KazooStore:
        """The ZooKeeper session for commands and checks. An expired session is replaced.

        Calls raise ZooKeeperUnavailable if ZooKeeper does not respond within STORE_TIMEOUT_S.
        """
        return self.own_session.store()

    @property
    def session_state(self) -> SessionState:
        """The state of the session that ``store`` uses."""
        return self.own_session.state

    @property
    def newest_zxid(self) -> int:
        """The newest zxid that any session of the cluster has seen."""
        return max(self.own_session.last_zxid, self.nodes.newest_zxid)

    # -- starting and stopping

    def start(self, broker_id: int, *, wait_for_session: bool = True) -> None:
        """Start a broker and wait until it is registered.

        If its previous session is still alive, wait until that session has expired, or, if
        ``wait_for_session`` is false, fail with Kafka's error. Raises WrongState if the broker is
        already running.
        """
        self.begin_start(broker_id, wait_for_session=wait_for_session).result()

    def begin_start(
        self, broker_id: int, *, wait_for_session: bool = True, holds_controller: bool = False
    ) -> Future[None]:
        """Start a broker without waiting. The future completes when the broker is registered.

        If ``holds_controller``, its controller does not take part in elections until
        ``begin_candidacy``. If the broker cannot register, its resources are released before the
        future fails.
        """
        self.nodes.await_end(broker_id)
        if broker_id in self.nodes:
            raise WrongState(f"broker {broker_id} is already running", retriable=False)
        running = self._build(broker_id)
        started = self.nodes.add(broker_id, running)
        self._cut_from_zookeeper()
        actor = BrokerActor(
            running.node, self.clock, self.nodes.on_drained, self._on_halted, self._on_started
        )
        self.transport.register(actor.address, lambda m: self._hub.post(actor.address, m))
        controller = running.node.controller
        if controller is not None:
            self.transport.register(Address("controller", broker_id), controller.receive)
            running.event_thread = EventThread(controller, self.clock)
            running.event_thread.start()
        running.listen(lambda event: self._on_store_event(actor, event))
        self._hub.add(actor)
        timeout_ms = (self.spec.session_timeout_ms + _START_MARGIN_MS) if wait_for_session else 0
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        self._hub.post(actor.address, StartUp(deadline_ms, holds_controller))
        return started

    def begin_start_all(self) -> None:
        """Start every broker without waiting until they are registered.

        Their controllers do not take part in elections until ``begin_candidacy``."""
        for broker_id in self.spec.broker_ids:
            self.begin_start(broker_id, holds_controller=True)

    def _build(self, broker_id: int) -> RunningNode:
        session, is_pooled = self._pool.session_of(broker_id)
        with contextlib.ExitStack() as unless_built:
            if not is_pooled:
                unless_built.callback(session.close)
            transport, journal = MortalTransport(self.transport), MortalJournal(self.guard)
            node = self._new_node(
                broker_id,
                broker_store=KazooStore(session, self._hub.wait),
                controller_store=KazooStore(session),
                transport=transport,
                journal=journal,
                state_change_log=self._logs.open(broker_id) if self._logs else None,
            )
            unless_built.pop_all()
        return RunningNode(
            node=node, session=session, is_pooled=is_pooled, transport=transport, journal=journal
        )

    def _on_started(self, broker_id: int, error: Exception | None) -> None:
        if error is not None:
            # Use another thread, because _free waits for the hub's thread.
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
        """Release the resources of a node: its actors, threads and session.

        Its controller does not resign. If the node shares its session with others, its registration
        stays in ZooKeeper."""
        running.silence()
        self._detach(broker_id, running)
        running.end_controller()
        if not running.is_pooled:
            running.session.close()
        running.kill_controller()
        running.node.broker.log_maintenance.shutdown()

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker. Its session is not closed: ZooKeeper expires it after the session timeout.

        If the broker shares its session with others, its registration is deleted at once. The
        broker's logs survive. If ``loses_unflushed``, the machine crashes as well: each log loses
        its unflushed data from a randomly chosen offset onward.
        """
        running = self.nodes.take(broker_id)
        running.silence()
        self._detach(broker_id, running)
        try:
            running.kill_controller()
            running.node.broker.log_maintenance.abandon(
                self._random.randint if loses_unflushed else None
            )
        finally:
            self._end_session(broker_id, running, KazooSession.abandon)

    def drain(self, broker_id: int) -> None:
        """Make the controller move leadership away from a broker, as before a shutdown.

        Returns when the controller has responded, or could not be reached. The broker keeps
        running, but is in no ISR. Does nothing if the broker is paused or not registered yet, or if
        ZooKeeper is unreachable. Raises WrongState if the broker is not running.
        """
        running = self.running(broker_id)
        is_lost = self.session_state is SessionState.DISCONNECTED
        if is_lost or running.is_paused or self.nodes.is_starting(broker_id):
            return
        over = self.nodes.drain_of(broker_id)
        self._send_event(broker_id, ShutDown())
        with contextlib.suppress(TimeoutError):
            over.result(running.node.broker.controlled_shutdown.timeout_ms / 1000)

    def shut_down(self, broker_id: int, *, drain: bool = True) -> None:
        """Stop a broker: move its leadership to other brokers, then close its session.

        Raises WrongState if the broker is not running, or if another call is stopping it."""
        if drain:
            self.drain(broker_id)
        running = self.nodes.take(broker_id)
        if running.is_paused:
            running.session.resume()
        self._detach(broker_id, running)
        if running.event_thread is not None:
            running.event_thread.stop()
        running.silence()
        try:
            running.node.broker.log_maintenance.shutdown()
        finally:
            self._end_session(broker_id, running, KazooSession.close)

    def _end_session(
        self, broker_id: int, running: RunningNode, end: Callable[[KazooSession], None]
    ) -> None:
        if running.is_pooled:
            self.store.write([[Delete(BrokerIdZNode.path(broker_id), ANY_VERSION)]])
        else:
            end(running.session)

    def _on_network_change(self) -> None:
        self._call(self.copying.on_links_cut)
        self._cut_from_zookeeper()

    def _cut_from_zookeeper(self) -> None:
        """Cut the links between brokers and ZooKeeper that have this fault, and no others.

        Brokers that share a session are cut off together."""
        cuts: dict[KazooSession, tuple[bool, bool]] = {}
        for broker_id, running in tuple(self.nodes.items()):
            outbound, inbound = self.transport.with_zookeeper(broker_id)
            is_mute, is_deaf = cuts.get(running.session, (False, False))
            cuts[running.session] = (is_mute or outbound.is_cut, is_deaf or inbound.is_cut)
        for session, (is_mute, is_deaf) in cuts.items():
            session.cut(is_mute=is_mute, is_deaf=is_deaf)

    def _on_store_event(self, actor: BrokerActor, event: StoreEvent) -> None:
        if event == SessionEvent(SessionState.EXPIRED):
            logger.warning("broker %d: its ZooKeeper session expired", actor.address.id)
        if actor.wants(event):
            self._hub.soon(lambda: actor.on_store_event(event))

    def _deliver_later(self, message: Message, delay_ms: float, in_order: bool) -> None:
        due_ms = self.clock.monotonic_ms() + delay_ms
        self._hub.post(LATE_MESSAGES, LateMessage(due_ms, message, in_order))

    def _call(self, function: Callable[[], None]) -> None:
        self._hub.call(function).result()

    def _on_halted(self, broker_id: int, reason: str) -> None:
        logger.warning("broker %d failed: %s", broker_id, reason)
        # Use another thread, because kill waits for the hub's thread.
        name = f"broker-{broker_id}-halt"
        thread = threading.Thread(target=self._end_halted, args=(broker_id,), name=name)
        thread.start()
        self.nodes.on_failed(broker_id, reason, thread)

    def _end_halted(self, broker_id: int) -> None:
        with contextlib.suppress(WrongState):  # already stopped in another way
            self.kill(broker_id)

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller: they process nothing and send no heartbeats."""
        running = self.running(broker_id)
        if running.is_pooled:
            raise WrongState(
                f"broker {broker_id} shares its ZooKeeper session with other brokers and cannot "
                "be paused"
            )
        running.pause()
        self._set_paused(broker_id, True)

    def resume(self, broker_id: int) -> None:
        """Resume a paused broker."""
        running = self.running(broker_id)
        running.resume()
        self._set_paused(broker_id, False)

    @property
    def paused_broker_ids(self) -> frozenset[int]:
        """Ids of the paused brokers."""
        return frozenset(id_ for id_, one in tuple(self.nodes.items()) if one.is_paused)

    def _set_paused(self, broker_id: int, paused: bool) -> None:
        self._hub.set_paused(Address("broker", broker_id), paused)
        self._call(lambda: self.copying.set_paused(broker_id, paused))

    def add_broker(
        self, broker_id: int, rack: str | None = None, *, may_exist: bool = False
    ) -> None:
        """Add a broker to the cluster without starting it.

        Raises WrongState if the cluster already has a broker with this id. With ``may_exist``, only
        if that broker is running; otherwise the broker gets the given rack."""
        if broker_id in (self.nodes if may_exist else self.spec.broker_ids):
            raise WrongState(
                f"broker {broker_id} already exists",
                hint=f"klamm broker stop {broker_id} stops it, so that it can be added again"
                if may_exist
                else "klamm status lists all brokers; choose an id that is not in use",
                retriable=False,
            )
        self.spec = self.spec.with_broker(broker_id, rack)

    def close(self) -> None:
        """Stop every broker at once and release all connections and threads.

        No controller elects new leaders, so leaders and ISRs in ZooKeeper stay unchanged.
        """
        for running in tuple(self.nodes.values()):
            running.end_controller()
        with contextlib.ExitStack() as stack:
            stack.callback(self._close_host)
            stack.callback(self._pool.close)
            for broker_id in tuple(self.nodes):
                stack.callback(self._close_node, broker_id)

    def _close_node(self, broker_id: int) -> None:
        with contextlib.suppress(WrongState):  # given up in the meantime
            self._free(broker_id, self.nodes.take(broker_id))

    def __enter__(self) -> RealCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inspection

    @property
    def is_idle(self) -> bool:
        """True if no event is queued or in progress, and no request to a live broker is pending."""
        return self._hub.is_idle and self.nodes.is_idle

    @property
    def errors(self) -> list[str]:
        """Internal errors of brokers, one line each. Each of them is a bug."""
        return [f"{address}: {error!r}" for address, error in tuple(self._hub.errors)]

    def broker_thread_paused(self) -> contextlib.AbstractContextManager[None]:
        return self._hub.held()

    def _active(self, running: RunningNode) -> KafkaController | None:
        return None if running.is_paused else super()._active(running)

    def _detach(self, broker_id: int, running: RunningNode) -> None:
        for role in ("broker", "controller"):
            self.transport.unregister(Address(role, broker_id))
        self._hub.remove(Address("broker", broker_id))
        self._call(running.node.broker.replica_manager.break_connections)
