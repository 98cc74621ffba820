"""Sends the requests in a batch through the broker channels, and logs them as Kafka does.

This file neither builds nor merges requests. Mirrors the sending half of
AbstractControllerBrokerRequestBatch in kafka/controller/ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from klamm.cluster.errors import ControllerMoved
from klamm.cluster.journal import Kind
from klamm.cluster.jvm.scala_sets import scala_hash_set
from klamm.cluster.requests import (
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from klamm.controller.channel_manager import ChannelManager
from klamm.controller.config import ControllerConfig
from klamm.controller.recorder import JournalRecorder
from klamm.controller.state_change_log import Source, StateChangeLog
from klamm.statemachines.request_batch import BatchNotEmpty, ControllerBrokerRequestBatch

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

RequestTap = Callable[[int, ControlRequest], None]
"""Callback that observes each request together with the id of the broker it is sent to."""


class RequestSender:
    """Sends request batches. Every callback in ``taps`` is called for each request."""

    def __init__(
        self,
        config: ControllerConfig,
        channels: ChannelManager,
        recorder: JournalRecorder,
        log: StateChangeLog,
        taps: Iterable[RequestTap] = (),
    ) -> None:
        self._config = config
        self._channels = channels
        self._recorder = recorder
        self._log = log
        self._taps = taps

    def send(self, batch: ControllerBrokerRequestBatch) -> None:
        """Queue all requests of a batch in sending order, and empty the batch."""
        brokers = sorted(batch.update_metadata_brokers)
        leaderships = batch.context.leaderships
        known = sum(tp in leaderships for tp in batch.update_metadata_partitions)
        self._log.infos(
            (
                f"Leader not yet assigned for partition {tp}. Skip sending UpdateMetadataRequest."
                for tp in batch.leaderless
            ),
            Source.REQUEST_BATCH,
        )
        requests = batch.drain()
        if self._log.is_on:
            self._log_requests(requests, brokers, known)
        for broker_id, request in requests:
            for tap in self._taps:
                tap(broker_id, request)
            if not self._channels.send_request(broker_id, request, self._recorder.event_id):
                name = request_name(request)
                self._log.warn(
                    f"Not sending request {name} to broker {broker_id}, since it is offline.",
                    Source.CHANNEL_MANAGER,
                )
            elif self._config.journal_messages:
                self._recorder.occurrence(
                    Kind.REQUEST_SENT,
                    replica=broker_id,
                    detail=f"{request_name(request)} for {len(request.partition_states)}",
                )

    def _log_requests(
        self, requests: list[tuple[int, ControlRequest]], brokers: list[int], known: int
    ) -> None:
        """Log the LeaderAndIsr, UpdateMetadata and StopReplica requests, in this order.

        As in Kafka, the line about UpdateMetadata is written even if no broker receives it.
        """
        log = self._log
        for broker_id, request in requests:
            if isinstance(request, LeaderAndIsrRequest):
                self._log_leader_and_isr(broker_id, request)
        to = scala_hash_set(brokers)
        log.state_change(
            "INFO", [f"Sending UpdateMetadata request to brokers {to} for {known} partitions"]
        )
        for broker_id, request in requests:
            if isinstance(request, StopReplicaRequest):
                self._log_stop_replica(broker_id, request)

    def _log_leader_and_isr(self, broker_id: int, request: LeaderAndIsrRequest) -> None:
        states = request.partition_states
        if self._log.is_trace:
            self._log.state_change(
                "TRACE",
                (
                    f"Sending become-{'leader' if state.leader == broker_id else 'follower'} "
                    f"LeaderAndIsr request {_state_text(state)} to broker {broker_id} "
                    f"for partition {state.topic_partition}"
                    for state in states
                ),
            )
        leaders = sum(state.leader == broker_id for state in states)
        self._log.state_change(
            "INFO",
            [
                f"Sending LeaderAndIsr request to broker {broker_id} with {leaders} become-leader "
                f"and {len(states) - leaders} become-follower partitions"
            ],
        )

    def _log_stop_replica(self, broker_id: int, request: StopReplicaRequest) -> None:
        states = request.partition_states
        if self._log.is_trace:
            self._log.state_change(
                "TRACE",
                (
                    "Sending StopReplica request StopReplicaPartitionState("
                    f"partitionIndex={state.topic_partition.partition}, "
                    f"leaderEpoch={state.leader_epoch}, "
                    f"deletePartition={str(state.delete_partition).lower()}) "
                    f"to broker {broker_id} for partition {state.topic_partition}"
                    for state in states
                ),
            )
        self._log.state_change(
            "INFO",
            [f"Sending StopReplica request for {len(states)} replicas to broker {broker_id}"],
        )


@contextmanager
def sent_batch(
    controller: KafkaController,
    batch: ControllerBrokerRequestBatch,
    moves: str,
    source: Source,
    abandon: Callable[[bool], None],
) -> Iterator[list[Exception]]:
    """Context manager: the body fills a state machine's request batch, which is sent on exit.

    The context manager yields a list, to which ignored errors are appended. ``moves`` describes the
    state changes in log messages. If an error is raised:

    - First, ``abandon(True)`` is called for ControllerMoved, and ``abandon(False)`` for any other
      error except BatchNotEmpty.
    - Then the error is re-raised. Kafka 2.8.2 ignores every error except ControllerMoved. Two
      quirks reproduce this: failed_state_change_leaves_the_batch_dirty for all these errors, and
      KAFKA-12315 only for BatchNotEmpty.
    """
    log, quirks = controller.log, controller.quirks
    swallowed: list[Exception] = []
    try:
        yield swallowed
        controller.sender.send(batch)
    except ControllerMoved as moved:
        text = f"Controller moved to another broker when moving some {moves}"
        log.error(text, source, moved)
        abandon(True)
        raise
    except Exception as error:
        log.error(f"Error while moving some {moves}", source, error)
        was_left = isinstance(error, BatchNotEmpty)
        if not was_left:
            abandon(False)
        if not (
            quirks.failed_state_change_leaves_the_batch_dirty or (quirks.kafka_12315 and was_left)
        ):
            raise
        swallowed.append(error)


def request_name(request: ControlRequest) -> str:
    """Return Kafka's name of the request type, e.g. LEADER_AND_ISR."""
    match request:
        case LeaderAndIsrRequest():
            return "LEADER_AND_ISR"
        case UpdateMetadataRequest():
            return "UPDATE_METADATA"
        case StopReplicaRequest():
            return "STOP_REPLICA"


def _state_text(state: LeaderAndIsrPartitionState) -> str:
    tp = state.topic_partition
    return (
        f"LeaderAndIsrPartitionState(topicName='{tp.topic}', partitionIndex={tp.partition}, "
        f"controllerEpoch={state.controller_epoch}, leader={state.leader}, "
        f"leaderEpoch={state.leader_epoch}, isr={list(state.isr)}, "
        f"zkVersion={state.zk_version}, replicas={list(state.replicas)}, "
        f"addingReplicas={list(state.adding_replicas)}, "
        f"removingReplicas={list(state.removing_replicas)}, isNew={str(state.is_new).lower()})"
    )
