"""All of one run: a real ZooKeeper, a controller, brokers, and the topics it was asked for.

``Peer`` is what every product has in common; ``KafkaPeer`` is Apache Kafka 2.8.2's own controller
with fake brokers. The ZooKeeper server is the one klamm embeds, with fsync on. It must not know
what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from bench.kafka.cpu import java_pid
from bench.kafka.processes import FakeBrokers, RealController, SupervisedController, free_ports
from bench.kafka.scenarios import Partition, Topic, topics
from bench.kafka.zookeeper import BenchClient
from klamm.cluster.errors import UsageError
from klamm.zk.embedded import EmbeddedZooKeeper

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


class Controller(Protocol):
    """The process that holds the active controller."""

    @property
    def broker_id(self) -> int:
        """Its id in /controller."""
        ...

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    @property
    def controller_log(self) -> Path:
        """Its controller.log, in Kafka's words."""
        ...

    def kill(self) -> None:
        """As kill -9."""
        ...


class Brokers(Protocol):
    """The brokers that host the partitions."""

    def ask(self, command: str) -> dict[str, Any]:
        """Send one command and return its answer. Raises EnvironmentProblem when it failed."""
        ...


class Peer:
    """``with KafkaPeer(options) as peer``: ZooKeeper, brokers and one controller, elected."""

    product: ClassVar[str]
    controller: Controller
    brokers: Brokers

    def __init__(self, options: Options) -> None:
        self.options = options
        self.topics: list[Topic] = []
        self.down: int | None = None
        self._created = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.zookeeper = stack.enter_context(
                EmbeddedZooKeeper(
                    self.options.work_dir / "zookeeper",
                    tick_time_ms=TICK_TIME_MS,
                    heap_mb=ZOOKEEPER_HEAP_MB,
                )
            )
            pid = java_pid(str(self.zookeeper.data_dir / "zoo.cfg"))
            assert pid is not None, "it serves"
            self.zookeeper_pid = pid
            self.client = stack.enter_context(BenchClient(self.zookeeper.port))
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        """Start the brokers and a controller; return when it is elected."""
        raise NotImplementedError

    def pids(self) -> dict[str, int]:
        """The processes whose CPU is counted, by what they are."""
        return {"controller": self.controller.pid, "zookeeper": self.zookeeper_pid}

    def start_controller(self) -> Controller:
        """One more process, which waits to become the controller. It ends with the run."""
        raise UsageError(f"{self.product} has no standby here")

    def applied(self) -> dict[str, Any]:
        """What the brokers made of what they were sent: ``not_applied`` counts what is wrong."""
        return {}

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


class KafkaPeer(Peer):
    """A controller over TCP to fake brokers that answer every request at once: Kafka's own."""

    product = "kafka-2.8.2"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._first_port = free_ports(options.brokers + MAX_CONTROLLERS)
        self._controllers = 0

    def _start(self, stack: ExitStack) -> None:
        self._processes = stack.enter_context(ExitStack())
        self._fakes = self._processes.enter_context(
            FakeBrokers(
                self.options.brokers,
                self._first_port + MAX_CONTROLLERS,
                self.zookeeper.connect_string,
                self.options.work_dir / "fakes",
            )
        )
        self.brokers = self._fakes
        self.controller = self.start_controller()

    def pids(self) -> dict[str, int]:
        return {**super().pids(), "fakes": self._fakes.pid}

    def start_controller(self) -> SupervisedController:
        """One more Kafka broker, which waits to become the controller. It ends with the run."""
        number = self._controllers
        self._controllers += 1
        controller = self._start_process(
            FIRST_CONTROLLER + number,
            self._first_port + number,
            self.options.work_dir / f"controller-{FIRST_CONTROLLER + number}",
        )
        self._processes.callback(controller.kill)
        return controller

    def _start_process(self, broker_id: int, port: int, folder: Path) -> SupervisedController:
        connect, settings = self.zookeeper.connect_string, self.options.settings
        return RealController(broker_id, port, connect, folder, settings)
