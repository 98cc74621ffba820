"""What leaders agree on with producers of constant rates, and with followers: who goes by a law.

A leader takes a rate, offers its law to followers that are at its end, and says to followers and
producer whether what grows is acknowledged by the law, too. Whatever looks at a partition in an
event finds it here, settled; at the event's end ``review`` sees whether that still holds. Nothing
is sent: what is to be told is kept until the broker takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.logs.interval_log import IntervalLog
from brokers.partitions.growth import LeaderGrowth
from brokers.partitions.partition import Partition
from brokers.partitions.settling import settle
from cluster.api_errors import Errors
from cluster.constant_rate import (
    ConstantRate,
    ConstantRateRequest,
    GrowingPartition,
    Law,
    Offer,
)
from cluster.data_requests import MAX_BYTES, UNKNOWN_OFFSET, FetchedPartition, FetchPartition
from cluster.protocols import Connections
from cluster.records import IntervalRecords, Stretch
from cluster.requests import Address
from cluster.types import TopicPartition

OnGrowth = Callable[[TopicPartition, Partition], None]
"""Counts the traffic of a law, whose followers are others now, or which is over."""
OnGrown = Callable[[TopicPartition, Partition, float], None]
"""Moves the high watermark of a leader whose log or followers have grown."""


class GrowingLeaders:
    """The growing ones among ``partitions``; ``check`` says whether one may be produced to."""

    def __init__(
        self,
        broker_id: int,
        partitions: Mapping[TopicPartition, Partition],
        connections: Connections,
        now_ms: Callable[[], float],
        check: Callable[[TopicPartition], Errors],
        on_grown: OnGrown,
        on_growth: OnGrowth,
        lag_time_max_ms: float,
    ) -> None:
        self._broker_id = broker_id
        self._address = Address("broker", broker_id)
        self._partitions = partitions
        self._connections = connections
        self._now_ms = now_ms
        self._check = check
        self._on_grown = on_grown
        self._on_growth = on_growth
        self._lag_time_max_ms = lag_time_max_ms
        self._looked_at: dict[TopicPartition, None] = {}
        self._answers: dict[Address, dict[TopicPartition, GrowingPartition]] = {}
        self._farewells: dict[int, dict[TopicPartition, FetchedPartition]] = {}

    # -- looking at partitions

    def look_up(self, tp: TopicPartition) -> Partition | None:
        """A hosted partition, with all that has grown so far; None if there is none."""
        partition = self._partitions.get(tp)
        if partition is not None and partition.growth is not None:
            self.settle(tp, partition)
            self._looked_at[tp] = None
        return partition

    def settle(self, tp: TopicPartition, partition: Partition) -> None:
        """Bring a growing partition up to now."""
        now_ms, growth = self._now_ms(), partition.growth
        if not isinstance(growth, LeaderGrowth):
            settle(partition, now_ms)
        elif growth.settled_ms != now_ms:
            growth.settled_ms = now_ms
            settle(partition, now_ms)
            self._on_grown(tp, partition, now_ms)

    # -- producers

    def take_rates(self, producer: Address, request: ConstantRateRequest) -> list[TopicPartition]:
        """Let logs grow at these rates; returns those that do. The others are refused.

        Nothing is taken from a producer that is gone by now.
        """
        if self._connections.connect(self._address, producer) != request.connection:
            return []
        taken = []
        for tp, rate in request.partitions.items():
            error = self._check(tp)
            partition = self.look_up(tp)
            if error or partition is None or not isinstance(partition.log, IntervalLog):
                refused = error or Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT
                self._tell(producer, tp, GrowingPartition(refused, rate.number))
                continue
            self.stop(tp, partition, Errors.NONE)
            self._begin(partition, partition.log, producer, rate)
            self._looked_at[tp] = None
            self.settle(tp, partition)
            taken.append(tp)
        return taken

    @staticmethod
    def _begin(
        partition: Partition, log: IntervalLog, producer: Address, rate: ConstantRate
    ) -> None:
        law = Law(
            log.log_end_offset - rate.first_record,
            rate.records_per_s,
            rate.record_size_bytes,
            rate.since_ms,
            rate.since_timestamp_ms,
        )
        partition.growth = LeaderGrowth(law, producer, rate.number, log.log_end_offset)

    def stop(self, tp: TopicPartition, partition: Partition, error: Errors) -> None:
        """Give a producer's rate back; the followers fetch what they have not yet."""
        growth = partition.growth
        if not isinstance(growth, LeaderGrowth):
            return
        self.settle(tp, partition)
        self._dismiss(tp, partition)
        stretches = self._acknowledged(partition, growth)
        answer = GrowingPartition(error, growth.number, partition.leader_epoch, None, stretches)
        self._tell(growth.producer, tp, answer)
        partition.growth = None
        self._on_growth(tp, partition)

    def go_on(self, tp: TopicPartition, partition: Partition, growth: LeaderGrowth) -> None:
        """This broker leads at another epoch now, with the same producer: the log grows on, and
        the followers are to agree again."""
        partition.growth = LeaderGrowth(
            growth.law, growth.producer, growth.number, growth.told_offset
        )
        self._looked_at[tp] = None

    def pause(self, tp: TopicPartition, partition: Partition) -> LeaderGrowth | None:
        """End a leader's epoch; what is to go on at the next, if it leads then."""
        growth = partition.growth
        if not isinstance(growth, LeaderGrowth):
            return None
        self.settle(tp, partition)
        self._dismiss(tp, partition)
        growth.is_acknowledged = False
        self._tell_progress(tp, partition, growth)
        return growth

    def _dismiss(self, tp: TopicPartition, partition: Partition) -> None:
        """Ask all followers to fetch: those who were offered the law grow by it no more."""
        fetch_again = FetchedPartition(Errors.NONE, partition.leader_epoch, UNKNOWN_OFFSET)
        for remote in partition.remotes:
            self._farewells.setdefault(remote.replica_id, {})[tp] = fetch_again
            remote.owes_fetch = False

    # -- followers

    def offer(
        self, partition: Partition, replica_id: int, answer: FetchedPartition | None
    ) -> FetchedPartition | None:
        """What a follower of a growing leader is told instead of ``answer``."""
        growth, log = partition.growth, partition.log
        remote = partition.remote(replica_id)
        assert isinstance(growth, LeaderGrowth) and log is not None
        is_follower = replica_id in growth.followers
        if remote is None or (answer is None and remote.owes_fetch and not is_follower):
            return answer
        offset = remote.log_end_offset
        records = None if answer is None or is_follower else answer.records
        if isinstance(records, IntervalRecords) and records.intervals:
            offset = records.intervals[-1].end
        if not is_follower and offset != log.log_end_offset:
            return answer
        connection = self._connection_to(replica_id)
        if not connection:
            return answer
        remote.owes_fetch = not is_follower
        remote.told_high_watermark = partition.high_watermark
        return FetchedPartition(
            Errors.NONE,
            partition.leader_epoch,
            remote.log_end_offset,
            remote.last_fetched_epoch,
            records,
            partition.high_watermark,
            log.log_start_offset,
            offer=Offer(growth.law, connection),
            is_acknowledged=growth.is_acknowledged,
        )

    def is_connected(self, replica_id: int) -> bool:
        """True if a follower could be offered a law now."""
        return self._connection_to(replica_id) > 0

    def _connection_to(self, replica_id: int) -> int:
        return self._connections.connect(self._address, Address("broker", replica_id))

    def on_fetch(self, partition: Partition, replica_id: int, asked: FetchPartition) -> bool:
        """Note whether a follower that has fetched goes by the law; False if it goes by one that
        is over, and must be told."""
        growth, offer = partition.growth, asked.offer
        holds = (
            isinstance(growth, LeaderGrowth)
            and offer is not None
            and offer.law == growth.law
            and offer.connection == self._connection_to(replica_id)
        )
        if isinstance(growth, LeaderGrowth):
            others = tuple(r for r in growth.followers if r != replica_id)
            growth.followers = (*others, replica_id) if holds else others
        return holds or offer is None

    def leave(self, tp: TopicPartition, partition: Partition, replica_id: int) -> bool:
        """A follower goes by the law no more; False if it did not."""
        growth = partition.growth
        if not isinstance(growth, LeaderGrowth) or replica_id not in growth.followers:
            return False
        self.settle(tp, partition)
        self._looked_at[tp] = None
        growth.followers = tuple(r for r in growth.followers if r != replica_id)
        return True

    # -- at the end of an event

    def review(self, now_ms: float) -> list[tuple[TopicPartition, tuple[int, ...]]]:
        """See whether what grows is acknowledged by the law; the followers to be told otherwise."""
        changed = []
        for tp in list(self._looked_at):
            partition = self._partitions.get(tp)
            if partition is None or not isinstance(partition.growth, LeaderGrowth):
                continue
            growth = partition.growth
            error = self._check(tp)
            if error:
                self.stop(tp, partition, error)
                continue
            if growth.fed != growth.followers:
                growth.fed = growth.followers
                self._on_growth(tp, partition)
            counted = partition.counted(self._broker_id, now_ms, self._lag_time_max_ms)
            is_acknowledged = counted is not None and all(
                remote.replica_id in growth.followers for remote in counted
            )
            was_acknowledged, growth.is_acknowledged = growth.is_acknowledged, is_acknowledged
            if is_acknowledged != was_acknowledged:
                changed.append((tp, growth.followers))
            elif is_acknowledged or partition.high_watermark <= growth.told_offset:
                continue
            self._tell_progress(tp, partition, growth)
        self._looked_at.clear()
        return changed

    def _tell_progress(
        self, tp: TopicPartition, partition: Partition, growth: LeaderGrowth
    ) -> None:
        answer = GrowingPartition(
            Errors.NONE,
            growth.number,
            partition.leader_epoch,
            growth.law,
            self._acknowledged(partition, growth),
            growth.is_acknowledged,
        )
        self._tell(growth.producer, tp, answer)

    @staticmethod
    def _acknowledged(partition: Partition, growth: LeaderGrowth) -> tuple[Stretch, ...]:
        """What has come below the high watermark since the producer was told last."""
        log, stretches = partition.log, []
        assert log is not None
        offset = max(growth.told_offset, log.log_start_offset)
        while offset < partition.high_watermark:
            records = log.read(offset, MAX_BYTES, partition.high_watermark)
            assert isinstance(records, IntervalRecords)
            stretches += [Stretch(i.leader_epoch, i.start, i.end) for i in records.intervals]
            offset = stretches[-1].end
        growth.told_offset = offset
        return tuple(stretches)

    def _tell(self, producer: Address, tp: TopicPartition, answer: GrowingPartition) -> None:
        partitions = self._answers.setdefault(producer, {})
        before = partitions.get(tp)
        if before is not None and before.number == answer.number:
            answer = answer.after(before)
        partitions[tp] = answer

    def take_answers(self) -> dict[Address, dict[TopicPartition, GrowingPartition]]:
        """What producers are to be told; from now on nothing."""
        answers, self._answers = self._answers, {}
        return answers

    def take_farewells(self) -> dict[int, dict[TopicPartition, FetchedPartition]]:
        """Which followers are to end a law; from now on none."""
        farewells, self._farewells = self._farewells, {}
        return farewells
