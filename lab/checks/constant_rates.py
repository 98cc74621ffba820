"""Starts a constant-rate workload in a simulated world, and checks that no records are lost.

The checks materialize the workload's constant-rate appends, and change nothing else. They apply
lab/checks/replicas.py to all partitions of the workload.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.replicas import ReplicationChecker
from klamm.world.clients.constant_rate_producer import ConstantRateProducer, Rate
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.views.replica_views import Hosts, ReplicaViews


def begin_workload(
    world: SimulatedWorld, rates: Mapping[TopicPartition, Rate], client_id: int = 0
) -> ConstantRateProducer:
    """Start a client that produces at constant rates from now on, with acks=-1."""
    producer = ConstantRateProducer(
        Address("client", client_id),
        rates,
        world.spec.broker_ids,
        world.connections,
        world.clock.monotonic_ms(),
        world.clock.now_ms(),
    )
    world.add_client(producer)
    return producer


class WorkloadChecker:
    """Checks the partitions of one workload. ``violations`` lists each violation only once."""

    def __init__(self, world: SimulatedWorld, producer: ConstantRateProducer) -> None:
        self._world = world
        self._producer = producer
        self._checker = ReplicationChecker()
        self._replicas = ReplicaViews(world)

    @property
    def violations(self) -> list[str]:
        """All violations so far."""
        return self._checker.violations

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions of the workload."""
        return self._producer.partitions.keys()

    def acknowledged(self, tp: TopicPartition) -> int:
        """Return how many records of a partition have been replicated to the whole ISR by now."""
        progress = self._producer.partitions[tp]
        progress.materialize(self._world.clock.monotonic_ms())
        return sum(stretch.end - stretch.start for stretch in progress.acknowledged)

    def check(self, of: Collection[TopicPartition] | None = None) -> None:
        """Check that the leaders of these partitions have all acknowledged records.

        By default, check all partitions of the workload."""
        now_ms = self._world.clock.monotonic_ms()
        partitions = self.partitions if of is None else of
        hosts: dict[TopicPartition, Hosts] = {tp: [] for tp in partitions}
        for host in self._replicas.hosts():
            _, broker, hosted = host
            for tp in hosts if broker is None else hosts.keys() & hosted.keys():
                hosts[tp].append(host)
        for tp, its_hosts in hosts.items():
            progress = self._producer.partitions[tp]
            progress.materialize(now_ms)
            self._checker.acknowledged[tp] = progress.acknowledged
            self._checker.check_partition(tp, self._replicas.of(tp, its_hosts))
