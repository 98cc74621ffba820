"""Read access to a scenario's cluster, for its conditions and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from klamm.cluster.journal import JournalRow
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.observations import State, Topic, decode_json, decode_state, decode_topic
from klamm.lab.conditions.condition import Condition, StepCheck
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.tools.command_result import CommandResult
from klamm.zk.store import GetChildren, GetData, ReadResult, ResultCode
from klamm.zk.znodes import (
    ControllerEpochZNode,
    ControllerZNode,
    MalformedZNode,
    TopicPartitionStateZNode,
    TopicZNode,
)

Json = dict[str, Any]
MOVED: Final = "moved"


class ClusterView:
    """Read access to a scenario's cluster, and to what has changed since the current step began."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self.driver = driver
        self.tool: CommandResult | None = None
        self.unhealthy: tuple[int, list[str]] | None = None
        self._epoch_before = 0
        self._rows_before = 0

    def begin_step(self, checks: Iterable[StepCheck]) -> None:
        """Remember the current state, with which ``has_moved`` and ``new_rows`` compare.

        ZooKeeper is read only if the step waits for a new controller, because ZooKeeper may be
        unreachable in other steps.
        """
        self.tool = None
        if Condition("controller", MOVED) in [check.condition for check in checks]:
            self._epoch_before = self.controller_epoch()
        self.skip_rows()

    def skip_rows(self) -> None:
        """From now on, ``new_rows`` omits the rows that exist already."""
        self._rows_before = len(self.driver.rows)

    @property
    def new_rows(self) -> Sequence[JournalRow]:
        """The journal rows that were added since the step began."""
        return self.driver.rows[self._rows_before :]

    def read(self, path: str) -> ReadResult:
        """Read a znode. The result code is not OK if the znode cannot be read."""
        return self.driver.store.read([GetData(path)])[0]

    def read_json(self, path: str) -> Json | None:
        """Return the JSON object in a znode, or None if there is no znode or no JSON object."""
        return decode_json(self.read(path).data, dict[str, Any])

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a znode's children."""
        return sorted(self.driver.store.read([GetChildren(path)])[0].children or ())

    def exists(self, path: str) -> bool:
        """Return True if the znode exists."""
        return self.read(path).code is ResultCode.OK

    def controller_id(self) -> int | None:
        """Return the broker id in /controller, or None if the znode is missing or malformed."""
        with suppress(MalformedZNode):
            return ControllerZNode.decode(self.read(ControllerZNode.path).data)
        return None

    def controller_epoch(self) -> int:
        """Return the controller epoch in ZooKeeper, or 0 if the znode is missing or malformed."""
        with suppress(MalformedZNode):
            return ControllerEpochZNode.decode(self.read(ControllerEpochZNode.path).data)
        return 0

    def has_moved(self) -> bool:
        """Return True if /controller exists and a controller was elected since the step began."""
        return self.controller_epoch() > self._epoch_before and self.exists(ControllerZNode.path)

    def state(self, topic_partition: str) -> State | None:
        """Return the state of a partition, or None if its znode is missing or malformed."""
        return decode_state(self.read(state_path(topic_partition)).data, 0)

    def topic(self, topic: str) -> Topic | None:
        """Return the contents of a topic znode, or None if it is missing or malformed."""
        return decode_topic(self.read(TopicZNode.path(topic)).data)

    def replicas(self, topic_partition: str) -> list[int] | None:
        """Return a partition's replicas from the topic znode, or None if they are not listed."""
        tp = partition_of(topic_partition)
        node = self.topic(tp.topic)
        replicas = None if node is None else node.replicas.get(tp.partition)
        return None if replicas is None else list(replicas)

    def reassigned(self, topics: Sequence[str]) -> list[str]:
        """Return which partitions of these topics are being reassigned, as sorted names."""
        found = []
        for name in topics:
            if (node := self.topic(name)) is not None:
                moving = filter(node.is_reassigning, sorted(node.replicas))
                found += [f"{name}-{partition}" for partition in moving]
        return found


def state_path(topic_partition: str) -> str:
    """Return the path of a partition's state znode."""
    return TopicPartitionStateZNode.path(partition_of(topic_partition))


def partition_of(name: str) -> TopicPartition:
    """Parse the name of a partition, such as t-0."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def as_listed(value: Any) -> list[Any]:
    """Return a list of the items of a list or tuple; wrap any other value in a list."""
    return list(value) if isinstance(value, list | tuple) else [value]
