"""The state of one consumer group: members, generation, protocol and committed offsets.

Messages are kept, never sent: the coordinator answers them. Mirrors
kafka.coordinator.group.{GroupMetadata,MemberMetadata}, without transactions.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
    JoinedMember,
    Protocol,
)
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import hash_set_order
from klamm.cluster.records import NO_TIMESTAMP
from klamm.cluster.requests import Message
from klamm.cluster.types import TopicPartition

CONSUMER: Final = "consumer"


class GroupState(Enum):
    """State of a group, with Kafka's name."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"


class Member(msgspec.Struct):
    """A member. ``join`` and ``sync`` are its requests that have not been answered yet.

    ``is_new`` is True until the member's first generation is complete.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    join: Message | None = None
    sync: Message | None = None
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol that it supports."""
        return next(one.metadata for one in self.protocols if one.name == protocol)

    def vote(self, candidates: Collection[str]) -> str:
        """Return the member's most preferred protocol among ``candidates``."""
        return next(one.name for one in self.protocols if one.name in candidates)


class Group:
    """A group in the memory of its coordinator.

    - ``members``: by member id, in the order in which they joined.
    - ``static_members``: member id of each group instance id.
    - ``pending_members``: ids given to members that must join again with them (KIP-394).
    - ``pending_sync``: members that have not sent SyncGroup in this generation.
    - ``offsets`` and ``pending_offsets``: committed offsets, and commits that are being appended.
    - ``state_timestamp_ms``: when the state changed, in Unix milliseconds; -1 if unknown.
    """

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = wall_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.pending_offsets: dict[TopicPartition, CommittedOffset] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False
        self.is_initial_join = False

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        """Enter a state."""
        self.state, self.state_timestamp_ms = state, wall_ms

    # -- members

    def add(self, member: Member) -> None:
        """Add a member; the first one becomes the leader."""
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member. Another member becomes the leader if necessary."""
        member = self.members.pop(member_id)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        """Return the member id of a static member, or None if there is no such member."""
        return None if group_instance_id is None else self.static_members.get(group_instance_id)

    def is_fenced(self, member_id: str, group_instance_id: str | None) -> bool:
        """Return True if another member id belongs to this group instance id."""
        return self.static_member_id(group_instance_id) not in (None, member_id)

    def replace_static_member(self, old_id: str, new_id: str) -> Member:
        """Give a static member a new member id; its old requests must have been answered."""
        member = self.members.pop(old_id)
        member.member_id = new_id
        self.members[new_id] = member
        if self.leader == old_id:
            self.leader = new_id
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_id
        return member

    @property
    def awaiting_count(self) -> int:
        """Number of members whose JoinGroup request waits."""
        return sum(one.join is not None for one in self.members.values())

    @property
    def have_all_joined(self) -> bool:
        """True if all known and all pending members have sent JoinGroup."""
        return not self.pending_members and self.awaiting_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Choose a leader among the members that have joined; return False if there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].join is None:
            joined = [one.member_id for one in self.members.values() if one.join is not None]
            if not joined:
                return False
            self.leader = joined[0]
        return True

    # -- protocols

    def _supporters(self) -> Counter[str]:
        return Counter(n for one in self.members.values() for n in {p.name for p in one.protocols})

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Return True if a member with these protocols may join."""
        names = {one.name for one in protocols}
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        # A rebalancing group that all members have left supports every protocol of its type.
        supporters = self._supporters()
        is_common = any(supporters[name] == len(self.members) for name in names)
        return self.protocol_type == protocol_type and is_common

    def select_protocol(self) -> str:
        """Return the protocol that all members support and most members prefer.

        Of several, the first one in the order of Scala's HashMap.
        """
        supporters = self._supporters()
        candidates = {name for name, count in supporters.items() if count == len(self.members)}
        votes = Counter(one.vote(candidates) for one in self.members.values())
        return max(hash_set_order(votes, string_hash), key=votes.__getitem__)

    def begin_generation(self, wall_ms: int) -> None:
        """Begin the next generation; the group is then completing its rebalance, or empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        completing = GroupState.COMPLETING_REBALANCE
        self.transition_to(completing if self.members else GroupState.EMPTY, wall_ms)

    def compute_subscribed_topics(self) -> None:
        """Update the topics of a consumer group; None if they are unknown."""
        self.subscribed_topics = None
        if self.protocol_type == CONSUMER and (not self.members or self.protocol_name):
            try:
                topics = [_topics(m.metadata(self.protocol_name)) for m in self.members.values()]
            except (struct.error, UnicodeDecodeError):
                return
            self.subscribed_topics = frozenset().union(*topics)

    # -- descriptions

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the members as the leader gets them."""
        return tuple(
            JoinedMember(one.member_id, one.group_instance_id, one.metadata(self.protocol_name))
            for one in self.members.values()
        )

    def describe(self) -> DescribedGroup:
        """Describe the group."""
        stable = self.state is GroupState.STABLE
        members = tuple(
            DescribedMember(
                one.member_id,
                one.group_instance_id,
                one.client_id,
                one.client_host,
                one.metadata(self.protocol_name) if stable else b"",
                one.assignment if stable else b"",
            )
            for one in self.members.values()
        )
        protocol = (self.protocol_name or "") if stable else ""
        kind = self.protocol_type or ""
        return DescribedGroup(Errors.NONE, self.group_id, self.state.value, kind, protocol, members)

    # -- offsets

    def take_expired(self, wall_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Remove and return the partitions whose committed offsets have expired."""
        since_ms, subscribed = NO_TIMESTAMP, frozenset[str]()
        if self.protocol_type is not None and self.state is GroupState.EMPTY:
            since_ms = self.state_timestamp_ms
        elif self.protocol_type == CONSUMER and self.state is GroupState.STABLE:
            if self.subscribed_topics is None:
                return []
            subscribed = self.subscribed_topics
        elif self.protocol_type is not None:
            return []
        expired = []
        for tp, one in self.offsets.items():
            base_ms = one.timestamp_ms if since_ms == NO_TIMESTAMP else since_ms
            due_ms = one.expire_timestamp_ms
            if due_ms == NO_TIMESTAMP:
                due_ms = base_ms + retention_ms
            if tp.topic not in subscribed and tp not in self.pending_offsets and due_ms <= wall_ms:
                expired.append(tp)
        for tp in expired:
            del self.offsets[tp]
        return expired


def _topics(subscription: bytes) -> list[str]:
    """Return the topics in a consumer's subscription (ConsumerProtocol v0, which all extend)."""
    (count,) = struct.unpack_from(">i", subscription, 2)
    position, topics = 6, []
    for _ in range(count):
        (size,) = struct.unpack_from(">h", subscription, position)
        position += 2 + size
        if size < 0 or position > len(subscription):
            raise struct.error("a subscription is cut off")
        topics.append(subscription[position - size : position].decode())
    return topics
