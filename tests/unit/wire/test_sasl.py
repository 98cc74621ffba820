"""SASL by messages alone: what a client may send before it is authenticated, and the answers.

Sources: SaslServerAuthenticator, PlainSaslServer (org.apache.kafka.common.security).
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.wire.frames import (
    InvalidRequestFrame,
    RequestKey,
    parse_response,
    request_body,
    request_header,
)
from klamm.wire.sasl import (
    AuthenticationFailed,
    InvalidCredentials,
    PlainServer,
    SaslAuthenticationFailed,
    SaslAuthenticator,
)

API_VERSIONS, METADATA, HANDSHAKE, AUTHENTICATE = 18, 3, 17, 36
GOOD = b"\0alice\0secret"


class Refusing:
    """A mechanism whose reason for a refusal is not told."""

    is_complete = False

    def evaluate(self, token: bytes) -> bytes:
        raise InvalidCredentials(f"no user {token.decode()}")


def authenticator() -> SaslAuthenticator:
    users = {"alice": "secret", "bob": ""}
    return SaslAuthenticator({"PLAIN": lambda: PlainServer(users), "OTHER": Refusing})


def frame(key: RequestKey, **values: Any) -> bytes:
    return request_header(key, "c") + request_body(key, values)


def answer(key: RequestKey, sent: bytes) -> Any:
    (size,) = struct.unpack_from(">i", sent)
    assert size == len(sent) - 4
    return parse_response(key, sent[4:])


def handshake(asked: SaslAuthenticator, version: int, mechanism: str = "PLAIN") -> Any:
    key = RequestKey(HANDSHAKE, version, 5)
    return answer(key, asked.receive(frame(key, mechanism=mechanism)))


def authenticate(asked: SaslAuthenticator, token: bytes, version: int = 2) -> Any:
    key = RequestKey(AUTHENTICATE, version, 6)
    return answer(key, asked.receive(frame(key, auth_bytes=token)))


def test_a_client_authenticates_with_requests() -> None:
    asked = authenticator()
    told = handshake(asked, 1)
    assert (told.error_code, tuple(told.mechanisms)) == (Errors.NONE, ("PLAIN", "OTHER"))
    assert not asked.is_complete
    told = authenticate(asked, GOOD)
    assert (told.error_code, told.error_message, told.auth_bytes) == (Errors.NONE, None, b"")
    assert asked.is_complete


def test_old_clients_send_bare_tokens() -> None:
    asked = authenticator()
    handshake(asked, 0)
    assert asked.request(GOOD) is None
    assert asked.receive(GOOD) == b"\0\0\0\0"
    assert asked.is_complete
    asked = authenticator()
    handshake(asked, 0)
    with pytest.raises(AuthenticationFailed, match="Invalid username or password") as failed:
        asked.receive(b"\0alice\0wrong")
    assert failed.value.response is None and not asked.is_complete


def test_versions_may_be_asked_for_once_and_before_the_handshake() -> None:
    asked = authenticator()
    newer = RequestKey(API_VERSIONS, 99, 3)
    header = request_header(RequestKey(API_VERSIONS, 0, 3), "c")
    told = answer(
        newer._replace(api_version=0), asked.receive(struct.pack(">hh", 18, 99) + header[4:])
    )
    assert told.error_code is not None and told.error_code.value == 35
    assert [one.api_key for one in told.api_keys] == [API_VERSIONS]
    key = RequestKey(API_VERSIONS, 3, 3)
    told = answer(
        key, asked.receive(frame(key, client_software_name="a b", client_software_version="1"))
    )
    assert (told.error_code.name, told.api_keys) == ("invalid_request", ())
    key = RequestKey(API_VERSIONS, 0, 3)
    told = answer(key, asked.receive(frame(key)))
    assert {one.api_key for one in told.api_keys} >= {HANDSHAKE, AUTHENTICATE, METADATA}
    with pytest.raises(AuthenticationFailed, match="type ApiVersions during SASL handshake"):
        asked.receive(frame(key))


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (RequestKey(METADATA, 1, 1), "Metadata during SASL handshake"),
        (RequestKey(AUTHENTICATE, 1, 1), "SaslAuthenticate during SASL handshake"),
        (RequestKey(HANDSHAKE, 9, 1), "API key 17, version 9 during SASL handshake"),
        (RequestKey(99, 0, 1), "API key 99, version 0 during SASL handshake"),
    ],
)
def test_other_requests_are_refused_before_the_handshake(key: RequestKey, name: str) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        authenticator().receive(struct.pack(">hhih", *key, -1))
    assert str(failed.value) == f"Unexpected Kafka request of type {name}."
    assert failed.value.response is None


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (RequestKey(METADATA, 1, 1), "Metadata"),
        (RequestKey(HANDSHAKE, 1, 1), "SaslHandshake"),
        (RequestKey(API_VERSIONS, 0, 1), "ApiVersions"),
        (RequestKey(AUTHENTICATE, 9, 1), "API key 36, version 9"),
    ],
)
def test_other_requests_are_refused_after_it(key: RequestKey, name: str) -> None:
    asked = authenticator()
    handshake(asked, 1)
    with pytest.raises(AuthenticationFailed) as failed:
        asked.receive(struct.pack(">hhih", *key, -1))
    text = f"Unexpected Kafka request of type {name} during SASL authentication."
    assert str(failed.value) == text


def test_an_unknown_mechanism_is_answered_with_those_that_are_known() -> None:
    asked = authenticator()
    key = RequestKey(HANDSHAKE, 1, 5)
    with pytest.raises(AuthenticationFailed) as failed:
        asked.receive(frame(key, mechanism="X" * 70))
    assert str(failed.value) == f"Unsupported SASL mechanism {'X' * 64}"
    assert failed.value.response is not None
    told = answer(key, failed.value.response)
    assert (told.error_code.value, tuple(told.mechanisms)) == (33, ("PLAIN", "OTHER"))


@pytest.mark.parametrize(
    ("mechanism", "token", "reason", "told"),
    [
        ("PLAIN", b"\0alice\0no", "Invalid username or password", None),
        (
            "OTHER",
            b"eve",
            "no user eve",
            "Authentication failed during authentication due to invalid credentials with SASL "
            "mechanism OTHER",
        ),
    ],
)
def test_a_refused_client_gets_a_reason_without_secrets(
    mechanism: str, token: bytes, reason: str, told: str | None
) -> None:
    asked = authenticator()
    handshake(asked, 1, mechanism)
    with pytest.raises(AuthenticationFailed, match=reason) as failed:
        authenticate(asked, token)
    assert failed.value.response is not None
    found = answer(RequestKey(AUTHENTICATE, 2, 6), failed.value.response)
    assert (found.error_code.value, found.error_message) == (58, told or str(failed.value))
    assert not asked.is_complete


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0eve\0secret", "Authentication failed: Invalid username or password"),
        (b"\0alice\0Secret", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_plain_refuses_invalid_tokens_with_kafkas_texts(token: bytes, reason: str) -> None:
    server = PlainServer({"alice": "secret", "bob": ""})
    with pytest.raises(SaslAuthenticationFailed) as refused:
        server.evaluate(token)
    assert str(refused.value) == reason
    assert not server.is_complete


def test_a_user_may_be_named_twice() -> None:
    server = PlainServer({"alice": "secret"})
    assert server.evaluate(b"alice\0alice\0secret") == b""
    assert server.is_complete


def test_requests_are_read_for_the_log_if_they_would_be_answered() -> None:
    asked = authenticator()
    for key, is_read in (
        (RequestKey(API_VERSIONS, 0, 1), True),
        (RequestKey(API_VERSIONS, 99, 1), False),
        (RequestKey(HANDSHAKE, 9, 1), False),
        (RequestKey(METADATA, 1, 1), False),
    ):
        found = asked.request(struct.pack(">hhih", *key, -1))
        assert (found is not None) == is_read
    key = RequestKey(HANDSHAKE, 1, 5)
    found = asked.request(frame(key, mechanism="PLAIN"))
    assert found is not None and found.body.mechanism == "PLAIN"
    handshake(asked, 1)
    found = asked.request(frame(RequestKey(AUTHENTICATE, 1, 6), auth_bytes=GOOD))
    assert found is not None and found.body.auth_bytes == GOOD


def test_a_frame_without_a_header_is_malformed() -> None:
    for call in (authenticator().receive, authenticator().request):
        with pytest.raises(InvalidRequestFrame, match="without a header during authentication"):
            call(b"\0\x11\0")


def test_a_response_belongs_to_its_request() -> None:
    asked = authenticator()
    key = RequestKey(HANDSHAKE, 1, 5)
    sent = asked.receive(frame(key, mechanism="PLAIN"))[4:]
    with pytest.raises(InvalidRequestFrame, match="a response to request 5 instead of"):
        parse_response(key._replace(correlation_id=6), sent)
    with pytest.raises(InvalidRequestFrame, match="a malformed response: API key 17, version 1"):
        parse_response(key, sent[:-1])
