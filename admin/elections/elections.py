"""What both election tools share: the partitions' file and what they print of the results.

Mirrors LeaderElectionCommand.parseReplicaElectionData, its twin in
PreferredReplicaLeaderElectionCommand, and Admin.electLeaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from admin.failures import ExecutionException, admin_error, as_futures
from admin.scala_sets import duplicates, mutable_order, topic_partition_hash
from admin.tool_json import decoding, parse_json
from admin.tool_output import ToolOutput
from cluster.api_errors import Errors
from cluster.errors import AdminCommandFailed, AdminOperationError, RequestTimedOut
from cluster.requests import ApiError
from cluster.types import ElectionType, TopicPartition
from zk.znodes.json_values import as_array, as_object, field, to_int, to_str

if TYPE_CHECKING:
    from admin.kafka_admin import KafkaAdmin


class ElectionTexts(NamedTuple):
    """How a tool words what came out."""

    succeeded: str
    noop: str
    failed: str
    exception: str


def parse_election_data(text: str, what: str, missing: str) -> list[TopicPartition]:
    """The partitions of a file, in order.

    ``what`` begins the tool's messages, ``missing`` is what it says without a field "partitions".
    Raises AdminOperationError, UncaughtException.
    """
    node = parse_json(text, f"{what} is empty")
    with decoding():
        fields = as_object(node)
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


def elect_leaders(
    admin: KafkaAdmin,
    election_type: ElectionType,
    partitions: Collection[TopicPartition] | None,
    timeout_ms: int,
    texts: ElectionTexts,
    output: ToolOutput,
) -> str | None:
    """Ask for elections and print the results; returns klamm's hint where Kafka's text leaves
    names out. Raises AdminCommandFailed if the time is over or one failed, ExecutionException."""
    try:
        results = as_futures(admin).elect_leaders(election_type, partitions, timeout_ms)
    except ExecutionException as error:
        if not isinstance(error.cause, RequestTimedOut):
            raise
        failed = AdminCommandFailed("Timeout waiting for election results")
        output.println(failed.message)
        raise failed from error.cause
    return _show_elected(results, texts, output)


def _show_elected(
    results: Mapping[TopicPartition, ApiError], texts: ElectionTexts, output: ToolOutput
) -> str | None:
    succeeded = _in_order(tp for tp, found in results.items() if found.error is Errors.NONE)
    noop = _in_order(
        tp for tp, found in results.items() if found.error is Errors.ELECTION_NOT_NEEDED
    )
    passed = (Errors.NONE, Errors.ELECTION_NOT_NEEDED)
    failed = {tp: found for tp, found in results.items() if found.error not in passed}
    names = ", ".join(map(str, succeeded))
    output.report["elected"] = [tp._asdict() for tp in sorted(succeeded)]
    output.report["not_needed"] = [tp._asdict() for tp in sorted(noop)]
    output.report["failed"] = [
        {**tp._asdict(), "code": failed[tp].error.name, "message": admin_error(failed[tp]).message}
        for tp in sorted(failed)
    ]
    if succeeded:
        output.println(f"{texts.succeeded} {names}")
    if noop:
        # Kafka names here the partitions that succeeded.
        output.println(f"{texts.noop} {names}")
    for tp in _in_order(failed):
        error = admin_error(failed[tp])
        output.println(f"{texts.failed}: {tp}: {error.kafka_class}: {error.message}")
    if failed:
        raise AdminCommandFailed(f"{len(failed)} {texts.exception}")
    return f"no election was needed for {', '.join(map(str, noop))}" if noop else None


def _in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return mutable_order(partitions, topic_partition_hash)
