"""Parser of the JSON files given to Kafka's tools, as strict as the tools are.

Turns errors in a file into the exceptions that end the tools. Mirrors
kafka.utils.Json.tryParseFull and kafka.utils.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from klamm.admin.jopt import UncaughtException
from klamm.cluster.errors import AdminOperationError
from klamm.zk.znodes.json_values import MalformedZNode, UnparsableJson, parse_bytes

_EMPTY = "The input string shouldn't be empty\n at [Source: UNKNOWN; line: -1, column: -1]"


def parse_json(text: str, instead: str | None = None) -> Any:
    """Parse the JSON of a file.

    Raises AdminOperationError with the text ``instead`` if given, else with the parser's error.
    """
    try:
        if not text:
            raise UnparsableJson(_EMPTY)
        return parse_bytes(text.encode("utf-8", "surrogatepass"))
    except UnparsableJson as error:
        raise AdminOperationError(instead or str(error)) from error


@contextmanager
def decoding() -> Iterator[None]:
    """Turn a MalformedZNode for a value of the wrong type into Kafka's exception."""
    try:
        yield
    except MalformedZNode as error:
        raise UncaughtException(error.kafka_class or "", error.reason) from error
