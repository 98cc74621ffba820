"""Invariants of the znodes that controllers write: elections, ISRs, assignments, deletions.

Each function gets a write and the history before it, and yields a line for each violation. Writes
by tools and tests are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.lab.checks.observations import (
    NO_NODE,
    Committed,
    History,
    State,
    StateWritten,
    TopicWritten,
)

_CONTROLLERS_OWN: Final = (
    "/brokers/topics/",
    "/admin/delete_topics/",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
)


def isr_is_not_empty(_: History, event: StateWritten) -> Iterator[str]:
    """No ISR is ever empty.

    The last replica in an ISR never leaves it."""
    if event.after is not None and not event.after.isr:
        yield f"{event.partition}: the ISR is empty: {_text(event.after)}"


def leader_is_in_isr(_: History, event: StateWritten) -> Iterator[str]:
    """The leader of a partition is in its ISR."""
    after = event.after
    if after is not None and after.leader != NO_LEADER and after.leader not in after.isr:
        yield f"{event.partition}: the leader is not in the ISR: {_text(after)}"


def isr_grows_by_assigned_replicas(history: History, event: StateWritten) -> Iterator[str]:
    """A broker that joins an ISR is among the replicas in the topic znode."""
    topic = history.topics.get(event.partition.topic)
    if topic is None or event.after is None:
        return
    assigned = topic.replicas.get(event.partition.partition, ())
    strangers = [r for r in _joined(event) if r not in assigned]
    if strangers:
        yield (
            f"{event.partition}: brokers {strangers} joined the ISR, but the replicas are "
            f"{assigned}"
        )


def leader_epoch_rises_by_one(_: History, event: StateWritten) -> Iterator[str]:
    """A write keeps the leader epoch of a partition or increments it by one."""
    before, after = event.before, event.after
    if before is None or after is None:
        return
    if after.leader_epoch not in (before.leader_epoch, before.leader_epoch + 1):
        yield f"{event.partition}: {_text(before)} was followed by {_text(after)}"


def leader_change_raises_epoch(_: History, event: StateWritten) -> Iterator[str]:
    """Every change of leader increases the leader epoch.

    A change to no leader counts, too."""
    before, after = event.before, event.after
    if before is None or after is None or before.leader == after.leader:
        return
    if after.leader_epoch <= before.leader_epoch:
        yield f"{event.partition}: {_text(before)} was followed by {_text(after)}"


def epoch_has_one_leader(history: History, event: StateWritten) -> Iterator[str]:
    """Each leader epoch of a partition has one leader."""
    after = event.after
    if after is None or after.leader == NO_LEADER:
        return
    leader = history.leaders.get((event.partition, after.leader_epoch), after.leader)
    if leader != after.leader:
        yield (
            f"{event.partition}: leader epoch {after.leader_epoch} now has leader {after.leader}, "
            f"but had leader {leader} before"
        )


def elections_are_clean(history: History, event: StateWritten) -> Iterator[str]:
    """A new leader comes from the ISR, unless an unclean election was requested or is enabled."""
    before, after = event.before, event.after
    if before is None or after is None or after.leader in (NO_LEADER, before.leader):
        return
    if after.leader not in before.isr and not history.may_be_unclean(event.partition):
        yield (
            f"{event.partition}: broker {after.leader} was elected, but the ISR was "
            f"{list(before.isr)}"
        )


def elections_do_not_grow_the_isr(history: History, event: StateWritten) -> Iterator[str]:
    """A write that increases the leader epoch adds no broker to the ISR, unless an unclean election
    was requested or is enabled."""
    before, after = event.before, event.after
    if before is None or after is None or after.leader_epoch == before.leader_epoch:
        return
    if _joined(event) and not history.may_be_unclean(event.partition):
        yield f"{event.partition}: {_text(before)} was followed by {_text(after)}"


def states_have_the_current_epoch(history: History, event: StateWritten) -> Iterator[str]:
    """A controller writes partition states only while its epoch is in /controller_epoch."""
    after = event.after
    if after is None or event.writer == NO_NODE or _is_leaders_own(history, event):
        return
    if after.controller_epoch != history.epoch:
        yield (
            f"{event.partition}: written by a controller with epoch {after.controller_epoch}, but "
            f"/controller_epoch is {history.epoch}"
        )


def only_the_elected_write(history: History, event: Committed) -> Iterator[str]:
    """Only the most recently elected controller writes the znodes of topics and admin requests."""
    if event.session == history.elected_session or event.epoch_after != event.epoch_before:
        return
    for path in event.paths:
        if not path.startswith(_CONTROLLERS_OWN):
            continue
        if history.leaders_write_isrs and path.endswith("/state"):
            continue
        elected = history.elected.get(history.epoch)
        yield f"{path} was changed by broker {event.writer}, but the controller is {elected}"


def election_is_one_transaction(_: History, event: Committed) -> Iterator[str]:
    """A transaction creates /controller if and only if it increments the controller epoch."""
    rises = event.epoch_after != event.epoch_before
    if rises != event.creates_controller:
        created = "and created" if event.creates_controller else "but did not create"
        yield (
            f"broker {event.writer} changed /controller_epoch from {event.epoch_before} to "
            f"{event.epoch_after}, {created} /controller"
        )


def controller_epoch_rises_by_one(_: History, event: Committed) -> Iterator[str]:
    """Every controller election increments the controller epoch by one."""
    if event.epoch_after not in (event.epoch_before, event.epoch_before + 1):
        yield f"the controller epoch went from {event.epoch_before} to {event.epoch_after}"


def isr_grows_by_live_brokers(history: History, event: StateWritten) -> Iterator[str]:
    """A broker that the controller knows to be dead does not join an ISR."""
    alive = history.alive
    dead = [] if alive is None else [r for r in _joined(event) if r not in alive]
    if dead and not _is_leaders_own(history, event):
        yield (
            f"{event.partition}: brokers {dead} joined the ISR, but the controller knows that they "
            "died"
        )


def shut_down_brokers_stay_out(history: History, event: StateWritten) -> Iterator[str]:
    """A broker whose controlled shutdown was granted joins no ISR until it registers again. ISRs
    that leaders write to ZooKeeper themselves (inter.broker.protocol.version below 2.7) are exempt.

    Leaders that write ISRs themselves do not know which brokers are shutting down."""
    if _is_leaders_own(history, event):
        return
    for replica in _joined(event):
        ended = history.shut_down.get(replica)
        if ended == (history.epoch, history.registered.get(replica)):
            yield (
                f"{event.partition}: broker {replica} joined the ISR after its controlled shutdown"
            )


def topic_id_is_kept(_: History, event: TopicWritten) -> Iterator[str]:
    """The controller never changes the id of a topic."""
    before, after = event.before, event.after
    if before is None or after is None or before.topic_id is None or event.writer == NO_NODE:
        return
    if after.topic_id != before.topic_id:
        yield f"topic {event.topic}: topic id changed from {before.topic_id} to {after.topic_id}"


def partitions_are_kept(history: History, event: TopicWritten) -> Iterator[str]:
    """A topic that is not being deleted keeps all partitions, each with at least one replica.

    In a topic that is not being deleted, each partition has at least one replica and lists no
    replica twice. A partition without a state znode may be lost: Kafka's controller overwrites a
    topic znode without checking its version, and so can undo a tool's simultaneous addition of the
    partition."""
    before, after = event.before, event.after
    if after is None or event.writer == NO_NODE or event.topic in history.deleting:
        return
    for number in () if before is None else before.replicas:
        is_served = TopicPartition(event.topic, number) in history.states
        if number not in after.replicas and is_served:
            yield f"topic {event.topic}: partition {number} was removed"
    for number, replicas in after.replicas.items():
        if not replicas or len(set(replicas)) < len(replicas):
            yield f"{event.topic}-{number}: replicas {list(replicas)} are empty or have duplicates"


def moving_replicas_are_replicas(_: History, event: TopicWritten) -> Iterator[str]:
    """The replicas that a reassignment adds or removes are among the partition's replicas."""
    after = event.after
    if after is None or event.writer == NO_NODE:
        return
    for what, moving in (("adding", after.adding), ("removing", after.removing)):
        for number, replicas in moving.items():
            others = [r for r in replicas if r not in after.replicas.get(number, ())]
            if others:
                yield (
                    f"{event.topic}-{number}: the {what} replicas {others} are not among the "
                    "replicas of the partition"
                )


