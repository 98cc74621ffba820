"""Moves replicas between the log directories of a broker, and checks the progress of such moves.

The caller provides the clock. Mirrors ReassignPartitionsCommand.findLogDirMoveStates and
executeMoves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.counting import joined, plural
from klamm.cluster.errors import AdminCommandFailed
from klamm.cluster.types import TopicPartitionReplica
from klamm.tools.reassignments.common import TerseFailure
from klamm.tools.reassignments.text import LogDirMoveState
from klamm.tools.tool_output import ToolOutput
from klamm.tools.tool_services import ToolServices

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin

RETRY_MS: Final = 100


class LogDirMoves:
    """Moves replicas of one cluster between log directories."""

    def __init__(
        self,
        admin: KafkaAdmin,
        output: ToolOutput,
        services: ToolServices,
    ) -> None:
        self._admin = admin
        self._output = output
        self._services = services

    def states(
        self, targets: Mapping[TopicPartitionReplica, str]
    ) -> dict[TopicPartitionReplica, LogDirMoveState]:
        """Return the state of each replica's move to its target log directory."""
        if not targets:
            return {}
        found = self._admin.describe_replica_log_dirs(list(targets))
        return {
            replica: LogDirMoveState(target, *found[replica])
            if replica in found
            else LogDirMoveState(target, is_known=False)
            for replica, target in targets.items()
        }

    def execute(self, targets: Mapping[TopicPartitionReplica, str], timeout_ms: int) -> None:
        """Start the moves; for ``timeout_ms``, retry moves of replicas that do not exist yet.

        Raises AdminCommandFailed if a broker refuses a move, and TerseFailure after the timeout.
        """
        deadline_ms = self._services.now_ms() + timeout_ms
        pending = dict(targets)
        while True:
            started = self._start(pending)
            if started:
                self._output.println(
                    f"Successfully started log directory move{plural(len(started))} for: "
                    f"{_in_order(started)}"
                )
            for replica in started:
                del pending[replica]
            if not pending:
                return
            if self._services.now_ms() >= deadline_ms:
                raise TerseFailure(
                    f"Timed out before log directory move{plural(len(pending))} could be started "
                    f"for: {_in_order(pending)}"
                )
            self._services.sleep_ms(RETRY_MS)

    def _start(
        self, targets: Mapping[TopicPartitionReplica, str]
    ) -> Collection[TopicPartitionReplica]:
        failures = self._admin.alter_replica_log_dirs(targets)
        self._output.has_changed |= len(failures) < len(targets)
        for replica, failure in failures.items():
            if failure.error is not Errors.REPLICA_NOT_AVAILABLE:
                why = failure.message or failure.error.name
                raise AdminCommandFailed(
                    f"Failed to alter dir for {replica}",
                    hint=f"broker {replica.broker_id}, log directory {targets[replica]}: {why}",
                )
        return [replica for replica in targets if replica not in failures]


def _in_order(replicas: Iterable[TopicPartitionReplica]) -> str:
    ordered: list[TopicPartitionReplica] = sorted(replicas, key=lambda replica: replica.order)
    return joined(ordered)
