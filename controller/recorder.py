"""Writes the journal rows of one controller.

The recorder converts reports from the state machines and event handlers to rows, and appends the
rows to the journal in batches. Only the active controller writes rows; other candidates do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.cluster.protocols import Clock, Journal
from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.controller.config import ControllerConfig
from klamm.controller.event_manager import EventManager, QueuedEvent
from klamm.statemachines.context import ControllerContext, ReplicasByBroker
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import PartitionChange
from klamm.statemachines.reassignment import EpochBump, Phase, reassignment_id, target_text
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import IsrRemoved, ReplicaMoves

IsrChange = tuple[TopicPartition, LeaderIsrAndControllerEpoch, LeaderIsrAndControllerEpoch | None]
"""An ISR change: the partition, and its leader and ISR after and before the change."""

_Key = tuple[int, int]
_NEVER: _Key = (0, 0)
# Small batches stay in the processor's cache while they are written: appending all rows of a large
# event at once made the event 10 % slower.
_ROWS_AT_ONCE = 1_000


Args = ParamSpec("Args")


def _appends(
    rows: Callable[Concatenate[JournalRecorder, Args], Iterator[JournalRow]],
) -> Callable[Concatenate[JournalRecorder, Args], None]:
    """Decorator for methods of JournalRecorder that appends the yielded rows to the journal."""

    @wraps(rows)
    def append(self: JournalRecorder, /, *args: Args.args, **kwargs: Args.kwargs) -> None:
        self._append(rows(self, *args, **kwargs))

    return append


class JournalRecorder:
    """Writes the journal rows of one controller.

    Each row has the id of the event being processed, and the id of the event that caused it.
    ``cluster_id`` is None until the broker has read it from ZooKeeper.
    """

    def __init__(
        self, config: ControllerConfig, clock: Clock, journal: Journal, events: EventManager
    ) -> None:
        self._events = events
        self.cluster_id = config.cluster_id
        self._config = config
        self._clock = clock
        self._journal = journal
        self._epoch = 0
        self._seq = 0
        # (since_ms, key_seq) of partitions and, by broker id, of replicas. Keys of one report share
        # a tuple to save memory: there are hundreds of thousands.
        self._partitions: dict[TopicPartition, _Key] = {}
        self._replicas: dict[int, dict[TopicPartition, _Key]] = {}

    @property
    def event_id(self) -> int:
        """Id of the event being processed."""
        return self._current_event().event_id

    def begin_epoch(self, epoch: int) -> None:
        """Start writing rows, each of which includes the controller epoch ``epoch``."""
        self._epoch = epoch
        self._seq = 0
        self._partitions.clear()
        self._replicas.clear()

    def end_epoch(self) -> None:
        """Stop writing rows until the next epoch begins."""
        self.begin_epoch(0)

    def flush(self) -> None:
        """Flush the appended rows to the operating system."""
        self._journal.flush()

    def occurrence(self, kind: Kind, **fields: Any) -> None:
        """Append a row about an occurrence that is not a state change of a partition or replica."""
        if self._epoch:
            self._append([self._row(kind, self._clock.now_ms(), **fields)])

    @_appends
    def partition_snapshots(self, context: ControllerContext) -> Iterator[JournalRow]:
        """Append a row with the loaded state of every partition, at the start of an epoch."""
        now_ms = self._clock.now_ms()
        first: _Key = (now_ms, 1)
        for tp, state in context.partition_states.items():
            self._partitions[tp] = first
            row = self._row(Kind.PARTITION_SNAPSHOT, now_ms, tp, to=state._value_, key_seq=1)
            leadership = context.leaderships.get(tp)
            if leadership is not None:
                _set_state(row, leadership.leader_and_isr)
            yield row

    def replicas_initialized(self, replicas: ReplicasByBroker) -> None:
        """Record the current time as the time when ``replicas`` entered their initial state.

        No rows are appended; the time becomes ``since_ms`` in the rows about later state changes.
        """
        first: _Key = (self._clock.now_ms(), 0)
        for broker_id, tps in replicas.items():
            self._replicas.setdefault(broker_id, {}).update(dict.fromkeys(tps, first))

    @_appends
    def partition_changes(self, changes: Iterable[PartitionChange]) -> Iterator[JournalRow]:
        """Append a row for each partition that changed its state or, while Online, its leader."""
        now_ms = self._clock.now_ms()
        keys = self._partitions
        after: dict[int, _Key] = {}
        for change in changes:
            tp = change.topic_partition
            since_ms, key_seq = keys.get(tp, _NEVER)
            key_seq += 1
            keys[tp] = after.get(key_seq) or after.setdefault(key_seq, (now_ms, key_seq))
            row = self._row(
                Kind.PARTITION_TRANSITION,
                now_ms,
                tp,
                from_=change.from_state._value_,
                to=change.to_state._value_,
                since_ms=since_ms,
                key_seq=key_seq,
                election=None if change.election is None else str(change.election),
            )
            if change.leadership is not None:
                _set_leadership(row, change.leadership, change.previous_leadership)
            yield row

    def partition_failures(
        self,
        failures: Mapping[TopicPartition, StateChangeFailed],
        context: ControllerContext,
        to: str,
        election: str | None,
    ) -> None:
        """Append a row for each partition whose state change failed, with the reason."""
        states, fields = context.partition_state, {"to": to, "election": election}
        self._failures(Kind.PARTITION_FAILED, self._partitions, failures, states, fields)

    @_appends
    def replica_changes(
        self, replica_id: int, changes: Iterable[ReplicaMoves]
    ) -> Iterator[JournalRow]:
        """Append a row for each replica on broker ``replica_id`` that was moved to a state.

        A row is also appended if the replica was already in that state.
        """
        config, cluster_id = self._config, self.cluster_id
        event, epoch = self._current_event(), self._epoch
        event_id, cause_id = event.event_id, event.cause_id
        now_ms, seq = self._clock.now_ms(), self._seq
        keys = self._replicas.setdefault(replica_id, {})
        after: dict[int, _Key] = {}
        kind = Kind.REPLICA_TRANSITION.value
        for moves in changes:
            from_, to = moves.from_state._value_, moves.to_state._value_
            # Hot loop: a failover runs it once for every replica of the cluster.
            for tp in moves.partitions:
                since_ms, key_seq = keys.get(tp, _NEVER)
                key_seq += 1
                seq += 1
                keys[tp] = after.get(key_seq) or after.setdefault(key_seq, (now_ms, key_seq))
                yield JournalRow(
                    v=SCHEMA_VERSION,
                    run_id=config.run_id,
                    t_ms=now_ms,
                    seq=seq,
                    controller=config.broker_id,
                    epoch=epoch,
                    kind=kind,
                    cluster_id=cluster_id,
                    event_id=event_id,
                    cause_id=cause_id,
                    topic=tp[0],
                    partition=tp[1],
                    replica=replica_id,
                    from_=from_,
                    to=to,
                    since_ms=since_ms,
                    key_seq=key_seq,
                )
        self._seq = seq

    def replica_failures(
        self,
        replica_id: int,
        failures: Mapping[TopicPartition, StateChangeFailed],
        context: ControllerContext,
        to: str,
    ) -> None:
        """Append a row with the reason for each replica that could not be moved to state ``to``."""
        keys = self._replicas.setdefault(replica_id, {})
        states = partial(context.replica_state, replica_id)
        fields = {"to": to, "replica": replica_id}
        self._failures(Kind.REPLICA_FAILED, keys, failures, states, fields)

    @_appends
    def _failures(
        self,
        kind: Kind,
        keys: dict[TopicPartition, _Key],
        failures: Mapping[TopicPartition, StateChangeFailed],
        state_of: Callable[[TopicPartition], PartitionState | ReplicaState],
        fields: Mapping[str, Any],
    ) -> Iterator[JournalRow]:
        now_ms = self._clock.now_ms()
        for tp, failure in failures.items():
            since_ms, key_seq = _next_key(keys, tp)
            yield self._row(
                kind,
                now_ms,
                tp,
                from_=state_of(tp)._value_,
                since_ms=since_ms,
                key_seq=key_seq,
                outcome=failure.reason,
                **fields,
            )

    @_appends
    def isr_removals(self, replica_id: int, removals: Iterable[IsrRemoved]) -> Iterator[JournalRow]:
        """Append a row for each ISR from which the offline replica on this broker was removed.

        A row is also appended if the replica was already missing from the ISR.
        """
        now_ms = self._clock.now_ms()
        keys = self._replicas.setdefault(replica_id, {})
        for removal in removals:
            tp = removal.topic_partition
            key_seq = _next_key(keys, tp)[1]
            row = self._row(Kind.ISR_REMOVED, now_ms, tp, replica=replica_id, key_seq=key_seq)
            _set_leadership(row, removal.leadership, removal.previous_leadership)
            yield row

    @_appends
    def isrs_changed(self, changes: Iterable[IsrChange]) -> Iterator[JournalRow]:
        """Append a row for each ISR change made by a leader."""
        for tp, leadership, previous in changes:
            row = self._partition_row(Kind.ISR_CHANGED, tp)
            _set_leadership(row, leadership, previous)
            yield row

    @_appends
    def leader_epochs_bumped(self, bumps: Iterable[EpochBump]) -> Iterator[JournalRow]:
        """Append a row for each leader epoch increment, with the partition's assignment."""
        for bump in bumps:
            row = self._partition_row(Kind.LEADER_EPOCH_BUMPED, bump.topic_partition)
            _set_leadership(row, bump.leadership, bump.previous_leadership)
            row.reassignment_id = reassignment_id(bump.topic_partition, bump.assignment)
            row.detail = str(bump.assignment)
            yield row

    @_appends
    def reassignment_phase(
        self, phase: Phase, assignments: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Iterator[JournalRow]:
        """Append a row for each reassignment that reached ``phase``, with its assignment."""
        now_ms, to = self._clock.now_ms(), phase.value
        # Thousands of partitions share few distinct assignments.
        texts: dict[ReplicaAssignment, tuple[str, str]] = {}
        for tp, assignment in assignments.items():
            text = texts.get(assignment)
            if text is None:
                text = texts[assignment] = (target_text(assignment), str(assignment))
            yield self._row(
                Kind.REASSIGNMENT_PHASE,
                now_ms,
                tp,
                to=to,
                key_seq=_next_key(self._partitions, tp)[1],
                reassignment_id=f"{tp[0]}-{tp[1]}->{text[0]}",
                detail=text[1],
            )

    def alter_isr_refused(self, tp: TopicPartition, proposed: LeaderAndIsr, error: str) -> None:
        """Append a row for an ISR that a leader proposed and the controller rejected."""
        row = self._partition_row(Kind.ALTER_ISR_REFUSED, tp)
        _set_state(row, proposed)
        row.outcome = error
        self._append([row])

    def _partition_row(self, kind: Kind, tp: TopicPartition) -> JournalRow:
        key_seq = _next_key(self._partitions, tp)[1]
        return self._row(kind, self._clock.now_ms(), tp, key_seq=key_seq)

    def _current_event(self) -> QueuedEvent:
        event = self._events.current
        assert event is not None, "a journal row was written while no event was being processed"
        # explain and replay follow the causes from any row back to an event from outside.
        assert 0 < event.cause_id < event.event_id or (
            not event.cause_id and event.event.may_come_from_outside
        ), f"{event.event} was enqueued without its cause"
        return event

    def _row(
        self, kind: Kind, now_ms: int, tp: TopicPartition | None = None, **fields: Any
    ) -> JournalRow:
        if tp is not None:
            fields["topic"], fields["partition"] = tp
        self._seq += 1
        event = self._current_event()
        return JournalRow(
            v=SCHEMA_VERSION,
            run_id=self._config.run_id,
            t_ms=now_ms,
            seq=self._seq,
            controller=self._config.broker_id,
            epoch=self._epoch,
            kind=kind.value,
            cluster_id=self.cluster_id,
            event_id=event.event_id,
            cause_id=event.cause_id,
            **fields,
        )

    def _append(self, rows: Iterable[JournalRow]) -> None:
        following = iter(rows)
        while batch := list(islice(following, _ROWS_AT_ONCE)):
            self._journal.append(batch)


def _next_key(keys: dict[TopicPartition, _Key], tp: TopicPartition) -> _Key:
    since_ms, key_seq = keys.get(tp, _NEVER)
    key = keys[tp] = (since_ms, key_seq + 1)
    return key


def _set_state(row: JournalRow, state: LeaderAndIsr) -> None:
    row.leader, row.leader_epoch = state.leader, state.leader_epoch
    row.isr, row.zk_version = state.isr, state.zk_version


def _set_leadership(
    row: JournalRow,
    leadership: LeaderIsrAndControllerEpoch,
    previous: LeaderIsrAndControllerEpoch | None,
) -> None:
    _set_state(row, leadership.leader_and_isr)
    if previous is not None and previous is not leadership:
        row.prev_leader = previous.leader_and_isr.leader
        row.prev_isr = previous.leader_and_isr.isr
