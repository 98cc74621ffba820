"""Turns the journal of a cluster into a drill that repeats what happened to the cluster.

A journal contains what controllers observed: brokers that came and went, changes of the controller,
topics, partitions and reassignments. Each becomes a step, in the same order and at about the same
time. Records, pauses, disk faults, configs and requested elections are not repeated.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow, Kind
from klamm.lab.language.clusters import assignment_text
from klamm.statemachines.partition_state import PartitionState

_NOTICED_AFTER_MS: Final = 3_000
"""A controller notices that a broker died when its session expires: in a drill after this time."""
_MIN_WAIT_MS: Final = 10
_SHUTDOWN: Final = re.compile(r"\AControlledShutdown\(([0-9]{1,10}),")
_LAST_ROWS: Final = (Kind.CONTROLLER_RESIGNED, Kind.CONTROLLER_MOVED)
_PLAIN: Final = re.compile(r"(?!(?:true|false|null)$)[A-Za-z_][\w.-]*")
_HAS_CONTROLLER: Final = "exists: [/controller]"


class _Step(NamedTuple):
    """A step, the time of its action, and the time at which its conditions hold.

    If another action comes before that time, the drill does not wait for the conditions."""

    begin_ms: int
    end_ms: int
    action: str
    until: tuple[str, ...] = ()


def drill_from_journal(rows: Sequence[JournalRow], name: str) -> str:
    """Return the text of a drill that repeats the last run in a journal.

    Topics that exist before anything else happens become topics of the drill's cluster. Raises
    UsageError if no row was written by a controller.
    """
    rows = [row for row in rows if row.run_id == rows[-1].run_id]
    recorder = _Recorder(rows)
    if not recorder.brokers:
        raise UsageError(
            "the journal has no rows of a controller",
            hint="its cluster never had a controller",
        )
    for row in rows:
        recorder.take(row)
    return "".join(f"{line}\n" for line in recorder.lines(name))


class _Recorder:
    """Collects the cluster and the steps of a drill from journal rows.

    ``_replicas``: the result of ``_first_replicas``. ``_creations``: how often each topic has been
    created so far. ``_down``: brokers that are not running. ``_leaving``: brokers in a controlled
    shutdown. ``_request`` and ``_entries``: the event of the last reassignment, and its partitions.
    """

    def __init__(self, rows: Sequence[JournalRow]) -> None:
        self.brokers = sorted(_brokers(rows))
        self._replicas = _first_replicas(rows)
        self._ended = {(row.controller, row.epoch) for row in rows if row.kind in _LAST_ROWS}
        self._creations: Counter[str] = Counter()
        self._initial: dict[str, list[list[int]]] = {}
        self._steps: list[_Step] = []
        self._down: set[int] = set()
        self._leaving: set[int] = set()
        self._alive_ms: dict[int, int] = {}
        self._deleting: set[str] = set()
        self._controller: tuple[int, int] | None = None
        self._request: tuple[int, int, int] | None = None
        self._entries: list[str] = []

    def take(self, row: JournalRow) -> None:
        """Add the step, if any, whose effect this row shows."""
        detail, topic = row.detail or "", row.topic or ""
        if row.kind == Kind.TOPIC_CREATED:
            self._creations[topic] += 1
        match row.kind:
            case Kind.CONTROLLER_ELECTED:
                self._take_election(row)
            case Kind.EVENT:
                self._leaving.update(map(int, _SHUTDOWN.findall(detail)))
            case Kind.BROKER_OFFLINE if row.replica not in self._down:
                self._take_end(row.t_ms, row.replica)
            case Kind.BROKER_ONLINE if row.replica in self._down:
                self._down.remove(row.replica)
                self._alive_ms[row.replica] = row.t_ms
                self._add(row.t_ms, f"start: {row.replica}", f"exists: /brokers/ids/{row.replica}")
            case Kind.PARTITION_SNAPSHOT | Kind.TOPIC_CREATED if not self._steps:
                if topic not in self._initial:
                    self._initial[topic] = self._assignment(topic)
            case Kind.TOPIC_CREATED:
                if topic in self._deleting:
                    self._deleting.remove(topic)
                    self._add(row.t_ms, f"until: {{deleted: {_scalar(topic)}}}")
                replicas = assignment_text(self._assignment(topic))
                words = f"--create --topic {topic} --replica-assignment {replicas}"
                self._add(row.t_ms, f"run: topics --zookeeper {{zk}} {words}")
            case Kind.TOPIC_DELETION_STARTED if topic not in self._deleting:
                self._deleting.add(topic)
                self._add(row.t_ms, f"run: topics --zookeeper {{zk}} --delete --topic {topic}")
            case Kind.REASSIGNMENT_PHASE if row.to == "U1":
                self._take_reassignment(row)

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of the drill."""
        yield f"drill: {name}"
        yield "about: What a journal recorded."
        yield "cluster:"
        yield f"  brokers: {self.brokers}"
        if self._initial:
            yield "  topics:"
            for topic, assignment in self._initial.items():
                yield f"    {_scalar(topic)}: {assignment}"
        yield "steps:"
        steps = sorted(self._steps, key=lambda step: step.begin_ms)
        at_ms = steps[0].begin_ms if steps else 0
        for step, following in itertools.zip_longest(steps, steps[1:]):
            if step.begin_ms - at_ms >= _MIN_WAIT_MS:
                yield f"  - wait: {step.begin_ms - at_ms}ms"
            yield f"  - {step.action}"
            at_ms = step.begin_ms
            if step.until and (following is None or step.end_ms <= following.begin_ms):
                at_ms = max(at_ms, step.end_ms)
                yield f"    until: {{{', '.join(step.until)}}}"
        if not self._steps:
            yield "  - wait: 1s"
        yield "eventually: {healthy: true}"

    def _take_end(self, t_ms: int, broker: int, *until: str) -> None:
        """Add the shutdown or death of a broker, which the controller noticed at ``t_ms``."""
        self._down.add(broker)
        until = (f"unregistered: {broker}", *until)
        if broker in self._leaving:
            self._leaving.remove(broker)
            self._add(t_ms, f"stop: {broker}", *until)
        else:
            # It cannot have died before it started or acted.
            died_ms = max(t_ms - _NOTICED_AFTER_MS, self._alive_ms.get(broker, 0))
            self._steps.append(_Step(died_ms, t_ms, f"kill: {broker}", until))

    def _take_election(self, row: JournalRow) -> None:
        """Add the end of the previous controller. It died if it did not write that it ended."""
        previous, self._controller = self._controller, (row.controller, row.epoch)
        if previous is None or previous[0] in self._down:
            return
        if previous in self._ended or previous[0] == row.controller:
            self._add(row.t_ms, "move_controller:", _HAS_CONTROLLER)
        else:
            self._take_end(row.t_ms, previous[0], _HAS_CONTROLLER)

    def _take_reassignment(self, row: JournalRow) -> None:
        """Add the reassignment of a partition, to the step of the request that names it."""
        partition, _, target = str(row.reassignment_id).rpartition("->")
        entry = f"{partition}: [{target.replace(',', ', ')}]"
        request = (row.controller, row.epoch, row.event_id)
        if not row.event_id or request != self._request:
            self._request, self._entries = request, [entry]
            self._add(row.t_ms, f"reassign: {{{entry}}}")
            return
        self._entries.append(entry)
        lines = ("reassign:", *self._entries)
        self._steps[-1] = self._steps[-1]._replace(action="\n      ".join(lines))

    def _add(self, t_ms: int, action: str, *until: str) -> None:
        self._steps.append(_Step(t_ms, t_ms, action, until))

    def _assignment(self, topic: str) -> list[list[int]]:
        replicas = self._replicas[topic, self._creations[topic]]
        return [replicas[partition] for partition in sorted(replicas)]


