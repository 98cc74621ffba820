"""Collects the output of a Kafka tool: the text that it prints, and its JSON report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec

from klamm.cluster.errors import AdminError, KlammError, StoreError
from klamm.tools.command_result import CommandResult, report_of
from klamm.tools.jopt import VERSION_TEXT, OptionParser, UncaughtException, UsageExit, VersionExit
from klamm.zk.znodes import MalformedZNode

P = ParamSpec("P")
_FAILED: Final = 1
"""Exit code of Kafka's tools after an error."""
_STORE_ERROR = "org.apache.zookeeper.KeeperException"
_MESSAGE_FORMAT: Final = "message.format.version"
ZOOKEEPER_WARNING: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.",
    "Use --bootstrap-server instead to specify a broker to connect to.",
)


class ToolOutput:
    """Standard output of one run of a tool, and the contents of its JSON report.

    ``has_changed``: the tool has changed the cluster, so that no later error of it is definite.
    """

    def __init__(self, **report: Any) -> None:
        self._pieces: list[str] = []
        self.has_changed = False
        self.report = report

    @property
    def text(self) -> str:
        """Everything written to standard output so far."""
        return "".join(self._pieces)

    def print(self, text: str) -> None:
        """Append text without a newline."""
        self._pieces.append(text)

    def println(self, *lines: str) -> None:
        """Append lines, each with a newline."""
        self._pieces += [f"{line}\n" for line in lines]

    def warn(self, *lines: str) -> None:
        """Append the lines of a warning, and add the warning to the report."""
        self.println(*lines)
        self.report["warnings"].append(" ".join(line.strip() for line in lines))

    def succeeded(self, hint: str | None = None) -> CommandResult:
        """Return the result of a successful run."""
        return CommandResult(self.text, "", 0, report_of(self.report, None, 0), hint)

    def failed(self, error: KlammError, stderr: str, hint: str | None = None) -> CommandResult:
        """Return the result of a run that ended with ``error``.

        Kafka's messages do not name a malformed znode; the hint does, unless the output does.
        """
        if isinstance(error, MalformedZNode) and error.message not in self.text:
            hint = error.message
        report = report_of(self.report, error, error.exit_code)
        report["error"]["definite"] &= not self.has_changed
        return CommandResult(self.text, stderr, _FAILED, report, hint)

    def ended_by_arguments(self, error: KlammError, usage: str) -> CommandResult:
        """Return the result of a run that ended because of --version, --help or a usage error."""
        if isinstance(error, VersionExit):
            values = {"version": VERSION_TEXT, "exit_code": 0}
            return CommandResult(f"{self.text}{VERSION_TEXT}\n", "", 0, values)
        text = f"{error.message}\n{usage}" if isinstance(error, UsageExit) else uncaught_text(error)
        report = report_of(self.report, error, error.exit_code)
        return CommandResult(self.text, text, _FAILED, report)


class KafkaTool(Generic[P]):
    """One of Kafka's tools: the parser of its options, and the function that runs it.

    ``run`` gets an empty output, then the arguments of the call, and returns the tool's result. If
    it raises --version, --help or a usage error, the tool ends as Kafka's does.
    """

    def __init__(
        self, parser: OptionParser, run: Callable[Concatenate[ToolOutput, P], CommandResult]
    ) -> None:
        self.parser = parser
        self._run = run

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> CommandResult:
        """Run the tool."""
        output = ToolOutput()
        try:
            return self._run(output, *args, **kwargs)
        except (VersionExit, UsageExit, UncaughtException) as error:
            return output.ended_by_arguments(error, self.parser.usage)


def java_class(error: KlammError) -> str:
    """Return the name of the Java exception that Kafka's tool throws for ``error``."""
    if isinstance(error, UncaughtException):
        return error.java_class
    if isinstance(error, AdminError):
        return error.kafka_class
    if isinstance(error, StoreError):
        return _STORE_ERROR
    if isinstance(error, MalformedZNode) and error.kafka_class is not None:
        return error.kafka_class
    return "org.apache.kafka.common.KafkaException"


def java_message(error: KlammError) -> str:
    """Return the message of that exception, which does not name a malformed znode."""
    return error.reason if isinstance(error, MalformedZNode) else error.message


def message_format_warnings(configs: Mapping[str, str]) -> list[str]:
    """Return Kafka's warning about message.format.version, or [] if that config is not added."""
    if _MESSAGE_FORMAT not in configs:
        return []
    return [
        f"WARNING: The configuration {_MESSAGE_FORMAT}={configs[_MESSAGE_FORMAT]} is specified. "
        "This configuration will be ignored if the version is newer than the "
        "inter.broker.protocol.version specified in the broker."
    ]


def read_file(name: str) -> str:
    """Read a UTF-8 text file. Raises UncaughtException, as Kafka's tools do, if that fails."""
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UncaughtException("java.io.IOException", f"Unable to read file {name}") from error


def check_properties_file(name: str | None) -> None:
    """Raise UncaughtException if the properties file of the Admin client does not exist.

    Kafka's tools read this file before they connect; klamm ignores its contents.
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
