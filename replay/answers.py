"""Which source can answer which question: declared in answers.yaml, shown by the docs and commands.

A source is what a log has at its level: Kafka's state-change.log at INFO, its default, lacks what
it has at TRACE. Says what can be known; which sources a table has is found by replay/readings.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from importlib.resources import files
from typing import Final, NamedTuple

import yaml


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


_LIMITS: Final[dict[str, dict[str, str]]] = yaml.safe_load(
    (files("klamm.replay") / "answers.yaml").read_text()
)
assert set(_LIMITS) <= set(Question)
assert all(set(limited) <= set(Reading) for limited in _LIMITS.values())


def answer(question: Question, reading: Reading) -> Answer:
    """Whether a source at its level can answer a question."""
    how, _, why = _LIMITS.get(question, {}).get(reading, "yes").partition(", ")
    return Answer(How(how), why)


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
