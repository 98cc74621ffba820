"""A cluster that answers elections with what a test says."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from klamm.cluster.errors import KlammError
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ElectionType, TopicPartition


class Answers:
    """KafkaAdmin with one answer; ``asked`` keeps what was asked of it."""

    def __init__(self, answer: Mapping[TopicPartition, ApiError] | KlammError) -> None:
        self.answer = answer
        self.asked: list[tuple[ElectionType, list[TopicPartition] | None]] = []

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, ApiError]:
        self.asked.append((election_type, None if partitions is None else list(partitions)))
        if isinstance(self.answer, KlammError):
            raise self.answer
        return self.answer
