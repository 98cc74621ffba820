"""Replicas that Kafka's brokers and tools assigned to the broker of `klamm controller run`.

The broker stores nothing, so such a replica is never in sync, and a partition that has no other
replica has no leader. The replicas are those in the broker's metadata cache, so they are known
whichever broker is the controller.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.counting import counted


class OwnReplicas(NamedTuple):
    """A topic with replicas on the broker: ``here`` of its ``partitions`` have one.

    ``alone``: how many of them have no other replica.
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
    """Return the topics with replicas on a broker, sorted by name."""
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
