"""The table of a broker's log directories, without a broker."""

from __future__ import annotations

from brokers.log_dirs import LogDirs
from cluster.types import TopicPartition

TPS = [TopicPartition("t", number) for number in range(9)]


def test_a_new_log_goes_where_the_fewest_are() -> None:
    dirs = LogDirs(("a", "b"))
    assert [dirs.create_log(tp, is_new=True) for tp in TPS[:3]] == ["a", "b", "a"]
    dirs.delete_log("a")
    dirs.delete_log("a")
    assert dirs.create_log(TPS[3], is_new=True) == "a"
    dirs.mark_offline("a")
    assert dirs.create_log(TPS[4], is_new=False) is None
    assert dirs.create_log(TPS[4], is_new=True) == "b"
    dirs.mark_offline("b")
    assert dirs.create_log(TPS[5], is_new=True) is None
    assert (dirs.offline, dirs.is_online("a"), dirs.is_online("c")) == (("a", "b"), False, False)
    assert dirs.log_counts() == {"a": 0, "b": 0}


def test_a_preferred_directory_is_used_once() -> None:
    dirs = LogDirs(("a", "b"))
    dirs.prefer(TPS[0], "b")
    assert [dirs.create_log(TPS[0], is_new=True) for _ in range(2)] == ["b", "a"]


def test_a_preferred_directory_that_failed_is_not_replaced_by_another() -> None:
    dirs = LogDirs(("a", "b"))
    dirs.prefer(TPS[0], "b")
    dirs.mark_offline("b")
    assert dirs.create_log(TPS[0], is_new=True) is None
    assert dirs.create_log(TPS[1], is_new=True) == "a"


def test_a_future_log_counts_and_takes_the_place_of_the_current_one() -> None:
    dirs = LogDirs(("a", "b"))
    assert dirs.create_log(TPS[0], is_new=True) == "a"
    dirs.prefer(TPS[0], "b")
    assert dirs.create_future(TPS[0])
    assert (dict(dirs.futures), dirs.log_counts()) == ({TPS[0]: "b"}, {"a": 1, "b": 1})
    assert dirs.replace_with_future(TPS[0], "a") == "b"
    assert (dict(dirs.futures), dirs.log_counts()) == ({}, {"a": 0, "b": 1})


def test_a_future_log_that_is_given_up_leaves_nothing() -> None:
    dirs = LogDirs(("a", "b"))
    dirs.prefer(TPS[0], "b")
    assert dirs.create_future(TPS[0])
    dirs.delete_future(TPS[0])
    dirs.delete_future(TPS[0])
    assert (dict(dirs.futures), dirs.log_counts()) == ({}, {"a": 0, "b": 0})


def test_a_failed_directory_loses_its_future_logs_and_no_other_is_made() -> None:
    dirs = LogDirs(("a", "b", "c"))
    for tp, path in zip(TPS, "bc", strict=False):
        dirs.prefer(tp, path)
        assert dirs.create_future(tp)
    dirs.mark_offline("b")
    assert dict(dirs.futures) == {TPS[1]: "c"}
    dirs.prefer(TPS[2], "c")
    assert not dirs.create_future(TPS[2])
