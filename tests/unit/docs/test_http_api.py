"""docs/http-api.md: what it shows to type is what the API takes."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from klamm.server.api import ROUTES, api_document
from tests.shown_commands import ROOT, page_commands

EXAMPLES = [
    found.groups()
    for command in page_commands("docs/http-api.md")
    if (found := re.fullmatch(r"curl -sf localhost:8282(\S+)(?: -d '(.*)')?", command.text))
]


@pytest.mark.parametrize(("path", "body"), EXAMPLES)
def test_an_example_is_a_request(path: str, body: str) -> None:
    method = "POST" if body else "GET"
    [route] = [one for one in ROUTES if (one.method, one.path) == (method, path)]
    assert (route.body is None) == (not body)
    if body:
        msgspec.json.decode(body, type=route.body)


def test_the_table_names_the_fields_that_a_body_takes() -> None:
    document = api_document()
    page = (ROOT / "docs/http-api.md").read_text()
    for route in ROUTES:
        path = re.sub(r":\w+\}", "}", route.path)
        [row] = re.findall(
            rf"^\| {route.method} `{re.escape(path)}` \| (.*?) \|", page, re.MULTILINE
        )
        operation = document["paths"][path][route.method.lower()]
        schema: dict[str, Any] = {"properties": {}}
        if "requestBody" in operation:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            schema = document["components"]["schemas"][reference.rpartition("/")[2]]
        needed = schema.get("required", [])
        words = [name if name in needed else f"{name}?" for name in schema["properties"]]
        assert row == (f"`{{{', '.join(words)}}}`" if words else "")


def test_every_path_is_there_once() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len(EXAMPLES) == 4
