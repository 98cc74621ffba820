"""Committed offsets: commits, fetches, expiry and deletion.

Mirrors storeOffsets, getOffsets and cleanupGroupMetadata of
kafka.coordinator.group.GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from klamm.brokers.groups.group import Group, GroupState
from klamm.brokers.groups.group_log import GroupLog, GroupRecord, OnAppended
from klamm.brokers.groups.group_records import group_key, group_value, offset_key, offset_value
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from klamm.cluster.protocols import Clock
from klamm.cluster.records import NO_TIMESTAMP
from klamm.cluster.types import TopicPartition

_STORED: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
}
_COMMIT_ERRORS: Final = {
    **_STORED,
    Errors.MESSAGE_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.RECORD_LIST_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
}
_GROUP_ERRORS: Final = {
    **_STORED,
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
}

OnCommitted = Callable[[Mapping[TopicPartition, Errors]], None]


class OffsetManager:
    """Stores the metadata and the committed offsets of groups.

    ``partition_of`` returns the partition of ``__consumer_offsets`` that stores a group.
    """

    def __init__(
        self,
        log: GroupLog,
        clock: Clock,
        metadata_max_size: int,
        partition_of: Callable[[str], int],
    ) -> None:
        self._log = log
        self._clock = clock
        self._metadata_max_size = metadata_max_size
        self._partition_of = partition_of

    def _append(self, group: Group, records: list[GroupRecord], on_appended: OnAppended) -> None:
        self._log.append(self._partition_of(group.group_id), records, on_appended)

    def store_group(self, group: Group, on_stored: Callable[[Errors], None]) -> None:
        """Store a group's metadata, then call ``on_stored`` with the error or NONE."""
        record = (group_key(group.group_id), group_value(group))
        self._append(group, [record], lambda error: on_stored(_GROUP_ERRORS.get(error, error)))

    def commit(
        self,
        group: Group,
        body: OffsetCommitRequest,
        offsets: Mapping[TopicPartition, CommittedOffset],
        on_committed: OnCommitted,
    ) -> None:
        """Store offsets; they are visible once the ISR of ``__consumer_offsets`` has them."""
        valid = {
            tp: self._stamped(body, one)
            for tp, one in offsets.items()
            if len(one.metadata) <= self._metadata_max_size
        }
        too_large = dict.fromkeys(offsets, Errors.OFFSET_METADATA_TOO_LARGE)
        if not valid:
            on_committed(too_large)
            return

        def on_appended(error: Errors) -> None:
            for tp, one in valid.items():
                if not error and tp in group.pending_offsets:
                    group.offsets[tp] = one
                if group.pending_offsets.get(tp) is one:
                    del group.pending_offsets[tp]
            result = _COMMIT_ERRORS.get(error, error)
            on_committed({**too_large, **dict.fromkeys(valid, result)})

        group.pending_offsets.update(valid)
        records: list[GroupRecord] = [
            (offset_key(group.group_id, tp), offset_value(one)) for tp, one in valid.items()
        ]
        self._append(group, records, on_appended)

    def _stamped(self, body: OffsetCommitRequest, one: CommittedOffset) -> CommittedOffset:
        now_ms = self._clock.now_ms()
        kept_ms = body.retention_time_ms
        return msgspec.structs.replace(
            one,
            timestamp_ms=now_ms if one.timestamp_ms == NO_TIMESTAMP else one.timestamp_ms,
            expire_timestamp_ms=NO_TIMESTAMP if kept_ms == NO_TIMESTAMP else now_ms + kept_ms,
        )

    def remove(self, group: Group, tps: Iterable[TopicPartition]) -> None:
        """Remove offsets, and append tombstones."""
        removed = []
        for tp in tps:
            group.pending_offsets.pop(tp, None)
            if group.offsets.pop(tp, None) is not None:
                removed.append(tp)
        self.clean_up(group, removed)

    def clean_up(self, group: Group, removed: list[TopicPartition]) -> None:
        """Append tombstones of removed offsets, and of the group if nothing of it is left."""
        if group.state is GroupState.EMPTY and not group.offsets and not group.pending_offsets:
            group.transition_to(GroupState.DEAD, self._clock.now_ms())
        tombstones: list[GroupRecord] = [(offset_key(group.group_id, tp), None) for tp in removed]
        # A group of generation 0 only stored offsets, and has no metadata record.
        if group.state is GroupState.DEAD and group.generation_id > 0:
            tombstones.append((group_key(group.group_id), None))
        if tombstones:
            # A tombstone that is lost is appended again by the next coordinator's cleanup.
            self._append(group, tombstones, lambda _: None)


def fetch_offsets(
    group: Group | None, body: OffsetFetchRequest
) -> dict[TopicPartition, FetchedOffset]:
    """Return the committed offsets of a group, which may not exist."""
    if group is None:
        return {tp: FetchedOffset() for tp in body.partitions or ()}
    tps = group.offsets if body.partitions is None else body.partitions
    return {tp: _fetched(group, tp, require_stable=body.require_stable) for tp in tps}


def _fetched(group: Group, tp: TopicPartition, *, require_stable: bool) -> FetchedOffset:
    if require_stable and tp in group.pending_offsets:
        return FetchedOffset(Errors.UNSTABLE_OFFSET_COMMIT)
    one = group.offsets.get(tp)
    if one is None:
        return FetchedOffset()
    return FetchedOffset(Errors.NONE, one.offset, one.leader_epoch, one.metadata)
