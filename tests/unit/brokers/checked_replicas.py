"""Three brokers with replicas of t-0, and a check of what is acknowledged, and of what is lost."""

from __future__ import annotations

from klamm.cluster.data_requests import Acks, ProduceRequest, ProduceResponse
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import Address, Message
from klamm.lab.checks.replicas import ReplicationChecker
from klamm.world.views.replica_view import ReplicaView
from tests.unit.brokers.network import T0
from tests.unit.brokers.replicas import CLIENT, Replicas


class Checked(Replicas):
    """Replicas that are looked at whenever something is sent."""

    def __init__(self) -> None:
        self.checker = ReplicationChecker()
        super().__init__()

    def send(self, message: Message) -> None:
        super().send(message)
        if isinstance(message.body, ProduceResponse):
            self.checker.on_message(message, self.views())

    def produce(
        self, leader: int, count: int = 1, *, acks: Acks = -1, timeout_ms: int = 30_000
    ) -> int:
        number = self._correlation_id + 1
        request = ProduceRequest(acks, timeout_ms, {T0: CountedBatch(count, count)})
        message = Message(CLIENT, Address("broker", leader), number, request)
        self.checker.on_message(message, ())
        return super().produce(leader, count, acks=acks, timeout_ms=timeout_ms)

    def views(self) -> list[ReplicaView]:
        """Every replica that has a log."""
        found = []
        for broker_id, broker in self.brokers.items():
            partition = broker.replica_manager.partitions.get(T0)
            if partition is not None and partition.log is not None:
                leads = partition.is_leader(broker_id)
                found.append(
                    ReplicaView(
                        T0,
                        broker_id,
                        partition.log.intervals(),
                        partition.high_watermark,
                        partition.leader_epoch if leads else -1,
                    )
                )
        return found
