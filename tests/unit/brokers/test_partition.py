"""What a leader decides about one partition: fetch positions, the high watermark, the ISR.

Sources: Partition, ReplicaManager.readFromLocalLog.
"""

from __future__ import annotations

import msgspec
import pytest

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.replica_log import Appended
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.partitions.remote_replica import NEVER_MS
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchPartition
from klamm.cluster.records import CountedBatch, EpochEndOffset
from klamm.cluster.types import LeaderAndIsr
from tests.unit.brokers.network import state

NOW_MS = 100_000.0
LAG_MS = 30_000.0
STATE = state(leader=1, leader_epoch=5, isr=(1, 2), zk_version=7, replicas=(1, 2, 3))


@pytest.fixture
def partition() -> Partition:
    """Broker 1 leads since NOW_MS at epoch 5; epochs 2, 3 and 5 start at offsets 4, 8 and 10."""
    log = IntervalLog()
    for epoch, count in ((0, 4), (2, 4), (3, 2)):
        log.append_as_leader(CountedBatch(count, count), epoch, 0)
    log.increment_log_start_offset(2)
    partition = Partition(log=log, high_watermark=6)
    partition.make_leader(STATE, NOW_MS)
    partition.append_as_leader(CountedBatch(2, 2), 0)
    return partition


def fetch(
    partition: Partition, replica_id: int, offset: int, now_ms: float = NOW_MS, epoch: int = 5
) -> None:
    assert partition.record_fetch(replica_id, FetchPartition(offset, 5, epoch), now_ms)


def advanced(partition: Partition, now_ms: float = NOW_MS) -> int:
    """The high watermark after an attempt to advance it."""
    before = partition.high_watermark
    counted = partition.counted(1, now_ms, LAG_MS)
    has_advanced = partition.maybe_increment_high_watermark(1, now_ms, LAG_MS)
    assert has_advanced == (partition.high_watermark > before)
    ends = [] if counted is None else [remote.log_end_offset for remote in counted]
    if has_advanced and partition.log is not None:
        assert partition.high_watermark == min([partition.log.log_end_offset, *ends])
    return partition.high_watermark


