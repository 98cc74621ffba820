"""What replication and moves share, and what Kafka's throttles do to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klamm.brokers.bandwidth.model import UNLIMITED, Resource, ResourceKind
from klamm.brokers.bandwidth.replication_quotas import (
    LogPlace,
    constant_traffic,
    directory_move_flow,
    replication_flow,
    throttles,
)
from klamm.cluster.errors import InvalidConfig
from tests.bandwidth import rates

MB = 1_000_000
ONE, TWO, THREE = (LogPlace(broker_id, "a") for broker_id in (1, 2, 3))
NETWORK = {
    Resource(kind, broker_id): 100 * MB
    for kind in (ResourceKind.NETWORK_IN, ResourceKind.NETWORK_OUT)
    for broker_id in (1, 2, 3)
}
LEADER = "leader.replication.throttled.rate"
FOLLOWER = "follower.replication.throttled.rate"
MOVE = "replica.alter.log.dirs.io.max.bytes.per.second"


def test_replication_is_as_fast_as_the_slowest_on_its_way() -> None:
    flow = replication_flow("f", ONE, TWO)
    assert rates([flow], NETWORK) == {"f": 100 * MB}
    for resource in flow.resources:
        assert rates([flow], NETWORK | {resource: 30 * MB}) == {"f": 30 * MB}
    cached = replication_flow("f", ONE, TWO, from_disk=False)
    assert rates([cached], NETWORK | {ONE.disk: 30 * MB}) == {"f": 100 * MB}


def test_a_leader_serves_its_followers_alike() -> None:
    flows = [replication_flow(place.broker_id, ONE, place) for place in (TWO, THREE)]
    assert rates(flows, NETWORK) == {2: 50 * MB, 3: 50 * MB}
    slow = NETWORK | {TWO.disk: 20 * MB}
    assert rates(flows, slow) == {2: 20 * MB, 3: 80 * MB}


def test_a_move_uses_only_disks_and_shares_them_with_replication() -> None:
    replication = replication_flow("replication", ONE, TWO)
    move = directory_move_flow("move", TWO, "b")
    disks = {TWO.disk: 120 * MB, LogPlace(2, "b").disk: 500 * MB}
    assert rates([move], NETWORK | disks) == {"move": 120 * MB}
    assert rates([replication, move], NETWORK | disks) == {"replication": 60 * MB, "move": 60 * MB}
    throttled = NETWORK | disks | throttles(2, {MOVE: str(40 * MB)})
    assert rates([replication, move], throttled) == {"replication": 80 * MB, "move": 40 * MB}


def test_a_throttle_is_for_all_replicas_of_a_broker_that_are_listed_together() -> None:
    flows = [
        replication_flow(2, ONE, TWO, leader_throttled=True, follower_throttled=True),
        replication_flow(3, ONE, THREE, leader_throttled=True, follower_throttled=True),
        replication_flow("free", ONE, THREE),
    ]
    leader = throttles(1, {LEADER: str(10 * MB)})
    assert rates(flows, NETWORK | leader) == {2: 5 * MB, 3: 5 * MB, "free": 90 * MB}
    follower = leader | throttles(2, {FOLLOWER: str(MB)})
    assert rates(flows, NETWORK | follower) == {2: MB, 3: 9 * MB, "free": 90 * MB}
    nobody = throttles(1, {FOLLOWER: "1"}) | throttles(2, {LEADER: "1", MOVE: "1"})
    assert rates(flows[:1], NETWORK | nobody) == {2: 100 * MB}


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_in_sync_are_counted_and_not_held_back(side: str) -> None:
    leads = side == "leader"
    source, other = (ONE, TWO) if leads else (TWO, ONE)
    config = {LEADER if leads else FOLLOWER: str(10 * MB)}
    flows = [
        replication_flow(
            name,
            source,
            other,
            leader_throttled=leads,
            follower_throttled=not leads,
            in_isr=leads and in_sync,
            caught_up=not leads and in_sync,
        )
        for name, in_sync in (("in sync", True), ("new", False))
    ]
    slow = Resource(ResourceKind.NETWORK_IN, 9)
    flows[0] = replace(flows[0], resources=(*flows[0].resources, slow))
    capacities = NETWORK | {slow: 7 * MB}
    assert rates(flows, capacities | throttles(1, config)) == {"in sync": 7 * MB, "new": 3 * MB}
    assert rates(flows, capacities | throttles(1, dict.fromkeys(config, "5"))) == {
        "in sync": 7 * MB,
        "new": 0,
    }


def test_rates_that_a_broker_has_not_set_itself_do_not_limit() -> None:
    assert set(throttles(1, {}).values()) == {UNLIMITED}
    assert throttles(1, {LEADER: " 0 ", FOLLOWER: "+7"}) == {
        Resource(ResourceKind.LEADER_THROTTLE, 1): 0,
        Resource(ResourceKind.FOLLOWER_THROTTLE, 1): 7,
        Resource(ResourceKind.MOVE_THROTTLE, 1): UNLIMITED,
    }


@pytest.mark.parametrize("value", ["", "-1", "1.5", "1e6", "fast", str(2**63)])
def test_an_invalid_throttle_rate_is_refused(value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"Invalid value {value} for configuration {LEADER}: "):
        throttles(1, {LEADER: value})


def test_a_constant_rate_uses_links_disks_and_throttles_of_the_leader_and_its_followers() -> None:
    traffic = constant_traffic(5, ONE, [(TWO, True), (THREE, False)], leader_throttled=True)
    assert traffic == {
        Resource(ResourceKind.NETWORK_IN, 1): 5,
        ONE.disk: 5,
        Resource(ResourceKind.NETWORK_OUT, 1): 10,
        Resource(ResourceKind.LEADER_THROTTLE, 1): 10,
        Resource(ResourceKind.NETWORK_IN, 2): 5,
        TWO.disk: 5,
        Resource(ResourceKind.FOLLOWER_THROTTLE, 2): 5,
        Resource(ResourceKind.NETWORK_IN, 3): 5,
        THREE.disk: 5,
    }
    plain = constant_traffic(5, ONE, [(THREE, False)])
    assert {resource.kind for resource in plain} == {
        ResourceKind.NETWORK_IN,
        ResourceKind.NETWORK_OUT,
        ResourceKind.DISK,
    }
