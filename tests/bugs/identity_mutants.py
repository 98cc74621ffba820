"""Mutants with bugs of the controller's identity: elections, fencing, sessions, queued events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from klamm.brokers.broker import KafkaServer
from klamm.cluster.errors import KlammError
from klamm.cluster.types import NO_CONTROLLER, TopicPartition
from klamm.controller import controller_election
from klamm.controller.event_handlers import HANDLERS
from klamm.controller.event_manager import EventManager
from klamm.controller.events import ControllerEvent, RegisterBrokerAndReelect
from klamm.controller.kafka_controller import KafkaController
from klamm.controller.partition_state_machine import PartitionStateMachine
from klamm.controller.replica_state_machine import ReplicaStateMachine
from klamm.lab.actions import steps
from klamm.lab.actions.target import ScenarioTarget
from klamm.lab.conditions.condition import Condition
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.election import ElectionStrategy
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import (
    Failures,
    PartitionPlan,
    plan_partition_state_changes,
)
from klamm.world import node_actors
from klamm.world.node import Node
from klamm.world.node_actors import BrokerActor
from klamm.zk import fenced_writes
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import ANY_VERSION, Check, SessionEvent, SessionState
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes import ControllerZNode
from tests.bugs.mutants import mutant

_Handle = Callable[[KafkaController, ControllerEvent], None]
_OfController = Callable[[KafkaController], None]
_OfContext = Callable[[ControllerContext], None]
_OnSession = Callable[[KafkaController, SessionEvent], None]
_Schedule = Callable[[EventManager, ControllerEvent, float], None]


@mutant("KAFKA-6082", fenced_writes, "Check")
def _writes_are_not_fenced(_: object) -> Callable[[str, int], Check]:
    return lambda path, version: Check(path, ANY_VERSION)


@mutant("KAFKA-1096", KafkaController, "_handle")
def _a_deposed_controller_adopts_the_new_epoch(original: _Handle) -> _Handle:
    def handle(self: KafkaController, event: ControllerEvent) -> None:
        if self.is_elected and (found := self.zk.get_controller_epoch()) is not None:
            self.context.epoch, self.context.epoch_zk_version = found
        original(self, event)

    return handle


@mutant("KAFKA-4447", KafkaController, "_handle")
def _events_are_handled_after_the_resignation(_: _Handle) -> _Handle:
    def handle(self: KafkaController, event: ControllerEvent) -> None:
        HANDLERS[type(event)].process(self, event)

    return handle


@mutant("KAFKA-5310", ControllerContext, "reset_context")
def _reassignments_are_kept_at_the_resignation(original: _OfContext) -> _OfContext:
    def reset_context(self: ControllerContext) -> None:
        moving = getattr(self, "partitions_being_reassigned", ())
        kept = {tp: self.assignments[tp] for tp in moving}
        original(self)
        vars(self)["kept"] = kept

    return reset_context


@mutant("KAFKA-5310", controller_election, "initialize_partition_reassignments")
def _reassignments_are_resumed_from_memory(original: _OfController) -> _OfController:
    def initialize_partition_reassignments(controller: KafkaController) -> None:
        context = controller.context
        for tp, assignment in vars(context)["kept"].items():
            context.update_partition_full_replica_assignment(tp, assignment)
            context.partitions_being_reassigned.add(tp)
        original(controller)

    return initialize_partition_reassignments


@mutant("KAFKA-7165", KafkaZkClient, "_epoch_after_node_exists")
def _registration_does_not_look_at_the_owner(_: object) -> Callable[[KafkaZkClient, str], None]:
    def epoch_after_node_exists(self: KafkaZkClient, path: str) -> None:
        raise NodeExists(f"{path} already exists")

    return epoch_after_node_exists


@mutant("KAFKA-7165", EventManager, "schedule")
def _registration_is_not_retried(original: _Schedule) -> _Schedule:
    def schedule(self: EventManager, event: ControllerEvent, delay_ms: float) -> None:
        if not isinstance(event, RegisterBrokerAndReelect):
            original(self, event, delay_ms)

    return schedule


@mutant("KAFKA-7165", KafkaServer, "register_again")
def _a_deleted_registration_is_not_restored(_: object) -> Callable[[KafkaServer], None]:
    return lambda self: None


@mutant("KAFKA-6879", KafkaController, "on_store_event")
def _expiry_during_an_event_blocks_the_event_thread(original: _OnSession) -> _OnSession:
    def on_store_event(self: KafkaController, event: SessionEvent) -> None:
        is_expiry = isinstance(event, SessionEvent) and event.state is SessionState.EXPIRED
        if is_expiry and self.events.current is not None:
            # The ZooKeeper client waits for the event thread, and the event thread for the client.
            self.is_shut_down = True
        original(self, event)

    return on_store_event


@mutant("KAFKA-10193", KafkaController, "preempt")
def _dropped_requests_get_no_response(_: _Handle) -> _Handle:
    return lambda self, event: None


@mutant("KAFKA-4229", controller_election, "read_controller_id")
def _a_foreign_controller_znode_is_not_watched(_: _OfController) -> _OfController:
    def read_controller_id(controller: KafkaController) -> None:
        found = controller.zk.get_data_and_stat(ControllerZNode.path)
        broker_id = None if found is None else ControllerZNode.decode(found[0])
        none = NO_CONTROLLER
        controller.active_controller_id = none if broker_id is None else broker_id

    return read_controller_id


@mutant("KAFKA-4443", controller_election, "load_topic_deletions")
def _leader_and_isr_is_sent_before_the_live_brokers(original: _OfController) -> _OfController:
    def load_topic_deletions(controller: KafkaController) -> None:
        original(controller)
        controller.replica_state_machine.startup()

    return load_topic_deletions


@mutant("K4", Node, "has_candidate")
def _every_controller_counts_as_a_candidate(_: object) -> property:
    return property(lambda self: self.controller is not None)


@mutant("K4", BrokerActor, "_begin_candidacy")
def _an_earlier_expiry_is_not_passed_to_the_controller(_: object) -> Callable[[BrokerActor], None]:
    def begin_candidacy(self: BrokerActor) -> None:
        if self._node.controller is not None:
            self._node.controller.startup(self._node.broker.cluster_id)

    return begin_candidacy


@mutant("K6", PartitionStateMachine, "_plan")
def _states_are_not_read(_: object) -> Callable[..., PartitionPlan]:
    def plan(
        self: PartitionStateMachine,
        partitions: Sequence[TopicPartition],
        target: PartitionState,
        election: ElectionStrategy | None,
    ) -> PartitionPlan:
        context = self._controller.context
        unclean = self._unclean_topics(partitions, target, election)
        return plan_partition_state_changes(context, partitions, target, election, unclean)

    return plan


@mutant("K6", ReplicaStateMachine, "_read_isrs_without")
def _isrs_are_not_read(_: object) -> Callable[..., Failures]:
    return lambda *_: {}


@mutant("K8", node_actors, "suppress")
def _no_expiry_is_expected(_: object) -> Callable[..., AbstractContextManager[None]]:
    return lambda *_: nullcontext()


@mutant("K13", steps.UpAgain, "act")
def _no_controller_begins_before_all_brokers_have_registered(
    _: object,
) -> Callable[[steps.UpAgain, ScenarioTarget], None]:
    def act(_: steps.UpAgain, run: ScenarioTarget) -> None:
        broker_ids = sorted(run.cluster.spec.broker_ids)
        run.wait_for(Condition("brokers", []))
        run.cluster.begin_start_all()
        if not run.wait_for(Condition("brokers", broker_ids)):
            raise KlammError("not all brokers have registered again")
        for broker_id in filter(run.cluster.spec.is_candidate, broker_ids):
            run.cluster.begin_candidacy(broker_id)

    return act


@mutant("K16", steps.UpAgain, "act")
def _the_first_brokers_are_started_although_others_are_running(
    _: object,
) -> Callable[[steps.UpAgain, ScenarioTarget], None]:
    def act(_: steps.UpAgain, run: ScenarioTarget) -> None:
        run.wait_for(Condition("brokers", []))
        run.cluster.begin_start_all()

    return act
