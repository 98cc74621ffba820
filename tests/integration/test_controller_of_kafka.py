"""klamm's controller drives three brokers of Kafka 2.8.2 (marked ``kafka``: they need its jars).

The tests share a cluster for each inter-broker protocol version. Each test has its own topics, and
leaves all brokers running and klamm the controller.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_topic_command
from klamm.world.kafka.jars import kafka_libs
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.kafka_cluster import PATIENCE_S, KafkaCluster, Load, kill_first_leader
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

PROTOCOLS = ("2.8", "2.6", "2.3")
"""Before 2.7 leaders write ISRs to ZooKeeper themselves; before 2.8 topics have no ids."""


@pytest.fixture(scope="module", params=PROTOCOLS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    if kafka_libs() is None:
        pytest.skip(SKIP_REASON)
    with EmbeddedZooKeeper() as zookeeper:
        opened = KafkaCluster(
            zookeeper.connect_string, tmp_path_factory.mktemp("kafka"), request.param
        )
        try:
            opened.start()
            yield opened
        finally:
            opened.close()


@pytest.fixture
def zookeeper(cluster: KafkaCluster) -> Iterator[KazooClient]:
    """A plain ZooKeeper session in the chroot of the cluster."""
    client = KazooClient(hosts=cluster.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


def test_topics_are_created_changed_and_deleted(cluster: KafkaCluster) -> None:
    admin = cluster.admin
    # klamm's own broker hosts no replicas, so that only three brokers are available.
    refused = admin.create_topics([NewTopic("topics", 3, 4)])["topics"]
    with pytest.raises(confluent_kafka.KafkaException, match="larger than available brokers: 3"):
        refused.result(PATIENCE_S)
    with pytest.raises(confluent_kafka.KafkaException, match="broker 1000 hosts no replicas"):
        cluster.create("topics", {0: (1, 1000)})
    new = NewTopic("topics", 3, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new], operation_timeout=30)["topics"].result(PATIENCE_S)
    added = admin.create_partitions([NewPartitions("topics", 4)], operation_timeout=30)
    added["topics"].result(PATIENCE_S)
    wait_until(
        lambda: [isr for _, isr in cluster.partitions("topics").values()] == [[1, 2, 3]] * 4,
        PATIENCE_S,
    )
    load = Load(cluster, "topics")
    load.send(400)
    load.flush()
    assert sorted(cluster.read("topics", 400)) == list(range(400))
    admin.delete_topics(["topics"], operation_timeout=30)["topics"].result(PATIENCE_S)
    wait_until(lambda: not replica_folders(cluster, "topics"), PATIENCE_S, "no log is left")


def replica_folders(cluster: KafkaCluster, topic: str) -> list[Path]:
    """Return the folders with current logs of a topic on all brokers."""
    dirs = (log_dir for broker in cluster.brokers.values() for log_dir in broker.log_dirs)
    found = (folder for log_dir in dirs for folder in log_dir.glob(f"{topic}-*"))
    return [folder for folder in found if not folder.name.endswith("-delete")]


def test_a_leader_is_killed_under_load(cluster: KafkaCluster) -> None:
    cluster.create("kill", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)})
    everywhere = {n: (leader, [1, 2, 3]) for n, leader in enumerate((1, 2, 3))}
    cluster.await_partitions("kill", everywhere)
    load = kill_first_leader(cluster, "kill")
    rejoined = {0: (2, [1, 2, 3]), 1: (2, [1, 2, 3]), 2: (3, [1, 2, 3])}
    cluster.await_partitions("kill", rejoined)
    assert sorted(cluster.read("kill", len(load.acknowledged))) == sorted(load.acknowledged)
    everything = [confluent_kafka.TopicPartition("kill", number) for number in everywhere]
    preferred = confluent_kafka.ElectionType.PREFERRED
    elected = cluster.admin.elect_leaders(preferred, everything).result(PATIENCE_S)
    assert [one.partition for one, error in elected.items() if error is None] == [0]
    cluster.await_partitions("kill", everywhere)


def test_a_controlled_shutdown_moves_leaders(cluster: KafkaCluster) -> None:
    cluster.create("stop", {0: (3, 1, 2), 1: (1, 3, 2)})
    load = Load(cluster, "stop")
    load.send(300)
    cluster.brokers[3].stop()
    assert "Controlled shutdown succeeded" in cluster.brokers[3].log
    assert cluster.partitions("stop") == {0: (1, [1, 2]), 1: (1, [1, 2])}
    load.send(300)
    load.flush()
    cluster.brokers[3].restart()
    cluster.await_partitions("stop", {0: (1, [1, 2, 3]), 1: (1, [1, 2, 3])})
    assert sorted(cluster.read("stop", 600)) == list(range(600))


def test_a_reassignment_with_throttle(cluster: KafkaCluster, zookeeper: KazooClient) -> None:
    cluster.create("move", {0: (1, 2)})
    load = Load(cluster, "move")
    load.send(1000)
    load.flush()
    started = cluster.move("move", (3, 1), "--execute", "--throttle", "50000000")
    assert "Successfully started partition reassignment for move-0" in started
    cluster.await_partitions("move", {0: (1, [1, 3])})
    verified = cluster.move("move", (3, 1), "--verify")
    assert "Reassignment of partition move-0 is complete" in verified
    assert json.loads(zookeeper.get("/config/brokers/1")[0])["config"] == {}
    assert sorted(cluster.read("move", 1000)) == list(range(1000))


def test_the_controller_is_killed_during_a_reassignment(cluster: KafkaCluster) -> None:
    cluster.create("restart", {0: (1, 2)})
    # A throttled replica gets whole batches: many small ones take minutes at this rate.
    load = Load(cluster, "restart", **{"batch.num.messages": 500})
    load.send(20_000)
    load.flush()
    cluster.move("restart", (3, 1), "--execute", "--throttle", "1000")
    assert cluster.klamm is not None
    cluster.klamm.kill()
    cluster.run_klamm("--take-over")
    assert "restart-0: replicas: 3,1,2" in cluster.tool(
        "kafka.admin.ReassignPartitionsCommand", "--list"
    )
    cluster.move("restart", (3, 1), "--execute", "--additional", "--throttle", "90000000")
    cluster.await_partitions("restart", {0: (1, [1, 3])})
    cluster.move("restart", (3, 1), "--verify")
    assert sorted(cluster.read("restart", 20_000)) == list(range(20_000))


def test_a_log_directory_fails(cluster: KafkaCluster) -> None:
    cluster.create("disk", {0: (2, 3, 1)})
    load = Load(cluster, "disk")
    load.send(300)
    load.flush()
    (folder,) = (one for one in replica_folders(cluster, "disk") if one.parts[-3] == "2")
    failed, away = folder.parent, folder.parent.with_name("away")
    failed.rename(away)
    load.send_until(lambda: cluster.leads("disk", 3, [1, 3]), "broker 3 leads disk-0")
    load.flush()
    cluster.brokers[2].end()
    # A broker does not start while its former session is alive.
    wait_until(
        lambda: 2 not in cluster.admin.list_topics(timeout=PATIENCE_S).brokers,
        PATIENCE_S,
        "the session of broker 2 expires",
    )
    shutil.rmtree(failed, ignore_errors=True)
    away.rename(failed)
    cluster.brokers[2].restart()
    cluster.await_partitions("disk", {0: (3, [1, 2, 3])})
    assert sorted(cluster.read("disk", len(load.acknowledged))) == sorted(load.acknowledged)


def test_an_unclean_election(cluster: KafkaCluster) -> None:
    cluster.create("unclean", {0: (1, 2)})
    cluster.brokers[2].end()
    cluster.await_partitions("unclean", {0: (1, [1])})
    cluster.brokers[1].end()
    cluster.await_partitions("unclean", {0: (-1, [1])})
    cluster.brokers[2].restart()
    partition = confluent_kafka.TopicPartition("unclean", 0)
    for election, is_elected in (("PREFERRED", False), ("UNCLEAN", True)):
        kind = confluent_kafka.ElectionType[election]
        results = cluster.admin.elect_leaders(kind, [partition]).result(PATIENCE_S)
        assert [error is None for error in results.values()] == [is_elected]
    cluster.await_partitions("unclean", {0: (2, [2])})
    cluster.brokers[1].restart()
    cluster.await_partitions("unclean", {0: (2, [1, 2])})


def test_committed_transactions_survive_a_killed_leader(cluster: KafkaCluster) -> None:
    cluster.create("transactions", {0: (1, 2, 3), 1: (2, 3, 1)})
    load = Load(cluster, "transactions", **{"transactional.id": "x"})
    load.producer.init_transactions(PATIENCE_S)
    committed: list[int] = []
    for commits in (True, False, True):
        load.producer.begin_transaction()
        before = len(load.acknowledged)
        load.send(200)
        if commits:
            load.producer.commit_transaction(PATIENCE_S)
            committed += load.acknowledged[before:]
        else:
            cluster.brokers[1].end()
            load.producer.flush(PATIENCE_S)
            load.producer.abort_transaction(PATIENCE_S)
    assert len(committed) == 400
    assert sorted(cluster.read("transactions", 400)) == sorted(committed)
    cluster.brokers[1].restart()
    everywhere = {0: (2, [1, 2, 3]), 1: (2, [1, 2, 3])}
    cluster.await_partitions("transactions", everywhere)


def test_a_replica_that_kafkas_tools_put_on_klamm(cluster: KafkaCluster) -> None:
    done = run_topic_command(
        cluster.zookeeper, ["--create", "--topic", "misplaced", "--replica-assignment", "1000:1:2"]
    )
    assert done.returncode == 0, done.stdout
    cluster.await_partitions("misplaced", {0: (1, [1, 2])})
    cluster.move("misplaced", (1, 2), "--execute")
    wait_until(lambda: "is complete" in cluster.move("misplaced", (1, 2), "--verify"), PATIENCE_S)


def test_partitions_that_kafkas_tools_put_only_on_klamm(cluster: KafkaCluster) -> None:
    done = run_topic_command(
        cluster.zookeeper, ["--create", "--topic", "alone", "--replica-assignment", "1000,1"]
    )
    assert done.returncode == 0, done.stdout
    klamm = cluster.klamm
    assert klamm is not None
    klamm.await_line(
        "^warning: broker 1000 is this controller, which stores nothing: 1 of 2 partitions of topic"
        " alone has a replica there, 1 of them no other, and so no leader$"
    )
    cluster.await_partitions("alone", {0: (-1, [1000]), 1: (1, [1])})
    # As the warning advises.
    cluster.move("alone", (1, 2), "--execute")
    partition = confluent_kafka.TopicPartition("alone", 0)
    unclean = confluent_kafka.ElectionType.UNCLEAN
    results = cluster.admin.elect_leaders(unclean, [partition]).result(PATIENCE_S)
    assert list(results.values()) == [None]
    wait_until(lambda: "is complete" in cluster.move("alone", (1, 2), "--verify"), PATIENCE_S)
    cluster.await_partitions("alone", {0: (1, [1, 2]), 1: (1, [1])})
    assert klamm.printed.count("of topic alone") == 1


def test_klamm_leaves_and_waits_for_an_election(cluster: KafkaCluster) -> None:
    klamm = cluster.klamm
    assert klamm is not None
    done = run_topic_command(
        cluster.zookeeper, ["--create", "--topic", "left", "--replica-assignment", "1000,1"]
    )
    assert done.returncode == 0, done.stdout
    left = "1 of 2 partitions of topic left has a replica there, 1 of them no other, "
    klamm.await_line(left)
    assert klamm.end(signal.SIGINT) == 130
    assert f"warning: broker 1000 ends, and stored nothing: {left}" in klamm.printed
    assert re.search(r"^broker [123] is the controller now, epoch \d+$", klamm.printed, re.M)
    # Not always that broker: one that was the controller before fails at once if Kafka has not
    # removed the metrics of its old connections yet, and another one is elected.
    successor = cluster.await_controller(*cluster.brokers)
    cluster.create("without", {0: (1, 2)})
    waiting = cluster.run_klamm()
    waiting.await_line(f"^warning: broker 1000 is this controller, which stores nothing: {left}")
    waiting.await_line(rf"^broker {successor} \(a Kafka broker\) is the controller, epoch \d+$")
    # Kafka's controller has sent UpdateMetadata to klamm's listener.
    at_klamm = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.port}", "log_level": 0})
    metadata = at_klamm.list_topics("without", PATIENCE_S)
    assert metadata.controller_id == successor
    assert metadata.topics["without"].partitions[0].leader == 1
    assert waiting.end(signal.SIGTERM) == 0
    cluster.run_klamm("--take-over")
