"""Why something in a journal happened: the answer about a partition, and about an event.

Reads rows and nothing else: a broker counts as dead if the journal says so, or if the controller
took its replica for offline. How events led to each other is in linked_events.py, what a single row
means in rows.py; how an answer is shown is the command line's.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from klamm.cli.explanations.linked_events import (
    Change,
    EventKey,
    Lines,
    LinkedEvents,
    key_of,
    read_rows,
)
from klamm.cli.explanations.rows import Standing, standing
from klamm.cluster.errors import UnknownTopicOrPartition, UsageError
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import TopicPartition
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState

Chosen = Callable[[Sequence[Sequence[JournalRow]]], int | None]
"""Picks one of a partition's changes, given the rows of each; None if there is no such one."""
_NOT_ALIVE: Final = frozenset({ReplicaState.OFFLINE.value, ReplicaState.DELETION_INELIGIBLE.value})
_DONE: Final = frozenset({Phase.B6, Phase.B7, Phase.B8})


class Explained(msgspec.Struct, frozen=True):
    """The answer: for a partition also where it stands after the last of ``changes``, and in
    ``waits`` what it waits for, a sentence each, in ``logs`` what befell its logs until then,
    a row each."""

    subject: str
    standing: Standing | None
    changes: tuple[Change, ...]
    others: tuple[EventKey, ...] = ()
    waits: tuple[str, ...] = ()
    logs: tuple[JournalRow, ...] = ()


def explain_partition(
    lines: Lines,
    partition: TopicPartition,
    chosen: Chosen | None = None,
    show_all: bool = False,
) -> Explained:
    """Why a partition is as it is: its last change, or all of them.

    With ``chosen`` the change that it picks is explained, those before it with ``show_all``, and
    where the partition stood after it. Raises UnknownTopicOrPartition if the journal does not know
    the partition, UsageError if nothing is picked.
    """
    wanted = f'"topic":"{partition.topic}"'.encode()
    found = LinkedEvents(lines, lambda line: b'"topic":' not in line or wanted in line)
    known = found.groups()
    groups = [group for group in known if any(_tells_of(partition, r) for r in group)]
    own = [[r for r in group if _tells_of(partition, r)] for group in groups]
    if not any(r.partition == partition.partition for rows in own for r in rows):
        raise _unknown(lines, partition)
    if chosen is not None:
        last = chosen(own)
        if last is None:
            raise UsageError(
                f"the journal has no such change of {partition}",
                hint=f"klamm explain {partition} --all lists them",
            )
        del own[last + 1 :]
        known = known[: known.index(groups[last]) + 1]
    logs = found.logs_of(partition)
    if chosen is not None:
        logs = [row for row in logs if row.t_ms <= own[-1][-1].t_ms]
    stands = standing(row for rows in own for row in rows)
    picked = range(len(own)) if show_all else [_last_change(own)]
    changes = tuple(found.change(groups[n], own[n]) for n in picked)
    waits = _waits_of(itertools.chain.from_iterable(known), partition)
    return Explained(str(partition), stands, changes, waits=waits, logs=tuple(logs))


def explain_event(lines: Lines, event_id: int, epoch: int | None = None) -> Explained:
    """What an event did: the last one of this number, in the controller epoch if one is given.

    Raises UsageError if the journal has none.
    """
    number = f'"event_id":{event_id}'.encode()
    ends = (number + b",", number + b"}")
    found = LinkedEvents(
        lines,
        lambda line: (
            b'"topic":' not in line
            or any(end in line for end in ends)
            or b'"reassignment_phase"' in line
        ),
    )
    groups = [
        group
        for group in found.groups()
        if group[0].event_id == event_id and epoch in (None, group[0].epoch)
    ]
    if not groups:
        where = "" if epoch is None else f" of controller epoch {epoch}"
        raise UsageError(
            f"the journal has no event {event_id}{where}", hint=found.range_of_events(epoch)
        )
    shown = groups[-1]
    others = tuple(key_of(group[0]) for group in groups[:-1])
    return Explained(f"event {event_id}", None, (found.change(shown, shown),), others)


def _last_change(own: Sequence[Sequence[JournalRow]]) -> int:
    """The last event that changed more than nothing: not a failover's reading alone."""
    for n in range(len(own) - 1, -1, -1):
        if any(_is_change(row) for row in own[n]):
            return n
    return len(own) - 1


def _tells_of(partition: TopicPartition, row: JournalRow) -> bool:
    """True for the partition's own rows, and for those that say why its topic is still there."""
    return row.topic == partition.topic and (
        row.partition == partition.partition or row.kind == Kind.TOPIC_DELETION_HALTED
    )


