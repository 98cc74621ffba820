"""What a broker answers to the controller, unless the request is for an older registration of it.

Decides nothing itself. Mirrors the dispatch and the checks of broker epochs of
kafka.server.KafkaApis for LeaderAndIsr, StopReplica and UpdateMetadata.
"""

from __future__ import annotations

from brokers.log_configs import TopicLogConfigs
from brokers.replica_manager import ReplicaManager
from cluster.api_errors import Errors
from cluster.protocols import Clock
from cluster.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Response,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from cluster.types import NO_BROKER_EPOCH


class ControlApis:
    """The controller's side of a broker."""

    def __init__(self, manager: ReplicaManager, topic_logs: TopicLogConfigs, clock: Clock) -> None:
        self._manager = manager
        self._topic_logs = topic_logs
        self._clock = clock

    def handle(self, request: ControlRequest, broker_epoch: int) -> Response:
        """Do what the controller says. ``broker_epoch``: of the broker's last registration."""
        # The controller may know a new registration before the broker does: greater is not stale.
        is_stale = NO_BROKER_EPOCH != request.broker_epoch < broker_epoch
        match request:
            case LeaderAndIsrRequest():
                return _refuse(request) if is_stale else self._on_leader_and_isr(request)
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


def _refuse(request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    named = (state.topic_partition for state in request.partition_states)
    stale = Errors.STALE_BROKER_EPOCH
    return LeaderAndIsrResponse(stale, dict.fromkeys(named, stale))
