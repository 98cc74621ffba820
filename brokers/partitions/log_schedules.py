"""The seam between the replicas of a broker and logs that grow by a schedule, without requests.

Leaders, followers and log maintenance call these methods, and do not know why a log grows. This
class is a broker in which every log grows by requests only: its methods do nothing.
brokers/constant_rate/ overrides them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchPartition
from klamm.cluster.types import TopicPartition


class LogSchedules:
    """The logs of one broker that grow by a schedule: none."""

    def __contains__(self, tp: object) -> bool:
        """Return True if the replica's log grows by a schedule."""
        return False

    def look_up(self, tp: TopicPartition) -> None:
        """Append the records that are due to a replica that is about to be read or changed."""

    def materialize_all(self) -> bool:
        """Append the records that are due to all replicas; return True if more will become due."""
        return False

    def on_new_epoch(self, tp: TopicPartition) -> None:
        """Handle a new leader epoch of a partition that this broker leads."""

    def end(self, tp: TopicPartition, error: Errors) -> None:
        """Stop appending to a replica by schedule. A leader sends ``error`` to the producer."""

    # -- as a leader

    def on_fetch(
        self, tp: TopicPartition, partition: Partition, replica_id: int, asked: FetchPartition
    ) -> bool:
        """Process a follower's fetch; return False if the follower must fetch again.

        The follower then has followed a schedule that is no longer valid.
        """
        return True

    def offer(
        self,
        tp: TopicPartition,
        partition: Partition,
        replica_id: int,
        answer: FetchedPartition | None,
    ) -> FetchedPartition | None:
        """Return a response that lets the follower follow the schedule, to replace ``answer``.

        Return None if the partition has no schedule, or if the follower cannot follow it yet.
        """
        return None

    def may_lag(self, tp: TopicPartition, partition: Partition, replica_id: int) -> bool:
        """Return True if the partition has a schedule that the follower does not follow."""
        return False

    def is_reachable(self, tp: TopicPartition, replica_id: int) -> bool:
        """Return False if the partition has a schedule that the follower cannot be offered."""
        return True

    def to_notify(self, tp: TopicPartition, partition: Partition) -> list[int]:
        """Return the followers to which the leader must send a new high watermark."""
        return [remote.replica_id for remote in partition.remotes]

    def enough_ms(
        self, room: Mapping[TopicPartition, int], missing_bytes: int, now_ms: float, until_ms: float
    ) -> float:
        """Return the time at which schedules will have added ``missing_bytes`` for a fetch.

        Only bytes below high watermarks count, at most ``room`` for each partition. Call
        ``look_up`` first. Return infinity if the schedules add fewer bytes by ``until_ms``.
        """
        return math.inf

    # -- as a follower

    def name_agreements(self, asked: dict[TopicPartition, FetchPartition]) -> None:
        """Add to a fetch the schedules that this broker has accepted as a follower."""

    def on_answer(self, tp: TopicPartition, answer: FetchedPartition, now_ms: float) -> bool:
        """Process a leader's response; return True if it only confirms the schedule.

        Any other response ends the schedule, and the caller has to process its contents.
        """
        return False

    def accept(self, tp: TopicPartition, partition: Partition, answer: FetchedPartition) -> bool:
        """Follow the schedule in a response, if there is one and it starts at the log end.

        Return True if this broker now follows the schedule. Its next fetch notifies the leader.
        """
        return False
