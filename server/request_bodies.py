"""Reads the body of a request within limits, and decodes body and query.

A body that is too large or too slow is refused before it is decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from klamm.cluster.errors import EnvironmentProblem, UsageError

MAX_BODY_BYTES: Final = 32 << 20
LARGE_BODY_BYTES: Final = 1 << 20
MAX_LARGE_BODIES: Final = 2
"""Maximum number of concurrent requests with a large body."""
MAX_BODY_VALUES: Final = 3_000_000
"""Each comma counts as a value, which bounds a body's memory before it is decoded."""
BODY_TIMEOUT_S: Final = 60.0
_DECODED_IN_LOOP_BYTES: Final = 1 << 16
_HINT: Final = "GET /openapi.json describes the fields and parameters of every request"


class BodyTooLarge(UsageError):
    """The request body is too large."""


class BodyTooSlow(UsageError):
    """The request body did not arrive in time."""


class TooManyLargeBodies(EnvironmentProblem):
    """Other requests with large bodies have not been answered yet."""

    retriable = True


class RequestBodies:
    """Reads the request bodies of one application."""

    def __init__(self) -> None:
        self._large = asyncio.Semaphore(MAX_LARGE_BODIES)

    @contextlib.asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytearray]:
        """Yield the body; a large body holds one of the MAX_LARGE_BODIES slots until the end.

        Raises UsageError, TooManyLargeBodies, ClientDisconnect.
        """
        async with contextlib.AsyncExitStack() as stack:
            body = bytearray()
            try:
                async with asyncio.timeout(BODY_TIMEOUT_S):
                    async for chunk in request.stream():
                        was_small = len(body) <= LARGE_BODY_BYTES
                        body += chunk
                        if len(body) > MAX_BODY_BYTES:
                            raise BodyTooLarge(
                                f"the body exceeds {MAX_BODY_BYTES >> 20} MiB",
                                hint="split it into several requests",
                            )
                        if was_small and len(body) > LARGE_BODY_BYTES:
                            await self._take_place(stack)
            except TimeoutError:
                raise BodyTooSlow(f"the body did not arrive within {BODY_TIMEOUT_S:g} s") from None
            yield body

    async def _take_place(self, stack: contextlib.AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S / 2):
                await stack.enter_async_context(self._large)
        except TimeoutError:
            raise TooManyLargeBodies(
                f"{MAX_LARGE_BODIES} requests with bodies over {LARGE_BODY_BYTES >> 20} MiB are "
                "already in progress",
                hint="retry later",
            ) from None


async def decode(body: bytearray, kind: Any) -> Any:
    """Decode a body; an empty body counts as ``{}``. Raises UsageError."""
    if len(body) > LARGE_BODY_BYTES and body.count(b",") > MAX_BODY_VALUES:
        raise UsageError(
            f"the body has more than {MAX_BODY_VALUES} values",
            hint="split it into several requests",
        )
    if len(body) > _DECODED_IN_LOOP_BYTES:
        return await run_in_threadpool(_decode, body, kind)
    return _decode(body, kind)


def decode_query(query: Mapping[str, str], kind: Any) -> Any:
    """Decode the parameters of a query. Raises UsageError."""
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"malformed query: {_text(error, 'parameter')}", hint=_HINT) from error


def _decode(body: bytearray, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except RecursionError:
        raise UsageError("malformed request: nested too deeply") from None
    except UnicodeDecodeError:
        raise UsageError(f"malformed request: {_not_utf_8(body)}") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"malformed request: {_text(error, 'field')}", hint=_HINT) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"malformed request: {error}") from error


def _text(error: msgspec.ValidationError, noun: str) -> str:
    return str(error).replace("Object contains unknown field", f"unknown {noun}")


def _not_utf_8(body: bytearray) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the body is not UTF-8"
    return "a text is not UTF-8"
