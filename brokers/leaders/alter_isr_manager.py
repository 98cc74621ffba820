"""Sends ISR proposals of leaders to the controller, one AlterIsr request at a time.

isr_changes.py makes the proposals and applies the controller's decisions to the partitions. Mirrors
kafka.server.DefaultAlterIsrManager and the retries of BrokerToControllerChannelManager.
"""

from __future__ import annotations

import msgspec

from klamm.brokers.config import BrokerConfig
from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.api_errors import Errors
from klamm.cluster.protocols import SendRequest
from klamm.cluster.requests import Address, AlterIsrRequest, AlterIsrResponse
from klamm.cluster.types import LeaderAndIsr, TopicPartition


class AlterIsrResult(msgspec.Struct, frozen=True):
    """The controller's decision on one ISR proposal: the new state, or an error."""

    topic_partition: TopicPartition
    proposed: LeaderAndIsr
    answer: LeaderAndIsr | Errors


class _InFlight(msgspec.Struct, frozen=True):
    correlation_id: int
    controller_id: int
    controller_epoch: int
    items: dict[TopicPartition, LeaderAndIsr]
    due_ms: float


class AlterIsrManager:
    """Queues ISR proposals and sends them to the controller in AlterIsr requests."""

    def __init__(
        self, broker_id: int, config: BrokerConfig, metadata_cache: MetadataCache, send: SendRequest
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._metadata_cache = metadata_cache
        self._send = send
        self._unsent: dict[TopicPartition, LeaderAndIsr] = {}
        self._in_flight: _InFlight | None = None
        self._retry_at_ms: float | None = None

    @property
    def pending_count(self) -> int:
        """Number of proposals without a response, including those in the request in flight."""
        return len(self._unsent)

    def submit(
        self, partition: TopicPartition, proposed: LeaderAndIsr, controller_epoch: int
    ) -> None:
        """Queue a proposal, to be sent by ``maybe_propagate``.

        A partition has at most one proposal at a time. ``controller_epoch`` is ignored, because the
        controller writes its own epoch; ZkIsrManager, with the same interface, needs the argument.
        """
        assert partition not in self._unsent, f"{partition} already has a proposal"
        self._unsent[partition] = proposed

    def clear_pending(self, partition: TopicPartition) -> None:
        """Drop the proposal of a partition. A response to the proposal will be ignored."""
        self._unsent.pop(partition, None)

    def maybe_propagate(self, broker_epoch: int, now_ms: float) -> list[AlterIsrResult]:
        """Send all queued proposals, unless a request is in flight or the backoff is not over.

        A request to a former controller is abandoned, because its response may never arrive. Always
        returns []: ``on_response`` returns the results.
        """
        cache = self._metadata_cache
        controller_id = cache.controller_id
        flight = self._in_flight
        if flight is not None and (flight.controller_id, flight.controller_epoch) != (
            controller_id,
            cache.controller_epoch,
        ):
            self._in_flight = None
        if not self._unsent or self._in_flight is not None or controller_id is None:
            return []
        if self._retry_at_ms is not None and now_ms < self._retry_at_ms:
            return []
        self._retry_at_ms = None
        items = dict(self._unsent)
        request = AlterIsrRequest(self._broker_id, broker_epoch, items)
        correlation_id = self._send(Address("controller", controller_id), request)
        self._in_flight = _InFlight(
            correlation_id,
            controller_id,
            cache.controller_epoch,
            items,
            now_ms + self._config.request_timeout_ms,
        )
        return []

    def on_response(
        self, correlation_id: int, response: AlterIsrResponse, now_ms: float
    ) -> list[AlterIsrResult]:
        """Process a response; return the results of its proposals in the order of the request.

        After a top-level error (NOT_CONTROLLER, STALE_BROKER_EPOCH, ...) all proposals stay queued
        and are sent again after a backoff. A response to an older request is ignored.
        """
        flight = self._in_flight
        if flight is None or flight.correlation_id != correlation_id:
            return []
        self._in_flight = None
        if response.error != Errors.NONE:
            self._retry_at_ms = now_ms + self._config.alter_isr_backoff_ms
            return []
        results: list[AlterIsrResult] = []
        for partition, proposed in flight.items.items():
            answer = response.partitions.get(partition)
            if answer is None:
                self._retry_at_ms = now_ms + self._config.alter_isr_backoff_ms
                continue
            if self._unsent.get(partition) is proposed:
                del self._unsent[partition]
            results.append(AlterIsrResult(partition, proposed, answer))
        return results

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if neither a retry nor a timeout is pending.
        """
        if self._in_flight is not None:
            return self._in_flight.due_ms
        return self._retry_at_ms if self._unsent else None

    def on_timer(self, now_ms: float) -> None:
        """Abandon a request that was not answered within request.timeout.ms."""
        if self._in_flight is not None and now_ms >= self._in_flight.due_ms:
            self._in_flight = None
