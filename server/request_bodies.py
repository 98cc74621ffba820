"""Reads request bodies, and decodes bodies and queries.

A body that is too large or arrives too slowly is refused before it is decoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from klamm.cluster.counting import joined
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.cluster.suggestions import suggestion

MAX_BODY_BYTES: Final = 32 << 20
LARGE_BODY_BYTES: Final = 1 << 20
MAX_LARGE_BODIES: Final = 2
"""Maximum number of concurrent requests with a body of more than LARGE_BODY_BYTES."""
MAX_BODY_VALUES: Final = 3_000_000
"""Maximum number of values in a body, which bounds the memory that decoding needs.

Each comma counts as a value, so that the number is known before the body is decoded.
"""
BODY_TIMEOUT_S: Final = 60.0
_DECODED_IN_LOOP_BYTES: Final = 1 << 16
_UNKNOWN: Final = re.compile(r"unknown \w+ `(?P<name>.*?)`(?: - at `\$(?P<path>.*)`)?$")
_INVALID_CHOICE: Final = re.compile(r"Invalid enum value .* - at `\$(?P<path>.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.\w+|\[[^]]*\]")
_HINT: Final = "GET /openapi.json describes the fields and parameters of every request"


class BodyTooLarge(UsageError):
    """The request body is too large."""


class BodyTooSlow(UsageError):
    """The request body did not arrive in time."""


class TooManyLargeBodies(EnvironmentProblem):
    """Too many requests with large bodies are in progress."""

    retriable = True


class RequestBodies:
    """Reads the request bodies of one application, and limits the number of large bodies."""

    def __init__(self) -> None:
        self._large = asyncio.Semaphore(MAX_LARGE_BODIES)

    @contextlib.asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytearray]:
        """Yield the body of a request.

        A large body occupies one of MAX_LARGE_BODIES slots until the context manager exits. Raises
        UsageError, TooManyLargeBodies, ClientDisconnect.
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
                            await self._take_slot(stack)
            except TimeoutError:
                raise BodyTooSlow(f"the body did not arrive within {BODY_TIMEOUT_S:g} s") from None
            yield body

    async def _take_slot(self, stack: contextlib.AsyncExitStack) -> None:
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
    """Decode a body as type ``kind``; an empty body counts as ``{}``. Raises UsageError."""
    if len(body) > LARGE_BODY_BYTES and body.count(b",") > MAX_BODY_VALUES:
        raise UsageError(
            f"the body has more than {MAX_BODY_VALUES} values",
            hint="split it into several requests",
        )
    if len(body) > _DECODED_IN_LOOP_BYTES:
        return await run_in_threadpool(_decode, body, kind)
    return _decode(body, kind)


def decode_query(query: Mapping[str, str], kind: Any) -> Any:
    """Decode the parameters of a query as type ``kind``. Raises UsageError."""
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _malformed("query", "parameter", error, kind) from error


def _decode(body: bytearray, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except RecursionError:
        raise UsageError("malformed request: nested too deeply") from None
    except UnicodeDecodeError:
        raise UsageError(f"malformed request: {_not_utf_8(body)}") from None
    except msgspec.ValidationError as error:
        raise _malformed("request", "field", error, kind) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"malformed request: {error}") from error


def _malformed(what: str, noun: str, error: msgspec.ValidationError, kind: Any) -> UsageError:
    text = str(error).replace("Object contains unknown field", f"unknown {noun}")
    unknown, invalid = _UNKNOWN.match(text), _INVALID_CHOICE.match(text)
    hint = _HINT
    if invalid is not None:
        choices = _choices_at(inspect.type_info(kind), invalid["path"])
        hint = f"use one of {joined(choices, ', ')}; {_HINT}"
    elif unknown is not None:
        fields = _fields_at(inspect.type_info(kind), unknown["path"] or "")
        close = suggestion(unknown["name"], fields) if fields else f"the {what} takes no {noun}s"
        hint = f"{close}; {_HINT}"
    return UsageError(f"malformed {what}: {text}", hint=hint)


def _fields_at(kind: inspect.Type, path: str) -> list[str]:
    """Return the names of all fields that objects at a path may have."""
    return [field.encode_name for one in _types_at(kind, path) for field in _struct_fields(one)]


def _choices_at(kind: inspect.Type, path: str) -> list[object]:
    """Return the values that are possible at a path if its type is an enum or a Literal."""
    choices: list[object] = []
    for one in _types_at(kind, path):
        if isinstance(one, inspect.EnumType):
            choices += (member.value for member in one.cls)
        elif isinstance(one, inspect.LiteralType):
            choices += one.values
    return choices


def _types_at(kind: inspect.Type, path: str) -> list[inspect.Type]:
    """Return the possible types of the value at a path such as ``.topics[0]``."""
    places = [kind]
    for step in ["", *_STEP.findall(path)]:
        # The type of an optional field is a union with None.
        places = [one for place in places for one in _inside(place, step)]
    return places


def _inside(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    """Yield the possible types of a field (step ``.name``) or item (step ``[...]``) of ``kind``."""
    match kind:
        case inspect.UnionType():
            for one in kind.types:
                yield from _inside(one, step)
        case inspect.Metadata():
            yield from _inside(kind.type, step)
        case inspect.StructType() if step.startswith("."):
            for field in kind.fields:
                if field.encode_name == step[1:]:
                    yield from _inside(field.type, "")
        case inspect.ListType() | inspect.VarTupleType() if step.startswith("["):
            yield from _inside(kind.item_type, "")
        case inspect.DictType() if step.startswith("["):
            yield from _inside(kind.value_type, "")
        case _ if not step:
            yield kind


def _struct_fields(kind: inspect.Type) -> tuple[inspect.Field, ...]:
    return kind.fields if isinstance(kind, inspect.StructType) else ()


def _not_utf_8(body: bytearray) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} of the body is not UTF-8"
    return "a string in the body is not UTF-8"
