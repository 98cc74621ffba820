"""Result of running one of Kafka's tools: its output, its exit code and a JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from klamm.admin.failures import ExecutionException
from klamm.cluster.errors import AdminError, KlammError, UsageError
from klamm.tools.jopt import UncaughtException, UsageExit


class CommandResult(msgspec.Struct, frozen=True, rename={"exit_code": "rc"}):
    """Output of one run of a Kafka tool.

    - ``exit_code``: exit code of Kafka's tool; ``rc`` in the recordings of Kafka's tools.
    - ``report``: output with --json. ``report["exit_code"]`` is the exit code with --json. It
      differs from ``exit_code`` if the command line or a file is wrong, and if --verify finds a
      reassignment that is not complete.
    - ``hint``: advice that klamm adds to the output.
    """

    stdout: str
    stderr: str
    exit_code: int
    report: dict[str, Any] = {}
    hint: str | None = None


class ErrorDescription(msgspec.Struct, frozen=True):
    """Machine-readable description of an error, in JSON output and in responses of the HTTP API.

    - ``error``: name of klamm's exception class.
    - ``code``: name of Kafka's error code, or None if Kafka has no code for the error.
    - ``definite``: True if the request certainly had no effect.
    - ``retriable``: True if a retry may succeed.
    """

    error: str
    code: str | None
    message: str
    hint: str | None
    definite: bool
    retriable: bool


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Body of the response to a request that was refused or failed."""

    error: ErrorDescription


def describe_error(error: KlammError) -> ErrorDescription:
    """Return a description of ``error``, or of its cause if it is an ExecutionException."""
    if isinstance(error, ExecutionException):
        error = error.cause
    code = error.code.name if isinstance(error, AdminError) else None
    kind = UsageError if isinstance(error, (UsageExit, UncaughtException)) else type(error)
    return ErrorDescription(
        kind.__name__, code, error.message, error.hint, error.definite, error.retriable
    )


def report_of(
    values: Mapping[str, Any], error: KlammError | None, exit_code: int
) -> dict[str, Any]:
    """Return the JSON report of a tool: ``values``, with the error and the exit code added."""
    ended = None if error is None else msgspec.structs.asdict(describe_error(error))
    return {**values, "error": ended, "exit_code": exit_code}
