"""bench/live_ledger.py: lost, doubled and foreign records are found, and nothing else."""

from __future__ import annotations

from typing import Any

from bench.live_ledger import Consumed, Produced, Stretch, compare


def produced(*stretches: Stretch, in_doubt: int = 0, values: int = 0) -> Produced:
    return Produced(
        "p",
        acknowledged=list(stretches),
        in_doubt=in_doubt,
        values={f"p:{number}" for number in range(values)},
    )


def consumed(*stretches: Stretch) -> Consumed:
    found = Consumed()
    found.take(polled(counted=[one._asdict() for one in stretches]))
    return found


def polled(**given: Any) -> dict[str, Any]:
    for one in given.get("counted", []):
        one["leader_epoch"] = one.pop("epoch")
    empty = {"errors": [], "truncations": [], "positions": {}, "high_watermarks": {}}
    return {"counted": [], "records": [], **empty, **given}


def with_values(*values: str) -> Consumed:
    found = Consumed()
    rows = [
        {"partition": 0, "leader_epoch": 1, "offset": offset, "value": value}
        for offset, value in enumerate(values)
    ]
    found.take(polled(records=rows))
    return found


def test_all_that_was_promised_was_read() -> None:
    promised = produced(Stretch(0, 1, 0, 5), Stretch(0, 2, 5, 8), Stretch(1, 1, 0, 3))
    read = consumed(Stretch(0, 1, 0, 5), Stretch(0, 2, 5, 8), Stretch(1, 1, 0, 3))
    assert compare("t", [promised], read) == []


def test_a_lost_record_is_found() -> None:
    (line,) = compare("t", [produced(Stretch(0, 1, 0, 5))], consumed(Stretch(0, 1, 0, 4)))
    assert line.startswith("t: 1 acknowledged records lost")


def test_a_record_of_another_epoch_in_its_place_is_a_loss() -> None:
    wrong = compare("t", [produced(Stretch(0, 1, 0, 5))], consumed(Stretch(0, 2, 0, 5)))
    assert "5 acknowledged records lost" in wrong[0]


def test_a_doubled_record_is_found() -> None:
    promised = [produced(Stretch(0, 1, 0, 5))]
    (line,) = compare("t", promised, consumed(Stretch(0, 1, 0, 6)))
    assert "1 records more than acknowledged, 0 were in doubt" in line
    doubtful = [produced(Stretch(0, 1, 0, 5), in_doubt=1)]
    assert compare("t", doubtful, consumed(Stretch(0, 1, 0, 6))) == []


def test_offsets_that_are_read_twice_or_left_out_are_found() -> None:
    twice = consumed(Stretch(0, 1, 0, 5), Stretch(0, 1, 4, 6))
    hole = consumed(Stretch(0, 1, 0, 5), Stretch(0, 1, 7, 9))
    back = consumed(Stretch(0, 2, 0, 5), Stretch(0, 1, 5, 6))
    assert "read twice" in twice.faults[0]
    assert "a hole" in hole.faults[0]
    assert "epoch went back" in back.faults[0]
    assert len(compare("t", [], twice)) == 2


def test_an_offset_that_is_promised_twice_is_found() -> None:
    both = [produced(Stretch(0, 1, 0, 5)), produced(Stretch(0, 1, 4, 6))]
    assert "offsets acknowledged twice" in compare("t", both, consumed(Stretch(0, 1, 0, 6)))[0]


def test_values_are_compared() -> None:
    promised = [produced(Stretch(0, 1, 0, 3), values=3)]
    assert compare("t", promised, with_values("p:0", "p:1", "p:2")) == []
    (foreign, missing) = compare("t", promised, with_values("p:0", "p:1", "x:9"))
    assert "nobody sent: 'x:9'" in foreign and "1 values missing, 0 excused" in missing
    assert "there twice" in compare("t", promised, with_values("p:0", "p:1", "p:1"))[0]
    (disorder,) = compare("t", promised, with_values("p:1", "p:0", "p:2"))
    assert "p:0 stands behind p:1" in disorder


def test_what_a_kill_left_undecided_may_be_stored_or_not() -> None:
    promised = produced(Stretch(0, 1, 0, 5))
    promised.on_kill(handed_over=7)
    assert promised.undecided == 2
    assert compare("t", [promised], consumed(Stretch(0, 1, 0, 7))) == []
    assert compare("t", [promised], consumed(Stretch(0, 1, 0, 8))) != []


def test_the_end_is_where_every_partition_is_read_up_to_its_high_watermark() -> None:
    found = Consumed()
    found.take(polled(positions={"0": 5, "1": 2}, high_watermarks={"0": 5, "1": 3}))
    assert not found.is_at_the_end([0, 1])
    found.take(polled(positions={"0": 5, "1": 3}, high_watermarks={"0": 5, "1": 3}))
    assert found.is_at_the_end([0, 1])
    assert not found.is_at_the_end([0, 1, 2])
