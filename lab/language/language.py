"""Compiler of the drill language: converts a YAML file to a Drill.

Every error is a UsageError with FILE:LINE:COLUMN, and with a suggestion for an unknown word.
clusters.py compiles the cluster, step_language.py the steps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.yaml_reader import YamlEntry, read_text
from klamm.lab.actions.steps import HealAll
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.conditions.condition import Moment, StepCheck
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.triggers import AtStep
from klamm.lab.drill import DEFAULT_CLUSTER, Drill, Step
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS
from klamm.lab.language.clusters import ClusterCompiler, DrillTopic, creation_of, start_of
from klamm.lab.language.forms import ALL
from klamm.lab.language.reading import FAST_LOADER, DrillReader
from klamm.lab.language.step_language import StepCompiler

DRILL_WORDS: Final = (
    "drill",
    "about",
    "cluster",
    "tolerant",
    "always",
    "sometimes",
    "steps",
    "eventually",
    "checks",
)
MAX_BYTES: Final = 1_000_000
_MAX_NAME: Final = 100
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def read_drill(path: Path) -> Drill:
    """Read and compile the drill in a file. Raises UsageError if it is invalid."""
    return parse_drill(read_text(path), str(path))


def parse_drill(text: str, source: str) -> Drill:
    """Compile the text of a drill. Raises UsageError if it is invalid.

    ``source`` is the name of the file in error messages.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise UsageError(f"{source}: a drill has at most {MAX_BYTES} bytes")
    try:
        return _File(DrillReader(source, FAST_LOADER)).read(text)
    except UsageError:
        return _File(DrillReader(source)).read(text)


class _File:
    """Compiler of one drill file."""

    def __init__(self, reader: DrillReader) -> None:
        self._reader = reader

    def read(self, text: str) -> Drill:
        reader = self._reader
        root = reader.compose(text)
        fields = reader.fields(root, "a drill", DRILL_WORDS)
        for needed in ("drill", "about", "steps"):
            if needed not in fields:
                raise reader.error(root, f"a drill requires '{needed}'")
        name = reader.text(fields["drill"].value, "the drill's name")
        if not _NAME.fullmatch(name):
            raise reader.error(
                fields["drill"].value,
                f"the name '{name}' must be lower case",
                "as in leader-loss",
            )
        if len(name) > _MAX_NAME:
            raise reader.error(
                fields["drill"].value, f"the name is longer than {_MAX_NAME} characters"
            )
        about = " ".join(reader.text(fields["about"].value, "about").split())
        cluster, topics = DEFAULT_CLUSTER, list[DrillTopic]()
        if "cluster" in fields:
            cluster, topics = ClusterCompiler(reader).read(fields["cluster"].value)
        reader.cluster = cluster
        is_tolerant = "tolerant" in fields and reader.boolean(fields["tolerant"].value, "tolerant")
        compiler = StepCompiler(reader, is_tolerant=is_tolerant)
        place = reader.place(fields["cluster"].key) if "cluster" in fields else reader.place(root)
        preparation = (start_of(cluster, place), *map(creation_of, topics))
        compiled = (*preparation, *compiler.steps(fields["steps"].value))
        sometimes: list[StepCheck] = []
        if "sometimes" in fields:
            node = fields["sometimes"].value
            sometimes = compiler.conditions(node, Moment.SOMETIMES, 0.0)
        recovery = self._recovery(fields["eventually"], compiler) if "eventually" in fields else ()
        drill = Drill(
            name=name,
            about=about,
            cluster=cluster,
            steps=compiled,
            preparations=len(preparation),
            sometimes=tuple(sometimes),
            recovery=recovery,
            is_checked="checks" not in fields or reader.boolean(fields["checks"].value, "checks"),
            is_tolerant=is_tolerant,
            always=self._always(fields["always"].value) if "always" in fields else (),
            source=reader.name,
        )
        _check_triggers(drill.steps[drill.preparations :])
        return drill

    def _always(self, node: yaml.Node) -> tuple[str, ...]:
        """Return the names of the invariants to check. The word ``all`` selects all invariants."""
        reader = self._reader
        if isinstance(node, yaml.ScalarNode) and node.value == ALL:
            return tuple(INVARIANTS)
        names = [reader.text(item, "an invariant") for item in reader.one_or_more(node)]
        if not names:
            raise reader.error(node, "always has no invariant", "as in always: all")
        for name, item in zip(names, reader.one_or_more(node), strict=True):
            if name not in INVARIANTS:
                raise reader.unknown(item, "invariant", name, INVARIANTS)
        return tuple(name for name in INVARIANTS if name in names)

    def _recovery(self, entry: YamlEntry, compiler: StepCompiler) -> tuple[Step, ...]:
        """Return the steps of ``eventually``: end every fault, then wait for the conditions."""
        reader = self._reader
        fields = reader.fields(entry.value, "eventually", ("within", *CONDITIONS))
        within = fields.pop("within", None)
        timeout_ms = STEP_TIMEOUT_MS
        if within is not None:
            timeout_ms = reader.time_limit_ms(within.value)
        checks = compiler.checks_of(fields, Moment.EVENTUALLY, timeout_ms)
        if not checks:
            raise reader.error(entry.value, "eventually has no condition", "as in healthy: true")
        place = reader.place(entry.key)
        return (Step("heal_all", (HealAll(),), (), place), Step("eventually", (), checks, place))


def _check_triggers(steps: Sequence[Step]) -> None:
    """Raise UsageError if there is no step at which a step of the drill's file is to run."""
    in_turn = sum(step.trigger is None for step in steps)
    for step in steps:
        if isinstance(step.trigger, AtStep) and step.trigger.step > in_turn + 1:
            raise UsageError(
                f"{step.place}: there is no step {step.trigger.step}",
                hint=f"{counted(in_turn, 'step')} without a trigger; {in_turn + 1} is their end",
            )
