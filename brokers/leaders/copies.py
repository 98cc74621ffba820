"""Replica copies that one broker sends as leader and receives as follower, if bandwidth is limited.

This module determines which limits apply to each copy: disks, networks, and the replication
throttles in the topic config. brokers/bandwidth/ computes when the copy arrives; leader_replicas.py
and brokers/replica_manager.py handle the records. Mirrors shouldLeaderThrottle of
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
from klamm.cluster.configs import effective_broker_configs
from klamm.cluster.data_requests import FetchedPartition
from klamm.cluster.errors import InvalidConfig
from klamm.cluster.records import size_of
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class Copies:
    """The replica copies that one broker sends as leader and receives as follower.

    The broker's dynamic config overrides the bandwidth in ``config``.
    """

    def __init__(self, broker_id: int, config: BrokerConfig, copying: Copying) -> None:
        self._broker_id = broker_id
        self._config = config
        self.copying = copying

    def startup(self, path_of: PathOf, reserve_traffic: Callable[[], None]) -> None:
        """Add the broker, with its static bandwidth config, to the cluster's bandwidth model."""
        self.copying.join(self._broker_id, path_of, reserve_traffic)
        self.on_config({}, {})

    def on_config(self, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        """Apply the broker's dynamic config and the cluster defaults to the bandwidth model.

        As in Kafka, throttles in the cluster defaults have no effect, and if a throttle is invalid,
        the error is logged, and the previous throttles stay in effect.
        """
        broker_id = self._broker_id
        known = effective_broker_configs(overrides, defaults, self._config.bandwidth)
        found = capacities(broker_id, self._config.log_dirs, known)
        try:
            found |= throttles(broker_id, overrides)
        except InvalidConfig as error:
            logger.warning("broker %d: %s", broker_id, error.message)
        self.copying.set_capacities(found)

    # -- as a leader

    def begin(
        self, tp: TopicPartition, partition: Partition, replica_id: int, answer: FetchedPartition
    ) -> bool:
        """Send a response with records through the bandwidth model, if a limit applies.

        Return False if no limit applies or the response has no records. The caller must then send
        the response.
        """
        if answer.records is None or not self.copying.is_limited:
            return False
        flow = self._flow(ReplicaCopy(tp, self._broker_id, replica_id), partition)
        return self.copying.begin(flow, size_of(answer.records), answer)

    def on_arrived(
        self, replica_id: int, size_bytes: int, partition: Partition, now_ms: float
    ) -> None:
        """Update the state of a follower after a copy to the follower has ended."""
        assert partition.log is not None
        remote = partition.remote(replica_id)
        if remote is not None and size_bytes > self._config.replica_fetch_max_bytes:
            remote.record_arrival(partition.log.log_end_offset, now_ms)

    def on_topic_config(self, topic: str, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Apply changed throttles in a topic's config to the copies in progress."""
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
            # An in-sync replica lacks only records that are new enough to be in the page cache.
            from_disk=not is_in_isr,
            leader_throttled=config.leader_throttled.has(tp.partition, leader),
            in_isr=is_in_isr,
            follower_throttled=config.follower_throttled.has(tp.partition, follower),
            caught_up=remote is not None and remote.log_end_offset >= partition.high_watermark,
        )

    # -- as a follower

    def end(self, tp: TopicPartition, leader: int) -> FetchedPartition | None:
        """End the copy from a leader to this broker before it completes.

        Return a response with the records that have arrived but are not appended yet. Return None
        if there are no such records.
        """
        if not self.copying.is_limited:
            return None
        arrived = self.copying.end(ReplicaCopy(tp, leader, self._broker_id))
        return None if arrived is None else arrived.answer

    # -- as either

    def on_gone(self, tp: TopicPartition, leader: int) -> None:
        """End all copies to and from a replica that this broker no longer hosts."""
        for copy_id in tuple(self.copying.of_owner(self._broker_id)):
            if copy_id.topic_partition == tp and isinstance(copy_id, ReplicaCopy):
                self.copying.give_up(copy_id)
        self.copying.end(ReplicaCopy(tp, leader, self._broker_id))
