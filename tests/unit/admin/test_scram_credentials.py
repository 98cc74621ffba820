"""SCRAM credentials of users in ZooKeeper: how they are changed and described."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from klamm.admin.configs.config_resource import USERS
from klamm.admin.configs.scram_credentials import (
    SCRAM_MECHANISMS,
    CredentialDeletion,
    CredentialUpsertion,
    DescribedUser,
    UserScramCredentials,
    credential_config,
    parse_credential,
)
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import ApiError
from klamm.zk.dump import dump
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from tests.unit.tools.vectors import memory_server

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
TWICE = ApiError(
    Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)
EMPTY = "Username must not be empty"
UNKNOWN = ApiError(Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
ABSENT = ApiError(
    Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
)


@pytest.fixture
def client() -> KafkaZkClient:
    return KafkaZkClient(MemoryStore(memory_server()))


@pytest.fixture
def users(client: KafkaZkClient) -> UserScramCredentials:
    """The users a, with both mechanisms, and b, with one."""
    found = UserScramCredentials(client)
    given = [set_to("a", SHA_512.type, 5_000), set_to("a"), set_to("b", SHA_256.type, 8_192)]
    assert found.alter(given, []) == {"a": ApiError(), "b": ApiError()}
    return found


def set_to(
    user: str, mechanism: int = SHA_256.type, iterations: int = 4_096
) -> CredentialUpsertion:
    return CredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")


def deleted(user: str, mechanism: int = SHA_256.type) -> CredentialDeletion:
    return CredentialDeletion(user, mechanism)


def refused(error: Errors, text: str) -> DescribedUser:
    return DescribedUser(ApiError(error, text))


@pytest.mark.parametrize(
    ("name", "znode"),
    [
        ("a b+c*d/\u00fc", "a%20b%2Bc%2Ad%2F%C3%BC"),
        ("CN=x,O=~y", "CN%3Dx%2CO%3D%7Ey"),
        ("a-b_c.d", "a-b_c.d"),
    ],
)
def test_a_users_znode_has_its_encoded_name(client: KafkaZkClient, name: str, znode: str) -> None:
    users = UserScramCredentials(client)
    assert users.alter([set_to(name)], []) == {name: ApiError()}
    assert client.get_all_entities_with_config(USERS) == [znode]
    described = DescribedUser(ApiError(), {SHA_256: 4_096})
    assert users.describe(None) == users.describe([name]) == {name: described}


def test_an_empty_salted_password_is_no_credential(users: UserScramCredentials) -> None:
    empty = CredentialUpsertion("c", SHA_256.type, 4_096, b"salt", b"")
    results = users.alter([set_to("d"), empty], [])
    assert {user: result.error for user, result in results.items()} == {
        "d": Errors.NONE,
        "c": Errors.UNKNOWN_SERVER_ERROR,
    }
    assert users.configs("c") == {}


def test_users_are_described(client: KafkaZkClient, users: UserScramCredentials) -> None:
    client.set_or_create_entity_configs(USERS, "A", {"producer_byte_rate": "5"})
    client.set_or_create_entity_configs(USERS, "a%2B", {SHA_512.name: "salt=eA==,iterations=1"})
    a = DescribedUser(ApiError(), {SHA_256: 4_096, SHA_512: 5_000})
    b = DescribedUser(ApiError(), {SHA_256: 8_192})
    wrong = refused(
        Errors.UNKNOWN_SERVER_ERROR,
        "The server experienced an unexpected error when processing the request.",
    )
    for everyone in (None, []):
        described = users.describe(everyone)
        assert described == {"a": a, "a+": wrong, "b": b}
        assert list(described) == ["a", "a+", "b"]
    absent = "Attempt to describe a user credential that does not exist: "
    assert users.describe(["b", "", "A", "c", "a", "a", ""]) == {
        "b": b,
        "": refused(Errors.RESOURCE_NOT_FOUND, EMPTY),
        "A": refused(Errors.RESOURCE_NOT_FOUND, f"{absent}A"),
        "c": refused(Errors.RESOURCE_NOT_FOUND, f"{absent}c"),
        "a": refused(
            Errors.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: a",
        ),
    }


@pytest.mark.parametrize(
    ("upsertions", "deletions", "results"),
    [
        ([set_to("")], [], {"": ApiError(Errors.UNACCEPTABLE_CREDENTIAL, EMPTY)}),
        ([], [deleted("", 9)], {"": ApiError(Errors.UNACCEPTABLE_CREDENTIAL, EMPTY)}),
        ([set_to("a", 0)], [], {"a": UNKNOWN}),
        ([set_to("a", 3, 1)], [], {"a": UNKNOWN}),
        ([], [deleted("a", 3)], {"a": UNKNOWN}),
        (
            [set_to("a", iterations=4_095)],
            [],
            {"a": ApiError(Errors.UNACCEPTABLE_CREDENTIAL, "Too few iterations")},
        ),
        (
            [set_to("a", iterations=16_385)],
            [],
            {"a": ApiError(Errors.UNACCEPTABLE_CREDENTIAL, "Too many iterations")},
        ),
        ([set_to("a"), set_to("a")], [], {"a": TWICE}),
        ([set_to("a")], [deleted("a")], {"a": TWICE}),
        ([], [deleted("c")], {"c": ABSENT}),
        ([set_to("b", SHA_256.type)], [deleted("b", SHA_512.type)], {"b": ABSENT}),
        (
            [set_to("a", iterations=1)],
            [deleted("a", 7), deleted("b"), deleted("b")],
            {"a": ApiError(Errors.UNACCEPTABLE_CREDENTIAL, "Too few iterations"), "b": TWICE},
        ),
        ([set_to("a", 0), set_to("a"), set_to("a")], [], {"a": UNKNOWN}),
    ],
)
def test_a_refused_change_of_credentials_writes_nothing(
    client: KafkaZkClient,
    users: UserScramCredentials,
    upsertions: Sequence[CredentialUpsertion],
    deletions: Sequence[CredentialDeletion],
    results: dict[str, ApiError],
) -> None:
    before = dump(client.store)
    assert users.alter(upsertions, deletions) == results
    assert dump(client.store) == before


def test_each_user_is_changed_on_its_own(
    client: KafkaZkClient, users: UserScramCredentials
) -> None:
    announced = len(client.get_children("/config/changes"))
    changes = [set_to("a", SHA_512.type, 16_384), set_to("c", iterations=4_096), set_to("d", 0)]
    results = users.alter(changes, [deleted("a"), deleted("b"), deleted("e")])
    done = ApiError()
    assert results == {"a": done, "b": done, "c": done, "d": UNKNOWN, "e": ABSENT}
    assert users.describe(None) == {
        "a": DescribedUser(done, {SHA_512: 16_384}),
        "c": DescribedUser(done, {SHA_256: 4_096}),
    }
    assert len(client.get_children("/config/changes")) == announced + 3


@pytest.mark.parametrize(
    ("text", "iterations"),
    [
        ("password=p", 4_096),
        ("iterations=4096,password=p", 4_096),
        ("iterations=9000,password=password=", 9_000),
    ],
)
def test_a_credential_is_parsed_from_a_command_line(text: str, iterations: int) -> None:
    credential = parse_credential(credential_config(SHA_512, text))
    assert credential is not None
    assert (credential.iterations, len(credential.stored_key)) == (iterations, 64)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Invalid credential property SCRAM_SHA_512"),
        ("pass=p", "Invalid credential property SCRAM_SHA_512"),
        ("iterations=5000", "Invalid credential property SCRAM_SHA_512"),
        ("iterations=4095,password=p", "Iterations 4095 is less than the minimum 4096 required"),
        ("iterations=,password=p", 'For input string: ""'),
        ("iterations=2147483648,password=p", 'For input string: "2147483648"'),
        ("password=", "Empty key"),
    ],
)
def test_a_credential_that_kafka_refuses_on_a_command_line_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        credential_config(SHA_512, text)
