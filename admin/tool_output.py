"""Output of a tool: the text that Kafka prints, the report for machines, and the result.

Collects only; prints nothing. Independent of the tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from klamm.admin.command_result import CommandResult, report_of
from klamm.admin.jopt import VERSION_TEXT, UncaughtException, UsageExit, VersionExit
from klamm.cluster.errors import AdminError, KlammError, StoreError, UsageError

_STORE_ERROR = "org.apache.zookeeper.KeeperException"
_MESSAGE_FORMAT: Final = "message.format.version"
ZOOKEEPER_WARNING: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.",
    "Use --bootstrap-server instead to specify a broker to connect to.",
)


class ToolOutput:
    """Standard output of one run. ``report``: the tool's results for machines, by name."""

    def __init__(self, **report: Any) -> None:
        self._pieces: list[str] = []
        self.report = report

    @property
    def text(self) -> str:
        """All of standard output."""
        return "".join(self._pieces)

    def print(self, text: str) -> None:
        """Append text without a newline."""
        self._pieces.append(text)

    def println(self, *lines: str) -> None:
        """Append lines."""
        self._pieces += [f"{line}\n" for line in lines]

    def warn(self, *lines: str) -> None:
        """Append the lines of a warning, and add it to the report's warnings."""
        self.println(*lines)
        self.report["warnings"].append(" ".join(line.strip() for line in lines))

    def succeeded(self, hint: str | None = None) -> CommandResult:
        """Return the result of a successful run."""
        return CommandResult(self.text, "", 0, report_of(self.report, None, 0), hint)

    def failed(self, error: KlammError, stderr: str, hint: str | None = None) -> CommandResult:
        """Return the result of a run that an error ended."""
        report = report_of(self.report, error, error.exit_code)
        return CommandResult(self.text, stderr, 1, report, hint)

    def ended_by_arguments(self, error: KlammError, usage: str) -> CommandResult:
        """Return the result of a run that --version, --help or an invalid argument ended."""
        if isinstance(error, VersionExit):
            values = {"version": VERSION_TEXT, "exit_code": 0}
            return CommandResult(f"{self.text}{VERSION_TEXT}\n", "", 0, values)
        text = f"{error.message}\n{usage}" if isinstance(error, UsageExit) else uncaught_text(error)
        report = report_of(self.report, error, UsageError.exit_code)
        return CommandResult(self.text, text, 1, report)


def java_class(error: KlammError) -> str:
    """Return the Java exception class that corresponds to ``error`` in Kafka's tool."""
    if isinstance(error, UncaughtException):
        return error.java_class
    if isinstance(error, AdminError):
        return error.kafka_class
    if isinstance(error, StoreError):
        return _STORE_ERROR
    return "org.apache.kafka.common.KafkaException"


def message_format_warnings(configs: Mapping[str, str]) -> list[str]:
    """Return Kafka's warning if the added configs contain message.format.version; else none."""
    if _MESSAGE_FORMAT not in configs:
        return []
    return [
        f"WARNING: The configuration {_MESSAGE_FORMAT}={configs[_MESSAGE_FORMAT]} is specified. "
        "This configuration will be ignored if the version is newer than the "
        "inter.broker.protocol.version specified in the broker."
    ]


def read_file(name: str) -> str:
    """Read a file given to a tool, as UTF-8. Raises UncaughtException if it cannot be read."""
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UncaughtException("java.io.IOException", f"Unable to read file {name}") from error


def check_properties_file(name: str | None) -> None:
    """Raise UncaughtException if an admin client's properties file does not exist.

    Kafka reads this file before it connects; klamm ignores its contents.
    """
    if name is not None and not Path(name).is_file():
        raise UncaughtException("java.nio.file.NoSuchFileException", name)


def uncaught_text(error: KlammError) -> str:
    """Return the text that the JVM prints for an uncaught exception, without the stack frames."""
    lines = f'Exception in thread "main" {java_class(error)}: {error.message}\n'
    cause = error.__cause__
    if isinstance(error, AdminError) and isinstance(cause, KlammError):
        lines += f"Caused by: {java_class(cause)}: {cause.message}\n"
    return lines
