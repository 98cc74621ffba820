"""Runs the tool kafka-log-dirs. Mirrors kafka.admin.LogDirsCommand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from klamm.admin.failures import as_futures
from klamm.cluster.errors import AdminError
from klamm.tools.command_result import CommandResult
from klamm.tools.jopt import OptionParser, Options
from klamm.tools.tool_json import decoding
from klamm.tools.tool_output import KafkaTool, ToolOutput, check_properties_file, uncaught_text
from klamm.tools.tool_services import ToolServices
from klamm.zk.znodes.json_values import parse_int

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin, LogDirDescription

PARSER: Final = OptionParser(
    "kafka-log-dirs",
    "This tool helps to query log directory usage on the specified brokers.",
    with_value=("bootstrap-server", "command-config", "topic-list", "broker-list"),
    flags=("describe",),
)


def _run(output: ToolOutput, args: Sequence[str], services: ToolServices) -> CommandResult:
    """Run kafka-log-dirs with ``args`` and return its output and exit code.

    Raises an error if no connection can be established. For any other error, the result has the
    error message of Kafka's tool.
    """
    options = PARSER.parse(args)
    options.require("bootstrap-server", "describe")
    check_properties_file(options.text("command-config"))
    server = options.text("bootstrap-server") or ""
    topics = {name for name in (options.text("topic-list") or "").split(",") if name}
    brokers = _brokers(options)
    with services.open_cluster(server) as admin:
        try:
            _describe(as_futures(admin), brokers, topics, output)
        except AdminError as error:
            return output.failed(error, uncaught_text(error), error.hint)
    return output.succeeded()


run_log_dirs_command: Final = KafkaTool(PARSER, _run)


def log_dirs_json(
    log_dirs: Mapping[int, Mapping[str, LogDirDescription]], topics: set[str]
) -> dict[str, Any]:
    """Return the content of the tool's JSON output.

    If ``topics`` is not empty, only these topics are included. Brokers, log directories and
    partitions are sorted; Kafka prints them in hash map order.
    """
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    _log_dir(path, log_dirs[broker][path], topics)
                    for path in sorted(log_dirs[broker])
                ],
            }
            for broker in sorted(log_dirs)
        ],
    }


def _log_dir(path: str, found: LogDirDescription, topics: set[str]) -> dict[str, Any]:
    return {
        "logDir": path,
        "error": found.error,
        "partitions": [
            {
                "partition": str(tp),
                "size": replica.size_bytes,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for tp, replica in sorted(found.replicas.items())
            if not topics or tp.topic in topics
        ],
    }


def _describe(
    admin: KafkaAdmin, brokers: list[int] | None, topics: set[str], output: ToolOutput
) -> None:
    asked = [broker.id for broker in admin.live_brokers()] if brokers is None else brokers
    output.println("Querying brokers for log directories information")
    found = log_dirs_json(admin.describe_log_dirs(asked), topics)
    output.println(f"Received log directory information from brokers {','.join(map(str, asked))}")
    output.println(msgspec.json.encode(found).decode())
    output.report |= found


def _brokers(options: Options) -> list[int] | None:
    text = options.text("broker-list")
    if text is None:
        return None
    with decoding():
        return [parse_int(word) for word in text.split(",") if word]
