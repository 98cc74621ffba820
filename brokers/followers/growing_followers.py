"""What followers agree on with their leaders: whose logs grow by a law, and until when.

A follower takes an offer over a connection that holds since the leader made it, and says so with
its next fetch. When it ends a law that its leader may still go by, the leader is told. Nothing is
sent here; no clock is read.
"""

from __future__ import annotations

import msgspec

from brokers.partitions.growth import FollowerGrowth
from brokers.partitions.partition import Partition
from brokers.partitions.settling import settle
from cluster.api_errors import Errors
from cluster.data_requests import UNKNOWN_OFFSET, FetchedPartition
from cluster.protocols import Connections
from cluster.requests import Address
from cluster.types import TopicPartition


class GrowingFollowers:
    """The followers of one broker that grow, or are offered to."""

    def __init__(self, broker_id: int, connections: Connections) -> None:
        self._address = Address("broker", broker_id)
        self.connections = connections
        self._ended: dict[int, dict[TopicPartition, int]] = {}

    def take(
        self, tp: TopicPartition, partition: Partition, answer: FetchedPartition, now_ms: float
    ) -> FetchedPartition | None:
        """Take what of a leader's answer has to do with laws; the rest of it, None if none is left.

        An answer that knows nothing of the law that this follower goes by ends it.
        """
        growth = partition.growth
        if isinstance(growth, FollowerGrowth):
            settle(partition, now_ms)
            if answer.offer == growth.offer:
                growth.is_acknowledged = answer.is_acknowledged
                assert partition.log is not None
                known = min(answer.high_watermark, partition.log.log_end_offset)
                if known > partition.high_watermark:
                    partition.set_high_watermark(known, now_ms)
                return None
            if answer.fetch_offset == UNKNOWN_OFFSET and answer.error is Errors.NONE:
                partition.growth = None
            else:
                self.end(tp, partition, now_ms)
        if answer.offer is not None and not self._holds(partition, answer.offer.connection):
            return msgspec.structs.replace(answer, offer=None)
        return answer

    def _holds(self, partition: Partition, connection: int) -> bool:
        assert partition.state is not None
        leader = Address("broker", partition.state.leader)
        return self.connections.connect(self._address, leader) == connection

    def end(self, tp: TopicPartition, partition: Partition, now_ms: float) -> None:
        """Go by no law any more, and let the leader know."""
        if not isinstance(partition.growth, FollowerGrowth):
            return
        settle(partition, now_ms)
        partition.growth = None
        assert partition.state is not None
        self._ended.setdefault(partition.state.leader, {})[tp] = partition.leader_epoch

    def take_ended(self) -> dict[int, dict[TopicPartition, int]]:
        """Which leaders are to be told of which laws that ended, with their leader epochs."""
        ended, self._ended = self._ended, {}
        return ended
