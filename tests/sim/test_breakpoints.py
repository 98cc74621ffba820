"""Breakpoints of a simulated world: which operations count, and who waits at them."""

from __future__ import annotations

from klamm.world.simulated.breakpoints import Breakpoint, Breakpoints
from tests.sim.worlds import active_controller, create_topic, three_brokers


def test_a_stop_does_not_run_a_controller_past_its_breakpoint() -> None:
    world = three_brokers()
    breakpoints = Breakpoints(world)
    operations = breakpoints.record()
    is_reached = breakpoints.add(Breakpoint(True, operation=3))
    create_topic(world, "t", {0: (1, 2, 0)})
    assert world.run_until(lambda: len(operations) == 1)
    world.stop(0)
    assert is_reached()
    assert len(operations) == 3
    assert 0 in world.nodes
    assert world.run_until(lambda: 0 not in world.nodes)
    assert len(operations) > 3


def test_an_operation_without_a_session_is_not_counted() -> None:
    world = three_brokers()
    operations = Breakpoints(world).record()
    create_topic(world, "t", {0: (1, 2, 0)})
    assert world.run_until(lambda: len(operations) == 1)
    world.expire_session(0)
    world.run_for(10_000)
    assert active_controller(world).context.assignments
    (first,) = (op for op in operations if (op.broker_id, op.event) == (0, operations[0].event))
    assert first is operations[0]
