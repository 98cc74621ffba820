"""Handler for ElectLeaders: preferred or unclean elections requested by a client (KIP-460).

Mirrors the client-triggered part of processReplicaLeaderElection in
kafka/controller/KafkaController.scala, and electLeaders of ReplicaManager.scala and
DelayedElectLeader.scala of kafka/server/.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.protocols import MetadataView
from klamm.cluster.requests import (
    NO_SUCH_PARTITION,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.controller.events import ElectLeadersReceived, ElectLeadersTimeout
from klamm.controller.on_leader_election import (
    ElectionTrigger,
    divide,
    leader_of,
    on_replica_election,
)
from klamm.controller.pending_requests import PendingRequest
from klamm.statemachines.election import ElectionStrategy, OfflineElection, PreferredReplicaElection

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_Results = dict[TopicPartition, ApiError]
_NONE: Final = ApiError()
_NOT_NEEDED: Final = ApiError(Errors.ELECTION_NOT_NEEDED)
_TIMED_OUT: Final = ApiError(Errors.REQUEST_TIMED_OUT)
_BEING_DELETED: Final = ApiError(Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
_STRATEGIES: Final[Mapping[ElectionType, ElectionStrategy]] = {
    ElectionType.PREFERRED: PreferredReplicaElection(),
    ElectionType.UNCLEAN: OfflineElection(allow_unclean=True),
}
_NOT_AVAILABLE: Final = {
    ElectionType.PREFERRED: Errors.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


class PendingElection(PendingRequest, frozen=True):
    """ElectLeaders request that waits until this broker's metadata shows the new leaders.

    ``results``: the result for each requested partition. ``leaders``: the new leader of each
    partition for which the election succeeded.
    """

    results: dict[TopicPartition, ApiError]
    leaders: dict[TopicPartition, int]
    timeout = ElectLeadersTimeout

    def late(self, metadata: MetadataView) -> list[TopicPartition]:
        """Return the partitions whose new leader is not in ``metadata`` yet."""
        return [tp for tp, leader in self.leaders.items() if metadata.leader_of(tp) != leader]

    def response(self, late: Iterable[TopicPartition]) -> ElectLeadersResponse:
        """Return the response, with REQUEST_TIMED_OUT for each partition in ``late``."""
        timed_out = dict.fromkeys(late, _TIMED_OUT)
        return ElectLeadersResponse(Errors.NONE, {**self.results, **timed_out})


def process_elect_leaders(controller: KafkaController, event: ElectLeadersReceived) -> None:
    """Elect leaders for the requested partitions where possible.

    If no leader was elected, the response is sent immediately. Otherwise it is sent when this
    broker's metadata shows every new leader, or when the request times out. The response to a
    request for all partitions omits partitions that need no election. Raises ControllerMoved, after
    the response was sent, if another controller was elected.
    """
    message, request = event.message, event.request
    with controller.answering_failure(event):
        results, leaders = _elect(controller, request)
    if request.partitions is None:
        results = {tp: error for tp, error in results.items() if error is not _NOT_NEEDED}
    if not leaders:
        controller.reply(message, ElectLeadersResponse(Errors.NONE, results))
        return
    pending = PendingElection(message, results, leaders)
    controller.pending_requests.add(pending, max(0, request.timeout_ms))
    controller.pending_requests.complete(ElectLeadersTimeout)


def _elect(
    controller: KafkaController, request: ElectLeadersRequest
) -> tuple[_Results, dict[TopicPartition, int]]:
    """Elect leaders, and return ({partition: result}, {partition: new leader})."""
    election_type = request.election_type
    asked = request.partitions
    if asked is None:
        # As in Kafka, those in this broker's metadata, without any that never had a leader.
        known = controller.metadata.leader_of
        asked = tuple(tp for tp in controller.context.all_partitions() if known(tp) is not None)
    divided = divide(controller, dict.fromkeys(asked), election_type.value, ElectionTrigger.ADMIN)
    results: _Results = dict.fromkeys(divided.unknown, NO_SUCH_PARTITION)
    results |= dict.fromkeys(divided.being_deleted, _BEING_DELETED)
    electable: list[TopicPartition] = []
    for tp in divided.known:
        refused = _refuse(controller, tp, election_type)
        if refused is None:
            electable.append(tp)
        else:
            results[tp] = refused
    leaders: dict[TopicPartition, int] = {}
    strategy = _STRATEGIES[election_type]
    elected = on_replica_election(
        controller, electable, election_type.value, strategy, ElectionTrigger.ADMIN
    )
    for tp, result in elected.items():
        if isinstance(result, StateChangeFailed):
            results[tp] = ApiError(_NOT_AVAILABLE[election_type], result.reason)
        else:
            results[tp] = _NONE
            leaders[tp] = result.leader
    return results, leaders


def _refuse(
    controller: KafkaController, tp: TopicPartition, election_type: ElectionType
) -> ApiError | None:
    context = controller.context
    leader = leader_of(controller, tp)
    if leader is None:
        return ApiError(_NOT_AVAILABLE[election_type], f"Partition {tp} never had a leader.")
    is_well = (
        leader == context.partition_replica_assignment(tp)[0]
        if election_type is ElectionType.PREFERRED
        else leader in context.live_broker_ids
    )
    return _NOT_NEEDED if is_well else None
