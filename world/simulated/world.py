"""A whole cluster in one thread on virtual time: the same seed gives the same journal.

Every broker and every controller is an actor. A store call yields to the other actors, so any
interleaving of ZooKeeper operations can occur. run_loop.py chooses the next step. To keep runs
repeatable, nothing here sleeps, reads the machine's clock or iterates over a set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.log_maintenance import LogMaintenance
from klamm.cluster.errors import WrongState
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address
from klamm.controller.state_change_log import StateChangeLog
from klamm.world.actors import Actor
from klamm.world.bandwidth import Bandwidth
from klamm.world.client_actor import Client, ClientActor
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.disks import simulated_disk
from klamm.world.journal.journal import MemoryJournal
from klamm.world.node import Node
from klamm.world.node_actors import (
    BrokerActor,
    ControllerActor,
    ReRegister,
    ShutDown,
    StartUp,
)
from klamm.world.node_host import NodeHost
from klamm.world.simulated.run_loop import RunLoop
from klamm.world.simulated.zookeeper_links import ZooKeeperLinks
from klamm.zk.memory_store import Crashed, LostReply, MemoryStore
from klamm.zk.store import Delete, ReadOp, Transaction
from klamm.zk.znodes import BrokerIdZNode, ControllerZNode

OpenLog = Callable[[int, Clock], StateChangeLog]


class Observer(Protocol):
    """Observes a simulated world before and after each turn of an actor."""

    def before(self, actor: Actor) -> None:
        """Called before an actor runs."""
        ...

    def after(self, actor: Actor) -> None:
        """Called when an actor has run."""
        ...


@dataclass
class SimulatedNode:
    """A running node of the simulated world: its session, broker and controller."""

    store: MemoryStore
    node: Node


class SimulatedWorld(NodeHost[SimulatedNode], RunLoop):
    """A simulated cluster with its ZooKeeper and its network, run step by step.

    - ``on_crash`` is called with the broker id if a hook of the ZooKeeper server raises Crashed in
      an actor. By default the node is killed.
    - ``has_memory_disk``: log segments are stored in memory instead of on the machine's disk.
    - ``open_log`` returns the Kafka-like logs of a controller.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        has_memory_disk: bool = False,
        open_log: OpenLog | None = None,
    ) -> None:
        RunLoop.__init__(self, spec.seed)
        self.nodes: dict[int, SimulatedNode] = {}
        self.journal = MemoryJournal()
        give, transport = self.scheduler.give, self.transport
        disk = simulated_disk(self.clock, spec.seed, is_in_memory=has_memory_disk)
        NodeHost.__init__(self, spec, self.clock, transport, self.journal, disk, give, give)
        self.connections = CertainConnections(transport.is_lossless, transport.disconnect_at_once)
        self.transport.on_change = self._on_network_change
        self._zookeeper_links = ZooKeeperLinks(
            self.transport, self.server, self.scheduler, self.clock
        )
        self.add_actor(self._zookeeper_links)
        self._connect(Bandwidth(self.copying))
        self._connect(self.guard)
        self.on_crash = self.kill
        self.observer: Observer | None = None
        self._open_log = open_log
        self._shut_down: list[int] = []
        self._halted: list[int] = []
        self._resigning: dict[int, ControllerActor] = {}

    # -- steps

    def _resume(self, actor: Actor) -> None:
        if self.observer is not None:
            self.observer.before(actor)
        try:
            self.scheduler.resume(actor)
        except Crashed:
            self.on_crash(actor.address.id)
        if self.observer is not None:
            self.observer.after(actor)
        self._agenda.recheck(actor)
        while self._shut_down:
            self.stop(self._shut_down.pop())
        while self._halted:
            self.kill(self._halted.pop())
        if self._resigning:
            self._end_resigned()

    def _end_resigned(self) -> None:
        """End the nodes that were stopped and whose controllers have resigned."""
        for broker_id, actor in tuple(self._resigning.items()):
            if actor.has_resigned:
                self._end(broker_id, MemoryStore.close).shutdown()

    def _on_shut_down(self, broker_id: int) -> None:
        self._shut_down.append(broker_id)

    def _on_halted(self, broker_id: int, _: str) -> None:
        self._halted.append(broker_id)

    def _on_network_change(self) -> None:
        self.connections.review()
        self.copying.on_links_cut()
        self._zookeeper_links.review()

    # -- nodes and their faults

    def start(self, broker_id: int, *, holds_controller: bool = False) -> None:
        """Start a broker, and its controller if the broker is a controller candidate.

        The broker registers once its previous session has expired. If ``holds_controller``, its
        controller does not take part in elections until ``begin_candidacy``.
        """
        if broker_id in self.nodes:
            raise WrongState(f"broker {broker_id} is already running")
        store = self.open_store()
        node = self._new_node(
            broker_id,
            broker_store=store,
            controller_store=store,
            transport=self.transport,
            journal=self.guard,
            state_change_log=self._open_log and self._open_log(broker_id, self.clock),
            connections=self.connections,
        )
        self.nodes[broker_id] = SimulatedNode(store, node)
        broker = BrokerActor(node, self.clock, self._on_shut_down, self._on_halted)
        self._connect(broker)
        store.add_listener(broker.on_store_event)
        if node.controller is not None:
            self._connect(ControllerActor(node.controller, self.clock))
        self._zookeeper_links.add(broker_id, store)
        broker.give(StartUp(math.inf, holds_controller))

    def begin_start_all(self) -> None:
        """Start every broker. No controller takes part in elections until ``begin_candidacy``."""
        for broker_id in self.spec.broker_ids:
            self.start(broker_id, holds_controller=True)

    def open_store(self) -> MemoryStore:
        """Open a session with the simulated ZooKeeper.

        Calls by an actor yield to other actors; other calls complete at once."""
        return MemoryStore(
            self.server, self.spec.session_timeout_ms, yield_control=self.scheduler.yield_control
        )

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Crash a node, even in the middle of an operation. Its session expires after its timeout.

        The broker's logs survive. If ``loses_unflushed``, the machine crashes as well: each log
        loses its unflushed data from a randomly chosen offset onward.
        """
        maintenance = self._end(broker_id, MemoryStore.abandon)
        maintenance.abandon(self._rng.randint if loses_unflushed else None)

    def crash_controller(self, broker_id: int) -> None:
        """Remove a controller, even in the middle of an event, and depose it.

        Its broker and the session that they share live on. It is not a candidate until its broker
        has been restarted. If the controller dies while it registers the broker in a new session,
        the broker registers itself, as it does without a candidate.
        """
        running = self.running(broker_id)
        controller = running.node.controller
        assert controller is not None, f"broker {broker_id} has no controller"
        address = Address("controller", broker_id)
        self.transport.unregister(address)
        self.scheduler.remove(address)
        running.store.remove_listener(controller.on_store_event)
        running.node.controller = None
        self.depose(broker_id)
        registration = self.server.tree.nodes.get(BrokerIdZNode.path(broker_id))
        if registration is None or registration.czxid != running.node.broker.broker_epoch:
            self.scheduler.give(Address("broker", broker_id), ReRegister())

    def depose(self, broker_id: int) -> bool:
        """Delete /controller if this broker's session created it. Return True if it did."""
        elected = self.server.tree.nodes.get(ControllerZNode.path)
        if elected is None or elected.owner != self.running(broker_id).store.session_id:
            return False
        store = self.open_store()
        store.write([[Delete(ControllerZNode.path)]])
        store.close()
        return True

    def stop(self, broker_id: int) -> None:
        """Stop a node and close its session, so that its ephemeral znodes are deleted at once.

        Its controller completes the event in progress and resigns. If it has to wait for ZooKeeper
        because of a fault of their link, or is held at a breakpoint, the node runs on and stops
        when it has resigned."""
        controller = self.running(broker_id).node.controller
        if broker_id in self.paused_broker_ids:
            self.resume(broker_id)
        if controller is None:
            self._end(broker_id, MemoryStore.close).shutdown()
            return
        actor = self.scheduler.actors[Address("controller", broker_id)]
        assert isinstance(actor, ControllerActor)
        self._resigning[broker_id] = actor
        controller.shutdown()
        while not (actor.stopped or actor.waiting):
            self._resume(actor)
            if actor.is_held:
                break

    def shut_down(self, broker_id: int) -> None:
        """Start a controlled shutdown.

        The node stops when the shutdown has succeeded, or when the last retry has failed."""
        self.running(broker_id)
        self._send_event(broker_id, ShutDown())

    def pause(self, broker_id: int) -> None:
        """Freeze a node, as in a long garbage collection pause: it sends no heartbeats."""
        self.server.disconnect(self.running(broker_id).store.session_id, notify=False)
        self.connections.pause(Address("broker", broker_id))
        self.running(broker_id).node.broker.rates.on_pause()
        self._set_paused(broker_id, True)

    def resume(self, broker_id: int) -> None:
        """Resume a paused node. It is notified if its session has expired meanwhile."""
        self.connections.resume(Address("broker", broker_id))
        self._set_paused(broker_id, False)
        self.server.reconnect(self.running(broker_id).store.session_id)

    @property
    def paused_broker_ids(self) -> frozenset[int]:
        """Ids of the paused brokers."""
        actors = self.scheduler.actors
        return frozenset(id_ for id_ in self.nodes if actors[Address("broker", id_)].paused)

    def expire_session(self, broker_id: int) -> None:
        """Expire a node's session now. A paused node is notified when it resumes."""
        session_id = self.running(broker_id).store.session_id
        is_paused = self.scheduler.actors[Address("broker", broker_id)].paused
        self.server.expire_session(session_id, notify=not is_paused)

    def fail_authentication(self, broker_id: int) -> None:
        """Notify a node of a failed authentication with ZooKeeper. Its session stays alive."""
        self.server.fail_authentication(self.running(broker_id).store.session_id)

    def lose_next_write(self, broker_id: int, *, is_applied: bool) -> None:
        """Break a node's connection at its next write. If ``is_applied``, the write takes effect.

        Replaces any earlier call, even for another node, whose write has not happened yet."""
        lost_session = self.running(broker_id).store.session_id

        def lose(session_id: int, op: ReadOp | Transaction, *_: object) -> None:
            if session_id == lost_session and not isinstance(op, ReadOp):
                self.server.before_op = self.server.after_op = None
                raise LostReply

        self.server.before_op, self.server.after_op = (None, lose) if is_applied else (lose, None)

    def add_client(self, client: Client) -> None:
        """Add a producer or consumer. It is notified of broken connections."""
        actor = ClientActor(client, self.transport, self.clock)
        self._connect(actor, notify_disconnects=True)

    def add_actor(self, actor: Actor) -> None:
        """Add an actor that receives no messages, such as a timer of a fault."""
        self.scheduler.add(actor)
        actor.on_given = self._agenda.recheck
        self._agenda.recheck(actor)

    def _connect(self, actor: Actor, *, notify_disconnects: bool = False) -> None:
        self.add_actor(actor)
        self.transport.register(actor.address, actor.receive, notify_disconnects=notify_disconnects)

    def _end(self, broker_id: int, end_session: Callable[[MemoryStore], None]) -> LogMaintenance:
        """Remove a node. Return what keeps its logs, which the caller must end, too."""
        running = self.running(broker_id)
        broker = running.node.broker
        for role in ("broker", "controller"):
            address = Address(role, broker_id)
            self.transport.unregister(address)
            self.scheduler.remove(address)
        self.connections.remove(Address("broker", broker_id))
        self._zookeeper_links.remove(broker_id)
        self._resigning.pop(broker_id, None)
        end_session(running.store)
        broker.replica_manager.break_connections()
        broker.rates.materialize_all()
        del self.nodes[broker_id]
        return broker.log_maintenance

    def _set_paused(self, broker_id: int, paused: bool) -> None:
        self.copying.set_paused(broker_id, paused)
        for role in ("broker", "controller"):
            actor = self.scheduler.actors.get(Address(role, broker_id))
            if actor is not None:
                actor.paused = paused
                actor.woken()


class SessionFault(NamedTuple):
    """A fault of a node's ZooKeeper session or connection, and its text for the docs."""

    inject: Callable[[SimulatedWorld, int], None]
    about: str


SESSION_FAULTS: Final = {
    "expire_session": SessionFault(
        SimulatedWorld.expire_session,
        "Expire the ZooKeeper sessions of brokers and their controllers.",
    ),
    "fail_authentication": SessionFault(
        SimulatedWorld.fail_authentication,
        "Notify brokers and their controllers of a failed authentication with ZooKeeper, while "
        "their sessions stay alive.",
    ),
    "lose_request": SessionFault(
        partial(SimulatedWorld.lose_next_write, is_applied=False),
        "Break the ZooKeeper connection of brokers at their next write, which is lost.",
    ),
    "lose_reply": SessionFault(
        partial(SimulatedWorld.lose_next_write, is_applied=True),
        "Break the ZooKeeper connection of brokers when their next write has succeeded, so that "
        "its reply is lost.",
    ),
}
"""The faults of sessions by name."""
