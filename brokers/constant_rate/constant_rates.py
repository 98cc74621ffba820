"""The constant-rate workloads of one broker, as a leader and as a follower.

A leader that accepts a producer's rate offers a schedule (which record is due when) to followers
that caught up. Once every replica that the high watermark waits for follows it, the schedule
acknowledges records without messages. The leader notifies the producer and the followers when this
state begins and when it ends. Before the broker reads a replica, it calls ``look_up`` or
``materialize`` to append the due records. After each event, ``take_messages`` checks the replicas
that were passed to ``look_up``, and returns the messages to be sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.bandwidth.replication_quotas import constant_traffic
from klamm.brokers.config import BrokerConfig
from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.constant_rate.replica_rates import (
    FollowerRate,
    LeaderRate,
    Readiness,
    readiness_of,
)
from klamm.brokers.leaders.leader_replicas import LeaderReplicas
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.record_parts import end_of
from klamm.brokers.partitions.log_schedules import LogSchedules
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.partitions.remote_replica import NEVER_MS
from klamm.cluster.api_errors import Errors
from klamm.cluster.constant_rate import (
    NO_CONNECTION,
    ConstantRateProgress,
    ConstantRateRequest,
    ConstantRateResponse,
    RateAgreement,
    RateSchedule,
    RevokeRates,
)
from klamm.cluster.data_requests import (
    UNKNOWN_OFFSET,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
)
from klamm.cluster.records import size_of
from klamm.cluster.requests import Address, Disconnected
from klamm.cluster.types import NO_EPOCH, TopicPartition

RateRequest = ConstantRateRequest | RevokeRates | Disconnected
RateMessage = ConstantRateResponse | FetchResponse | RevokeRates

_ACKS: Final = -1
"""The acks of all constant-rate workloads."""


class ConstantRates(LogSchedules):
    """The replicas of one broker that follow the schedule of a constant-rate workload."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        connections: CertainConnections | None,
        copying: Copying,
        now_ms: Callable[[], float],
        leaders: LeaderReplicas,
    ) -> None:
        self._address = Address("broker", broker_id)
        self._config = config
        self._connections = connections
        self._copying = copying
        self._now_ms = now_ms
        self._leaders = leaders
        self._leading: dict[TopicPartition, LeaderRate] = {}
        self._following: dict[TopicPartition, FollowerRate] = {}
        self._looked_up: dict[TopicPartition, None] = {}
        self._progress: dict[Address, dict[TopicPartition, ConstantRateProgress]] = {}
        self._to_fetch_again: dict[int, dict[TopicPartition, FetchedPartition]] = {}
        self._revoked: dict[int, dict[TopicPartition, int]] = {}

    def _connection_to(self, other: Address) -> int:
        if self._connections is None:
            return NO_CONNECTION
        return self._connections.connect(self._address, other)

    # -- reading replicas

    def __contains__(self, tp: object) -> bool:
        return tp in self._leading or tp in self._following

    def look_up(self, tp: TopicPartition) -> None:
        if tp in self._leading or tp in self._following:
            self.materialize(tp)
            self._looked_up[tp] = None

    def materialize(self, tp: TopicPartition) -> None:
        """Append all records due by now to a replica."""
        if (rate := self._leading.get(tp)) is not None:
            now_ms = self._now_ms()
            if rate.materialized_ms != now_ms:
                rate.materialized_ms = now_ms
                rate.materialize(now_ms)
                foreseen = rate.is_acknowledged  # by enough_ms
                self._leaders.increment_high_watermark(tp, rate.partition, now_ms, foreseen)
        elif (following := self._following.get(tp)) is not None:
            following.materialize(self._now_ms())

    def materialize_all(self) -> bool:
        for tp in (*self._leading, *self._following):
            self.materialize(tp)
        return bool(self._leading or self._following)

    def enough_ms(
        self, room: Mapping[TopicPartition, int], missing_bytes: int, now_ms: float, until_ms: float
    ) -> float:
        acknowledged = [
            (rate.schedule, rate.commit_delay_ms, rate.partition.high_watermark, most)
            for tp, most in room.items()
            if (rate := self._leading.get(tp)) is not None and rate.is_acknowledged
        ]

        def is_enough(at_ms: float) -> bool:
            left_bytes = missing_bytes
            for schedule, delay_ms, high_watermark, most in acknowledged:
                records = schedule.end_at(at_ms - delay_ms) - high_watermark
                if records > 0:
                    left_bytes -= min(records * schedule.record_size_bytes, most)
            return left_bytes <= 0

        if not is_enough(until_ms):
            return math.inf
        while now_ms < (middle_ms := (now_ms + until_ms) / 2) < until_ms:
            if is_enough(middle_ms):
                until_ms = middle_ms
            else:
                now_ms = middle_ms
        return until_ms

    # -- messages

    def handle(self, source: Address, message: RateRequest, now_ms: float) -> None:
        """Handle a message about constant rates, or the loss of a connection."""
        match message:
            case ConstantRateRequest():
                self._accept_rates(source, message, now_ms)
            case RevokeRates(partitions):
                for tp, leader_epoch in partitions.items():
                    rate = self._leading.get(tp)
                    if rate is not None and rate.partition.leader_epoch == leader_epoch:
                        self._remove_follower(tp, rate, source.id, now_ms)
            case Disconnected():
                self._on_disconnected(source, now_ms)

    def _on_disconnected(self, gone: Address, now_ms: float) -> None:
        is_broker = gone.role == "broker"
        for tp, rate in list(self._following.items()):
            if is_broker and rate.partition.is_leader(gone.id):
                self._following.pop(tp).materialize(now_ms)
        for tp, leader_rate in list(self._leading.items()):
            if leader_rate.producer == gone:
                self._stop(tp, Errors.NETWORK_EXCEPTION)
                self._leaders.isr_changes.watch(tp, now_ms)
            elif is_broker:
                self._remove_follower(tp, leader_rate, gone.id, now_ms)

    def on_pause(self) -> None:
        """End all rates before the broker is paused, because a paused broker appends nothing."""
        now_ms = self._now_ms()
        for tp in list(self._leading):
            self._stop(tp, Errors.NETWORK_EXCEPTION)
            self._leaders.isr_changes.watch(tp, now_ms)
        for rate in self._following.values():
            rate.materialize(now_ms)
        self._following.clear()

    def take_messages(self, now_ms: float) -> list[tuple[Address, RateMessage]]:
        """Check the replicas marked by ``look_up``; remove and return the messages to be sent."""
        if not (self._looked_up or self._to_fetch_again or self._progress or self._revoked):
            return []
        self._review(now_ms)
        to_fetch_again, self._to_fetch_again = self._to_fetch_again, {}
        for replica_id, answers in to_fetch_again.items():
            for tp in answers:
                self._leaders.expect_fetch(tp, replica_id, now_ms)
        progress, self._progress = self._progress, {}
        revoked, self._revoked = self._revoked, {}
        return [
            *(
                (Address("broker", replica_id), FetchResponse(answers, is_unsolicited=True))
                for replica_id, answers in to_fetch_again.items()
            ),
            *((producer, ConstantRateResponse(of)) for producer, of in progress.items()),
            *((Address("broker", leader), RevokeRates(of)) for leader, of in revoked.items()),
        ]

    # -- as a leader: producers

    def _accept_rates(self, producer: Address, request: ConstantRateRequest, now_ms: float) -> None:
        """Accept or refuse a producer's rates. Ignore the request if its connection is lost."""
        if self._connection_to(producer) != request.connection:
            return
        for tp, rate in request.partitions.items():
            partition = self._leaders.find(tp, NO_EPOCH)
            error = self._leaders.produces.check(tp, _ACKS)
            if error or isinstance(partition, Errors) or not isinstance(partition.log, IntervalLog):
                error = error or Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT
                self._notify(producer, tp, ConstantRateProgress(error, rate.number))
                continue
            self._stop(tp, Errors.NONE)
            end = partition.log.log_end_offset
            schedule = RateSchedule(
                end - rate.first_record,
                rate.records_per_s,
                rate.record_size_bytes,
                rate.since_ms,
                rate.since_timestamp_ms,
            )
            self._leading[tp] = LeaderRate(partition, schedule, producer, rate.number, end)
            self._reserve_traffic(tp)
            self.look_up(tp)
            self._leaders.notify_followers(tp, partition, now_ms)

    def _stop(self, tp: TopicPartition, error: Errors) -> None:
        """End a producer's rate: notify the producer, and make the followers fetch again."""
        rate = self._leading.get(tp)
        if rate is None:
            return
        self._revoke_followers(tp, rate)
        answer = ConstantRateProgress(
            error, rate.number, rate.partition.leader_epoch, None, rate.take_acknowledged()
        )
        self._notify(rate.producer, tp, answer)
        del self._leading[tp]
        self._reserve_traffic(tp)

    def _send_progress(self, tp: TopicPartition, rate: LeaderRate) -> None:
        answer = ConstantRateProgress(
            Errors.NONE,
            rate.number,
            rate.partition.leader_epoch,
            rate.schedule,
            rate.take_acknowledged(),
            rate.is_acknowledged,
        )
        self._notify(rate.producer, tp, answer)

    def _notify(self, producer: Address, tp: TopicPartition, answer: ConstantRateProgress) -> None:
        partitions = self._progress.setdefault(producer, {})
        before = partitions.get(tp)
        if before is not None and before.number == answer.number:
            answer = answer.after(before)
        partitions[tp] = answer

    # -- as a leader: followers

    def offer(
        self,
        tp: TopicPartition,
        partition: Partition,
        replica_id: int,
        answer: FetchedPartition | None,
    ) -> FetchedPartition | None:
        """See LogSchedules. The response also contains the last records that the follower lacks.

        A follower that lacks more records than ``answer`` contains cannot follow the schedule yet.
        Neither can one that lacks more than replica.fetch.max.bytes, if bandwidth is limited.
        """
        rate, log, remote = self._leading.get(tp), partition.log, partition.remote(replica_id)
        if rate is None or log is None or remote is None:
            return None
        readiness = readiness_of(remote, answer)
        if readiness is Readiness.AWAITED:
            return None
        end, records = remote.log_end_offset, None
        if readiness is Readiness.LACKS_RECORDS:
            assert answer is not None and answer.records is not None
            records = answer.records
            end = end_of(records).end_offset
            if self._copying.is_limited and size_of(records) > self._config.replica_fetch_max_bytes:
                return None
        if end != log.log_end_offset and readiness is not Readiness.AGREED:
            return None
        connection = self._connection_to(Address("broker", replica_id))
        if connection == NO_CONNECTION:
            return None
        remote.owes_fetch = readiness is not Readiness.AGREED
        remote.sent_high_watermark = partition.high_watermark
        return FetchedPartition(
            Errors.NONE,
            partition.leader_epoch,
            remote.log_end_offset,
            remote.last_fetched_epoch,
            records,
            partition.high_watermark,
            log.log_start_offset,
            agreement=RateAgreement(rate.schedule, connection),
            is_acknowledged=rate.is_acknowledged,
        )

    def on_fetch(
        self, tp: TopicPartition, partition: Partition, replica_id: int, asked: FetchPartition
    ) -> bool:
        rate, agreement = self._leading.get(tp), asked.agreement
        holds = (
            rate is not None
            and agreement is not None
            and agreement.schedule == rate.schedule
            and agreement.connection == self._connection_to(Address("broker", replica_id))
        )
        remote = partition.remote(replica_id)
        if rate is not None and remote is not None and remote.keeps_up != holds:
            remote.keeps_up = holds
            self._reserve_traffic(tp)
        if rate is not None and holds and replica_id not in partition.maximal_isr:
            # The follower reaches the high watermark without another fetch.
            self._leaders.expect_fetch(tp, replica_id, self._now_ms())
        return holds or agreement is None

    def is_reachable(self, tp: TopicPartition, replica_id: int) -> bool:
        if tp not in self._leading:
            return True
        return self._connection_to(Address("broker", replica_id)) != NO_CONNECTION

    def may_lag(self, tp: TopicPartition, partition: Partition, replica_id: int) -> bool:
        return tp in self._leading and not partition.keeps_up(replica_id)

    def to_notify(self, tp: TopicPartition, partition: Partition) -> list[int]:
        rate = self._leading.get(tp)
        knows = rate is not None and rate.is_acknowledged
        return [one.replica_id for one in partition.remotes if not (knows and one.keeps_up)]

    def _remove_follower(
        self, tp: TopicPartition, rate: LeaderRate, replica_id: int, now_ms: float
    ) -> None:
        """Record that a follower no longer follows the schedule and so may lag from now on."""
        remote = rate.partition.remote(replica_id)
        if remote is not None and remote.keeps_up:
            self.look_up(tp)
            remote.keeps_up = False
            self._reserve_traffic(tp)
            self._leaders.expect_fetch(tp, replica_id, now_ms)
            self._leaders.isr_changes.watch(tp, now_ms)

    def _revoke_followers(self, tp: TopicPartition, rate: LeaderRate) -> None:
        """Make all followers stop following the schedule and fetch again."""
        self.materialize(tp)
        fetch_again = FetchedPartition(Errors.NONE, rate.partition.leader_epoch, UNKNOWN_OFFSET)
        for remote in rate.partition.remotes:
            self._to_fetch_again.setdefault(remote.replica_id, {})[tp] = fetch_again
            remote.owes_fetch = remote.keeps_up = False

    def _review(self, now_ms: float) -> None:
        """Notify followers and producers if a schedule begins or ceases to acknowledge records."""
        looked_up, self._looked_up = self._looked_up, {}
        lag_time_max_ms = self._config.replica_lag_time_max_ms
        changed: dict[TopicPartition, tuple[int, ...]] = {}
        for tp in looked_up:
            rate = self._leading.get(tp)
            if rate is None:
                continue
            if error := self._leaders.produces.check(tp, _ACKS):
                self._stop(tp, error)
                continue
            partition = rate.partition
            counted = partition.counted(self._address.id, now_ms, lag_time_max_ms)
            is_acknowledged = counted is not None and all(remote.keeps_up for remote in counted)
            if is_acknowledged != rate.is_acknowledged:
                rate.is_acknowledged = is_acknowledged
                changed[tp] = rate.followers
            elif is_acknowledged or partition.high_watermark <= rate.notified_offset:
                continue
            self._send_progress(tp, rate)
        if changed:
            self._leaders.on_schedules_acknowledged(changed, now_ms)

    # -- as a leader: bandwidth

    def reserve_traffic(self, topic: str | None = None) -> None:
        """Reserve bandwidth for the constant rates of a topic, or of all topics."""
        for tp in self._leading:
            if topic is None or tp.topic == topic:
                self._reserve_traffic(tp)

    def _reserve_traffic(self, tp: TopicPartition) -> None:
        if not self._copying.is_limited:
            return
        rate = self._leading.get(tp)
        if rate is None or rate.partition.log is None:
            self._copying.reserve(tp, self._address.id, {})
            return
        place_of, config = self._copying.place_of, rate.partition.log.config
        followers = [
            (place_of(tp, one), config.follower_throttled.has(tp.partition, one))
            for one in rate.followers
        ]
        traffic = constant_traffic(
            round(rate.schedule.records_per_s * rate.schedule.record_size_bytes),
            place_of(tp, self._address.id),
            followers,
            leader_throttled=config.leader_throttled.has(tp.partition, self._address.id),
        )
        self._copying.reserve(tp, self._address.id, traffic)

    # -- as a follower

    def name_agreements(self, asked: dict[TopicPartition, FetchPartition]) -> None:
        if not self._following:
            return
        for tp, position in asked.items():
            if (rate := self._following.get(tp)) is not None:
                asked[tp] = msgspec.structs.replace(position, agreement=rate.agreement)

    def on_answer(self, tp: TopicPartition, answer: FetchedPartition, now_ms: float) -> bool:
        rate = self._following.get(tp)
        if rate is None:
            return False
        rate.materialize(now_ms)
        if answer.agreement == rate.agreement:
            rate.is_acknowledged, rate.materialized_ms = answer.is_acknowledged, NEVER_MS
            rate.advance_high_watermark(answer.high_watermark, now_ms)
            return True
        if answer.fetch_offset == UNKNOWN_OFFSET and answer.error is Errors.NONE:
            del self._following[tp]
        else:
            self._leave(tp, rate)
        return False

    def accept(self, tp: TopicPartition, partition: Partition, answer: FetchedPartition) -> bool:
        agreement, log, state = answer.agreement, partition.log, partition.state
        if agreement is None or log is None or state is None:
            return False
        if agreement.connection != self._connection_to(Address("broker", state.leader)):
            return False
        epoch, offset = answer.last_fetched_epoch, answer.fetch_offset
        if answer.records is not None:
            epoch, offset = end_of(answer.records)
        is_empty = log.log_start_offset == log.log_end_offset
        if offset != log.log_end_offset or (epoch != log.latest_epoch and not is_empty):
            return False
        self._following[tp] = FollowerRate(partition, agreement)
        return True

    def _leave(self, tp: TopicPartition, rate: FollowerRate) -> None:
        self._following.pop(tp).materialize(self._now_ms())
        assert rate.partition.state is not None
        revoked = self._revoked.setdefault(rate.partition.state.leader, {})
        revoked[tp] = rate.partition.leader_epoch

    # -- as a leader or a follower

    def on_new_epoch(self, tp: TopicPartition) -> None:
        """Handle a new leader epoch of a partition.

        A leader continues its producer's rate, but its followers must fetch again and accept a new
        rate agreement. A follower stops following the schedule.
        """
        rate = self._leading.get(tp)
        if rate is None:
            self.end(tp, Errors.NONE)
            return
        self._revoke_followers(tp, rate)
        rate.is_acknowledged = False
        self._send_progress(tp, rate)
        rate.materialized_ms = NEVER_MS
        self._reserve_traffic(tp)
        self._looked_up[tp] = None

    def end(self, tp: TopicPartition, error: Errors) -> None:
        self._stop(tp, error)
        if (rate := self._following.get(tp)) is not None:
            self._leave(tp, rate)
