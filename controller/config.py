"""Startup configuration of a controller: the broker configs it uses, and klamm-specific settings.

A field that is named like a Kafka broker config holds the value of that config (see
cluster/configs.py).
"""

from __future__ import annotations

import msgspec

from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.placement.pools import NO_POOLS, Pools
from klamm.zk.fenced_writes import GROUP_SIZE


class ControllerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one controller.

    - ``run_id`` and ``cluster_id`` are part of every journal row.
    - ``num_partitions`` and ``default_replication_factor`` replace -1 in a CreateTopics request.
    - ``unclean_leader_election_enable`` applies to topics that do not override the config.
    - ``delete_topic_enable``: if False, requests in /admin/delete_topics are removed, and the
      topics are kept.
    - ``auto_leader_rebalance_enable``: check the leader imbalance of every broker 5 s after a
      failover and then every ``leader_imbalance_check_interval_seconds``. A broker is imbalanced
      if other brokers lead more than ``leader_imbalance_per_broker_percentage`` percent of the
      partitions whose preferred leader is this broker; the preferred leaders are then elected.
    - ``write_group_size``: maximum number of writes per fenced transaction; Kafka uses 1.
    - ``is_alter_isr_enabled``: leaders propose ISRs to the controller. If False (inter-broker
      protocol before 2.7), leaders write ISRs to ZooKeeper, and the controller watches the state
      znodes of the partitions being reassigned.
    - ``pools``: brokers on which each topic may be placed; with NO_POOLS, all brokers.
    - ``partition_limits``: limits on the number of partitions, per request and in the cluster.
    - ``is_feature_versioning_supported``: if False (inter-broker protocol before 2.7), feature
      versioning is disabled in the znode /feature.
    - ``uses_topic_ids``: if False (inter-broker protocol before 2.8), new topics get no id.
    - ``journal_messages``: also journal every request sent and response received.
    - ``takes_over``: replace the active controller when the process starts.
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
    pools: Pools = NO_POOLS
    partition_limits: PartitionLimits = DEFAULT_LIMITS
    journal_messages: bool = False
    write_group_size: int = GROUP_SIZE
    takes_over: bool = False