def _is_change(row: JournalRow) -> bool:
    if row.kind == Kind.PARTITION_SNAPSHOT:
        return False
    return not (row.kind == Kind.REPLICA_TRANSITION and row.from_ == row.to)


def _unknown(lines: Lines, partition: TopicPartition) -> UnknownTopicOrPartition:
    known = {
        TopicPartition(row.topic, row.partition)
        for row in read_rows(lines, lambda line: b'"topic":' in line and b'"partition":' in line)
        if row.topic is not None
    }
    of_topic = sorted(tp.partition for tp in known if tp.topic == partition.topic)
    if of_topic:
        hint = f"of {partition.topic} it has partitions {of_topic[0]} to {of_topic[-1]}"
    elif near := difflib.get_close_matches(partition.topic, {tp.topic for tp in known}, n=3):
        hint = f"did you mean {' or '.join(f'{topic}-{partition.partition}' for topic in near)}?"
    else:
        topics = sorted({tp.topic for tp in known})
        more = f" and {len(topics) - 5} more" if len(topics) > 5 else ""
        hint = f"its topics: {', '.join(topics[:5])}{more}" if topics else "it has no partitions"
    return UnknownTopicOrPartition(f"the journal has no partition {partition}", hint=hint)


def _waits_of(rows: Iterable[JournalRow], partition: TopicPartition) -> tuple[str, ...]:
    """A sentence for each thing that is under way or waited for; none for a partition at rest.

    ``rows`` are those of the partition's topic and those of no topic, in the journal's order.
    """
    seen = _Seen(partition)
    for row in rows:
        seen.add(row)
    return tuple(text for text in (seen.deletion(), seen.reassignment(), seen.leader()) if text)


class _Seen:
    """What rows said last."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._dead: set[int] = set()
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
        """One more row."""
        match row.kind:
            case Kind.RUN_START:
                self._dead.clear()
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
        """That the topic is being deleted, and what that waits for."""
        row = self._deletion
        if row is None:
            return None
        what = f"the deletion of topic {row.topic}"
        waits_for = [id_ for (_, id_), state in self._replicas.items() if state in _NOT_ALIVE]
        if self._began is not None:
            return f"{what} waits until the topic's reassignment is over"
        if not waits_for:
            return f"{what} is under way"
        reason = "" if self._halted is None else f", halted: {self._halted.outcome}"
        return f"{what} waits for {_brokers(waits_for)}{reason}{self._taken_up(row)}"

    def reassignment(self) -> str | None:
        """That the partition is being reassigned, and whose catching up is waited for."""
        row = self._began
        if row is None:
            return None
        _, _, targets = str(row.reassignment_id).rpartition("->")
        missing = [int(id_) for id_ in targets.split(",") if id_ and int(id_) not in self._isr]
        what = f"the reassignment {row.reassignment_id}"
        if not missing:
            return f"{what} is in phase {self._phase}{self._taken_up(row)}"
        dead = [id_ for id_ in missing if id_ in self._dead or self._is_offline(id_)]
        because = f"; {_brokers(dead)} {_are(dead)} not alive" if dead else ""
        return (
            f"{what} waits in phase {self._phase} for {_brokers(missing)} to join the ISR{because}"
            f"{self._taken_up(row)}"
        )

    def leader(self) -> str | None:
        """That the partition has no leader, and which replicas may become it."""
        if self._state != PartitionState.OFFLINE.value or self._leader is None or self._leader >= 0:
            return None
        if self._deletion is not None:
            return "it has no leader, and a topic that is to be deleted gets none"
        return f"it has no leader until one of its ISR is back: {_brokers(self._isr)}"

    def _taken_up(self, row: JournalRow) -> str:
        """Says so if a controller found the work at its election."""
        taker = self._snapshot
        if taker is None:
            return ""
        is_older = taker.run_id != row.run_id or row.epoch < taker.epoch
        if not is_older and (row.epoch, row.event_id) != (taker.epoch, taker.event_id):
            return ""
        return (
            f"; controller {taker.controller} took it up at its election, epoch {taker.epoch}, and"
            " gave partition and replicas the states that follow from ZooKeeper and the live"
            " brokers"
        )

    def _is_offline(self, broker_id: int) -> bool:
        return self._replicas.get((self._partition.partition, broker_id)) in _NOT_ALIVE


def _brokers(ids: Sequence[int]) -> str:
    different = sorted(set(ids))
    return f"broker{'s' if len(different) > 1 else ''} {','.join(map(str, different))}"


def _are(ids: Sequence[int]) -> str:
    return "are" if len(ids) > 1 else "is"
