"""Runs the tool kafka-reassign-partitions.

Mirrors the main method of kafka.admin.ReassignPartitionsCommand. Where Kafka's tool prints a Java
stack trace, klamm prints only its first line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.admin.failures import as_futures
from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.errors import AdminError, EnvironmentProblem, KlammError, NotKlamm, UsageError
from klamm.placement.pools import NO_POOLS
from klamm.tools.command_result import CommandResult
from klamm.tools.jopt import UncaughtException
from klamm.tools.reassignments.common import DIFFERENT, IN_PROGRESS, OwnOptions, TerseFailure
from klamm.tools.reassignments.options import PARSER, ReassignOptions
from klamm.tools.reassignments.service import ReassignmentService
from klamm.tools.reassignments.throttles import read_saved
from klamm.tools.tool_output import (
    KafkaTool,
    ToolOutput,
    check_properties_file,
    java_class,
    java_message,
)
from klamm.tools.tool_services import ToolServices
from klamm.zk.znodes import MalformedZNode

INCONCLUSIVE: Final = 12
"""klamm's exit code for ``--verify`` while the reassignment is in progress."""
_FAILED: Final = 1


def _run(
    output: ToolOutput,
    args: Sequence[str],
    services: ToolServices,
    own: OwnOptions | None = None,
) -> CommandResult:
    """Run kafka-reassign-partitions with ``args`` and return its output and exit code.

    ``own`` are klamm's additional options. Raises an error if no connection can be established,
    NotKlamm if klamm must not write to this ZooKeeper, and UsageError if the additional options are
    invalid. For any other error, the result has the error message and exit code of Kafka's tool.
    """
    output.report["action"] = None
    command = ReassignOptions(args)
    output.report["action"] = command.action
    own = own or OwnOptions()
    _check_own(command, own)
    _warn(command, output)
    try:
        server = command.options.text("bootstrap-server")
        zookeeper = command.text("zookeeper") if server is None else None
    except UncaughtException as error:
        return _failed(output, error)
    with services.connected(zookeeper, server) as found:
        admin = found if isinstance(found, ZooKeeperAdmin) else as_futures(found)
        service = ReassignmentService(admin, output, own, services)
        try:
            if command.options.has("bootstrap-server"):
                check_properties_file(command.options.text("command-config"))
            getattr(service, command.action)(command)
        except (EnvironmentProblem, NotKlamm):
            raise
        except KlammError as error:
            error.hint = error.hint or _file_hint(command, error)
            return _failed(output, error)
    result = output.succeeded()
    result.report["exit_code"] = _own_exit_code(output)
    return result


run_reassign_command: Final = KafkaTool(PARSER, _run)


def _failed(output: ToolOutput, error: KlammError) -> CommandResult:
    if isinstance(error, TerseFailure):
        output.println(error.message)
    else:
        message = java_message(error)
        output.println(f"Error: {message}", f"{java_class(error)}: {message}\n")
    return output.failed(error, "", error.hint)


def _file_hint(command: ReassignOptions, error: KlammError) -> str | None:
    """Return a hint that names the reassignment file if its contents are wrong.

    Kafka's tool does not name it.
    """
    is_content = isinstance(error.__cause__, (AdminError, MalformedZNode))
    if not isinstance(error, UncaughtException) or not is_content:
        return None
    files = command.options.texts("reassignment-json-file")
    return f"the error is in {files[0]}" if files else None


def _warn(command: ReassignOptions, output: ToolOutput) -> None:
    if not command.options.has("bootstrap-server"):
        output.println(
            "Warning: --zookeeper is deprecated, and will be removed in a future version of Kafka."
        )
    elif command.options.has("zookeeper"):
        output.println(
            "Warning: ignoring deprecated --zookeeper option because --bootstrap-server was "
            "specified.  The --zookeeper option will be removed in a future version of Kafka."
        )


def _check_own(command: ReassignOptions, own: OwnOptions) -> None:
    if own.save_throttles is not None:
        if command.action != "execute":
            raise UsageError("--save-throttles requires --execute")
        if own.save_throttles.exists():
            read_saved(own.save_throttles)
    if own.restore_throttles is not None:
        if command.action not in ("verify", "cancel"):
            raise UsageError("--restore-throttles requires --verify or --cancel")
        if command.preserve_throttles:
            raise UsageError(
                "give either --restore-throttles or --preserve-throttles, but not both"
            )
        read_saved(own.restore_throttles)
    if own.pools is not NO_POOLS and command.action not in ("generate", "execute"):
        raise UsageError("--pools requires --generate or --execute")
    if own.show_throttles and command.action in ("generate", "execute"):
        raise UsageError("--show-throttles requires --verify, --cancel or --list")


def _own_exit_code(output: ToolOutput) -> int:
    state = output.report.get("state")
    if state == IN_PROGRESS:
        return INCONCLUSIVE
    return _FAILED if state == DIFFERENT else 0
