"""Parser of the JSON files given to Kafka's tools, as strict as the tools are.

An error in a file raises the exception that Kafka's tool throws for the same error. Mirrors
kafka.utils.Json.tryParseFull and kafka.utils.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from klamm.cluster.errors import AdminError, AdminOperationError
from klamm.tools.jopt import UncaughtException
from klamm.zk.znodes.json_values import MalformedZNode, UnparsableJson, parse_text

_EMPTY = "The input string shouldn't be empty\n at [Source: UNKNOWN; line: -1, column: -1]"


def parse_json(text: str, instead: str | None = None) -> Any:
    """Parse JSON. Raises AdminOperationError if the text is malformed.

    The error message is ``instead`` if given, otherwise the message of Kafka's parser.
    """
    try:
        if not text:
            raise UnparsableJson(_EMPTY)
        return parse_text(text)
    except UnparsableJson as error:
        raise AdminOperationError(instead or str(error)) from error


@contextmanager
def decoding() -> Iterator[None]:
    """Context manager that turns errors in a file or an argument into UncaughtException.

    MalformedZNode, which is raised for a value of a wrong type, and AdminError are converted. The
    text of the tool stays Kafka's, and with --json the error is a wrong command line or file.
    """
    try:
        yield
    except MalformedZNode as error:
        raise UncaughtException(error.kafka_class or "", error.reason) from error
    except AdminError as error:
        raise UncaughtException(error.kafka_class, error.message) from error
