"""How followers came to agree with their leaders before Kafka had it right, for tests of checks.

Four protocols of the past, each put in the place of what brokers do by patching it for one test:
what Kafka did before 0.11, what KIP-101 and KIP-279 made of it, and KIP-320 without its rule for
joining the ISR (KAFKA-7128). In the first three nothing is fenced by the leader epoch, and only the
first fetch after becoming a follower says in which epoch the log ends.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest

from klamm.brokers.followers import fetchers, follower
from klamm.brokers.followers.follower import NextFetch
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchPartition
from klamm.cluster.records import EpochEndOffset
from klamm.cluster.requests import LeaderAndIsrPartitionState
from klamm.cluster.types import NO_EPOCH


class Truncation(Enum):
    """Which protocol."""

    TO_HIGH_WATERMARK = "truncate to the high watermark"
    KIP_101 = "KIP-101"
    KIP_279 = "KIP-279"
    KIP_320_FIRST_TRY = "KIP-320, first try"


def install(monkeypatch: pytest.MonkeyPatch, truncation: Truncation) -> None:
    """From now on all brokers follow the old protocol."""
    if truncation is Truncation.KIP_320_FIRST_TRY:
        monkeypatch.setattr(Partition, "caught_up", _at_the_high_watermark)
        return
    monkeypatch.setattr(Partition, "check_fetch", _unfenced)
    if truncation is Truncation.TO_HIGH_WATERMARK:
        _forget_epochs(monkeypatch, lambda _: True)
        _wrap_make_follower(monkeypatch, _truncate_to_high_watermark)
        return
    # It keeps the partitions: the id of one that is gone would be another's.
    done: dict[int, tuple[Partition, int]] = {}
    _forget_epochs(monkeypatch, lambda p: done.get(id(p)) == (p, p.leader_epoch))
    take = follower.take_fetched

    def take_fetched(p: Partition, fetched: FetchedPartition, now_ms: float) -> NextFetch:
        next_fetch = take(p, fetched, now_ms)
        if fetched.error is Errors.NONE and fetched.diverging is None:
            done[id(p)] = p, p.leader_epoch
        return next_fetch

    monkeypatch.setattr(fetchers, "take_fetched", take_fetched)
    if truncation is Truncation.KIP_101:
        monkeypatch.setattr(follower, "truncation_offset", _to_the_leaders_end)
        monkeypatch.setattr(Partition, "check_offsets", _without_epochs(Partition.check_offsets))


def _forget_epochs(
    monkeypatch: pytest.MonkeyPatch, is_forgotten: Callable[[Partition], bool]
) -> None:
    position = follower.fetch_position

    def fetch_position(partition: Partition) -> FetchPartition:
        asked = position(partition)
        if not is_forgotten(partition):
            return asked
        return FetchPartition(asked.fetch_offset, asked.current_leader_epoch, NO_EPOCH)

    monkeypatch.setattr(follower, "fetch_position", fetch_position)
    monkeypatch.setattr(fetchers, "fetch_position", fetch_position)


def _wrap_make_follower(monkeypatch: pytest.MonkeyPatch, then: Callable[[Partition], None]) -> None:
    make_follower = Partition.make_follower

    def wrapped(partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        make_follower(partition, state)
        then(partition)

    monkeypatch.setattr(Partition, "make_follower", wrapped)


def _truncate_to_high_watermark(partition: Partition) -> None:
    assert partition.log is not None
    partition.log.truncate_to(partition.high_watermark)


def _unfenced(partition: Partition, broker_id: int, leader_epoch: int) -> Errors:
    is_leader = partition.is_leader(broker_id)
    return Errors.NONE if is_leader else Errors.NOT_LEADER_OR_FOLLOWER


def _to_the_leaders_end(log: ReplicaLog, diverging: EpochEndOffset) -> int:
    return min(diverging.end_offset, log.log_end_offset)


def _without_epochs(
    check_offsets: Callable[[Partition, FetchPartition], FetchedPartition | None],
) -> Callable[[Partition, FetchPartition], FetchedPartition | None]:
    def check(partition: Partition, asked: FetchPartition) -> FetchedPartition | None:
        answer = check_offsets(partition, asked)
        if answer is None or answer.diverging is None:
            return answer
        return answer if answer.diverging.end_offset < asked.fetch_offset else None

    return check


def _at_the_high_watermark(partition: Partition) -> tuple[int, ...]:
    return tuple(
        remote.replica_id
        for remote in partition.remotes
        if remote.log_end_offset >= partition.high_watermark
        and remote.replica_id not in partition.isr
    )
