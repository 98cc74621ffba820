"""The limits of the invariants of replicas: what is just allowed, and what is a violation."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.cluster.records import CountedBatch
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.observations import (
    History,
    IsrApplied,
    ReplicaChanged,
    ReplicasChanged,
    RoleChanged,
    State,
)
from klamm.lab.checks.replica_invariants import (
    applied_epoch_does_not_decrease,
    high_watermark_follows_the_isr,
    high_watermark_is_in_the_log,
    isr_reaches_high_watermark,
    leader_was_elected,
    leaders_know_their_epoch,
    maximal_isr_covers_the_isr,
    strong_isr,
    weak_isr,
)
from klamm.world.views.replica_view import ReplicaView, views_of_partition

T0 = TopicPartition("t", 0)


def history() -> History:
    """Broker 1 leads t-0 at leader epoch 5 with the ISR 1, 2; broker 2 has led at epoch 4."""
    found = History(leaders_write_isrs=False, max_imbalance=0.1)
    found.states[T0] = State(1, 5, (1, 2), 1, 7)
    found.leaders = {(T0, 4): 2, (T0, 5): 1}
    found.applied = {(T0, 1): 5}
    return found


def view(
    broker_id: int, *ends: int, start: int = 0, leading: int = -1, applied: int = 5, high: int = 6
) -> ReplicaView:
    """A replica whose leader epochs 1, 2, ... end at these offsets."""
    log = IntervalLog()
    for epoch, end in enumerate(ends, start=1):
        count = end - log.log_end_offset
        if count:
            log.append_as_leader(CountedBatch(count, count), epoch, 0)
    log.increment_log_start_offset(start)
    return ReplicaView(
        T0, broker_id, log.intervals(), high, leading, applied, start, log.log_end_offset
    )


LEADER = view(1, 4, 8, leading=5)


@pytest.mark.parametrize(
    ("other", "isr", "is_lacking", "ends_early"),
    [
        pytest.param(view(2, 4, 6), (1, 2), False, False, id="up to the high watermark"),
        pytest.param(view(2, 4, 5), (1, 2), True, True, id="not up to the high watermark"),
        pytest.param(view(2, 5, 8), (1, 2), True, False, id="another epoch"),
        pytest.param(view(2, 4, 6, 9), (1, 2), False, False, id="another epoch above it"),
        pytest.param(view(2, 4, 8, start=3), (1, 2), False, False, id="fewer old records"),
        pytest.param(view(2, 4, 5), (1, 3), False, False, id="outside the ISR"),
    ],
)
def test_a_member_of_the_isr_without_records_below_the_high_watermark_is_a_violation(
    other: ReplicaView, isr: tuple[int, ...], is_lacking: bool, ends_early: bool
) -> None:
    views = views_of_partition((LEADER, other))
    changed = ReplicaChanged(T0, views, LEADER, isr)
    assert bool(list(weak_isr(history(), changed))) == is_lacking
    replicas = ReplicasChanged(T0, views, isr, [LEADER])
    assert bool(list(strong_isr(history(), replicas))) == is_lacking
    assert bool(list(isr_reaches_high_watermark(history(), replicas))) == ends_early
    nobody = ReplicasChanged(T0, views, isr, [])
    assert not list(strong_isr(history(), nobody))
    assert not list(isr_reaches_high_watermark(history(), nobody))


@pytest.mark.parametrize(
    ("leading", "isr", "pending", "is_violated"),
    [
        (5, (1, 2), (), False),
        (5, (1,), (1, 2), False),
        (5, (1,), (1, 3), True),
        (5, (1,), (), True),
        (5, (1, 2, 3), (), False),
        (4, (1,), (), False),
        (-1, (), (), False),
    ],
)
def test_a_leader_counts_the_isr_in_zookeeper(
    leading: int, isr: tuple[int, ...], pending: tuple[int, ...], is_violated: bool
) -> None:
    event = RoleChanged(T0, 1, view(1, 8, leading=leading), isr, pending, 5)
    assert bool(list(maximal_isr_covers_the_isr(history(), event))) == is_violated


@pytest.mark.parametrize(("high", "is_violated"), [(7, False), (8, False), (9, True)])
def test_a_high_watermark_beyond_the_log_is_a_violation(high: int, is_violated: bool) -> None:
    one = view(1, 8, high=high)
    changed = ReplicaChanged(T0, views_of_partition((one,)), one, ())
    assert bool(list(high_watermark_is_in_the_log(history(), changed))) == is_violated


@pytest.mark.parametrize(
    ("reached", "is_violated"), [(None, False), (5, False), (6, False), (7, True)]
)
def test_a_high_watermark_above_what_the_isr_has_is_a_violation(
    reached: int | None, is_violated: bool
) -> None:
    event = IsrApplied(T0, 1, 6, reached)
    assert bool(list(high_watermark_follows_the_isr(history(), event))) == is_violated


@pytest.mark.parametrize(
    ("broker_id", "leading", "log_epoch", "applied", "expected"),
    [
        pytest.param(1, 5, 5, 5, [], id="the leader"),
        pytest.param(1, 5, 6, 5, [], id="a log of a later epoch"),
        pytest.param(1, 5, 4, 5, ["log"], id="a log of an earlier epoch"),
        pytest.param(1, 5, None, 5, ["log"], id="a log without an epoch"),
        pytest.param(1, -1, None, 5, [], id="a follower"),
        pytest.param(2, 4, 4, 4, [], id="a deposed leader"),
        pytest.param(2, 5, 5, 5, ["elected"], id="an epoch of another"),
        pytest.param(2, 6, 6, 6, [], id="an epoch that is not known yet"),
        pytest.param(1, 5, 5, 6, [], id="a later state"),
        pytest.param(1, 5, 5, 4, ["applied"], id="an earlier state"),
    ],
)
def test_a_leader_or_replica_of_a_wrong_epoch_is_a_violation(
    broker_id: int, leading: int, log_epoch: int | None, applied: int, expected: list[str]
) -> None:
    one = view(broker_id, 8, leading=leading, applied=applied)
    event = RoleChanged(T0, broker_id, one, (), (), log_epoch)
    checks = {
        "log": leaders_know_their_epoch,
        "elected": leader_was_elected,
        "applied": applied_epoch_does_not_decrease,
    }
    assert [name for name, check in checks.items() if list(check(history(), event))] == expected
    gone = RoleChanged(T0, broker_id, None, (), (), None)
    assert not [name for name, check in checks.items() if list(check(history(), gone))]
