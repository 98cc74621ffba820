"""Three brokers that hold replicas of t-0, and what tests of replication do with them."""

from __future__ import annotations

import msgspec

from klamm.brokers.config import BrokerConfig
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import Acks, ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import CountedBatch, Interval
from klamm.cluster.requests import Address, AlterIsrRequest, AlterIsrResponse
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from tests.unit.brokers.network import T0, Network, leader_and_isr, state, update_metadata

IDS = (1, 2, 3)
CLIENT = Address("client", 7)
BATCH_BYTES = 100


class Replicas(Network):
    """A Network of brokers 1 to 3; ``confirms``: AlterIsr requests are answered as proposed."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        super().__init__()
        self.confirms = True
        self._answered = 0
        self._zk_version = 7
        for broker_id in IDS:
            self.add(broker_id, config)
            self.request(broker_id, update_metadata())

    def lead(
        self,
        leader: int,
        leader_epoch: int,
        isr: tuple[int, ...] = IDS,
        *,
        told: tuple[int, ...] = IDS,
    ) -> None:
        """Tell brokers who leads t-0, and deliver what follows."""
        self._zk_version += 1
        named = state(
            leader=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            replicas=IDS,
            zk_version=self._zk_version,
        )
        for broker_id in told:
            self.request(broker_id, leader_and_isr(named))
        self.settle()

    def settle(self) -> None:
        """Deliver everything, and confirm the ISRs that are proposed."""
        self.deliver()
        while self.confirms and self._answered < len(self.alter_isr_requests()):
            request = self.alter_isr_requests()[self._answered]
            self._answered += 1
            assert isinstance(request.body, AlterIsrRequest)
            answers = {tp: self.decide(to) for tp, to in request.body.partitions.items()}
            self.answer(request, AlterIsrResponse(Errors.NONE, answers))
            self.deliver()

    def decide(self, proposed: LeaderAndIsr) -> LeaderAndIsr | Errors:
        """What the controller answers to a proposed ISR."""
        self._zk_version += 1
        return msgspec.structs.replace(proposed, zk_version=self._zk_version)

    def produce(
        self, leader: int, count: int = 1, *, acks: Acks = -1, timeout_ms: int = 30_000
    ) -> int:
        """Send a batch, deliver nothing; returns its number."""
        batch = CountedBatch(count, count * BATCH_BYTES)
        return self.ask(leader, ProduceRequest(acks, timeout_ms, {T0: batch}), CLIENT)

    def replicate(
        self, leader: int, count: int = 1, *, acks: Acks = -1, timeout_ms: int = 30_000
    ) -> int:
        """Send a batch and deliver everything that follows; returns its number."""
        number = self.produce(leader, count, acks=acks, timeout_ms=timeout_ms)
        self.settle()
        return number

    def produced(self, number: int) -> ProducedPartition | None:
        """The answer to a produce request; None if there is none."""
        answer = self.answer_to(number, CLIENT)
        assert isinstance(answer, ProduceResponse | None)
        return answer and answer.partitions[T0]

    def replica(self, broker_id: int, tp: TopicPartition = T0) -> Partition:
        """A hosted replica."""
        return self.brokers[broker_id].replica_manager.partitions[tp]

    def ends(self) -> list[tuple[int, int]]:
        """(log end, high watermark) of every replica, by broker."""
        hosted = (self.replica(broker_id) for broker_id in IDS)
        return [(p.log.log_end_offset, p.high_watermark) for p in hosted if p.log is not None]

    def epochs(self, broker_id: int) -> list[tuple[int, int, int]]:
        """(leader epoch, start, end) of what a replica holds."""
        log = self.replica(broker_id).log
        assert log is not None
        return [_bare(interval) for interval in log.intervals()]


def _bare(interval: Interval) -> tuple[int, int, int]:
    return interval.leader_epoch, interval.start, interval.end
