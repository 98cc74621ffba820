"""What a simulated broker is told at its start: log directories, backoffs, timeouts.

Only values and their parsing; nothing is looked up. Names and defaults are those of
kafka.server.KafkaConfig, but for ``catch_up`` and ``bandwidth``, which are klamm's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from brokers.bandwidth.replication_quotas import BANDWIDTH_CONFIGS, capacities
from brokers.log_configs import broker_log_config
from brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from cluster.api_version import inter_broker_protocol
from cluster.errors import InvalidConfig

CatchUp = Literal["released", "held"]


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one broker; times in milliseconds.

    ``alter_isr_backoff_ms`` is fixed in Kafka (DefaultAlterIsrManager).
    ``is_alter_isr_enabled`` False: leaders write ISRs themselves, as before the inter-broker
    protocol 2.7-IV2. ``halts_on_log_dir_failure``: the first failed log directory ends the broker,
    as before 1.0. ``num_replica_alter_log_dirs_threads`` None: one for each log directory.
    ``log_flush_scheduler_interval_ms``: how often logs are looked at that flush.ms wants flushed;
    None: never. ``catch_up`` "held" keeps followers from fetching until
    ``Broker.release_catch_up``. ``log``: what all logs are told whose topic does not say otherwise.
    ``bandwidth``: what is said of BANDWIDTH_CONFIGS.
    """

    log_dirs: tuple[str, ...] = ("kafka-logs",)
    replica_fetch_backoff_ms: int = 1000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_max_bytes: int = 1 << 20
    num_replica_alter_log_dirs_threads: int | None = None
    replica_lag_time_max_ms: int = 30_000
    replica_socket_timeout_ms: int = 30_000
    request_timeout_ms: int = 30_000
    controlled_shutdown_enable: bool = True
    controlled_shutdown_max_retries: int = 3
    controlled_shutdown_retry_backoff_ms: int = 5000
    alter_isr_backoff_ms: int = 50
    is_alter_isr_enabled: bool = True
    halts_on_log_dir_failure: bool = False
    unclean_leader_election_enable: bool = False
    log: LogConfig = DEFAULT_LOG_CONFIG
    log_retention_check_interval_ms: int = 5 * 60 * 1000
    log_flush_scheduler_interval_ms: int | None = None
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    bandwidth: Mapping[str, str] = {}
    catch_up: CatchUp = "released"


_TIMES: Final = (
    "replica_fetch_backoff_ms",
    "replica_fetch_wait_max_ms",
    "replica_lag_time_max_ms",
    "replica_socket_timeout_ms",
    "request_timeout_ms",
    "controlled_shutdown_retry_backoff_ms",
    "log_retention_check_interval_ms",
    "log_flush_scheduler_interval_ms",
    "log_flush_offset_checkpoint_interval_ms",
    "log_flush_start_offset_checkpoint_interval_ms",
    "replica_high_watermark_checkpoint_interval_ms",
)
_FETCH_MAX_BYTES: Final = "replica.fetch.max.bytes"
_MOVERS: Final = "num.replica.alter.log.dirs.threads"
_RETRIES: Final = "controlled.shutdown.max.retries"
_ENABLE: Final = "controlled.shutdown.enable"


def broker_config(properties: Mapping[str, str]) -> BrokerConfig:
    """A BrokerConfig from Kafka's property names; properties of other parts are passed over.

    Raises InvalidConfig if a value does not fit.
    """
    values: dict[str, bool | int | tuple[str, ...] | dict[str, str]] = {}
    for field in _TIMES:
        name = field.replace("_", ".")
        if name in properties:
            values[field] = _whole(name, properties[name], hint="a whole number of milliseconds")
    if _RETRIES in properties:
        retries = properties[_RETRIES]
        if not retries.isdecimal():
            raise InvalidConfig(f"Invalid value {retries} for configuration {_RETRIES}")
        values["controlled_shutdown_max_retries"] = int(retries)
    if _FETCH_MAX_BYTES in properties:
        values["replica_fetch_max_bytes"] = _whole(
            _FETCH_MAX_BYTES, properties[_FETCH_MAX_BYTES], hint="bytes, not negative"
        )
    if _MOVERS in properties:
        values["num_replica_alter_log_dirs_threads"] = _count(_MOVERS, properties[_MOVERS])
    values["controlled_shutdown_enable"] = properties.get(_ENABLE, "true") == "true"
    unclean = properties.get("unclean.leader.election.enable", "false")
    values["unclean_leader_election_enable"] = unclean == "true"
    protocol = inter_broker_protocol(properties)
    values["is_alter_isr_enabled"] = protocol.is_alter_isr_supported
    values["halts_on_log_dir_failure"] = not protocol.tells_new_replicas
    dirs = properties.get("log.dirs") or properties.get("log.dir")
    if dirs is not None:
        values["log_dirs"] = _log_dirs(dirs)
    bandwidth = {name: properties[name] for name in BANDWIDTH_CONFIGS if name in properties}
    capacities(0, (), bandwidth)
    values["bandwidth"] = bandwidth
    return msgspec.structs.replace(
        msgspec.convert(values, BrokerConfig), log=broker_log_config(properties)
    )


def _log_dirs(word: str) -> tuple[str, ...]:
    paths = tuple(path for path in (part.strip() for part in word.split(",")) if path)
    if not paths:
        raise InvalidConfig("At least one log directory must be defined via log.dirs or log.dir.")
    if len(set(paths)) < len(paths):
        raise InvalidConfig(f"Duplicate log directory found: {', '.join(paths)}")
    return paths


def _count(name: str, word: str) -> int:
    if not word.isdecimal() or int(word) == 0:
        raise InvalidConfig(f"Invalid value {word} for configuration {name}", hint="1 or more")
    return int(word)


def _whole(name: str, word: str, hint: str) -> int:
    try:
        value = int(word)
    except ValueError:
        value = -1
    if value < 0:
        raise InvalidConfig(f"Invalid value {word} for configuration {name}", hint=hint)
    return value
