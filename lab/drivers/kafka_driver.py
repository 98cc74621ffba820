"""ScenarioDriver for brokers of Kafka 2.8.2, under their own controller or klamm's.

What a broker does inside is not visible: conditions read ZooKeeper, the brokers' metadata, their
log directories, and what the drill's clients saw. klamm's controller also has a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.client_requests import MetadataRequest, MetadataResponse, PartitionMetadata
from klamm.cluster.errors import KlammError
from klamm.cluster.journal import JournalRow
from klamm.cluster.requests import DescribeLogDirsRequest, DescribeLogDirsResponse
from klamm.cluster.types import (
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.lab.checks.admin_history import AdminHistory, RecordedStore
from klamm.lab.checks.agreement import StoredCluster
from klamm.lab.drivers.live_driver import LiveDriver
from klamm.world.journal.rotated_files import LogLines
from klamm.world.kafka.cluster import KafkaCluster
from klamm.zk.store import GetChildren, GetData, ReadOp, ReadResult, Store
from klamm.zk.znodes import BrokerIdsZNode, ControllerEpochZNode

ALLOWANCE_MS: Final = 30_000.0
"""What is added to the time limit of each wait: a broker of Kafka takes seconds to start."""
_IDLE_AFTER_S: Final = 1.0
_FETCH_WAIT_MS: Final = 500
HIDDEN: Final = frozenset({"partition_state", "offline_partitions", "agrees"})
"""Conditions on the memory of the controller and the brokers."""
OF_KAFKAS_CONTROLLER: Final = frozenset({"journal"})
"""Conditions that only klamm's controller can show."""
OF_A_BROKER: Final = frozenset({"controller", "controller_epoch"})
"""Conditions on the controller, which differ if klamm's controller has replaced a broker's."""


class BrokersStore(RecordedStore):
    """Store whose brokers are those of the drill, so that its tools put no replicas on klamm.

    Kafka's tools do not know that klamm's controllers host no replicas
    (docs/clients-and-tools.md).
    """

    def __init__(self, store: Store, history: AdminHistory, broker_ids: Collection[int]) -> None:
        super().__init__(store, history)
        self._broker_ids = broker_ids

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        return [
            self._without_controllers(result)
            if isinstance(op, GetChildren) and op.path == BrokerIdsZNode.path
            else result
            for op, result in zip(ops, super().read(ops), strict=True)
        ]

    def _without_controllers(self, result: ReadResult) -> ReadResult:
        if result.children is None:
            return result
        brokers = [id_ for id_ in result.children if int(id_) in self._broker_ids]
        return msgspec.structs.replace(result, children=brokers)


class KafkaDriver(LiveDriver[KafkaCluster]):
    """ScenarioDriver for a KafkaCluster."""

    POLL_S = 0.05
    agreement = "the brokers' metadata agrees with ZooKeeper"

    def __init__(self, cluster: KafkaCluster) -> None:
        super().__init__(cluster, has_files=True, fetch_wait_ms=_FETCH_WAIT_MS)
        self._rows: list[JournalRow] = []
        self._journals: dict[Path, LogLines] = {}
        self.unobservable = unobservable(has_klamm=bool(cluster.controllers))

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The rows of klamm's journal so far; none under Kafka's own controller."""
        for controller in self.cluster.controllers:
            path = controller.journal
            lines = self._journals.setdefault(path, LogLines(path))
            self._rows += (msgspec.json.decode(line, type=JournalRow) for line in lines)
        return self._rows

    def recorded(self, store: Store) -> RecordedStore:
        """Return the store whose writes are part of the history, without klamm's controllers."""
        return BrokersStore(store, self.admin_history, self.cluster.spec.broker_ids)

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Poll until ``condition`` holds; return False ALLOWANCE_MS after the timeout."""
        return super().run_until(condition, timeout_ms + ALLOWANCE_MS)

    def quiesce(self) -> None:
        """Wait until nothing has been written to ZooKeeper for a second."""

        def last_zxid() -> int:
            self.store.read([GetData(ControllerEpochZNode.path)])
            return self.cluster.own_session.last_zxid

        self._run_until_still(last_zxid, _IDLE_AFTER_S)

    def known_assignments(self) -> Mapping[TopicPartition, ReplicaAssignment] | None:
        """Return the assignments in ZooKeeper, or None if there is no controller."""
        if not self.cluster.has_controller():
            return None
        return StoredCluster.read(self.store).assignments

    def hosted_partitions(self, broker_id: int) -> list[str] | None:
        """Return the partitions in a broker's log directories, or None if it does not respond."""
        if broker_id not in self.cluster.nodes:
            return None
        try:
            response = self.cluster.ask(broker_id, DescribeLogDirsRequest())
        except KlammError:
            return None
        assert isinstance(response, DescribeLogDirsResponse)
        logs = (log for log_dir in response.log_dirs for log in log_dir.logs.items())
        return sorted({str(tp) for tp, log in logs if not log.is_future})

    def disagreements_with_zookeeper(self) -> list[str]:
        """Return how the metadata of the running brokers differs from ZooKeeper."""
        states, found = StoredCluster.read(self.store).states, list[str]()
        known_ids = self.cluster.spec.broker_ids
        for broker_id in sorted(set(self.cluster.nodes) - self.cluster.paused_broker_ids):
            try:
                metadata = self.cluster.ask(broker_id, MetadataRequest())
            except KlammError as error:
                found.append(error.message)
                continue
            assert isinstance(metadata, MetadataResponse)
            shown = {broker.id for broker in metadata.brokers}.intersection(known_ids)
            lines = _differences(metadata, shown, self.cluster.registered_ids(), states)
            found += (f"broker {broker_id}: {line}" for line in lines)
        return found


def unobservable(*, has_klamm: bool) -> frozenset[str]:
    """Return the kinds of conditions that brokers of Kafka do not show.

    ``has_klamm``: klamm's controller drives the brokers."""
    return HIDDEN | (OF_A_BROKER if has_klamm else OF_KAFKAS_CONTROLLER)


def _differences(
    metadata: MetadataResponse,
    shown: Collection[int],
    registered: list[int],
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
) -> Iterator[str]:
    if sorted(shown) != registered:
        yield f"its metadata has the brokers {sorted(shown)}, registered are {registered}"
    known = {
        TopicPartition(topic.name, one.partition): one
        for topic in metadata.topics
        for one in topic.partitions
    }
    for tp, state in states.items():
        one = known.pop(tp, None)
        if one is None:
            yield f"its metadata lacks {tp}"
        elif _of_metadata(one) != _of_znode(state, registered):
            yield (
                f"{tp}: its metadata has leader, epoch, ISR {_of_metadata(one)}, ZooKeeper"
                f" {_of_znode(state, registered)}"
            )
    if known:
        yield f"its metadata has {', '.join(map(str, known))}, which ZooKeeper does not have"


def _of_metadata(one: PartitionMetadata) -> tuple[int, int, list[int]]:
    return one.leader, one.leader_epoch, sorted(one.isr)


def _of_znode(
    state: LeaderIsrAndControllerEpoch, registered: list[int]
) -> tuple[int, int, list[int]]:
    one = state.leader_and_isr
    # Brokers report no leader if it is not alive.
    leader = one.leader if one.leader in registered else -1
    return leader, one.leader_epoch, sorted(one.isr)
