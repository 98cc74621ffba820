"""A broker's cached metadata of the whole cluster: partition states, live brokers, the controller.

Only UpdateMetadata requests change the cache. The state objects in the requests are stored and
shared, never copied or changed. Mirrors kafka.server.ZkMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.cluster.requests import UpdateMetadataPartitionState, UpdateMetadataRequest
from klamm.cluster.types import LEADER_DURING_DELETE, Broker, TopicPartition


class MetadataCache:
    """A broker's cache of the cluster metadata that the controller sends."""

    __slots__ = (
        "_partition_counts",
        "_states",
        "_topic_ids",
        "alive_brokers",
        "controller_epoch",
        "controller_id",
    )

    def __init__(self) -> None:
        self._states: dict[tuple[str, int], UpdateMetadataPartitionState] = {}
        self._partition_counts: dict[str, int] = {}
        self._topic_ids: dict[str, str] = {}
        self.alive_brokers: dict[int, Broker] = {}
        self.controller_id: int | None = None
        self.controller_epoch = 0

    def update(self, request: UpdateMetadataRequest) -> None:
        """Apply an UpdateMetadata request."""
        self.controller_id = request.controller_id if request.controller_id >= 0 else None
        self.controller_epoch = request.controller_epoch
        self.alive_brokers = {broker.id: broker for broker in request.live_brokers}
        self._topic_ids.update(request.topic_ids)
        states = self._states
        counts = self._partition_counts
        for state in request.partition_states:
            partition = state.topic_partition
            if state.leader == LEADER_DURING_DELETE:
                self._remove(partition)
                continue
            if partition not in states:
                topic = partition.topic
                counts[topic] = counts.get(topic, 0) + 1
            states[partition] = state

    def _remove(self, partition: TopicPartition) -> None:
        if self._states.pop(partition, None) is None:
            return
        topic = partition.topic
        self._partition_counts[topic] -= 1
        if not self._partition_counts[topic]:
            del self._partition_counts[topic]
            self._topic_ids.pop(topic, None)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: TopicPartition) -> UpdateMetadataPartitionState | None:
        """Return the state of a partition, or None if the partition is unknown."""
        return self._states.get(partition)

    def states(self) -> Iterator[UpdateMetadataPartitionState]:
        """Yield every partition state, in the order in which the partitions were first received."""
        return iter(self._states.values())

    def states_of(self, topic: str) -> list[UpdateMetadataPartitionState]:
        """Return the partition states of a topic, sorted by partition id."""
        count = self.num_partitions(topic)
        found = [
            state
            for partition in range(count)
            if (state := self._states.get((topic, partition))) is not None
        ]
        if len(found) < count:
            # Ids with gaps, or negative ones, which 2.8.2 accepts from CreateTopics.
            found = [state for (name, _), state in self._states.items() if name == topic]
            found.sort(key=lambda state: state.topic_partition.partition)
        return found

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Return the cached leader: -1 if there is no leader, None for an unknown partition."""
        state = self._states.get(partition)
        return None if state is None else state.leader

    def topics(self) -> tuple[str, ...]:
        """Return the topics with at least one known partition."""
        return tuple(self._partition_counts)

    def num_partitions(self, topic: str) -> int:
        """Return the number of known partitions of a topic."""
        return self._partition_counts.get(topic, 0)

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic, or None if the topic or its id is unknown."""
        return self._topic_ids.get(topic)
