"""Three brokers of Kafka 2.8.2 under klamm's controller, and producers, for tests."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.kafka.locate import run_tool
from klamm.world.kafka.processes import controller_command
from tests.kafka_brokers import INTERNAL_TOPICS, KafkaBroker
from tests.listeners import free_ports
from tests.waiting import wait_until

CONTROLLER_ID = 1000
PATIENCE_S = 60.0
Assignment = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Security:
    """The security of a cluster of Kafka.

    ``brokers`` and ``klamm`` are configs, NAME=VALUE, and ``clients`` the config of librdkafka.
    ``control_plane``: security protocol of a listener for requests of the controller, if there is
    one.
    """

    protocol: str = "PLAINTEXT"
    brokers: Sequence[str] = ()
    klamm: Sequence[str] = ()
    clients: Mapping[str, str] = field(default_factory=dict)
    control_plane: str | None = None

    def listeners(self, port: int) -> list[str]:
        """Return the listeners of a broker or controller, the first of which is on ``port``."""
        own = [f"{self.protocol}://127.0.0.1:{port}"]
        return own if self.control_plane is None else [*own, f"CONTROL://127.0.0.1:{port + 4}"]

    def broker_settings(self, port: int) -> list[str]:
        """Return the settings of a broker."""
        protocols = f"{self.protocol}:{self.protocol},CONTROL:{self.control_plane or 'PLAINTEXT'}"
        return [
            f"listeners={','.join(self.listeners(port))}",
            f"security.inter.broker.protocol={self.protocol}",
            f"listener.security.protocol.map={protocols}",
            *self._control_plane_config,
            *self.brokers,
        ]

    def controller_options(self, port: int) -> list[str]:
        """Return options for the controller, which has another option for its first listener."""
        options = [("--listener", one) for one in self.listeners(port)[1:]]
        options += (("--config", one) for one in (*self._control_plane_config, *self.klamm))
        return [word for option in options for word in option]

    @property
    def _control_plane_config(self) -> list[str]:
        return [] if self.control_plane is None else ["control.plane.listener.name=CONTROL"]


UNSECURED = Security()


class KlammController:
    """`klamm controller run` as a process. ``configs``: of the cluster, NAME=VALUE."""

    def __init__(
        self,
        zookeeper: str,
        listener: str,
        folder: Path,
        configs: Sequence[str],
        options: Sequence[str],
    ) -> None:
        options = (
            *("--session-timeout-ms", "3000", *options),
            *(word for one in configs for word in ("--config", one)),
        )
        command = controller_command(CONTROLLER_ID, zookeeper, listener, folder / "klamm", options)
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

    def __init__(
        self, zookeeper: str, folder: Path, protocol: str, security: Security = UNSECURED
    ) -> None:
        self.zookeeper = f"{zookeeper}/kafka"
        self._folder = folder
        self.security = security
        self._protocol = f"inter.broker.protocol.version={protocol}"
        self.port = free_ports(8)
        self.brokers = {
            id_: KafkaBroker(
                id_,
                self.port + id_,
                self.zookeeper,
                folder / str(id_),
                [self._protocol, *security.broker_settings(self.port + id_)],
            )
            for id_ in (1, 2, 3)
        }
        self.servers = ",".join(broker.address for broker in self.brokers.values())
        self.client: dict[str, str | int | float] = {
            "bootstrap.servers": self.servers,
            "log_level": 0,
            **security.clients,
        }
        # librdkafka looks for another controller only when it refreshes its metadata.
        self.admin = AdminClient({**self.client, "topic.metadata.refresh.interval.ms": 500})
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
        listener = self.security.listeners(self.port)[0]
        options = (*self.security.controller_options(self.port), *options)
        self.klamm = KlammController(self.zookeeper, listener, self._folder, configs, options)
        self.klamm.await_line(r"^controller 1000 is registered")
        if "--take-over" in options:
            self.klamm.await_line(r"^broker 1000 \(this process\) is the controller, epoch \d+$")
            self.await_controller(CONTROLLER_ID)
        return self.klamm

    def await_controller(self, *broker_ids: int) -> int:
        """Wait until the brokers send clients to one of these controllers, and return its id."""

        found: list[object] = []

        def known() -> int | None:
            metadata = self.admin.list_topics(timeout=PATIENCE_S)
            found[:] = [metadata.controller_id, sorted(metadata.brokers)]
            is_alive = metadata.controller_id in metadata.brokers
            is_right = is_alive and metadata.controller_id in broker_ids
            return metadata.controller_id if is_right else None

        what = f"clients find one of the controllers {broker_ids}"
        try:
            found_id = wait_until(known, PATIENCE_S, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: they find {found}; logs: {self._folder}") from None
        assert found_id is not None
        return found_id

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

        def poll() -> Iterator[bytes]:
            for records in consumer.poll(100).values():
                yield from (record.value for record in records)

        try:
            return values_until(count, topic, poll)
        finally:
            consumer.close()


def values_until(count: int, topic: str, poll: Callable[[], Iterable[bytes]]) -> list[int]:
    """Return the values that ``poll`` returns, as soon as there are ``count``."""
    values: list[int] = []

    def is_complete() -> bool:
        values.extend(map(int, poll()))
        return len(values) >= count

    wait_until(is_complete, PATIENCE_S, f"{count} values of {topic}")
    return values


class Load:
    """An idempotent producer of the values 0, 1, 2 and so on, with acks=all."""

    def __init__(self, cluster: KafkaCluster, topic: str, **config: object) -> None:
        self._topic = topic
        settings = {**cluster.client, "linger.ms": 2}
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


def kill_first_leader(cluster: KafkaCluster, topic: str) -> Load:
    """Kill broker 1, which leads partition 0, under load, and start it again."""
    load = Load(cluster, topic)
    load.send(500)
    cluster.brokers[1].end()
    load.send_until(lambda: cluster.leads(topic, 2, [2, 3]), f"broker 2 leads {topic}-0")
    load.flush()
    cluster.brokers[1].restart()
    return load
