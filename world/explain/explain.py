"""Explanations of a partition's state and of an event's effects, from the rows of a journal.

Uses nothing but these rows: a broker counts as dead if a row records its failure, or if the
controller moved its replica to OfflineReplica or ReplicaDeletionIneligible. linked_events.py links
events to their causes, rows.py interprets individual rows, and cli/explain.py formats the result.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from klamm.cluster.counting import are, brokers_text, listed, parse_whole_number
from klamm.cluster.errors import NotFound
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import TopicPartition
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.explain.linked_events import (
    EventKey,
    LinkedEvent,
    LinkedEvents,
    Rows,
    key_of,
)
from klamm.world.explain.rows import PartitionStatus, only_controller, partition_status

Chosen = Callable[[Sequence[Sequence[JournalRow]]], int | None]
"""Function that selects a change: gets the rows of each change, returns an index or None."""
_NOT_ALIVE: Final = frozenset({ReplicaState.OFFLINE.value, ReplicaState.DELETION_INELIGIBLE.value})
_DONE: Final = frozenset({Phase.B6, Phase.B7, Phase.B8})


class Explained(msgspec.Struct, frozen=True):
    """An explanation of a partition or of an event.

    Only for a partition: ``status`` is its state after the last of ``changes``. ``waits`` has one
    sentence for each thing that the partition waits for. ``logs`` are the rows about truncations
    and failures of the partition's logs, up to the last of ``changes``. ``is_of_earlier_run`` is
    True if the journal's last run does not contain the partition.

    Only for an event: ``others`` are earlier events with the same number.
    """

    subject: str
    status: PartitionStatus | None
    changes: tuple[LinkedEvent, ...]
    others: tuple[EventKey, ...] = ()
    waits: tuple[str, ...] = ()
    logs: tuple[JournalRow, ...] = ()
    is_of_earlier_run: bool = False


def explain_partition(
    rows: Rows,
    partition: TopicPartition,
    chosen: Chosen | None = None,
    show_all: bool = False,
) -> Explained:
    """Explain a partition's state by its last change, or by all changes if ``show_all``.

    If ``chosen`` is given, the change that it selects counts as the last change. Raises NotFound if
    the journal does not contain the partition, or if ``chosen`` selects no change.
    """
    found = LinkedEvents(rows, lambda row: row.topic in (None, partition.topic))
    known = found.groups()
    groups = [group for group in known if any(_concerns(partition, r) for r in group)]
    own = [[r for r in group if _concerns(partition, r)] for group in groups]
    if not any(r.partition == partition.partition for group in own for r in group):
        raise _unknown(rows, partition)
    is_of_earlier_run = chosen is None and _has_later_run(own[-1][-1].run_id, known)
    if chosen is not None:
        last = chosen(own)
        if last is None:
            raise NotFound(
                f"the journal has no change to {partition} that matches --at",
                hint=f"klamm explain {partition} --all lists all changes",
            )
        del own[last + 1 :]
        known = known[: known.index(groups[last]) + 1]
    logs = found.logs_of(partition)
    if chosen is not None:
        logs = [row for row in logs if row.t_ms <= own[-1][-1].t_ms]
    status = partition_status(itertools.chain.from_iterable(own))
    picked = range(len(own)) if show_all else [_last_change(own)]
    changes = tuple(found.change(groups[n], own[n]) for n in picked)
    waits = _waits_of(itertools.chain.from_iterable(known), partition)
    return Explained(
        str(partition),
        status,
        changes,
        waits=waits,
        logs=tuple(logs),
        is_of_earlier_run=is_of_earlier_run,
    )


def explain_event(rows: Rows, event_id: int, epoch: int | None = None) -> Explained:
    """Explain the effects of the last event with this number.

    If ``epoch`` is given, only events of that controller epoch count. Raises NotFound if the
    journal has no such event. 0 is the number in rows that belong to no event, and so of none.
    """
    found = LinkedEvents(
        rows,
        lambda row: (
            row.topic is None or row.event_id == event_id or row.kind == Kind.REASSIGNMENT_PHASE
        ),
    )
    groups = [
        group
        for group in found.groups()
        if 0 < group[0].event_id == event_id and epoch in (None, group[0].epoch)
    ]
    if not groups:
        where = "" if epoch is None else f" of controller epoch {epoch}"
        raise NotFound(
            f"the journal has no event {event_id}{where}", hint=found.range_of_events(epoch)
        )
    shown = groups[-1]
    others = tuple(key_of(group[0]) for group in groups[:-1])
    return Explained(f"event {event_id}", None, (found.change(shown, shown),), others)


def _has_later_run(run_id: str, groups: Iterable[Sequence[JournalRow]]) -> bool:
    """Return True if a controller was elected in a later run of klamm than ``run_id``.

    An elected controller writes a row for every partition, so a partition without a row did not
    exist in the later run.
    """
    elected = [group[0].run_id for group in groups if group[0].epoch]
    return bool(elected) and elected[-1] != run_id


def _last_change(own: Sequence[Sequence[JournalRow]]) -> int:
    """Return the index of the last event that changed the partition.

    Failovers that only read the partition are skipped. If no event changed it, the last index is
    returned.
    """
    for n in range(len(own) - 1, -1, -1):
        if any(_is_change(row) for row in own[n]):
            return n
    return len(own) - 1


def _concerns(partition: TopicPartition, row: JournalRow) -> bool:
    """Return True for a row about the partition, or about a halted deletion of its topic."""
    return row.topic == partition.topic and (
        row.partition == partition.partition or row.kind == Kind.TOPIC_DELETION_HALTED
    )


def _is_change(row: JournalRow) -> bool:
    if row.kind == Kind.PARTITION_SNAPSHOT:
        return False
    return not (row.kind == Kind.REPLICA_TRANSITION and row.from_ == row.to)


def _unknown(rows: Rows, partition: TopicPartition) -> NotFound:
    # A refused reassignment may name a partition that never existed.
    known = {
        TopicPartition(row.topic, row.partition)
        for row in rows()
        if row.topic is not None and row.partition >= 0 and row.kind != Kind.REASSIGNMENT_FAILED
    }
    of_topic = sorted(tp.partition for tp in known if tp.topic == partition.topic)
    if of_topic:
        hint = f"partitions of {partition.topic}: {of_topic[0]} to {of_topic[-1]}"
    elif near := difflib.get_close_matches(partition.topic, {tp.topic for tp in known}, n=3):
        hint = f"did you mean {' or '.join(f'{topic}-{partition.partition}' for topic in near)}?"
    else:
        topics = sorted({tp.topic for tp in known})
        hint = f"topics: {listed(topics, 5)}" if topics else "the journal has no partitions"
    return NotFound(f"the journal has no partition {partition}", hint=hint)


def _waits_of(rows: Iterable[JournalRow], partition: TopicPartition) -> tuple[str, ...]:
    """Describe pending work and what it waits for, in one sentence each.

    ``rows`` are the rows of the partition's topic and the rows without a topic, in the journal's
    order. The result is empty for an idle partition.
    """
    seen = _Seen(partition)
    for row in rows:
        seen.add(row)
    return tuple(text for text in (seen.deletion(), seen.reassignment(), seen.leader()) if text)


class _Seen:
    """State of a partition, its topic and the brokers, according to the rows added so far."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._dead: set[int] = set()
        self._stores_nothing: int | None = None
        self._replicas: dict[tuple[int, int], str] = {}
        self._state: str | None = None
        self._leader: int | None = None
        self._isr: tuple[int, ...] = ()
        self._snapshot: JournalRow | None = None
        self._deletion: JournalRow | None = None
        self._halted: JournalRow | None = None
        self._began: JournalRow | None = None
        self._phase: str | None = None

    def add(self, row: JournalRow) -> None:
        """Update the state with the next row of the journal."""
        match row.kind:
            case Kind.RUN_START:
                self._dead.clear()
                self._stores_nothing = only_controller(row)
            case Kind.BROKER_OFFLINE:
                self._dead.add(row.replica)
            case Kind.BROKER_ONLINE:
                self._dead.discard(row.replica)
            case Kind.CONTROLLER_ELECTED:
                self._replicas.clear()
            case Kind.TOPIC_DELETION_STARTED:
                self._deletion = self._deletion or row
            case Kind.TOPIC_DELETION_HALTED:
                self._deletion, self._halted = self._deletion or row, row
            case Kind.TOPIC_DELETED | Kind.TOPIC_CREATED:
                self._deletion = self._halted = self._began = None
            case Kind.REPLICA_TRANSITION if row.to is not None:
                self._replicas[row.partition, row.replica] = row.to
        if (row.topic, row.partition) == self._partition:
            self._add_own(row)

    def _add_own(self, row: JournalRow) -> None:
        if row.kind == Kind.PARTITION_SNAPSHOT:
            self._snapshot = row
        if row.kind in (Kind.PARTITION_SNAPSHOT, Kind.PARTITION_TRANSITION):
            self._state = row.to
        if row.leader is not None and row.isr is not None and row.kind != Kind.ALTER_ISR_REFUSED:
            self._leader, self._isr = row.leader, row.isr
        if row.kind == Kind.REASSIGNMENT_PHASE:
            same = self._began is not None and self._began.reassignment_id == row.reassignment_id
            self._began = None if row.to in _DONE else self._began if same else row
            self._phase = row.to

    def deletion(self) -> str | None:
        """Describe the deletion of the topic and what it waits for.

        Returns None if the topic is not being deleted.
        """
        row = self._deletion
        if row is None:
            return None
        what = f"the deletion of topic {row.topic}"
        waits_for = [id_ for (_, id_), state in self._replicas.items() if state in _NOT_ALIVE]
        if self._began is not None:
            return f"{what} waits until the topic's reassignment completes"
        if not waits_for:
            return f"{what} is under way"
        reason = "" if self._halted is None else f", halted: {self._halted.outcome}"
        return f"{what} waits for {_brokers(waits_for)}{reason}{self._resumed(row)}"

    def reassignment(self) -> str | None:
        """Describe the reassignment and the brokers that must catch up.

        Returns None if the partition is not being reassigned.
        """
        row = self._began
        if row is None:
            return None
        _, _, targets = str(row.reassignment_id).rpartition("->")
        ids = map(parse_whole_number, targets.split(","))
        missing = [id_ for id_ in ids if id_ is not None and id_ not in self._isr]
        what = f"the reassignment {row.reassignment_id}"
        if not missing:
            return f"{what} is in phase {self._phase}{self._resumed(row)}"
        dead = [id_ for id_ in missing if id_ in self._dead or self._is_offline(id_)]
        because = f"; {_brokers(dead)} {are(dead)} not alive" if dead else ""
        return (
            f"{what} waits in phase {self._phase} for {_brokers(missing)} to join the ISR{because}"
            f"{self._resumed(row)}"
        )

    def leader(self) -> str | None:
        """Describe why there is no leader and which brokers may become leader.

        Returns None if the partition has a leader.
        """
        if self._state != PartitionState.OFFLINE.value or self._leader is None or self._leader >= 0:
            return None
        if self._deletion is not None:
            return (
                "the partition has no leader; the topic is queued for deletion, so none is elected"
            )
        if self._isr == (self._stores_nothing,):
            return (
                "the partition has no leader, because its ISR is only broker "
                f"{self._stores_nothing}, klamm's controller, which stores nothing; reassign it to "
                "other brokers, and elect a leader there with kafka-leader-election "
                "--election-type UNCLEAN"
            )
        isr = _brokers(self._isr)
        return f"the partition has no leader until a broker in its ISR is live again: {isr}"

    def _resumed(self, row: JournalRow) -> str:
        """Describe the controller that resumed the deletion or reassignment when it was elected.

        The text is empty if no controller resumed it.
        """
        resumed = self._snapshot
        if resumed is None:
            return ""
        is_older = resumed.run_id != row.run_id or row.epoch < resumed.epoch
        if not is_older and (row.epoch, row.event_id) != (resumed.epoch, resumed.event_id):
            return ""
        return (
            f"; controller {resumed.controller}, elected with epoch {resumed.epoch}, resumed it"
            " and initialized the states of the partition and its replicas from ZooKeeper and the"
            " live brokers"
        )

    def _is_offline(self, broker_id: int) -> bool:
        return self._replicas.get((self._partition.partition, broker_id)) in _NOT_ALIVE


def _brokers(ids: Sequence[int]) -> str:
    return brokers_text(sorted(set(ids)))
