"""Compiler of the steps of a drill: converts the YAML nodes of steps to Step values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import yaml
from msgspec import Meta

from klamm.cluster.errors import UsageError
from klamm.cluster.yaml_reader import YamlEntry
from klamm.lab.actions.action import Action, BrokerRef, InRack
from klamm.lab.actions.steps import Advance, RunTool
from klamm.lab.actions.table import ACTIONS
from klamm.lab.conditions.condition import Condition, Moment, StepCheck, plain_text
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.triggers import TRIGGERS
from klamm.lab.drill import Quiesce, Step, every_step
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS
from klamm.lab.language.reading import DrillReader, is_null
from klamm.lab.language.value_reading import read_and_make, read_value, value_in
from klamm.lab.value_types import FileName, Text, TimeLimit, ZnodeData, section

MAX_STEPS: Final = 1_000
_GROUPS: Final = ("steps", "parallel")
_MANY: Final = ("repeat", "for_each")
STEP_WORDS: Final[Mapping[str, Any]] = {
    "name": Text,
    "until": section("until"),
    "within": TimeLimit,
    "expect": section("expect"),
    "files": dict[FileName, ZnodeData],
    "steps": section("steps"),
    "parallel": section("branches"),
    "repeat": Annotated[int, Meta(ge=1, le=MAX_STEPS)],
    "for_each": section("brokers or racks"),
    **{word: kind.value for word, kind in TRIGGERS.items()},
}
"""Types of the values of a step's words, except its action."""
_FILE: Final = re.compile(r"\{file:([^}]*)\}")


