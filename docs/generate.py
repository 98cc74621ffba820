"""Regenerate the generated sections of the documentation: `make docs`.

Text between ``<!-- generated: NAME -->`` and ``<!-- end -->`` comes from the code and from runs of
klamm; the rest of a page is written manually. tests/unit/docs fails for a stale page.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from docs import (
    bug_tables,
    client_tables,
    drill_tables,
    event_table,
    kafka_tables,
    known_bugs,
    library_methods,
    quirk_texts,
    replay_sources,
    state_machines,
)
from docs.http_bounds import bound_table
from docs.markdown import table
from klamm.cluster import quirks
from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS, Config
from klamm.lab.language.schema import schema_text
from klamm.server.api import ROUTES
from tests.scenarios import SCENARIOS, read_scenario, simulated_differences

ROOT = Path(__file__).parents[1]
_SECTION = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w ]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def fill(page: str, sections: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with every section regenerated. Raises KeyError for an unknown section."""
    return _SECTION.sub(
        lambda found: found["begin"] + sections[found["name"]]() + found["end"], page
    )


def scenario_table() -> str:
    """Return the table of recorded scenarios, and the differences of klamm without quirks.

    The table has the number of differences and the quirks that cause them; the differences in full
    follow below it.
    """
    rows: list[tuple[str, str, int, str]] = []
    in_full: list[str] = []
    for name in SCENARIOS:
        scenario = read_scenario(name)
        steps = len(scenario["steps"])
        differences = simulated_differences(name, quirks.NO_QUIRKS)
        shown = "none"
        if differences:
            shown = f"{len(differences)} lines, below; {_explanation(name, len(differences))}"
            in_full += ["", f"The differences of {name}:", ""]
            in_full += [f"- `{line}`" for line in differences]
        rows.append((name, scenario["about"], steps, shown))
    heading = ("scenario", "actions", "steps", "differences")
    return table(heading, rows) + "".join(f"{line}\n" for line in in_full)


def _explanation(scenario: str, differences: int) -> str:
    """Return which quirks reduce the differences of a scenario, and how many remain with them."""
    fewer = [
        name
        for name, field in quirks.NAMES.items()
        if len(simulated_differences(scenario, quirks.Quirks(**{field: True}))) < differences
    ]
    on = quirks.Quirks(**{quirks.NAMES[name]: True for name in fewer})
    left = len(simulated_differences(scenario, on))
    return f"{left or 'none'} with {' and '.join(fewer) or 'any one quirk'} on"


def route_table() -> str:
    """Return the table of HTTP routes with the fields of their bodies."""
    rows = []
    for route in ROUTES:
        path = re.sub(r":\w+\}", "}", route.path)
        has_body = route.body is not None and route.method != "GET"
        fields = msgspec.structs.fields(route.body) if has_body else ()
        words = [f"{field.encode_name}{'' if field.required else '?'}" for field in fields]
        does = " ".join(str(inspect.getdoc(route.handler)).split())
        body = f"`{{{', '.join(words)}}}`" if words else ""
        rows.append((f"{route.method} `{path}`", body, does))
    return table(("request", "body", "effect"), rows)


def broker_config_table() -> str:
    """Return the table of broker configs."""
    rows = []
    for one in _sorted(BROKER_CONFIGS):
        taken = [
            words
            for words, holds in (("at the start", one.at_start), ("while it runs", one.dynamic))
            if holds
        ]
        rows.append((*_columns(one), " and ".join(taken) or "elsewhere"))
    heading = ("config", "type", "default", "values", "if not set", "given")
    return table(heading, rows)


def topic_config_table() -> str:
    """Return the table of topic configs."""
    heading = ("config", "type", "default", "values", "broker's config")
    return table(heading, [_columns(one) for one in _sorted(TOPIC_CONFIGS)])


def _sorted(configs: Mapping[str, Config]) -> list[Config]:
    return [configs[name] for name in sorted(configs)]


def _columns(one: Config) -> tuple[str, ...]:
    default = {None: "", "": "empty"}.get(one.default, f"`{one.default}`")
    words = one.validator.words if one.validator else ""
    synonyms = ", ".join(f"`{name}`" for name in one.synonyms)
    return (f"`{one.name}`", one.type.value, default, words, synonyms)


def package_table() -> str:
    """Return the table of packages, from the highest import layer to the lowest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["id"] == "layers")
    rows = []
    for layer in layers:
        packages = layer.split(" | ")
        files = [_file(package) for package in packages]
        names = "<br>".join(f"`{name.removesuffix('__init__.py')}`" for name in files)
        rows.append((names, "<br>".join(map(_purpose, files))))
    return table(("packages", "contents"), rows)


def _file(package: str) -> str:
    """Return the file of a package or a module, relative to the repository."""
    return f"{package}/__init__.py" if (ROOT / package).is_dir() else f"{package}.py"


def _purpose(file: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    return str(ast.get_docstring(ast.parse(text))).splitlines()[0]


SCHEMA = "docs/drill.schema.json"
"""The JSON Schema of drills."""
PAGES: dict[str, Callable[[str], str]] = {
    "docs/architecture.md": lambda page: fill(page, {"packages": package_table}),
    "docs/bugs.md": lambda page: fill(page, bug_tables.SECTIONS),
    "docs/clients-and-tools.md": lambda page: fill(
        page, {**client_tables.SECTIONS, **kafka_tables.SECTIONS}
    ),
    "docs/configs.md": lambda page: fill(
        page, {"broker configs": broker_config_table, "topic configs": topic_config_table}
    ),
    "docs/deviations.md": lambda page: fill(
        page,
        {
            "quirks": quirk_texts.quirk_table,
            "known bugs": known_bugs.known_bug_table,
            "scenarios": scenario_table,
        },
    ),
    "docs/http-api.md": lambda page: fill(page, {"routes": route_table, "bounds": bound_table}),
    "docs/replay.md": lambda page: fill(page, {**event_table.SECTIONS, **replay_sources.SECTIONS}),
    "docs/drills.md": lambda page: fill(page, drill_tables.SECTIONS),
    "docs/hunt.md": lambda page: fill(page, drill_tables.HUNT_SECTIONS),
    "docs/controller.md": lambda page: fill(page, state_machines.SECTIONS),
    "lab/python/actions.py": lambda page: fill(page, library_methods.SECTIONS),
}
"""How each page with generated sections is filled, by its path in the repository."""


def main() -> None:
    """Write every page with a stale section."""
    for name, filled in PAGES.items():
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        if (fresh := filled(page)) != page:
            path.write_text(fresh, encoding="utf-8")
            print(f"regenerated {name}")
    (ROOT / SCHEMA).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
