"""The table of a broker's log directories, without a broker."""

from __future__ import annotations

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_store import DirLogs
from klamm.cluster.types import TopicPartition

TPS = [TopicPartition("t", number) for number in range(9)]


def make(dirs: LogDirs, tp: TopicPartition, *, is_new: bool = True) -> str | None:
    """Put a log where the table says."""
    path = dirs.choose(tp, is_new=is_new)
    if path is not None:
        dirs.logs(path).current[tp] = IntervalLog()
    return path


def make_future(dirs: LogDirs, tp: TopicPartition, path: str) -> bool:
    """Put a future log where the table says, which is told to prefer ``path``."""
    dirs.prefer(tp, path)
    chosen = dirs.choose_for_future(tp)
    if chosen is not None:
        dirs.logs(chosen).futures[tp] = IntervalLog()
    return chosen is not None


def test_a_new_log_goes_where_the_fewest_are() -> None:
    dirs = LogDirs(("a", "b"))
    assert [make(dirs, tp) for tp in TPS[:3]] == ["a", "b", "a"]
    dirs.logs("a").current.clear()
    assert make(dirs, TPS[3]) == "a"
    dirs.mark_offline("a")
    assert make(dirs, TPS[4], is_new=False) is None
    assert make(dirs, TPS[4]) == "b"
    dirs.mark_offline("b")
    assert make(dirs, TPS[5]) is None
    assert (dirs.offline, dirs.is_online("a"), dirs.is_online("c")) == (("a", "b"), False, False)
    assert dirs.log_counts() == {"a": 0, "b": 0}


def test_a_preferred_directory_is_used_once() -> None:
    dirs = LogDirs(("a", "b"))
    dirs.prefer(TPS[0], "b")
    assert [dirs.choose(TPS[0], is_new=True) for _ in range(2)] == ["b", "a"]


def test_a_preferred_directory_that_failed_is_not_replaced_by_another() -> None:
    dirs = LogDirs(("a", "b"))
    dirs.prefer(TPS[0], "b")
    dirs.mark_offline("b")
    assert dirs.choose(TPS[0], is_new=True) is None
    assert dirs.choose(TPS[1], is_new=True) == "a"


def test_a_future_log_counts_and_is_no_current_one() -> None:
    dirs = LogDirs(("a", "b"))
    make(dirs, TPS[0])
    assert make_future(dirs, TPS[0], "b")
    assert (dirs.path_of(TPS[0]), dirs.future_path_of(TPS[0])) == ("a", "b")
    assert dirs.current(TPS[0]) is not dirs.future(TPS[0])
    assert (dirs.has_futures, dirs.log_counts()) == (True, {"a": 1, "b": 1})
    assert (dirs.current(TPS[1]), dirs.future(TPS[1])) == (None, None)


def test_a_failed_directory_loses_its_future_logs_and_no_other_is_made() -> None:
    dirs = LogDirs(("a", "b", "c"))
    assert make_future(dirs, TPS[0], "b") and make_future(dirs, TPS[1], "c")
    dirs.mark_offline("b")
    assert [dirs.future_path_of(tp) for tp in TPS[:2]] == [None, "c"]
    assert not make_future(dirs, TPS[2], "c")


def test_found_logs_are_used_in_place_and_kept_when_the_directory_fails() -> None:
    dirs = LogDirs(("a",))
    found = DirLogs({TPS[0]: IntervalLog()}, {})
    dirs.use("a", found)
    make(dirs, TPS[1])
    assert list(found.current) == TPS[:2]
    dirs.mark_offline("a")
    assert (len(found), dirs.path_of(TPS[0])) == (2, None)
