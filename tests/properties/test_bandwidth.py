"""What holds of fluid flows on any network, and of a model after any sequence of changes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from klamm.brokers.bandwidth.model import UNLIMITED, Flow, Resource, ResourceKind
from tests.bandwidth import model_of, rates, rates_in

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
        Flow(i, draw(paths), counted_by=draw(counters) if counted else ())
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
    """Every flow is unlimited, or uses a saturated resource on which no flow has a higher rate."""
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
        assert rate[flow.id] <= UNLIMITED
        assert rate[flow.id] == UNLIMITED or flow.id in full_for


@settings(max_examples=200)
@given(flows(counted=True), capacities, st.randoms(use_true_random=False))
def test_rates_do_not_depend_on_the_order_of_flows_and_limits(
    found: list[Flow[int]], limits: dict[Resource, int], rng: Random
) -> None:
    others, shuffled = list(found), list(limits.items())
    rng.shuffle(others)
    rng.shuffle(shuffled)
    assert rates(others, dict(shuffled)) == rates(found, limits)


class Changes(RuleBasedStateMachine):
    """A model, and a twin that lives through the same in smaller steps."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.twin = model_of({}), model_of({})
        self.now_ms = 0.0
        self.limits: dict[Resource, int] = {}
        self.flows: dict[int, Flow[int]] = {}
        self.sizes: dict[int, int] = {}
        self.next_id = 0

    @rule(path=paths, counted_by=counters, size=st.integers(0, 500) | st.just(10**15))
    def add(self, path, counted_by, size) -> None:
        flow = Flow(self.next_id, path, counted_by)
        self.next_id += 1
        self.flows[flow.id] = flow
        self.sizes[flow.id] = size
        self.model.add(flow, size)
        self.twin.add(flow, size)

    @precondition(lambda self: self.flows)
    @rule(data=st.data(), path=paths, counted_by=counters)
    def change(self, data, path, counted_by) -> None:
        old = self.flows[data.draw(st.sampled_from(sorted(self.flows)))]
        new = replace(old, resources=path, counted_by=counted_by)
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
        begun_ms, self.now_ms = self.now_ms, self.now_ms + elapsed_ms
        completed = self.model.advance(self.now_ms)
        in_steps = [
            end
            for step in range(1, steps + 1)
            for end in self.twin.advance(begun_ms + elapsed_ms * step / steps)
        ]
        assert in_steps == completed
        for flow_id in completed:
            del self.flows[flow_id]

    @invariant()
    def rates_are_those_of_a_new_model(self) -> None:
        expected = rates(self.flows.values(), self.limits)
        assert rates_in(self.model) == rates_in(self.twin) == expected

    @invariant()
    def nothing_is_lost(self) -> None:
        for flow_id in self.flows:
            carried_bytes = self.model.carried_bytes(flow_id)
            assert carried_bytes == self.twin.carried_bytes(flow_id)
            assert 0 <= carried_bytes <= self.sizes[flow_id]

    @invariant()
    def the_next_end_is_in_the_future(self) -> None:
        next_ms = self.model.next_completion_ms()
        assert next_ms == self.twin.next_completion_ms()
        assert next_ms is None or next_ms >= self.now_ms


Changes.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestChanges = Changes.TestCase
