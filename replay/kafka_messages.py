"""Builds parsers for messages of Kafka's logs from regular expressions.

A parser turns a message into Facts (events); groups of its pattern are named after the fields of
Fact. The messages are listed in kafka_state_changes.py and kafka_controller_lines.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.replay.event_schema import STATE_CODES
from klamm.replay.kafka_lines import Fact, assignment, ids, int32
from klamm.statemachines.reassignment import reassignment_id

Trace = Sequence[str]
"""The lines of the exception and stack trace that follow a message."""
Facts = list[Fact]
Value = str | Callable[[Trace], str | None]
_VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "partition": int32,
    "replica": int32,
    "leader": int32,
    "leader_epoch": int32,
    "zk_version": int32,
    "isr": ids,
}
_STATES: Final = frozenset({None, *STATE_CODES})
_begin = re.compile(r"(?:\(\?P<\w+>)?([\w ]*)").match
_ASSIGNMENT: Final = ("replicas", "adding", "removing", "targets")


class LogMessage(NamedTuple):
    """A kind of log message.

    ``begins``: possible beginnings of its text. ``read``: parser that takes the text and the stack
    trace; it returns None for messages of other kinds, and raises NumberTooLarge.
    """

    begins: tuple[str, ...]
    read: Callable[[str, Trace], Facts | None]


class Pattern:
    """A regular expression whose groups are named after the fields of ``Fact``."""

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
        """Build a fact from the groups of a match. ``fields``: defaults for groups without a value.

        If the pattern has a group ``targets``, the column ``reassignment`` is derived from the
        assignment. Returns None if the name of a state is unknown.
        """
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
    """Return the assignment that a message contains.

    ``groups``: matched groups of the message's pattern. They are either the groups of ASSIGNMENT
    or, if the message has only the target replicas, ``targets``.
    """
    replicas, adding, removing, targets = (groups.get(name) or "" for name in _ASSIGNMENT)
    return assignment(replicas or targets, adding, removing)


def one(kind: str, *patterns: str, **more: Value) -> LogMessage:
    """Define a kind of message that matches one of ``patterns`` and reports one event.

    ``more``: values of additional fields, or functions that compute them from the stack trace.
    """
    compiled, kind = list(map(Pattern, patterns)), str(kind)

    def read(text: str, trace: Trace) -> Facts | None:
        for pattern in compiled:
            if found := pattern.match(text):
                given = {name: how(trace) if callable(how) else how for name, how in more.items()}
                fact = pattern.fact(kind, found, **given)
                return None if fact is None else [fact]
        return None

    return LogMessage(_begins(*patterns), read)


def each(kind: str, whole: str, part: str, **more: str) -> LogMessage:
    """Define a kind of message that contains a list and reports one event for each list element.

    ``whole`` matches the message; its group ``all`` matches the list. ``part`` matches an element.
    All other groups are fields of the events. ``more``: values of additional fields.
    """
    match, parts, kind = re.compile(whole, re.DOTALL).fullmatch, Pattern(part), str(kind)

    def read(text: str, _: Trace) -> Facts | None:
        found = match(text)
        if found is None:
            return None
        given = {**more, **found.groupdict()}
        listed = given.pop("all")
        facts = (parts.fact(kind, at, **given) for at in parts.find(listed))
        return [fact for fact in facts if fact is not None]

    return LogMessage(_begins(whole), read)


def _begins(*patterns: str) -> tuple[str, ...]:
    """Return the literal text at the start of each pattern, to skip other messages quickly."""
    return tuple(found[1] for pattern in patterns if (found := _begin(pattern)))


def facts_of(messages: Iterable[LogMessage], text: str, trace: Trace) -> Facts | None:
    """Parse a message with the first matching parser. Return None if no parser matches.

    Raises NumberTooLarge.
    """
    for begins, read in messages:
        if text.startswith(begins) and (facts := read(text, trace)) is not None:
            return facts
    return None
