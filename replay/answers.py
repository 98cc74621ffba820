"""Which source can answer which question, declared once: the docs show it, commands warn by it.

A source is what a log has at its level: Kafka's state-change.log at INFO, its default, lacks what
it has at TRACE. Says what can be known; which sources a table has is found by replay/readings.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Reading(StrEnum):
    """A source at the level that decides what it tells."""

    JOURNAL = "journal"
    STATE_CHANGE_TRACE = "state-change.log at TRACE"
    STATE_CHANGE_INFO = "state-change.log at INFO"
    CONTROLLER_DEBUG = "controller.log at DEBUG or TRACE"
    CONTROLLER_INFO = "controller.log at INFO"
    ZOOKEEPER = "zookeeper"


class How(StrEnum):
    """How far a source answers a question."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


class Answer(NamedTuple):
    """``why`` not wholly; empty for yes."""

    how: How
    why: str = ""


class Question(StrEnum):
    """What is asked of a table, in the words of the docs."""

    PARTITION_STATES = "final state of each partition"
    REPLICA_STATES = "final state of each replica"
    LEADERSHIPS = "final leader, leader epoch and ISR"
    AS_OF = "states as of a time, an epoch or a zxid"
    ILLEGAL_PARTITIONS = "illegal transitions of partitions"
    ILLEGAL_REPLICAS = "illegal transitions of replicas"
    FAILED = "transitions that failed, and why"
    GAPS = "lost rows"
    DUPLICATES = "rows that are there twice"
    OFFLINE = "stays in OfflinePartition, the timeline of offline partitions"
    LEADERLESS = "intervals without a leader"
    UNCLEAN = "unclean elections"
    ISR_CHURN = "ISR changes, flapping replicas"
    REASSIGNMENTS = "durations of reassignments, stuck ones"
    FAILOVERS = "failovers and their time to ready"
    TWO_CONTROLLERS = "two controllers in an epoch, writes after a newer epoch"
    LEADERS_OVER_TIME = "leaders per broker over time"
    BROKERS = "brokers that came and went"
    DELETIONS = "topics created and deleted"
    TROUBLE = "topics and brokers with most trouble"


_YES: Final = Answer(How.YES)


def _partly(why: str) -> Answer:
    return Answer(How.PARTLY, why)


def _no(why: str) -> Answer:
    return Answer(How.NO, why)


_NO_STATES: Final = _no("ZooKeeper holds no states of partitions or replicas")
_IN_OTHER_LOG: Final = _no("in state-change.log")
_IN_CONTROLLER_LOG: Final = _no("in controller.log")
_NO_NUMBERS: Final = _no("lines have no numbers")
_NO_OFFLINE: Final = "transitions to Offline and NonExistent are TRACE lines"
_AT_FAILOVER: Final = "a failover puts states anew without a line"
_ISR_ELSEWHERE: Final = "what leaders propose is in controller.log"
_FROM_FIRST_LINE: Final = "of a partition from its first line on"
_DUMPS: Final = "only as failovers dump them"
_NO_DUMPS: Final = _no("the dumps of failovers are DEBUG lines")

