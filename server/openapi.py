"""OpenAPI document of the HTTP API, generated from its routes and body types.

It is the machine-readable form of docs/http-api.md, for generated clients and for fuzz tests.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec
from starlette.responses import Response

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.version import klamm_version
from klamm.tools.command_result import ErrorAnswer

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+):\w+\}")
_JSON: Final = "application/json"


class ApiRoute(NamedTuple):
    """A route: its path, its handler, and the type of the request's body or query.

    ``only_looks`` is True if the handler only reads cached state. Such a request gets a response
    even if many other requests are waiting.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    body: Any = None
    query: Any = None
    only_looks: bool = False


def openapi_document(
    routes: Iterable[ApiRoute], words: Mapping[str, Iterable[str]]
) -> dict[str, Any]:
    """Return the OpenAPI document of ``routes``.

    ``words`` maps the names of path parameters that have a fixed set of values to these values.
    """
    routes = tuple(routes)
    answers = [answer_type(route) for route in routes]
    bodies = [route.body for route in routes]
    queries = [route.query for route in routes]
    types = [one for one in (*bodies, *queries, *answers, ErrorAnswer) if _has_schema(one)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route, answer in zip(routes, answers, strict=True):
        operation: dict[str, Any] = {
            "operationId": route.handler.__name__,
            "summary": " ".join(str(inspect.getdoc(route.handler)).split()),
            "parameters": [*_path_parameters(route.path, words), *_query_parameters(route.query)],
            "responses": {
                "200": _response(
                    "Response to a successful request.",
                    schema_of.get(answer, {}),
                    answer is Response,
                ),
                "default": _response(
                    "Error of a refused or failed request.", schema_of[ErrorAnswer], False
                ),
            },
        }
        if route.body is not None:
            operation["requestBody"] = {
                "content": {_JSON: {"schema": schema_of[route.body]}},
                "required": any(field.required for field in msgspec.structs.fields(route.body)),
            }
        paths.setdefault(plain_path(route.path), {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "klamm", "version": klamm_version()},
        "paths": paths,
        "components": {"schemas": components},
    }


def plain_path(path: str) -> str:
    """Remove the types from a route's path: ``/brokers/{id:id}`` becomes ``/brokers/{id}``."""
    return _PARAMETER.sub(r"{\1}", path)


def answer_type(route: ApiRoute) -> Any:
    """Return the type of a route's response body if the request succeeds."""
    return get_type_hints(route.handler)["return"]


def _has_schema(kind: Any) -> bool:
    return kind is not None and kind is not Response and kind is not object


def _path_parameters(path: str, words: Mapping[str, Iterable[str]]) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(path):
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if name in words:
            schema = {"enum": list(words[name])}
        elif name == "id":
            schema = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(query: Any) -> list[dict[str, Any]]:
    if query is None:
        return []
    properties = msgspec.json.schema(query)["$defs"][query.__name__]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in properties.items()
    ]


def _response(text: str, schema: Mapping[str, Any], is_text: bool) -> dict[str, Any]:
    content = {"text/plain": {}} if is_text else {_JSON: {"schema": schema}}
    return {"description": text, "content": content}
