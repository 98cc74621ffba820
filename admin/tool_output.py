"""What a tool says: its text as Kafka prints it, and the same as values for machines.

It prints nothing itself and knows no tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admin.command_result import CommandResult, report_of
from admin.jopt import VERSION_TEXT, UncaughtException, UsageExit, VersionExit
from cluster.errors import AdminError, KlammError, StoreError, UsageError

_STORE_ERROR = "org.apache.zookeeper.KeeperException"


class ToolOutput:
    """Standard output of one run. ``report`` holds what the tool found and did, by name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.report: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """All of standard output."""
        return "".join(self._lines)

    def println(self, text: object) -> None:
        """Say one or more lines."""
        self._lines.append(f"{text}\n")


def java_class(error: KlammError) -> str:
    """The Java exception that Kafka's tool meets where klamm meets ``error``."""
    if isinstance(error, UncaughtException):
        return error.java_class
    if isinstance(error, AdminError):
        return error.kafka_class
    if isinstance(error, StoreError):
        return _STORE_ERROR
    return "org.apache.kafka.common.KafkaException"


def read_file(name: str) -> str:
    """A file that is given to a tool, as UTF-8. Raises UncaughtException if it cannot be read."""
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UncaughtException("java.io.IOException", f"Unable to read file {name}") from error


def check_properties_file(name: str | None) -> None:
    """Raise UncaughtException if an Admin client's properties are not there.

    Kafka reads this file before it connects; klamm's clusters have nothing to set in it.
    """
    if name is not None and not Path(name).is_file():
        raise UncaughtException("java.nio.file.NoSuchFileException", name)


def uncaught_text(error: KlammError) -> str:
    """What the JVM prints of an exception that a tool lets through, without the stack frames."""
    lines = f'Exception in thread "main" {java_class(error)}: {error.message}\n'
    cause = error.__cause__
    if isinstance(error, AdminError) and isinstance(cause, KlammError):
        lines += f"Caused by: {java_class(cause)}: {cause.message}\n"
    return lines


def ended_by_arguments(
    error: KlammError, usage: str, report: Mapping[str, Any], said: str = ""
) -> CommandResult:
    """Return the result of a run that ends with its arguments: --version, --help or an error.

    ``said``: what the tool has printed by then.
    """
    if isinstance(error, VersionExit):
        values = {"version": VERSION_TEXT, "exit_code": 0}
        return CommandResult(f"{said}{VERSION_TEXT}\n", "", 0, values)
    text = f"{error.message}\n{usage}" if isinstance(error, UsageExit) else uncaught_text(error)
    return CommandResult(said, text, 1, report_of(report, error, UsageError.exit_code))
