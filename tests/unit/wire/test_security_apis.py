"""What a listener answers to requests of ACLs, SCRAM credentials and quotas, and its metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from klamm.admin.configs.client_quotas import QuotaFilter
from klamm.admin.configs.scram_credentials import (
    SCRAM_MECHANISMS,
    CredentialDeletion,
    CredentialUpsertion,
    DescribedUser,
)
from klamm.admin.failures import InvalidRequest
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.requests import ApiError
from klamm.wire.api import Asked, ListenerCall
from klamm.wire.apis import APIS
from klamm.wire.request_metrics import RequestMetrics

ME = 1
SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
ALICE_AND_ALL = frozenset({("user", "alice"), ("client-id", None)})


class Played:
    """Credentials and quotas: what was called, and what is answered or raised."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answer: Any = None
        self.failures: list[Exception | None] = []
        self.user_scram_credentials = self.client_quotas = self

    def describe(self, *given: Any, **named: Any) -> Any:
        return self._call("describe", *given, *named.items())

    def alter(self, *given: Any, **named: Any) -> Any:
        return self._call("alter", *given, *named.items())

    def _call(self, *call: Any) -> Any:
        self.calls.append(call)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return self.answer


@pytest.fixture
def admin() -> Played:
    return Played()


def answer(admin: Played, key: int, body: Any, controller: int = ME) -> Any:
    api = APIS[key, 0]
    assert isinstance(api, ListenerCall)
    metadata = MetadataResponse((), controller, ())
    return api.answer(cast("ListenerAdmin", admin), Asked(body, ME, metadata))


@pytest.mark.parametrize(
    ("key", "body", "values"),
    [
        (
            29,
            SimpleNamespace(),
            {
                "error_code": Errors.SECURITY_DISABLED,
                "error_message": "No Authorizer is configured on the broker",
                "resources": (),
            },
        ),
        (
            30,
            SimpleNamespace(creations=[1, 2]),
            {
                "results": [
                    {
                        "error_code": Errors.SECURITY_DISABLED,
                        "error_message": "No Authorizer is configured on the broker.",
                    }
                ]
                * 2
            },
        ),
        (
            31,
            SimpleNamespace(filters=[1]),
            {
                "filter_results": [
                    {
                        "error_code": Errors.SECURITY_DISABLED,
                        "error_message": "No Authorizer is configured on the broker.",
                        "matching_acls": (),
                    }
                ]
            },
        ),
        (17, SimpleNamespace(), {"error_code": Errors.ILLEGAL_SASL_STATE, "mechanisms": ()}),
        (
            36,
            SimpleNamespace(),
            {
                "error_code": Errors.ILLEGAL_SASL_STATE,
                "error_message": "SaslAuthenticate request received after successful "
                "authentication",
                "auth_bytes": b"",
            },
        ),
    ],
)
def test_without_an_authorizer_nothing_is_authorized_or_authenticated(
    admin: Played, key: int, body: Any, values: dict[str, Any]
) -> None:
    assert answer(admin, key, body) == values


# -- SCRAM credentials


@pytest.mark.parametrize(
    ("users", "names"),
    [(None, None), ([], []), ([SimpleNamespace(name="a"), SimpleNamespace(name="b")], ["a", "b"])],
)
def test_credentials_are_described(
    admin: Played, users: list[Any] | None, names: list[str] | None
) -> None:
    unknown = ApiError(Errors.RESOURCE_NOT_FOUND, "no b")
    admin.answer = {
        "a": DescribedUser(ApiError(), {SHA_256: 4_096, SHA_512: 8_192}),
        "b": DescribedUser(unknown),
    }
    assert answer(admin, 50, SimpleNamespace(users=users)) == {
        "error_code": Errors.NONE,
        "error_message": "",
        "results": [
            {
                "user": "a",
                "error_code": Errors.NONE,
                "error_message": "",
                "credential_infos": [
                    {"mechanism": 1, "iterations": 4_096},
                    {"mechanism": 2, "iterations": 8_192},
                ],
            },
            {
                "user": "b",
                "error_code": Errors.RESOURCE_NOT_FOUND,
                "error_message": "no b",
                "credential_infos": [],
            },
        ],
    }
    assert admin.calls == [("describe", names)]


def changes() -> SimpleNamespace:
    return SimpleNamespace(
        upsertions=[
            SimpleNamespace(
                name="a", mechanism=2, iterations=5_000, salt=b"s", salted_password=b"p"
            )
        ],
        deletions=[SimpleNamespace(name="b", mechanism=1)],
    )


def test_the_controller_changes_credentials(admin: Played) -> None:
    admin.answer = {"a": ApiError(), "b": ApiError(Errors.RESOURCE_NOT_FOUND, "none")}
    assert answer(admin, 51, changes()) == {
        "results": [
            {"user": "a", "error_code": Errors.NONE, "error_message": ""},
            {"user": "b", "error_code": Errors.RESOURCE_NOT_FOUND, "error_message": "none"},
        ]
    }
    upsertion = CredentialUpsertion("a", 2, 5_000, b"s", b"p")
    assert admin.calls == [("alter", [upsertion], [CredentialDeletion("b", 1)])]


