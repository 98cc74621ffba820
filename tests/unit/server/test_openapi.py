"""The OpenAPI document: the routes, docs/http-api.md and it say the same."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from bench.fuzz_http import Requests
from docs.generate import ROOT
from klamm.server.api import ROUTES, api_document
from klamm.server.openapi import plain_path

DOCUMENT = json.loads(msgspec.json.encode(api_document()))
PAGE = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")


def operations() -> dict[tuple[str, str], Any]:
    return {
        (method.upper(), path): operation
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    }


def test_routes_page_and_document_have_the_same_operations() -> None:
    routes = {(route.method, plain_path(route.path)) for route in ROUTES}
    rows = re.findall(r"(?m)^\| (GET|POST) `([^`]+)` \|", PAGE)
    assert routes == set(operations()) == set(rows)
    assert len(routes) == len(ROUTES) == len(rows)


def _needs_body(operation: dict[str, Any]) -> bool:
    return "requestBody" in operation and operation["requestBody"]["required"]


def test_every_operation_documents_its_parameters_and_answers() -> None:
    for (method, path), operation in operations().items():
        named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        error = operation["responses"]["default"]["content"]["application/json"]["schema"]
        assert error == {"$ref": "#/components/schemas/ErrorAnswer"}
        assert operation["summary"]
        route = next(r for r in ROUTES if (r.method, plain_path(r.path)) == (method, path))
        assert ("requestBody" in operation) == (route.body is not None)
        if "requestBody" in operation:
            # The type that the endpoint decodes, see tests/integration/test_server_api.py.
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            described = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            fields = [field.encode_name for field in msgspec.structs.fields(route.body)]
            assert sorted(described["properties"]) == sorted(fields)
    needed = {path for (_, path), o in operations().items() if _needs_body(o)}
    assert "/topics" in needed and "/reassignments/list" not in needed
    identifiers = [operation["operationId"] for operation in operations().values()]
    assert len(set(identifiers)) == len(identifiers)


def test_every_answer_is_described_field_by_field() -> None:
    """tests/asgi.py compares every answer in a test with this description."""
    schemas = DOCUMENT["components"]["schemas"]
    bare, texts = [], []
    for (method, path), operation in operations().items():
        content = operation["responses"]["200"]["content"]
        if "application/json" in content:
            schema = content["application/json"]["schema"]
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            if not schemas.get(name, schema).get("properties"):
                bare.append(f"{method} {path}")
        else:
            texts.append((f"{method} {path}", list(content)))
    assert texts == [("GET /metrics", ["text/plain"])]
    assert bare == ["GET /openapi.json"]


def test_every_reference_leads_somewhere() -> None:
    names = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT))
    assert names and set(names) <= DOCUMENT["components"]["schemas"].keys()


def test_numbers_have_kafkas_bounds() -> None:
    partitions = DOCUMENT["components"]["schemas"]["CreatableTopic"]["properties"]["num_partitions"]
    assert partitions["maximum"] == 2**31 - 1
    journal = operations()["GET", "/journal"]["parameters"]
    assert [(one["name"], one["in"], one["required"]) for one in journal] == [
        ("after", "query", False),
        ("last", "query", False),
    ]
    [broker] = operations()["GET", "/brokers/{id}"]["parameters"]
    assert (broker["name"], broker["in"], broker["required"]) == ("id", "path", True)
    assert broker["schema"] == {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}


def test_requests_have_no_fields_but_their_own() -> None:
    """Each object with fields that a body consists of: a typo in any of them is refused."""
    schemas = DOCUMENT["components"]["schemas"]
    bodies = [o["requestBody"] for o in operations().values() if "requestBody" in o]
    names, seen = set(re.findall(r"schemas/(\w+)", json.dumps(bodies))), set[str]()
    while names:
        seen |= names
        used = json.dumps([schemas[name] for name in names])
        names = set(re.findall(r"schemas/(\w+)", used)) - seen
    assert {"CreatableTopic", "NewPartitions", "Replica"} <= seen
    objects = [schemas[name] for name in seen if "properties" in schemas[name]]
    assert [one["title"] for one in objects if one.get("additionalProperties") is not False] == []


def test_disk_faults_are_described() -> None:
    answer = operations()["POST", "/disks/fail"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/DiskFaults"}
    fault = DOCUMENT["components"]["schemas"]["ActiveDiskFault"]["properties"]
    assert set(fault) == {"kind", "broker", "log_dir", "journal", "bytes_per_s"}


def test_words_in_paths_are_those_that_are_known() -> None:
    operation = operations()["POST", "/zookeeper/{server}/{action}"]
    action = next(one for one in operation["parameters"] if one["name"] == "action")
    assert action["schema"]["enum"] == ["kill", "start", "pause", "resume"]


def test_every_operation_is_fuzzed() -> None:
    assert len(Requests(DOCUMENT).operations) == len(ROUTES)
