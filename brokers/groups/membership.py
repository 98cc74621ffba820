"""Membership of groups: joins, syncs, heartbeats, leaving, and rebalances.

Requests that cannot be answered at once are kept in their members. Mirrors the state machine of
kafka.coordinator.group.GroupCoordinator with DelayedJoin, InitialDelayedJoin, DelayedSync and
DelayedHeartbeat, which are timers here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from klamm.brokers.config import BrokerConfig
from klamm.brokers.groups.group import Group, GroupState, Member
from klamm.brokers.groups.timers import Timers
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    UNKNOWN_MEMBER_ID,
    GroupResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Message

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
_ID_PREFIX_MAX_BYTES: Final = 2**15 - 1 - len("-") - 36
"""A member id also has a UUID, and a string in ``__consumer_offsets`` at most 32,767 bytes."""
_REBALANCEABLE: Final = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY)

StoreGroup = Callable[[Group, Callable[[Errors], None]], None]
"""Stores a group's metadata, and then calls the function with the error or NONE."""


class Membership:
    """The members of the groups that one broker coordinates.

    ``reply`` answers a request; ``store`` stores a group in ``__consumer_offsets``.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        reply: Callable[[Message, GroupResponse], None],
        store: StoreGroup,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._clock = clock
        self._timers = timers
        self._reply = reply
        self._store = store
        self._generated = 0

    def _after(self, delay_ms: float, key: tuple[str, ...], callback: Callable[[], None]) -> None:
        self._timers.set(key, self._clock.monotonic_ms() + delay_ms, callback)

    # -- JoinGroup

    def check_join(self, body: JoinGroupRequest) -> Errors:
        """Return the error for a session timeout or a client id outside the limits, or NONE."""
        if len((body.group_instance_id or body.client_id).encode()) > _ID_PREFIX_MAX_BYTES:
            return Errors.UNKNOWN_SERVER_ERROR
        config = self._config
        least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        valid = least <= body.session_timeout_ms <= most
        return Errors.NONE if valid else Errors.INVALID_SESSION_TIMEOUT

    def join(self, group: Group, message: Message, body: JoinGroupRequest) -> None:
        """Let a member join, and complete the rebalance if it was the last."""
        if not self._has_room(group, body.member_id):
            if body.member_id in group.members:
                self._drop(group, group.members[body.member_id])
            self._refuse_join(message, UNKNOWN_MEMBER_ID, Errors.GROUP_MAX_SIZE_REACHED)
        elif not group.supports(body.protocol_type, body.protocols):
            self._refuse_join(message, body.member_id, Errors.INCONSISTENT_GROUP_PROTOCOL)
        elif body.member_id == UNKNOWN_MEMBER_ID:
            self._join_without_id(group, message, body)
        else:
            self._join_with_id(group, message, body)
        self._maybe_complete_join(group)

    def _has_room(self, group: Group, member_id: str) -> bool:
        most, member = self._config.group_max_size, group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            has_joined = member is not None and member.join is not None
            return has_joined or group.awaiting_count < most
        return member is not None or len(group.members) < most

    def _refuse_join(self, message: Message, member_id: str, error: Errors) -> None:
        self._reply(message, JoinGroupResponse(error, member_id))

    def _join_without_id(self, group: Group, message: Message, body: JoinGroupRequest) -> None:
        member_id = self._generate_id(body.group_instance_id or body.client_id)
        old_id = group.static_member_id(body.group_instance_id)
        if old_id is not None:
            self._rejoin_static(group, old_id, member_id, message, body)
        elif body.requires_known_member_id and body.group_instance_id is None:
            group.pending_members[member_id] = None
            key = ("member", group.group_id, member_id)
            self._after(
                body.session_timeout_ms, key, lambda: self._expire_pending(group, member_id)
            )
            self._refuse_join(message, member_id, Errors.MEMBER_ID_REQUIRED)
        else:
            self._add(group, member_id, message, body)

    def _generate_id(self, prefix: str) -> str:
        # Not random, so that a simulated run is repeatable.
        self._generated += 1
        name = f"{self._broker_id}/{self._clock.now_ms()}/{self._generated}"
        return f"{prefix}-{uuid.uuid5(uuid.NAMESPACE_OID, name)}"

    def _join_with_id(self, group: Group, message: Message, body: JoinGroupRequest) -> None:
        member = group.members.get(body.member_id)
        if member is None and body.member_id in group.pending_members:
            if body.group_instance_id is None:
                self._add(group, body.member_id, message, body)
            else:
                # Only a dynamic member is pending: Kafka's coordinator throws here.
                self._refuse_join(message, UNKNOWN_MEMBER_ID, Errors.UNKNOWN_SERVER_ERROR)
        elif group.is_fenced(body.member_id, body.group_instance_id):
            self._refuse_join(message, body.member_id, Errors.FENCED_INSTANCE_ID)
        elif member is None or (
            body.group_instance_id and body.group_instance_id not in group.static_members
        ):
            self._refuse_join(message, body.member_id, Errors.UNKNOWN_MEMBER_ID)
        elif group.state is not GroupState.PREPARING_REBALANCE and (
            member.protocols == body.protocols
            and (group.state is GroupState.COMPLETING_REBALANCE or group.leader != body.member_id)
        ):
            self._reply(message, self._joined(group, member))
        else:
            member.protocols, member.join = body.protocols, message
            self._maybe_prepare_rebalance(group)

    def _joined(self, group: Group, member: Member) -> JoinGroupResponse:
        leads = group.leader == member.member_id
        return JoinGroupResponse(
            Errors.NONE,
            member.member_id,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader or "",
            group.joined_members() if leads else (),
        )

    def _add(self, group: Group, member_id: str, message: Message, body: JoinGroupRequest) -> None:
        member = Member(
            member_id,
            body.group_instance_id,
            body.client_id,
            body.client_host,
            body.rebalance_timeout_ms,
            body.session_timeout_ms,
            body.protocols,
            join=message,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = body.protocol_type
        group.add(member)
        group.pending_members.pop(member_id, None)
        # A new member cannot send heartbeats yet: its join expires instead if the client is gone.
        self._await_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._maybe_prepare_rebalance(group)

    def _rejoin_static(
        self, group: Group, old_id: str, new_id: str, message: Message, body: JoinGroupRequest
    ) -> None:
        old_leader = group.leader
        member = group.members[old_id]
        self._answer_join(member, JoinGroupResponse(Errors.FENCED_INSTANCE_ID, old_id))
        self._answer_sync(member, SyncGroupResponse(Errors.FENCED_INSTANCE_ID))
        group.replace_static_member(old_id, new_id)
        self._timers.cancel(("member", group.group_id, old_id))
        self._await_heartbeat(group, member)
        member.protocols, member.join = body.protocols, message
        if group.state is GroupState.COMPLETING_REBALANCE or (
            group.state is GroupState.STABLE and group.select_protocol() != group.protocol_name
        ):
            self._prepare_rebalance(group)
        elif group.state is GroupState.STABLE:

            def on_stored(error: Errors) -> None:
                # Like 2.8.2, the member keeps the protocols of the request that failed.
                if error and member.member_id == new_id and new_id in group.members:
                    self._timers.cancel(("member", group.group_id, new_id))
                    group.replace_static_member(new_id, old_id)
                    self._await_heartbeat(group, member)
                # The old leader is named, so that this member does not compute an assignment.
                found = JoinGroupResponse(
                    error,
                    UNKNOWN_MEMBER_ID if error else new_id,
                    group.generation_id,
                    group.protocol_type,
                    group.protocol_name,
                    old_leader or "",
                )
                self._answer_join(member, found)

            self._store(group, on_stored)

    # -- rebalances

    def _maybe_prepare_rebalance(self, group: Group) -> None:
        if group.state in _REBALANCEABLE:
            self._prepare_rebalance(group)

    def _prepare_rebalance(self, group: Group) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._fail_assignment(group, Errors.REBALANCE_IN_PROGRESS)
        self._clear_pending_sync(group)
        key = ("join", group.group_id)
        group.is_initial_join = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, self._clock.now_ms())
        timeout_ms = group.rebalance_timeout_ms
        if group.is_initial_join:
            delay_ms = self._config.group_initial_rebalance_delay_ms
            left_ms = max(timeout_ms - delay_ms, 0)
            self._after(delay_ms, key, lambda: self._end_initial_delay(group, delay_ms, left_ms))
        else:
            self._after(timeout_ms, key, lambda: self._complete_join(group))
            self._maybe_complete_join(group)

    def _end_initial_delay(self, group: Group, delay_ms: int, left_ms: int) -> None:
        if not (group.new_member_added and left_ms):
            self._complete_join(group)
            return
        group.new_member_added = False
        next_ms = min(self._config.group_initial_rebalance_delay_ms, left_ms)
        rest_ms = max(left_ms - delay_ms, 0)
        key = ("join", group.group_id)
        self._after(next_ms, key, lambda: self._end_initial_delay(group, next_ms, rest_ms))

    def _maybe_complete_join(self, group: Group) -> None:
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and not group.is_initial_join
            and group.have_all_joined
        ):
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        group.is_initial_join = False
        for member in list(group.members.values()):
            if member.join is None and member.group_instance_id is None:
                self._drop(group, member)
        key = ("join", group.group_id)
        if group.members and not group.elect_joined_leader():
            # Not 0, because the timer would then be due again at once.
            timeout_ms = max(group.rebalance_timeout_ms, 1)
            self._after(timeout_ms, key, lambda: self._complete_join(group))
            return
        self._timers.cancel(key)
        group.begin_generation(self._clock.now_ms())
        if not group.members:
            self._store(group, lambda _: None)
            return
        for member in group.members.values():
            self._answer_join(member, self._joined(group, member))
            member.is_new = False
            self._await_heartbeat(group, member)
            group.pending_sync[member.member_id] = None
        key = ("sync", group.group_id)
        self._after(group.rebalance_timeout_ms, key, lambda: self._expire_sync(group))

    def _answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        if member.join is not None:
            self._reply(member.join, response)
            member.join = None

    # -- SyncGroup

    def sync(self, group: Group, message: Message, body: SyncGroupRequest) -> None:
        """Answer with a member's assignment, or keep the request until the leader has sent it."""
        member = group.members.get(body.member_id)
        error = self.check_member(group, body.member_id, body.group_instance_id, body.generation_id)
        if not error and (
            body.protocol_type not in (None, group.protocol_type)
            or body.protocol_name not in (None, group.protocol_name)
        ):
            error = Errors.INCONSISTENT_GROUP_PROTOCOL
        if not error and group.state is GroupState.PREPARING_REBALANCE:
            error = Errors.REBALANCE_IN_PROGRESS
        if error or member is None:
            self._reply(message, SyncGroupResponse(error))
            return
        group.pending_sync.pop(body.member_id, None)
        if not group.pending_sync:
            self._clear_pending_sync(group)
        member.sync = message
        if group.state is GroupState.STABLE:
            self._send_assignment(group, member)
        elif group.leader == body.member_id:
            self._store_assignment(group, body)

    def _store_assignment(self, group: Group, body: SyncGroupRequest) -> None:
        for member in group.members.values():
            member.assignment = body.assignments.get(member.member_id, b"")

        def on_stored(error: Errors) -> None:
            is_current = group.generation_id == body.generation_id
            if group.state is not GroupState.COMPLETING_REBALANCE or not is_current:
                return
            if error:
                self._fail_assignment(group, error)
                self._maybe_prepare_rebalance(group)
                return
            group.transition_to(GroupState.STABLE, self._clock.now_ms())
            for member in group.members.values():
                self._send_assignment(group, member)

        self._store(group, on_stored)

    def _send_assignment(self, group: Group, member: Member) -> None:
        kind, name = group.protocol_type, group.protocol_name
        if self._answer_sync(member, SyncGroupResponse(Errors.NONE, kind, name, member.assignment)):
            self._await_heartbeat(group, member)

    def _fail_assignment(self, group: Group, error: Errors) -> None:
        for member in group.members.values():
            member.assignment = b""
            if self._answer_sync(member, SyncGroupResponse(error)):
                self._await_heartbeat(group, member)

    def _answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        if member.sync is None:
            return False
        self._reply(member.sync, response)
        member.sync = None
        return True

    def _clear_pending_sync(self, group: Group) -> None:
        group.pending_sync.clear()
        self._timers.cancel(("sync", group.group_id))

    def _expire_sync(self, group: Group) -> None:
        # If a static member was replaced before it sent SyncGroup, 2.8.2 throws an exception here,
        # and so removes no member.
        if group.members.keys() >= group.pending_sync.keys():
            for member_id in group.pending_sync:
                self._drop(group, group.members[member_id])
            self._prepare_rebalance(group)

    # -- heartbeats

    def check_member(
        self, group: Group, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> Errors:
        """Return the error for a request of a member, or NONE if it is a current member."""
        if group.is_fenced(member_id, group_instance_id):
            return Errors.FENCED_INSTANCE_ID
        if member_id not in group.members:
            return Errors.UNKNOWN_MEMBER_ID
        if generation_id != group.generation_id:
            return Errors.ILLEGAL_GENERATION
        return Errors.NONE

    def heartbeat(self, group: Group, body: HeartbeatRequest) -> Errors:
        """Restart a member's session; return the error for the response."""
        error = self.check_member(group, body.member_id, body.group_instance_id, body.generation_id)
        if error:
            return error
        self.touch(group, body.member_id)
        preparing = group.state is GroupState.PREPARING_REBALANCE
        return Errors.REBALANCE_IN_PROGRESS if preparing else Errors.NONE

    def touch(self, group: Group, member_id: str) -> None:
        """Restart the session of a member."""
        self._await_heartbeat(group, group.members[member_id])

    def _await_heartbeat(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        key = ("member", group.group_id, member.member_id)
        session_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self._after(session_ms, key, lambda: self._expire_member(group, member))

    def _expire_member(self, group: Group, member: Member) -> None:
        # A member that waits for the coordinator cannot send heartbeats.
        waits = (member.join is not None and not member.is_new) or member.sync is not None
        if not waits:
            self._remove(group, member)

    def _expire_pending(self, group: Group, member_id: str) -> None:
        group.pending_members.pop(member_id, None)
        self._maybe_complete_join(group)

    # -- leaving

    def leave(self, group: Group, body: LeaveGroupRequest) -> LeaveGroupResponse:
        """Remove members at their request."""
        return LeaveGroupResponse(
            Errors.NONE, tuple((one, self._leave(group, one)) for one in body.members)
        )

    def _leave(self, group: Group, leaving: MemberIdentity) -> Errors:
        member_id, instance_id = leaving
        if member_id != UNKNOWN_MEMBER_ID and group.is_fenced(member_id, instance_id):
            return Errors.FENCED_INSTANCE_ID
        if member_id in group.pending_members and member_id not in group.members:
            self._timers.cancel(("member", group.group_id, member_id))
            self._expire_pending(group, member_id)
            return Errors.NONE
        member = group.members.get(group.static_member_id(instance_id) or member_id)
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        self._remove(group, member)
        return Errors.NONE

    def _drop(self, group: Group, member: Member) -> None:
        self._timers.cancel(("member", group.group_id, member.member_id))
        group.remove(member.member_id)

    def _remove(self, group: Group, member: Member) -> None:
        unknown = Errors.UNKNOWN_MEMBER_ID
        self._answer_join(member, JoinGroupResponse(unknown, UNKNOWN_MEMBER_ID))
        self._answer_sync(member, SyncGroupResponse(unknown))
        self._drop(group, member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(group)
        else:
            self._maybe_complete_join(group)

    # -- coordinators come and go

    def on_loaded(self, group: Group) -> None:
        """Start the sessions of a group that was loaded."""
        for member in group.members.values():
            self._await_heartbeat(group, member)
        if len(group.members) > self._config.group_max_size:
            self._prepare_rebalance(group)

    def on_unloaded(self, group: Group) -> None:
        """Answer the requests that wait with NOT_COORDINATOR, and cancel all timers."""
        group.transition_to(GroupState.DEAD, self._clock.now_ms())
        self._timers.cancel(("join", group.group_id))
        self._clear_pending_sync(group)
        for member in group.members.values():
            gone = Errors.NOT_COORDINATOR
            self._answer_join(member, JoinGroupResponse(gone, member.member_id))
            self._answer_sync(member, SyncGroupResponse(gone))
        for member_id in (*group.members, *group.pending_members):
            self._timers.cancel(("member", group.group_id, member_id))
