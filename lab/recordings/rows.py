"""Converts journal rows and control requests to the format of the recordings of real brokers.

The format consists of plain lists and dictionaries.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import ControlRequest, StopReplicaRequest, UpdateMetadataRequest
from klamm.tools.command_result import CommandResult

Json = dict[str, Any]


class StepRecord(msgspec.Struct, frozen=True):
    """What klamm did in one step, in the format of a recorded step."""

    tree: Json
    transitions: list[list[Any]]
    requests: list[Json]
    until_met: list[bool] = []
    tool: CommandResult | None = None


_TRANSITIONS = {
    Kind.PARTITION_TRANSITION: "partition",
    Kind.REPLICA_TRANSITION: "replica",
    Kind.PARTITION_FAILED: "partition-FAILED",
    Kind.REPLICA_FAILED: "replica-FAILED",
    Kind.ISR_REMOVED: "isr-removed",
    Kind.LEADER_EPOCH_BUMPED: "reassign-epoch-bump",
}


def transition_of(row: JournalRow) -> list[Any] | None:
    """Convert a journal row to a recorded transition. Return None for other kinds of rows."""
    kind = _TRANSITIONS.get(Kind(row.kind))
    if kind is None:
        return None
    replica = None if row.replica < 0 else row.replica
    transition: list[Any] = [kind, f"{row.topic}-{row.partition}", replica, row.from_, row.to]
    if kind in ("isr-removed", "reassign-epoch-bump") or (
        kind == "partition" and row.to == "OnlinePartition"
    ):
        state: Json = {
            "leader": row.leader,
            "leader_epoch": row.leader_epoch,
            "isr": list(row.isr or ()),
            "zk_version": row.zk_version,
        }
        if kind == "reassign-epoch-bump":
            state.update(_assignment(row.detail or ""))
        transition.append(state)
    return transition


def _assignment(text: str) -> Json:
    """Parse the text of a ReplicaAssignment, as Kafka prints it."""
    lists = re.findall(r"=([\d,]*?)[,)](?: |$)", text)
    replicas, adding, removing = ([int(i) for i in ids.split(",") if i] for ids in lists)
    return {"replicas": replicas, "adding": adding, "removing": removing}


def requests_of(to: int, body: ControlRequest) -> list[Json]:
    """Convert a control request to recorded rows.

    LeaderAndIsr and StopReplica give one row per partition, UpdateMetadata one row per request."""
    if isinstance(body, UpdateMetadataRequest):
        return [{"api": "UpdateMetadata", "to": [to], "partitions": len(body.partition_states)}]
    if isinstance(body, StopReplicaRequest):
        return [
            {
                "api": "StopReplica",
                "to": to,
                "tp": str(state.topic_partition),
                "leader_epoch": state.leader_epoch,
                "delete": state.delete_partition,
            }
            for state in body.partition_states
        ]
    return [
        {
            "api": "LeaderAndIsr",
            "to": to,
            "tp": str(state.topic_partition),
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "zk_version": state.zk_version,
            "replicas": list(state.replicas),
            "adding": list(state.adding_replicas),
            "removing": list(state.removing_replicas),
            "is_new": state.is_new,
            "controller_epoch": state.controller_epoch,
        }
        for state in body.partition_states
    ]
