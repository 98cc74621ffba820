"""Result of a pipelined batch of partition state writes.

Passed from the fenced controller client (zk/) to the apply step of the state machines
(statemachines/), which do not import each other. Mirrors
kafka.zk.KafkaZkClient.UpdateLeaderAndIsrResult.
"""

from __future__ import annotations

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.types import LeaderAndIsr, TopicPartition


class WriteOutcome(msgspec.Struct, frozen=True):
    """Result of writing partition states; every partition is in exactly one of the two fields.

    ``finished``: the stored state with its new ``zk_version``, or why it could not be stored.
    ``retry``: partitions with another znode version (BADVERSION), to be read and planned again.
    """

    finished: dict[TopicPartition, LeaderAndIsr | StateChangeFailed] = {}
    retry: list[TopicPartition] = []
