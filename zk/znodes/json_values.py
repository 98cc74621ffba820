"""JSON parsing that accepts and rejects the same input as Kafka, which uses Jackson.

Jackson reads the first JSON value and ignores the rest of the input, uses the last of duplicate
keys, and distinguishes integers from numbers with a fraction. Mirrors
kafka.utils.Json and kafka.utils.json.{JsonValue,JsonObject,DecodeJson}.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, Never

import msgspec

from klamm.cluster.errors import KlammError
from klamm.cluster.jvm.java_double import double_text
from klamm.cluster.jvm.java_integer import parse_java_int

JSON_MAPPING: Final = "com.fasterxml.jackson.databind.JsonMappingException"
KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
NUMBER_FORMAT: Final = "java.lang.NumberFormatException"
NULL_POINTER: Final = "java.lang.NullPointerException"
STRING_INDEX: Final = "java.lang.StringIndexOutOfBoundsException"

INT_MIN: Final = -(2**31)
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_WHITESPACE: Final = " \t\n\r"
_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **str.maketrans({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}),
    **str.maketrans({'"': '\\"', "\\": "\\\\"}),
}
_END_OF_ROOT: Final = re.compile(r'(?<=["}\]])|(?<=\d)([ \t\n\r]|\Z)|(?<=[a-z])(?!\w)')


class MalformedZNode(KlammError):
    """A znode has content that Kafka cannot read. Callers may return it instead of raising it.

    ``kafka_class`` is the Java exception thrown by Kafka 2.8.2, or None if Kafka silently treats
    the znode as empty or missing. ``path`` is the path of the znode; ``at`` sets it.
    """

    def __init__(self, reason: str, kafka_class: str | None = JSON_MAPPING) -> None:
        super().__init__(reason)
        self.reason = reason
        self.kafka_class = kafka_class
        self.path: str | None = None

    def at(self, path: str) -> MalformedZNode:
        """Set the path of the znode and return this error."""
        self.path = path
        self.message = f"malformed znode {path}: {self.reason}"
        return self


def illegal_content(reason: str) -> MalformedZNode:
    """Return the error for content that makes Kafka throw IllegalArgumentException."""
    return MalformedZNode(reason, ILLEGAL_ARGUMENT)


class Missing:
    """Type of MISSING, the parse result for empty input, like Jackson's MissingNode."""


MISSING: Final = Missing()


class UnparsableJson(ValueError):
    """The input does not start with a JSON value (Jackson's JsonProcessingException)."""


def parse_bytes(data: bytes | None) -> Any:
    """Return the first JSON value of ``data``, or MISSING if there is only white space.

    Raises UnparsableJson if ``data`` does not start with a JSON value, and MalformedZNode for null
    data, which Jackson rejects.
    """
    if data is None:
        raise MalformedZNode('argument "content" is null', ILLEGAL_ARGUMENT)
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):  # msgspec's errors, and Python's for bad UTF-8
        pass
    try:
        text = data.decode(json.detect_encoding(data))
    except ValueError as error:
        raise UnparsableJson(str(error)) from error
    return parse_text(text)


def parse_text(text: str) -> Any:
    """Return the first JSON value of ``text``, or MISSING if there is only white space.

    Raises UnparsableJson if ``text`` does not start with a JSON value.
    """
    try:
        start = len(text) - len(text.lstrip(_WHITESPACE))
        if start == len(text):
            return MISSING
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise UnparsableJson(str(error)) from error
    if not _END_OF_ROOT.match(text, end):
        raise UnparsableJson(f"unexpected character at {end}")
    return value


def _refuse_constant(name: str) -> Never:
    raise UnparsableJson(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def as_text(value: Any) -> str:
    """Format a value as Jackson does in error messages."""
    try:
        return _formatted(value)
    except RecursionError:
        return "a deeply nested value"


def _formatted(value: Any) -> str:
    match value:
        case Missing():
            return ""
        case float():
            text = double_text(value)
            return text if math.isfinite(value) else f'"{text}"'
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case list():
            return f"[{','.join(map(_formatted, value))}]"
        case dict():
            fields = (f"{_formatted(name)}:{_formatted(item)}" for name, item in value.items())
            return f"{{{','.join(fields)}}}"
    return json.dumps(value)


def utf8(data: bytes) -> str:
    """Decode bytes like Java's ``new String(bytes, UTF_8)``."""
    return data.decode("utf-8", errors="replace")


def as_object(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a JSON object. Otherwise raise MalformedZNode."""
    if isinstance(value, dict):
        return value
    raise MalformedZNode(f"Expected JSON object, received {as_text(value)}")


def parse_object(data: bytes | None, failure: str, kafka_class: str) -> dict[str, Any]:
    """Return the JSON object in ``data``. Otherwise raise MalformedZNode.

    If ``data`` is not JSON, the error's reason begins with ``failure``, and its Java exception is
    ``kafka_class``.
    """
    try:
        return as_object(parse_bytes(data))
    except UnparsableJson:
        raise MalformedZNode(f"{failure} {utf8(data or b'')}", kafka_class) from None


def as_array(value: Any) -> list[Any]:
    """Return ``value`` if it is a JSON array. Otherwise raise MalformedZNode."""
    if isinstance(value, list):
        return value
    raise MalformedZNode(f"Expected JSON array, received {as_text(value)}")


def field(node: dict[str, Any], name: str) -> Any:
    """Return a required field of a JSON object. Raises MalformedZNode if it is missing."""
    try:
        return node[name]
    except KeyError:
        raise MalformedZNode(f"No such field exists: `{name}`") from None


def to_int(value: Any) -> int:
    """Return ``value`` if it is a 32-bit JSON integer. Otherwise raise MalformedZNode."""
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        return value
    raise MalformedZNode(f"Expected `Int` value, received {as_text(value)}")


def to_str(value: Any) -> str:
    """Return ``value`` if it is a JSON string. Otherwise raise MalformedZNode."""
    if isinstance(value, str):
        return value
    raise MalformedZNode(f"Expected `String` value, received {as_text(value)}")


def to_ints(value: Any) -> tuple[int, ...]:
    """Return ``value`` if it is a JSON array of 32-bit integers. Otherwise raise MalformedZNode."""
    return tuple(to_int(item) for item in as_array(value))


def parse_int(text: str) -> int:
    """Parse ``text`` like Java's Integer.parseInt. Raises MalformedZNode if parseInt throws."""
    return _parse(text, 32)


def parse_long(text: str) -> int:
    """Parse ``text`` like Java's Long.parseLong. Raises MalformedZNode if parseLong throws."""
    return _parse(text, 64)


def _parse(text: str, bits: int) -> int:
    number = parse_java_int(text, bits)
    if number is None:
        raise MalformedZNode(f'For input string: "{text}"', NUMBER_FORMAT)
    return number
