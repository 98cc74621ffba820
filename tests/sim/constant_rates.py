"""A simulated cluster that is produced to at constant rates, and its checker."""

from __future__ import annotations

from klamm.cluster.constant_rate import RATE_MARGIN_MS, records_produced
from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.checks.constant_rates import WorkloadChecker, begin_workload
from klamm.world.clients.constant_rate_producer import Rate
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.views.replica_views import ReplicaViews
from tests.sim.worlds import create_topic, state_of, three_brokers

IDS = (0, 1, 2)
T = [TopicPartition("t", n) for n in range(3)]


class GrowingCluster:
    """Brokers 0 to 2; broker n leads t-n, and all have all three. Rate 0: nothing is produced."""

    def __init__(self, records_per_s: float = 50.0, **spec: object) -> None:
        self.world = three_brokers(**spec)
        create_topic(self.world, "t", {n: (n, (n + 1) % 3, (n + 2) % 3) for n in IDS})
        self.world.run_for(1_000)
        rates = dict.fromkeys(T, Rate(records_per_s)) if records_per_s else {}
        self.producer = begin_workload(self.world, rates)
        self.checker = WorkloadChecker(self.world, self.producer)

    @property
    def now_ms(self) -> float:
        """The world's time."""
        return self.world.clock.monotonic_ms()

    def check(self) -> None:
        """Fail on what is broken now, or was."""
        self.checker.check()
        assert self.world.errors == [], self.world.errors
        assert self.checker.violations == [], self.checker.violations

    def state(self, tp: TopicPartition = T[0]) -> LeaderAndIsr:
        """What ZooKeeper says."""
        return state_of(self.world, *tp)

    def log_ends(self, tp: TopicPartition = T[0]) -> dict[int, int]:
        """Where the logs of all replicas end, by broker."""
        replicas = ReplicaViews(self.world)
        return {view.broker_id: view.end for view in replicas.of(tp, replicas.hosts()).views}

    def unacknowledged(self, tp: TopicPartition = T[0]) -> int:
        """How many records there should be that are not decided yet."""
        outcome = self.producer.partitions[tp]
        outcome.materialize(self.now_ms)
        return self.producer.produced(tp, self.now_ms) - outcome.decided

    def heal(self) -> None:
        """Start every broker and mend the network, until all follow schedules again."""
        world = self.world
        world.transport.heal()
        for broker_id in IDS:
            if broker_id not in world.nodes:
                world.start(broker_id)
        assert world.run_until(self._is_whole, timeout_ms=300_000), [
            (self.state(tp), self.log_ends(tp), self.unacknowledged(tp)) for tp in T
        ]
        self.check()

    def _is_whole(self) -> bool:
        return all(self._is_partition_whole(tp) for tp in T)

    def _is_partition_whole(self, tp: TopicPartition) -> bool:
        records_per_ms = self.producer.partitions[tp].rate.records_per_s / 1000
        on_their_way = 3 * RATE_MARGIN_MS * records_per_ms + 1
        ends = self.log_ends(tp).values()
        return (
            sorted(self.state(tp).isr) == list(IDS)
            and self.unacknowledged(tp) <= on_their_way
            and len(ends) == len(IDS)
            and max(ends) - min(ends) <= on_their_way
        )


class PlainProducer:
    """Sends what a constant rate has made to whoever leads, every 100 ms, and forgets it."""

    EVERY_MS = 100.0

    def __init__(self, world: SimulatedWorld, records_per_s: float) -> None:
        self._world = world
        self._rate = Rate(records_per_s)
        self._since_ms = world.clock.monotonic_ms()
        self._sent = 0

    def run_for(self, duration_ms: float) -> None:
        """Let time pass, and send."""
        end_ms = self._world.clock.monotonic_ms() + duration_ms
        while self._world.clock.monotonic_ms() < end_ms:
            self._send()
            self._world.run_for(self.EVERY_MS)

    def _send(self) -> None:
        now_ms = self._world.clock.monotonic_ms()
        produced = records_produced(self._rate.records_per_s, self._since_ms, now_ms)
        count, self._sent = produced - self._sent, produced
        for tp in T if count else ():
            leader = state_of(self._world, *tp).leader
            size_bytes = count * self._rate.record_size_bytes
            request = ProduceRequest(-1, 30_000, {tp: CountedBatch(count, size_bytes)})
            message = Message(Address("client", 9), Address("broker", leader), 0, request)
            self._world.transport.send(message)