def reassignments_end_in_sync(history: History, event: TopicWritten) -> Iterator[str]:
    """A reassignment ends with all target replicas in sync, or with the original replicas.

    A cancelled reassignment restores the original replicas."""
    before, after = event.before, event.after
    if before is None or after is None or event.writer == NO_NODE:
        return
    for number, replicas in after.replicas.items():
        if number not in before.replicas or not before.is_reassigning(number):
            continue
        if after.is_reassigning(number):
            continue
        origin, target = before.origin(number), before.target(number)
        if sorted(replicas) not in (sorted(origin), sorted(target)):
            yield (
                f"{event.topic}-{number}: the reassignment ended with replicas {replicas}, but the "
                f"target is {target}"
            )
        state = history.states.get(TopicPartition(event.topic, number))
        isr = () if state is None else state.isr
        if replicas == target and replicas != origin and not set(target) <= set(isr):
            yield (
                f"{event.topic}-{number}: the reassignment ended with ISR {list(isr)}, but the "
                f"target is {target}"
            )


def replicas_change_by_reassignment(history: History, event: TopicWritten) -> Iterator[str]:
    """The controller changes a partition's replicas only in a reassignment.

    It may restore replicas that a tool has changed."""
    before, after = event.before, event.after
    if before is None or after is None or event.writer == NO_NODE:
        return
    for number, replicas in after.replicas.items():
        if number not in before.replicas:
            continue
        is_reassigned = before.is_reassigning(number) or after.is_reassigning(number)
        is_restored = replicas in history.edited.get(TopicPartition(event.topic, number), ())
        if (
            not is_reassigned
            and not is_restored
            and sorted(replicas) != sorted(before.replicas[number])
        ):
            yield (
                f"{event.topic}-{number}: replicas changed from {before.replicas[number]} "
                f"to {replicas} without a reassignment"
            )