_ROWS: Final[dict[Question, tuple[Answer, ...]]] = {
    Question.PARTITION_STATES: (
        _YES,
        _partly(_AT_FAILOVER),
        _partly(f"{_NO_OFFLINE}; {_AT_FAILOVER}"),
        _partly(_DUMPS),
        _NO_DUMPS,
        _NO_STATES,
    ),
    Question.REPLICA_STATES: (
        _YES,
        _partly(_AT_FAILOVER),
        _no("transitions of replicas are TRACE lines"),
        _partly(_DUMPS),
        _NO_DUMPS,
        _NO_STATES,
    ),
    Question.LEADERSHIPS: (
        _YES,
        _partly(_ISR_ELSEWHERE),
        _partly(_ISR_ELSEWHERE),
        _partly("ISRs that leaders propose; the rest as controlled shutdowns dump it"),
        _IN_OTHER_LOG,
        _YES,
    ),
    Question.AS_OF: (
        _YES,
        _partly("as of a time or an epoch; as for final states"),
        _partly("as of a time or an epoch; as for final states"),
        _partly("as of a time or an epoch; as for final states"),
        _IN_OTHER_LOG,
        _partly("leaders, leader epochs and ISRs"),
    ),
    Question.ILLEGAL_PARTITIONS: (
        _YES,
        _YES,
        _partly(_NO_OFFLINE),
        _IN_OTHER_LOG,
        _IN_OTHER_LOG,
        _NO_STATES,
    ),
    Question.ILLEGAL_REPLICAS: (
        _YES,
        _YES,
        _no("transitions of replicas are TRACE lines"),
        _IN_OTHER_LOG,
        _IN_OTHER_LOG,
        _NO_STATES,
    ),
    Question.FAILED: (
        _YES,
        _YES,
        _YES,
        _IN_OTHER_LOG,
        _IN_OTHER_LOG,
        _partly("only writes that were refused"),
    ),
    Question.GAPS: (
        _YES,
        _partly("where a state does not follow from the one before, or a version is left out"),
        _partly("where versions of a partition's znode are left out"),
        _NO_NUMBERS,
        _NO_NUMBERS,
        _partly("gaps between zxids of the servers' logs"),
    ),
    Question.DUPLICATES: (
        _YES,
        _partly("only files that are there twice"),
        _partly("only files that are there twice"),
        _partly("only files that are there twice"),
        _partly("only files that are there twice"),
        _YES,
    ),
    Question.OFFLINE: (
        _YES,
        _partly(f"{_AT_FAILOVER}; a controller that dies leaves no end"),
        _no(_NO_OFFLINE),
        _partly(_DUMPS),
        _NO_DUMPS,
        _NO_STATES,
    ),
    Question.LEADERLESS: (
        _YES,
        _partly("from the line that says so; a controller that dies leaves no end"),
        _partly("from leader -1 in an ISR's line, and from elections that failed"),
        _partly(_DUMPS),
        _NO_DUMPS,
        _partly("leader -1; a dead leader only once a controller has written it"),
    ),
    Question.UNCLEAN: (
        _YES,
        _partly("where the write before the election is in the log"),
        _partly("where the write before the election is in the log"),
        _IN_OTHER_LOG,
        _IN_OTHER_LOG,
        _YES,
    ),
    Question.ISR_CHURN: (
        _YES,
        _partly(f"replicas that the controller removed; {_ISR_ELSEWHERE}"),
        _partly(f"replicas that the controller removed; {_ISR_ELSEWHERE}"),
        _partly("ISRs that leaders proposed, without the one before"),
        _no("ISRs are DEBUG lines"),
        _YES,
    ),
    Question.REASSIGNMENTS: (
        _YES,
        _partly("when leader epochs were raised for them"),
        _partly("when leader epochs were raised for them"),
        _partly("from the assignment stored (U1) to the last one stored (B6)"),
        _partly("a cancelled one looks as one that is completed"),
        _partly("from the topic znode with adding replicas to that without"),
    ),
    Question.FAILOVERS: (
        _YES,
        _partly("that an epoch began; not when it was ready"),
        _partly("that an epoch began; not when it was ready"),
        _YES,
        _YES,
        _partly("elections; not when a controller was ready"),
    ),
    Question.TWO_CONTROLLERS: (
        _YES,
        _partly("lines, whether their writes succeeded or not"),
        _partly("lines, whether their writes succeeded or not"),
        _partly("elections"),
        _partly("elections"),
        _YES,
    ),
    Question.LEADERS_OVER_TIME: (
        _YES,
        _partly(_FROM_FIRST_LINE),
        _partly(f"{_FROM_FIRST_LINE}; not the end of a deleted one"),
        _partly("only as controlled shutdowns dump them"),
        _IN_OTHER_LOG,
        _YES,
    ),
    Question.BROKERS: (
        _YES,
        _IN_CONTROLLER_LOG,
        _IN_CONTROLLER_LOG,
        _partly("not those that come and go while there is no controller"),
        _partly("not those that come and go while there is no controller"),
        _YES,
    ),
    Question.DELETIONS: (
        _YES,
        _partly("the transitions that follow"),
        _partly("creations; the transitions of deletions are TRACE lines"),
        _YES,
        _YES,
        _YES,
    ),
    Question.TROUBLE: (
        _YES,
        _partly("by what it has of the above"),
        _partly("by what it has of the above"),
        _partly("by what it has of the above"),
        _partly("by what it has of the above"),
        _partly("by what it has of the above"),
    ),
}


def answer(question: Question, reading: Reading) -> Answer:
    """Whether a source at its level can answer a question."""
    return _ROWS[question][tuple(Reading).index(reading)]


def limits(readings: Iterable[Reading]) -> dict[Question, list[tuple[Reading, Answer]]]:
    """The questions that none of some sources answers wholly, and why each does not."""
    there = sorted(set(readings), key=tuple(Reading).index)
    told = {q: [(reading, answer(q, reading)) for reading in there] for q in Question}
    return {q: of for q, of in told.items() if all(a.how is not How.YES for _, a in of)}


def answer_table() -> str:
    """All of it in Markdown; reasons that repeat are notes below."""
    notes: dict[str, int] = {}
    lines = [f"| question | {' | '.join(Reading)} |", f"|---{'|---' * len(Reading)}|"]
    for question in Question:
        cells = []
        for reading in Reading:
            how, why = answer(question, reading)
            note = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
            cells.append(f"{how}{note}")
        lines.append(f"| {question} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {why}" for why, number in notes.items())]
    return "\n".join(lines) + "\n"
