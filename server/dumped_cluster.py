"""The cluster that is in a dump: which brokers it has, which of them run, what is to be loaded.

For `klamm up --from-dump`. Reads a dump only; nothing is started or written here. A broker that was
registered runs; one that only holds replicas is dead, and known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.admin.guard import MARKER_PATH
from klamm.cluster.errors import UsageError
from klamm.cluster.types import EndPoint, ReplicaAssignment, TopicPartition
from klamm.zk.dump import ZNode
from klamm.zk.dump_store import DumpStore
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.load_plan import LoadPlan, plan_load
from klamm.zk.znode_client import parent_path
from klamm.zk.znodes import (
    BrokerIdsZNode,
    ControllerEpochZNode,
    ControllerZNode,
    MalformedZNode,
    TopicsZNode,
)

_HINT: Final = "klamm zk dump --zookeeper host:port/chroot makes one of a whole cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedCluster:
    """A cluster to be brought up again. ``notes``: a line on each thing that is not as it was.

    ``running``, ``dead``: broker ids, ascending. ``controller_id``: who was the controller.
    """

    source: str
    plan: LoadPlan
    running: tuple[int, ...]
    dead: tuple[int, ...]
    racks: Mapping[int, str]
    end_points: Mapping[int, tuple[EndPoint, ...]]
    controller_id: int | None
    notes: tuple[str, ...]

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """All brokers, ascending."""
        return tuple(sorted((*self.running, *self.dead)))

    def candidates(self, count: int) -> tuple[int, ...]:
        """``count`` brokers that run: the controller of the dump first, then by id."""
        return tuple(sorted(self.running, key=lambda id_: id_ != self.controller_id)[:count])


def read_dumped_cluster(znodes: Sequence[ZNode], source: str) -> DumpedCluster:
    """The cluster in these znodes, which came from ``source``.

    Raises UsageError if they hold none, or one in which no controller could be elected.
    """
    client = KafkaZkClient(DumpStore(_with_parents(znodes)))
    _check_is_cluster(client, znodes, source)
    notes: list[str] = []
    registered = client.get_all_brokers_and_epochs_in_cluster()
    notes += [str(error) for error in registered.malformed]
    ids = {id_ for id_ in client.get_sorted_broker_list() if id_ >= 0}
    assigned = _assigned(client, notes)
    holders = _holders(assigned, notes)
    running = ids or holders
    if not running:
        raise UsageError(f"{source} names no broker", hint=_HINT)
    if not ids:
        notes.append("no broker is registered in the dump: all that hold replicas are started")
    kept = [znode for znode in znodes if not _goes_with_a_session(znode.path)]
    epoch = _epoch(client, source, assigned, notes)
    if epoch is not None:
        path = ControllerEpochZNode.path
        kept = [*(z for z in kept if z.path != path), ZNode(path, str(epoch))]
    plan = plan_load(kept, frozenset([MARKER_PATH]))
    notes += [f"{path} is left out: it could not be read" for path in plan.unreadable]
    notes += [f"{path} is left out: it is ephemeral" for path in plan.ephemeral]
    brokers = {id_: found.broker for id_, found in registered.values.items() if id_ in ids}
    return DumpedCluster(
        source=source,
        plan=plan,
        running=tuple(sorted(running)),
        dead=tuple(sorted(holders - running)),
        racks={id_: broker.rack for id_, broker in brokers.items() if broker.rack is not None},
        end_points={id_: broker.end_points for id_, broker in brokers.items() if broker.end_points},
        controller_id=_controller(client),
        notes=tuple(notes),
    )


def _with_parents(znodes: Sequence[ZNode]) -> list[ZNode]:
    """These znodes and those above them, which a dump of a part does not have."""
    known = {znode.path for znode in znodes}
    above: dict[str, ZNode] = {}
    for path in known:
        while (path := parent_path(path)) not in known and path not in above:
            above[path] = ZNode(path, None)
    return [*above.values(), *znodes]


def _check_is_cluster(client: KafkaZkClient, znodes: Sequence[ZNode], source: str) -> None:
    wanted = (BrokerIdsZNode.path, TopicsZNode.path)
    if any(client.paths_exist(wanted)):
        return
    for znode in znodes:
        for path in wanted:
            if znode.path.endswith(path):
                chroot = znode.path.removesuffix(path)
                raise UsageError(
                    f"{source} holds a cluster below {chroot}, not at its top",
                    hint=f"dump it by klamm zk dump --zookeeper host:port{chroot}",
                )
    raise UsageError(f"{source} holds no Kafka cluster: no {TopicsZNode.path}", hint=_HINT)


def _assigned(client: KafkaZkClient, notes: list[str]) -> dict[TopicPartition, ReplicaAssignment]:
    topics = client.get_topic_assignments(client.get_all_topics_in_cluster())
    notes += [str(error) for error in topics.malformed]
    return {
        partition: assignment
        for topic in topics.values.values()
        for partition, assignment in topic.assignment.items()
    }


def _holders(assigned: Mapping[TopicPartition, ReplicaAssignment], notes: list[str]) -> set[int]:
    """The brokers that hold replicas, also those that a reassignment adds."""
    ids = {id_ for assignment in assigned.values() for id_ in assignment.replicas}
    if min(ids, default=0) < 0:
        notes.append(f"replicas on broker {min(ids)}: there can be no such broker")
    return {id_ for id_ in ids if id_ >= 0}


def _epoch(
    client: KafkaZkClient,
    source: str,
    partitions: Collection[TopicPartition],
    notes: list[str],
) -> int | None:
    """The controller's epoch where it must be another than the dump's; None: it is right.

    A controller does not touch a partition whose state is of a later epoch than its own.
    """
    try:
        found = client.get_controller_epoch()
    except MalformedZNode as error:
        raise UsageError(
            f"{source}: /controller_epoch is malformed, so nobody could be elected: {error}",
            hint="put the number there that it should be",
        ) from None
    states = client.get_partition_states(list(partitions)).values.values()
    latest = max((state.controller_epoch for state in states), default=0)
    epoch = 0 if found is None else found[0]
    if latest <= epoch:
        return None
    notes.append(
        f"/controller_epoch is {latest}, the latest of a partition's state, "
        + ("because the dump has none" if found is None else f"and not {epoch}")
    )
    return latest


def _controller(client: KafkaZkClient) -> int | None:
    try:
        return client.get_controller_id()
    except MalformedZNode:
        return None


def _goes_with_a_session(path: str) -> bool:
    is_registration = path.startswith(f"{BrokerIdsZNode.path}/")
    return is_registration or path == ControllerZNode.path
