"""Parses Kafka's log4j files into log records, and parses values that occur in many messages.

A log record begins with a time in brackets and ends with the logger's name in parentheses; a stack
trace may follow. kafka_state_changes.py and kafka_controller_lines.py interpret the messages. No
I/O, no time zones. The formats are those of config/log4j.properties, and of the toString methods of
LeaderAndIsr, LeaderIsrAndControllerEpoch and ReplicaAssignment in Kafka 2.0 to 3.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.jvm.java_integer import parse_java_int
from klamm.cluster.types import ReplicaAssignment
from klamm.replay.event_schema import EPOCH_SHIFT, DamagedLine

CUT_LINE: Final = "cut line"
NOT_A_LOG_LINE: Final = "not a log line"
UNKNOWN_LINE: Final = "unknown line"
MAX_TRACE_LINES: Final = 200
PARTITION: Final = r"(?P<topic>[\w.-]+)-(?P<partition>\d+)"
LEADER_AND_ISR: Final = (
    r"LeaderAndIsr\(leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>\d+), "
    r"isr(?:WithBrokerEpoch)?=\w+\((?P<isr>.*?)\), (?:leaderRecoveryState=\w+, )?"
    r"(?:zkVersion|partitionEpoch)=(?P<zk_version>-?\d+)\)"
)
LEADER_ISR_AND_EPOCH: Final = (
    r"\(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),(?:LeaderRecoveryState:\w+,)?"
    r"LeaderEpoch:(?P<leader_epoch>\d+)(?:,ZkVersion:(?P<zk_version>-?\d+))?,ControllerEpoch:\d+\)"
)
"""Kafka 2.4 and older versions do not print the znode version."""
ASSIGNMENT: Final = (
    r"ReplicaAssignment\(replicas=(?P<replicas>[\d,]*), addingReplicas=(?P<adding>[\d,]*), "
    r"removingReplicas=(?P<removing>[\d,]*)\)"
)
"""Pattern of a printed ReplicaAssignment. Its groups are named after the fields of that class."""

BEGIN: Final = r"\[(\d{4}-\d\d-\d\d \d\d:\d\d):(\d\d),(\d{3})\] ([A-Z]+) "
"""Start of a log record. Groups: date with hour and minute, second, millisecond, level."""
_begins = re.compile(BEGIN).match
_whole = re.compile(rf"{BEGIN}(.*) \(([\w.$]+)\)\s*", re.DOTALL).fullmatch
_ends = re.compile(r".* \((?:state\.change\.logger|kafka\.[\w.$]+)\)\s*").fullmatch
_is_trace = re.compile(
    r"\s|Caused by: |Suppressed: |[\w$]+(?:\.[\w$]+)+(?::|$)|\w*(?:Error|Exception)\b"
).match
_exception = re.compile(r"[\w.$]*\w(?:: (.*))?").fullmatch
_id = re.compile(r"\d+").findall
_broker_id = re.compile(r"brokerId=(\d+)").findall
_word = re.compile(r"[A-Za-z]{2,}(?:'s)?:?").fullmatch


class NumberTooLarge(Exception):
    """A number in a log record is larger than the one that Kafka keeps there."""


class LogRecord(NamedTuple):
    """A log4j record.

    - ``line``: line number, from 1.
    - ``offset``: number of characters that precede the record in the parsed lines.
    - ``minute``: date, hour and minute as logged. ``second`` and ``ms``: the rest of the time.
    - ``trace``: lines of the exception and stack trace that follow the message.
    """

    line: int
    offset: int
    minute: str
    second: str
    ms: str
    level: str
    message: str
    logger: str
    trace: Sequence[str]


class Fact(msgspec.Struct, gc=False):
    """An event that a log record reports. The fields are columns of event_schema.RAW_SCHEMA."""

    kind: str
    topic: str | None = None
    partition: int = -1
    replica: int = -1
    from_state: str | None = None
    to_state: str | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: list[int] | None = None
    election: str | None = None
    reassignment: str | None = None
    zk_version: int | None = None
    outcome: str | None = None
    detail: str | None = None


class LoggedFacts(NamedTuple):
    """The events that a log record reports, with the controller's broker id and epoch.

    ``epoch`` is 0 if unknown. ``facts`` is often empty: a replay does not need most log records.
    """

    controller: int
    epoch: int
    facts: Sequence[Fact]


NOTHING: Final = LoggedFacts(-1, 0, ())


def records(lines: Iterable[str], first_line: int = 1) -> Iterator[LogRecord | DamagedLine]:
    """Group lines of a log file into log records. The first line must begin a record."""
    begun: list[str] = []
    whole: re.Match[str] | None = None
    line = begin = first_line
    offset = begun_at = 0
    for line, text in enumerate(lines, first_line):
        is_first = text.startswith("[")
        found = _whole(text) if is_first else None
        if found or (is_first and _begins(text)):
            if whole and len(begun) == 1:
                yield _record(begin, begun_at, whole, [])
            elif begun:
                yield from _finish(begin, begun_at, whole, begun)
            begun, whole = [text], found
            begin, begun_at = line, offset
        elif begun and len(begun) <= MAX_TRACE_LINES and not (whole and _ends(text)):
            begun.append(text)
        elif text.strip():
            yield DamagedLine(line, CUT_LINE if _ends(text) else NOT_A_LOG_LINE, text)
        offset += len(text) + 1
    if begun:
        yield from _finish(begin, begun_at, whole, begun)


def _finish(
    line: int, offset: int, whole: re.Match[str] | None, texts: list[str]
) -> Iterator[LogRecord | DamagedLine]:
    used = 1
    if whole is None:
        # A message may have several lines: the logger's name is at the end of the last.
        ends = (n for n, text in enumerate(texts) if _ends(text))
        used = next(ends, len(texts)) + 1
        whole = _whole("\n".join(texts[:used]))
    if whole is None:
        yield DamagedLine(line, CUT_LINE, texts[0])
        return
    trace = [text for text in texts[used:] if text.strip()]
    if trace and whole[4] not in ("ERROR", "WARN") and not _is_trace(trace[0]):
        for n, text in enumerate(texts[used:], line + used):
            if text.strip():
                yield DamagedLine(n, NOT_A_LOG_LINE, text)
        trace = []
    yield _record(line, offset, whole, trace)


def _record(line: int, offset: int, whole: re.Match[str], trace: Sequence[str]) -> LogRecord:
    minute, second, ms, level, message, logger = whole.groups()
    return LogRecord(line, offset, minute, second, ms, level, message, logger, trace)


def reason(trace: Sequence[str]) -> str | None:
    """Return the message of the exception in a stack trace, or its class if it has no message.

    Returns None if the trace is empty.
    """
    if not trace:
        return None
    found = _exception(trace[0].strip())
    return (found and found[1]) or trace[0].strip()


def shape(message: str) -> str:
    """Return the constant words at the start of a message (at most five).

    Unknown messages are counted by these words: messages of the same kind start with the same words
    and differ only in values such as broker ids.
    """
    words = message.split(" ")
    if message.startswith("["):
        ident, _, rest = message.partition("] ")
        words = [ident[1:].split(" ")[0].split("=")[0], *rest.split(" ")]
    kept: list[str] = []
    for word in words[:5]:
        if not _word(word):
            break
        kept.append(word)
    return " ".join(kept)


def int32(text: str) -> int:
    """Parse a number that Kafka keeps in 32 bits. Raises NumberTooLarge."""
    number = parse_java_int(text)
    if number is None:
        raise NumberTooLarge(text)
    return number


def controller_epoch(text: str) -> int:
    """Parse a controller epoch. Raises NumberTooLarge if a row's ``place`` has no room for it."""
    number = int32(text)
    if number >= 1 << (63 - EPOCH_SHIFT):
        raise NumberTooLarge(text)
    return number


@lru_cache(maxsize=1 << 16)
def ids(text: str) -> list[int]:
    """Parse a list of broker ids as printed by Kafka. Do not modify the (cached) result.

    Raises NumberTooLarge.
    """
    return [int32(found) for found in (_broker_id if "brokerId" in text else _id)(text)]


@lru_cache(maxsize=1 << 12)
def assignment(replicas: str, adding: str, removing: str) -> ReplicaAssignment:
    """Parse the lists of broker ids in an assignment that Kafka printed. Raises NumberTooLarge."""
    return ReplicaAssignment(tuple(ids(replicas)), tuple(ids(adding)), tuple(ids(removing)))