def test_another_broker_changes_no_credentials(admin: Played) -> None:
    results = answer(admin, 51, changes(), controller=2)["results"]
    assert {one["user"]: one["error_code"] for one in results} == {
        "a": Errors.NOT_CONTROLLER,
        "b": Errors.NOT_CONTROLLER,
    }
    assert admin.calls == []


def test_failures_to_read_or_write_credentials_are_answered(admin: Played) -> None:
    admin.failures = [InvalidRequest("no"), InvalidRequest("no")]
    failed = {"error_code": Errors.INVALID_REQUEST, "error_message": "no"}
    described = answer(admin, 50, SimpleNamespace(users=None))
    assert described == {**failed, "results": ()}
    results = answer(admin, 51, changes())["results"]
    assert results == [{"user": "b", **failed}, {"user": "a", **failed}]


# -- quotas


def component(entity_type: str, match_type: int, match: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(entity_type=entity_type, match_type=match_type, match=match)


@pytest.mark.parametrize("strict", [True, False])
def test_quotas_are_described_by_filters(admin: Played, strict: bool) -> None:
    admin.answer = {frozenset({("user", "alice")}): {"producer_byte_rate": 5.0}}
    components = [
        component("user", 0, "alice"),
        component("client-id", 1, "ignored"),
        component("ip", 2),
    ]
    body = SimpleNamespace(components=components, strict=strict)
    assert answer(admin, 48, body) == {
        "error_code": Errors.NONE,
        "error_message": "",
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "alice"}],
                "values": [{"key": "producer_byte_rate", "value": 5.0}],
            }
        ],
    }
    filters = [
        QuotaFilter("user", "alice"),
        QuotaFilter("client-id"),
        QuotaFilter("ip", is_any=True),
    ]
    assert admin.calls == [("describe", filters, ("is_strict", strict))]


@pytest.mark.parametrize("match_type", [-1, 3])
def test_a_filter_of_an_unknown_type_is_refused(admin: Played, match_type: int) -> None:
    body = SimpleNamespace(components=[component("user", match_type)], strict=False)
    assert answer(admin, 48, body) == {
        "error_code": Errors.INVALID_REQUEST,
        "error_message": f"Unexpected match type: {match_type}",
        "entries": None,
    }


@pytest.mark.parametrize("validate_only", [True, False])
def test_quotas_of_each_entity_are_changed_by_themselves(
    admin: Played, validate_only: bool
) -> None:
    def entry(*parts: tuple[str, str | None]) -> SimpleNamespace:
        return SimpleNamespace(
            entity=[SimpleNamespace(entity_type=kind, entity_name=name) for kind, name in parts],
            ops=[
                SimpleNamespace(key="producer_byte_rate", value=5.0, remove=False),
                SimpleNamespace(key="consumer_byte_rate", value=7.0, remove=True),
            ],
        )

    admin.failures = [InvalidRequest("no"), None]
    entries = [entry(("ip", "1.2.3.4")), entry(("user", "alice"), ("client-id", None))]
    body = SimpleNamespace(entries=entries, validate_only=validate_only)
    first, second = answer(admin, 49, body)["entries"]
    assert first == {
        "error_code": Errors.INVALID_REQUEST,
        "error_message": "no",
        "entity": [{"entity_type": "ip", "entity_name": "1.2.3.4"}],
    }
    assert (second["error_code"], second["error_message"]) == (Errors.NONE, None)
    assert second["entity"] == [
        {"entity_type": "user", "entity_name": "alice"},
        {"entity_type": "client-id", "entity_name": None},
    ]
    wanted = {"producer_byte_rate": 5.0, "consumer_byte_rate": None}
    assert admin.calls[1] == ("alter", ALICE_AND_ALL, wanted, ("validate_only", validate_only))


# -- metrics


def samples(metrics: RequestMetrics) -> dict[tuple[str, ...], float]:
    return {
        (sample.name.removeprefix("kafka_network_RequestMetrics_"), *sample.labels.values()): (
            sample.value
        )
        for metric in metrics.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


def test_requests_and_their_errors_are_counted() -> None:
    metrics = RequestMetrics()
    metrics.observe(1, "Fetch", 2.5)
    metrics.observe(1, "Fetch", 4.0)
    metrics.observe(2, "Fetch", 1.0)
    nested = {
        "error_code": Errors.NONE,
        "topics": [
            {"name": "t", "partitions": ({"error_code": Errors.NOT_CONTROLLER, "ids": (1, 2)},)},
            {"name": "u", "partitions": [{"error_code": Errors.NOT_CONTROLLER, "ids": []}]},
        ],
        "empty": {},
        "other": {"error_code": Errors.INVALID_REQUEST},
    }
    metrics.count_errors(1, "Metadata", nested)
    metrics.count_error(1, "Fetch", "MALFORMED")
    assert samples(metrics) == {
        ("TotalTimeMs_count", "1", "Fetch"): 2,
        ("TotalTimeMs_sum", "1", "Fetch"): 6.5,
        ("TotalTimeMs_count", "2", "Fetch"): 1,
        ("TotalTimeMs_sum", "2", "Fetch"): 1,
        ("Errors_total", "1", "Metadata", "NOT_CONTROLLER"): 2,
        ("Errors_total", "1", "Metadata", "INVALID_REQUEST"): 1,
        ("Errors_total", "1", "Fetch", "MALFORMED"): 1,
    }
