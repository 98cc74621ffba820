"""Invariants of the active controller's memory, and of its work, at the end of each event.

Each function gets the end of an event and the history before it, and yields a line for each
violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.lab.checks.observations import EventEnded, History
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.partition_state import PartitionState


def batches_are_sent(_: History, event: EventEnded) -> Iterator[str]:
    """At the end of an event, no request is left in a controller's batches.

    Such a request would be lost, or block later ones."""
    if event.unsent:
        yield (
            f"controller {event.controller} has requests in its batches that it did not send in "
            f"the event {event.event or 'that it has processed'}"
        )


def fenced_controllers_resign(_: History, event: EventEnded) -> Iterator[str]:
    """A controller whose write ZooKeeper has rejected because of a newer controller epoch is not
    active at the end of the event."""
    if event.is_fenced:
        yield (
            f"controller {event.controller} is still active after the event {event.event}, in "
            "which ZooKeeper rejected its write because another controller was elected"
        )


def brokers_know_live_brokers(history: History, event: EventEnded) -> Iterator[str]:
    """At the end of an event, the last UpdateMetadata that the controller sent to each live broker
    lists the brokers that the controller considers live."""
    context = event.context
    if context is None or not history.is_loaded:
        return
    live = context.live_or_shutting_down_broker_ids
    for broker_id in live:
        receiver = (context.epoch, broker_id, context.live_broker_epochs[broker_id])
        sent = history.updated.get(receiver)
        if sent is not None and sent != live:
            yield (
                f"controller {event.controller} considers brokers {sorted(live)} live, but sent "
                f"broker {broker_id} UpdateMetadata with {sorted(sent)}"
            )


def offline_replicas_stay_offline(_: History, event: EventEnded) -> Iterator[str]:
    """The controller moves a replica from OfflineReplica to OnlineReplica only if its broker is
    alive and its log directory has not failed.

    The replicas of a new partition are online at first, even if their brokers are dead."""
    context = event.context
    if context is None:
        return
    for tp, broker_id in event.revived:
        is_dead = broker_id not in context.live_or_shutting_down_broker_ids
        if is_dead or tp in context.replicas_on_offline_dirs.get(broker_id, ()):
            why = "its broker is dead" if is_dead else "its log directory has failed"
            yield (
                f"{tp}: controller {event.controller} moved the offline replica on broker "
                f"{broker_id} to OnlineReplica, but {why}"
            )


def online_partitions_have_leaders(history: History, event: EventEnded) -> Iterator[str]:
    """No partition without a leader is online in the controller.

    A partition that has lost its leader is offline, so that it gets one later."""
    context = event.context
    if context is None or not history.leaderless:
        return
    for tp in sorted(history.leaderless):
        known = context.leaderships.get(tp)
        is_leaderless = known is not None and known.leader_and_isr.leader == NO_LEADER
        if is_leaderless and context.partition_state(tp) is PartitionState.ONLINE:
            yield (
                f"{tp}: controller {event.controller} considers the partition online, but it has "
                "no leader"
            )


def preferred_leaders_are_elected(history: History, event: EventEnded) -> Iterator[str]:
    """After a check for imbalances, every preferred leader that is alive and in sync leads, unless
    its partition is being reassigned or the imbalance is small.

    The partitions of a broker are left alone while others lead only a small share of them."""
    context = event.context
    if context is None or not event.event.startswith("AutoPreferredReplicaLeaderElection"):
        return
    preferred: Counter[int] = Counter()
    led_by_others: dict[int, list[TopicPartition]] = {}
    for tp, assignment in context.assignments.items():
        if tp.topic in context.topics_to_be_deleted or not assignment.replicas:
            continue
        broker_id = assignment.replicas[0]
        preferred[broker_id] += 1
        known = context.leaderships.get(tp)
        if known is not None and known.leader_and_isr.leader != broker_id:
            led_by_others.setdefault(broker_id, []).append(tp)
    for broker_id, tps in led_by_others.items():
        if len(tps) <= preferred[broker_id] * history.max_imbalance:
            continue
        for tp in tps:
            if _may_lead(context, broker_id, tp):
                leader = context.leaderships[tp].leader_and_isr.leader
                yield (
                    f"{tp}: controller {event.controller} left broker {leader} as leader, although "
                    f"broker {broker_id} is preferred, alive and in sync"
                )


def _may_lead(context: ControllerContext, broker_id: int, tp: TopicPartition) -> bool:
    """Return True if a broker could lead a partition that is not being reassigned."""
    failed = context.replicas_on_offline_dirs.get(broker_id, ())
    return (
        broker_id in context.leaderships[tp].leader_and_isr.isr
        and broker_id in context.live_broker_ids
        and tp not in failed
        and tp not in context.partitions_being_reassigned
    )
