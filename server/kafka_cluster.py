"""The cluster of Kafka's brokers that klamm's controller joins, as ZooKeeper shows it.

Also finds the replicas that Kafka's brokers and tools assigned to the controller's broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.counting import counted, parse_whole_number
from klamm.cluster.errors import NotKlamm, UsageError
from klamm.cluster.types import Broker, EndPoint
from klamm.wire.broker_security import PLAINTEXT
from klamm.world.cluster_spec import MAX_PORT
from klamm.zk.guard import MARKER_PATH
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.znodes.brokers import SECURITY_PROTOCOLS


class JoinedCluster(NamedTuple):
    """A cluster that klamm may join: its id, and its live brokers, keyed by broker id."""

    cluster_id: str
    brokers: Mapping[int, Broker]

    def end_points(self, listener_name: str) -> dict[int, EndPoint]:
        """Return where the brokers listen, keyed by broker id."""
        return {
            id_: one
            for id_, broker in self.brokers.items()
            for one in broker.end_points
            if one.listener_name == listener_name
        }


def join_cluster(session: KazooSession, connect_string: str, broker_id: int) -> JoinedCluster:
    """Return the cluster in ZooKeeper, without the broker ``broker_id``.

    Raises NotKlamm if there is no cluster that klamm may join.
    """
    client = KafkaZkClient(KazooStore(session))
    cluster_id = client.get_cluster_id()
    is_marked = client.paths_exist([MARKER_PATH])[0]
    found = client.get_all_brokers_and_epochs_in_cluster().values
    if cluster_id is None:
        raise NotKlamm(
            f"there is no Kafka cluster in ZooKeeper at {connect_string}",
            hint="start its brokers first; give their zookeeper.connect, with its chroot",
        )
    if is_marked:
        raise NotKlamm(
            f"the cluster in ZooKeeper at {connect_string} was created by klamm, and its brokers "
            "are simulated in another process",
            hint="klamm up runs its controllers itself",
        )
    brokers = {id_: one.broker for id_, one in found.items() if id_ != broker_id}
    return JoinedCluster(cluster_id, brokers)


def check_rack(brokers: Mapping[int, Broker], rack: str | None) -> None:
    """Raise UsageError if only the brokers, or only the controller, have racks."""
    for broker in brokers.values():
        if (broker.rack is None) != (rack is None):
            racks = ["no rack" if one is None else f"rack {one}" for one in (broker.rack, rack)]
            raise UsageError(
                f"broker {broker.id} has {racks[0]}, but this controller has {racks[1]}: Kafka "
                "would create no topics",
                hint="omit --rack" if broker.rack is None else "give one of the racks with --rack",
            )


def secured(listeners: tuple[EndPoint, ...], brokers: Mapping[int, Broker]) -> tuple[EndPoint, ...]:
    """Return the controller's listeners with the security protocols of the brokers.

    Raises UsageError if the brokers do not have such listeners.
    """
    return tuple(
        msgspec.structs.replace(one, security_protocol=_protocol(one.listener_name, brokers))
        for one in listeners
    )


def _protocol(name: str, brokers: Mapping[int, Broker]) -> str:
    """Return the security protocol of the brokers' listener ``name``."""
    protocols: dict[str, int] = {}
    for broker in brokers.values():
        known = {one.listener_name: one.security_protocol for one in broker.end_points}
        if name not in known:
            texts = ", ".join(f"{one} ({protocol})" for one, protocol in known.items())
            raise UsageError(
                f"broker {broker.id} has no listener {name}; its listeners: {texts}",
                hint="name the brokers' inter.broker.listener.name with "
                "--listener NAME://HOST:PORT",
            )
        protocols.setdefault(known[name], broker.id)
    if len(protocols) > 1:
        texts = ", ".join(f"{one} on broker {broker}" for one, broker in protocols.items())
        raise UsageError(f"the listener {name} has several security protocols: {texts}")
    if not protocols and name not in SECURITY_PROTOCOLS:
        raise UsageError(
            f"the security protocol of the listener {name} is not known: no broker is registered",
            hint="start a broker first",
        )
    return next(iter(protocols), name)


def parse_listener(text: str) -> EndPoint:
    """Parse ``[NAME://]HOST:PORT``. Its security protocol is not known yet. Raises UsageError."""
    name, separator, place = text.rpartition("://")
    host, _, port = place.rpartition(":")
    number = parse_whole_number(port) or 0
    if not host or not 1 <= number <= MAX_PORT:
        raise UsageError(
            f"--listener {text}: not [NAME://]HOST:PORT",
            hint="write e.g. --listener localhost:9099",
        )
    return EndPoint(host.strip("[]"), number, name.upper() if separator else PLAINTEXT)


class OwnReplicas(NamedTuple):
    """A topic with replicas on the controller's broker: ``here`` of its ``partitions`` have one.

    The broker stores nothing, so such a replica is never in sync, and the partitions that have no
    other replica, ``alone`` of them, have no leader.
    """

    topic: str
    here: int
    partitions: int
    alone: int

    @property
    def text(self) -> str:
        """The numbers in words."""
        has = "has" if self.here == 1 else "have"
        alone = "" if self.alone == 0 else f", {self.alone:,} of them no other, and so no leader"
        of = f"{self.here:,} of {counted(self.partitions, 'partition')} of topic {self.topic}"
        return f"{of} {has} a replica there{alone}"


def own_replicas(broker_id: int, cache: MetadataCache) -> list[OwnReplicas]:
    """Return the topics with replicas on a broker, sorted by name.

    Every broker's metadata cache has them, whichever broker is the controller.
    """
    counts: dict[str, list[int]] = {}
    for state in cache.states():
        if broker_id in state.replicas:
            found = counts.setdefault(state.topic_partition.topic, [0, 0])
            found[0] += 1
            found[1] += len(state.replicas) == 1
    return [
        OwnReplicas(topic, count, cache.num_partitions(topic), alone)
        for topic, (count, alone) in sorted(counts.items())
    ]
