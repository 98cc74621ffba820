"""What a partition waits for: the deletion of its topic, its reassignment, a leader.

Works on rows alone, as rows.py does: a broker counts as dead if the journal says so, or
if the controller took its replica for offline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cluster.journal import JournalRow, Kind
from cluster.types import TopicPartition
from statemachines.partition_state import PartitionState
from statemachines.reassignment import Phase
from statemachines.replica_state import ReplicaState

_NOT_ALIVE: Final = frozenset({ReplicaState.OFFLINE.value, ReplicaState.DELETION_INELIGIBLE.value})
_DONE: Final = frozenset({Phase.B6, Phase.B7, Phase.B8})


def waits_of(rows: Iterable[JournalRow], partition: TopicPartition) -> tuple[str, ...]:
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