def deletion_waits_for_replicas(history: History, event: TopicWritten) -> Iterator[str]:
    """A topic znode is deleted only after every broker has deleted its replicas of the topic.

    A partition that was added during the deletion has no state yet, and therefore no replicas."""
    before = event.before
    if before is None or event.after is not None or event.writer == NO_NODE:
        return
    for number, replicas in before.replicas.items():
        tp = TopicPartition(event.topic, number)
        if tp not in history.served:
            continue
        left = [r for r in replicas if r not in history.deleted_replicas.get(tp, ())]
        if left:
            yield f"topic {event.topic} was deleted, but brokers {left} still have {tp}"


def deletion_waits_for_reassignments(_: History, event: TopicWritten) -> Iterator[str]:
    """No topic is deleted while one of its partitions is being reassigned."""
    before = event.before
    if before is None or event.after is not None or event.writer == NO_NODE:
        return
    moving = [number for number in before.replicas if before.is_reassigning(number)]
    if moving:
        yield f"topic {event.topic} was deleted while partitions {moving} were being reassigned"


def _joined(event: StateWritten) -> list[int]:
    if event.before is None or event.after is None:
        return []
    return [r for r in event.after.isr if r not in event.before.isr]


def _is_leaders_own(history: History, event: StateWritten) -> bool:
    """Return True if the leader itself wrote this ISR (inter.broker.protocol.version below 2.7)."""
    before, after = event.before, event.after
    if before is None or after is None or not history.leaders_write_isrs:
        return False
    return event.writer == before.leader and after.leader_epoch == before.leader_epoch


def _text(state: State) -> str:
    return (
        f"leader {state.leader}, epoch {state.leader_epoch}, ISR {list(state.isr)}, "
        f"version {state.version}"
    )
