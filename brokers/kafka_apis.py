"""Dispatches the requests that the controller and clients send to a broker.

Controller requests with a stale broker epoch are rejected here; the modules that handle the
requests make all other checks. Mirrors the dispatch and the broker epoch checks of
kafka.server.KafkaApis.
"""

from __future__ import annotations

from klamm.brokers.config import BrokerConfig
from klamm.brokers.groups.group_coordinator import GroupCoordinator, partition_for
from klamm.brokers.groups.group_log import GroupLog
from klamm.brokers.leaders.leader_replicas import LeaderReplicas
from klamm.brokers.log_configs import TopicLogConfigs
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.producer_id_manager import ProducerIdManager
from klamm.brokers.replica_manager import ReplicaManager, refuse_all
from klamm.brokers.topic_creation import TopicCreation
from klamm.brokers.topic_metadata import answer_metadata
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    DeleteRecordsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetsForLeaderEpochRequest,
)
from klamm.cluster.data_requests import FetchRequest, ProduceRequest
from klamm.cluster.group_requests import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    GroupRequest,
)
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    Response,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.cluster.types import NO_BROKER_EPOCH, TopicPartition


class ControlApis:
    """Handles the controller's requests: LeaderAndIsr, StopReplica and UpdateMetadata."""

    def __init__(self, manager: ReplicaManager, topic_logs: TopicLogConfigs, clock: Clock) -> None:
        self._manager = manager
        self._topic_logs = topic_logs
        self._clock = clock

    def handle(self, request: ControlRequest, broker_epoch: int) -> Response:
        """Execute a controller request.

        ``broker_epoch`` is the epoch of the broker's last registration.
        """
        # The controller may learn of a registration before the broker, so a higher epoch is valid.
        is_stale = NO_BROKER_EPOCH != request.broker_epoch < broker_epoch
        match request:
            case LeaderAndIsrRequest() if is_stale:
                return refuse_all(request, Errors.STALE_BROKER_EPOCH)
            case LeaderAndIsrRequest():
                return self._on_leader_and_isr(request)
            case StopReplicaRequest() if is_stale:
                return StopReplicaResponse(Errors.STALE_BROKER_EPOCH, {})
            case StopReplicaRequest():
                return self._manager.stop_replicas(request, self._clock.now_ms())
            case UpdateMetadataRequest() if is_stale:
                return UpdateMetadataResponse(Errors.STALE_BROKER_EPOCH)
            case UpdateMetadataRequest():
                return self._on_update_metadata(request)

    def _on_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        with self._topic_logs.read_ahead(self._manager.topics_without_logs(request)):
            return self._manager.become_leader_or_follower(request, now_ms, wall_ms)

    def _on_update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        cache = self._manager.metadata_cache
        alive = cache.alive_brokers
        response = self._manager.maybe_update_metadata_cache(request)
        now_alive = cache.alive_brokers.keys()
        if now_alive != alive.keys():
            leaders = self._manager.leaders
            leaders.isr_changes.propose_waiting()
            if returned := now_alive - alive.keys():
                leaders.on_brokers_alive(returned, self._clock.monotonic_ms())
        return response


class ClientApis:
    """Handles the requests of producers, consumers and other clients."""

    def __init__(
        self,
        config: BrokerConfig,
        cache: MetadataCache,
        leaders: LeaderReplicas,
        producer_ids: ProducerIdManager,
        groups: GroupCoordinator,
        group_log: GroupLog,
        creation: TopicCreation,
    ) -> None:
        self._config = config
        self._cache = cache
        self._leaders = leaders
        self._producer_ids = producer_ids
        self._groups = groups
        self._group_log = group_log
        self._creation = creation
        self._answers: list[tuple[Message, Response]] = []

    def handle(self, message: Message, now_ms: float, wall_ms: int) -> None:
        """Handle a client's request.

        ``now_ms`` is in monotonic milliseconds, ``wall_ms`` in milliseconds since the Unix epoch.
        """
        answer: Response | None
        consumers = self._leaders.consumers
        match message.body:
            case ProduceRequest() as body:
                answer = self._leaders.produces.produce(message, body, now_ms, wall_ms)
            case FetchRequest() as body:
                answer = consumers.fetch(message, body, now_ms)
            case MetadataRequest() as body:
                errors = self._creation.create_missing(body, now_ms)
                answer = answer_metadata(self._cache, body, errors)
            case ListOffsetsRequest() as body:
                answer = consumers.list_offsets(body)
            case OffsetsForLeaderEpochRequest() as body:
                answer = consumers.offsets_for_leader_epoch(body)
            case DeleteRecordsRequest() as body:
                answer = self._leaders.deletes.delete(message, body, now_ms)
            case InitProducerIdRequest():
                answer = self._producer_ids.init_producer_id()
            case FindCoordinatorRequest() as body:
                answer = self._find_coordinator(body, now_ms)
            case body if isinstance(body, GroupRequest):
                answer = self._groups.handle(message, body)
            case body:
                raise AssertionError(f"{message.destination} cannot handle {type(body).__name__}")
        if answer is not None:
            self._answers.append((message, answer))

    def _find_coordinator(
        self, body: FindCoordinatorRequest, now_ms: float
    ) -> FindCoordinatorResponse:
        """Return the leader of the partition of an internal topic that stores the key's state.

        While there is no live leader or no such topic, the error is COORDINATOR_NOT_AVAILABLE; the
        topic is created. Simulated brokers have no transactions; a broker without replicas knows
        the coordinators of Kafka's brokers.
        """
        hosts_replicas = self._config.hosts_replicas
        if body.is_transactional and hosts_replicas:
            return FindCoordinatorResponse(Errors.UNSUPPORTED_VERSION)
        topic = TRANSACTIONS_TOPIC if body.is_transactional else OFFSETS_TOPIC
        count = self._cache.num_partitions(topic)
        if not count:
            self._creation.create((topic,), now_ms)
            return FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)
        partition = (
            self._groups.partition_of(body.key)
            if hosts_replicas
            else partition_for(body.key, count)
        )
        leader = self._cache.leader_of(TopicPartition(topic, partition))
        coordinator = None if leader is None else self._cache.alive_brokers.get(leader)
        if coordinator is None:
            return FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(Errors.NONE, coordinator)

    def take_answers(self) -> list[tuple[Message, Response]]:
        """Remove and return the requests that can be answered now, each with its response."""
        answers, self._answers = self._answers, []
        # A response to a group's own record can make the group append the next one.
        while produced := self._leaders.produces.delayed.take_answers():
            for request, response in produced:
                if self._group_log.is_own(request):
                    self._group_log.on_response(request, response)
                else:
                    answers.append((request, response))
        return [
            *answers,
            *self._groups.take_answers(),
            *self._leaders.consumers.take_answers(),
            *self._leaders.deletes.delayed.take_answers(),
        ]
