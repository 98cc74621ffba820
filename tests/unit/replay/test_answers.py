"""Which source answers which question: all of it is declared."""

from __future__ import annotations

from docs.event_table import answer_table
from klamm.replay.answers import How, Question, Reading, how_answered, limits


def test_every_question_has_an_answer_or_a_reason_for_each_source() -> None:
    for question in Question:
        for reading in Reading:
            how, why = how_answered(question, reading)
            assert bool(why) == (how is not How.YES), (question, reading)


def test_a_journal_has_one_limit() -> None:
    assert set(limits([Reading.JOURNAL])) == {Question.LEADERLESS}
    assert set(limits([Reading.STATE_CHANGE_INFO, Reading.JOURNAL])) == {Question.LEADERLESS}


def test_a_limit_of_several_sources_is_one_that_all_of_them_have() -> None:
    found = limits([Reading.STATE_CHANGE_INFO, Reading.CONTROLLER_INFO])
    assert {reading for told in found.values() for reading, _ in told} == {
        Reading.STATE_CHANGE_INFO,
        Reading.CONTROLLER_INFO,
    }
    assert Question.REPLICA_STATES in found and Question.FAILOVERS not in found
    info = how_answered(Question.REPLICA_STATES, Reading.STATE_CHANGE_INFO)
    assert (info.how, info.why) == (How.NO, "replica transitions are logged at TRACE")
    assert Question.REPLICA_STATES in limits([Reading.ZOOKEEPER])
    assert Question.LEADERSHIPS not in limits([Reading.ZOOKEEPER, Reading.STATE_CHANGE_INFO])


def test_the_table_has_a_row_a_question_and_its_notes() -> None:
    lines = answer_table().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == len(Question) + 1
    assert all(line.count("|") == len(Reading) + 2 for line in rows)
    notes = [line for line in lines if line[:1].isdigit()]
    assert f"[{len(notes)}]" in answer_table() and f"[{len(notes) + 1}]" not in answer_table()
