"""What travels as JSON between the API of a running cluster and its clients: topics, partitions.

Bodies of requests and of answers, and how the values of admin/ become them and come back: a
partition is an object and never a key. Knows neither HTTP nor a cluster. Directories and configs
are in files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from admin.failures import Failure
from admin.topics.cluster_topics import NewPartitions
from admin.topics.text import TopicDescription
from cluster.api_errors import Errors
from cluster.integers import Count, Int32
from cluster.types import ElectionType, ReplicaAssignment, TopicPartition

DEFAULT_TIMEOUT_MS = 30_000


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all types that requests consist of: a field without a meaning here is an error.

    Types that only answers have accept unknown fields, so that clients can read those of newer
    servers.
    """


class NoFields(RequestBody, frozen=True):
    """Body of a request without fields, query of a request without parameters."""


class Partition(RequestBody, frozen=True):
    """One partition."""

    topic: str
    partition: Count

    @property
    def key(self) -> TopicPartition:
        """The partition as everybody else knows it."""
        return TopicPartition(self.topic, self.partition)


class PartitionResult(Partition, frozen=True, forbid_unknown_fields=False):
    """Why a partition was refused; the code NONE says that it was not."""

    code: str
    message: str | None = None

    @classmethod
    def of(cls, tp: TopicPartition, failure: Failure | None) -> PartitionResult:
        """From an answer of the controller."""
        if failure is None:
            return cls(*tp, Errors.NONE.name)
        return cls(*tp, failure.error.name, failure.message)

    @property
    def failure(self) -> Failure | None:
        """Back again."""
        return _failure(self.code, self.message)


# Topics and brokers


class Topics(RequestBody, frozen=True):
    """Body of POST /topics/describe and /topics/delete."""

    topics: tuple[str, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class CreatePartitions(RequestBody, frozen=True):
    """Body of POST /topics/partitions."""

    topics: dict[str, NewPartitions]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class TopicNames(msgspec.Struct, frozen=True):
    """Answer of GET /topics."""

    topics: list[str]


class TopicDescriptions(msgspec.Struct, frozen=True):
    """Answer of POST /topics/describe."""

    topics: list[TopicDescription]


class TopicFailures(msgspec.Struct, frozen=True):
    """Answer where topics were refused, by name."""

    failures: dict[str, Failure]


class LiveBroker(msgspec.Struct, frozen=True):
    """A broker that lives, and its rack."""

    id: int
    rack: str | None = None


class LiveBrokers(msgspec.Struct, frozen=True):
    """Answer of GET /brokers/live."""

    brokers: list[LiveBroker]


# Reassignments and elections


class PartitionsOrAll(RequestBody, frozen=True):
    """Body of POST /reassignments/list. None: all of them."""

    partitions: tuple[Partition, ...] | None = None


class MovingPartition(Partition, frozen=True, forbid_unknown_fields=False):
    """A partition that is being reassigned."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class Reassignments(msgspec.Struct, frozen=True):
    """Answer of GET /reassignments and POST /reassignments/list."""

    reassignments: list[MovingPartition]

    @classmethod
    def of(cls, found: Mapping[TopicPartition, ReplicaAssignment]) -> Reassignments:
        """From what the controller says, sorted."""
        return cls(
            [
                MovingPartition(
                    *tp, found[tp].replicas, found[tp].adding_replicas, found[tp].removing_replicas
                )
                for tp in sorted(found)
            ]
        )

    def by_partition(self) -> dict[TopicPartition, ReplicaAssignment]:
        """Back again."""
        return {
            one.key: ReplicaAssignment(one.replicas, one.adding_replicas, one.removing_replicas)
            for one in self.reassignments
        }


class WantedReplicas(Partition, frozen=True):
    """Where a partition is to be; None cancels its reassignment."""

    replicas: tuple[Int32, ...] | None


class AlterReassignments(RequestBody, frozen=True):
    """Body of POST /reassignments."""

    reassignments: tuple[WantedReplicas, ...]
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


class PartitionResults(msgspec.Struct, frozen=True):
    """Answer of POST /reassignments and /elections: what became of partitions, sorted."""

    partitions: list[PartitionResult]

    @classmethod
    def of(cls, results: Mapping[TopicPartition, Failure | None]) -> PartitionResults:
        """From answers of the controller."""
        return cls([PartitionResult.of(tp, results[tp]) for tp in sorted(results)])

    def by_partition(self) -> dict[TopicPartition, Failure | None]:
        """Back again."""
        return {one.key: one.failure for one in self.partitions}


class ElectLeaders(RequestBody, frozen=True):
    """Body of POST /elections. ``partitions`` None: all that need it."""

    election_type: ElectionType
    partitions: tuple[Partition, ...] | None = None
    timeout_ms: Int32 = DEFAULT_TIMEOUT_MS


def keys(partitions: Iterable[Partition] | None) -> list[TopicPartition] | None:
    """Partitions as everybody else knows them; None stays None."""
    return None if partitions is None else [partition.key for partition in partitions]


def partitions_of(found: Iterable[TopicPartition] | None) -> tuple[Partition, ...] | None:
    """The reverse of ``keys``."""
    return None if found is None else tuple(Partition(*tp) for tp in found)


def _failure(code: str, message: str | None) -> Failure | None:
    return None if code == Errors.NONE.name else Failure(Errors[code], message)
