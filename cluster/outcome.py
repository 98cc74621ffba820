"""Result of a pipelined batch of partition state writes.

The fenced controller client (zk/) produces the result, and the apply functions of the state
machines (statemachines/) consume it; neither package imports the other. Mirrors
kafka.zk.KafkaZkClient.UpdateLeaderAndIsrResult.
"""

from __future__ import annotations

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.types import LeaderAndIsr, TopicPartition


class WriteOutcome(msgspec.Struct, frozen=True):
    """Result of writing partition states. Every partition is in exactly one of the three fields.

    - ``finished``: the stored state with the new ``zk_version``, or the reason why the write
      failed.
    - ``retry``: partitions whose state znode had another version (BADVERSION). The caller must read
      the states again and repeat the changes.
    - ``missing``: partitions without a state znode, with the reason (NONODE). Kafka reads a state
      before it changes it, and so fails with another message, unless a leader changes its ISR.
    """

    finished: dict[TopicPartition, LeaderAndIsr | StateChangeFailed] = {}
    retry: list[TopicPartition] = []
    missing: dict[TopicPartition, StateChangeFailed] = {}

    @property
    def unwritten(self) -> list[TopicPartition]:
        """The partitions whose states must be read again: those to retry, and the missing ones."""
        return [*self.retry, *self.missing]
