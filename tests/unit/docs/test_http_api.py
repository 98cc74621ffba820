"""docs/http-api.md: what it shows to type is what the API takes."""

from __future__ import annotations

import re

import msgspec
import pytest

from klamm.server.api import ROUTES
from tests.shown_commands import page_commands

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


def test_every_path_is_there_once() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len(EXAMPLES) == 4
