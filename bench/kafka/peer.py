"""Apache Kafka 2.8.2's own controller over a real ZooKeeper, with fake brokers: all of one run.

The ZooKeeper server is the one klamm embeds, with fsync on. It must not start or ask klamm, and
does not know what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.kafka.cpu import java_pid
from bench.kafka.processes import FakeBrokers, RealController, free_ports
from bench.kafka.scenarios import Partition, Topic, topics
from bench.kafka.zookeeper import BenchClient
from zk.embedded import EmbeddedZooKeeper

ZOOKEEPER_HEAP_MB = 2048
TICK_TIME_MS = 2000
FIRST_CONTROLLER = 1000
MAX_CONTROLLERS = 10


@dataclass(frozen=True, slots=True)
class Options:
    """How large a run is, and where.

    ``work_dir`` is empty, and on the disk that is meant: ZooKeeper's data go there. ``settings``:
    more lines of the controller's server.properties.
    """

    partitions: int
    partitions_per_topic: int
    brokers: int
    work_dir: Path
    settings: Sequence[str] = ()


class Peer:
    """``with Peer(options) as peer``: ZooKeeper, fake brokers and one controller, elected."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.topics: list[Topic] = []
        self.down: int | None = None
        self._first_port = free_ports(options.brokers + MAX_CONTROLLERS)
        self._controllers = 0
        self._created = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            work_dir = self.options.work_dir
            self.zookeeper = stack.enter_context(
                EmbeddedZooKeeper(
                    work_dir / "zookeeper", tick_time_ms=TICK_TIME_MS, heap_mb=ZOOKEEPER_HEAP_MB
                )
            )
            pid = java_pid(str(self.zookeeper.data_dir / "zoo.cfg"))
            assert pid is not None, "it serves"
            self.zookeeper_pid = pid
            self.client = stack.enter_context(BenchClient(self.zookeeper.port))
            port = self._first_port + MAX_CONTROLLERS
            connect = self.zookeeper.connect_string
            self.fakes = stack.enter_context(
                FakeBrokers(self.options.brokers, port, connect, work_dir / "fakes")
            )
            self.controller = self.start_controller(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_controller(self, stack: ExitStack | None = None) -> RealController:
        """One more Kafka broker, which waits to become the controller. It ends with the run."""
        number = self._controllers
        self._controllers += 1
        controller = RealController(
            FIRST_CONTROLLER + number,
            self._first_port + number,
            self.zookeeper.connect_string,
            self.options.work_dir / f"kafka-{FIRST_CONTROLLER + number}",
            self.options.settings,
        )
        (self._stack if stack is None else stack).callback(controller.kill)
        return controller

    @property
    def partitions(self) -> list[Partition]:
        """Every partition there is, as it should be."""
        return [partition for topic in self.topics for partition in topic.partitions]

    def new_topics(self, partitions: int) -> list[Topic]:
        """Topics for so many more partitions, not created yet."""
        per_topic = self.options.partitions_per_topic
        count = partitions // per_topic
        made = topics(self._created, count, per_topic, self.options.brokers)
        self._created += count
        return made

    def moved(self, plan: Sequence[Partition]) -> None:
        """Note that partitions have other replicas from now on."""
        new = {(item.topic, item.partition): item for item in plan}
        self.topics = [
            Topic(topic.name, tuple(new.get(item[:2], item) for item in topic.partitions))
            for topic in self.topics
        ]
