"""A batch that an idempotent producer sends again is not stored again, also by a broker that has
started anew, or by another one that leads now: with logs that count, and with files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.brokers.logs.records import encode_batch
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest
from klamm.cluster.records import CountedBatch, Produced, Record
from klamm.cluster.requests import Address, Message
from tests.sim.replication import CLIENT, IDS, T0, Cluster, replica_views

COUNT = 5


class Sender(Cluster):
    """One producer with an id, which numbers its batches."""

    def send(self, number: int) -> ProducedPartition:
        """Send the batch of this number to the leader, whether it was sent before or not."""
        self._sent += 1
        body = ProduceRequest(-1, 30_000, {T0: self._batch(number * COUNT)})
        leader = Address("broker", self.state().leader)
        self.world.transport.send(Message(CLIENT, leader, self._sent, body))
        assert self.world.run_until(lambda: self._sent in self.answers, timeout_ms=30_000)
        return self.answers[self._sent]

    def _batch(self, sequence: int) -> Produced:
        if self.world.spec.segments is None:
            return CountedBatch(COUNT, 500, -1, 7, 0, sequence)
        records = [Record(self.world.clock.now_ms(), None, b"v")] * COUNT
        return encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.fixture(params=["counts", "files"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sender]:
    made = Sender(**({"segments": tmp_path} if request.param == "files" else {}))
    yield made
    made.close()


def bounce(cluster: Sender) -> None:
    """Every broker stops in order and starts again."""
    _start_all_again(cluster, cluster.world.stop)


def crash(cluster: Sender) -> None:
    """Every broker's process ends, and is started again."""
    _start_all_again(cluster, cluster.world.kill)


def _start_all_again(cluster: Sender, end: Callable[[int], None]) -> None:
    for broker_id in IDS:
        end(broker_id)
    cluster.world.run_for(10_000)
    for broker_id in IDS:
        cluster.world.start(broker_id)


def fail_over(cluster: Sender) -> None:
    """The leader is gone; its machine may have lost what was not on the disk."""
    leader = cluster.state().leader
    cluster.world.kill(leader, loses_unflushed=True)
    cluster.world.run_for(10_000)
    assert cluster.state().leader not in (-1, leader)


def fail_over_and_back(cluster: Sender) -> None:
    """The first leader leads again, with what the second gave it."""
    fail_over(cluster)
    cluster.heal()
    cluster.world.stop(cluster.state().leader)


@pytest.mark.parametrize("happens", [bounce, crash, fail_over, fail_over_and_back])
def test_what_is_sent_again_is_where_it_was(
    cluster: Sender, happens: Callable[[Sender], None]
) -> None:
    for number in range(4):
        assert cluster.send(number).base_offset == number * COUNT
    happens(cluster)
    assert cluster.world.run_until(lambda: cluster.state().leader >= 0, timeout_ms=30_000)
    cluster.world.run_for(1_000)
    for number in (3, 0, 1):
        again = cluster.send(number)
        assert (again.error, again.base_offset) == (Errors.NONE, number * COUNT)
    assert cluster.send(5).error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.send(4).base_offset == 4 * COUNT
    cluster.heal()
    assert {view.intervals[-1].end for view in replica_views(cluster.world)} == {5 * COUNT}
