"""Client quotas: what is written for an entity, which entities a filter finds, what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from klamm.admin.configs.client_quotas import ClientQuotas, QuotaEntity, QuotaFilter
from klamm.admin.failures import InvalidRequest, UnsupportedVersion
from klamm.cluster.errors import AdminError
from klamm.zk.dump import dump
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from klamm.zk.znodes import MalformedZNode
from tests.unit.tools.vectors import memory_server

RATE, PERCENTAGE, MUTATIONS = "producer_byte_rate", "request_percentage", "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"


@pytest.fixture
def client() -> KafkaZkClient:
    return KafkaZkClient(MemoryStore(memory_server()))


def entity(**names: str | None) -> QuotaEntity:
    return frozenset((name.replace("_", "-"), value) for name, value in names.items())


def alter(client: KafkaZkClient, one: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    ClientQuotas(client).alter(one, changes, validate_only=False)


@pytest.mark.parametrize(
    ("one", "folder", "name"),
    [
        (entity(user="a b/ü"), "users", "a%20b%2F%C3%BC"),
        (entity(user=None), "users", "<default>"),
        (entity(client_id="c*"), "clients", "c%2A"),
        (entity(user="u", client_id=None), "users", "u/clients/<default>"),
        (entity(user=None, client_id="c d"), "users", "<default>/clients/c%20d"),
        (entity(ip="127.0.0.1"), "ips", "127.0.0.1"),
        (entity(ip=None), "ips", "<default>"),
    ],
)
def test_quotas_of_an_entity_are_written_announced_and_found(
    client: KafkaZkClient, one: QuotaEntity, folder: str, name: str
) -> None:
    quota = CONNECTIONS if folder == "ips" else RATE
    alter(client, one, {quota: 5.0})
    assert client.get_entity_configs(folder, name) == {quota: "5"}
    assert len(client.get_children("/config/changes")) == 1
    assert ClientQuotas(client).describe([], is_strict=False) == {one: {quota: 5.0}}
    alter(client, one, {quota: None})
    assert client.get_entity_configs(folder, name) == {}
    assert ClientQuotas(client).describe([], is_strict=False) == {}


def test_a_change_leaves_the_quotas_that_it_does_not_name(client: KafkaZkClient) -> None:
    one = entity(user="u")
    alter(client, one, {RATE: 1.0, PERCENTAGE: 12.5, MUTATIONS: 0.25})
    alter(client, one, {RATE: None, "consumer_byte_rate": 2.0**62, "unknown": None})
    assert client.get_entity_configs("users", "u") == {
        PERCENTAGE: "12.5",
        MUTATIONS: "0.25",
        "consumer_byte_rate": "4611686018427387904",
    }
    before = dump(client.store)
    ClientQuotas(client).alter(one, {RATE: 7.0}, validate_only=True)
    assert dump(client.store) == before


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0000005, "0"),
        (3.0000005, "3"),
        (2.9999995, "3"),
        (2.0**31 - 1, "2147483647"),
        (float("nan"), "0"),
    ],
)
def test_a_rate_is_a_whole_number(client: KafkaZkClient, value: float, text: str) -> None:
    alter(client, entity(ip=None), {CONNECTIONS: value})
    assert client.get_entity_configs("ips", "<default>") == {CONNECTIONS: text}


def test_the_largest_rate_is_the_largest_long(client: KafkaZkClient) -> None:
    alter(client, entity(user="u"), {RATE: 2.0**63})
    assert client.get_entity_configs("users", "u") == {RATE: "9223372036854775807"}


@pytest.mark.parametrize(
    ("one", "changes", "said"),
    [
        (entity(), {RATE: 1.0}, "Invalid empty client quota entity"),
        (entity(color="c"), {RATE: 1.0}, "Unhandled client quota entity type: color"),
        (entity(user=""), {RATE: 1.0}, "Empty user not supported"),
        (
            entity(user="u", ip=None),
            {RATE: 1.0},
            "Invalid quota entity combination, IP entity should not be used with user/client ID "
            "entity.",
        ),
        (entity(ip="no host"), {}, "no%20host is not a valid IP or resolvable host."),
        (entity(ip="::1"), {}, "%3A%3A1 is not a valid IP or resolvable host."),
        (entity(ip=None), {RATE: 1.0}, f"Invalid configuration key {RATE}"),
        (entity(user="u"), {CONNECTIONS: 1.0}, f"Invalid configuration key {CONNECTIONS}"),
        (entity(user="u"), {RATE: 1.5}, f"Configuration {RATE} must be a LONG value"),
        (
            entity(ip=None),
            {CONNECTIONS: 2.0**31},
            f"Configuration {CONNECTIONS} must be a INT value",
        ),
        (entity(ip=None), {CONNECTIONS: -1.0}, f"Configuration {CONNECTIONS} must be a INT value"),
        (entity(user="u"), {RATE: float("inf")}, f"Configuration {RATE} must be a LONG value"),
    ],
)
def test_a_refused_change_of_quotas_writes_nothing(
    client: KafkaZkClient, one: QuotaEntity, changes: dict[str, float | None], said: str
) -> None:
    before = dump(client.store)
    with pytest.raises(InvalidRequest) as refused:
        alter(client, one, changes)
    assert refused.value.message == said
    assert dump(client.store) == before


ENTITIES = {
    "u": entity(user="u"),
    "v": entity(user="v"),
    "any user": entity(user=None),
    "c": entity(client_id="c"),
    "u c": entity(user="u", client_id="c"),
    "u any": entity(user="u", client_id=None),
}


@pytest.mark.parametrize(
    ("filters", "is_strict", "found"),
    [
        ([], False, "u|v|any user|c|u c|u any"),
        ([], True, ""),
        ([QuotaFilter("user", "u")], False, "u|u c|u any"),
        ([QuotaFilter("user", "u")], True, "u"),
        ([QuotaFilter("user", None)], True, "any user"),
        ([QuotaFilter("user", is_any=True)], True, "u|v|any user"),
        ([QuotaFilter("client-id", is_any=True)], False, "c|u c|u any"),
        ([QuotaFilter("user", "u"), QuotaFilter("client-id", None)], True, "u any"),
        ([QuotaFilter("user", "u"), QuotaFilter("client-id", is_any=True)], True, "u c|u any"),
        ([QuotaFilter("ip", is_any=True)], False, ""),
    ],
)
def test_a_filter_finds_the_entities_that_match_it(
    client: KafkaZkClient, filters: list[QuotaFilter], is_strict: bool, found: str
) -> None:
    for one in ENTITIES.values():
        alter(client, one, {RATE: 1.0})
    expected = {ENTITIES[word] for word in found.split("|") if word}
    assert {*ClientQuotas(client).describe(filters, is_strict=is_strict)} == expected


@pytest.mark.parametrize(
    ("types", "kind", "said"),
    [
        (["user", "user"], InvalidRequest, "Duplicate user filter component entity type"),
        (["client-id"] * 2, InvalidRequest, "Duplicate client filter component entity type"),
        (["ip", "ip"], InvalidRequest, "Duplicate ip filter component entity type"),
        ([""], InvalidRequest, "Unexpected empty filter component entity type"),
        (["color"], UnsupportedVersion, "Custom entity type 'color' not supported"),
        (
            ["ip", "user"],
            InvalidRequest,
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component.",
        ),
    ],
)
def test_a_filter_that_kafka_refuses_is_refused_with_its_text(
    client: KafkaZkClient, types: list[str], kind: type[AdminError], said: str
) -> None:
    with pytest.raises(kind) as refused:
        ClientQuotas(client).describe([QuotaFilter(one, "x") for one in types], is_strict=False)
    assert refused.value.message == said


def test_a_quota_that_is_no_number_is_malformed(client: KafkaZkClient) -> None:
    client.set_or_create_entity_configs("users", "u", {RATE: "much", "SCRAM-SHA-256": "x"})
    with pytest.raises(MalformedZNode, match=f"value: {RATE} -> much"):
        ClientQuotas(client).describe([], is_strict=False)
    client.set_or_create_entity_configs("users", "u", {"SCRAM-SHA-256": "x"})
    assert ClientQuotas(client).describe([], is_strict=False) == {}
