"""What holds of fluid flows on any network, and of a model after any sequence of changes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from klamm.brokers.bandwidth.model import UNLIMITED, Flow, FluidModel, Resource, ResourceKind, rates

RESOURCES = [Resource(kind, broker) for kind in list(ResourceKind)[:3] for broker in range(2)]
ROUNDED = Fraction(1, 200_000_000)
"""More than what rounding takes from one flow, bytes a second."""

resources = st.sampled_from(RESOURCES)
paths = st.lists(resources, max_size=4).map(tuple)
figures = st.integers(0, 40) | st.sampled_from([77, 1000, 10**9, UNLIMITED])
capacities = st.dictionaries(resources, figures)
counters = st.lists(resources, max_size=1).map(tuple)


@st.composite
def flows(draw: st.DrawFn, counted: bool = False) -> list[Flow[int]]:
    return [
        Flow(i, draw(paths), draw(figures), counted_by=draw(counters) if counted else ())
        for i in range(draw(st.integers(0, 9)))
    ]


def passing(resource: Resource, found: list[Flow[int]]) -> list[Flow[int]]:
    """The flows that pass a resource, each as often as it does."""
    return [flow for flow in found for name in flow.resources if name == resource]


@settings(max_examples=300)
@given(flows(), capacities)
def test_rates_are_feasible_and_max_min_fair(
    found: list[Flow[int]], limits: dict[Resource, int]
) -> None:
    """Each flow has what it wants, or passes a full resource on which nobody is faster."""
    rate = rates(found, limits)
    full_for: set[int] = set()
    for resource, capacity in limits.items():
        users = passing(resource, found)
        free = capacity - sum(rate[flow.id] for flow in users)
        assert free >= 0 or capacity == UNLIMITED
        if users and free < len(users) * ROUNDED:
            fastest = max(rate[flow.id] for flow in users)
            full_for.update(flow.id for flow in users if rate[flow.id] == fastest)
    for flow in found:
        assert rate[flow.id] <= flow.demand_bytes_per_s
        assert rate[flow.id] == flow.demand_bytes_per_s or flow.id in full_for


@settings(max_examples=200)
@given(flows(counted=True), capacities, st.randoms(use_true_random=False))
def test_no_order_matters(found: list[Flow[int]], limits: dict[Resource, int], rng: Random) -> None:
    others, shuffled = list(found), list(limits.items())
    rng.shuffle(others)
    rng.shuffle(shuffled)
    assert rates(others, dict(shuffled)) == rates(found, limits)


class Changes(RuleBasedStateMachine):
    """A model, and a twin that lives through the same in smaller steps."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.twin = FluidModel[int](), FluidModel[int]()
        self.limits: dict[Resource, int] = {}
        self.flows: dict[int, Flow[int]] = {}
        self.due: dict[int, Fraction] = {}
        self.unsized: set[int] = set()
        self.next_id = 0

    @rule(
        path=paths,
        demand=figures,
        counted_by=counters,
        size=st.none() | st.integers(0, 500),
    )
    def add(self, path, demand, counted_by, size) -> None:
        flow = Flow(self.next_id, path, demand, counted_by)
        self.next_id += 1
        self.flows[flow.id] = flow
        self.due[flow.id] = Fraction(size or 0)
        if size is None:
            self.unsized.add(flow.id)
        self.model.add(flow, size)
        self.twin.add(flow, size)

    @precondition(lambda self: self.flows)
    @rule(data=st.data(), path=paths, demand=figures, counted_by=counters)
    def change(self, data, path, demand, counted_by) -> None:
        old = self.flows[data.draw(st.sampled_from(sorted(self.flows)))]
        new = replace(old, resources=path, demand_bytes_per_s=demand, counted_by=counted_by)
        self.flows[new.id] = new
        self.model.change(new)
        self.twin.change(new)

    @precondition(lambda self: self.flows)
    @rule(data=st.data())
    def remove(self, data) -> None:
        flow_id = data.draw(st.sampled_from(sorted(self.flows)))
        del self.flows[flow_id]
        assert self.model.remove(flow_id) == self.twin.remove(flow_id)

    @rule(resource=resources, capacity=figures)
    def set_capacity(self, resource, capacity) -> None:
        self.limits[resource] = capacity
        self.model.set_capacity(resource, capacity)
        self.twin.set_capacity(resource, capacity)

    @rule(elapsed_ms=st.integers(0, 20_000), steps=st.integers(2, 5))
    def advance(self, elapsed_ms, steps) -> None:
        begun_ms = self.model.now_ms
        completed = self.model.advance(begun_ms + elapsed_ms)
        in_steps = [
            end
            for step in range(1, steps + 1)
            for end in self.twin.advance(begun_ms + elapsed_ms * step / steps)
        ]
        assert in_steps == completed
        assert [end.at_ms for end in completed] == sorted(end.at_ms for end in completed)
        for end in completed:
            gone = self.flows.pop(end.flow_id)
            assert abs(end.carried_bytes - self.due[gone.id]) < 1

    @invariant()
    def rates_are_those_of_a_new_model(self) -> None:
        assert self.model.rates() == rates(self.flows.values(), self.limits) == self.twin.rates()

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.model) == len(self.flows)
        for flow_id in self.flows:
            carried = self.model.carried_bytes(flow_id)
            left = self.model.left_bytes(flow_id)
            assert (carried, left) == (
                self.twin.carried_bytes(flow_id),
                self.twin.left_bytes(flow_id),
            )
            if flow_id in self.unsized:
                assert left is None
            else:
                assert left is not None
                assert abs(carried + left - self.due[flow_id]) < 1

    @invariant()
    def the_next_end_is_in_the_future(self) -> None:
        next_ms = self.model.next_completion_ms()
        assert next_ms == self.twin.next_completion_ms()
        assert next_ms is None or next_ms >= self.model.now_ms


Changes.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestChanges = Changes.TestCase
