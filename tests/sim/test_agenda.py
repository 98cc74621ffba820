"""Who may go on is known without asking everybody, and is who would have been found by asking."""

from __future__ import annotations

from klamm.cluster.requests import Address
from tests.sim.worlds import create_topic, three_brokers


def test_the_agenda_and_the_scheduler_find_the_same_actors() -> None:
    world = three_brokers()
    create_topic(world, "t", {n: (n % 3, (n + 1) % 3) for n in range(9)})
    world.kill(1)
    several = 0
    for step in range(2_000):
        found = world._agenda.runnable()
        assert found == world.scheduler.runnable(world.clock)
        several += len(found) > 1
        world.do_next(found)
        if step == 500:
            world.start(1)
    assert several > 5
    assert not world.errors


def test_an_actor_that_waits_for_its_timer_is_not_asked() -> None:
    world = three_brokers()
    world.run_for(60_000)
    broker = world.scheduler.actors[Address("broker", 1)]
    asked: list[float] = []

    def next_due_ms() -> None:
        asked.append(world.clock.monotonic_ms())

    broker.next_due_ms = next_due_ms  # type: ignore[method-assign]
    world.run_for(3_600_000)
    assert set(asked) <= {63_000.0}, "only at the beginning"
