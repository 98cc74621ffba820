"""Controller events of a journal, linked to their causes.

An event is linked to the event that caused it, the request that triggered it, or the event that
began the reassignment or deletion that it continues. Links are taken only from the rows, never
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import TopicPartition
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.explain.rows import (
    ZNodeWrite,
    event_meaning,
    event_name,
    failed_dir_text,
    only_controller,
    rules_of,
    trigger_of,
    znodes_of,
)
from klamm.world.explain.rules import Rule

Rows = Callable[[], Iterable[JournalRow]]
"""Function that returns the rows of the journal; each call begins at the first row."""
_DELETION_STATES: Final = frozenset(
    state.value
    for state in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.DELETION_INELIGIBLE,
    )
)
_REQUEST_BEHIND: Final[dict[str, str]] = {
    Kind.TOPIC_CREATED: "CreateTopicsReceived",
    Kind.TOPIC_DELETION_STARTED: "DeleteTopicsReceived",
}
_REQUESTS: Final = frozenset(_REQUEST_BEHIND.values())
_LOGS: Final = frozenset({Kind.LOG_TRUNCATED, Kind.LOG_REPAIRED, Kind.CORRUPT_BATCH})
_DIR_NOTIFICATION: Final = "LogDirEventNotification"
_MESSAGES: Final = frozenset({Kind.REQUEST_SENT, Kind.RESPONSE_RECEIVED})


class EventKey(NamedTuple):
    """Identity of a controller event.

    ``event_id`` is unique only together with the other fields.
    """

    run_id: str
    controller: int
    epoch: int
    event_id: int


class Cause(msgspec.Struct, frozen=True):
    """One link in a chain of causes.

    ``relation``: how this link is related to the previous one, e.g. "caused by". ``event_id`` is 0
    if the cause is not a controller event. ``t_ms`` is None if the journal has no row about the
    cause.
    """

    relation: str
    text: str
    event_id: int = 0
    t_ms: int | None = None


class ExplainedRow(msgspec.Struct, frozen=True):
    """One row of an event, with the rules applied and the ZooKeeper writes derived from the row."""

    row: JournalRow
    rules: tuple[Rule, ...]
    znodes: tuple[ZNodeWrite, ...]


class LinkedEvent(msgspec.Struct, frozen=True):
    """Effects of one event, on one partition or on all partitions.

    ``steps`` are the event's rows without control requests and responses. ``requests`` is None if
    the run's journal does not record requests. ``followed`` are the events that this event caused.
    ``is_of_controller_run``: a `klamm controller run` wrote the rows.
    """

    key: EventKey
    name: str
    t_ms: int
    causes: tuple[Cause, ...]
    steps: tuple[ExplainedRow, ...]
    requests: tuple[JournalRow, ...] | None
    followed: tuple[Cause, ...]
    is_of_controller_run: bool


class LinkedEvents:
    """Rows of a journal, grouped by event, with the links between events.

    Only the rows for which ``wanted`` returns True are used.
    """

    def __init__(self, rows: Rows, wanted: Callable[[JournalRow], bool]) -> None:
        self.by_event: dict[EventKey, list[JournalRow]] = {}
        self.begun: dict[tuple[str, str], list[EventKey]] = {}
        self.ended: dict[tuple[str, str], list[EventKey]] = {}
        self._place: dict[EventKey, int] = {}
        self.with_messages: set[str] = set()
        self._controller_runs: set[str] = set()
        self._logs: list[JournalRow] = []
        self._failed_dirs: dict[EventKey, list[JournalRow]] = {}
        self._unlinked_dirs: list[JournalRow] = []
        for row in filter(wanted, rows()):
            if row.kind in _LOGS:
                self._logs.append(row)
            elif row.kind == Kind.LOG_DIR_FAILED:
                self._unlinked_dirs.append(row)
            else:
                self._add(row)
        self.caused: dict[EventKey, list[EventKey]] = {}
        for key, group in self.by_event.items():
            if group[0].cause_id:
                cause = key._replace(event_id=group[0].cause_id)
                self.caused.setdefault(cause, []).append(key)

    def _add(self, row: JournalRow) -> None:
        key = key_of(row)
        self.by_event.setdefault(key, []).append(row)
        self._place.setdefault(key, len(self._place))
        if row.kind == Kind.EVENT and event_name(row) in _REQUESTS:
            for topic in (row.detail or "").partition("(")[2].rstrip(")").split(","):
                self._begin(key, _asked(event_name(row), topic))
        elif row.kind == Kind.TOPIC_DELETION_STARTED or self._is_halted_at_once(row):
            self._begin(key, _deletion(row.topic))
        elif row.kind == Kind.TOPIC_DELETED:
            self.ended.setdefault((row.run_id, _deletion(row.topic)), []).append(key)
        elif row.kind == Kind.REASSIGNMENT_PHASE and row.to == Phase.U1:
            self._begin(key, _work_of(row))
        self._link_failed_dirs(key, row)
        if row.kind == Kind.REQUEST_SENT:
            self.with_messages.add(row.run_id)
        if only_controller(row) is not None:
            self._controller_runs.add(row.run_id)

    def _link_failed_dirs(self, key: EventKey, row: JournalRow) -> None:
        """Link failed log directories to the event in which the controller detects the failures.

        The event is a LogDirEventNotification. If the broker halted because it had no log directory
        left, it is the event in which the controller detects the failed broker.
        """
        match row.kind:
            case Kind.EVENT if event_name(row) == _DIR_NOTIFICATION:
                linked = self._unlinked_dirs
            case Kind.BROKER_OFFLINE:
                linked = [one for one in self._unlinked_dirs if one.replica == row.replica]
            case _:
                return
        self._failed_dirs.setdefault(key, []).extend(linked)
        self._unlinked_dirs = [one for one in self._unlinked_dirs if one not in linked]

    def _begin(self, key: EventKey, work: str) -> None:
        begun = self.begun.setdefault((key.run_id, work), [])
        if key not in begun[-1:]:
            begun.append(key)

    def _is_halted_at_once(self, row: JournalRow) -> bool:
        """Return True if a row halts the deletion of a topic and no row records its start."""
        if row.kind != Kind.TOPIC_DELETION_HALTED:
            return False
        work = (row.run_id, _deletion(row.topic))
        begun, ended = self.begun.get(work, []), self.ended.get(work, [])
        return not begun or bool(ended and self._place[ended[-1]] >= self._place[begun[-1]])

    def logs_of(self, partition: TopicPartition) -> list[JournalRow]:
        """Return the rows about a partition's logs, in time order.

        These rows belong to no controller event. The result includes the failure of a log
        directory if it took a replica of the partition offline.
        """
        mine = [row for row in self._logs if (row.topic, row.partition) == partition]
        for key, failed in self._failed_dirs.items():
            events = (key, *self.caused.get(key, ()))
            lost = {
                row.replica
                for event in events
                for row in self.by_event[event]
                if (row.topic, row.partition) == partition and _goes_offline(row)
            }
            mine += [row for row in failed if row.replica in lost]
        return sorted(mine, key=lambda row: row.t_ms)

    def groups(self) -> list[list[JournalRow]]:
        """Return the rows of each event, in the order in which the events began."""
        return list(self.by_event.values())

    def range_of_events(self, epoch: int | None) -> str:
        """Return a hint that names the first and the last event.

        If ``epoch`` is given, only events of that controller epoch count; if there are none, the
        hint names the epochs.
        """
        ids = sorted(
            key.event_id for key in self.by_event if key.event_id and epoch in (None, key.epoch)
        )
        epochs = sorted({key.epoch for key in self.by_event if key.event_id})
        if not epochs:
            return "no events are recorded"
        if not ids:
            return f"controller epochs recorded: {epochs[0]} to {epochs[-1]}"
        return f"events recorded: {ids[0]} to {ids[-1]}"

    def change(self, group: Sequence[JournalRow], rows: Sequence[JournalRow]) -> LinkedEvent:
        """Return the effects of an event.

        ``group``: all rows of the event. ``rows``: the rows to explain, e.g. those about one
        partition.
        """
        key = key_of(group[0])
        requests = [row for row in group if row.kind == Kind.REQUEST_SENT]
        steps = [
            ExplainedRow(row, rules_of(row), znodes_of(row))
            for row in rows
            if row.kind not in _MESSAGES and row.kind != Kind.EVENT
        ]
        return LinkedEvent(
            key,
            self._name(key),
            group[0].t_ms,
            tuple(self._causes(key, rows)),
            tuple(steps),
            tuple(requests) if key.run_id in self.with_messages else None,
            tuple(self._link("then", other) for other in self.caused.get(key, ())),
            key.run_id in self._controller_runs,
        )

    def _causes(self, key: EventKey, rows: Sequence[JournalRow]) -> Iterator[Cause]:
        """Yield the chain of causes, from the event itself back to the earliest known cause.

        After each event come the failures or changes that the controller detected in that event.
        """
        relation = "done by"
        while True:
            yield self._link(relation, key)
            for row in self.by_event.get(key, ()):
                text = trigger_of(row)
                if text is not None:
                    yield Cause("because", text, 0, row.t_ms)
            for row in self._failed_dirs.get(key, ()):
                yield Cause("because", failed_dir_text(row), 0, row.t_ms)
            before = self._before(key, rows)
            if before is None:
                return
            relation, key = before
            rows = self.by_event.get(key, ())

    def _before(self, key: EventKey, rows: Sequence[JournalRow]) -> tuple[str, EventKey] | None:
        """Return the relation to the event that led to ``key``, and that event's key.

        Returns None if no such event is known. The returned event always began earlier than
        ``key``, so a chain of causes is finite.
        """
        for row in rows:
            begun = self._begun_before(key, _work_of(row))
            if begun is not None:
                return f"continues {_work_of(row)} begun by", begun
        for row in self.by_event.get(key, ()):
            asked = _REQUEST_BEHIND.get(row.kind)
            begun = None if asked is None else self._begun_before(key, _asked(asked, row.topic))
            if begun is not None:
                return "requested by", begun
        cause_id = next((row.cause_id for row in self.by_event.get(key, ()) if row.cause_id), 0)
        cause = key._replace(event_id=cause_id)
        return ("caused by", cause) if 0 < cause_id < key.event_id else None

    def _begun_before(self, key: EventKey, work: str) -> EventKey | None:
        """Return the last event before ``key`` that began ``work``, e.g. the deletion of a topic.

        Returns None if there is no such event, or if the work ended before ``key``.
        """
        place = self._place.get(key, 0)
        begun = self.begun.get((key.run_id, work), ())
        earlier = [other for other in begun if self._place[other] < place]
        if not earlier:
            return None
        began = self._place[earlier[-1]]
        ended = self.ended.get((key.run_id, work), ())
        return None if any(began <= self._place[end] < place for end in ended) else earlier[-1]

    def _link(self, relation: str, key: EventKey) -> Cause:
        rows = self.by_event.get(key, ())
        event = next((row for row in rows if row.kind == Kind.EVENT), None)
        meaning = None if event is None else event_meaning(event_name(event))
        text = self._name(key) if meaning is None else f"{self._name(key)}: {meaning}"
        return Cause(relation, text, key.event_id, rows[0].t_ms if rows else None)

    def _name(self, key: EventKey) -> str:
        rows = self.by_event.get(key, ())
        named = next((row.detail for row in rows if row.kind == Kind.EVENT), None)
        if named:
            return named
        if any(row.kind == Kind.CONTROLLER_ELECTED for row in rows):
            return "election"
        answers = [row for row in rows if row.kind == Kind.RESPONSE_RECEIVED]
        if answers:
            return f"response of broker {answers[0].replica} to {answers[0].detail}"
        return "response of a broker" if rows else "an event without rows in this journal"


def key_of(row: JournalRow) -> EventKey:
    """Return the key of a row's event."""
    return EventKey(row.run_id, row.controller, row.epoch, row.event_id)


def _work_of(row: JournalRow) -> str:
    """Return the name of the reassignment or deletion that a row belongs to, or ""."""
    if row.reassignment_id is not None:
        return f"the reassignment {row.reassignment_id}"
    is_part = row.kind == Kind.TOPIC_DELETION_HALTED or (
        row.kind == Kind.REPLICA_TRANSITION and str(row.to) in _DELETION_STATES
    )
    return _deletion(row.topic) if is_part else ""


def _goes_offline(row: JournalRow) -> bool:
    is_change = row.kind == Kind.REPLICA_TRANSITION and row.from_ != row.to
    return is_change and row.to == ReplicaState.OFFLINE.value


def _deletion(topic: str | None) -> str:
    return f"the deletion of topic {topic}"


def _asked(event: str, topic: str | None) -> str:
    return f"{event} of topic {topic}"