class StepCompiler:
    """Compiler of the steps of one drill."""

    def __init__(self, reader: DrillReader, *, is_tolerant: bool) -> None:
        self._reader = reader
        self._is_tolerant = is_tolerant
        self._compiled = 0

    def steps(self, node: yaml.Node, what: str = "steps") -> tuple[Step, ...]:
        """Compile a list of steps."""
        items = self._reader.items(node, what)
        if not items:
            raise self._reader.error(node, "the list of steps is empty")
        return tuple(step for item in items for step in self._steps_of(item))

    def step(self, node: yaml.Node) -> Step:
        """Compile a single step, which is not repeated."""
        (step,) = self._steps_of(node)
        return step

    def _steps_of(self, node: yaml.Node) -> tuple[Step, ...]:
        """Compile one item of a list of steps; ``repeat`` and ``for_each`` make several of it."""
        reader = self._reader
        if isinstance(node, yaml.ScalarNode):
            # An action without a value may be a plain word instead of a mapping.
            word = reader.text(node, "a step")
            if word not in ACTIONS:
                raise reader.unknown(node, "step", word, ACTIONS)
            nothing = yaml.ScalarNode("", "", node.start_mark)
            return (Step(word, self._actions(word, nothing), (), reader.place(node)),)
        fields = reader.fields(node, "a step", (*ACTIONS, *STEP_WORDS))
        count = value_in(reader, fields, STEP_WORDS, "repeat", 1)
        found: list[Step] = []
        outer = reader.each
        for each, text in self._each(fields):
            for number in range(1, count + 1):
                reader.each = outer if each is None else each
                words = [text] if text else []
                words += [f"{number} of {count}"] if count > 1 else []
                suffix = f" ({', '.join(words)})" if words else ""
                found += [_with_suffix(step, suffix) for step in self._once(node, fields)]
        reader.each = outer
        return self._triggered(fields, tuple(found))

    def _triggered(self, fields: dict[str, YamlEntry], found: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return the steps, or, if they have a trigger, one step that waits for it."""
        reader = self._reader
        words = [word for word in TRIGGERS if word in fields]
        if not words:
            return found
        if len(words) > 1:
            problem = f"a step has at most one trigger: give either {words[0]} or {words[1]}"
            raise reader.error(fields[words[1]].key, problem)
        key, value = fields[words[0]]
        if any(step.trigger is not None for step in every_step(found)):
            raise reader.error(key, "a step with a trigger is already inside a step with a trigger")
        self._check_no_advance((found,))
        kind = TRIGGERS[words[0]]
        trigger = read_and_make(reader, value, kind.value, kind.make, words[0])
        name = f"{words[0]} {plain_text(reader.plain(value))}"
        found = tuple(_with_suffix(step, f" ({name})") for step in found)
        return (Step(name, (), (), reader.place(key), (found,), trigger),)

    def _each(self, fields: dict[str, YamlEntry]) -> list[tuple[BrokerRef | None, str]]:
        """Return what ``each`` stands for in each pass of a step with ``for_each``, with a text."""
        if "for_each" not in fields:
            return [(None, "")]
        reader, node = self._reader, fields["for_each"].value
        if isinstance(node, yaml.SequenceNode):
            ids = reader.brokers(node)
            if not ids:
                raise reader.error(node, "for_each has no broker", "use broker, or a list of ids")
            return [(id_, f"broker {id_}") for id_ in ids]
        word = reader.text(node, "for_each")
        if word == "broker":
            return [(id_, f"broker {id_}") for id_ in reader.cluster.broker_ids]
        if word != "rack":
            raise reader.error(node, f"'{word}' is not a set", "use broker, rack, or a list of ids")
        racks = reader.cluster.racks
        if not racks:
            raise reader.error(node, "the cluster has no racks", "cluster: {racks: [a, b, c]}")
        return [(InRack(rack), f"rack {rack}") for rack in dict.fromkeys(racks.values())]

    def _once(self, node: yaml.Node, fields: dict[str, YamlEntry]) -> tuple[Step, ...]:
        """Compile one pass of a step: its ``steps``, its ``parallel`` branches, or its action."""
        reader = self._reader
        self._compiled += 1
        if self._compiled > MAX_STEPS:
            raise reader.error(node, f"the drill has more than {MAX_STEPS} steps")
        groups = [word for word in _GROUPS if word in fields]
        if not groups:
            return (self._step(node, fields),)
        for word, entry in fields.items():
            if word not in (groups[0], *_MANY, *TRIGGERS):
                raise reader.error(entry.key, f"'{word}' cannot be combined with '{groups[0]}'")
        value = fields[groups[0]].value
        if groups[0] == "steps":
            return self.steps(value)
        branches = tuple(
            self.steps(item, "a branch")
            if isinstance(item, yaml.SequenceNode)
            else self._steps_of(item)
            for item in reader.items(value, "parallel")
        )
        if len(branches) < 2:
            raise reader.error(value, "parallel needs at least two branches")
        self._check_no_advance(branches)
        for step in every_step(itertools.chain(*branches)):
            if step.trigger is not None:
                raise UsageError(
                    f"{step.place}: a step with a trigger cannot be inside 'parallel'",
                    hint="it runs beside the following steps anyway: put it before 'parallel'",
                )
        return (Step("parallel", (), (), reader.place(node), branches),)

    def _check_no_advance(self, branches: tuple[tuple[Step, ...], ...]) -> None:
        for step in every_step(itertools.chain(*branches)):
            if any(isinstance(action, Advance) for action in step.actions):
                raise UsageError(
                    f"{step.place}: advance is not possible in a branch, because it runs the "
                    "whole cluster",
                    hint="use wait: 10ms",
                )

    def _step(self, node: yaml.Node, fields: dict[str, YamlEntry]) -> Step:
        """Compile a step with an action or a condition."""
        reader = self._reader
        words = [word for word in fields if word in ACTIONS]
        if len(words) > 1:
            raise reader.error(
                fields[words[1]].key,
                f"a step has at most one action: give either {words[0]} or {words[1]}",
            )
        if "files" in fields and "run" not in words:
            raise reader.error(fields["files"].key, "'files' requires 'run' in the same step")
        actions: tuple[Action, ...] = ()
        if words:
            value = fields[words[0]].value
            actions = self._with_files(self._actions(words[0], value), value, fields)
        if not words and not fields.keys() & {"until", "expect"}:
            raise reader.error(node, "a step requires an action, 'until' or 'expect'")
        if "within" in fields and "until" not in fields:
            raise reader.error(
                fields["within"].key, "'within' is the timeout of 'until', which is missing here"
            )
        is_answered = any(action.HAS_RESULT for action in actions)
        checks = self._checks(fields, is_answered=is_answered)
        place = reader.place(fields[words[0]].key if words else node)
        return Step(self._step_name(fields, words), actions, checks, place)

    def _actions(self, word: str, node: yaml.Node) -> tuple[Action, ...]:
        kind = ACTIONS[word]
        return tuple(read_and_make(self._reader, node, kind.value, kind.make, word))

    def _step_name(self, fields: dict[str, YamlEntry], words: list[str]) -> str:
        if "name" in fields:
            return str(value_in(self._reader, fields, STEP_WORDS, "name"))
        if not words:
            return "wait" if "until" in fields else "look"
        value = fields[words[0]].value
        if is_null(value):
            return words[0]
        return f"{words[0]}: {plain_text(self._reader.plain(value))}"

    def _with_files(
        self, actions: tuple[Action, ...], value: yaml.Node, fields: dict[str, YamlEntry]
    ) -> tuple[Action, ...]:
        """Return the actions together with the contents of the step's ``files``.

        Raises UsageError if an argument refers to a missing file, or if a file is unused.
        """
        reader = self._reader
        given = value_in(reader, fields, STEP_WORDS, "files", {})
        files = {name: (data or b"").decode() for name, data in given.items()}
        tools = [action for action in actions if isinstance(action, RunTool)]
        named = {name for tool in tools for arg in tool.args for name in _FILE.findall(arg)}
        for name in files:
            if name not in named:
                raise reader.error(
                    fields["files"].key,
                    f"no argument of 'run' uses the file '{name}'",
                    "write {file:NAME} in the command",
                )
        for name in sorted(named - files.keys()):
            raise reader.error(value, f"file '{name}' is missing", "add it to the step's 'files'")
        return tuple(
            msgspec.structs.replace(action, files=files) if isinstance(action, RunTool) else action
            for action in actions
        )

    # -- checks

    def _checks(
        self, fields: dict[str, YamlEntry], *, is_answered: bool
    ) -> tuple[StepCheck | Quiesce, ...]:
        """Return the checks of a step: of the tool's result, then of ``until``, then of ``expect``.

        Before conditions of ``expect`` about the cluster are checked, the cluster must be idle.
        """
        reader = self._reader
        timeout_ms = value_in(reader, fields, STEP_WORDS, "within", STEP_TIMEOUT_MS)
        until, expect = (
            self.conditions(fields[moment.value].value, moment, timeout_ms)
            if moment.value in fields
            else []
            for moment in (Moment.UNTIL, Moment.EXPECT)
        )
        of_tool = [
            msgspec.structs.replace(check, is_required=True)
            for check in expect
            if CONDITIONS[check.condition.kind].is_of_tool
        ]
        of_cluster = [c for c in expect if not CONDITIONS[c.condition.kind].is_of_tool]
        if of_tool and not is_answered:
            raise UsageError(
                f"{of_tool[0].place}: the step has no action with an exit code and an output",
                hint="exit_code and output require run, reassign, cancel_reassignment or elect_*",
            )
        is_judged = is_answered and not self._is_tolerant
        if is_judged and all(c.condition.kind != "exit_code" for c in of_tool):
            of_tool.insert(0, _succeeded(fields, reader))
        quiesce = [Quiesce()] if of_cluster else []
        return (*of_tool, *until, *quiesce, *of_cluster)

    def conditions(self, node: yaml.Node, moment: Moment, timeout_ms: float) -> list[StepCheck]:
        """Compile a mapping of conditions, or a list of such mappings."""
        checks: list[StepCheck] = []
        for group in self._reader.one_or_more(node):
            entries = self._reader.fields(group, moment.value, CONDITIONS)
            checks += self.checks_of(entries, moment, timeout_ms)
        if not checks:
            raise self._reader.error(node, f"{moment.value} has no condition")
        return checks

    def checks_of(
        self, entries: Mapping[str, YamlEntry], moment: Moment, timeout_ms: float
    ) -> tuple[StepCheck, ...]:
        """Compile the conditions of one mapping."""
        reader = self._reader
        checks = []
        for kind, entry in entries.items():
            if moment is not Moment.EXPECT and CONDITIONS[kind].is_of_tool:
                raise reader.error(
                    entry.key, f"{kind} cannot be waited for", "put it under 'expect'"
                )
            wanted = read_value(reader, entry.value, CONDITIONS[kind].value, kind)
            condition = Condition(kind, wanted)
            is_required = moment is not Moment.EXPECT
            place = reader.place(entry.key)
            checks.append(StepCheck(moment, condition, timeout_ms, place, is_required))
        return tuple(checks)


def _with_suffix(step: Step, suffix: str) -> Step:
    if not suffix:
        return step
    branches = tuple(
        tuple(_with_suffix(inner, suffix) for inner in branch) for branch in step.branches
    )
    return msgspec.structs.replace(step, name=step.name + suffix, branches=branches)


def _succeeded(fields: dict[str, YamlEntry], reader: DrillReader) -> StepCheck:
    word = next(word for word in fields if word in ACTIONS)
    condition = Condition("exit_code", 0)
    return StepCheck(Moment.EXPECT, condition, place=reader.place(fields[word].key))
