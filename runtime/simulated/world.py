"""A whole cluster in one thread on virtual time: the same seed gives the same journal.

Every broker and every controller is an actor; a store call yields to the others, so any
interleaving of their ZooKeeper operations can happen. run_loop.py chooses the next step.
Nothing here sleeps, reads the machine's clock or iterates over a set.
"""

from __future__ import annotations

import copy
import hashlib
import math
import random
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.errors import UsageError
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.controller.candidacy import Candidacy
from klamm.controller.request_sender import RequestTap
from klamm.controller.state_change_log import StateChangeLog
from klamm.runtime.actors import Actor, Scheduler
from klamm.runtime.bandwidth import Bandwidth
from klamm.runtime.client_actor import Client, ClientActor
from klamm.runtime.clock import VirtualClock
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.runtime.disks import ClusterDisks, simulated_disk
from klamm.runtime.journal import MemoryJournal
from klamm.runtime.journal_guard import JournalGuard
from klamm.runtime.log_stores import LogStores
from klamm.runtime.node import Node, build_node
from klamm.runtime.node_actors import (
    BeginCandidacy,
    BrokerActor,
    ControllerActor,
    FailLogDir,
    ShutDown,
    StartUp,
    check_log_dir,
)
from klamm.runtime.simulated.run_loop import Agenda, Chooser, RunLoop
from klamm.runtime.transport import SimulatedTransport
from klamm.zk.memory_store import Crashed, MemoryServer, MemoryStore

OpenLog = Callable[[int, Clock], StateChangeLog]


@dataclass
class SimulatedNode:
    """One node of the world: its session, broker and controller."""

    store: MemoryStore
    node: Node


