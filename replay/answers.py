"""Declares which questions about a cluster each kind of log can answer (from answers.yaml).

The log level matters: Kafka's state-change.log at INFO, the default, lacks lines that are logged at
TRACE. replay/readings.py determines which logs and log levels an event table was made from.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from importlib.resources import files
from typing import Final, NamedTuple

import yaml


class Reading(StrEnum):
    """A kind of log and its log level, which together decide what questions the log can answer."""

    JOURNAL = "journal"
    STATE_CHANGE_TRACE = "state-change.log at TRACE"
    STATE_CHANGE_INFO = "state-change.log at INFO"
    CONTROLLER_DEBUG = "controller.log at DEBUG or TRACE"
    CONTROLLER_INFO = "controller.log at INFO"
    KAFKA_TRACE = "both Kafka logs, at TRACE"
    KAFKA_INFO = "both Kafka logs, state-change.log at INFO"
    ZOOKEEPER = "zookeeper"


class How(StrEnum):
    """Whether a log answers a question fully, in part or not at all."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


class Answer(NamedTuple):
    """Whether a log answers a question. ``why``: reason for "partly" or "no", else empty."""

    how: How
    why: str = ""


class Question(StrEnum):
    """The questions that a replay answers, with their names in the docs and on the page."""

    PARTITION_STATES = "final state of each partition"
    REPLICA_STATES = "final state of each replica"
    LEADERSHIPS = "final leader, leader epoch and ISR"
    AS_OF = "states as of a time, epoch or zxid"
    ILLEGAL_PARTITIONS = "illegal transitions of partitions"
    ILLEGAL_REPLICAS = "illegal transitions of replicas"
    FAILED = "failed transitions and their reasons"
    GAPS = "lost rows"
    DUPLICATES = "duplicate rows"
    OFFLINE = "intervals in OfflinePartition, offline partitions over time"
    LEADERLESS = "intervals without a live leader"
    UNCLEAN = "unclean elections"
    ISR_CHURN = "ISR changes, flapping replicas"
    UNPLANNED = "unplanned ISR shrinks"
    REASSIGNMENTS = "durations of reassignments, stuck reassignments"
    FAILOVERS = "failovers, and the time until the controller was ready"
    TWO_CONTROLLERS = "two controllers in one epoch, writes after a newer epoch began"
    LEADERS_OVER_TIME = "leaders per broker over time"
    BROKERS = "broker starts and failures"
    DELETIONS = "topic creations and deletions"
    TROUBLE = "topics and brokers with the most problems"


_LIMITS: Final[dict[str, dict[str, str]]] = yaml.safe_load(
    (files("klamm.replay") / "answers.yaml").read_text()
)
assert set(_LIMITS) <= set(Question)
assert all(set(limited) <= set(Reading) for limited in _LIMITS.values())


def how_answered(question: Question, reading: Reading) -> Answer:
    """Return whether a kind of log, at its log level, can answer a question."""
    how, _, why = _LIMITS.get(question, {}).get(reading, "yes").partition(", ")
    return Answer(How(how), why)


def limits(readings: Iterable[Reading]) -> dict[Question, list[tuple[Reading, Answer]]]:
    """Return the questions that none of these logs answers fully, with the reason for each log."""
    given = sorted(set(readings), key=tuple(Reading).index)
    answers = {q: [(reading, how_answered(q, reading)) for reading in given] for q in Question}
    return {q: of for q, of in answers.items() if all(a.how is not How.YES for _, a in of)}