def _scalar(topic: str) -> str:
    """Return a topic's name in YAML, quoted if it could be read as another value."""
    return topic if _PLAIN.fullmatch(topic) else f'"{topic}"'


def _brokers(rows: Iterable[JournalRow]) -> set[int]:
    """Return the ids of all brokers that the rows of controllers name."""
    named = (
        (row.controller, row.replica, row.leader, *(row.isr or ()))
        for row in rows
        if row.controller >= 0
    )
    return {id_ for ids in named for id_ in ids if id_ is not None and id_ >= 0}


def _first_replicas(
    rows: Iterable[JournalRow],
) -> defaultdict[tuple[str, int], dict[int, list[int]]]:
    """Return the first replicas of each partition, the preferred leader first.

    They are keyed by topic and by how often it had been created, then by partition: a topic that
    was deleted may have been created again elsewhere. The replicas are known from the rows about
    each of them, their order from the first ISR. After the start of a reassignment, rows may be
    about replicas that were added later.
    """
    found: defaultdict[tuple[str, int], dict[int, list[int]]] = defaultdict(dict)
    creations: Counter[str] = Counter()
    moved: set[tuple[str, int, int]] = set()
    for row in rows:
        topic, partition = row.topic, row.partition
        if topic is None:
            continue
        if row.kind == Kind.TOPIC_CREATED:
            creations[topic] += 1
        # A refused reassignment may be of a partition that does not exist.
        if partition < 0 or row.kind == Kind.REASSIGNMENT_FAILED:
            continue
        number = creations[topic]
        of_topic = found[topic, number]
        is_first = partition not in of_topic or row.from_ == PartitionState.NEW.value
        replicas = of_topic.setdefault(partition, [])
        if row.kind == Kind.REASSIGNMENT_PHASE:
            moved.add((topic, number, partition))
        if (topic, number, partition) in moved:
            continue
        if is_first and row.isr:
            replicas[:] = [*row.isr, *(one for one in replicas if one not in row.isr)]
        elif row.replica >= 0 and row.replica not in replicas:
            replicas.append(row.replica)
    return found