@pytest.mark.parametrize(
    ("broker_id", "leader_epoch", "error"),
    [
        (1, 5, Errors.NONE),
        (1, -1, Errors.NONE),
        (1, 4, Errors.FENCED_LEADER_EPOCH),
        (1, 6, Errors.UNKNOWN_LEADER_EPOCH),
        (2, 5, Errors.NOT_LEADER_OR_FOLLOWER),
        (2, -1, Errors.NOT_LEADER_OR_FOLLOWER),
        (2, 4, Errors.FENCED_LEADER_EPOCH),
        (2, 6, Errors.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_leader_epoch_is_checked_before_the_leader(
    partition: Partition, broker_id: int, leader_epoch: int, error: Errors
) -> None:
    assert partition.check_fetch(broker_id, leader_epoch) is error


@pytest.mark.parametrize(
    ("offset", "epoch", "end"),
    [
        (12, 5, None),
        (12, -1, None),
        (2, -1, None),
        (8, 2, None),
        (9, 2, EpochEndOffset(2, 8)),
        (10, 3, None),
        (11, 3, EpochEndOffset(3, 10)),
        (9, 4, EpochEndOffset(3, 10)),
        (10, 4, EpochEndOffset(3, 10)),
        (4, 1, EpochEndOffset(0, 4)),
        (13, 5, EpochEndOffset(5, 12)),
        (2, 0, None),
    ],
)
def test_a_log_diverges_where_its_last_epoch_ends_earlier_or_is_missing(
    partition: Partition, offset: int, epoch: int, end: EpochEndOffset | None
) -> None:
    expected = FetchedPartition(Errors.NONE, 5, offset, epoch, diverging=end)
    answer = partition.check_offsets(FetchPartition(offset, 5, epoch))
    assert answer == (None if end is None else expected)


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [
        pytest.param(13, -1, id="beyond the log"),
        pytest.param(1, -1, id="before the log"),
        pytest.param(1, 0, id="before the log, in a known epoch"),
        pytest.param(12, 6, id="after an epoch that the leader never had"),
    ],
)
def test_a_fetch_that_no_epoch_can_answer_is_out_of_range(
    partition: Partition, offset: int, epoch: int
) -> None:
    assert partition.check_offsets(FetchPartition(offset, 5, epoch)) == FetchedPartition(
        Errors.OFFSET_OUT_OF_RANGE, 5, offset, epoch, log_start_offset=2, log_end_offset=12
    )


def test_the_high_watermark_waits_for_the_isr_and_for_followers_that_are_about_to_join(
    partition: Partition,
) -> None:
    assert advanced(partition) == 6, "2 has not fetched at this epoch"
    fetch(partition, 2, 11)
    fetch(partition, 3, 3)
    assert advanced(partition) == 11, "3 has never caught up"
    fetch(partition, 3, 12, NOW_MS + 1)
    partition.append_as_leader(CountedBatch(1, 1), 0)
    fetch(partition, 2, 13, NOW_MS + 2)
    assert advanced(partition, NOW_MS + 1 + LAG_MS) == 12, "3 has lagged for just the maximum"
    assert partition.maybe_increment_high_watermark(1, NOW_MS + 2 + LAG_MS, LAG_MS)
    assert partition.high_watermark == 13


def test_a_pending_isr_counts_as_far_as_it_would_grow(partition: Partition) -> None:
    fetch(partition, 2, 12)
    fetch(partition, 3, 8)
    proposed = partition.propose((1, 2, 3))
    assert partition.maximal_isr == (1, 2, 3)
    assert advanced(partition) == 8, "3 counts before it has joined"
    partition.pending = None
    proposed = partition.propose((1,))
    assert proposed == LeaderAndIsr(1, 5, (1,), 7)
    fetch(partition, 2, 10)
    assert advanced(partition) == 10, "2 counts until it has left"
    assert partition.commit(proposed.with_zk_version(8))
    assert (partition.isr, partition.pending) == ((1,), None)
    assert advanced(partition, NOW_MS + LAG_MS + 1) == 12


def test_an_isr_that_comes_late_is_not_applied(partition: Partition) -> None:
    for epoch, zk_version, is_applied in (
        (4, 9, False),
        (6, 9, False),
        (5, 6, False),
        (5, 7, True),
    ):
        partition.pending = None
        partition.propose((1,))
        assert partition.commit(LeaderAndIsr(1, epoch, (1,), zk_version)) == is_applied
        assert (partition.isr == (1,), partition.pending is None) == (is_applied,) * 2


def test_a_follower_joins_at_the_high_watermark_and_at_the_start_of_the_epoch(
    partition: Partition,
) -> None:
    assert partition.epoch_start_offset == 10
    for offset, high_watermark, joins in (
        (9, 6, False),
        (10, 6, True),
        (10, 11, False),
        (11, 11, True),
    ):
        fetch(partition, 3, offset)
        partition.high_watermark = high_watermark
        assert partition.caught_up() == ((3,) if joins else ())
    fetch(partition, 2, 12)
    assert partition.caught_up() == (3,), "2 is in the ISR already"


def test_a_follower_that_lags_for_longer_than_the_maximum_is_out_of_sync(
    partition: Partition,
) -> None:
    late_ms = NOW_MS + LAG_MS
    for now_ms, out in ((late_ms, ()), (late_ms + 1, (2,))):
        assert partition.out_of_sync(1, now_ms, LAG_MS) == out, "2 has never fetched"
    fetch(partition, 2, 12, NOW_MS + 500)
    assert partition.out_of_sync(1, late_ms + 1_000, LAG_MS) == (), "2 has all records"
    partition.append_as_leader(CountedBatch(1, 1), 0)
    for now_ms, out in ((late_ms + 500, ()), (late_ms + 501, (2,))):
        assert partition.out_of_sync(1, now_ms, LAG_MS) == out
    fetch(partition, 2, 12, NOW_MS + 800)
    assert partition.caught_up_ms(2) == NOW_MS + 500, "records were added before this fetch"
    fetch(partition, 2, 13, NOW_MS + 900)
    assert partition.caught_up_ms(2) == NOW_MS + 900
    fetch(partition, 3, 3)
    assert partition.caught_up_ms(3) == NEVER_MS


def test_a_new_epoch_forgets_proposals_and_positions(partition: Partition) -> None:
    fetch(partition, 2, 12)
    partition.propose((1,))
    partition.make_leader(msgspec.structs.replace(STATE, leader_epoch=6), NOW_MS + 1)
    assert (partition.pending, partition.remote(2)) == (None, None)
    assert (partition.leader_since_ms, partition.epoch_start_offset) == (NOW_MS + 1, 12)
    assert advanced(partition) == 6
    partition.make_follower(msgspec.structs.replace(STATE, leader=2, leader_epoch=7))
    assert partition.epoch_start_offset == -1
    assert partition.log is not None and partition.log.latest_epoch == 6


def test_a_checkpoint_has_the_high_watermark_of_its_time(partition: Partition) -> None:
    for offset, now_ms, stored in ((7, 5_000, 6), (8, 9_999, 6), (9, 10_000, 8), (10, 20_000, 9)):
        partition.set_high_watermark(offset, now_ms)
        assert partition.stored_high_watermark(now_ms) == stored
    assert partition.stored_high_watermark(24_999) == 9
    assert partition.stored_high_watermark(25_000) == 10


def test_a_duplicate_has_the_epoch_of_its_original_while_that_is_in_the_log(
    partition: Partition,
) -> None:
    assert partition.epoch_of(Appended(8, 9)) == 5
    for first, epoch in ((8, 3), (4, 2), (2, 0), (0, -1)):
        assert partition.epoch_of(Appended(first, first + 1, is_duplicate=True)) == epoch


def test_a_log_gets_one_topic_id(partition: Partition) -> None:
    assert partition.check_or_set_topic_id(None)
    for topic_id, is_same in (("a", True), ("b", False), ("a", True), (None, True)):
        assert partition.check_or_set_topic_id(topic_id) == is_same
    assert partition.log is not None and partition.log.topic_id == "a"
    assert Partition().check_or_set_topic_id("a")


def test_a_follower_of_an_empty_log_fetches_only_to_join_the_isr(partition: Partition) -> None:
    empty = Partition(log=IntervalLog())
    empty.make_leader(STATE, NOW_MS)
    assert [empty.lags(replica_id) for replica_id in (2, 3)] == [False, True]
    assert empty.out_of_sync(1, NOW_MS + LAG_MS + 1, LAG_MS) == ()
    empty.append_as_leader(CountedBatch(1, 1), 0)
    assert [empty.lags(replica_id) for replica_id in (2, 3)] == [True, True]
    fetch(partition, 3, 12)
    assert not partition.lags(3)


def test_a_high_watermark_does_not_go_back(partition: Partition) -> None:
    partition.high_watermark = 11
    fetch(partition, 2, 10)
    for offset in (10, 11):
        fetch(partition, 2, offset)
        assert not partition.maybe_increment_high_watermark(1, NOW_MS, LAG_MS)
        assert partition.high_watermark == 11


def test_a_leader_without_a_log_has_nothing_to_read() -> None:
    partition = Partition(state=STATE)
    assert partition.check_fetch(1, 5) is Errors.NOT_LEADER_OR_FOLLOWER
    assert partition.is_untouched and partition.replicas == (1, 2, 3)
    assert Partition().leader_and_isr is None and Partition().isr == ()


def test_a_broker_fetches_only_partitions_that_are_assigned_to_it(partition: Partition) -> None:
    assert not partition.record_fetch(4, FetchPartition(12, 5, 5), NOW_MS)
    assert partition.remote(4) is None
    for replica_id in (3, 2, 3):
        fetch(partition, replica_id, 12)
    assert [remote.replica_id for remote in partition.remotes] == [3, 2]


def test_a_packed_partition_is_unpacked_again(partition: Partition) -> None:
    fetch(partition, 2, 12, NOW_MS + 5)
    fetch(partition, 3, 7, NOW_MS + 6)
    before = partition.remotes
    partition.set_high_watermark(7, NOW_MS)
    partition.pack(NOW_MS)
    assert isinstance(partition.known, bytes)
    assert partition.stored_high_watermark(NOW_MS) == 6
    remote = partition.remote(3)
    assert remote is not None and remote.log_end_offset == 7
    assert partition.remotes == before
    partition.pack(NOW_MS + 5_000)
    assert partition.checkpoint is None
