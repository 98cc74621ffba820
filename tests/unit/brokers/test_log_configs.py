"""What logs are told by a broker's properties and a topic's overrides.

Sources: LogConfig.fromProps, KafkaConfig.{getLogRollTimeMillis, getLogRetentionTimeMillis}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import pytest

from klamm.brokers.log_configs import TopicLogConfigs, broker_log_config, topic_log_config
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG
from klamm.cluster.errors import InvalidConfig


def test_properties_are_defaults_of_all_logs() -> None:
    config = broker_log_config(
        {"log.segment.bytes": "4000", "log.retention.bytes": "-1", "log.cleanup.policy": "compact"}
    )
    assert config == msgspec.structs.replace(
        DEFAULT_LOG_CONFIG, segment_bytes=4000, cleanup_policy=("compact",)
    )
    assert broker_log_config({}) == DEFAULT_LOG_CONFIG


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finer_unit_of_a_retention_time_holds(
    properties: Mapping[str, str], retention_ms: int
) -> None:
    assert broker_log_config(properties).retention_ms == retention_ms


@pytest.mark.parametrize("word", ["x", "13", "", "1e3"])
def test_a_property_that_does_not_fit_is_refused(word: str) -> None:
    with pytest.raises(InvalidConfig, match=r"configuration log\.segment\.bytes"):
        broker_log_config({"log.segment.bytes": word})


def test_a_topic_overrides_and_invalid_overrides_are_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    overrides = {"retention.ms": "7", "segment.bytes": "x", "cleanup.policy": "compact,delete"}
    config = topic_log_config("t", overrides, DEFAULT_LOG_CONFIG)
    assert config == msgspec.structs.replace(
        DEFAULT_LOG_CONFIG, retention_ms=7, cleanup_policy=("compact", "delete")
    )
    (message,) = caplog.messages
    assert message.startswith("topic t: Invalid value x for configuration segment.bytes: ")
    assert topic_log_config("t", {}, DEFAULT_LOG_CONFIG) is DEFAULT_LOG_CONFIG


def test_a_negative_size_is_no_limit_as_in_kafka() -> None:
    config = topic_log_config("t", {"retention.bytes": "-5"}, DEFAULT_LOG_CONFIG)
    assert config.retention_bytes == -5


def test_topics_that_are_read_ahead_are_read_once() -> None:
    asked: list[list[str]] = []

    def read(topics: Iterable[str]) -> dict[str, dict[str, str]]:
        asked.append(list(topics))
        return {topic: {"retention.ms": "7"} for topic in asked[-1]}

    configs = TopicLogConfigs(DEFAULT_LOG_CONFIG, read)
    with configs.read_ahead(["a", "b"]):
        assert [configs(topic).retention_ms for topic in "aab"] == [7, 7, 7]
    assert configs("a").retention_ms == 7
    assert asked == [["a", "b"], ["a"]]


def test_topics_override_when_logs_flush_and_which_timestamps_count() -> None:
    broker = broker_log_config(
        {
            "log.flush.interval.messages": "100",
            "log.flush.scheduler.interval.ms": "2000",
            "log.message.timestamp.type": "LogAppendTime",
        }
    )
    assert (broker.flush_messages, broker.flush_ms, broker.is_log_append_time) == (100, 2000, True)
    overrides = {
        "flush.messages": "1",
        "flush.ms": "5",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.difference.max.ms": "9",
    }
    topic = topic_log_config("t", overrides, broker)
    assert (topic.flush_messages, topic.flush_ms, topic.is_log_append_time) == (1, 5, False)
    assert topic.timestamp_difference_max_ms == 9
    with pytest.raises(InvalidConfig, match="must be one of: CreateTime, LogAppendTime"):
        broker_log_config({"log.message.timestamp.type": "createtime"})


@pytest.mark.parametrize(
    ("word", "found"), [("producer", None), ("uncompressed", 0), ("gzip", 1), ("zstd", 4)]
)
def test_a_topic_says_how_its_logs_compress(word: str, found: int | None) -> None:
    assert broker_log_config({"compression.type": word}).compression_id == found
    defaults = broker_log_config({"compression.type": "lz4"})
    assert topic_log_config("t", {"compression.type": word}, defaults).compression_id == found
    assert topic_log_config("t", {"compression.type": "bzip2"}, defaults) == defaults
