"""Consumers that wait for records of constant rates: answered when there are enough of them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from klamm.cluster.constant_rate import RATE_MARGIN_MS
from klamm.cluster.data_requests import FetchResponse
from klamm.cluster.records import size_of
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.constant_rates import begin_workload
from klamm.world.clients.config import ConsumerConfig
from klamm.world.clients.constant_rate_producer import Rate
from klamm.world.clients.consumer import Consumer
from klamm.world.simulated.world import SimulatedWorld
from tests.sim.constant_rates import IDS, GrowingCluster, T
from tests.sim.worlds import create_topic, three_brokers

RECORD_BYTES = 100
MOST_MS = 20_000


class Reading:
    """A consumer of some partitions from their ends on; what it is to get at once, at least.

    ``answered``: when its fetches were answered, and how many records the answers brought.
    """

    def __init__(
        self, world: SimulatedWorld, partitions: list[TopicPartition], min_records: int
    ) -> None:
        self._world = world
        self.answered: list[tuple[float, int]] = []
        min_bytes = min_records * RECORD_BYTES
        config = ConsumerConfig(fetch_min_bytes=min_bytes, fetch_max_wait_ms=MOST_MS)
        self.consumer = Consumer(Address("client", 11), IDS, config)
        self.consumer.assign(partitions)
        world.add_client(self.consumer)
        world.transport.add_tap(self._look_on)

    def _look_on(self, message: Message) -> None:
        body = message.body
        if message.destination == self.consumer.address and isinstance(body, FetchResponse):
            found = [one.records for one in body.partitions.values() if one.records is not None]
            count = sum(map(size_of, found)) // RECORD_BYTES
            self.answered.append((self._world.clock.monotonic_ms(), count))

    def gaps_ms(self) -> list[float]:
        """Times between answers."""
        return [after - before for (before, _), (after, _) in pairwise(self.answered)]


@pytest.mark.parametrize("min_records", [1, 10])
def test_a_fetch_that_waits_is_answered_when_the_rate_has_made_enough(min_records: int) -> None:
    cluster = GrowingCluster(2.0)
    cluster.world.run_for(5_000)
    reading = Reading(cluster.world, T[:1], min_records)
    cluster.world.run_for(60_000)
    assert {count for _, count in reading.answered} == {min_records}
    assert len(reading.answered) in (120 // min_records, 120 // min_records - 1)
    assert reading.gaps_ms() == pytest.approx([min_records * 500.0] * len(reading.gaps_ms()))
    schedule = cluster.producer.partitions[T[0]].schedule
    assert schedule is not None
    # It reads below the high watermark, which is two margins behind the leader's log.
    phase_ms = (reading.answered[0][0] - 2 * RATE_MARGIN_MS - schedule.since_ms) % 500.0
    assert min(phase_ms, 500.0 - phase_ms) < 0.01
    cluster.check()


def test_rates_that_begin_while_a_fetch_waits_fill_it_together() -> None:
    world = three_brokers()
    create_topic(world, "u", {0: (0,), 1: (0,)})
    world.run_for(1_000)
    tps = [TopicPartition("u", n) for n in range(2)]
    reading = Reading(world, tps, 5)
    world.run_for(1_000)
    begin_workload(world, dict(zip(tps, (Rate(2.0), Rate(3.0)), strict=True)))
    world.run_for(10_500)
    assert [count for _, count in reading.answered] == [5] * 10
    assert reading.gaps_ms() == pytest.approx([1_000.0] * 9)
    assert world.errors == []


def test_no_producer_gets_an_early_response_while_an_isr_member_is_gone() -> None:
    cluster = GrowingCluster(2.0)
    world = cluster.world
    world.run_for(5_000)
    reading = Reading(world, T[:1], 1)
    world.run_for(5_000)
    world.kill(1)
    before = len(reading.answered)
    world.run_for(5_000)
    assert len(reading.answered) <= before + 1, "the high watermark stands still"
    assert world.run_until(lambda: cluster.state().isr == (0, 2), timeout_ms=60_000)
    world.run_for(5_000)
    assert reading.gaps_ms()[-8:] == pytest.approx([500.0] * 8), "and continues at the rate"
    cluster.check()
