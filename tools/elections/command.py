"""Runs the tool kafka-leader-election. Mirrors kafka.admin.LeaderElectionCommand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.cluster.errors import AdminCommandFailed
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.tools.command_result import CommandResult
from klamm.tools.elections.elections import ElectionTexts, parse_election_data, run_election
from klamm.tools.jopt import OptionParser, Options
from klamm.tools.tool_json import decoding
from klamm.tools.tool_output import KafkaTool, ToolOutput, check_properties_file, read_file
from klamm.tools.tool_services import ToolServices

PARSER: Final = OptionParser(
    "kafka-leader-election",
    "This tool attempts to elect a new leader for a set of topic partitions. The type of elections "
    "supported are preferred replicas and unclean replicas.",
    with_value=(
        "bootstrap-server",
        "admin.config",
        "path-to-json-file",
        "topic",
        "partition",
        "election-type",
    ),
    flags=("all-topic-partitions",),
)
TIMEOUT_MS: Final = 30_000
_REQUIRED: Final = ("election-type", "bootstrap-server")
_ONE_OF: Final = ("topic", "all-topic-partitions", "path-to-json-file")


def _run(output: ToolOutput, args: Sequence[str], services: ToolServices) -> CommandResult:
    """Run kafka-leader-election with ``args`` and return its output and exit code.

    Raises an error if no connection can be established. For any other error, the result has the
    error message of Kafka's tool.
    """
    options = PARSER.parse(args)
    with decoding():
        _check(options)
    election_type = options.value(
        "election-type", lambda word: ElectionType.__members__.get(word.upper())
    )
    assert election_type is not None
    partitions = _partitions(options)
    check_properties_file(options.text("admin.config"))
    server = options.text("bootstrap-server") or ""
    kind = election_type.value
    texts = ElectionTexts(
        succeeded=f"Successfully completed leader election ({kind}) for partitions",
        noop="Valid replica already elected for partitions",
        failed=f"Error completing leader election ({kind}) for partition",
        exception="replica(s) could not be elected",
    )
    with services.open_cluster(server) as admin:
        return run_election(admin, election_type, partitions, TIMEOUT_MS, texts, output)


run_election_command: Final = KafkaTool(PARSER, _run)


def _check(options: Options) -> None:
    missing = [name for name in _REQUIRED if not options.has(name)]
    if missing:
        raise AdminCommandFailed(f"Missing required option(s): {', '.join(missing)}")
    if sum(map(options.has, _ONE_OF)) != 1:
        raise AdminCommandFailed(
            f"One and only one of the following options is required: {', '.join(_ONE_OF)}"
        )
    if options.has("topic") and not options.has("partition"):
        raise AdminCommandFailed("Missing required option(s): partition")
    if options.has("partition") and not options.has("topic"):
        raise AdminCommandFailed("Option partition is only allowed if topic is used")


def _partitions(options: Options) -> list[TopicPartition] | None:
    file = options.text("path-to-json-file")
    if file is not None:
        what = "Replica election data"
        return parse_election_data(read_file(file), what, f'{what} is missing "partitions" field')
    topic = options.text("topic")
    if topic is None:
        return None
    partition = options.integer("partition")
    assert partition is not None
    return [TopicPartition(topic, partition)]
