"""Flows whose rates and arrivals can be worked out by hand."""

from __future__ import annotations

import copy
import time
from fractions import Fraction

import pytest

from klamm.brokers.bandwidth.copying import Copying, ReplicaCopy
from klamm.brokers.bandwidth.model import UNLIMITED, Flow, Resource, ResourceKind
from klamm.cluster.types import TopicPartition
from tests.bandwidth import completions, model_of, rates, rates_in
from tests.conformance.factories import ManualClock

MB = 1_000_000
A, B, C = (Resource(ResourceKind.NETWORK_OUT, broker_id) for broker_id in range(3))


def test_one_flow_gets_all_of_a_link() -> None:
    assert rates([Flow("f", (A,))], {A: 125 * MB}) == {"f": 125 * MB}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 13, 20])
def test_flows_share_a_link_alike(count: int) -> None:
    flows = [Flow(i, (A,)) for i in range(count)]
    assert rates(flows, {A: 100}) == dict.fromkeys(range(count), Fraction(100, count))


def test_a_share_that_does_not_come_out_even_is_a_trifle_too_small() -> None:
    found = rates([Flow(i, (A,)) for i in range(23)], {A: 100})
    assert set(found.values()) == {found[0]}
    assert 0 < Fraction(100, 23) - found[0] < Fraction(1, 10**8)


def test_a_flow_over_two_links_gets_the_share_of_its_slower_link() -> None:
    """One flow passes both links, and each link has one of its own."""
    flows = [Flow("long", (A, B)), Flow("a", (A,)), Flow("b", (B,))]
    assert rates(flows, {A: 100, B: 100}) == {"long": 50, "a": 50, "b": 50}
    assert rates(flows, {A: 100, B: 30}) == {"long": 15, "a": 85, "b": 15}


def test_a_flow_limited_on_one_link_leaves_its_share_of_the_next_to_others() -> None:
    flows = [Flow("ab", (A, B)), Flow("a", (A,)), Flow("bc", (B, C)), Flow("c", (C,))]
    found = rates(flows, {A: 20, B: 60, C: 80})
    assert found == {"ab": 10, "a": 10, "bc": 40, "c": 40}


def test_a_flow_that_is_limited_elsewhere_leaves_the_rest_to_the_others() -> None:
    flows = [Flow("small", (A, B)), Flow("x", (A,)), Flow("y", (A,))]
    assert rates(flows, {A: 100, B: 10}) == {"small": 10, "x": 45, "y": 45}
    assert rates(flows, {A: 30, B: 10}) == {"small": 10, "x": 10, "y": 10}
    assert rates(flows, {A: 15, B: 10}) == {"small": 5, "x": 5, "y": 5}


def test_a_resource_that_is_named_twice_is_used_twice() -> None:
    assert rates([Flow("move", (A, A)), Flow("f", (A,))], {A: 90}) == {"move": 30, "f": 30}


def test_a_resource_without_a_capacity_does_not_limit() -> None:
    assert rates([Flow("f", (A, B)), Flow("g", (B,)), Flow("h", ())], {A: 7}) == {
        "f": 7,
        "g": UNLIMITED,
        "h": UNLIMITED,
    }


def test_a_closed_resource_stops_its_flows_for_good() -> None:
    model = model_of({A: 0})
    model.add(Flow("f", (A, B)), 1)
    assert (rates_in(model)["f"], model.next_completion_ms()) == (0, None)
    assert model.advance(1e9) == []
    assert model.carried_bytes("f") == 0


def test_counted_traffic_reserves_bandwidth_and_is_never_limited() -> None:
    counted = Flow("in sync", (B, C), counted_by=(A,))
    flows = [counted, Flow("x", (A, B)), Flow("y", (A, B))]
    assert rates(flows, {A: 50, B: 1000, C: 30}) == {"in sync": 30, "x": 10, "y": 10}
    assert rates(flows, {A: 20, B: 1000, C: 30}) == {"in sync": 30, "x": 0, "y": 0}
    assert rates(flows, {A: 50, B: 24, C: 30}) == {"in sync": 8, "x": 8, "y": 8}
    assert rates(flows, {A: 50}) == {"in sync": UNLIMITED, "x": 0, "y": 0}


def test_arrivals_are_exact_and_what_becomes_free_is_shared_at_once() -> None:
    model = model_of({A: 100})
    for name, size_bytes in (("a", 100), ("b", 200), ("c", 300)):
        model.add(Flow(name, (A,)), size_bytes)
    at_once = copy.deepcopy(model)
    assert completions(model, 10_000.0) == [("a", 3000.0), ("b", 5000.0), ("c", 6000.0)]
    assert at_once.advance(5999.0) == ["a", "b"]
    assert at_once.next_completion_ms() == 6000.0
    assert (rates_in(model), model.next_completion_ms()) == ({}, None)


def test_an_arrival_between_two_microseconds_is_at_the_later_one() -> None:
    model = model_of({A: 3 * MB})
    model.add(Flow("f", (A,)), 10)
    assert model.next_completion_ms() == 0.004
    assert model.advance(0.003) == []
    assert model.advance(0.004) == ["f"]


def test_flows_that_arrive_together_are_ordered_by_age() -> None:
    model = model_of({A: 100, B: 50})
    for name, link in (("z", A), ("m", B), ("a", A)):
        model.add(Flow(name, (link,)), 50)
    assert model.advance(1000.0) == ["z", "m", "a"]


