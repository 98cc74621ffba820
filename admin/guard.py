"""Whose ZooKeeper is it? Keeps klamm from taking over, or quietly changing, a live Kafka cluster.

``/klamm`` marks a chroot as one that klamm made. Kafka knows no such znode. It decides only; who
asks the user is the command line's business.
"""

from __future__ import annotations

from typing import Final

import msgspec

from klamm.cluster.errors import NotKlamm
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import (
    BrokerIdsZNode,
    ClusterIdZNode,
    ControllerZNode,
    MalformedZNode,
)

MARKER_PATH: Final = "/klamm"
# ZooKeeper's own znode, and those that Kafka's tools make where no broker ever was.
_HARMLESS: Final = frozenset({"zookeeper", "brokers", "config", "admin"})


class RunInfo(msgspec.Struct, frozen=True):
    """What the marker holds: which run of klamm made it, and when."""

    run_id: str
    created_ms: int
    klamm_version: str
    version: int = 1


def check_may_run_in(client: KafkaZkClient) -> None:
    """Raise NotKlamm where a controller of klamm's would compete with a real one.

    That is a chroot in which brokers have ever been, or which has a controller, without a marker:
    a cluster that is stopped for the moment counts as well. Writes nothing.
    """
    marked, brokers, controller = client.paths_exist(
        [MARKER_PATH, BrokerIdsZNode.path, ControllerZNode.path]
    )
    if marked or not (brokers or controller):
        return
    ids = client.get_children(BrokerIdsZNode.path)
    alive = f"{len(ids)} live broker{'' if len(ids) == 1 else 's'}" if ids else "no live broker"
    raise NotKlamm(
        f"this ZooKeeper belongs to the Kafka cluster {_cluster_id(client)} ({alive}), not to "
        "klamm: nothing was written",
        hint="use a chroot of your own, as in --zookeeper host:port/klamm",
    )


def create_marker(client: KafkaZkClient, run: RunInfo) -> bool:
    """Mark the chroot, which exists, as klamm's; False if it was marked already."""
    return client.create_recursive(MARKER_PATH, marker(run))


def marker(run: RunInfo) -> bytes:
    """What the marker's znode holds."""
    return msgspec.json.encode(run)


def foreign_cluster(client: KafkaZkClient) -> str | None:
    """Whose ZooKeeper a tool is about to change, as words for a question.

    None where no question is needed: klamm made it, or nobody but tools was ever there.
    """
    marked, brokers = client.paths_exist([MARKER_PATH, BrokerIdsZNode.path])
    names = set(client.get_children("/"))
    if marked or (not brokers and names <= _HARMLESS):
        return None
    return f"the Kafka cluster {_cluster_id(client)}"


def _cluster_id(client: KafkaZkClient) -> str:
    try:
        return client.get_cluster_id() or "without an id"
    except MalformedZNode:
        return f"with an unreadable {ClusterIdZNode.path}"
