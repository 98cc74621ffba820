"""What a controller is told at its start: Kafka's broker settings that the controller reads.

Values only; a field that is named like a broker's config has its value (cluster/configs.py).
"""

from __future__ import annotations

import msgspec

from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.placement.pools import Pools
from klamm.zk.fenced_writes import GROUP_SIZE


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one controller.

    ``run_id`` and ``cluster_id`` go into every journal row. ``num_partitions`` and
    ``default_replication_factor`` stand in for -1 in a CreateTopics request.
    ``unclean_leader_election_enable`` holds for topics whose config does not say.
    ``delete_topic_enable`` False: requests to delete topics are taken away, and nothing is deleted.
    ``auto_leader_rebalance_enable``: 5 s after a failover and then at every interval a broker gets
    back the leaderships it is preferred for, if more than that percentage of them are elsewhere.
    ``write_group_size``: how many writes share one fence and one transaction, at most; Kafka: 1.
    ``is_alter_isr_enabled``: leaders propose ISRs to the controller; otherwise (before the
    inter-broker protocol 2.7) they write them, and the controller watches what it reassigns.
    ``pools``: where topics may be placed; None: anywhere. ``partition_limits``: how many partitions
    may be created.
    ``is_feature_versioning_supported`` False (before 2.7): /feature is disabled.
    ``uses_topic_ids`` False (before 2.8): new topics get no id.
    ``journal_messages``: also journal every request sent and response received.
    """

    broker_id: int
    run_id: str = ""
    cluster_id: str | None = None
    num_partitions: int
    default_replication_factor: int
    unclean_leader_election_enable: bool
    delete_topic_enable: bool
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    controller_socket_timeout_ms: int
    is_alter_isr_enabled: bool = True
    is_feature_versioning_supported: bool = True
    uses_topic_ids: bool = True
    pools: Pools | None = None
    partition_limits: PartitionLimits = DEFAULT_LIMITS
    journal_messages: bool = False
    write_group_size: int = GROUP_SIZE
