"""A connection whose client has to authenticate first."""

from __future__ import annotations

import asyncio
import struct

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest
from klamm.cluster.request_faults import RequestFault
from klamm.wire import connection as connections
from klamm.wire.connection import ConnectionLost
from klamm.wire.frames import InvalidRequestFrame, RequestKey, framed
from klamm.wire.sasl import MAX_RECEIVE_BYTES, AuthenticationFailed, PlainServer, SaslAuthenticator
from tests.unit.wire.talk import ALL_TOPICS, BROKER, KNOWN, Talk, metadata_key, talking

HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
GOOD, WRONG = b"\0alice\0secret", b"\0alice\0no"


def plain() -> SaslAuthenticator:
    return SaslAuthenticator({"PLAIN": lambda: PlainServer({"alice": "secret"})})


async def logged_in(talk: Talk, version: int, token: bytes, mechanism: str = "PLAIN") -> None:
    """Send a handshake and, if it is accepted, the first token."""
    key = RequestKey(HANDSHAKE, version, 1)
    talk.send(key, mechanism=mechanism)
    asked = await talk.next_asked()
    assert (asked.body, asked.destination) == (MetadataRequest(()), BROKER)
    talk.answer(asked, KNOWN)
    if mechanism != "PLAIN":
        return
    assert (await talk.response(key)).error_code.name == "none"
    if version:
        talk.send(RequestKey(AUTHENTICATE, 1, 2), auth_bytes=token)
    else:
        talk.writer.write(framed(token))
    talk.answer(await talk.next_asked(), KNOWN)


@pytest.mark.parametrize("version", [0, 1])
async def test_requests_are_answered_after_the_client_is_authenticated(version: int) -> None:
    async with talking(authenticator=plain()) as talk:
        await logged_in(talk, version, GOOD)
        if version:
            answered = await talk.response(RequestKey(AUTHENTICATE, 1, 2))
            assert answered.error_code.name == "none"
        else:
            assert await talk.reader.readexactly(4) == bytes(4)
        talk.send(metadata_key(3), **ALL_TOPICS)
        talk.answer(await talk.next_asked(), KNOWN)
        assert (await talk.response(metadata_key(3))).controller_id == 1


@pytest.mark.parametrize(
    ("mechanism", "key", "error"),
    [
        ("PLAIN", RequestKey(AUTHENTICATE, 1, 2), "sasl_authentication_failed"),
        ("OTHER", RequestKey(HANDSHAKE, 1, 1), "unsupported_sasl_mechanism"),
    ],
)
async def test_a_client_that_is_refused_gets_its_answer_after_a_pause(
    mechanism: str, key: RequestKey, error: str
) -> None:
    async with talking(
        authenticator=plain(), connection_failed_authentication_delay_ms="110"
    ) as talk:
        await logged_in(talk, 1, WRONG, mechanism)
        refused_s = asyncio.get_running_loop().time()
        assert (await talk.response(key)).error_code.name == error
        assert asyncio.get_running_loop().time() - refused_s >= 0.1
        assert await talk.end() is AuthenticationFailed


@pytest.mark.parametrize(
    ("size", "ends_with"),
    [(0, None), (MAX_RECEIVE_BYTES, None), (MAX_RECEIVE_BYTES + 1, InvalidRequestFrame)],
)
async def test_a_token_larger_than_the_limit_ends_the_connection(
    size: int, ends_with: type[Exception] | None
) -> None:
    assert MAX_RECEIVE_BYTES == 512 << 10
    limits = {"socket_request_max_bytes": "1000", "connection_failed_authentication_delay_ms": "0"}
    async with talking(authenticator=plain(), **limits) as talk:
        if ends_with is not None:
            talk.writer.write(struct.pack(">i", size))
            assert await talk.end() is ends_with
            return
        await logged_in(talk, 0, bytes(size))
        assert await talk.end() is AuthenticationFailed


async def test_a_client_has_only_so_long_to_be_authenticated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "AUTHENTICATION_S", 0.05)
    async with talking(
        authenticator=plain(), connection_failed_authentication_delay_ms="0"
    ) as talk:
        assert await talk.end() is AuthenticationFailed


async def test_a_client_may_leave_before_it_is_authenticated() -> None:
    async with talking(authenticator=plain()) as talk:
        talk.writer.close()
        assert await talk.end() is ConnectionLost


async def test_request_faults_apply_before_the_client_is_authenticated() -> None:
    async with talking(authenticator=plain()) as talk:
        faults = talk.transport.request_faults
        for api in ("ApiVersions", "SaslHandshake"):
            faults.append(RequestFault(api, "me", None, 1, Errors.REQUEST_TIMED_OUT))
        for key, values in (
            (RequestKey(API_VERSIONS, 0, 4), {}),
            (RequestKey(HANDSHAKE, 1, 5), {"mechanism": "PLAIN"}),
        ):
            talk.send(key, **values)
            talk.answer(await talk.next_asked(), KNOWN)
            assert (await talk.response(key)).error_code.name == "request_timed_out"
        assert not faults
        await logged_in(talk, 1, GOOD)
        assert (await talk.response(RequestKey(AUTHENTICATE, 1, 2))).error_code.name == "none"
