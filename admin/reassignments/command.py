"""The whole of kafka-reassign-partitions: arguments in, output and exit code out.

Mirrors ReassignPartitionsCommand's
main; of a Java stack trace, which the tool prints, only the first line is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from admin.command_result import CommandResult, report_of
from admin.failures import as_futures
from admin.jopt import UncaughtException, UsageExit, VersionExit
from admin.reassignments.cluster import ClusterReassignment
from admin.reassignments.common import DIFFERENT, IN_PROGRESS, OwnOptions, TerseFailure
from admin.reassignments.log_dirs import LogDirMoves
from admin.reassignments.options import PARSER, ReassignOptions
from admin.reassignments.throttles import read_saved
from admin.reassignments.zookeeper import ZooKeeperReassignment
from admin.tool_output import (
    ToolOutput,
    check_properties_file,
    ended_by_arguments,
    java_class,
    read_file,
)
from admin.tool_services import ToolServices
from cluster.errors import EnvironmentProblem, KlammError, NotKlamm, UsageError
from placement.draws import IntSource
from zk.kafka_zk_client import KafkaZkClient

INCONCLUSIVE: Final = 12
"""klamm's exit code of ``--verify`` while something still moves."""
_FAILED: Final = 1


def run_reassign_command(
    args: Sequence[str], services: ToolServices, own: OwnOptions | None = None
) -> CommandResult:
    """Run kafka-reassign-partitions with ``args``.

    Raises what opening the connection raises, NotKlamm if a write is refused, and UsageError for
    klamm's own options. Every other error becomes the tool's own text and exit code.
    """
    output = ToolOutput()
    try:
        command = ReassignOptions(args)
    except (VersionExit, UsageExit, UncaughtException) as error:
        return ended_by_arguments(error, PARSER.usage, {"action": None})
    own = own or OwnOptions()
    _check_own(command, own)
    _warn(command, output)
    try:
        address = command.options.text("bootstrap-server") or command.text("zookeeper")
    except UncaughtException as error:
        return _failed(command, output, error)
    with _open(address, command, services, output, own) as act:
        try:
            act()
        except (EnvironmentProblem, NotKlamm):
            raise
        except KlammError as error:
            return _failed(command, output, error)
    report = _report(command.action, output, None, _own_exit_code(output))
    return CommandResult(output.text, "", 0, report)


def _failed(command: ReassignOptions, output: ToolOutput, error: KlammError) -> CommandResult:
    if isinstance(error, TerseFailure):
        output.println(error.message)
    else:
        output.println(f"Error: {error.message}")
        output.println(f"{java_class(error)}: {error.message}\n")
    report = _report(command.action, output, error, error.exit_code)
    return CommandResult(output.text, "", 1, report, error.hint)


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


@contextmanager
def _open(
    address: str,
    command: ReassignOptions,
    services: ToolServices,
    output: ToolOutput,
    own: OwnOptions,
) -> Iterator[Callable[[], None]]:
    """Connect to what the command names, and give what is to be done there."""
    if not command.options.has("bootstrap-server"):
        with services.open_store(address) as store:
            client = KafkaZkClient(store)
            tool = ZooKeeperReassignment(client, output, own)
            yield lambda: _change_znodes(command, tool, client, services)
        return
    with services.open_cluster(address) as admin:
        futures = as_futures(admin)
        moves = LogDirMoves(futures, output, services.now_ms, services.sleep_ms)
        cluster = ClusterReassignment(futures, output, own, moves)
        yield lambda: _ask_cluster(command, cluster, services.source)


def _ask_cluster(command: ReassignOptions, tool: ClusterReassignment, source: IntSource) -> None:
    check_properties_file(command.options.text("command-config"))
    match command.action:
        case "verify":
            tool.verify(_plan(command), command.preserve_throttles)
        case "generate":
            tool.generate(*_generate_arguments(command), source)
        case "execute":
            tool.execute(
                _plan(command),
                command.options.has("additional"),
                command.number("throttle"),
                command.number("replica-alter-log-dirs-throttle"),
                command.number("timeout"),
            )
        case "cancel":
            tool.cancel(_plan(command), command.preserve_throttles, command.number("timeout"))
        case _:
            tool.list_reassignments()


def _change_znodes(
    command: ReassignOptions,
    tool: ZooKeeperReassignment,
    client: KafkaZkClient,
    services: ToolServices,
) -> None:
    match command.action:
        case "verify":
            plan = _plan(command)
            if not command.preserve_throttles:
                services.before_write(client)
            tool.verify(plan, command.preserve_throttles)
        case "generate":
            tool.generate(*_generate_arguments(command), services.source)
        case _:
            plan = _plan(command)
            throttle = command.number("throttle")
            services.before_write(client)
            tool.execute(plan, throttle)


def _plan(command: ReassignOptions) -> str:
    return read_file(command.text("reassignment-json-file"))


def _generate_arguments(command: ReassignOptions) -> tuple[str, str, bool]:
    return (
        read_file(command.text("topics-to-move-json-file")),
        command.text("broker-list"),
        not command.options.has("disable-rack-aware"),
    )


def _check_own(command: ReassignOptions, own: OwnOptions) -> None:
    if own.save_throttles is not None:
        if command.action != "execute":
            raise UsageError("--save-throttles goes with --execute")
        if own.save_throttles.exists():
            read_saved(own.save_throttles)
    if own.restore_throttles is not None:
        if command.action not in ("verify", "cancel"):
            raise UsageError("--restore-throttles goes with --verify or --cancel")
        if command.preserve_throttles:
            raise UsageError("--restore-throttles and --preserve-throttles exclude each other")
        read_saved(own.restore_throttles)
    if own.pools is not None and command.action not in ("generate", "execute"):
        raise UsageError("--pools goes with --generate or --execute")
    if own.show_throttles and command.action in ("generate", "execute"):
        raise UsageError("--show-throttles goes with --verify, --cancel or --list")


def _own_exit_code(output: ToolOutput) -> int:
    state = output.report.get("state")
    if state == IN_PROGRESS:
        return INCONCLUSIVE
    return _FAILED if state == DIFFERENT else 0


def _report(
    action: str | None, output: ToolOutput, error: KlammError | None, exit_code: int
) -> dict[str, Any]:
    return report_of({"action": action, **output.report}, error, exit_code)
