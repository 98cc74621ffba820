"""A producer and a checker for simulated clusters that hold records."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from klamm.brokers.logs.records import encode_batch
from klamm.cluster.data_requests import Acks, ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import CountedBatch, Produced, Record
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.checks.replicas import ReplicationChecker
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.views.replica_view import ReplicaView
from klamm.world.views.replica_views import ReplicaViews
from tests.replica_checks import check_views
from tests.sim.worlds import create_topic, state_of, three_brokers

T0 = TopicPartition("t", 0)
IDS = (0, 1, 2)
CLIENT = Address("client", 0)
RECORD_BYTES = 100
_VALUE = b"v" * 90


class Cluster:
    """Brokers 0 to 2, which all have a replica of t-0, one producer, and checks of every answer.

    With ``segments`` in its spec their logs are files.
    """

    def __init__(self, **spec: object) -> None:
        self.world = three_brokers(**spec)
        create_topic(self.world, "t", {0: IDS})
        self.world.run_for(1_000)
        self.checker = ReplicationChecker()
        self.answers: dict[int, ProducedPartition] = {}
        self._sent = 0
        self.world.transport.add_tap(self._look_on)
        self.world.transport.register(CLIENT, self._receive)

    def produce(self, broker_id: int, count: int = 1, acks: Acks = -1) -> int:
        """Send a batch to a broker; returns the number under which it is answered."""
        self._sent += 1
        batch: Produced = CountedBatch(count, count * RECORD_BYTES)
        if self.world.spec.segments is not None:
            batch = encode_batch([Record(self.world.clock.now_ms(), None, _VALUE)] * count)
        body = ProduceRequest(acks, 30_000, {T0: batch})
        address = Address("broker", broker_id)
        self.world.transport.send(Message(CLIENT, address, self._sent, body))
        return self._sent

    def state(self) -> LeaderAndIsr:
        """What ZooKeeper says of t-0."""
        return state_of(self.world, *T0)

    def check(self) -> None:
        """Fail on what was broken so far, or is now."""
        check_views(self.checker, replica_views(self.world))
        assert self.world.errors == [], self.world.errors
        assert self.checker.violations == [], self.checker.violations

    def heal(self) -> None:
        """Start every broker and mend the network, until all replicas are in sync and equal."""
        world = self.world
        world.transport.heal()
        # A broker that was paused while it registered may halt when it goes on.
        world.run_for(1_000)
        for broker_id in IDS:
            if broker_id not in world.nodes:
                world.start(broker_id)
        assert world.run_until(self._is_whole, timeout_ms=200_000), (
            self.state(),
            world.errors,
            replica_views(world),
        )
        views = replica_views(world)
        for view in views:
            self.checker.check_has_all(T0, view)
        self.check()
        # Sizes and times of what was cut in two are shares, which need not be equal.
        assert len({tuple(astuple(i)[:3] for i in view.intervals) for view in views}) == 1

    def close(self) -> None:
        """Stop every broker that runs, which lets go of its files."""
        for broker_id in list(self.world.nodes):
            self.world.stop(broker_id)

    def _is_whole(self) -> bool:
        views = replica_views(self.world)
        ends = [view.intervals[-1].end if view.intervals else 0 for view in views]
        marks = {view.high_watermark for view in views}
        return sorted(self.state().isr) == list(IDS) and set(ends) == marks and len(marks) == 1

    def _look_on(self, message: Message) -> None:
        if isinstance(message.body, ProduceRequest | ProduceResponse):
            self.checker.on_message(message, replica_views(self.world))

    def _receive(self, message: Message) -> None:
        assert isinstance(message.body, ProduceResponse)
        self.answers[message.correlation_id] = message.body.partitions[T0]


def replica_views(world: SimulatedWorld) -> Sequence[ReplicaView]:
    """The replicas of t-0 on brokers that run, and on the disks of those that do not."""
    replicas = ReplicaViews(world)
    return replicas.of(T0, replicas.hosts()).views