class SimulatedWorld:
    """A cluster, its ZooKeeper and its network, run step by step.

    A step resumes one actor, or delivers messages, or advances the time to the next due event.
    ``choose(n)`` chooses one of n runnable actors; by default it draws from the seed. If a hook of
    the server raises Crashed in an actor, ``on_crash`` is called with its node's id; by default it
    kills the node. ``log_stores``: the brokers' disks, which outlive them; with
    ``has_memory_disk`` their files are in memory. ``open_log`` returns a controller's Kafka logs.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        choose: Chooser | None = None,
        has_memory_disk: bool = False,
        open_log: OpenLog | None = None,
    ) -> None:
        self.spec = spec
        self.clock = VirtualClock()
        self._rng = random.Random(spec.seed)
        self.journal = MemoryJournal()
        self.server = MemoryServer(self.clock)
        self.transport = SimulatedTransport(self.clock, random.Random(spec.seed + 1))
        self.scheduler = Scheduler(self._failed)
        self._agenda = Agenda(self.scheduler, self.clock)
        give, transport = self.scheduler.give, self.transport
        self.copying = Copying(self.clock, transport.send, give, transport.reaches)
        self.connections = CertainConnections(
            self.transport.is_lossless,
            self.transport.disconnect_at_once,
            self.transport.max_delay_ms,
        )
        self.transport.on_change = self._on_network_change
        self._connect(Bandwidth(self.copying))
        self.nodes: dict[int, SimulatedNode] = {}
        self.request_taps: list[RequestTap] = []
        self._candidacy = Candidacy(self.clock)
        changed = self._on_candidacy_changed
        self._guard = JournalGuard(self.journal, None, self.clock, give, self._candidacy, changed)
        self._connect(self._guard)
        log_journal = LogJournal(self._guard, self.clock, spec.run_id)
        disk = simulated_disk(self.clock, spec.seed, is_in_memory=has_memory_disk)
        self.log_stores = stores = LogStores(spec.segments, log_journal, disk)
        self.disks = ClusterDisks(spec, stores, self.copying, self.journal, self._send_event)
        self.errors: list[str] = []
        self.on_crash = self.kill
        self._open_log = open_log
        self._shut_down: list[int] = []
        self._halted: list[int] = []
        self._incarnations = 0
        rng, resume = self._rng, self._resume
        self._loop = RunLoop(
            self._agenda, self.transport, self.server, self.clock, resume, rng, choose
        )

    # -- steps

    @property
    def choices(self) -> list[int]:
        """The choices among runnable actors so far."""
        return self._loop.choices

    def choose_by(self, choose: Chooser | None) -> None:
        """From now on choose actors by ``choose``; None: by draws from the seed."""
        self._loop.choose = choose

    def step(self) -> bool:
        """Run one step; return False if no further step is possible without external input."""
        return self._loop.step()

    def next_due_ms(self) -> float | None:
        """Return when the next timer, message or session expiry is due, in monotonic ms."""
        return self._loop.next_due_ms()

    def run_until(self, condition: Callable[[], bool], *, timeout_ms: float = 60_000) -> bool:
        """Run until ``condition`` holds; return False if it does not within ``timeout_ms``."""
        return self._loop.run_until(condition, timeout_ms)

    def run_for(self, duration_ms: float) -> None:
        """Run until this much time has passed and everything due by then is done."""
        self._loop.run_for(duration_ms)

    def _resume(self, actor: Actor) -> None:
        try:
            self.scheduler.resume(actor)
        except Crashed:
            self.on_crash(actor.address.id)
        self._agenda.look_at(actor)
        while self._shut_down:
            self.stop(self._shut_down.pop())
        while self._halted:
            self.kill(self._halted.pop())

    def _on_candidacy_changed(self) -> None:
        for running in self.nodes.values():
            if running.node.controller is not None:
                running.node.controller.on_candidacy_changed()

    def _on_shut_down(self, broker_id: int) -> None:
        self._shut_down.append(broker_id)

    def _on_halted(self, broker_id: int, _: str) -> None:
        self._halted.append(broker_id)

    def _on_network_change(self) -> None:
        self.connections.review()
        self.copying.on_links_cut()

    def _failed(self, actor: Actor, error: BaseException) -> None:
        self.errors.append(f"{actor.address}: {type(error).__name__}: {error}")

    # -- nodes and their faults

    def start(self, broker_id: int, *, holds_controller: bool = False) -> None:
        """Start a broker, and its controller if it is a candidate.

        Registration waits while a former session of the broker is alive. With ``holds_controller``
        its controller is held until ``begin_candidacy``.
        """
        if broker_id in self.nodes:
            raise UsageError(f"broker {broker_id} is already running")
        store = self.open_store()
        self._incarnations += 1
        node = build_node(
            self.spec,
            broker_id,
            broker_store=store,
            controller_store=store,
            transport=self.transport,
            clock=self.clock,
            journal=self._guard,
            state_change_log=self._open_log and self._open_log(broker_id, self.clock),
            incarnation=self._incarnations,
            log_store=self.log_stores[broker_id],
            connections=self.connections,
            log_journal=self.log_stores.journal,
            copying=self.copying,
            candidacy=self._candidacy,
            request_taps=self.request_taps,
        )
        self.nodes[broker_id] = SimulatedNode(store, node)
        broker = BrokerActor(
            node, self.clock, on_shut_down=self._on_shut_down, on_halted=self._on_halted
        )
        self._connect(broker)
        store.add_listener(broker.on_store_event)
        if node.controller is not None:
            self._connect(ControllerActor(node.controller, self.clock))
        broker.give(StartUp(math.inf, holds_controller))

    def begin_start_all(self) -> None:
        """Start every broker; their controllers are held until ``begin_candidacy``."""
        for broker_id in self.spec.broker_ids:
            self.start(broker_id, holds_controller=True)

    def begin_candidacy(self, broker_id: int) -> None:
        """Make a held controller a candidate."""
        self._node(broker_id)
        self.scheduler.actors[Address("broker", broker_id)].give(BeginCandidacy())

    def open_store(self) -> MemoryStore:
        """Open a session of the world's ZooKeeper; outside actors its calls complete at once."""
        return MemoryStore(
            self.server, self.spec.session_timeout_ms, yield_control=self.scheduler.yield_control
        )

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Crash a node in the middle of any operation; its session expires after its timeout.

        Its data is still there after a restart. With ``loses_unflushed`` the machine crashes, too:
        each log loses its unflushed data from a randomly chosen offset onward.
        """
        node = self._node(broker_id)
        self._disconnect(broker_id)
        node.store.abandon()
        self._break_off(node)
        node.node.broker.log_maintenance.abandon(self._rng.randint if loses_unflushed else None)
        del self.nodes[broker_id]

    def stop(self, broker_id: int) -> None:
        """Stop a node and close its session; its ephemerals are deleted at once."""
        node = self._node(broker_id)
        self._disconnect(broker_id)
        node.store.close()
        self._break_off(node)
        node.node.broker.log_maintenance.shutdown()
        del self.nodes[broker_id]

    def shut_down(self, broker_id: int) -> None:
        """Begin a controlled shutdown: the node stops once drained, or after the last retry."""
        self._node(broker_id)
        self.scheduler.actors[Address("broker", broker_id)].give(ShutDown())

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory of a broker; a broker is killed if its last one fails."""
        check_log_dir(self._node(broker_id).node.broker, path)
        self._send_event(broker_id, FailLogDir(path))

    def _send_event(self, broker_id: int, event: FailLogDir) -> None:
        self.scheduler.give(Address("broker", broker_id), event)

    def kill_all(self) -> None:
        """Kill the process of the whole cluster: every node and all in-memory logs.

        Also ends network faults. ZooKeeper and the disks stay."""
        for broker_id in tuple(self.nodes):
            self.kill(broker_id)
        self.log_stores.end_process()
        self.transport.heal()

    def pause(self, broker_id: int) -> None:
        """Freeze a node, as in a long garbage collection: no heartbeats are sent either."""
        self.server.disconnect(self._node(broker_id).store.session_id, notify=False)
        self.connections.pause(Address("broker", broker_id))
        self._node(broker_id).node.broker.rates.on_pause()
        self._set_paused(broker_id, True)

    def resume(self, broker_id: int) -> None:
        """Resume a paused node, which then learns whether its session expired."""
        self.connections.resume(Address("broker", broker_id))
        self._set_paused(broker_id, False)
        self.server.reconnect(self._node(broker_id).store.session_id)

    def expire_session(self, broker_id: int) -> None:
        """Expire a node's session now; a paused node is notified when it resumes."""
        address = Address("broker", broker_id)
        is_paused = self.scheduler.actors[address].paused
        session_id = self._node(broker_id).store.session_id
        self.server.expire_session(session_id, notify=not is_paused)

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer, which is notified of broken connections."""
        actor = ClientActor(client, self.transport, self.clock)
        self._connect(actor, notify_disconnects=True)

    def _node(self, broker_id: int) -> SimulatedNode:
        node = self.nodes.get(broker_id)
        if node is None:
            raise UsageError(f"broker {broker_id} is not running")
        return node

    def _connect(self, actor: Actor, *, notify_disconnects: bool = False) -> None:
        self.scheduler.add(actor)
        actor.on_given = self._agenda.look_at
        self._agenda.look_at(actor)
        self.transport.register(actor.address, actor.receive, notify_disconnects=notify_disconnects)

    def _disconnect(self, broker_id: int) -> None:
        for role in ("broker", "controller"):
            address = Address(role, broker_id)
            self.transport.unregister(address)
            self.scheduler.remove(address)
        self.connections.remove(Address("broker", broker_id))

    def _set_paused(self, broker_id: int, paused: bool) -> None:
        self.copying.set_paused(broker_id, paused)
        for role in ("broker", "controller"):
            actor = self.scheduler.actors.get(Address(role, broker_id))
            if actor is not None:
                actor.paused = paused
                self._agenda.look_at(actor)

    # -- snapshots

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the world. Only between events: greenlets cannot be copied."""
        inside = self.scheduler.inside_an_event
        assert not inside, f"snapshot while {inside} are inside an event"
        return Snapshot(copy.deepcopy(self))

    def fingerprint(self) -> str:
        """Return a hash that is equal for equal worlds. Only between events."""
        assert not self.scheduler.inside_an_event
        digest = hashlib.sha256()
        digest.update(repr(self.clock.monotonic_ms()).encode())
        digest.update(self.server.fingerprint().encode())
        digest.update(repr(self.transport.in_flight).encode())
        digest.update(repr(self.copying.in_progress()).encode())
        digest.update(repr(self._logs()).encode())
        digest.update(self.journal.to_bytes())
        return digest.hexdigest()

    @staticmethod
    def _break_off(running: SimulatedNode) -> None:
        running.node.broker.replica_manager.break_connections()
        running.node.broker.rates.materialize_all()

    def replicas_of(
        self, broker_id: int, of: Container[TopicPartition] | None = None
    ) -> Iterator[tuple[TopicPartition, ReplicaLog, int]]:
        """Yield a broker's current logs with their high watermarks.

        If the broker is not running: the in-memory logs that it left. ``of``: only these
        partitions."""
        running = self.nodes.get(broker_id)
        if running is not None:
            rates = running.node.broker.rates
            for tp, partition in running.node.broker.replica_manager.partitions.items():
                if partition.log is not None and (of is None or tp in of):
                    rates.materialize(tp)
                    yield tp, partition.log, partition.high_watermark
            return
        store = self.log_stores[broker_id]
        if isinstance(store, MemoryLogStore):
            for path, logs in store.dirs.items():
                high_watermarks = store.high_watermarks.get(path, {})
                for tp, log in logs.current.items():
                    if of is not None and tp not in of:
                        continue
                    yield tp, log, min(high_watermarks.get(tp, 0), log.log_end_offset)

    def _logs(self) -> list[tuple[int, TopicPartition, ReplicaLog, int]]:
        """Return every log that ever had a record, with its broker and high watermark."""
        return [
            (broker_id, *replica)
            for broker_id in sorted(self.log_stores)
            for replica in self.replicas_of(broker_id)
            if replica[1].log_end_offset
        ]


class Snapshot:
    """A snapshot of a world; ``restore`` may be called any number of times.

    To reach a state inside an event, restore and repeat the recorded ``choices``.
    """

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world

    def restore(self, *, choose: Chooser | None = None) -> SimulatedWorld:
        """Return a world that continues from here, by ``choose`` or by the draws of the seed."""
        world = copy.deepcopy(self._world)
        world.choose_by(choose)
        return world
