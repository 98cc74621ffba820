"""The group coordinator of a broker: handles the requests of consumer groups.

It coordinates the groups of the ``__consumer_offsets`` partitions that the broker leads.
membership.py has the state machine of a group, offset_manager.py the offsets. Mirrors
kafka.coordinator.group.GroupCoordinator and the handlers of kafka.server.KafkaApis.
"""

from __future__ import annotations

import logging
from typing import Final

from klamm.brokers.config import BrokerConfig
from klamm.brokers.groups.group import CONSUMER, Group, GroupState
from klamm.brokers.groups.group_log import GroupLog
from klamm.brokers.groups.membership import Membership
from klamm.brokers.groups.offset_manager import OffsetManager, fetch_offsets
from klamm.brokers.groups.timers import Timers
from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    UNKNOWN_MEMBER_ID,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupRequest,
    GroupResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from klamm.cluster.jvm.java_hash import absolute, string_hash
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import (
    ControlRequest,
    Message,
    PartitionErrors,
    Response,
    SentPartitionState,
    StopReplicaPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import LEADER_DURING_DELETE, TopicPartition

logger = logging.getLogger(__name__)

_EXPIRY: Final = ("expiry",)


def partition_for(group_id: str, num_partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that stores a group."""
    return absolute(string_hash(group_id)) % num_partitions


class GroupCoordinator:
    """The groups whose ``__consumer_offsets`` partitions one broker leads, with their timers."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        cache: MetadataCache,
        log: GroupLog,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._clock = clock
        self._cache = cache
        self._log = log
        self._timers = Timers()
        self._groups: dict[str, Group] = {}
        self._num_partitions = config.offsets_topic_num_partitions
        self._owned: set[int] = set()
        self._loading: set[int] = set()
        self._epochs: dict[int, int] = {}
        self._answers: list[tuple[Message, GroupResponse]] = []
        self._offsets = OffsetManager(
            log, clock, config.offset_metadata_max_bytes, self.partition_of
        )
        self._members = Membership(
            broker_id, config, clock, self._timers, self._reply, self._offsets.store_group
        )

    def startup(self, num_partitions: int) -> None:
        """Begin with the number of partitions of an existing ``__consumer_offsets``.

        Like 2.8.2, a broker that starts before the topic exists uses offsets.topic.num.partitions.
        """
        self._num_partitions = num_partitions

    def partition_of(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that stores a group."""
        return partition_for(group_id, self._num_partitions)

    def take_answers(self) -> list[tuple[Message, GroupResponse]]:
        """Remove and return the requests that can be answered, with their responses."""
        answers, self._answers = self._answers, []
        return answers

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds, or None."""
        return self._timers.next_due_ms()

    def on_timer(self, now_ms: float) -> None:
        """Run the timers that are due."""
        self._timers.run(now_ms)

    def _reply(self, message: Message, response: GroupResponse) -> None:
        self._answers.append((message, response))

    # -- leadership of __consumer_offsets

    def on_control_request(self, request: ControlRequest, response: Response) -> None:
        """Load or unload groups after the broker has executed a controller request.

        Mirrors onLeadershipChange of kafka.server.RequestHandlerHelper, and the coordinator's part
        of handleStopReplicaRequest and handleUpdateMetadataRequest of kafka.server.KafkaApis.
        """
        if isinstance(request, UpdateMetadataRequest):
            if self._groups:
                states = request.partition_states
                gone = {s.topic_partition for s in states if s.leader == LEADER_DURING_DELETE}
                if gone:
                    self._on_deleted_partitions(gone)
            return
        assert isinstance(response, PartitionErrors)
        for state in request.partition_states:
            tp = state.topic_partition
            if tp.topic != OFFSETS_TOPIC or response.partition_errors.get(tp) is not Errors.NONE:
                continue
            if isinstance(state, SentPartitionState) and state.leader == self._broker_id:
                self.on_election(tp.partition, state.leader_epoch)
            elif not isinstance(state, StopReplicaPartitionState) or state.delete_partition:
                epoch = state.leader_epoch
                self.on_resignation(tp.partition, epoch if epoch >= 0 else None)

    def on_election(self, partition: int, leader_epoch: int) -> None:
        """Load the groups of a partition that this broker leads now, unless the epoch is stale."""
        is_current = self._update_epoch(partition, leader_epoch)
        if not is_current or partition in self._owned or partition in self._loading:
            return
        self._loading.add(partition)
        now_ms = self._clock.monotonic_ms()
        self._timers.set(("load", partition), now_ms, lambda: self._load(partition))

    def _load(self, partition: int) -> None:
        self._loading.remove(partition)
        self._owned.add(partition)
        try:
            groups = self._log.load(partition)
        except ReplicaLogError as error:
            logger.error(
                "broker %d: cannot load groups from %s-%d: %s",
                self._broker_id,
                OFFSETS_TOPIC,
                partition,
                error,
            )
            return
        for group in groups:
            self._add(group)
            self._members.on_loaded(group)

    def on_resignation(self, partition: int, leader_epoch: int | None) -> None:
        """Forget the groups of a partition that this broker no longer leads.

        A stale epoch is ignored. None means that the topic is deleted: its epochs begin again.
        """
        if not self._update_epoch(partition, leader_epoch):
            return
        self._timers.cancel(("load", partition))
        self._loading.discard(partition)
        if partition not in self._owned:
            return
        self._owned.remove(partition)
        for group in list(self._groups.values()):
            if self.partition_of(group.group_id) == partition:
                del self._groups[group.group_id]
                self._members.on_unloaded(group)

    def _update_epoch(self, partition: int, leader_epoch: int | None) -> bool:
        if leader_epoch is None:
            self._epochs.pop(partition, None)
            return True
        newest = self._epochs[partition] = max(
            leader_epoch, self._epochs.get(partition, leader_epoch)
        )
        return leader_epoch == newest

    def _on_deleted_partitions(self, deleted: set[TopicPartition]) -> None:
        """Remove the committed offsets of deleted partitions."""
        for group in list(self._groups.values()):
            self._remove_offsets(group, [tp for tp in group.offsets if tp in deleted])

    # -- groups

    def _add(self, group: Group) -> None:
        self._groups[group.group_id] = group
        if _EXPIRY not in self._timers:
            self._schedule_expiry()

    def _create(self, group_id: str) -> Group:
        group = Group(group_id, self._clock.now_ms())
        self._add(group)
        return group

    def _schedule_expiry(self) -> None:
        interval_ms = self._config.offsets_retention_check_interval_ms
        self._timers.set(_EXPIRY, self._clock.monotonic_ms() + interval_ms, self._expire)

    def _expire(self) -> None:
        retention_ms = self._config.offsets_retention_minutes * 60_000
        for group in list(self._groups.values()):
            expired = group.take_expired(self._clock.now_ms(), retention_ms)
            self._offsets.clean_up(group, expired)
            self._forget_dead(group)
        if self._groups:
            self._schedule_expiry()

    def _remove_offsets(self, group: Group, tps: list[TopicPartition]) -> None:
        self._offsets.remove(group, tps)
        self._forget_dead(group)

    def _forget_dead(self, group: Group) -> None:
        if group.state is GroupState.DEAD:
            self._groups.pop(group.group_id, None)
            self._members.on_unloaded(group)

    def _check(self, group_id: str, *, empty_allowed: bool = False) -> Errors:
        if not group_id and not empty_allowed:
            return Errors.INVALID_GROUP_ID
        partition = self.partition_of(group_id)
        if partition in self._loading:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if partition in self._owned else Errors.NOT_COORDINATOR

    # -- requests

    def handle(self, message: Message, body: GroupRequest) -> GroupResponse | None:
        """Handle a request to this coordinator; return None if it is answered later."""
        match body:
            case JoinGroupRequest():
                return self._join(message, body)
            case SyncGroupRequest():
                return self._sync(message, body)
            case HeartbeatRequest():
                return self._heartbeat(body)
            case LeaveGroupRequest():
                return self._leave(body)
            case OffsetCommitRequest():
                return self._commit(message, body)
            case OffsetFetchRequest():
                error = self._check(body.group_id, empty_allowed=True)
                group = self._groups.get(body.group_id)
                return OffsetFetchResponse(error, {} if error else fetch_offsets(group, body))
            case ListGroupsRequest():
                return self._list(body)
            case DescribeGroupsRequest():
                return DescribeGroupsResponse(tuple(map(self._describe, body.group_ids)))
            case DeleteGroupsRequest():
                names = dict.fromkeys(body.group_ids)
                return DeleteGroupsResponse({name: self._delete(name) for name in names})
            case OffsetDeleteRequest():
                return self._delete_offsets(body)
        raise AssertionError(f"{type(body).__name__} is not for a group coordinator")

    def _join(self, message: Message, body: JoinGroupRequest) -> GroupResponse | None:
        error = self._check(body.group_id) or self._members.check_join(body)
        group = self._groups.get(body.group_id)
        if not error and group is None and body.member_id != UNKNOWN_MEMBER_ID:
            error = Errors.UNKNOWN_MEMBER_ID
        if error:
            return JoinGroupResponse(error, body.member_id)
        self._members.join(group or self._create(body.group_id), message, body)
        return None

    def _sync(self, message: Message, body: SyncGroupRequest) -> GroupResponse | None:
        error = self._check(body.group_id)
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            # Older clients do not expect that error; this one makes them join again.
            error = Errors.REBALANCE_IN_PROGRESS
        group = self._groups.get(body.group_id)
        if error or group is None:
            return SyncGroupResponse(error or Errors.UNKNOWN_MEMBER_ID)
        self._members.sync(group, message, body)
        return None

    def _heartbeat(self, body: HeartbeatRequest) -> HeartbeatResponse:
        error = self._check(body.group_id)
        if error:
            loading = error is Errors.COORDINATOR_LOAD_IN_PROGRESS
            return HeartbeatResponse(Errors.NONE if loading else error)
        group = self._groups.get(body.group_id)
        if group is None:
            return HeartbeatResponse(Errors.UNKNOWN_MEMBER_ID)
        return HeartbeatResponse(self._members.heartbeat(group, body))

    def _leave(self, body: LeaveGroupRequest) -> LeaveGroupResponse:
        if error := self._check(body.group_id):
            return LeaveGroupResponse(error)
        group = self._groups.get(body.group_id)
        if group is None:
            unknown = Errors.UNKNOWN_MEMBER_ID
            return LeaveGroupResponse(Errors.NONE, tuple((one, unknown) for one in body.members))
        return self._members.leave(group, body)

    def _commit(self, message: Message, body: OffsetCommitRequest) -> GroupResponse | None:
        missing = {tp: Errors.UNKNOWN_TOPIC_OR_PARTITION for tp in body.offsets}
        offsets = {tp: one for tp, one in body.offsets.items() if tp in self._cache}
        for tp in offsets:
            del missing[tp]
        if not offsets:
            return OffsetCommitResponse(missing)
        error = self._check(body.group_id, empty_allowed=True)
        group = self._groups.get(body.group_id)
        if not error and group is None and body.generation_id >= 0:
            error = Errors.ILLEGAL_GENERATION
        if not error and group is not None:
            error = self._check_commit(group, body)
        if error:
            return OffsetCommitResponse({**missing, **dict.fromkeys(offsets, error)})
        group = group or self._create(body.group_id)
        self._offsets.commit(
            group,
            body,
            offsets,
            lambda results: self._reply(message, OffsetCommitResponse({**missing, **results})),
        )
        return None

    def _check_commit(self, group: Group, body: OffsetCommitRequest) -> Errors:
        if body.generation_id < 0 and group.state is GroupState.EMPTY:
            return Errors.NONE
        error = self._members.check_member(
            group, body.member_id, body.group_instance_id, body.generation_id
        )
        if not error and group.state is GroupState.COMPLETING_REBALANCE:
            return Errors.REBALANCE_IN_PROGRESS
        if not error:
            self._members.touch(group, body.member_id)
        return error

    def _list(self, body: ListGroupsRequest) -> ListGroupsResponse:
        listed = tuple(
            ListedGroup(one.group_id, one.protocol_type or "", one.state.value)
            for one in self._groups.values()
            if not body.states or one.state.value in body.states
        )
        loading = Errors.COORDINATOR_LOAD_IN_PROGRESS
        return ListGroupsResponse(loading if self._loading else Errors.NONE, listed)

    def _describe(self, group_id: str) -> DescribedGroup:
        if error := self._check(group_id, empty_allowed=True):
            return DescribedGroup(error, group_id)
        group = self._groups.get(group_id)
        if group is None:
            return DescribedGroup(Errors.NONE, group_id, GroupState.DEAD.value)
        return group.describe()

    def _delete(self, group_id: str) -> Errors:
        if error := self._check(group_id, empty_allowed=True):
            return error
        group = self._groups.get(group_id)
        if group is None:
            return Errors.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return Errors.NON_EMPTY_GROUP
        group.pending_offsets.clear()
        self._remove_offsets(group, list(group.offsets))
        return Errors.NONE

    def _delete_offsets(self, body: OffsetDeleteRequest) -> OffsetDeleteResponse:
        error = self._check(body.group_id)
        group = self._groups.get(body.group_id)
        if error or group is None:
            return OffsetDeleteResponse(error or Errors.GROUP_ID_NOT_FOUND)
        is_empty = group.state is GroupState.EMPTY
        if not is_empty and group.protocol_type != CONSUMER:
            return OffsetDeleteResponse(Errors.NON_EMPTY_GROUP)
        results = {tp: Errors.NONE for tp in body.partitions}
        topics = group.subscribed_topics
        for tp in body.partitions:
            if tp not in self._cache:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
            elif not is_empty and (topics is None or tp.topic in topics):
                results[tp] = Errors.GROUP_SUBSCRIBED_TO_TOPIC
        self._remove_offsets(group, [tp for tp, refused in results.items() if not refused])
        return OffsetDeleteResponse(Errors.NONE, results)
