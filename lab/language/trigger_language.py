"""Triggers of steps: one entry for each, with its text for the docs.

Each entry parses the YAML value of a trigger; lab/conditions/triggers.py waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import yaml

from klamm.lab.conditions.triggers import At, AtBreakpoint, AtStep, Every, OnRow, Trigger
from klamm.lab.language.reading import DrillReader
from klamm.lab.language.value_reading import journal_row
from klamm.statemachines.reassignment import Phase
from klamm.world.simulated.breakpoints import EVENTS, WRITING_PHASES, Breakpoint

_LEAST_INTERVAL_MS: Final = 10.0
_MAX_OPERATION: Final = 100_000


class TriggerKind(NamedTuple):
    """Parser and documentation of one kind of trigger."""

    read: Callable[[DrillReader, yaml.Node], Trigger]
    example: str
    about: str


def _at(reader: DrillReader, node: yaml.Node) -> Trigger:
    if not isinstance(node, yaml.MappingNode):
        return At(reader.duration_ms(node, "at"))
    fields = reader.fields(node, "a moment of the drill", ("step", "advance", "wait"))
    if "step" not in fields:
        raise reader.error(node, "a moment of the drill requires 'step'", "as in {step: 2}")
    step = reader.integer(fields["step"].value, "step", 1)
    if "advance" in fields and "wait" in fields:
        raise reader.error(fields["wait"].key, "give either advance or wait, but not both")
    if "wait" in fields:
        return AtStep(step, wait_ms=reader.duration_ms(fields["wait"].value, "wait"))
    if "advance" in fields:
        return AtStep(step, reader.integer(fields["advance"].value, "advance", 1))
    return AtStep(step)


def _every(reader: DrillReader, node: yaml.Node) -> Trigger:
    interval_ms = reader.duration_ms(node, "every")
    if interval_ms < _LEAST_INTERVAL_MS:
        raise reader.error(node, "every must be at least 10ms")
    return Every(interval_ms)


def _on(reader: DrillReader, node: yaml.Node) -> Trigger:
    return OnRow(journal_row(reader, node))


def _around(is_before: bool) -> Callable[[DrillReader, yaml.Node], Trigger]:
    def read(reader: DrillReader, node: yaml.Node) -> Trigger:
        if not isinstance(node, yaml.MappingNode):
            name = reader.text(node, "a controller step")
            phases = [phase.value for phase in WRITING_PHASES]
            if name not in phases:
                raise reader.unknown(node, "controller step", name, phases)
            return AtBreakpoint(Breakpoint(is_before, Phase(name)))
        fields = reader.fields(node, "a controller step", ("event", "operation"))
        if "event" not in fields:
            raise reader.error(node, "a controller step requires 'event'", "as in TopicDeletion")
        event = reader.text(fields["event"].value, "an event")
        if event not in EVENTS:
            raise reader.unknown(fields["event"].value, "controller event", event, EVENTS)
        operation = 1
        if "operation" in fields:
            value = fields["operation"].value
            operation = reader.integer(value, "operation", 1, _MAX_OPERATION)
        return AtBreakpoint(Breakpoint(is_before, None, event, operation))

    return read


TRIGGERS: Final[Mapping[str, TriggerKind]] = {
    "at": TriggerKind(
        _at,
        "at: 12s",
        "This long after the beginning of the first step. `at: {step: 2}`: just before the second "
        "step begins. `at: {step: 2, wait: 3s}` and `at: {step: 2, advance: 40}`: 3 s or 40 "
        "simulation steps after its beginning. Steps are counted as they run, without those that "
        "have a trigger. Moments with `step` are simulated only.",
    ),
    "every": TriggerKind(
        _every,
        "every: 5s",
        "Again and again, each time this long after the step has ended, until the last step of the "
        "drill has ended.",
    ),
    "on": TriggerKind(
        _on,
        "on: {kind: reassignment_phase, to: A2}",
        "When a row with these values is written to the journal.",
    ),
    "before": TriggerKind(
        _around(True),
        "before: B6",
        "Just before a controller step: a phase of a reassignment that writes to ZooKeeper ("
        + ", ".join(phase.value for phase in WRITING_PHASES)
        + "), or the n-th read or write of ZooKeeper in a controller event, as in "
        "`{event: TopicDeletion, operation: 3}`. Simulated only.",
    ),
    "after": TriggerKind(
        _around(False),
        "after: {event: TopicDeletion, operation: 3}",
        "Just after the ZooKeeper operation of a controller step, before the controller "
        "continues. Simulated only.",
    ),
}
"""All triggers, keyed by their names in drills."""
