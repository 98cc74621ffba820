"""Messages of kafka-reassign-partitions about partitions and replicas, identical to Kafka's.

The functions are pure. Mirrors the *ToString methods and messages of ReassignPartitionsCommand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from klamm.cluster.counting import joined, plural
from klamm.cluster.types import ReplicaAssignment, TopicPartition, TopicPartitionReplica
from klamm.tools.reassignments.reassignment_json import format_reassignment

CANNOT_EXECUTE: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
YOU_MUST_RUN_VERIFY: Final = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
    "the throttle is removed."
)
NEEDS_BOOTSTRAP_SERVER: Final = (
    "bootstrap-server needs to be provided when replica reassignments are present."
)
INCOMPLETE_RESULTS: Final = (
    "Warning: because you are using the deprecated --zookeeper option, the results may be "
    "incomplete.  Use --bootstrap-server instead for more accurate results."
)


class PartitionReassignmentState(NamedTuple):
    """Current and target replicas of a partition.

    ``done`` is True if the partition is not being reassigned.
    """

    current_replicas: tuple[int, ...]
    target_replicas: tuple[int, ...]
    done: bool

    @property
    def is_complete(self) -> bool:
        """True if the partition has its target replicas, in the requested order."""
        return self.done and self.current_replicas == self.target_replicas


class LogDirMoveState(NamedTuple):
    """State of a replica's move to the log directory ``target``.

    If ``current`` is None, the replica is not in a live log directory. If ``future`` is None, the
    replica is not being moved. If ``is_known`` is False, the broker's response does not contain the
    replica.
    """

    target: str
    current: str | None = None
    future: str | None = None
    is_known: bool = True

    @property
    def is_active(self) -> bool:
        """True while the replica is being moved to any log directory."""
        return self.current is not None and self.future is not None

    @property
    def done(self) -> bool:
        """True if the replica exists and is not being moved."""
        return self.current is not None and self.future is None


def partition_states_lines(
    states: Mapping[TopicPartition, PartitionReassignmentState],
) -> Iterator[str]:
    """Yield the output of ``--verify`` about partitions, line by line."""
    yield "Status of partition reassignment:"
    for tp in sorted(states):
        state = states[tp]
        if not state.done:
            yield f"Reassignment of partition {tp} is still in progress."
        elif state.is_complete:
            yield f"Reassignment of partition {tp} is complete."
        else:
            yield (
                f"There is no active reassignment of partition {tp}, but replica set is "
                f"{joined(state.current_replicas)} rather than {joined(state.target_replicas)}."
            )


def replica_states_text(states: Mapping[TopicPartitionReplica, LogDirMoveState]) -> str:
    """Return the output of ``--verify`` about log directory moves, without a final newline."""
    ordered = sorted(states, key=lambda replica: replica.order)
    return "\n".join(_replica_state(replica, states[replica]) for replica in ordered)


def _replica_state(replica: TopicPartitionReplica, state: LogDirMoveState) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if not state.is_known:
        return f"{partition} cannot be found in any live log directory on broker " + (
            f"{replica.broker_id}."
        )
    if state.current is None:
        return (
            f"{partition} is not found in any live log dir on broker {replica.broker_id}. There "
            "is likely an offline log directory on the broker."
        )
    if state.future is None and state.current == state.target:
        return f"Reassignment of replica {replica} completed successfully."
    if state.future is None:
        return (
            f"{partition} on broker {replica.broker_id} is not being moved from log dir "
            f"{state.current} to {state.target}."
        )
    if state.future == state.target:
        return f"Reassignment of replica {replica} is still in progress."
    return (
        f"{partition} on broker {replica.broker_id} is being moved to log dir {state.future} "
        f"instead of {state.target}."
    )


def current_assignment_text(
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> str:
    """Return what ``--execute`` prints about the current replicas, without a final newline.

    The text contains a reassignment file that restores these replicas.
    """
    shown = format_reassignment({tp: ids for tp, ids in current.items() if tp in proposed}, {})
    return (
        f"Current partition replica assignment\n\n{shown}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def reassignments_lines(
    reassignments: Mapping[TopicPartition, ReplicaAssignment],
) -> Iterator[str]:
    """Yield the output of ``--list``, line by line."""
    yield (
        "Current partition reassignments:" if reassignments else "No partition reassignments found."
    )
    for tp in sorted(reassignments):
        assignment = reassignments[tp]
        line = f"{tp}: replicas: {joined(assignment.replicas)}."
        if assignment.adding_replicas:
            line += f" adding: {joined(assignment.adding_replicas)}."
        if assignment.removing_replicas:
            line += f" removing: {joined(assignment.removing_replicas)}."
        yield line


def started_text(partitions: Iterable[TopicPartition]) -> str:
    """Return the message that a reassignment was started."""
    ordered = sorted(partitions)
    return (
        f"Successfully started partition reassignment{plural(len(ordered))} for {joined(ordered)}"
    )
