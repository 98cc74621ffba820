"""Reads the JSON files that are given to Kafka's tools, as strictly as the tools do.

Turns what is wrong with a file into the exception that ends the tool; knows no tool. Mirrors
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
    """The JSON value of a file.

    Raises AdminOperationError with the text ``instead``, or else with what is wrong.
    """
    try:
        if not text:
            raise UnparsableJson(_EMPTY)
        return parse_bytes(text.encode("utf-8", "surrogatepass"))
    except UnparsableJson as error:
        raise AdminOperationError(instead or str(error)) from error


@contextmanager
def decoding() -> Iterator[None]:
    """Give a value of the wrong kind the exception that it gets from Kafka."""
    try:
        yield
    except MalformedZNode as error:
        raise UncaughtException(error.kafka_class or "", error.reason) from error
