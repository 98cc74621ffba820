"""Invariants of the requests between controllers and brokers, and of the responses.

Each function gets a message and the history before it, and yields a line for each violation.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
)
from klamm.cluster.types import LEADER_DURING_DELETE, NO_BROKER_EPOCH, LeaderAndIsr
from klamm.lab.checks.observations import (
    Answered,
    History,
    IsrAnswered,
    ObservedShutdown,
    Requested,
)


def requests_carry_stored_states(history: History, event: Requested) -> Iterator[str]:
    """A controller sends only leaders, epochs, ISRs and versions that were stored in ZooKeeper."""
    request = event.request
    if isinstance(request, StopReplicaRequest):
        return
    for state in request.partition_states:
        if state.leader == LEADER_DURING_DELETE:
            continue
        sent = (state.leader, state.leader_epoch, state.isr, state.zk_version)
        if sent not in history.stored.get(state.topic_partition, ()):
            yield (
                f"{state.topic_partition}: {_name(event)} has leader {sent[0]}, epoch {sent[1]}, "
                f"ISR {list(sent[2])}, version {sent[3]}; that state was never stored"
            )


def requests_have_their_controllers_epoch(history: History, event: Requested) -> Iterator[str]:
    """A controller sends requests only with a controller epoch for which it was elected."""
    epoch = event.request.controller_epoch
    if history.elected.get(epoch) != event.controller:
        yield (
            f"{_name(event)} of controller {event.controller} has controller epoch {epoch}, "
            f"for which broker {history.elected.get(epoch)} was elected"
        )


def metadata_comes_first(history: History, event: Requested) -> Iterator[str]:
    """A controller sends a broker UpdateMetadata before it sends the first LeaderAndIsr."""
    request = event.request
    receiver = (request.controller_epoch, event.broker, request.broker_epoch)
    if isinstance(request, LeaderAndIsrRequest) and receiver not in history.updated:
        yield f"{_name(event)} to broker {event.broker} was sent before UpdateMetadata"


def leader_and_isr_goes_to_replicas(_: History, event: Requested) -> Iterator[str]:
    """LeaderAndIsr is sent only to brokers that have a replica of the partition."""
    if not isinstance(event.request, LeaderAndIsrRequest):
        return
    for state in event.request.partition_states:
        if event.broker not in state.replicas:
            yield (
                f"{state.topic_partition}: {_name(event)} was sent to broker {event.broker}, "
                f"but the replicas are {list(state.replicas)}"
            )


def sent_epochs_do_not_decrease(history: History, event: Requested) -> Iterator[str]:
    """The leader epochs of a partition that a controller sends to a broker never decrease."""
    request = event.request
    if not isinstance(request, LeaderAndIsrRequest):
        return
    for state in request.partition_states:
        key = (request.controller_epoch, event.broker, request.broker_epoch, state.topic_partition)
        before = history.sent_epochs.get(key, -1)
        if state.leader_epoch < before:
            yield (
                f"{state.topic_partition}: broker {event.broker} was sent leader epoch "
                f"{state.leader_epoch} after leader epoch {before}"
            )


def stop_replica_has_a_new_epoch(history: History, event: Requested) -> Iterator[str]:
    """A StopReplica request that deletes a replica has a higher leader epoch than every
    LeaderAndIsr request that the controller sent to the broker for that partition.

    A broker rejects a StopReplica with the leader epoch that it already has. A StopReplica without
    a leader epoch is always accepted, so it is not checked."""
    request = event.request
    if not isinstance(request, StopReplicaRequest):
        return
    for stop in request.partition_states:
        tp = stop.topic_partition
        key = (request.controller_epoch, event.broker, request.broker_epoch, tp)
        if stop.delete_partition and 0 <= stop.leader_epoch <= history.sent_epochs.get(key, -1):
            yield (
                f"{tp}: StopReplica to broker {event.broker} has leader epoch "
                f"{stop.leader_epoch}, which is not higher than in an earlier LeaderAndIsr"
            )


def shutdown_stops_followers(history: History, event: ObservedShutdown) -> Iterator[str]:
    """Before the controller grants a shutdown, it sends the broker StopReplica or the current
    leader epoch for each replica on the broker.

    The controller has sent StopReplica for each follower, and the new leader's epoch for each
    partition that the broker led."""
    if history.elected.get(history.epoch) != event.controller:
        return
    for (epoch, broker, broker_epoch, tp), leader_epoch in history.sent_epochs.items():
        if (epoch, broker, broker_epoch) != (history.epoch, event.broker, event.broker_epoch):
            continue
        state, topic = history.states.get(tp), history.topics.get(tp.topic)
        if state is None or topic is None or tp.topic in history.deleting:
            continue
        # A broker that led the partition is sent the next leader's epoch, the current one.
        is_replica = broker in topic.replicas.get(tp.partition, ()) and tp in event.hosted
        if leader_epoch < state.leader_epoch and is_replica:
            yield (
                f"{tp}: broker {broker} may shut down, but was sent neither StopReplica nor a "
                f"leader epoch above {leader_epoch}"
            )


def stale_controllers_are_refused(history: History, event: Answered) -> Iterator[str]:
    """A broker rejects requests with a controller epoch below the highest that it has accepted."""
    highest = history.accepted.get(event.broker, 0)
    epoch = event.request.controller_epoch
    if event.response.error is Errors.NONE and epoch < highest:
        yield f"broker {event.broker} accepted controller epoch {epoch} after epoch {highest}"


def stale_broker_epochs_are_refused(_: History, event: Answered) -> Iterator[str]:
    """A broker rejects requests with the broker epoch of an earlier registration."""
    sent, own = event.request.broker_epoch, event.broker_epoch
    if event.response.error is Errors.NONE and NO_BROKER_EPOCH != sent < own:
        yield (
            f"broker {event.broker} has broker epoch {own}, but accepted a request with broker "
            f"epoch {sent}"
        )


def accepted_isrs_are_stored(history: History, event: IsrAnswered) -> Iterator[str]:
    """An AlterIsr response contains a stored ISR that is no older than the request's ISR."""
    for tp, answer in event.response.partitions.items():
        if not isinstance(answer, LeaderAndIsr):
            continue
        found = (answer.leader, answer.leader_epoch, answer.isr, answer.zk_version)
        asked = event.request.partitions[tp]
        if found not in history.stored.get(tp, ()) or answer.zk_version < asked.zk_version:
            yield f"{tp}: leader {event.broker} requested {asked}, but the response was {answer}"


def _name(event: Requested) -> str:
    return type(event.request).__name__.removesuffix("Request")
