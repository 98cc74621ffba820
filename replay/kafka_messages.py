"""How messages of Kafka's logs become facts: patterns whose groups are named after a fact's fields.

A log's own file lists its messages, each by its beginning, the kind of event and its patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.replay.event_schema import STATE_CODES
from klamm.replay.kafka_lines import Fact, assignment, ids
from klamm.statemachines.reassignment import reassignment_id

Trace = Sequence[str]
"""The lines of the exception that follows a message."""
Facts = list[Fact]
Value = str | Callable[[Trace], str | None]
_VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "partition": int,
    "replica": int,
    "leader": int,
    "leader_epoch": int,
    "zk_version": int,
    "isr": ids,
}
_STATES: Final = frozenset({None, *STATE_CODES})
_begin = re.compile(r"(?:\(\?P<\w+>)?([\w ]*)").match
_ASSIGNMENT: Final = ("replicas", "adding", "removing", "targets")


class Message(NamedTuple):
    """A kind of message: how it may begin, and what reads it, or finds that it is another."""

    begins: tuple[str, ...]
    read: Callable[[str, Trace], Facts | None]


class Pattern:
    """A regular expression, and the fields of a fact that its groups become."""

    def __init__(self, pattern: str) -> None:
        compiled = re.compile(pattern, re.DOTALL)
        self.match, self.find = compiled.fullmatch, compiled.finditer
        self._fields = [
            (place, name, _VALUES.get(name, str))
            for name, place in compiled.groupindex.items()
            if name not in _ASSIGNMENT
        ]
        self._has_state = "to_state" in compiled.groupindex
        self._has_targets = "targets" in compiled.groupindex

    def fact(self, kind: str, found: re.Match[str], **fields: Any) -> Fact | None:
        """A fact with the fields that groups say, else those given; None for a state that Kafka has
        not. Groups of an assignment name a reassignment."""
        for place, name, how in self._fields:
            if (text := found[place]) is not None:
                fields[name] = how(text)
        if self._has_state and not {fields.get("from_state"), fields["to_state"]} <= _STATES:
            return None
        if self._has_targets:
            tp = TopicPartition(fields["topic"], fields["partition"])
            fields["reassignment"] = reassignment_id(tp, wanted(found.groupdict()))
        return Fact(kind, **fields)


def wanted(groups: Mapping[str, str | None]) -> ReplicaAssignment:
    """The assignment by the groups of ASSIGNMENT, or by ``targets``, the replicas it leads to."""
    replicas, adding, removing, targets = (groups.get(name) or "" for name in _ASSIGNMENT)
    return assignment(replicas or targets, adding, removing)


def one(kind: str, *patterns: str, **more: Value) -> Message:
    """A message that one of some patterns matches, as one fact.

    ``more``: fields that no group says, maybe by the exception behind the message.
    """
    compiled, kind = list(map(Pattern, patterns)), str(kind)

    def read(text: str, trace: Trace) -> Facts | None:
        for pattern in compiled:
            if found := pattern.match(text):
                said = {name: how(trace) if callable(how) else how for name, how in more.items()}
                fact = pattern.fact(kind, found, **said)
                return None if fact is None else [fact]
        return None

    return Message(_begins(*patterns), read)


def each(kind: str, whole: str, part: str, **more: str) -> Message:
    """A message as a fact for each ``part`` of the group ``all`` of ``whole``, whose other
    groups are said of each."""
    match, parts, kind = re.compile(whole, re.DOTALL).fullmatch, Pattern(part), str(kind)

    def read(text: str, _: Trace) -> Facts | None:
        found = match(text)
        if found is None:
            return None
        said = {**more, **found.groupdict()}
        listed = said.pop("all")
        facts = (parts.fact(kind, at, **said) for at in parts.find(listed))
        return [fact for fact in facts if fact is not None]

    return Message(_begins(whole), read)


def _begins(*patterns: str) -> tuple[str, ...]:
    """The literal text at the start of each pattern, which is enough to skip most messages."""
    return tuple(found[1] for pattern in patterns if (found := _begin(pattern)))


def facts_of(messages: Iterable[Message], text: str, trace: Trace) -> Facts | None:
    """What a message says by the first of ``messages`` that can read it; None if none can."""
    for begins, read in messages:
        if text.startswith(begins) and (facts := read(text, trace)) is not None:
            return facts
    return None