def test_a_flow_follows_the_capacity_that_its_resource_has_at_the_time() -> None:
    model = model_of({A: 100}, now_ms=500.0)
    model.add(Flow("f", (A,)), 1000)
    assert model.advance(4500.0) == []
    assert model.carried_bytes("f") == 400
    model.set_capacity(A, 300)
    assert model.next_completion_ms() == 6500.0
    model.set_capacity(A, 0)
    assert model.next_completion_ms() is None
    assert model.advance(9000.0) == []
    model.set_capacity(A, UNLIMITED)
    assert completions(model, 9001.0) == [("f", 9000.001)]


def test_a_flow_that_comes_and_goes_slows_the_other_meanwhile() -> None:
    model = model_of({A: 100})
    model.add(Flow("f", (A,)), 1000)
    model.advance(2000.0)
    model.add(Flow("other", (A,)), 1000)
    model.advance(6000.0)
    assert model.carried_bytes("other") == 200
    assert model.remove("other") == 200
    assert completions(model, 1e6) == [("f", 12_000.0)]


def test_a_flow_that_changes_keeps_what_it_has_carried() -> None:
    model = model_of({A: 100, B: 10})
    model.add(Flow("f", (A,)), 1000)
    model.advance(5000.0)
    model.change(Flow("f", (B,)))
    model.add(Flow("g", (A,)), 100)
    assert completions(model, 1e6) == [("g", 6000.0), ("f", 55_000.0)]


def test_an_empty_flow_arrives_at_once() -> None:
    model = model_of({A: 0}, now_ms=7.0)
    model.add(Flow("f", (A,)), 0)
    assert model.advance(7.0) == ["f"]


def test_a_year_of_thirds_loses_not_a_byte() -> None:
    model = model_of({A: 100 * MB})
    for i in range(3):
        model.add(Flow(i, (A,)), 10**18)
    year_s = 365 * 86_400
    for step in range(1, 1001):
        model.advance(year_s * step)
    assert [model.carried_bytes(i) for i in range(3)] == [year_s * 100 * MB // 3] * 3


def test_a_copy_of_the_model_continues_like_the_original() -> None:
    model = model_of({Resource(ResourceKind.DISK, i): 100 + i for i in range(301)})
    for i in range(300):
        path = (Resource(ResourceKind.DISK, i), Resource(ResourceKind.DISK, i + 1))
        model.add(Flow(i, path), 1000 + i)
    model.advance(1000.0)
    twin = copy.deepcopy(model)
    expected = model.advance(25_000.0)
    assert len(expected) == 300
    assert twin.advance(25_000.0) == expected


def test_flows_without_a_common_resource_are_not_computed_again() -> None:
    links = [Resource(ResourceKind.DISK, i) for i in range(1000)]
    model = model_of(dict.fromkeys(links, 100))
    for i in range(5000):
        model.add(Flow(i, (links[i // 5],)), 10**9)

    def cost_s() -> float:
        begun = time.process_time()
        model.next_completion_ms()
        return time.process_time() - begun

    all_s = cost_s()
    one_s = []
    for i in range(5):
        model.set_capacity(links[i], 50)
        one_s.append(cost_s())
    assert rates_in(model)[0] == 10
    assert min(one_s) < all_s / 20


def test_of_two_links_that_fill_together_the_first_by_name_is_rounded() -> None:
    flows = [Flow(i, (A,) if i < 22 else (B,)) for i in range(67)]
    flows.insert(22, Flow(67, (A, B)))
    found = rates(flows, {A: 3, B: 6})
    assert rates(flows[::-1], {B: 6, A: 3}) == found
    assert set(found.values()) == {found[67]}


def test_a_flow_that_ends_unobserved_leaves_nothing() -> None:
    model = model_of({A: 100})
    model.add(Flow("short", (A,)), 100)
    assert model.remove("short") == 0
    assert (model.advance(5000.0), rates_in(model)) == ([], {})


def test_many_changes_of_rate_do_not_move_the_end() -> None:
    model = model_of({A: 100})
    model.add(Flow("f", (A,)), 100_000)
    for step in range(1, 1001):
        model.set_capacity(A, 100 + step % 2)
        assert model.next_completion_ms() is not None
        assert model.advance(step * 500.0) == []
    assert model.carried_bytes("f") == 500 * 100.5
    model.set_capacity(A, 100)
    assert completions(model, 1e6) == [("f", 997_500.0)]


def test_impossible_flows_capacities_and_times_are_refused() -> None:
    model = model_of({A: 100}, now_ms=10.0)
    model.add(Flow("f", (A,)), 1)
    with pytest.raises(AssertionError, match="flow f already exists"):
        model.add(Flow("f", (A,)), 1)
    with pytest.raises(AssertionError, match="flow g: negative size -1"):
        model.add(Flow("g", (A,)), -1)
    with pytest.raises(AssertionError, match=r"negative capacity of .*: -1 bytes per second"):
        model.set_capacity(A, -1)
    with pytest.raises(AssertionError, match=r"time went backwards from 10000 to 9000 us"):
        model.advance(9.0)


def test_a_leader_that_dies_gives_its_reserved_bandwidth_back() -> None:
    clock, link = ManualClock(), Resource(ResourceKind.NETWORK_IN, 2)
    copying = Copying(clock, [].append)
    copying.set_capacities({link: 100})
    copying.reserve(TopicPartition("t", 0), 1, {link: 100})
    copy_of_t1 = ReplicaCopy(TopicPartition("t", 1), 3, 2)
    assert copying.begin(Flow(copy_of_t1, (link,)), 50)
    assert copying.next_due_ms() is None, "nothing is left of the link"
    copying.cut(1)
    assert copying.next_due_ms() == clock.monotonic_ms() + 500.0
