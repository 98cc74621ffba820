"""Rates, ends and progress of flows and copies in the fluid model of bandwidth, for tests."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from klamm.brokers.bandwidth.copying import CopyId, Copying
from klamm.brokers.bandwidth.model import PARTS_PER_US, Flow, FluidModel, Resource

Id = TypeVar("Id", bound=Hashable)


def model_of(capacities: Mapping[Resource, int], now_ms: float = 0) -> FluidModel:
    """A model with these capacities and no flows."""
    model = FluidModel(now_ms)
    for resource, bytes_per_s in capacities.items():
        model.set_capacity(resource, bytes_per_s)
    return model


def rates_in(model: FluidModel[Id]) -> dict[Id, Fraction]:
    """The rate of each flow in bytes per second, the oldest flow first."""
    model.next_completion_ms()  # computes the rates
    return {one.flow.id: Fraction(one.rate, PARTS_PER_US) for one in model._streams.values()}


def rates(flows: Iterable[Flow[Id]], capacities: Mapping[Resource, int]) -> dict[Id, Fraction]:
    """The rate of each flow, with these capacities."""
    model = model_of(capacities)
    for flow in flows:
        model.add(flow, 1)
    return rates_in(model)


def completions(model: FluidModel[Id], until_ms: float) -> list[tuple[Id, float]]:
    """Advance a model; each flow that completes, and when."""
    found = []
    while (next_ms := model.next_completion_ms()) is not None and next_ms <= until_ms:
        found += [(flow_id, next_ms) for flow_id in model.advance(next_ms)]
    assert model.advance(until_ms) == []
    return found


def in_progress(copying: Copying) -> list[tuple[CopyId, int]]:
    """Every copy in progress, and how many bytes it has transferred by now."""
    copying.on_timer()
    return [(copy_id, copying._model.carried_bytes(copy_id)) for copy_id in copying._copies]
