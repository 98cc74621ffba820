"""The JSON Schema of drills: what the compiler accepts is valid, and shapes it refuses are not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from docs.generate import ROOT, SCHEMA
from klamm.cli.main import main
from klamm.lab.actions.table import ACTIONS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.triggers import TRIGGERS
from klamm.lab.drills.library import BUGS, NAMES, named_text
from klamm.lab.hunt.drawing import draw_drill
from klamm.lab.language.schema import drill_schema
from tests.unit.lab.test_language import ACTION_CASES

DOCUMENTATION = ROOT / "docs" / "drills.md"


class Loader(yaml.SafeLoader):
    """Loads YAML as editors do, by the rules of JSON: `on` is text."""


Loader.yaml_implicit_resolvers = {
    first: [one for one in found if one[0] != "tag:yaml.org,2002:bool"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), ["t", "f"])


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(drill_schema())
    return Draft202012Validator(drill_schema())


def problems(validator: Draft202012Validator, text: str) -> list[str]:
    # In JSON, names such as broker ids are text.
    value = json.loads(json.dumps(yaml.load(text, Loader)))  # noqa: S506
    return [error.message for error in validator.iter_errors(value)]


def step(line: str) -> str:
    return f"drill: d\nabout: x\nsteps:\n  - {line}\n"


def test_shipped_documented_and_hunted_drills_are_valid(validator: Draft202012Validator) -> None:
    texts = [named_text(name) for name in (*NAMES, *BUGS)]
    blocks = DOCUMENTATION.read_text(encoding="utf-8").split("```yaml\n")[1:]
    texts += [block.partition("```")[0] for block in blocks if block.startswith("drill:")]
    texts += [draw_drill(seed) for seed in range(20)]
    assert [problems(validator, text) for text in texts] == [[]] * len(texts)


def test_every_action_condition_and_trigger_is_valid(validator: Draft202012Validator) -> None:
    lines = [*ACTION_CASES, *(kind.example for kind in ACTIONS.values())]
    lines += [f"expect: {{{kind.example}}}" for kind in CONDITIONS.values()]
    lines += [f"{{{kind.example}, kill: 1}}" for kind in TRIGGERS.values()]
    assert {line: problems(validator, step(line)) for line in lines} == {line: [] for line in lines}


@pytest.mark.parametrize(
    "line",
    [
        "kil: 1",
        "kill",
        "kill: bob",
        "{kill: 1, repeat: 0}",
        "{kill: 1, repeat: 1001}",
        "{kill: 1, start: 1}",
        "{at: 1s, every: 2s, kill: 1}",
        "{kill: 1, within: 1s}",
        "{before: {event: TopicDeletion, operation: 0}, kill: 1}",
        "{for_each: racks, kill: each}",
        "{before: B9, kill: 1}",
        "{before: {event: TopicDelet}, kill: 1}",
        "{on: {knd: event}, kill: 1}",
        "{at: soon, kill: 1}",
        "{until: {leadr: {t-0: 1}}}",
        "{until: {exit_code: 1}}",
        "{until: {leader: {t: 1}}}",
        "{fail_disk: {broker: 1, kind: eioo}}",
        "{slow_disk: {broker: 1}}",
        "{degrade_network: {loss: 1.5}}",
        "{move_controller: 1}",
        "{steps: []}",
        "{kill: []}",
        "{for_each: [], kill: each}",
        "{parallel: [kill: 1]}",
        "{until: {}}",
        "{until: {healthy: true}, within: 0s}",
        "{until: {healthy: true}, within: 0.00 min}",
        "{at: {step: 0}, kill: 1}",
        "{at: {step: 1, wait: 1s, advance: 2}, kill: 1}",
        "{produce: {t-0: 1000001}}",
        "{skew_clock: {broker: 1, ms: 86400001}}",
        "{reassign: {t-0: []}}",
        "{on: {}, kill: 1}",
        "{on: {to: OflinePartition}, kill: 1}",
        "{expect: {journal: {leader: x}}}",
        "{expect: {journal: {isr: [x]}}}",
        "{parallel: [kil: 1, kill: 2]}",
    ],
)
def test_a_wrong_step_is_invalid(validator: Draft202012Validator, line: str) -> None:
    assert problems(validator, step(line))


def test_a_wrong_file_is_invalid(validator: Draft202012Validator) -> None:
    for words in (
        "alwais: all",
        "always: weak-is",
        "sometimes: {leadr: {}}",
        "cluster: {broker: 3}",
        "cluster: {brokers: 101}",
        "cluster: {topics: {'a b': [[0]]}}",
        "cluster: {topics: {t: [[]]}}",
        "always: []",
        "eventually: {}",
        "eventually: {within: 1s}",
    ):
        assert problems(validator, f"{step('kill: 1')}{words}\n"), words
    assert problems(validator, "drill: d\nsteps: [kill: 1]\n") == ["'about' is a required property"]


def test_words_have_the_descriptions_of_the_documentation() -> None:
    schema: dict[str, Any] = drill_schema()
    words = schema["$defs"]["step"]["anyOf"][1]["properties"]
    assert words["power_off"]["description"] == ACTIONS["power_off"].about
    assert schema["$defs"]["conditions"]["properties"]["isr"]["description"]


def test_the_command_prints_the_schema_that_is_in_the_documentation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["drill", "schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed) == drill_schema()
    assert (ROOT / SCHEMA).read_text(encoding="utf-8") == printed, "the schema is stale: make docs"
