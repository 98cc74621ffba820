"""The copies that one broker has to do with: what it sends as a leader, what comes to it.

It says what each copy passes: disks, networks, and the throttles that its topic and the ISR make it
pass. When they arrive is brokers/bandwidth/'s business, what becomes of the records that of
leader_replicas.py and brokers/replica_manager.py. Mirrors shouldLeaderThrottle of
kafka.server.ReplicaManager, shouldFollowerThrottle of kafka.server.ReplicaFetcherThread, and
BrokerConfigHandler of kafka.server.ConfigHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from klamm.brokers.bandwidth.copying import CopyId, Copying, PathOf, ReplicaCopy
from klamm.brokers.bandwidth.model import Flow
from klamm.brokers.bandwidth.replication_quotas import capacities, replication_flow, throttles
from klamm.brokers.config import BrokerConfig
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.data_requests import FetchedPartition
from klamm.cluster.errors import InvalidConfig
from klamm.cluster.records import size_of
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class Copies:
    """What ``config`` says of bandwidth, the broker's own dynamic config may override."""

    def __init__(self, broker_id: int, config: BrokerConfig, copying: Copying) -> None:
        self._broker_id = broker_id
        self._config = config
        self.copying = copying

    def startup(self, path_of: PathOf, reserve_traffic: Callable[[], None]) -> None:
        """Take part in the cluster's copies, before the broker's own dynamic config is known."""
        self.copying.join(self._broker_id, path_of, reserve_traffic)
        self.on_config({}, {})

    def on_config(self, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        """Take over what the broker's own dynamic config is now, and that of all brokers, which
        says nothing of throttles. With a rate that is none everything stays as it is."""
        broker_id = self._broker_id
        try:
            known = {**self._config.bandwidth, **defaults, **overrides}
            found = capacities(broker_id, self._config.log_dirs, known)
            found |= throttles(broker_id, overrides)
        except InvalidConfig as error:
            logger.warning("broker %d: %s", broker_id, error.message)
        else:
            self.copying.set_capacities(found)

    # -- as a leader

    def begin(
        self, tp: TopicPartition, partition: Partition, replica_id: int, answer: FetchedPartition
    ) -> bool:
        """Send an answer with records as a copy; False if nothing limits it."""
        if answer.records is None or not self.copying.is_limited:
            return False
        flow = self._flow(ReplicaCopy(tp, self._broker_id, replica_id), partition)
        return self.copying.begin(flow, size_of(answer.records), answer)

    def on_arrived(
        self, replica_id: int, size_bytes: int, partition: Partition, now_ms: float
    ) -> None:
        """Note that records have gone to a follower of a partition that is still led from here."""
        assert partition.log is not None
        remote = partition.remote(replica_id)
        if remote is not None and size_bytes > self._config.replica_fetch_max_bytes:
            remote.record_arrival(partition.log.log_end_offset, now_ms)

    def on_topic_config(self, topic: str, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Throttle what is on its way, or do not any more, as the topic says now."""
        for copy_id in self.copying.of_owner(self._broker_id):
            tp = copy_id.topic_partition
            partition = partitions.get(tp)
            if tp.topic == topic and partition is not None and isinstance(copy_id, ReplicaCopy):
                self.copying.change(self._flow(copy_id, partition))

    def _flow(self, copy_id: ReplicaCopy, partition: Partition) -> Flow[CopyId]:
        assert partition.log is not None
        tp, leader, follower = copy_id
        config = partition.log.config
        remote = partition.remote(follower)
        is_in_isr = follower in partition.isr
        return replication_flow(
            copy_id,
            self.copying.place_of(tp, leader),
            self.copying.place_of(tp, follower),
            # What a replica in sync has not is so new that it is still in memory.
            from_disk=not is_in_isr,
            leader_throttled=config.leader_throttled.has(tp.partition, leader),
            in_isr=is_in_isr,
            follower_throttled=config.follower_throttled.has(tp.partition, follower),
            caught_up=remote is not None and remote.log_end_offset >= partition.high_watermark,
        )

    # -- as a follower

    def end(self, tp: TopicPartition, leader: int) -> FetchedPartition | None:
        """Nothing more comes from this leader; what has come and is not taken yet."""
        if not self.copying.is_limited:
            return None
        arrived = self.copying.end(ReplicaCopy(tp, leader, self._broker_id))
        return None if arrived is None else arrived.answer

    # -- as either

    def on_gone(self, tp: TopicPartition, leader: int) -> None:
        """This broker has the replica no more, whether it led or followed."""
        for copy_id in tuple(self.copying.of_owner(self._broker_id)):
            if copy_id.topic_partition == tp and isinstance(copy_id, ReplicaCopy):
                self.copying.give_up(copy_id)
        self.copying.end(ReplicaCopy(tp, leader, self._broker_id))
