"""The cluster of a hunt's drill, and the random choices for its steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec

from klamm.world.cluster_spec import ClusterSpec


class DrawnCluster(msgspec.Struct, frozen=True):
    """A generated cluster with its topics.

    ``topics``: for each topic, the replicas of its partitions. ``deletable``: topics that may be
    deleted and created again; no records are produced to them.
    """

    spec: ClusterSpec
    topics: dict[str, list[list[int]]]
    deletable: tuple[str, ...]

    @property
    def brokers(self) -> int:
        """The number of brokers, whose ids begin at 0."""
        return len(self.spec.broker_ids)

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The log directories of each broker."""
        return self.spec.broker_config.log_dirs


DrawFault = Callable[["Draw"], str]


class Draw:
    """Makes the random choices for one drill.

    ``down`` and ``paused``: the brokers that are probably down or paused after the steps so far.
    ``deletes``: whether topics may be deleted. ``compares``: whether controller and brokers agree
    with ZooKeeper a while after the network is healed, although brokers are dead. ``stops``:
    whether brokers may be shut down.
    """

    def __init__(self, rng: random.Random, cluster: DrawnCluster) -> None:
        self.rng = rng
        self.cluster = cluster
        self.deletes = True
        self.compares = False
        self.stops = False
        self.down: set[int] = set()
        self.paused: set[int] = set()

    def broker(self) -> str:
        """Return a random target: a broker id, the controller, or the leader of a partition."""
        kind = self.rng.random()
        if kind < 0.25:
            return "controller"
        if kind < 0.5:
            return f"leader of {self.partition()}"
        return str(self.rng.randrange(self.cluster.brokers))

    def up(self) -> int:
        """Return the id of a random broker that is probably running."""
        ids = [n for n in range(self.cluster.brokers) if n not in self.down | self.paused]
        return self.rng.choice(ids or list(range(self.cluster.brokers)))

    def ending(self) -> int:
        """Return the id of a random broker that the step ends."""
        broker = self.up()
        self.down.add(broker)
        return broker

    def topic(self) -> str:
        """Return the name of a random topic."""
        return self.rng.choice(list(self.cluster.topics))

    def partition(self) -> str:
        """Return the name of a random partition."""
        topic = self.topic()
        return f"{topic}-{self.rng.randrange(len(self.cluster.topics[topic]))}"

    def produced(self) -> str:
        """Return the name of a random partition whose topic is never deleted."""
        topics = [name for name in self.cluster.topics if name not in self.cluster.deletable]
        topic = self.rng.choice(topics)
        return f"{topic}-{self.rng.randrange(len(self.cluster.topics[topic]))}"

    def replicas(self) -> list[int]:
        """Return random replicas for a partition."""
        return draw_replicas(self.rng, self.cluster.brokers)


def draw_replicas(rng: random.Random, brokers: int) -> list[int]:
    """Return random replicas of a partition in a cluster of this many brokers."""
    count = min(brokers, rng.choice((1, 2, 2, 3, 3, 3)))
    return rng.sample(range(brokers), count)


def flow(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


def wait(rng: random.Random, pace: str) -> str:
    """Return a step that waits: for some events (``advance``), or for a ``short`` or long time."""
    if pace == "advance":
        return f"advance: {rng.choice((1, 3, 10, 30, 100))}"
    if pace == "short":
        return f"wait: {rng.choice((5, 20, 100, 300))}ms"
    return f"wait: {rng.choice((1, 2, 4, 8))}s"
