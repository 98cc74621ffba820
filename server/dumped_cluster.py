"""The cluster in a dump, for `klamm up --from-dump`: its brokers, and the znodes to load.

Only reads the dump; starts and writes nothing. Brokers that are registered in the dump are started.
Brokers that hold replicas but are not registered belong to the cluster, but are dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.cluster.errors import UsageError
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.world.cluster_spec import ClusterSpec
from klamm.zk.dump import DumpedZNode
from klamm.zk.dump_store import DumpStore
from klamm.zk.guard import MARKER_PATH
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

_HINT: Final = "klamm zk dump --zookeeper HOST:PORT/CHROOT dumps a whole cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedCluster:
    """A cluster that klamm starts from a dump.

    - ``cluster``: its brokers, with racks and end points. Any broker that is started may become
      the controller; the controller in the dump is the first candidate.
    - ``dead``: its brokers that are not started.
    - ``notes`` has a line for each difference from the dumped cluster.
    """

    source: str
    plan: LoadPlan
    cluster: ClusterSpec
    dead: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the brokers to start."""
        return tuple(id_ for id_ in self.cluster.broker_ids if id_ not in self.dead)


def read_dumped_cluster(znodes: Sequence[DumpedZNode], source: str) -> DumpedCluster:
    """Return the cluster that ``znodes`` describe; ``source`` names the dump in messages.

    Raises UsageError if the znodes contain no cluster, or a cluster that could not elect a
    controller.
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
        raise UsageError(f"{source} contains no brokers", hint=_HINT)
    if not ids:
        notes.append("no broker is registered in the dump: all brokers with replicas are started")
    kept = [znode for znode in znodes if not _is_bound_to_a_session(znode.path)]
    epoch = _epoch(client, source, assigned, notes)
    if epoch is not None:
        path = ControllerEpochZNode.path
        kept = [*(z for z in kept if z.path != path), DumpedZNode(path, str(epoch))]
    plan = plan_load(kept, frozenset([MARKER_PATH]))
    notes += [f"{path} is skipped: the dump could not read it" for path in plan.unreadable]
    notes += [f"{path} is skipped: it is ephemeral" for path in plan.ephemeral]
    brokers = {id_: found.broker for id_, found in registered.values.items() if id_ in ids}
    controller_id = _controller(client)
    cluster = ClusterSpec(
        broker_ids=tuple(sorted(running | holders)),
        racks={id_: broker.rack for id_, broker in brokers.items() if broker.rack is not None},
        end_points={id_: broker.end_points for id_, broker in brokers.items() if broker.end_points},
        candidates=tuple(sorted(running, key=lambda id_: (id_ != controller_id, id_))),
    )
    return DumpedCluster(
        source=source,
        plan=plan,
        cluster=cluster,
        dead=tuple(sorted(holders - running)),
        notes=tuple(notes),
    )


def _with_parents(znodes: Sequence[DumpedZNode]) -> list[DumpedZNode]:
    """Return the znodes and all their ancestors; the dump of a subtree lacks some ancestors."""
    known = {znode.path for znode in znodes}
    above: dict[str, DumpedZNode] = {}
    for path in known:
        while (path := parent_path(path)) not in known and path not in above:
            above[path] = DumpedZNode(path, None)
    return [*above.values(), *znodes]


def _check_is_cluster(client: KafkaZkClient, znodes: Sequence[DumpedZNode], source: str) -> None:
    wanted = (BrokerIdsZNode.path, TopicsZNode.path)
    if any(client.paths_exist(wanted)):
        return
    for znode in znodes:
        for path in wanted:
            if znode.path.endswith(path):
                chroot = znode.path.removesuffix(path)
                raise UsageError(
                    f"{source} contains a cluster below the chroot {chroot}, not at its root",
                    hint=f"dump it with klamm zk dump --zookeeper HOST:PORT{chroot}",
                )
    raise UsageError(
        f"{source} contains no Kafka cluster: {TopicsZNode.path} is missing", hint=_HINT
    )


def _assigned(client: KafkaZkClient, notes: list[str]) -> dict[TopicPartition, ReplicaAssignment]:
    topics = client.get_topic_assignments(client.get_all_topics_in_cluster())
    notes += [str(error) for error in topics.malformed]
    return {
        partition: assignment
        for topic in topics.values.values()
        for partition, assignment in topic.assignment.items()
    }


def _holders(assigned: Mapping[TopicPartition, ReplicaAssignment], notes: list[str]) -> set[int]:
    """Return the brokers that hold replicas, including replicas that a reassignment adds."""
    ids = {id_ for assignment in assigned.values() for id_ in assignment.replicas}
    if min(ids, default=0) < 0:
        notes.append(f"replicas on broker {min(ids)} are ignored: not a valid broker id")
    return {id_ for id_ in ids if id_ >= 0}


def _epoch(
    client: KafkaZkClient,
    source: str,
    partitions: Collection[TopicPartition],
    notes: list[str],
) -> int | None:
    """Return the controller epoch to load, or None if the epoch in the dump is high enough.

    The epoch must not be lower than the controller epoch of any partition state, because a
    controller does not change a partition whose state znode has a later controller epoch.
    """
    try:
        found = client.get_controller_epoch()
    except MalformedZNode as error:
        raise UsageError(
            f"{source}: /controller_epoch is malformed, so no controller could be elected: {error}",
            hint="set it to the last controller epoch, a number",
        ) from None
    states = client.get_partition_states(list(partitions)).values.values()
    latest = max((state.controller_epoch for state in states), default=0)
    epoch = 0 if found is None else found[0]
    if latest <= epoch:
        return None
    notes.append(
        f"/controller_epoch is set to {latest}, the latest controller epoch of a partition state, "
        + ("because the dump has none" if found is None else f"instead of {epoch}")
    )
    return latest


def _controller(client: KafkaZkClient) -> int | None:
    try:
        return client.get_controller_id()
    except MalformedZNode:
        return None


def _is_bound_to_a_session(path: str) -> bool:
    is_registration = path.startswith(f"{BrokerIdsZNode.path}/")
    return is_registration or path == ControllerZNode.path
