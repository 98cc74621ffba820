"""Kafka 2.8.2's own tools, by --zookeeper, on a running klamm: what they ask for is done, and they
find it done. What they print is compared in tests/cli; here it is what they cause.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.cluster.types import TopicPartition
from klamm.controller.kafka_controller import KafkaController
from klamm.lab.actions.tools import ScenarioTools
from klamm.lab.checks.agreement import check_cluster
from klamm.lab.drivers.real_driver import RealDriver
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.kafka.jars import kafka_libs
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.held_followers import hold, release
from tests.integration.real_clusters import real_cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]
BROKERS = (0, 1, 2, 3)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPICS, ELECT = "TopicCommand", "PreferredReplicaLeaderElectionCommand"
REASSIGN, CONFIGS = "ReassignPartitionsCommand", "ConfigCommand"
LEADER_RATE, FOLLOWER_RATE = (
    f"{role}.replication.throttled.rate" for role in ("leader", "follower")
)
LEADER_REPLICAS, FOLLOWER_REPLICAS = (
    f"{role}.replication.throttled.replicas" for role in ("leader", "follower")
)


class Live(msgspec.Struct):
    """A running klamm, Kafka's tools on it, and its znodes seen by another client."""

    cluster: RealCluster
    client: KazooClient
    root: str

    def run(self, tool: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools to its end."""
        address = self.cluster.connect_string
        return run_tool(f"kafka.admin.{tool}", ["--zookeeper", address, *args])

    def ok(self, tool: str, *args: str) -> str:
        """Run a tool that must succeed; what it printed."""
        done = self.run(tool, *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def znode(self, path: str) -> object:
        """A znode's JSON; None if it is not there."""
        if self.client.exists(self.root + path) is None:
            return None
        return json.loads(self.client.get(self.root + path)[0])

    def configs(self, entity: str) -> object:
        """What /config holds of an entity."""
        node = self.znode(f"/config/{entity}")
        return None if node is None else node["config"]  # type: ignore[index]

    def described(self, *flags: str) -> str:
        """What Kafka's kafka-topics says of the topics, which klamm's must say too."""
        args = ["--describe", *flags]
        printed = self.ok(TOPICS, *args)
        driver = RealDriver(self.cluster, MemoryJournal())
        ours = ScenarioTools(self.cluster.spec)("topics", ["--zookeeper", "z", *args], driver)
        assert ours.stdout == printed
        return printed

    @property
    def controller(self) -> KafkaController | None:
        """The active one, if there is one now."""
        active = self.cluster.active_controller
        return None if active is None else self.cluster.nodes[active].node.controller

    def leaders(self, *partitions: TopicPartition) -> list[int]:
        """Who leads, by the state znodes."""
        found = KafkaZkClient(self.cluster.store).get_partition_states(partitions).values
        return [found[tp].leader_and_isr.leader for tp in partitions]

    def isr(self, tp: TopicPartition) -> list[int]:
        """Who is in sync, by the state znode."""
        found = KafkaZkClient(self.cluster.store).get_partition_states([tp]).values
        return sorted(found[tp].leader_and_isr.isr)

    def create(self, topic: str, assignment: str, *more: str) -> None:
        """Have a topic made by Kafka's tool, and wait until all its replicas are in sync."""
        args = ("--topic", topic, "--replica-assignment", assignment, *more)
        assert self.ok(TOPICS, "--create", *args) == f"Created topic {topic}.\n"
        for number, replicas in enumerate(assignment.split(",")):
            wait_for_isr(self, TopicPartition(topic, number), replicas.split(":"))

    def stop(self, *broker_ids: int) -> None:
        """End brokers, and wait until the controller has seen to it."""
        for broker_id in broker_ids:
            self.cluster.shut_down(broker_id)
            wait_until(lambda gone=broker_id: not self.is_live(gone))
        self.settle()

    def is_live(self, broker_id: int) -> bool:
        """Whether the controller takes a broker for live."""
        return self.controller is None or broker_id in self.controller.context.live_broker_ids

    def settle(self) -> None:
        """Wait until everybody agrees with ZooKeeper."""
        cluster = self.cluster
        wait_until(lambda: cluster.is_idle and check_cluster(cluster, cluster.store) == [])


def wait_for_isr(live: Live, tp: TopicPartition, replicas: Sequence[str]) -> None:
    wanted = sorted(map(int, replicas))

    def has_it() -> bool:
        found = KafkaZkClient(live.cluster.store).get_partition_states([tp]).values
        return tp in found and sorted(found[tp].leader_and_isr.isr) == wanted

    wait_until(has_it, what=f"{tp} to have the ISR {wanted}")


@pytest.fixture
def live(chroot: str, zookeeper_client: KazooClient) -> Iterator[Live]:
    """Four brokers whose leaders stay where they are."""
    config = {
        "auto.leader.rebalance.enable": "false",
        "controlled.shutdown.retry.backoff.ms": "100",
    }
    spec = ClusterSpec(broker_ids=BROKERS, config=config, session_timeout_ms=4000)
    with real_cluster(spec, chroot) as cluster:
        yield Live(cluster, zookeeper_client, chroot[chroot.index("/") :])
        assert cluster.errors == []


def partitions_shown(text: str) -> list[str]:
    """``topic-partition`` of each line of a description."""
    words = [line.split() for line in text.splitlines() if "Partition: " in line]
    return [f"{line[1]}-{line[3]}" for line in words]


def test_topics_are_described_by_every_filter_and_grow_and_go(live: Live) -> None:
    live.create("t", "0:1,1:2,2:3", "--config", "min.insync.replicas=2")
    live.create("single", "3")
    live.stop(3)
    for flags, shown in (
        # A partition without a leader keeps its last replica in the ISR.
        (["--under-replicated-partitions"], ["t-2"]),
        (["--unavailable-partitions"], ["single-0"]),
        (["--topics-with-overrides"], []),
        (["--topic", "t", "--exclude-internal"], ["t-0", "t-1", "t-2"]),
    ):
        assert partitions_shown(live.described(*flags)) == shown, flags
    live.ok(TOPICS, "--alter", "--topic", "t", "--partitions", "5")
    wait_until(lambda: live.client.exists(f"{live.root}/brokers/topics/t/partitions/4/state"))
    live.settle()
    printed = live.ok(TOPICS, "--delete", "--topic", "t")
    assert printed.startswith("Topic t is marked for deletion.\n")
    assert live.described("--topic", "t").count("\tMarkedForDeletion: true\n") == 6
    live.cluster.start(3)
    wait_until(lambda: live.client.exists(f"{live.root}/admin/delete_topics/t") is None)
    live.settle()
    assert live.client.exists(f"{live.root}/brokers/topics/t") is None
    assert live.client.exists(f"{live.root}/config/topics/t") is None
    assert live.ok(TOPICS, "--list") == "single\n"


def test_a_throttled_reassignment_is_generated_executed_and_verified(
    live: Live, tmp_path: Path
) -> None:
    live.create("t", "0:1,1:0")
    topics, plan = tmp_path / "topics", tmp_path / "plan"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    printed = live.ok(
        REASSIGN, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3"
    )
    proposed = printed.splitlines()[-1]
    plan.write_text(proposed)
    targets = {
        TopicPartition(p["topic"], p["partition"]): p["replicas"]
        for p in json.loads(proposed)["partitions"]
    }
    assert [sorted(targets[tp]) for tp in (T0, T1)] == [[2, 3], [2, 3]]
    file = ("--reassignment-json-file", str(plan))
    hold(live.cluster, 3)
    printed = live.ok(REASSIGN, "--execute", *file, "--throttle", "1000")
    assert "The inter-broker throttle limit was set to 1000 B/s\n" in printed
    assert printed.endswith("Successfully started partition reassignments for t-0,t-1\n")
    for tp in (T0, T1):
        wait_for_isr(live, tp, ["0", "1", "2"])
    assert live.configs("topics/t") == {
        LEADER_REPLICAS: "0:0,0:1,1:0,1:1",
        FOLLOWER_REPLICAS: "0:2,0:3,1:2,1:3",
    }
    for broker_id in BROKERS:
        assert live.configs(f"brokers/{broker_id}") == {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}
    second = live.run(REASSIGN, "--execute", *file)
    assert second.returncode == 1
    assert "there is an existing partition assignment" in second.stdout
    printed = live.ok(REASSIGN, "--verify", *file)
    assert printed.count(" is still in progress.") == 2
    release(live.cluster, 3)
    wait_until(lambda: live.client.exists(f"{live.root}/admin/reassign_partitions") is None)
    live.settle()
    printed = live.ok(REASSIGN, "--verify", *file)
    assert printed.count(" is complete.") == 2
    assert "Clearing topic-level throttles on topic t\n" in printed
    assert [live.configs(f"brokers/{broker_id}") for broker_id in BROKERS] == [{}] * 4
    assert live.configs("topics/t") == {}
    node = live.znode("/brokers/topics/t")
    assert isinstance(node, Mapping)
    assert node["partitions"] == {str(tp.partition): ids for tp, ids in targets.items()}
    assert node["adding_replicas"] == node["removing_replicas"] == {}
    assert live.leaders(T0, T1) == [targets[T0][0], targets[T1][0]]
    assert f"Replicas: {targets[T0][0]},{targets[T0][1]}\t" in live.described("--topic", "t")


def test_preferred_leaders_are_elected(live: Live, tmp_path: Path) -> None:
    live.create("t", "1:2,1:3")
    live.stop(1)
    live.cluster.start(1)
    wait_for_isr(live, T0, ["1", "2"])
    wait_for_isr(live, T1, ["1", "3"])
    assert live.leaders(T0, T1) == [2, 3]
    file = tmp_path / "partitions"
    file.write_text(json.dumps({"partitions": [{"topic": "t", "partition": 1}]}))
    printed = live.ok(ELECT, "--path-to-json-file", str(file))
    assert "Created preferred replica election path with t-1\n" in printed
    wait_until(lambda: live.leaders(T0, T1) == [2, 1])
    live.ok(ELECT)
    wait_until(lambda: live.leaders(T0, T1) == [1, 1])
    live.settle()
    assert live.client.exists(f"{live.root}/admin/preferred_replica_election") is None
    assert live.described("--topic", "t").count("\tLeader: 1\t") == 2


def test_configs_are_set_shown_and_acted_on(live: Live) -> None:
    live.create("t", "1:2")
    live.stop(2, 1)
    live.cluster.start(2)
    wait_until(lambda: live.is_live(2))
    live.settle()
    assert (live.leaders(T0), live.isr(T0)) == ([-1], [1])
    entity = ("--entity-type", "topics", "--entity-name", "t")
    unclean = "unclean.leader.election.enable=true"
    printed = live.ok(CONFIGS, "--alter", *entity, "--add-config", f"{unclean},retention.ms=5")
    assert printed.endswith("Completed updating config for entity: topic 't'.\n")
    wait_until(lambda: live.leaders(T0) == [2], what="an unclean leader of t-0")
    live.settle()
    assert live.isr(T0) == [2]
    shown = live.ok(CONFIGS, "--describe", *entity)
    assert f"Configs for topic 't' are retention.ms=5,{unclean}\n" in shown
    live.ok(CONFIGS, "--alter", *entity, "--delete-config", "retention.ms")
    assert live.configs("topics/t") == {"unclean.leader.election.enable": "true"}
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    live.ok(CONFIGS, "--alter", *broker, "--add-config", f"{LEADER_RATE}=7,{FOLLOWER_RATE}=8")
    assert live.configs("brokers/0") == {LEADER_RATE: "7", FOLLOWER_RATE: "8"}
    shown = live.ok(CONFIGS, "--describe", *broker)
    assert f"{LEADER_RATE}=7" in shown
    assert f"Configs: {unclean}" in live.described("--topic", "t")
