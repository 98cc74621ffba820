"""Invariants of replicas: their records and high watermarks, and each leader's view of the ISR.

Each function is called when a broker has processed an event, once for each partition that the event
mentions. It gets the history before the event and the partition's replicas after it, and returns a
line for each violation. replicas.py checks log matching and acknowledged records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from klamm.cluster.types import NO_EPOCH
from klamm.lab.checks.observations import (
    History,
    IsrApplied,
    ReplicaChanged,
    ReplicasChanged,
    RoleChanged,
    is_current_leader,
)
from klamm.lab.checks.replicas import records_between
from klamm.world.views.replica_view import ReplicaView


def weak_isr(_: History, event: ReplicaChanged) -> Iterable[str]:
    """Every replica in a leader's cached ISR has all records below the leader's high watermark.

    A deposed leader is not checked: a reassignment may have deleted a replica in its ISR."""
    return _lacking(event, event.view, event.isr) if event.isr else ()


def strong_isr(_: History, event: ReplicasChanged) -> Iterable[str]:
    """Every replica in ZooKeeper's ISR has all records below the leader's high watermark.

    A deposed leader is not checked."""
    return [line for view in event.leaders for line in _lacking(event, view, event.isr)]


def isr_reaches_high_watermark(_: History, event: ReplicasChanged) -> Iterable[str]:
    """No log of a replica in ZooKeeper's ISR ends before the leader's high watermark."""
    return [
        f"{event.partition}: the log of replica {other.broker_id} ends at {other.end}, "
        f"but the high watermark of leader {view.broker_id} is {view.high_watermark}"
        for view in event.leaders
        for other in event.replicas.views
        if other.end < view.high_watermark and other.broker_id in event.isr
    ]


def maximal_isr_covers_the_isr(history: History, event: RoleChanged) -> Iterable[str]:
    """A leader waits for every replica in ZooKeeper's ISR before it advances the high watermark.

    Its maximal ISR contains the ISR in ZooKeeper: that is the leader's ISR and the replicas that
    the leader has asked to add."""
    state, view = history.states.get(event.partition), event.view
    if view is None or state is None or not is_current_leader(view, state):
        return ()
    missing = [r for r in state.isr if r not in event.isr and r not in event.pending]
    if not missing:
        return ()
    return (
        f"{event.partition}: leader {view.broker_id} advances the high watermark without "
        f"brokers {missing}: its ISR is {list(event.isr)}, but the ISR in ZooKeeper is "
        f"{list(state.isr)}",
    )


def high_watermark_is_in_the_log(_: History, event: ReplicaChanged) -> Iterable[str]:
    """A high watermark never exceeds the log end offset."""
    view = event.view
    if view.high_watermark <= view.end:
        return ()
    return (
        f"{event.partition}: the high watermark of broker {view.broker_id} is "
        f"{view.high_watermark}, but its log ends at {view.end}",
    )


def high_watermark_follows_the_isr(_: History, event: IsrApplied) -> Iterator[str]:
    """When a leader applies a new ISR, the high watermark advances to the smallest log end of the
    replicas that count."""
    if event.reached is not None and event.high_watermark < event.reached:
        yield (
            f"{event.partition}: the high watermark of leader {event.broker} is "
            f"{event.high_watermark} after a change of the ISR, but all replicas that count have "
            f"the records below {event.reached}"
        )


def leaders_know_their_epoch(_: History, event: RoleChanged) -> Iterable[str]:
    """The log of a leader contains the start of its leader epoch.

    By its leader epoch, a leader fences followers."""
    view = event.view
    if view is None or view.leading_epoch == NO_EPOCH:
        return ()
    if event.log_epoch is not None and event.log_epoch >= view.leading_epoch:
        return ()
    return (
        f"{event.partition}: broker {view.broker_id} leads at leader epoch "
        f"{view.leading_epoch}, but the newest epoch in its log is {event.log_epoch}",
    )


def leader_was_elected(history: History, event: RoleChanged) -> Iterable[str]:
    """A broker leads a partition only at leader epochs for which it is the leader in ZooKeeper."""
    view = event.view
    if view is None or view.leading_epoch == NO_EPOCH:
        return ()
    elected = history.leaders.get((event.partition, view.leading_epoch), view.broker_id)
    if elected == view.broker_id:
        return ()
    return (
        f"{event.partition}: broker {view.broker_id} leads at leader epoch "
        f"{view.leading_epoch}, but broker {elected} was elected",
    )


def applied_epoch_does_not_decrease(history: History, event: RoleChanged) -> Iterable[str]:
    """A replica never returns to an earlier leader epoch."""
    view = event.view
    if view is None:
        return ()
    before = history.applied.get((event.partition, event.broker), NO_EPOCH)
    if view.applied_epoch >= before:
        return ()
    return (
        f"{event.partition}: broker {event.broker} went from leader epoch {before} to "
        f"{view.applied_epoch}",
    )


def _lacking(
    event: ReplicaChanged | ReplicasChanged, view: ReplicaView, isr: tuple[int, ...]
) -> list[str]:
    start, end = view.start, view.high_watermark
    are_alike, expected, lines = event.replicas.are_alike, None, []
    for other in event.replicas.views:
        if other is view or other.broker_id not in isr:
            continue
        if (are_alike and other.end >= end) or other.begins_like(view, end):
            continue
        expected = expected or records_between(view.intervals, start, end)
        found = records_between(other.intervals, start, end)
        if other.start <= start and found != expected:
            lines.append(
                f"{event.partition}: below the high watermark, replica {other.broker_id} in the "
                f"ISR has {found}, but leader {view.broker_id} has {expected}"
            )
    return lines
