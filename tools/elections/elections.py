"""Code shared by both election tools: parses the list of partitions, and prints the results.

Mirrors Admin.electLeaders, LeaderElectionCommand.parseReplicaElectionData, and its counterpart in
PreferredReplicaLeaderElectionCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from klamm.admin.failures import ExecutionException, admin_error, as_futures
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import AdminCommandFailed, AdminOperationError, RequestTimedOut
from klamm.cluster.jvm.scala_sets import duplicates, mutable_order, topic_partition_hash
from klamm.cluster.requests import ApiError
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.tools.command_result import CommandResult
from klamm.tools.tool_json import decoding, parse_json
from klamm.tools.tool_output import ToolOutput, uncaught_text
from klamm.zk.znodes.json_values import as_array, as_object, field, to_int, to_str

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin


class ElectionTexts(NamedTuple):
    """Messages that one of the two tools prints about the results of an election."""

    succeeded: str
    noop: str
    failed: str
    exception: str


def parse_election_data(text: str, what: str, missing: str) -> list[TopicPartition]:
    """Parse the JSON file that lists partitions; return the partitions in the file's order.

    ``what`` is the subject of error messages, and ``missing`` is the error message if the file has
    no field "partitions". Raises UncaughtException.
    """
    with decoding():
        fields = as_object(parse_json(text, f"{what} is empty"))
        if "partitions" not in fields:
            raise AdminOperationError(missing)
        partitions = [
            TopicPartition(to_str(field(item, "topic")), to_int(field(item, "partition")))
            for item in map(as_object, as_array(fields["partitions"]))
        ]
        repeated = duplicates(partitions, topic_partition_hash)
        if repeated:
            raise AdminOperationError(
                f"{what} contains duplicate partitions: {','.join(map(str, repeated))}"
            )
    return partitions


def run_election(
    admin: KafkaAdmin,
    election_type: ElectionType,
    partitions: Collection[TopicPartition] | None,
    timeout_ms: int,
    texts: ElectionTexts,
    output: ToolOutput,
) -> CommandResult:
    """Request elections, print their results, and return the result of the tool.

    The tool fails if the request times out or an election fails. The hint lists the partitions that
    needed no election, because Kafka's tool does not print them.
    """
    try:
        results = as_futures(admin).elect_leaders(election_type, partitions, timeout_ms)
        return output.succeeded(_show_elected(results, texts, output))
    except ExecutionException as error:
        if not isinstance(error.cause, RequestTimedOut):
            return output.failed(error, uncaught_text(error))
        failed = AdminCommandFailed("Timeout waiting for election results")
        failed.__cause__ = error.cause
        output.println(failed.message)
    except AdminCommandFailed as error:
        failed = error
    return output.failed(failed, uncaught_text(failed))


def _show_elected(
    results: Mapping[TopicPartition, ApiError], texts: ElectionTexts, output: ToolOutput
) -> str | None:
    succeeded = _in_order(tp for tp, found in results.items() if found.error is Errors.NONE)
    noop = _in_order(
        tp for tp, found in results.items() if found.error is Errors.ELECTION_NOT_NEEDED
    )
    failed = _in_order(results.keys() - {*succeeded, *noop})
    errors = {tp: admin_error(results[tp]) for tp in failed}
    names = ", ".join(map(str, succeeded))
    output.report["elected"] = [tp._asdict() for tp in sorted(succeeded)]
    output.report["not_needed"] = [tp._asdict() for tp in sorted(noop)]
    output.report["failed"] = [
        {**tp._asdict(), "code": results[tp].error.name, "message": errors[tp].message}
        for tp in sorted(failed)
    ]
    if succeeded:
        output.has_changed = True
        output.println(f"{texts.succeeded} {names}")
    if noop:
        # Kafka prints the partitions that succeeded instead; klamm reproduces this bug.
        output.println(f"{texts.noop} {names}")
    for tp, error in errors.items():
        output.println(f"{texts.failed}: {tp}: {error.kafka_class}: {error.message}")
    if failed:
        raise AdminCommandFailed(f"{len(failed)} {texts.exception}")
    return f"no election was needed for {', '.join(map(str, noop))}" if noop else None


def _in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return mutable_order(partitions, topic_partition_hash)
