"""What ZooKeeper acknowledged of a wave of partition state writes.

The value that passes from the fenced controller client (zk/) to the apply step of the state
machines (statemachines/), which do not know each other. Mirrors
kafka.zk.KafkaZkClient.UpdateLeaderAndIsrResult.
"""

from __future__ import annotations

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.types import LeaderAndIsr, TopicPartition


class WriteOutcome(msgspec.Struct, frozen=True):
    """Result of writing partition states; every partition written is in exactly one of the two.

    ``finished``: the state as stored, with its new ``zk_version``, or why it could not be stored.
    ``retry``: partitions whose znode had another version (BADVERSION): read again, plan again.
    """

    finished: dict[TopicPartition, LeaderAndIsr | StateChangeFailed] = {}
    retry: list[TopicPartition] = []
