"""A cluster that answers elections with what a test says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from admin.elections.elections import ElectionType
from admin.failures import Failure
from cluster.errors import KlammError
from cluster.types import TopicPartition


class Answers:
    """ElectionAdmin with one answer; ``asked`` keeps what was asked of it."""

    def __init__(self, answer: Mapping[TopicPartition, Failure | None] | KlammError) -> None:
        self.answer = answer
        self.asked: list[tuple[ElectionType, list[TopicPartition] | None]] = []

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, Failure | None]:
        self.asked.append((election_type, None if partitions is None else list(partitions)))
        if isinstance(self.answer, KlammError):
            raise self.answer
        return self.answer

    @contextmanager
    def open_cluster(self, _: str) -> Iterator[Answers]:
        yield self
