"""Records of log4j files: their stack traces stay with them, nothing else is taken for one."""

from __future__ import annotations

from klamm.replay.event_schema import DamagedLine
from klamm.replay.kafka_lines import (
    CUT_LINE,
    MAX_TRACE_LINES,
    NOT_A_LOG_LINE,
    LogRecord,
    ids,
    reason,
    records,
    shape,
)

INFO = (
    "[2021-09-01 10:15:42,007] INFO [Controller id=1] Resigned (kafka.controller.KafkaController)"
)
ERROR = "[2021-09-01 10:15:42,008] ERROR [Controller id=1 epoch=2] It failed (state.change.logger)"
TRACE = [
    "java.lang.IllegalStateException: Partition t-0 should be elsewhere",
    "\tat kafka.controller.A.b(A.scala:1)",
    "Caused by: java.io.IOException",
    "\t... 3 more",
]


def test_a_line_is_split_into_the_fields_of_a_record() -> None:
    [record] = records([INFO], first_line=7)
    assert isinstance(record, LogRecord)
    assert record == (
        7,
        0,
        "2021-09-01 10:15",
        "42",
        "007",
        "INFO",
        "[Controller id=1] Resigned",
        "kafka.controller.KafkaController",
        [],
    )


def test_a_stack_trace_stays_with_its_line() -> None:
    found = list(records([INFO, ERROR, *TRACE, "", INFO]))
    assert [record.line for record in found] == [1, 2, 8]
    assert [getattr(record, "trace", None) for record in found] == [[], TRACE, []]
    offsets = [record.offset for record in found if isinstance(record, LogRecord)]
    length = len("\n".join([INFO, ERROR, *TRACE, "", ""]))
    assert offsets == [0, len(INFO) + 1, length]


def test_a_trace_may_follow_any_level_but_other_text_only_an_error() -> None:
    with_trace, _ = records([INFO, TRACE[0], INFO])
    assert isinstance(with_trace, LogRecord) and with_trace.trace == [TRACE[0]]
    lines = [INFO, "free text", "more of it", INFO]
    first, second, *found = records(lines)
    assert [first, second] == [
        DamagedLine(2, NOT_A_LOG_LINE, "free text"),
        DamagedLine(3, NOT_A_LOG_LINE, "more of it"),
    ]
    assert [getattr(record, "trace", None) for record in found] == [[], []]
    [error] = records([ERROR, "free text"])
    assert isinstance(error, LogRecord) and error.trace == ["free text"]


def test_a_message_may_have_several_lines() -> None:
    lines = ["[2021-09-01 10:15:42,007] INFO one", "", "[two]", "three (kafka.server.X)", *TRACE]
    [record] = records(lines)
    assert isinstance(record, LogRecord)
    assert record.message == "one\n\n[two]\nthree"
    assert record.logger == "kafka.server.X"
    assert record.trace == TRACE


def test_cut_lines_are_damaged_and_their_neighbours_are_read() -> None:
    for end in range(len("[2021-09-01 10:15:42,007] INFO "), len(INFO)):
        [found] = records([INFO[:end]])
        assert found == DamagedLine(1, CUT_LINE, INFO[:end])
    rest, whole = records([INFO[40:], INFO])
    assert rest == DamagedLine(1, CUT_LINE, INFO[40:])
    assert isinstance(whole, LogRecord) and whole.line == 2
    after = list(records([INFO, INFO[40:], ERROR]))
    assert [found.line for found in after] == [2, 1, 3]
    assert after[0] == DamagedLine(2, CUT_LINE, INFO[40:])
    [begun] = [found for found in records([INFO[:50], INFO]) if isinstance(found, DamagedLine)]
    assert begun == DamagedLine(1, CUT_LINE, INFO[:50])


def test_lines_of_another_file_are_damaged() -> None:
    found = list(records(["{", "", '"a": 1}']))
    assert found == [DamagedLine(1, NOT_A_LOG_LINE, "{"), DamagedLine(3, NOT_A_LOG_LINE, '"a": 1}')]
    assert list(records([])) == list(records(["", " "])) == []


def test_a_trace_without_end_is_no_memory_without_end() -> None:
    lines = [ERROR, *["\tat x"] * 10_000]
    found = list(records(lines))
    assert len(found) == 10_000 - MAX_TRACE_LINES + 1
    [record] = [one for one in found if isinstance(one, LogRecord)]
    assert len(record.trace) == MAX_TRACE_LINES


def test_the_reason_of_a_throwable_is_its_message() -> None:
    assert reason(TRACE) == "Partition t-0 should be elsewhere"
    assert reason(["java.io.IOException"]) == "java.io.IOException"
    assert reason(["kafka.common.StateChangeFailedException: a: b"]) == "a: b"
    assert reason([]) is None


def test_lists_of_broker_ids_are_read_in_old_and_new_formats() -> None:
    assert ids("1, 20,3") == [1, 20, 3]
    assert ids("") == []
    assert ids(
        "BrokerState(brokerId=4, brokerEpoch=-1), BrokerState(brokerId=5, brokerEpoch=9)"
    ) == [4, 5]


def test_lines_of_one_kind_have_one_shape() -> None:
    assert shape("[Controller id=3 epoch=4] Something new about t-0 is said") == (
        "Controller Something new about"
    )
    assert shape("[Topic Deletion Manager 3] Deleted 7 topics") == "Topic Deleted"
    assert shape("Leader of t-0 gone") == "Leader of"
    assert shape("17 things") == ""
