"""Tells a group coordinator which partitions of ``__consumer_offsets`` its broker leads.

Mirrors onLeadershipChange of kafka.server.RequestHandlerHelper, and the coordinator's part of
handleStopReplicaRequest and handleUpdateMetadataRequest of kafka.server.KafkaApis.
"""

from __future__ import annotations

from klamm.brokers.groups.group_coordinator import GroupCoordinator
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    ControlRequest,
    PartitionErrors,
    Response,
    SentPartitionState,
    StopReplicaPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import LEADER_DURING_DELETE


def follow_leadership(
    groups: GroupCoordinator, broker_id: int, request: ControlRequest, response: Response
) -> None:
    """Load or unload groups after the broker has executed a controller request."""
    if isinstance(request, UpdateMetadataRequest):
        if groups.has_groups:
            states = request.partition_states
            gone = {s.topic_partition for s in states if s.leader == LEADER_DURING_DELETE}
            if gone:
                groups.on_deleted_partitions(gone)
        return
    assert isinstance(response, PartitionErrors)
    for state in request.partition_states:
        tp = state.topic_partition
        if tp.topic != OFFSETS_TOPIC or response.partition_errors.get(tp) is not Errors.NONE:
            continue
        if isinstance(state, SentPartitionState) and state.leader == broker_id:
            groups.on_election(tp.partition, state.leader_epoch)
        elif not isinstance(state, StopReplicaPartitionState) or state.delete_partition:
            epoch = state.leader_epoch
            groups.on_resignation(tp.partition, epoch if epoch >= 0 else None)
