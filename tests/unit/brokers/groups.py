"""One broker that coordinates the group g, and what its members and tools send to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from klamm.brokers.config import broker_config
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
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
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Protocol,
    SyncGroupRequest,
    SyncGroupResponse,
)
from klamm.cluster.requests import Address
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import T0, Network, cached, leader_and_isr, state, update_metadata

BROKER = 1
CLIENT = Address("client", 5)
OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
U0 = TopicPartition("u", 0)
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t"
"""The topic t, in a consumer's subscription of version 0."""

PROTOCOLS = (Protocol("range", SUBSCRIPTION),)
DELAY_MS = 3_000
SESSION_MS = 10_000
REBALANCE_MS = 20_000


class Groups:
    """Broker 1, the only replica and the leader of ``__consumer_offsets``-0, with t-0 and u-0.

    ``segments``: the folder of its log directory; by default, it keeps only offsets in memory.
    """

    def __init__(
        self, properties: Mapping[str, str] | None = None, segments: Path | None = None
    ) -> None:
        self.network = Network()
        config = {"offsets.topic.num.partitions": "1", **(properties or {})}
        if segments is None:
            self.network.add(BROKER, broker_config(config))
        else:
            config["log.dirs"] = "d0"
            added = self.network.add(
                BROKER, broker_config(config), log_store=FileLogStore(segments)
            )
            added.log_maintenance.startup(MetaProperties("cluster", BROKER))
        self.network.request(BROKER, update_metadata(cached(), cached(U0)))
        self.lead(leader_epoch=3)

    def lead(
        self, *, leader: int = BROKER, leader_epoch: int, isr: tuple[int, ...] | None = None
    ) -> None:
        """Make a broker the leader of ``__consumer_offsets``-0, and let it load."""
        self._leader_epoch = leader_epoch
        isr = isr or (leader,)
        replicas = tuple(dict.fromkeys((*isr, BROKER)))
        new = state(OFFSETS, leader=leader, leader_epoch=leader_epoch, isr=isr, replicas=replicas)
        self.network.request(BROKER, leader_and_isr(new, topic_id=None))
        self.network.pass_time(1)

    def send(self, body: GroupRequest) -> int:
        """Send a request; return its number."""
        return self.network.ask(BROKER, body, CLIENT)

    def answer(self, number: int) -> GroupResponse | None:
        """The response to a request, or None if the request waits."""
        return self.network.answer_to(number, CLIENT)  # type: ignore[return-value]

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[Protocol, ...] = PROTOCOLS,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        needs_id: bool = False,
    ) -> int:
        """Send JoinGroup."""
        return self.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=protocols,
                member_id=member_id,
                group_instance_id=instance,
                requires_known_member_id=needs_id,
                client_id="c",
                client_host="/127.0.0.1",
            )
        )

    def joined(self, number: int) -> JoinGroupResponse:
        """The response to JoinGroup."""
        answer = self.answer(number)
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def sync(self, member: JoinGroupResponse, instance: str | None = None) -> int:
        """Send SyncGroup; the leader assigns each member its own id."""
        return self.send(
            SyncGroupRequest(
                group_id="g",
                generation_id=member.generation_id,
                member_id=member.member_id,
                group_instance_id=instance,
                assignments={one.member_id: one.member_id.encode() for one in member.members},
            )
        )

    def synced(self, number: int) -> SyncGroupResponse:
        """The response to SyncGroup."""
        answer = self.answer(number)
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def beat(self, member: JoinGroupResponse, instance: str | None = None) -> Errors:
        """Send a heartbeat; return the error."""
        body = HeartbeatRequest("g", member.generation_id, member.member_id, instance)
        answer = self.answer(self.send(body))
        assert isinstance(answer, HeartbeatResponse)
        return answer.error

    def leave(self, member_id: str, instance: str | None = None) -> Errors:
        """Send LeaveGroup for one member; return the member's error."""
        leaving = MemberIdentity(member_id, instance)
        answer = self.answer(self.send(LeaveGroupRequest("g", (leaving,))))
        assert isinstance(answer, LeaveGroupResponse)
        assert answer.error is Errors.NONE
        [(identity, error)] = answer.members
        assert identity == leaving
        return error

    def commit(
        self, member: JoinGroupResponse | None = None, tp: TopicPartition = T0, metadata: str = ""
    ) -> Errors:
        """Commit offset 42 of a partition; return the error."""
        offsets = {tp: CommittedOffset(42, metadata=metadata)}
        body = OffsetCommitRequest(group_id="g", offsets=offsets)
        if member is not None:
            body = OffsetCommitRequest(
                group_id="g",
                offsets=offsets,
                generation_id=member.generation_id,
                member_id=member.member_id,
            )
        answer = self.answer(self.send(body))
        assert isinstance(answer, OffsetCommitResponse)
        return answer.partitions[tp]

    def offsets(self) -> dict[TopicPartition, int]:
        """The committed offsets."""
        answer = self.answer(self.send(OffsetFetchRequest("g")))
        assert isinstance(answer, OffsetFetchResponse)
        assert answer.error is Errors.NONE
        return {tp: one.offset for tp, one in answer.partitions.items()}

    def describe(self) -> DescribedGroup:
        """The description of g."""
        answer = self.answer(self.send(DescribeGroupsRequest(("g",))))
        assert isinstance(answer, DescribeGroupsResponse)
        [described] = answer.groups
        return described

    def state(self) -> tuple[str, int]:
        """The state of g, and the number of its members."""
        described = self.describe()
        assert described.error is Errors.NONE
        return described.state, len(described.members)

    def joining(self, count: int = 1, instance: str | None = None) -> list[JoinGroupResponse]:
        """Let members join g for the first time; they have not sent SyncGroup."""
        return self.admitted(*[self.join(instance=instance) for _ in range(count)])

    def admitted(self, *numbers: int) -> list[JoinGroupResponse]:
        """The responses to the first requests to join g, which come after the initial delay."""
        self.network.pass_time(2 * DELAY_MS)
        return [self.joined(number) for number in numbers]

    def reload(self) -> None:
        """Move the leadership to broker 2 and back, so that the groups are loaded again."""
        self.lead(leader=2, leader_epoch=self._leader_epoch + 1)
        self.lead(leader_epoch=self._leader_epoch + 1)

    def stable(self, count: int = 1, instance: str | None = None) -> list[JoinGroupResponse]:
        """Let members join g for the first time, and make it Stable; the first one leads."""
        members = self.joining(count, instance)
        for number in [self.sync(one, instance) for one in reversed(members)]:
            assert self.synced(number).error is Errors.NONE
        assert self.state() == ("Stable", count)
        return members
