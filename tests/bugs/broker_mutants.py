"""Mutants with bugs of broker liveness, metadata, ISRs and elections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from klamm.brokers.leaders import zk_isr_manager
from klamm.brokers.leaders.alter_isr_manager import AlterIsrResult
from klamm.brokers.leaders.isr_changes import IsrChanges
from klamm.brokers.leaders.zk_isr_manager import ZkIsrManager
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.replica_manager import ReplicaManager
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition
from klamm.cluster.records import NO_TIMESTAMP, Record, Stretch
from klamm.cluster.requests import (
    Address,
    AlterIsrRequest,
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    Message,
    StopReplicaPartitionState,
)
from klamm.cluster.types import NO_EPOCH, LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from klamm.controller import (
    loader,
    on_alter_isr,
    on_broker_change,
    on_notifications,
    partition_reassignments,
)
from klamm.controller.kafka_controller import KafkaController
from klamm.controller.on_notifications import Notifications
from klamm.controller.replica_state_machine import ReplicaStateMachine
from klamm.lab.drivers import clients
from klamm.statemachines import replica_transitions
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import initialize_replica_states
from klamm.statemachines.request_batch import ControllerBrokerRequestBatch
from klamm.world.clients.batches import Batch, PartitionBatches
from klamm.world.clients.producer import Producer
from klamm.world.transport import SimulatedTransport
from klamm.zk.kafka_zk_client import Decoded, KafkaZkClient, RegisteredBroker
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import ResultCode, StoreEvent, WatchEvent
from klamm.zk.znodes import BrokerIdsZNode
from tests.bugs.mutants import mutant

_LiveBrokers = Decoded[int, RegisteredBroker]
_ReadBrokers = Callable[[KafkaController], _LiveBrokers]
_OnStoreEvent = Callable[[KafkaController, StoreEvent], None]


@mutant("KAFKA-7235", on_broker_change, "read_live_brokers")
def _broker_epochs_are_not_compared(original: _ReadBrokers) -> _ReadBrokers:
    def read_live_brokers(controller: KafkaController) -> _LiveBrokers:
        found, known = original(controller), controller.context.live_broker_epochs
        for broker_id in found.values.keys() & known.keys():
            broker = found.values[broker_id]
            found.values[broker_id] = msgspec.structs.replace(broker, epoch=known[broker_id])
        return found

    return read_live_brokers


@mutant("KAFKA-5502", KafkaController, "on_store_event")
def _brokers_are_read_at_the_notification(original: _OnStoreEvent) -> _OnStoreEvent:
    def on_store_event(self: KafkaController, event: StoreEvent) -> None:
        if isinstance(event, WatchEvent) and event.path == BrokerIdsZNode.path:
            assert isinstance(self.store, MemoryStore)
            store = MemoryStore(self.store.server)
            found = KafkaZkClient(store).get_all_brokers_and_epochs_in_cluster()
            vars(self)["at_the_notification"] = found
            store.close()
        original(self, event)

    return on_store_event


@mutant("KAFKA-5502", on_broker_change, "read_live_brokers")
def _brokers_are_not_read_again(original: _ReadBrokers) -> _ReadBrokers:
    def read_live_brokers(controller: KafkaController) -> _LiveBrokers:
        original(controller)
        found: _LiveBrokers = vars(controller)["at_the_notification"]
        return found

    return read_live_brokers


_DeleteNotifications = Callable[[KafkaController, Notifications, Sequence[str]], None]


@mutant("KAFKA-5879", on_notifications, "delete_notifications")
def _notifications_that_were_not_read_are_deleted(
    original: _DeleteNotifications,
) -> _DeleteNotifications:
    def delete_notifications(
        controller: KafkaController, notifications: Notifications, names: Sequence[str]
    ) -> None:
        original(controller, notifications, controller.zk.get_children(notifications.path))

    return delete_notifications


_Watch = Callable[[KafkaController, list[int]], None]


@mutant("PR-4670", loader, "watch_brokers")
@mutant("PR-4670", on_broker_change, "watch_brokers")
def _registrations_are_not_read_when_the_handler_is_registered(_: _Watch) -> _Watch:
    def watch_brokers(controller: KafkaController, broker_ids: list[int]) -> None:
        controller.watches.brokers.update(broker_ids)

    return watch_brokers


_OfMachine = Callable[[ReplicaStateMachine], None]


@mutant("KAFKA-3143", ReplicaStateMachine, "startup")
def _a_new_controller_ignores_offline_replicas(_: _OfMachine) -> _OfMachine:
    def startup(self: ReplicaStateMachine) -> None:
        online, _ = initialize_replica_states(self._controller.context)
        self.handle_state_changes(online, ReplicaState.ONLINE)

    return startup


_Removals = Callable[..., None]


@mutant("KAFKA-708", replica_transitions, "_plan_isr_removals")
def _the_last_replica_leaves_the_isr(original: _Removals) -> _Removals:
    def plan_isr_removals(
        context: ControllerContext,
        replica_id: int,
        tps: list[TopicPartition],
        updates: dict[TopicPartition, LeaderAndIsr],
        failures: object,
    ) -> None:
        original(context, replica_id, tps, updates, failures)
        for tp, state in updates.items():
            if state.isr == (replica_id,):
                updates[tp] = msgspec.structs.replace(state, isr=())

    return plan_isr_removals


@mutant("KAFKA-9212", partition_reassignments, "apply_epoch_bumps")
def _the_incremented_epoch_is_not_cached(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_epoch_bumps(context: ControllerContext, stored: Any, assignments: Any) -> Any:
        cached = {tp: context.leaderships[tp] for tp in stored}
        bumps = original(context, stored, assignments)
        for tp, leadership in cached.items():
            context.put_partition_leadership_info(tp, leadership)
        return bumps

    return apply_epoch_bumps


_Answer = Callable[[KafkaController, TopicPartition, LeaderAndIsr], object]


@mutant("KAFKA-14144", on_alter_isr, "_answer_without_writing")
def _a_repeated_proposal_is_not_recognized(original: _Answer) -> _Answer:
    def answer(controller: KafkaController, tp: TopicPartition, proposed: LeaderAndIsr) -> object:
        found = original(controller, tp, proposed)
        is_older = isinstance(found, LeaderAndIsr) and proposed.zk_version < found.zk_version
        return Errors.INVALID_UPDATE_VERSION if is_older else found

    return answer


_Drain = Callable[[ControllerBrokerRequestBatch], list[tuple[int, ControlRequest]]]


@mutant("KAFKA-7482", ControllerBrokerRequestBatch, "drain")
def _brokers_that_shut_down_get_no_leader_and_isr(original: _Drain) -> _Drain:
    def drain(self: ControllerBrokerRequestBatch) -> list[tuple[int, ControlRequest]]:
        leaving = self.context.shutting_down_broker_ids
        return [
            (broker_id, request)
            for broker_id, request in original(self)
            if not (broker_id in leaving and isinstance(request, LeaderAndIsrRequest))
        ]

    return drain


@mutant("KAFKA-6526", KafkaController, "enable_unclean_leader_election")
def _unclean_election_starts_with_the_next_controller(_: object) -> Callable[..., None]:
    return lambda self, topic: None


_Leave = Callable[..., None]


@mutant("KAFKA-1188", replica_transitions, "_leave_isr")
def _only_the_leader_is_sent_a_smaller_isr(original: _Leave) -> _Leave:
    def leave_isr(
        context: ControllerContext,
        batch: ControllerBrokerRequestBatch,
        replica_id: int,
        tp: TopicPartition,
        leadership: LeaderIsrAndControllerEpoch,
    ) -> None:
        others = {id_: dict(states) for id_, states in batch.leader_and_isr.items()}
        original(context, batch, replica_id, tp, leadership)
        for broker_id in set(batch.leader_and_isr) - {leadership.leader_and_isr.leader}:
            batch.leader_and_isr[broker_id] = others.get(broker_id, {})

    return leave_isr


_WriteIsrs = Callable[[ZkIsrManager, Any], dict[TopicPartition, int | None]]


@mutant("KAFKA-2729", ZkIsrManager, "_write")
def _a_bad_version_is_not_read_again(_: _WriteIsrs) -> _WriteIsrs:
    def write(self: ZkIsrManager, proposals: Any) -> dict[TopicPartition, int | None]:
        ops = [zk_isr_manager._set_data(tp, proposal) for tp, proposal in proposals.items()]
        results = self._zk.store.write([[op] for op in ops])
        return {
            tp: result.results[0].version if result.code is ResultCode.OK else None
            for tp, result in zip(proposals, results, strict=True)
        }

    return write


_Apply = Callable[[Partition, LeaderAndIsrPartitionState], ReplicaLog]


@mutant("KAFKA-12751", Partition, "_apply")
def _a_new_epoch_keeps_the_pending_proposal(original: _Apply) -> _Apply:
    def apply(self: Partition, state: LeaderAndIsrPartitionState) -> ReplicaLog:
        pending = self.pending
        log = original(self, state)
        self.pending = pending
        return log

    return apply


_CheckStop = Callable[[ReplicaManager, StopReplicaPartitionState], Errors]


@mutant("KAFKA-9539", ReplicaManager, "_check_stop")
def _stop_replica_has_no_leader_epoch(original: _CheckStop) -> _CheckStop:
    def check_stop(self: ReplicaManager, state: StopReplicaPartitionState) -> Errors:
        return original(self, msgspec.structs.replace(state, leader_epoch=NO_EPOCH))

    return check_stop


_Send = Callable[[SimulatedTransport, Message], None]


@mutant("misdirected AlterIsr", SimulatedTransport, "send")
def _the_second_alter_isr_to_a_new_controller_goes_to_the_old_one(original: _Send) -> _Send:
    def send(self: SimulatedTransport, message: Message) -> None:
        if isinstance(message.body, AlterIsrRequest):
            asked: list[Address] = vars(self).setdefault("asked", [])
            new = message.destination
            if asked.count(new) == 1 and asked[0] != new:
                message = msgspec.structs.replace(message, destination=asked[0])
            asked.append(new)
        original(self, message)

    return send


@mutant("K2", Producer, "undecided_in")
def _records_without_an_outcome_do_not_count(_: object) -> Callable[[Producer, object], int]:
    return lambda self, tp: 0


@mutant("K3", Stretch, "is_within")
def _records_acknowledged_twice_are_checked_twice(_: object) -> Callable[[Stretch, Stretch], bool]:
    return lambda self, other: False


@mutant("K5", clients, "Record")
def _records_have_no_timestamp(original: type[Record]) -> Callable[[int, None, bytes], Record]:
    return lambda timestamp_ms, key, value: original(NO_TIMESTAMP, key, value)


@mutant("K9", Producer, "_complete")
def _the_offset_of_a_failed_batch_is_ignored(original: Callable[..., None]) -> Callable[..., None]:
    def complete(
        self: Producer,
        partition: PartitionBatches,
        batch: Batch,
        answer: ProducedPartition,
        now_ms: float,
    ) -> None:
        if answer.error is Errors.NOT_LEADER_OR_FOLLOWER:
            answer = ProducedPartition(answer.error)
        original(self, partition, batch, answer, now_ms)

    return complete


@mutant("K17", IsrChanges, "on_result")
def _a_refused_follower_still_holds_back_the_high_watermark(
    original: Callable[[IsrChanges, AlterIsrResult], bool],
) -> Callable[[IsrChanges, AlterIsrResult], bool]:
    def on_result(self: IsrChanges, result: AlterIsrResult) -> bool:
        answer = result.answer
        is_new = isinstance(answer, LeaderAndIsr) and answer.zk_version > result.proposed.zk_version
        return original(self, result) and is_new

    return on_result
