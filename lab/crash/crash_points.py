"""Crashes of controllers at their ZooKeeper operations, in a simulated world.

A CrashPoint counts the operations of controllers and, at one of them, crashes the controller or
suspends it until another controller has been elected. lab/crash/crashing.py chooses the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from klamm.cluster.requests import Address
from klamm.world.actors import Actor, Scheduler
from klamm.world.node_actors import ReRegister
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.memory_store import Crashed
from klamm.zk.store import (
    Check,
    Create,
    Delete,
    ReadOp,
    ReadResult,
    ResultCode,
    Transaction,
    TxnResult,
)
from klamm.zk.znodes import BrokerIdZNode, ControllerZNode

CONTROLLER: Final = "controller"
CRASHES: Final = ("restart", "takeover", "resume")
"""What can happen to a controller at a crash point, see plan_crash."""
SUSPENDED_AT_MOST_MS: Final = 30_000.0
"""How long a suspended controller waits for a successor, e.g. if no other candidate runs."""
_RESTART_MS: Final = 1_000.0
"""How long the restart of a broker takes: all messages to its old process are lost meanwhile."""


class ControllerOperation(NamedTuple):
    """An operation of a controller: its broker, the event in progress, and the operation as text.

    ``event`` is empty if the controller was not processing an event."""

    broker_id: int
    event: str
    text: str


class CrashPoint:
    """Hooks of the ZooKeeper server that call ``act`` before or after one operation.

    Only operations of actors for which ``is_counted`` returns True count; by default, those of all
    controllers. ``at`` is the number of the operation, from 0; None only counts. ``act`` is called
    with the address of the actor, in the middle of its event; it may raise Crashed or LostReply.
    ``operations`` has the operations up to ``at``.
    """

    def __init__(
        self,
        world: SimulatedWorld,
        at: int | None,
        *,
        is_before: bool,
        act: Callable[[Address], None],
        is_counted: Callable[[Address], bool] = lambda address: address.role == CONTROLLER,
    ) -> None:
        self.operations: list[ControllerOperation] = []
        self.has_happened = False
        self._world = world
        self._at = at
        self._act = act
        self._is_counted = is_counted
        if is_before:
            world.server.before_op = self._on_operation
        else:
            world.server.after_op = self._on_operation

    def _on_operation(self, _: int, op: ReadOp | Transaction, *__: object) -> None:
        address = self._world.scheduler.current
        if self.has_happened or address is None or not self._is_counted(address):
            return
        self.operations.append(
            ControllerOperation(address.id, _event(self._world, address.id), _text(op))
        )
        if len(self.operations) - 1 == self._at:
            self.has_happened = True
            self._act(address)


def raise_crashed(_: Address) -> None:
    """Crash the actor in the middle of its event: ``world.on_crash`` decides what is lost."""
    raise Crashed


def crash_controller(world: SimulatedWorld, broker_id: int) -> None:
    """Remove a controller, even in the middle of an event, and /controller if it was elected.

    Its broker and the session that they share live on. It is not a candidate until its broker has
    been restarted. If the controller dies while it registers the broker in a new session, the
    broker registers itself, as it does without a candidate.
    """
    running = world.nodes[broker_id]
    controller = running.node.controller
    assert controller is not None, f"broker {broker_id} has no controller"
    address = Address(CONTROLLER, broker_id)
    world.transport.unregister(address)
    world.scheduler.remove(address)
    running.store.remove_listener(controller.on_store_event)
    running.node.controller = None
    _depose(world, broker_id)
    registration = world.server.tree.nodes.get(BrokerIdZNode.path(broker_id))
    if registration is None or registration.czxid != running.node.broker.broker_epoch:
        world.scheduler.give(Address("broker", broker_id), ReRegister())


def restart_node(world: SimulatedWorld, broker_id: int) -> None:
    """Kill a node and start it again. It registers when its old session has expired."""
    world.kill(broker_id)
    _call_later(world, _RESTART_MS, Address("restart", broker_id), partial(_start, world))


def _start(world: SimulatedWorld, address: Address) -> None:
    if address.id not in world.nodes:
        world.start(address.id)


def take_over(world: SimulatedWorld, broker_id: int) -> None:
    """Remove a controller for ever, so that another one takes over.

    If there is no other candidate, its node is restarted instead."""
    others = (node.node.controller for id_, node in world.nodes.items() if id_ != broker_id)
    if any(controller is not None and controller.is_candidate for controller in others):
        crash_controller(world, broker_id)
    else:
        restart_node(world, broker_id)


def suspend_until_deposed(world: SimulatedWorld, address: Address) -> None:
    """Suspend a controller in the middle of its event, and delete /controller if it was elected.

    It continues, in its session, while or after the next controller loads the cluster. Call this in
    a hook of ``world.server``.
    """
    actor = world.scheduler.actors[address]
    most_ms = SUSPENDED_AT_MOST_MS if _is_elected(world, address.id) else 0.0
    resumer = Address("resume", address.id)

    def resume(_: Address) -> None:
        world.server.after_op = None
        actor.paused = False
        actor.woken()

    def after_op(_: int, op: ReadOp | Transaction, result: ReadResult | TxnResult) -> None:
        if isinstance(op, ReadOp) or result.code is not ResultCode.OK:
            return
        if any(isinstance(part, Create) and part.path == ControllerZNode.path for part in op):
            world.scheduler.give(resumer, "elected")

    _call_later(world, most_ms, resumer, resume)
    world.server.after_op = after_op
    actor.paused = True
    _depose(world, address.id)
    world.scheduler.yield_control()


class _Later(Actor):
    """Calls a function once: when a time has passed, or when the actor is given an event."""

    def __init__(
        self, address: Address, due_ms: float, call: Callable[[Address], None], scheduler: Scheduler
    ) -> None:
        super().__init__(address)
        self._due_ms = due_ms
        self._call = call
        self._scheduler = scheduler

    def next_due_ms(self) -> float | None:
        return self._due_ms

    def run_event(self) -> None:
        self._scheduler.remove(self.address)
        self._call(self.address)


def _call_later(
    world: SimulatedWorld, delay_ms: float, address: Address, call: Callable[[Address], None]
) -> None:
    world.add_actor(_Later(address, world.clock.monotonic_ms() + delay_ms, call, world.scheduler))


def _is_elected(world: SimulatedWorld, broker_id: int) -> bool:
    node = world.server.tree.nodes.get(ControllerZNode.path)
    return node is not None and node.owner == world.nodes[broker_id].store.session_id


def _depose(world: SimulatedWorld, broker_id: int) -> None:
    """Delete /controller if this broker's session created it. Does not yield to other actors."""
    if _is_elected(world, broker_id):
        store = world.open_store()
        world.server.commit(store.session_id, [Delete(ControllerZNode.path)])
        store.close()


def _event(world: SimulatedWorld, broker_id: int) -> str:
    controller = world.nodes[broker_id].node.controller
    queued = None if controller is None else controller.events.current
    return "" if queued is None else type(queued.event).__name__


def _text(op: ReadOp | Transaction) -> str:
    if isinstance(op, ReadOp):
        return f"{type(op).__name__} {op.path}"
    writes = [part for part in op if not isinstance(part, Check)]
    first = writes[0] if writes else op[0]
    more = f" and {len(writes) - 1} more" if len(writes) > 1 else ""
    return f"{type(first).__name__} {first.path}{more}"


def plan_crash(world: SimulatedWorld, at: int | None, *, is_before: bool, crash: str) -> CrashPoint:
    """Crash a controller at its operation ``at`` in one of the ways of CRASHES.

    ``restart``: its node is killed and restarted. ``takeover``: another controller takes over; the
    broker lives on. ``resume``: the controller is suspended, deposed and resumed.
    """
    act: Callable[[Address], None] = raise_crashed
    if crash == "resume":
        act = partial(suspend_until_deposed, world)
    else:
        world.on_crash = partial(restart_node if crash == "restart" else take_over, world)
    return CrashPoint(world, at, is_before=is_before, act=act)
