"""Moments in the work of a simulated controller: just before or after a ZooKeeper operation.

When a controller reaches such a moment it yields, so that others can act before it continues.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.journal import Kind
from klamm.controller import events
from klamm.controller.event_manager import QueuedEvent
from klamm.statemachines.reassignment import Phase
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import Check, ReadOp, Transaction

_TOPIC: Final = re.compile(r"/brokers/topics/[^/]+")
_STATE: Final = re.compile(r"/brokers/topics/[^/]+/partitions/[0-9]+/state")
_REQUEST: Final = "/admin/reassign_partitions"
_STATE_PHASES: Final = (Phase.U3, Phase.A1, Phase.B3, Phase.B4)
_COMPLETING: Final = (Phase.B2, Phase.B3, Phase.B4, Phase.B5, Phase.B6)
WRITING_PHASES: Final = (Phase.U1, *_STATE_PHASES, Phase.B6, Phase.B7)
"""The phases of a reassignment that write to ZooKeeper."""
EVENTS: Final = tuple(
    name
    for name, value in vars(events).items()
    if isinstance(value, type) and issubclass(value, events.ControllerEvent)
)
"""The types of events of a controller."""


class Breakpoint(msgspec.Struct, frozen=True):
    """A moment just before or just after a ZooKeeper operation of a controller.

    The operation is the first write of a ``phase`` of a reassignment, or the ``operation``-th read
    or write of an event of type ``event``, counted from 1. If ``event`` is empty, the reads and
    writes of all controllers are counted, from the start of the world.
    """

    is_before: bool
    phase: Phase | None = None
    event: str = ""
    operation: int = 1


class ControllerOperation(NamedTuple):
    """An operation of a controller: its broker, the event in progress, and the operation as text.

    ``event`` is empty if the controller was not processing an event."""

    broker_id: int
    event: str
    text: str


class Breakpoints:
    """The breakpoints of one simulated world."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._pending: list[Breakpoint] = []
        self._recorded: list[ControllerOperation] | None = None
        self._operations = 0
        self._queued: QueuedEvent | None = None
        self._count = 0
        self._rows_before = 0
        world.server.on_operation = self._on_operation

    def add(self, point: Breakpoint) -> Callable[[], bool]:
        """Add a breakpoint. Return a function that returns True once it has been reached."""
        self._pending.append(point)
        return lambda: not any(pending is point for pending in self._pending)

    def record(self) -> list[ControllerOperation]:
        """Return a list to which all operations of controllers are added from now on."""
        self._recorded = []
        return self._recorded

    def _on_operation(self, op: ReadOp | Transaction, is_before: bool) -> None:
        current = self._world.scheduler.current
        if current is None or current.role != "controller":
            return
        self._operations += is_before
        if not self._pending and self._recorded is None:
            return
        controller = self._world.nodes[current.id].node.controller
        queued = None if controller is None else controller.events.current
        event = "" if queued is None else type(queued.event).__name__
        if self._recorded is not None and is_before:
            self._recorded.append(ControllerOperation(current.id, event, _text(op)))
        counts, phase = [("", self._operations)], None
        if queued is not None:
            if queued is not self._queued:
                self._queued, self._count = queued, 0
                self._rows_before = len(self._world.journal.rows)
            self._count += is_before
            counts.append((event, self._count))
            phase = self._phase_of(op, queued.event_id)
        reached = [
            point
            for point in self._pending
            if point.is_before == is_before
            and (
                point.phase is phase
                if point.phase is not None
                else (point.event, point.operation) in counts
            )
        ]
        if reached:
            self._pending = [point for point in self._pending if point not in reached]
            self._world.scheduler.hold()

    def _phase_of(self, op: ReadOp | Transaction, event_id: int) -> Phase | None:
        """Return the phase of a reassignment in which a controller writes, or None."""
        if isinstance(op, ReadOp):
            return None
        last = None
        for row in self._world.journal.rows[self._rows_before :]:
            if row.kind == Kind.REASSIGNMENT_PHASE and row.event_id == event_id:
                last = Phase(str(row.to))
        paths = [write.path for write in op]
        if any(map(_TOPIC.fullmatch, paths)):
            return Phase.B6 if last in _COMPLETING else Phase.U1
        if any(map(_STATE.fullmatch, paths)):
            return last if last in _STATE_PHASES else None
        return Phase.B7 if _REQUEST in paths and last in _COMPLETING else None


def _text(op: ReadOp | Transaction) -> str:
    if isinstance(op, ReadOp):
        return f"{type(op).__name__} {op.path}"
    writes = [part for part in op if not isinstance(part, Check)]
    first = writes[0] if writes else op[0]
    more = f" and {len(writes) - 1} more" if len(writes) > 1 else ""
    return f"{type(first).__name__} {first.path}{more}"
