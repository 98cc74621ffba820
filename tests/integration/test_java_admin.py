"""Kafka's Java admin client on klamm's listeners, while leaders are killed and controllers move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from klamm.lab.actions.actions import Kill, MoveController, Start
from klamm.server.cluster_server import ClusterServer
from tests.group_members import PATIENCE_S, read
from tests.java_clients import JavaClient, java_params
from tests.listeners import (
    BROKERS,
    bootstrap,
    brokers_in_metadata,
    config_of,
    coordinator,
    free_ports,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Call = Callable[..., str]


@pytest.fixture
def server(has_segments: bool, chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    config = config_of(chroot, tmp_path, str(free_ports(BROKERS)), has_segments=has_segments)
    with ClusterServer(config) as opened:
        yield opened


def await_death(server: ClusterServer, dead: int) -> None:
    """Wait until no broker names a dead one: some calls of the Java client wait for it in vain."""
    live = {*range(BROKERS)} - {dead}
    wait_until(
        lambda: all(brokers_in_metadata(server, one) == len(live) for one in live), PATIENCE_S
    )


@pytest.mark.client(shows="admin calls: topics, configs, reassignments, elections, log directories")
@pytest.mark.parametrize("client", java_params(lambda client: (client,)))
def test_topics_are_administered_while_a_leader_dies_and_the_controller_moves(
    server: ClusterServer, client: JavaClient
) -> None:
    with client.admin(bootstrap(server)) as call:
        assert call("describeCluster") == "0:1:2"
        assert call("createTopics", "a", "1:2", "2:0") == "2 of 2"
        assert call("createTopics", "a", "1:2").endswith("Topic 'a' already exists.")
        # Only the controller's broker is sure to know the topic at once.
        described = "0: 1:2 isr 1:2, 1: 2:0 isr 0:2"
        wait_until(lambda: call("describeTopics", "a") == described, PATIENCE_S)
        server.operations.perform(MoveController())
        assert call("createPartitions", "a", 3) == "done"
        assert call("incrementalAlterConfigs", "a", "retention.ms", 5000) == "done"
        assert call("describeConfigs", "a", "retention.ms") == "5000 DYNAMIC_TOPIC_CONFIG"
        server.operations.perform(Kill(1))
        assert call("incrementalAlterConfigs", "a", "retention.ms", "-") == "done"
        assert call("alterPartitionReassignments", "a-0", "1:2:0") == "done"
        assert call("listPartitionReassignments") == "[a-0]"
        server.operations.perform(MoveController())
        assert call("alterPartitionReassignments", "a-0", "-") == "done"
        assert call("listPartitionReassignments") == "[]"
        server.operations.perform(Start(1))
        wait_until(lambda: call("describeTopics", "a").startswith("0: 1:2 isr 1:2,"), PATIENCE_S)
        wait_until(lambda: call("electLeaders", "a-0") == "done", PATIENCE_S)
        assert call("electLeaders", "a-0").startswith(
            "org.apache.kafka.common.errors.ElectionNotNeededException: "
        )
        assert call("describeLogDirs", 0, "a") in ("[a-1]", "[a-1, a-2]")
        assert call("deleteTopics", "a") == "done"
        wait_until(lambda: call("listTopics") == "[]", PATIENCE_S)


@pytest.mark.client(shows="admin calls: offsets, records, groups and their offsets, credentials")
@pytest.mark.parametrize("client", java_params(lambda client: (client,)))
def test_records_and_groups_are_administered_while_a_leader_dies_and_the_controller_moves(
    server: ClusterServer, client: JavaClient
) -> None:
    servers = bootstrap(server)
    with client.admin(servers) as call:
        call("createTopics", "t", "1:2:0", "2:0:1", "0:1:2", "1:0:2")
        produced = client.produce(servers, lambda: server.operations.perform(Kill(1)), 40)
        assert len(produced) == 40
        await_death(server, 1)
        assert call("listOffsets", "t-0", "latest") == "10"
        assert call("deleteRecords", "t-0", 4) == "4"
        server.operations.perform(MoveController())
        assert call("listOffsets", "t-0", "earliest") == "4"
        server.operations.perform(Start(1))
        member = client.member(servers)
        try:
            assert sorted(read(member, 36)) == sorted(set(produced) - {b"0", b"4", b"8", b"12"})
            assert call("describeConsumerGroups", "g") == "Stable, members: 1"
        finally:
            member.close()
        assert call("listConsumerGroups") == "[g]"
        wait_until(lambda: call("describeConsumerGroups", "g") == "Empty, members: 0", PATIENCE_S)
        assert call("listConsumerGroupOffsets", "g") == "{t-0=10, t-1=10, t-2=10, t-3=10}"
        assert call("alterConsumerGroupOffsets", "g", "t-0", 7) == "done"
        assert call("deleteConsumerGroupOffsets", "g", "t-1") == "done"
        server.operations.perform(Kill(2))
        await_death(server, 2)
        wait_until(lambda: 2 not in [coordinator(server, live) for live in (0, 1)], PATIENCE_S)
        assert call("listConsumerGroupOffsets", "g") == "{t-0=7, t-2=10, t-3=10}"
        assert call("deleteConsumerGroups", "g") == "done"
        assert call("describeCluster") == "0:1"
        assert call("listConsumerGroups") == "[]"
        assert call("alterUserScramCredentials", "alice", "secret") == "done"
        assert "iterations=8192" in call("describeUserScramCredentials")
        assert call("describeAcls") == (
            "org.apache.kafka.common.errors.SecurityDisabledException: "
            "No Authorizer is configured on the broker"
        )
