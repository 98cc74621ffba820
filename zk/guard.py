"""Keeps klamm from taking over, or changing without confirmation, a Kafka cluster's ZooKeeper.

The marker znode ``/klamm``, which Kafka does not create, marks a chroot that klamm created. This
module decides whether confirmation is needed; the command line asks for it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from klamm.cluster.counting import plural
from klamm.cluster.errors import NotKlamm
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import (
    BrokerIdsZNode,
    ClusterIdZNode,
    ControllerZNode,
    MalformedZNode,
)

MARKER_PATH: Final = "/klamm"
# ZooKeeper's own znode, and the znodes that Kafka's tools create in a chroot without brokers.
_HARMLESS: Final = frozenset({"zookeeper", "brokers", "config", "admin"})


class RunInfo(msgspec.Struct, frozen=True):
    """Contents of the marker znode: which run of klamm created the znode, and when."""

    run_id: str
    created_ms: int
    klamm_version: str
    version: int = 1


def check_may_run_in(client: KafkaZkClient) -> None:
    """Raise NotKlamm if klamm's controllers would compete with those of a Kafka cluster.

    The controllers would compete if the chroot has /controller or /brokers/ids but no marker znode.
    /brokers/ids still exists after all Kafka brokers were stopped. Nothing is written.
    """
    marked, brokers, controller = client.paths_exist(
        [MARKER_PATH, BrokerIdsZNode.path, ControllerZNode.path]
    )
    if marked or not (brokers or controller):
        return
    ids = client.get_children(BrokerIdsZNode.path)
    alive = f"{len(ids)} live broker{plural(len(ids))}" if ids else "no live brokers"
    raise NotKlamm(
        f"this ZooKeeper belongs to the Kafka cluster {_cluster_id(client)} ({alive}), not to "
        "klamm: nothing was written",
        hint="use another chroot, e.g. --zookeeper HOST:PORT/klamm",
    )


def create_marker(client: KafkaZkClient, run: RunInfo) -> bool:
    """Create the marker znode in an existing chroot. Return False if the znode already exists."""
    return client.create_recursive(MARKER_PATH, marker(run))


def marker(run: RunInfo) -> bytes:
    """Return the data to write to the marker znode."""
    return msgspec.json.encode(run)


def foreign_cluster(client: KafkaZkClient) -> str | None:
    """Return a description of the Kafka cluster in this ZooKeeper, for a confirmation prompt.

    Returns None if no confirmation is needed, because klamm created the chroot, or because only
    Kafka's tools, and no brokers, have written to it.
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
