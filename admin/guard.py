"""Prevents klamm from taking over, or changing unasked, the ZooKeeper of a Kafka cluster.

The znode ``/klamm``, which Kafka does not have, marks a chroot that klamm created. This file only
decides; the command line asks for confirmation.
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
# ZooKeeper's own znode, and the znodes that Kafka's tools create in a chroot without brokers.
_HARMLESS: Final = frozenset({"zookeeper", "brokers", "config", "admin"})


class RunInfo(msgspec.Struct, frozen=True):
    """Contents of the marker: the run of klamm that created it, and the time."""

    run_id: str
    created_ms: int
    klamm_version: str
    version: int = 1


def check_may_run_in(client: KafkaZkClient) -> None:
    """Raise NotKlamm if klamm's controllers would compete with those of a Kafka cluster.

    That is the case in a chroot without the marker in which brokers have ever registered, or which
    has a controller. A cluster that is currently stopped also counts. Writes nothing.
    """
    marked, brokers, controller = client.paths_exist(
        [MARKER_PATH, BrokerIdsZNode.path, ControllerZNode.path]
    )
    if marked or not (brokers or controller):
        return
    ids = client.get_children(BrokerIdsZNode.path)
    alive = f"{len(ids)} live broker{'' if len(ids) == 1 else 's'}" if ids else "no live brokers"
    raise NotKlamm(
        f"this ZooKeeper belongs to the Kafka cluster {_cluster_id(client)} ({alive}), not to "
        "klamm: nothing was written",
        hint="use another chroot, e.g. --zookeeper host:port/klamm",
    )


def create_marker(client: KafkaZkClient, run: RunInfo) -> bool:
    """Mark an existing chroot as klamm's; return False if it is already marked."""
    return client.create_recursive(MARKER_PATH, marker(run))


def marker(run: RunInfo) -> bytes:
    """Return the data of the marker znode."""
    return msgspec.json.encode(run)


def foreign_cluster(client: KafkaZkClient) -> str | None:
    """Return the name of the Kafka cluster that uses this ZooKeeper, as text for a question.

    None if no confirmation is needed: klamm created the chroot, or only tools have written to it.
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
