"""ElectLeaders: preferred or unclean elections that a client asks for, and when it is answered.

Mirrors processReplicaLeaderElection of kafka/controller/KafkaController.scala for elections of
clients, and electLeaders of ReplicaManager.scala and DelayedElectLeader.scala of kafka/server/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.api_errors import Errors
from cluster.errors import ControllerMoved, StateChangeFailed
from cluster.requests import ApiError, ElectLeadersRequest, ElectLeadersResponse, Message
from cluster.types import ElectionType, TopicPartition
from controller.on_leader_election import ElectionTrigger, elect, leader_of
from controller.parts import Controller
from controller.pending_requests import PendingElection
from statemachines.election import ElectionStrategy, OfflineElection, PreferredReplicaElection

_Results = dict[TopicPartition, ApiError]
_NONE: Final = ApiError()
_NOT_CONTROLLER: Final = ApiError(Errors.NOT_CONTROLLER)
_NOT_NEEDED: Final = ApiError(Errors.ELECTION_NOT_NEEDED)
_TIMED_OUT: Final = ApiError(Errors.REQUEST_TIMED_OUT)
_BEING_DELETED: Final = ApiError(Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
_NO_SUCH_PARTITION: Final = ApiError(
    Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
)
_STRATEGIES: Final[Mapping[ElectionType, ElectionStrategy]] = {
    ElectionType.PREFERRED: PreferredReplicaElection(),
    ElectionType.UNCLEAN: OfflineElection(allow_unclean=True),
}
_NOT_AVAILABLE: Final = {
    ElectionType.PREFERRED: Errors.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def not_controller(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """What a broker answers that is not the controller."""
    named = dict.fromkeys(request.partitions or (), _NOT_CONTROLLER)
    return ElectLeadersResponse(Errors.NOT_CONTROLLER, named)


def process_elect_leaders(
    controller: Controller, message: Message, request: ElectLeadersRequest
) -> None:
    """Elect what can be.

    Answered at once if nothing was elected; else when this broker's metadata show every new
    leader, or at the timeout. Of a request for all partitions those are left out that need no
    election. Raises ControllerMoved, after the answer, if the fence fails.
    """
    if not controller.is_active:
        controller.reply(message, not_controller(request))
        return
    try:
        results, leaders = _elect(controller, request)
    except ControllerMoved:
        controller.reply(message, not_controller(request))
        raise
    except Exception:
        controller.reply(message, ElectLeadersResponse(Errors.UNKNOWN_SERVER_ERROR))
        raise
    if request.partitions is None:
        results = {tp: error for tp, error in results.items() if error is not _NOT_NEEDED}
    if not leaders:
        controller.reply(message, ElectLeadersResponse(Errors.NONE, results))
        return
    pending = PendingElection(message, results, leaders)
    controller.pending_elections.add(pending, max(0, request.timeout_ms))
    complete_elections(controller)


def complete_elections(controller: Controller) -> None:
    """This broker's metadata changed: answer the requests all of whose leaders it shows."""
    for pending in controller.pending_elections.take_done(
        lambda pending: not _waiting(controller, pending)
    ):
        controller.reply(pending.message, ElectLeadersResponse(Errors.NONE, pending.results))


def process_timeout(controller: Controller, number: int) -> None:
    """The client's time is over: leaders that the metadata do not show are answered so."""
    pending = controller.pending_elections.take(number)
    if pending is not None:
        late = dict.fromkeys(_waiting(controller, pending), _TIMED_OUT)
        response = ElectLeadersResponse(Errors.NONE, {**pending.results, **late})
        controller.reply(pending.message, response)


def _waiting(controller: Controller, pending: PendingElection) -> list[TopicPartition]:
    return [
        tp for tp, leader in pending.leaders.items() if controller.metadata.leader_of(tp) != leader
    ]


def _elect(
    controller: Controller, request: ElectLeadersRequest
) -> tuple[_Results, dict[TopicPartition, int]]:
    """An answer for every partition, and who was elected."""
    context, election_type = controller.context, request.election_type
    asked = context.all_partitions() if request.partitions is None else request.partitions
    results: _Results = {}
    electable: list[TopicPartition] = []
    for tp in dict.fromkeys(asked):
        refused = _refuse(controller, tp, election_type)
        if refused is None:
            electable.append(tp)
        else:
            results[tp] = refused
    leaders: dict[TopicPartition, int] = {}
    strategy = _STRATEGIES[election_type]
    elected = elect(controller, electable, election_type.value, strategy, ElectionTrigger.ADMIN)
    for tp, result in elected.items():
        if isinstance(result, StateChangeFailed):
            results[tp] = ApiError(_NOT_AVAILABLE[election_type], result.reason)
        else:
            results[tp] = _NONE
            leaders[tp] = result.leader
    return results, leaders


def _refuse(
    controller: Controller, tp: TopicPartition, election_type: ElectionType
) -> ApiError | None:
    context = controller.context
    replicas = context.partition_replica_assignment(tp)
    if not replicas:
        return _NO_SUCH_PARTITION
    if tp.topic in context.topics_to_be_deleted:
        return _BEING_DELETED
    leader = leader_of(controller, tp)
    if leader is None:
        return ApiError(_NOT_AVAILABLE[election_type], f"Partition {tp} never had a leader.")
    is_well = (
        leader == replicas[0]
        if election_type is ElectionType.PREFERRED
        else leader in context.live_broker_ids
    )
    return _NOT_NEEDED if is_well else None
