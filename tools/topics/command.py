"""Runs the tool kafka-topics.

Mirrors the main method of kafka.admin.TopicCommand, without the stack trace that Kafka logs to
standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.placement.assign import RACKS_MISSING
from klamm.placement.pools import NO_POOLS
from klamm.tools.command_result import CommandResult
from klamm.tools.tool_output import (
    KafkaTool,
    ToolOutput,
    check_properties_file,
    java_message,
)
from klamm.tools.tool_services import ToolServices
from klamm.tools.topics.options import PARSER, TopicCommandOptions
from klamm.tools.topics.service import TopicService

WRITING_ACTIONS: Final = frozenset({"create", "alter", "delete"})
_RACKS_HINT: Final = (
    "all or none of the running brokers must have a rack (klamm status lists them); "
    "--replica-assignment works without"
)


def _run(output: ToolOutput, args: Sequence[str], services: ToolServices) -> CommandResult:
    """Run kafka-topics with ``args`` and return its output and exit code.

    Raises UsageError for an invalid address, EnvironmentProblem if no server responds, and NotKlamm
    if klamm must not write to this ZooKeeper. For any other error, the result has the error message
    and exit code of Kafka's tool.
    """
    output.report.update(action=None, topics=[], warnings=[])
    command = TopicCommandOptions(args)
    zookeeper = command.options.text("zookeeper")
    if zookeeper is None:
        check_properties_file(command.options.text("command-config"))
    server = command.options.text("bootstrap-server")
    output.report["action"] = command.action
    _check_pools(command, services)
    writes = command.action in WRITING_ACTIONS
    with services.connected(zookeeper, server, writes=writes) as admin:
        try:
            getattr(TopicService(admin, command, output), command.action)()
        except EnvironmentProblem:
            raise
        except KlammError as error:
            # --describe names every malformed znode, which Kafka's does not.
            text = error.message if command.action == "describe" else java_message(error)
            output.println(f"Error while executing topic command : {text}")
            hint = _RACKS_HINT if error.message == RACKS_MISSING else error.hint
            return output.failed(error, "", hint)
    return output.succeeded()


run_topic_command: Final = KafkaTool(PARSER, _run)


def _check_pools(command: TopicCommandOptions, services: ToolServices) -> None:
    if services.pools is NO_POOLS:
        return
    if command.action not in ("create", "alter"):
        raise UsageError(f"--pools has no effect with --{command.action}: use --create or --alter")
    if not command.options.has("zookeeper"):
        raise UsageError(
            "--pools requires --zookeeper",
            hint="a running cluster uses the pools that were given to klamm up --pools",
        )
