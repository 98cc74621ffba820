"""What a broker answers to clients: which part of it answers what, at once or later.

Decides nothing itself. Mirrors the dispatch of kafka.server.KafkaApis for producers and consumers.
"""

from __future__ import annotations

from brokers.leaders.leader_replicas import LeaderReplicas
from brokers.metadata_cache import MetadataCache
from brokers.producer_id_manager import ProducerIdManager
from brokers.topic_metadata import answer_metadata
from cluster.client_requests import (
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetsForLeaderEpochRequest,
)
from cluster.data_requests import CONSUMER_REPLICA_ID, FetchRequest, ProduceRequest
from cluster.requests import Message, Response


class ClientApis:
    """The clients' side of a broker."""

    def __init__(
        self, cache: MetadataCache, leaders: LeaderReplicas, producer_ids: ProducerIdManager
    ) -> None:
        self._cache = cache
        self._leaders = leaders
        self._producer_ids = producer_ids
        self._answers: list[tuple[Message, Response]] = []

    @staticmethod
    def takes(message: Message) -> bool:
        """True for what clients ask: not for a follower's fetch."""
        match message.body:
            case FetchRequest(replica_id=replica_id):
                return replica_id == CONSUMER_REPLICA_ID
            case (
                ProduceRequest()
                | MetadataRequest()
                | ListOffsetsRequest()
                | OffsetsForLeaderEpochRequest()
                | InitProducerIdRequest()
            ):
                return True
        return False

    def handle(self, message: Message, now_ms: float, wall_ms: int) -> None:
        """Take a request; ``now_ms`` is monotonic, ``wall_ms`` since the epoch."""
        answer: Response | None
        consumers = self._leaders.consumers
        match message.body:
            case ProduceRequest() as body:
                answer = self._leaders.produces.produce(message, body, now_ms, wall_ms)
            case FetchRequest() as body:
                answer = consumers.fetch(message, body, now_ms)
            case MetadataRequest() as body:
                answer = answer_metadata(self._cache, body)
            case ListOffsetsRequest() as body:
                answer = consumers.list_offsets(body)
            case OffsetsForLeaderEpochRequest() as body:
                answer = consumers.offsets_for_leader_epoch(body)
            case InitProducerIdRequest():
                answer = self._producer_ids.init_producer_id()
            case body:
                raise AssertionError(f"{type(body).__name__} is no client's request")
        if answer is not None:
            self._answers.append((message, answer))

    def take_answers(self) -> list[tuple[Message, Response]]:
        """Requests that can be answered by now, and how; from now on none."""
        answers, self._answers = self._answers, []
        return [
            *answers,
            *self._leaders.produces.take_answers(),
            *self._leaders.consumers.take_answers(),
        ]
