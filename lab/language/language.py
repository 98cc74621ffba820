"""Compiler of the drill language: converts a YAML file to a Drill.

Every error is a UsageError with FILE:LINE:COLUMN, and with a suggestion for an unknown word.
clusters.py compiles the cluster, step_language.py the steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

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
from klamm.lab.language.step_language import STEP_WORDS, StepCompiler
from klamm.lab.language.value_reading import value_in
from klamm.lab.value_types import Text, section, words

_NAME: Final = "[a-z0-9]+(-[a-z0-9]+)*"
_Name = Annotated[Text, Meta(extra_json_schema={"type": "string", "pattern": f"^{_NAME}$"})]
_Invariant = Annotated[str, words("invariant", (ALL, *INVARIANTS))]
DRILL_WORDS: Final[Mapping[str, Any]] = {
    "drill": _Name,
    "about": Text,
    "cluster": section("cluster"),
    "tolerant": bool,
    "always": Annotated[list[_Invariant], Meta(min_length=1)],
    "sometimes": section("until"),
    "steps": section("steps"),
    "eventually": section("eventually"),
    "checks": bool,
}
"""Types of the values of a drill's words."""
MAX_BYTES: Final = 1_000_000
_MAX_NAME: Final = 100


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

        value = partial(value_in, reader, fields, DRILL_WORDS)
        name = value("drill")
        if not re.fullmatch(_NAME, name):
            raise reader.error(
                fields["drill"].value,
                f"the name '{name}' must be lower case",
                "as in leader-loss",
            )
        if len(name) > _MAX_NAME:
            raise reader.error(
                fields["drill"].value, f"the name is longer than {_MAX_NAME} characters"
            )
        about = " ".join(value("about").split())
        cluster, topics = DEFAULT_CLUSTER, list[DrillTopic]()
        if "cluster" in fields:
            cluster, topics = ClusterCompiler(reader).read(fields["cluster"].value)
        reader.cluster = cluster
        is_tolerant = value("tolerant", otherwise=False)
        compiler = StepCompiler(reader, is_tolerant=is_tolerant)
        place = reader.place(fields["cluster"].key) if "cluster" in fields else reader.place(root)
        preparation = (start_of(cluster, place), *map(creation_of, topics))
        compiled = (*preparation, *compiler.steps(value("steps")))
        sometimes: list[StepCheck] = []
        if (node := value("sometimes")) is not None:
            sometimes = compiler.conditions(node, Moment.SOMETIMES, 0.0)
        recovery = self._recovery(fields["eventually"], compiler) if "eventually" in fields else ()
        always = value("always", otherwise=())
        drill = Drill(
            name=name,
            about=about,
            cluster=cluster,
            steps=compiled,
            preparations=len(preparation),
            sometimes=tuple(sometimes),
            recovery=recovery,
            is_checked=value("checks", otherwise=True),
            is_tolerant=is_tolerant,
            always=tuple(name for name in INVARIANTS if {ALL, name}.intersection(always)),
            source=reader.name,
        )
        _check_triggers(drill.steps[drill.preparations :])
        return drill

    def _recovery(self, entry: YamlEntry, compiler: StepCompiler) -> tuple[Step, ...]:
        """Return the steps of ``eventually``: end every fault, then wait for the conditions."""
        reader = self._reader
        fields = reader.fields(entry.value, "eventually", ("within", *CONDITIONS))
        timeout_ms = value_in(reader, fields, STEP_WORDS, "within", STEP_TIMEOUT_MS)
        fields.pop("within", None)
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
