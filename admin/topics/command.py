"""The whole of kafka-topics: arguments in, standard output, standard error and exit code out.

Mirrors kafka.admin.TopicCommand's
main; what Kafka logs beside it (a stack trace on standard error) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from admin.command_result import CommandResult, report_of
from admin.jopt import UncaughtException, UsageExit, VersionExit
from admin.tool_output import ended_by_arguments
from admin.tool_services import ToolServices
from admin.topics.cluster_topics import ClusterTopics
from admin.topics.options import PARSER, TopicCommandOptions
from admin.topics.service import Output, TopicService
from admin.topics.zookeeper_topics import ZooKeeperTopics
from cluster.errors import EnvironmentProblem, KlammError, UsageError
from zk.kafka_zk_client import KafkaZkClient

WRITING_ACTIONS: Final = frozenset({"create", "alter", "delete"})


def run_topic_command(args: Sequence[str], services: ToolServices) -> CommandResult:
    """Run kafka-topics with ``args``.

    Raises what opening the connection raises (UsageError for its address, EnvironmentProblem if
    nothing answers) and NotKlamm if a write is refused. Every other error becomes the tool's own
    text and exit code.
    """
    output = Output()
    try:
        command = TopicCommandOptions(args)
        _check_command_config(command)
    except (VersionExit, UsageExit, UncaughtException) as error:
        return ended_by_arguments(error, PARSER.usage, _values(None, output))
    _check_pools(command, services)
    with _open(command, services) as service:
        try:
            _act(command, service, output)
        except EnvironmentProblem:
            raise
        except KlammError as error:
            output.println(f"Error while executing topic command : {error.message}")
            report = _report(command.action, output, error, error.exit_code)
            return CommandResult(output.text, "", 1, report, error.hint)
    return CommandResult(output.text, "", 0, _report(command.action, output, None, 0))


@contextmanager
def _open(command: TopicCommandOptions, services: ToolServices) -> Iterator[TopicService]:
    if command.zookeeper is not None:
        with services.open_store(command.zookeeper) as store:
            client = KafkaZkClient(store)
            if command.action in WRITING_ACTIONS:
                services.before_write(client)
            yield ZooKeeperTopics(client, services.source, services.pools)
    else:
        with services.open_cluster(command.bootstrap_server or "") as cluster:
            yield ClusterTopics(cluster)


def _act(command: TopicCommandOptions, service: TopicService, output: Output) -> None:
    match command.action:
        case "create":
            service.create_topic(command, output)
        case "alter":
            service.alter_topic(command, output)
        case "list":
            service.list_topics(command, output)
        case "describe":
            service.describe_topic(command, output)
        case _:
            service.delete_topic(command, output)


def _check_command_config(command: TopicCommandOptions) -> None:
    """Kafka reads this file before it connects; klamm's clusters have nothing to set in it."""
    name = command.options.text("command-config")
    if name is not None and command.bootstrap_server is not None and not Path(name).is_file():
        raise UncaughtException("java.nio.file.NoSuchFileException", name)


def _check_pools(command: TopicCommandOptions, services: ToolServices) -> None:
    if services.pools is None:
        return
    if command.action not in ("create", "alter"):
        raise UsageError(f"--pools does not go with --{command.action}", hint="--create or --alter")
    if command.zookeeper is None:
        raise UsageError(
            "--pools goes with --zookeeper",
            hint="a running klamm keeps to the pools that klamm up --pools gave it",
        )


def _report(
    action: str | None, output: Output, error: KlammError | None, exit_code: int
) -> dict[str, Any]:
    return report_of(_values(action, output), error, exit_code)


def _values(action: str | None, output: Output) -> dict[str, Any]:
    return {"action": action, "topics": output.topics, "warnings": output.warnings}
