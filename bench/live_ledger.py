"""Compares acknowledged with consumed records: pure, without a connection.

A record is identified by partition, leader epoch and offset, as in the API, and by its value if
logs keep records.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MAX_TOLD = 5


class Stretch(NamedTuple):
    """Offsets ``start`` to ``end`` (exclusive) of one leader epoch."""

    partition: int
    epoch: int
    start: int
    end: int


@dataclass
class Produced:
    """The records of one producer and their outcome, from its last status.

    ``values``: values that were certainly sent; ``maybe``: values of requests without an answer.
    Both are empty for in-memory (offset-only) logs.
    """

    name: str
    acknowledged: list[Stretch] = field(default_factory=list)
    sent: int = 0
    failed: int = 0
    in_doubt: int = 0
    undecided: int = 0
    values: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)

    def take(self, status: Mapping[str, Any]) -> None:
        """Update from an answer of the API."""
        self.acknowledged = [
            Stretch(one["partition"], one["leader_epoch"], one["start"], one["end"])
            for one in status["offsets"]
        ]
        self.sent, self.failed = status["sent"], status["failed"]
        self.in_doubt, self.undecided = status["in_doubt"], status["undecided"]

    def on_kill(self, handed_over: int) -> None:
        """Mark all undecided records as in doubt: they may be stored or not."""
        self.undecided = handed_over - self.acknowledged_count - self.failed - self.in_doubt

    def may_have_sent(self, value: str) -> bool:
        """Whether a value is one of this producer's."""
        return value in self.values or value in self.maybe

    @property
    def acknowledged_count(self) -> int:
        """How many records were acknowledged."""
        return sum(one.end - one.start for one in self.acknowledged)


@dataclass
class Consumed:
    """The records that one consumer read from offset 0 on, by partition, in order."""

    stretches: dict[int, list[Stretch]] = field(default_factory=lambda: defaultdict(list))
    values: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    faults: list[str] = field(default_factory=list)
    high_watermarks: dict[int, int] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def take(self, answer: Mapping[str, Any]) -> int:
        """Add the answer of a poll; return the number of records."""
        count = 0
        for one in answer["counted"]:
            stretch = Stretch(one["partition"], one["leader_epoch"], one["start"], one["end"])
            self._add(stretch)
            count += stretch.end - stretch.start
        for one in answer["records"]:
            self._add(
                Stretch(one["partition"], one["leader_epoch"], one["offset"], one["offset"] + 1)
            )
            self.values[one["partition"]].append(one["value"])
            count += 1
        self.faults += [f"reading stopped: {text}" for text in answer["errors"]]
        self.faults += [f"a truncation below what was read: {x}" for x in answer["truncations"]]
        self.high_watermarks = {int(p): at for p, at in answer["high_watermarks"].items()}
        self.positions = {int(p): at for p, at in answer["positions"].items()}
        return count

    @property
    def count(self) -> int:
        """How many records were read."""
        return sum(one.end - one.start for found in self.stretches.values() for one in found)

    def is_at_the_end(self, partitions: Iterable[int]) -> bool:
        """Whether every partition is read up to its high watermark."""
        return all(
            p in self.high_watermarks and self.positions.get(p) == self.high_watermarks[p]
            for p in partitions
        )

    def _add(self, stretch: Stretch) -> None:
        known = self.stretches[stretch.partition]
        last = known[-1] if known else None
        if last is None or last.end == stretch.start:
            if last is not None and stretch.epoch < last.epoch:
                self.faults.append(f"the leader epoch went back: {last} and then {stretch}")
        elif stretch.start < last.end:
            self.faults.append(f"read twice: {last} and then {stretch}")
        else:
            self.faults.append(f"a hole between {last} and {stretch}")
        if last is not None and last.end == stretch.start and last.epoch == stretch.epoch:
            known[-1] = last._replace(end=stretch.end)
        else:
            known.append(stretch)


def compare(topic: str, produced: Iterable[Produced], consumed: Consumed) -> list[str]:
    """Check that every acknowledged record of a topic was read exactly once; return faults."""
    producers = list(produced)
    wrong = [f"{topic}: {fault}" for fault in consumed.faults[:MAX_TOLD]]
    promised: dict[int, list[Stretch]] = defaultdict(list)
    for producer in producers:
        for stretch in producer.acknowledged:
            promised[stretch.partition].append(stretch)
    for partition, stretches in sorted(promised.items()):
        stretches.sort(key=lambda one: one.start)
        for one, other in itertools.pairwise(stretches):
            if other.start < one.end:
                wrong.append(f"{topic}: offsets acknowledged twice: {one} and {other}")
        lost = _lost(stretches, consumed.stretches.get(partition, []))
        if lost:
            count = sum(one.end - one.start for one in lost)
            wrong.append(f"{topic}: {count} acknowledged records lost: {lost[:MAX_TOLD]}")
    acknowledged = sum(one.acknowledged_count for one in producers)
    in_doubt = sum(one.in_doubt + one.undecided for one in producers)
    if consumed.count > acknowledged + in_doubt:
        more = consumed.count - acknowledged
        wrong.append(f"{topic}: {more} records more than acknowledged, {in_doubt} were in doubt")
    return [*wrong, *_compare_values(topic, producers, consumed)]


def _lost(promised: list[Stretch], read: list[Stretch]) -> list[Stretch]:
    """Return the acknowledged stretches that were not read in their leader epoch."""
    by_epoch: dict[int, list[Stretch]] = defaultdict(list)
    for one in sorted(read, key=lambda one: one.start):
        by_epoch[one.epoch].append(one)
    lost = []
    for want in promised:
        at = want.start
        for have in by_epoch.get(want.epoch, []):
            if have.end <= at or have.start >= want.end:
                continue
            if have.start > at:
                lost.append(want._replace(start=at, end=have.start))
            at = max(at, have.end)
        if at < want.end:
            lost.append(want._replace(start=at))
    return lost


def _compare_values(topic: str, producers: list[Produced], consumed: Consumed) -> list[str]:
    """Check values ``NAME:NUMBER``: no duplicate, unknown or missing one, all in order."""
    wrong: list[str] = []
    by_name = {producer.name: producer for producer in producers}
    seen: set[str] = set()
    for partition, values in sorted(consumed.values.items()):
        last: dict[str, int] = {}
        for value in values:
            name, _, number = value.rpartition(":")
            producer = by_name.get(name)
            if producer is None or not producer.may_have_sent(value):
                wrong.append(f"{topic}-{partition}: a value that nobody sent: {value!r}")
                continue
            if value in seen:
                wrong.append(f"{topic}-{partition}: {value} is there twice")
            elif int(number) < last.get(name, -1):
                wrong.append(f"{topic}-{partition}: {value} stands behind {name}:{last[name]}")
            seen.add(value)
            last[name] = max(int(number), last.get(name, -1))
    for producer in producers:
        missing = producer.values - seen
        excused = producer.failed + producer.in_doubt + producer.undecided
        if len(missing) > excused:
            some = sorted(missing)[:MAX_TOLD]
            wrong.append(f"{topic}: {len(missing)} values missing, {excused} excused: {some}")
    return wrong[: 4 * MAX_TOLD]
