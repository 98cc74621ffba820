"""What both election tools share: the partitions' file, the cluster's protocol, its answers.

Mirrors LeaderElectionCommand.parseReplicaElectionData, its twin in
PreferredReplicaLeaderElectionCommand, and Admin.electLeaders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

from admin.failures import ExecutionException, Failure, admin_error, as_futures
from admin.scala_sets import duplicates, mutable_order, topic_partition_hash
from admin.tool_json import decoding, parse_json
from admin.tool_output import ToolOutput
from cluster.api_errors import Errors
from cluster.errors import AdminCommandFailed, AdminOperationError, RequestTimedOut
from cluster.types import ElectionType as ElectionType
from cluster.types import TopicPartition
from zk.znodes.json_values import as_array, as_object, field, to_int, to_str


class ElectionAdmin(Protocol):
    """A running cluster that can be asked for elections."""

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, Failure | None]:
        """Elect leaders; None asks for all partitions that need it.

        Gives each partition's failure, None for an election that took place. Raises
        RequestTimedOut, KlammError.
        """
        ...


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
    admin: ElectionAdmin,
    election_type: ElectionType,
    partitions: Collection[TopicPartition] | None,
    timeout_ms: int,
) -> Mapping[TopicPartition, Failure | None]:
    """Ask for elections. Raises AdminCommandFailed when the time is over, ExecutionException."""
    try:
        return as_futures(admin).elect_leaders(election_type, partitions, timeout_ms)
    except ExecutionException as error:
        if not isinstance(error.cause, RequestTimedOut):
            raise
        raise AdminCommandFailed("Timeout waiting for election results") from error.cause


def show_elected(
    results: Mapping[TopicPartition, Failure | None], texts: ElectionTexts, output: ToolOutput
) -> str | None:
    """Print what became of each election; klamm's hint where Kafka's text leaves names out.

    Raises AdminCommandFailed if one failed.
    """
    succeeded = _in_order(tp for tp, failure in results.items() if failure is None)
    noop = _in_order(tp for tp, failure in results.items() if failure and _is_noop(failure))
    failed = {tp: failure for tp, failure in results.items() if failure and not _is_noop(failure)}
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
        output.println(f"{texts.failed}: {tp}: {_exception(failed[tp])}")
    if failed:
        raise AdminCommandFailed(f"{len(failed)} {texts.exception}")
    return f"no election was needed for {', '.join(map(str, noop))}" if noop else None


def _exception(failure: Failure) -> str:
    error = admin_error(failure)
    return f"{error.kafka_class}: {error.message}"


def _is_noop(failure: Failure) -> bool:
    return failure.error is Errors.ELECTION_NOT_NEEDED


def _in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return mutable_order(partitions, topic_partition_hash)
