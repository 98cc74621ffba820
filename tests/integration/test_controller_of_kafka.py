"""klamm's controller drives three brokers of Kafka 2.8.2 (marked ``kafka``: they need its jars).

The tests share a cluster for each inter-broker protocol version. Each test has its own topics, and
leaves all brokers running and klamm the controller.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_tool, run_topic_command
from klamm.drills.kafka.jars import kafka_libs
from klamm.drills.kafka.processes import controller_command
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.kafka_brokers import INTERNAL_TOPICS, KafkaBroker
from tests.listeners import free_ports
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

CONTROLLER_ID = 1000
PROTOCOLS = ("2.8", "2.6", "2.3")
"""Before 2.7 leaders write ISRs to ZooKeeper themselves; before 2.8 topics have no ids."""
PATIENCE_S = 60.0
Assignment = Mapping[int, Sequence[int]]


class KlammController:
    """`klamm controller run` as a process. ``configs``: of the cluster, NAME=VALUE."""

    def __init__(
        self,
        zookeeper: str,
        port: int,
        folder: Path,
        configs: Sequence[str],
        options: Sequence[str],
    ) -> None:
        options = (
            *("--session-timeout-ms", "3000", *options),
            *(word for one in configs for word in ("--config", one)),
        )
        command = controller_command(CONTROLLER_ID, zookeeper, port, folder / "klamm", options)
        self._path = folder / "klamm.out"
        with self._path.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    @property
    def printed(self) -> str:
        """What the process has printed."""
        return self._path.read_text()

    def await_line(self, pattern: str) -> re.Match[str]:
        """Wait until the process has printed a line that matches."""

        def found() -> re.Match[str] | None:
            assert self._process.poll() is None, self.printed
            return re.search(pattern, self.printed, re.MULTILINE)

        match = wait_until(found, PATIENCE_S, f"{pattern} in {self._path}")
        assert match is not None
        return match

    def end(self, number: int) -> int:
        """Send a signal, wait for the end of the process, and return its exit status."""
        self._process.send_signal(number)
        return self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End the process if it is running."""
        self._process.kill()
        self._process.wait(PATIENCE_S)


class KafkaCluster:
    """ZooKeeper, three brokers, and klamm's controller."""

    def __init__(self, zookeeper: str, folder: Path, protocol: str) -> None:
        self.zookeeper = f"{zookeeper}/kafka"
        self._folder = folder
        self._protocol = f"inter.broker.protocol.version={protocol}"
        self.port = free_ports(4)
        self.brokers = {
            id_: KafkaBroker(
                id_, self.port + id_, self.zookeeper, folder / str(id_), [self._protocol]
            )
            for id_ in (1, 2, 3)
        }
        self.servers = ",".join(broker.address for broker in self.brokers.values())
        # librdkafka looks for another controller only when it refreshes its metadata.
        refresh = {"topic.metadata.refresh.interval.ms": 500}
        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0, **refresh})
        self.klamm: KlammController | None = None

    def start(self) -> None:
        """Start all brokers, one of which is elected controller, and let klamm take over."""
        for broker in self.brokers.values():
            broker.start()
        for broker in self.brokers.values():
            broker.await_start()
        self.run_klamm("--take-over")

    def run_klamm(self, *options: str) -> KlammController:
        """Start klamm's controller, and wait until it is registered."""
        configs = (self._protocol, *INTERNAL_TOPICS)
        self.klamm = KlammController(self.zookeeper, self.port, self._folder, configs, options)
        self.klamm.await_line(r"^controller 1000 is registered")
        if "--take-over" in options:
            self.klamm.await_line(r"^broker 1000 \(this process\) is the controller, epoch \d+$")
            self.await_controller(CONTROLLER_ID)
        return self.klamm

    def await_controller(self, broker_id: int) -> None:
        """Wait until the brokers send clients to this controller."""

        def is_known() -> bool:
            known = self.admin.list_topics(timeout=PATIENCE_S)
            return known.controller_id == broker_id and broker_id in known.brokers

        wait_until(is_known, PATIENCE_S, f"clients find controller {broker_id}")

    def close(self) -> None:
        """End all processes."""
        if self.klamm is not None:
            self.klamm.kill()
        for broker in self.brokers.values():
            broker.end()

    def create(self, topic: str, assignment: Assignment, **config: str) -> None:
        """Create a topic with these replicas."""
        replicas = [list(one) for one in assignment.values()]
        new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=config)
        self.admin.create_topics([new], operation_timeout=30)[topic].result(PATIENCE_S)

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Return the leader and the sorted ISR of each partition."""
        found = self.admin.list_topics(topic, PATIENCE_S).topics[topic].partitions
        return {id_: (one.leader, sorted(one.isrs)) for id_, one in found.items()}

    def leads(self, topic: str, leader: int, isr: list[int]) -> bool:
        """Return True if partition 0 has this leader and this ISR."""
        return self.partitions(topic).get(0) == (leader, isr)

    def await_partitions(self, topic: str, wanted: dict[int, tuple[int, list[int]]]) -> None:
        """Wait until the partitions have these leaders and ISRs."""
        found: list[object] = []

        def is_reached() -> bool:
            found[:] = [self.partitions(topic)]
            return found == [wanted]

        try:
            wait_until(is_reached, PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"{topic}: {found[0]}, not {wanted}") from None

    def move(self, topic: str, replicas: Sequence[int], *options: str) -> str:
        """Reassign partition 0 of a topic with kafka-reassign-partitions."""
        plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": list(replicas)}]}
        file = self._folder / f"{topic}.json"
        file.write_text(json.dumps(plan))
        command = "kafka.admin.ReassignPartitionsCommand"
        return self.tool(command, "--reassignment-json-file", str(file), *options)

    def tool(self, java_class: str, *args: str) -> str:
        """Run a tool of Kafka's at the brokers, and return what it prints."""
        done = run_tool(java_class, ["--bootstrap-server", self.servers, *args])
        return done.stdout + done.stderr

    def read(self, topic: str, count: int) -> list[int]:
        """Read a topic with kafka-python until ``count`` values were read, and return them."""
        consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=self.servers.split(","),
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        values: list[int] = []

        def is_complete() -> bool:
            for records in consumer.poll(100).values():
                values.extend(int(record.value) for record in records)
            return len(values) >= count

        try:
            wait_until(is_complete, PATIENCE_S, f"{count} values of {topic}")
        finally:
            consumer.close()
        return values


