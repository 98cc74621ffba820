"""Lists of throttled replicas, as topic configs have them."""

from __future__ import annotations

import pytest

from klamm.brokers.log_configs import topic_log_config
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG, NONE_THROTTLED, ThrottledReplicas
from klamm.cluster.configs import (
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
    TOPIC_CONFIGS,
)
from klamm.cluster.errors import InvalidConfig


def throttled(text: str) -> ThrottledReplicas:
    return ThrottledReplicas.of(TOPIC_CONFIGS[LEADER_THROTTLED_REPLICAS].parse(text))


def test_listed_are_replicas_of_brokers() -> None:
    listed = throttled(" 0:1,1:2,2:1, ")
    assert [listed.has(partition, 1) for partition in range(4)] == [True, False, True, False]
    assert listed.has(1, 2)
    assert throttled(f"{'9' * 5000}:1,3:1").has(3, 1), "int() takes 4,300 digits"
    assert throttled("*").has(99, 1)
    assert not throttled("").has(0, 1)


@pytest.mark.parametrize("value", ["0", "0:1;1:1", "a:b", "0:1,*", "*,*", "0:-1", "0 :1"])
def test_a_list_that_is_none_is_refused_and_a_topic_with_it_has_none(value: str) -> None:
    with pytest.raises(InvalidConfig, match=r"must be the literal '\*' or a list of replicas"):
        throttled(value)
    overrides = {FOLLOWER_THROTTLED_REPLICAS: value, LEADER_THROTTLED_REPLICAS: "0:1"}
    config = topic_log_config("t", overrides, DEFAULT_LOG_CONFIG)
    assert config.follower_throttled == NONE_THROTTLED
    assert config.leader_throttled.has(0, 1)
