"""Result of a run of one of Kafka's tools: output, exit code, and a report for machines.

Independent of the tools; prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from klamm.admin.failures import ExecutionException
from klamm.cluster.errors import AdminError, KlammError


class CommandResult(msgspec.Struct, frozen=True):
    """Output of a run of a tool.

    ``exit_code``: Kafka's. ``hint``: klamm's hint on an error. ``report``: the result for
    machines, with klamm's exit code in ``report["exit_code"]``.
    """

    stdout: str
    stderr: str
    exit_code: int
    report: dict[str, Any]
    hint: str | None = None


class ErrorDescription(msgspec.Struct, frozen=True):
    """One error: klamm's class, Kafka's error name if it has one, message and hint.

    ``definite``: the request certainly had no effect. ``retriable``: a retry may succeed.
    """

    error: str
    code: str | None
    message: str
    hint: str | None
    definite: bool
    retriable: bool


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Body of the answer to a refused or failed request."""

    error: ErrorDescription


def describe_error(error: KlammError) -> ErrorDescription:
    """Return the description of an error; for an ExecutionException, of its cause."""
    if isinstance(error, ExecutionException):
        error = error.cause
    code = error.code.name if isinstance(error, AdminError) else None
    return ErrorDescription(
        type(error).__name__, code, error.message, error.hint, error.definite, error.retriable
    )


def report_of(
    values: Mapping[str, Any], error: KlammError | None, exit_code: int
) -> dict[str, Any]:
    """Return a tool's report for machines: its values, the error and the exit code."""
    ended = None if error is None else msgspec.structs.asdict(describe_error(error))
    return {**values, "error": ended, "exit_code": exit_code}
