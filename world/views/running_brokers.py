"""What checks see of single brokers and controllers of a simulated world, after every event."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Final, NamedTuple

from klamm.brokers.broker import KafkaServer
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.statemachines.context import ControllerContext
from klamm.world.simulated.world import SimulatedWorld


class LeaderRole(NamedTuple):
    """What a leader uses; the values are empty if a broker is not the leader.

    ``pending``: the ISR that it has proposed. ``log_epoch``: the newest leader epoch that its log
    knows, or None."""

    isr: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()
    log_epoch: int | None = None


_NO_ROLE: Final = LeaderRole()


class FollowerView(NamedTuple):
    """A follower as its leader sees it: its log end offset, and when it last had all records."""

    broker_id: int
    log_end_offset: int
    caught_up_ms: float


class LeaderView(NamedTuple):
    """A replica and the followers that have fetched from it in its leader epoch.

    ``leader_and_isr``: the last state that was applied. ``pending``: the ISR that it has proposed.
    """

    leader_and_isr: LeaderAndIsr
    pending: tuple[int, ...]
    log_end_offset: int
    high_watermark: int
    followers: list[FollowerView]


class ControllerView(NamedTuple):
    """A controller. ``has_unsent_requests``: its batches hold requests."""

    is_active: bool
    context: ControllerContext
    has_unsent_requests: bool


class RunningBroker:
    """Reads a running broker. A broker that was restarted has another object."""

    __slots__ = ("_partitions", "_server")

    def __init__(self, server: KafkaServer) -> None:
        self._server = server
        self._partitions = server.replica_manager.partitions

    def shows(self, server: KafkaServer) -> bool:
        """Return True if this is the view of a broker."""
        return self._server is server

    @property
    def broker_epoch(self) -> int:
        """The epoch of its registration, as far as it knows."""
        return self._server.broker_epoch

    @property
    def hosted(self) -> Container[TopicPartition]:
        """Its replicas, except those in failed log directories."""
        return self._partitions

    def role(self, tp: TopicPartition) -> LeaderRole:
        """Return what the broker uses as leader of a partition."""
        partition = self._partitions.get(tp)
        if partition is None or (state := partition.state) is None:
            return _NO_ROLE
        if state.leader != self._server.info.id:
            return _NO_ROLE
        pending, log = partition.pending, partition.log
        return LeaderRole(
            state.isr,
            () if pending is None else pending.isr,
            None if log is None else log.latest_epoch,
        )

    def leader(self, tp: TopicPartition) -> LeaderView | None:
        """Return a replica and its followers, or None if the broker has no state or log of it."""
        partition = self._partitions.get(tp)
        if partition is None or partition.log is None:
            return None
        if (leader_and_isr := partition.leader_and_isr) is None:
            return None
        return LeaderView(
            leader_and_isr,
            () if partition.pending is None else partition.pending.isr,
            partition.log.log_end_offset,
            partition.high_watermark,
            [
                FollowerView(one.replica_id, one.log_end_offset, one.caught_up_ms)
                for one in partition.remotes
            ],
        )


class RunningBrokers:
    """The running brokers of a world. ``on_restart`` is called when a broker is seen first."""

    def __init__(self, world: SimulatedWorld, on_restart: Callable[[int], None]) -> None:
        self._world = world
        self._on_restart = on_restart
        self._known: dict[int, RunningBroker] = {}

    def get(self, broker_id: int) -> RunningBroker | None:
        """Return a broker, or None if it is not running."""
        running = self._world.nodes.get(broker_id)
        if running is None:
            return None
        server, known = running.node.broker, self._known.get(broker_id)
        if known is None or not known.shows(server):
            known = self._known[broker_id] = RunningBroker(server)
            self._on_restart(broker_id)
        return known

    def controller(self, broker_id: int) -> ControllerView | None:
        """Return the controller on a running broker, or None if it has none."""
        running = self._world.nodes.get(broker_id)
        controller = None if running is None else running.node.controller
        if controller is None:
            return None
        return ControllerView(
            controller.is_active, controller.context, controller.has_unsent_requests
        )