class Load:
    """An idempotent producer of the values 0, 1, 2 and so on, with acks=all."""

    def __init__(self, cluster: KafkaCluster, topic: str, **config: object) -> None:
        self._topic = topic
        settings = {"bootstrap.servers": cluster.servers, "log_level": 0, "linger.ms": 2}
        self.producer = confluent_kafka.Producer({**settings, "enable.idempotence": True, **config})
        self._sent = 0
        self.acknowledged: list[int] = []
        self._failures: list[str] = []

    def send(self, count: int) -> None:
        """Send values without waiting for them."""
        for _ in range(count):
            value = self._sent
            self._sent += 1
            number = b"%d" % value
            self.producer.produce(self._topic, number, number, on_delivery=self._on_delivery)
            self.producer.poll(0)

    def send_until(self, is_reached: Callable[[], object], what: str) -> None:
        """Send values until a condition holds."""

        def attempt() -> object:
            self.send(10)
            return is_reached()

        wait_until(attempt, PATIENCE_S, what)

    def flush(self) -> None:
        """Wait until all values are acknowledged."""
        assert self.producer.flush(PATIENCE_S) == 0
        assert self._failures == []
        assert len(self.acknowledged) == self._sent

    def _on_delivery(self, error: object, record: confluent_kafka.Message) -> None:
        if error is not None:
            self._failures.append(str(error))
            return
        value = record.value()
        assert value is not None
        self.acknowledged.append(int(value))


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
    load = Load(cluster, "kill")
    load.send(500)
    cluster.brokers[1].end()
    load.send_until(lambda: cluster.leads("kill", 2, [2, 3]), "broker 2 leads kill-0")
    load.flush()
    cluster.brokers[1].restart()
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
    load = Load(cluster, "restart")
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


def test_transactions(cluster: KafkaCluster) -> None:
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


def test_klamm_leaves_and_waits_for_an_election(cluster: KafkaCluster) -> None:
    klamm = cluster.klamm
    assert klamm is not None
    assert klamm.end(signal.SIGINT) == 130
    successor = re.search(r"^broker ([123]) is the controller now, epoch \d+$", klamm.printed, re.M)
    assert successor is not None
    cluster.await_controller(int(successor[1]))
    cluster.create("without", {0: (1, 2)})
    waiting = cluster.run_klamm()
    waiting.await_line(rf"^broker {successor[1]} \(a Kafka broker\) is the controller, epoch \d+$")
    # Kafka's controller has sent UpdateMetadata to klamm's listener.
    at_klamm = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.port}", "log_level": 0})
    metadata = at_klamm.list_topics("without", PATIENCE_S)
    assert metadata.controller_id == int(successor[1])
    assert metadata.topics["without"].partitions[0].leader == 1
    assert waiting.end(signal.SIGTERM) == 0
    cluster.run_klamm("--take-over")
