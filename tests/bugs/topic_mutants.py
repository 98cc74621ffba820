"""Mutants with bugs of reassignments, and of the creation and deletion of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.requests import StopReplicaRequest
from klamm.cluster.types import ReplicaAssignment, TopicIdReplicaAssignment, TopicPartition
from klamm.controller import (
    controller_election,
    loader,
    on_broker_change,
    on_leader_election,
    on_reassignment,
    on_responses,
    on_topic_change,
    partition_reassignments,
)
from klamm.controller.kafka_controller import KafkaController
from klamm.controller.partition_reassignments import PartitionReassignments
from klamm.controller.state_change_log import Source
from klamm.controller.topic_deletion_manager import TopicDeletionManager
from klamm.lab.checks import admin_model
from klamm.lab.checks.admin_model import TopicState
from klamm.lab.checks.observations import History, Topic, TopicWritten
from klamm.lab.conditions.view import ClusterView
from klamm.statemachines import replica_transitions
from klamm.statemachines.context import ControllerContext, ReplicasByBroker, replicas_by_broker
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from klamm.zk.controller_client import ControllerZkClient
from klamm.zk.kafka_zk_client import Decoded
from klamm.zk.znodes import TopicPartitionZNode
from tests.bugs.mutants import mutant

_ShouldRemove = Callable[[TopicPartition, tuple[int, ...] | None], bool]
_Remove = Callable[[PartitionReassignments, _ShouldRemove], None]
_OnTopic = Callable[[History, TopicWritten], None]


@mutant("KAFKA-6193", PartitionReassignments, "maybe_remove_from_zk_reassignment")
def _the_first_completion_deletes_the_request(original: _Remove) -> _Remove:
    def remove(self: PartitionReassignments, should_remove: _ShouldRemove) -> None:
        original(self, lambda tp, target: True)

    return remove


_Asked = Mapping[TopicPartition, tuple[int, ...] | None]
_Alter = Callable[[KafkaController, _Asked], Any]


@mutant("KAFKA-9089", on_reassignment, "_alter")
def _an_override_keeps_the_request_in_zookeeper(original: _Alter) -> _Alter:
    def alter(controller: KafkaController, asked: _Asked) -> Any:
        reassignments = vars(controller.reassignments)
        reassignments["maybe_remove_from_zk_reassignment"] = lambda should_remove: None
        results = original(controller, asked)
        del reassignments["maybe_remove_from_zk_reassignment"]
        return results

    return alter


_OfController = Callable[[KafkaController], None]


@mutant("KAFKA-4214", controller_election, "initialize_partition_reassignments")
def _a_new_controller_drops_reassignments_to_dead_brokers(original: _OfController) -> _OfController:
    def initialize_partition_reassignments(controller: KafkaController) -> None:
        context = controller.context
        for tp in sorted(context.partitions_being_reassigned):
            targets = context.partition_full_replica_assignment(tp).target_replicas
            if not context.live_broker_ids.issuperset(targets):
                context.partitions_being_reassigned.discard(tp)
        original(controller)

    return initialize_partition_reassignments


_State = Callable[[ControllerBrokerRequestBatch, TopicPartition, Any, ReplicaAssignment, bool], Any]


@mutant("KAFKA-10314", ControllerBrokerRequestBatch, "_state")
def _added_replicas_are_not_marked_as_new(original: _State) -> _State:
    def state(
        self: ControllerBrokerRequestBatch,
        tp: TopicPartition,
        leadership: Any,
        assignment: ReplicaAssignment,
        is_new: bool,
    ) -> Any:
        is_new = is_new and not assignment.is_being_reassigned
        return original(self, tp, leadership, assignment, is_new)

    return state


_Topics = Decoded[str, TopicIdReplicaAssignment]
_ReadTopics = Callable[[KafkaController, list[str]], _Topics]


@mutant("PR-7334", loader, "read_topics")
def _removing_replicas_are_read_from_adding_replicas(original: _ReadTopics) -> _ReadTopics:
    def read_topics(controller: KafkaController, topics: list[str]) -> _Topics:
        found = original(controller, topics)
        for topic, read in found.values.items():
            assignment = {
                tp: ReplicaAssignment(one.replicas, one.adding_replicas, one.adding_replicas)
                for tp, one in read.assignment.items()
            }
            found.values[topic] = msgspec.structs.replace(read, assignment=assignment)
        return found

    return read_topics


@mutant("KAFKA-6650", replica_transitions, "_plan_isr_removals")
def _a_replica_without_a_leader_cannot_go_offline(
    original: Callable[..., None],
) -> Callable[..., None]:
    def plan_isr_removals(
        context: ControllerContext,
        replica_id: int,
        tps: list[TopicPartition],
        updates: Any,
        failures: dict[TopicPartition, StateChangeFailed],
    ) -> None:
        original(context, replica_id, tps, updates, failures)
        for tp in tps:
            if tp not in context.leaderships:
                failures[tp] = StateChangeFailed(f"{tp} has no leader and ISR")

    return plan_isr_removals


_Refuse = Callable[[KafkaController, TopicIdReplicaAssignment, Sequence[TopicPartition]], None]


@mutant("KAFKA-6612", on_topic_change, "_refuse_partitions")
def _partitions_are_added_to_a_topic_that_is_being_deleted(_: _Refuse) -> _Refuse:
    def refuse(
        controller: KafkaController,
        read: TopicIdReplicaAssignment,
        added: Sequence[TopicPartition],
    ) -> None:
        for tp in added:
            assignment = read.assignment[tp]
            controller.context.update_partition_full_replica_assignment(tp, assignment)
        on_topic_change.on_new_partition_creation(controller, added)

    return refuse


@mutant("KAFKA-10548", on_broker_change, "_resume_deletions")
def _a_returning_broker_resumes_no_deletion(_: object) -> Callable[..., None]:
    return lambda controller, replicas, broker_ids: None


_Delete = Callable[[KafkaController, int], None]


@mutant("KAFKA-6146", on_leader_election, "_delete")
def _the_watch_is_not_armed_again(original: _Delete) -> _Delete:
    def delete(controller: KafkaController, version: int) -> None:
        vars(controller.events)["put_caused"] = lambda event: None
        original(controller, version)
        del vars(controller.events)["put_caused"]

    return delete


_Process = Callable[[KafkaController, int, StopReplicaRequest, Any], None]


@mutant("KAFKA-9946", on_responses, "process_deleted_replicas")
def _a_stopped_replica_counts_as_deleted(original: _Process) -> _Process:
    def process(
        controller: KafkaController, broker_id: int, request: StopReplicaRequest, response: Any
    ) -> None:
        states = tuple(
            msgspec.structs.replace(state, delete_partition=True)
            for state in request.partition_states
        )
        request = msgspec.structs.replace(request, partition_states=states)
        original(controller, broker_id, request, response)

    return process


_RemoveRequests = Callable[[TopicDeletionManager, Iterable[str], Source], None]


@mutant("KAFKA-3175", TopicDeletionManager, "remove_requests")
def _a_topic_counts_as_deleted_though_deletion_is_disabled(
    original: _RemoveRequests,
) -> _RemoveRequests:
    def remove_requests(self: TopicDeletionManager, topics: Iterable[str], source: Source) -> None:
        original(self, topics, source)
        self._controller.context.queue_topic_deletion(sorted(topics))

    return remove_requests


_Create = Callable[[ControllerZkClient, Mapping[TopicPartition, Any], int], WriteOutcome]


@mutant("C3", ControllerZkClient, "create_partition_states")
def _an_incomplete_tree_is_not_completed(original: _Create) -> _Create:
    def create(
        self: ControllerZkClient, states: Mapping[TopicPartition, Any], epoch_zk_version: int
    ) -> WriteOutcome:
        there = [tp for tp in states if self._reader.path_exists(TopicPartitionZNode.path(tp))]
        left = {tp: state for tp, state in states.items() if tp not in there}
        outcome = original(self, left, epoch_zk_version)
        failed = dict.fromkeys(there, StateChangeFailed("the znode exists"))
        return WriteOutcome({**outcome.finished, **failed}, outcome.retry)

    return create


@mutant("K1", partition_reassignments, "with_removal_outside_isr")
def _an_epoch_that_was_sent_is_used_to_stop_a_replica(_: object) -> Callable[..., tuple[()]]:
    return lambda context, assignments: ()


@mutant("K7", History, "on_topic")
def _every_partition_of_a_topic_znode_counts_as_served(original: _OnTopic) -> _OnTopic:
    def on_topic(self: History, event: TopicWritten) -> None:
        original(self, event)
        for number in () if event.after is None else event.after.replicas:
            self.served.add(TopicPartition(event.topic, number))

    return on_topic


@mutant("K10", on_reassignment, "_reassign_edited_partitions")
def _edited_partitions_are_not_reassigned(_: object) -> Callable[..., tuple[()]]:
    return lambda controller: ()


@mutant("K14", partition_reassignments, "added_replicas_on_live_brokers")
def _added_replicas_of_dead_brokers_count_as_alive(_: object) -> Callable[..., ReplicasByBroker]:
    return lambda context, assignments: replicas_by_broker(
        {tp: assignment.adding_replicas for tp, assignment in assignments.items()}
    )


@mutant("K15", partition_reassignments, "unstarted_replicas")
def _added_replicas_count_as_started(_: object) -> Callable[..., ReplicasByBroker]:
    return lambda context, assignments: {}


_Counted = Callable[[TopicState, int, int | None], Iterator[TopicState]]


@mutant("K11", admin_model, "counted")
def _new_partitions_disappear_together(_: _Counted) -> _Counted:
    def counted(state: TopicState, least: int, most: int | None) -> Iterator[TopicState]:
        lost = tuple((n, one) for n, one in state.partitions if one.is_known or not one.is_new)
        for partitions in {state.partitions, lost}:
            if least <= len(partitions) and (most is None or len(partitions) <= most):
                yield state._replace(partitions=partitions)

    return counted


@mutant("K12", ClusterView, "topic")
def _every_topic_znode_counts_as_valid(_: object) -> Callable[[ClusterView, str], Topic]:
    def topic(view: ClusterView, name: str) -> Topic:
        node = view.read_json(f"/brokers/topics/{name}") or {}
        return Topic(None, node["partitions"], {}, {})

    return topic
