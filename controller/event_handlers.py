"""The table of contents of the controller: every event, who processes it, and who refuses it.

A request that comes as a message becomes the event that holds such a request; so does a broker's
response. Mirrors process and preempt of kafka/controller/KafkaController.scala, and the requests
that kafka/server/KafkaApis.scala hands to the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_type_hints

from cluster.api_errors import Errors
from cluster.requests import Message, Response
from controller import (
    controller_election,
    events,
    on_alter_isr,
    on_broker_change,
    on_controlled_shutdown,
    on_elect_leaders,
    on_leader_election,
    on_malformed_state,
    on_notifications,
    on_reassignment,
    on_responses,
    on_session,
    on_topic_change,
    on_topic_requests,
    topic_deletion_manager,
)
from controller.events import ControllerEvent, RequestReceived, ResponseReceived

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

E = TypeVar("E", bound=ControllerEvent)
R = TypeVar("R", bound=RequestReceived)


class Handler(NamedTuple):
    """What is done with events of one kind.

    ``refuse`` makes the answer to a request that fails as a whole, from the request and the error.
    ``is_for_all``: also processed by a candidate that is not the active controller; other requests
    are refused then, other events ignored.
    """

    process: Callable[[KafkaController, Any], None]
    refuse: Callable[[Any, Errors], Response] | None = None
    is_for_all: bool = False


_Row = tuple[type[ControllerEvent], Handler]


def _active(kind: type[E], process: Callable[[KafkaController, E], None]) -> _Row:
    return kind, Handler(process)


def _all(kind: type[E], process: Callable[[KafkaController, E], None]) -> _Row:
    return kind, Handler(process, is_for_all=True)


def _request(
    kind: type[R],
    process: Callable[[KafkaController, R], None],
    refuse: Callable[[Any, Errors], Response],
) -> _Row:
    return kind, Handler(process, refuse)


HANDLERS: Final[Mapping[type[ControllerEvent], Handler]] = dict(
    (
        # Watches
        _active(events.BrokerChange, on_broker_change.process_broker_change),
        _active(events.BrokerModifications, on_broker_change.process_broker_modification),
        _active(events.TopicChange, on_topic_change.process_topic_change),
        _active(
            events.PartitionModifications,
            on_topic_change.process_partition_modifications,
        ),
        _active(events.TopicDeletion, topic_deletion_manager.process_topic_deletion),
        _active(events.ZkPartitionReassignment, on_reassignment.process_zk_partition_reassignment),
        _active(
            events.PartitionReassignmentIsrChange,
            on_reassignment.process_partition_reassignment_isr_change,
        ),
        _active(
            events.PartitionStateModifications,
            on_malformed_state.process_partition_state_modifications,
        ),
        _active(events.IsrChangeNotification, on_notifications.process_isr_change_notification),
        _active(
            events.LogDirEventNotification, on_notifications.process_log_dir_event_notification
        ),
        _active(
            events.ReplicaLeaderElection, on_leader_election.process_zk_replica_leader_election
        ),
        _all(events.ControllerChange, controller_election.process_controller_change),
        _all(events.Reelect, controller_election.process_reelect),
        # Requests
        _request(events.AlterIsrReceived, on_alter_isr.process_alter_isr, on_alter_isr.refuse),
        _request(
            events.ControlledShutdown,
            on_controlled_shutdown.process_controlled_shutdown,
            on_controlled_shutdown.refuse,
        ),
        _request(
            events.CreateTopicsReceived,
            on_topic_requests.process_create_topics,
            on_topic_requests.refuse_creation,
        ),
        _request(
            events.DeleteTopicsReceived,
            on_topic_requests.process_delete_topics,
            on_topic_requests.refuse_deletion,
        ),
        _request(
            events.ElectLeadersReceived,
            on_elect_leaders.process_elect_leaders,
            on_elect_leaders.refuse,
        ),
        _request(
            events.ApiPartitionReassignment,
            on_reassignment.process_api_partition_reassignment,
            on_reassignment.refuse_alter,
        ),
        _request(
            events.ListPartitionReassignments,
            on_reassignment.process_list_partition_reassignments,
            on_reassignment.refuse_list,
        ),
        # Responses, and timeouts of both
        _all(events.LeaderAndIsrResponseReceived, on_responses.process_leader_and_isr_response),
        _all(events.UpdateMetadataResponseReceived, on_responses.process_update_metadata_response),
        _all(events.StopReplicaResponseReceived, on_responses.process_stop_replica_response),
        _all(events.RequestTimeout, on_responses.process_request_timeout),
        _all(events.CreateTopicsTimeout, on_responses.process_pending_request_timeout),
        _all(events.DeleteTopicsTimeout, on_responses.process_pending_request_timeout),
        _all(events.ElectLeadersTimeout, on_responses.process_pending_request_timeout),
        # The broker's configs, the clock, the session, the process
        _active(
            events.UncleanLeaderElectionEnable,
            on_leader_election.process_unclean_leader_election_enable,
        ),
        _active(
            events.TopicUncleanLeaderElectionEnable,
            on_leader_election.process_topic_unclean_leader_election_enable,
        ),
        _active(
            events.AutoPreferredReplicaLeaderElection,
            on_leader_election.process_auto_preferred_replica_leader_election,
        ),
        _all(events.Expire, on_session.process_expire),
        _all(events.RegisterBrokerAndReelect, on_session.process_register_broker_and_reelect),
        _all(events.Startup, controller_election.process_startup),
        _all(events.ShutdownEventThread, on_session.process_shutdown),
    )
)


def _bodies() -> Iterator[tuple[type, type[RequestReceived] | type[ResponseReceived]]]:
    for kind in HANDLERS:
        if issubclass(kind, RequestReceived):
            yield get_type_hints(kind)["request"], kind
        elif issubclass(kind, ResponseReceived):
            yield get_type_hints(kind)["response"], kind


_EVENT_OF_BODY: Final = dict(_bodies())


def event_of_message(message: Message) -> ControllerEvent | None:
    """Return the event that a message means; None for what a controller never gets."""
    kind = _EVENT_OF_BODY.get(type(message.body))
    return None if kind is None else kind.of(message)
