"""Settings of a simulated broker: log directories, backoffs and timeouts.

A field that has the name of a Kafka config holds the value of that config (cluster/configs.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from klamm.brokers.log_configs import broker_log_config
from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.api_version import ApiVersion
from klamm.cluster.configs import BROKER_CONFIGS, CAPACITIES, broker_fields, split_log_dirs


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one broker. All times are in milliseconds.

    - ``alter_isr_backoff_ms``: delay between AlterIsr requests, a constant in Kafka
      (DefaultAlterIsrManager).
    - ``is_alter_isr_enabled``: if False, leaders write ISRs to ZooKeeper, as before inter-broker
      protocol 2.7-IV2.
    - ``halts_on_log_dir_failure``: if True, the first failed log directory halts the broker, as
      before inter-broker protocol 1.0.
    - ``num_replica_alter_log_dirs_threads``: if None, there is one thread for each log directory.
    - ``log_flush_scheduler_interval_ms``: the interval between checks for records that have been
      unflushed for flush.ms.
    - ``hosts_replicas``: if False, the broker answers LeaderAndIsr as if its log directories had
      failed, so that the controller elects other leaders. Kafka has no equivalent.
    - ``log``: log defaults, which topic configs override.
    - ``bandwidth``: the bandwidth configs of disks and network (CAPACITIES), keyed by config name.
    """

    log_dirs: tuple[str, ...]
    replica_fetch_backoff_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_max_bytes: int
    num_replica_alter_log_dirs_threads: int | None
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    auto_create_topics_enable: bool
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    alter_isr_backoff_ms: int = 50
    is_alter_isr_enabled: bool
    halts_on_log_dir_failure: bool
    unclean_leader_election_enable: bool
    log: LogConfig
    log_retention_check_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    bandwidth: Mapping[str, str]
    fetch_max_bytes: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    max_incremental_fetch_session_cache_slots: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    hosts_replicas: bool = True


def broker_config(properties: Mapping[str, str]) -> BrokerConfig:
    """Return the BrokerConfig for Kafka properties; unrelated properties are ignored.

    Raises InvalidConfig if a value is invalid.
    """
    protocol = ApiVersion(BROKER_CONFIGS["inter.broker.protocol.version"].value(properties))
    values = broker_fields(BrokerConfig.__struct_fields__, properties)
    values["log_dirs"] = split_log_dirs(
        values["log_dirs"] or BROKER_CONFIGS["log.dir"].value(properties)
    )
    return BrokerConfig(
        **values,
        is_alter_isr_enabled=protocol.is_alter_isr_supported,
        halts_on_log_dir_failure=not protocol.marks_new_replicas,
        log=broker_log_config(properties),
        bandwidth={name: str(BROKER_CONFIGS[name].value(properties)) for name in CAPACITIES},
    )
