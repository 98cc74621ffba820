"""Table of the functions that handle each type of controller event.

``event_of_message`` converts an incoming request or response to an event. Mirrors process and
preempt of kafka/controller/KafkaController.scala, and the requests that
kafka/server/KafkaApis.scala passes to the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_type_hints

from klamm.cluster.requests import Message
from klamm.controller import events
from klamm.controller.controller_election import (
    process_controller_change,
    process_reelect,
    process_startup,
)
from klamm.controller.events import ControllerEvent, RequestReceived, ResponseReceived
from klamm.controller.on_alter_isr import process_alter_isr
from klamm.controller.on_broker_change import (
    process_broker_change,
    process_broker_modification,
)
from klamm.controller.on_controlled_shutdown import process_controlled_shutdown
from klamm.controller.on_elect_leaders import process_elect_leaders
from klamm.controller.on_leader_election import (
    process_auto_preferred_replica_leader_election,
    process_topic_unclean_leader_election_enable,
    process_unclean_leader_election_enable,
    process_zk_replica_leader_election,
)
from klamm.controller.on_malformed_state import (
    process_partition_state_modifications,
)
from klamm.controller.on_notifications import (
    process_isr_change_notification,
    process_log_dir_event_notification,
)
from klamm.controller.on_reassignment import (
    process_api_partition_reassignment,
    process_list_partition_reassignments,
    process_partition_reassignment_isr_change,
    process_zk_partition_reassignment,
)
from klamm.controller.on_responses import (
    process_leader_and_isr_response,
    process_metadata_updated,
    process_pending_request_timeout,
    process_request_timeout,
    process_stop_replica_response,
    process_update_metadata_response,
)
from klamm.controller.on_session import (
    process_expire,
    process_register_broker_and_reelect,
    process_shutdown,
)
from klamm.controller.on_topic_change import (
    process_partition_modifications,
    process_topic_change,
)
from klamm.controller.on_topic_requests import (
    process_create_topics,
    process_delete_topics,
)
from klamm.controller.topic_deletion_manager import (
    process_topic_deletion,
)

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

E = TypeVar("E", bound=ControllerEvent)


class Handler(NamedTuple):
    """Functions that handle one type of controller event.

    - ``process``: processes the event.
    - ``is_for_all``: if True, every candidate processes the event. If False, only the active
      controller processes the event; on other candidates, a request gets an error response, and
      any other event is ignored.
    """

    process: Callable[[KafkaController, Any], None]
    is_for_all: bool = False


_Row = tuple[type[ControllerEvent], Handler]


def _active(kind: type[E], process: Callable[[KafkaController, E], None]) -> _Row:
    return kind, Handler(process)


def _all(kind: type[E], process: Callable[[KafkaController, E], None]) -> _Row:
    return kind, Handler(process, is_for_all=True)


HANDLERS: Final[Mapping[type[ControllerEvent], Handler]] = dict(
    (
        # Watches
        _active(events.BrokerChange, process_broker_change),
        _active(events.BrokerModifications, process_broker_modification),
        _active(events.TopicChange, process_topic_change),
        _active(events.PartitionModifications, process_partition_modifications),
        _active(events.TopicDeletion, process_topic_deletion),
        _active(events.ZkPartitionReassignment, process_zk_partition_reassignment),
        _active(events.PartitionReassignmentIsrChange, process_partition_reassignment_isr_change),
        _active(events.PartitionStateModifications, process_partition_state_modifications),
        _active(events.IsrChangeNotification, process_isr_change_notification),
        _active(events.LogDirEventNotification, process_log_dir_event_notification),
        _active(events.ReplicaLeaderElection, process_zk_replica_leader_election),
        _all(events.ControllerChange, process_controller_change),
        _all(events.Reelect, process_reelect),
        # Requests
        _active(events.AlterIsrReceived, process_alter_isr),
        _active(events.ControlledShutdown, process_controlled_shutdown),
        _active(events.CreateTopicsReceived, process_create_topics),
        _active(events.DeleteTopicsReceived, process_delete_topics),
        _active(events.ElectLeadersReceived, process_elect_leaders),
        _active(events.ApiPartitionReassignment, process_api_partition_reassignment),
        _active(events.ListPartitionReassignments, process_list_partition_reassignments),
        # Responses, and timeouts of both
        _all(events.LeaderAndIsrResponseReceived, process_leader_and_isr_response),
        _all(events.UpdateMetadataResponseReceived, process_update_metadata_response),
        _all(events.MetadataUpdated, process_metadata_updated),
        _all(events.StopReplicaResponseReceived, process_stop_replica_response),
        _all(events.RequestTimeout, process_request_timeout),
        _all(events.CreateTopicsTimeout, process_pending_request_timeout),
        _all(events.DeleteTopicsTimeout, process_pending_request_timeout),
        _all(events.ElectLeadersTimeout, process_pending_request_timeout),
        # The broker's configs, the clock, the session, the process
        _active(events.UncleanLeaderElectionEnable, process_unclean_leader_election_enable),
        _active(
            events.TopicUncleanLeaderElectionEnable, process_topic_unclean_leader_election_enable
        ),
        _active(
            events.AutoPreferredReplicaLeaderElection,
            process_auto_preferred_replica_leader_election,
        ),
        _all(events.Expire, process_expire),
        _all(events.RegisterBrokerAndReelect, process_register_broker_and_reelect),
        _all(events.Startup, process_startup),
        _all(events.ShutdownEventThread, process_shutdown),
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
    """Return the event for a message, or None if the message is not meant for a controller."""
    kind = _EVENT_OF_BODY.get(type(message.body))
    return None if kind is None else kind.of(message)
