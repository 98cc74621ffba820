"""Events run in greenlets that are used again."""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent, greenlet

from klamm.cluster.requests import Address
from klamm.world.actors import Actor, Scheduler


class Calls(Actor):
    """An actor whose events are functions without arguments."""

    def run_event(self) -> None:
        event = self.inbox.popleft()
        assert callable(event)
        event()


def scheduler_of(*actors: Calls) -> tuple[Scheduler, list[str]]:
    errors: list[str] = []
    scheduler = Scheduler(lambda actor, error: errors.append(f"{actor.address.id}: {error}"))
    for actor in actors:
        scheduler.add(actor)
    return scheduler, errors


def run(scheduler: Scheduler, actor: Calls, event: Callable[[], object]) -> None:
    actor.give(event)
    scheduler.resume(actor)


def test_the_events_of_all_actors_run_in_the_same_greenlet_if_none_yields() -> None:
    one, other = Calls(Address("broker", 1)), Calls(Address("broker", 2))
    scheduler, _ = scheduler_of(one, other)
    used: list[greenlet] = []
    for actor in (one, other, one):
        run(scheduler, actor, lambda: used.append(getcurrent()))
        assert actor.task is None
    assert used[0] is used[1] is used[2] is not getcurrent()


def test_an_event_that_yielded_keeps_its_greenlet_while_others_run() -> None:
    one, other = Calls(Address("broker", 1)), Calls(Address("broker", 2))
    scheduler, _ = scheduler_of(one, other)
    seen: list[str] = []

    def slow() -> None:
        seen.append("begun")
        scheduler.yield_control()
        seen.append("continued")

    run(scheduler, one, slow)
    run(scheduler, other, lambda: seen.append("other"))
    assert one.task is not None
    scheduler.resume(one)
    assert seen == ["begun", "other", "continued"] and one.task is None


def test_an_event_that_fails_costs_only_its_greenlet() -> None:
    one, other = Calls(Address("broker", 1)), Calls(Address("broker", 2))
    scheduler, errors = scheduler_of(one, other)
    seen: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    for actor in (one, other):
        run(scheduler, actor, fail)
        run(scheduler, actor, lambda: seen.append(1))
        assert actor.task is None
    assert errors == ["1: no", "2: no"] and seen == [1, 1]


def test_yielding_returns_to_the_greenlet_that_resumed_the_event() -> None:
    """A branch of a drill begins an event, and the main program continues it."""
    actor = Calls(Address("broker", 1))
    scheduler, _ = scheduler_of(actor)
    seen: list[str] = []

    def event() -> None:
        for number in (1, 2):
            seen.append(f"part {number}")
            scheduler.yield_control()

    def begin() -> None:
        run(scheduler, actor, event)
        seen.append("branch")

    greenlet(begin).switch()
    for _ in range(2):
        scheduler.resume(actor)
        seen.append("main")
    assert seen == ["part 1", "branch", "part 2", "main", "main"]
