"""Branches of a scenario take turns while the cluster runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from klamm.lab.drivers.turns import Branch, Turns


class Ticking:
    """A cluster that does nothing but grow older, by a millisecond in each step."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.turns = Turns(self._run, lambda: self.now_ms)
        self.seen: list[tuple[float, str]] = []

    def _run(self, condition: Callable[[], bool], until_ms: float) -> bool:
        while self.now_ms < until_ms:
            self.now_ms += 1
            if condition():
                return True
        return False

    def is_at(self, ms: float) -> Callable[[], bool]:
        return lambda: self.now_ms >= ms

    def see(self, what: object) -> None:
        self.seen.append((self.now_ms, str(what)))

    def waits(self, name: str, *until_ms: float, timeout_ms: float = math.inf) -> Branch:
        """Begin a branch that waits for these times, one after the other."""

        def work() -> None:
            self.see(f"{name} begins")
            for ms in until_ms:
                self.see(f"{name} {self.turns.run_until(self.is_at(ms), timeout_ms)}")

        return self.turns.begin(work)


@pytest.fixture
def cluster() -> Ticking:
    return Ticking()


@pytest.mark.parametrize(
    ("until_ms", "timeout_ms", "is_met", "now_ms"),
    [(0, 10, True, 0), (5, 10, True, 5), (10, 10, True, 10), (11, 10, False, 10), (1, 0, False, 0)],
)
@pytest.mark.parametrize("has_observer", [True, False])
def test_the_main_program_waits_for_a_condition_or_the_timeout(
    cluster: Ticking,
    until_ms: float,
    timeout_ms: float,
    is_met: bool,
    now_ms: float,
    has_observer: bool,
) -> None:
    if has_observer:
        cluster.turns.observers.append(lambda: None)
    assert cluster.turns.run_until(cluster.is_at(until_ms), timeout_ms) == is_met
    assert cluster.now_ms == now_ms


def test_branches_continue_when_their_condition_holds_in_the_order_of_their_beginning(
    cluster: Ticking,
) -> None:
    cluster.waits("a", 3, 3, 5)
    cluster.waits("b", 2, 3)
    assert cluster.seen == []
    assert cluster.turns.run_until(cluster.is_at(4), math.inf)
    assert cluster.seen == [
        *((0, "a begins"), (0, "b begins"), (2, "b True")),
        *((3, "a True"), (3, "a True"), (3, "b True")),
    ]
    cluster.turns.run_until(cluster.is_at(9), math.inf)
    assert cluster.seen[6:] == [(5, "a True")]


def test_a_branch_waits_only_so_long(cluster: Ticking) -> None:
    branch = cluster.waits("a", 9, 6, 9, timeout_ms=4)
    assert not cluster.turns.run_until(lambda: False, 20)
    assert cluster.seen == [(0, "a begins"), (4, "a False"), (6, "a True"), (9, "a True")]
    assert branch.has_ended and not branch.is_cancelled


def test_a_branch_may_begin_another(cluster: Ticking) -> None:
    def work() -> None:
        cluster.waits("b", 3)
        cluster.turns.run_until(cluster.is_at(5), math.inf)
        cluster.see("a")

    cluster.turns.begin(work)
    cluster.turns.run_until(cluster.is_at(6), math.inf)
    assert cluster.seen[-2:] == [(3, "b True"), (5, "a")]


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_branch_that_is_ended_cleans_up_and_does_not_continue(
    cluster: Ticking, has_begun: bool
) -> None:
    def work() -> None:
        try:
            cluster.turns.run_until(cluster.is_at(2), math.inf)
            cluster.see("continued")
        finally:
            cluster.see("cleaned up")

    branch = cluster.turns.begin(work)
    if has_begun:
        cluster.turns.run_until(cluster.is_at(1), math.inf)
    cluster.turns.end(branch)
    cluster.turns.end(branch)
    assert branch.has_ended
    assert cluster.seen == ([(1, "cleaned up")] if has_begun else [])
    cluster.turns.run_until(cluster.is_at(3), math.inf)
    assert len(cluster.seen) == has_begun


def test_a_branch_may_end_another(cluster: Ticking) -> None:
    ended = cluster.waits("a", 3)

    def work() -> None:
        cluster.turns.run_until(cluster.is_at(2), math.inf)
        cluster.turns.end(ended)
        cluster.see("ended")

    cluster.turns.begin(work)
    cluster.turns.run_until(cluster.is_at(5), math.inf)
    assert cluster.seen == [(0, "a begins"), (2, "ended")]


def test_an_error_in_a_branch_is_the_main_programs(cluster: Ticking) -> None:
    def work() -> None:
        cluster.turns.run_until(cluster.is_at(2), math.inf)
        raise ValueError("no")

    branch = cluster.turns.begin(work)
    with pytest.raises(ValueError, match="no"):
        cluster.turns.run_until(cluster.is_at(5), math.inf)
    assert (cluster.now_ms, branch.has_ended) == (2, True)
    assert cluster.turns.run_until(cluster.is_at(5), math.inf)


@pytest.mark.parametrize("has_branch", [True, False])
def test_observers_see_every_step(cluster: Ticking, has_branch: bool) -> None:
    times: list[float] = []
    cluster.turns.observers.append(lambda: times.append(cluster.now_ms))
    if has_branch:
        cluster.waits("a", 2)
    cluster.turns.run_until(cluster.is_at(3), math.inf)
    assert sorted(set(times)) == [0, 1, 2, 3]


def test_an_observer_that_a_branch_adds_sees_the_steps_from_then_on(cluster: Ticking) -> None:
    times: list[float] = []

    def work() -> None:
        cluster.turns.run_until(cluster.is_at(2), math.inf)
        cluster.turns.observers.append(lambda: times.append(cluster.now_ms))

    cluster.turns.begin(work)
    cluster.turns.run_until(cluster.is_at(4), math.inf)
    assert sorted(set(times)) == [3, 4]
