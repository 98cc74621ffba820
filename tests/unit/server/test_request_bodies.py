"""server/request_bodies.py: how large bodies may be, how slow, and how many at once."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest
from starlette.requests import ClientDisconnect, Request

from klamm.cluster.errors import UsageError
from klamm.server import request_bodies
from klamm.server.request_bodies import (
    BodyTooLarge,
    BodyTooSlow,
    RequestBodies,
    TooManyLargeBodies,
    decode,
)

LARGE = b"x" * 11


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of up to 20 bytes, of which those of more than 10 bytes are large."""
    monkeypatch.setattr(request_bodies, "MAX_BODY_BYTES", 20)
    monkeypatch.setattr(request_bodies, "LARGE_BODY_BYTES", 10)
    monkeypatch.setattr(request_bodies, "BODY_TIMEOUT_S", 0.1)


def request(*chunks: bytes, ends: bool = True) -> Request:
    """A request whose body comes in these chunks; the rest never comes unless it ``ends``."""
    left = [*chunks]

    async def receive() -> MutableMapping[str, Any]:
        if not left:
            await asyncio.Event().wait()
        chunk = left.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(left) or not ends}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


@pytest.fixture
def bodies() -> RequestBodies:
    return RequestBodies()


async def body_of(bodies: RequestBodies, *chunks: bytes) -> bytes:
    async with bodies.read(request(*chunks)) as body:
        return bytes(body)


@pytest.mark.parametrize("chunks", [(b"",), (b"a",), (b"a", b"b", b""), (b"x" * 9, b"y" * 11)])
async def test_chunks_become_a_body(bodies: RequestBodies, chunks: tuple[bytes, ...]) -> None:
    assert await body_of(bodies, *chunks) == b"".join(chunks)


@pytest.mark.parametrize("chunks", [(b"x" * 21,), (b"x" * 20, b"y")])
async def test_a_body_that_is_too_large_is_refused_and_frees_its_slot(
    bodies: RequestBodies, chunks: tuple[bytes, ...]
) -> None:
    for _ in range(3):  # each frees its slot
        with pytest.raises(BodyTooLarge, match="the body exceeds 0 MiB"):
            await body_of(bodies, *chunks)


async def test_a_body_that_is_too_slow_is_refused(bodies: RequestBodies) -> None:
    with pytest.raises(BodyTooSlow, match=r"the body did not arrive within 0\.1 s"):
        async with bodies.read(request(b"a", ends=False)):
            pass


async def test_a_disconnect_before_the_end_of_the_body_is_reported(bodies: RequestBodies) -> None:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    gone = Request({"type": "http", "method": "POST", "headers": []}, receive)
    with pytest.raises(ClientDisconnect):
        async with bodies.read(gone):
            pass


async def test_a_third_large_body_is_refused_while_two_are_read(bodies: RequestBodies) -> None:
    async with bodies.read(request(LARGE)), bodies.read(request(LARGE)):
        assert await body_of(bodies, b"x" * 10) == b"x" * 10
        with pytest.raises(TooManyLargeBodies, match="2 requests with bodies over") as refused:
            await body_of(bodies, b"x", LARGE, b"y")
        assert refused.value.retriable
    assert await body_of(bodies, LARGE) == LARGE


async def test_a_large_body_waits_until_another_has_been_handled(bodies: RequestBodies) -> None:
    async with bodies.read(request(LARGE)):
        async with bodies.read(request(LARGE)):
            waiting = asyncio.create_task(body_of(bodies, LARGE))
            await asyncio.sleep(0)
            assert not waiting.done()
        assert await waiting == LARGE


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[", "malformed request: Input data was truncated"),
        (b'["\xff"]', "malformed request: byte 2 of the body is not UTF-8"),
        (rb'["\ud800"]', "malformed request: "),
        (b'{"a":1}', "malformed request: Expected `array`, got `object`"),
        (b"[" * 100_000, "malformed request: nested too deeply"),
    ],
)
async def test_a_malformed_body_is_refused_in_one_line(body: bytes, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        await decode(bytearray(body), list[Any])
    assert refused.value.message.startswith(message)


async def test_only_a_large_body_can_have_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "MAX_BODY_VALUES", 4)
    most, small = b"[10,20,30,4,5]", b"[1,2,,,,,]"
    assert len(most) > 10 >= len(small)
    assert await decode(bytearray(most), list[int]) == [10, 20, 30, 4, 5]
    with pytest.raises(UsageError, match="malformed request"):
        await decode(bytearray(small), list[int])
    with pytest.raises(UsageError, match="the body has more than 4 values"):
        await decode(bytearray(b"[1,2,3,4,5,6]"), list[int])


async def test_a_body_decoded_in_another_thread_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_bodies, "_DECODED_IN_LOOP_BYTES", 1)
    assert await decode(bytearray(b"[1]"), list[int]) == [1]
    with pytest.raises(UsageError, match="malformed request"):
        await decode(bytearray(b"[1"), list[int])
    assert await decode(bytearray(), msgspec.defstruct("Nothing", [])) is not None
