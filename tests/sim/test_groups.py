"""Consumer groups in a simulated cluster: rebalances, commits, and the death of a coordinator."""

from __future__ import annotations

from pathlib import Path

from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Protocol,
    SyncGroupRequest,
    SyncGroupResponse,
)
from klamm.cluster.requests import Address, Message, Request
from tests.sim.replication import IDS, T0
from tests.sim.worlds import create_topic, three_brokers

CLIENT = Address("client", 5)
PROTOCOLS = (Protocol("range", b"\x00\x00\x00\x00\x00\x01\x00\x01t"),)


class Groups:
    """A simulated cluster with t-0, and a client that sends single requests."""

    def __init__(self, segments: Path) -> None:
        self.world = three_brokers(segments=segments, config={"log.dirs": "d0"})
        create_topic(self.world, "t", {0: IDS})
        self.world.run_for(1_000)
        self.answers: dict[int, object] = {}
        self._sent = 0
        self.world.transport.register(CLIENT, self._receive)

    def _receive(self, message: Message) -> None:
        self.answers[message.correlation_id] = message.body

    def send(self, broker_id: int, body: Request) -> int:
        """Send a request; return its number."""
        self._sent += 1
        address = Address("broker", broker_id)
        self.world.transport.send(Message(CLIENT, address, self._sent, body))
        return self._sent

    def ask(self, broker_id: int, body: Request) -> object:
        """Send a request and wait for its response."""
        number = self.send(broker_id, body)
        assert self.world.run_until(lambda: number in self.answers, timeout_ms=30_000)
        return self.answers[number]

    def coordinator(self, broker_id: int) -> int:
        """Find the coordinator of the group g."""
        for _ in range(100):
            found = self.ask(broker_id, FindCoordinatorRequest("g"))
            assert isinstance(found, FindCoordinatorResponse)
            if found.coordinator is not None:
                return found.coordinator.id
            assert found.error is Errors.COORDINATOR_NOT_AVAILABLE
            self.world.run_for(200)
        raise AssertionError("no coordinator")

    def join(self, broker_id: int, member_id: str) -> int:
        """Send JoinGroup."""
        return self.send(
            broker_id,
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
                protocol_type="consumer",
                protocols=PROTOCOLS,
                member_id=member_id,
                client_id="c",
                client_host="/127.0.0.1",
            ),
        )

    def joined(self, number: int) -> JoinGroupResponse:
        """Wait for the response to JoinGroup."""
        assert self.world.run_until(lambda: number in self.answers, timeout_ms=60_000)
        answer = self.answers[number]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def sync(self, broker_id: int, joined: JoinGroupResponse) -> int:
        """Send SyncGroup; the leader assigns each member its own id."""
        assignments = {one.member_id: one.member_id.encode() for one in joined.members}
        return self.send(
            broker_id,
            SyncGroupRequest(
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=assignments,
            ),
        )

    def two_members(self, broker_id: int) -> list[JoinGroupResponse]:
        """Let two members join g, and make it stable."""
        first = [self.joined(self.join(broker_id, "")) for _ in range(2)]
        assert [one.error for one in first] == [Errors.MEMBER_ID_REQUIRED] * 2
        numbers = [self.join(broker_id, one.member_id) for one in first]
        members = [self.joined(number) for number in numbers]
        synced = [self.sync(broker_id, one) for one in members]
        assert self.world.run_until(
            lambda: all(number in self.answers for number in synced), timeout_ms=10_000
        )
        for member, number in zip(members, synced, strict=True):
            answer = self.answers[number]
            assert isinstance(answer, SyncGroupResponse)
            assert (answer.error, answer.assignment) == (Errors.NONE, member.member_id.encode())
        return members

    def state(self, broker_id: int) -> tuple[str, int]:
        """Return the state of g, and the number of its members."""
        answer = self.ask(broker_id, DescribeGroupsRequest(("g",)))
        assert isinstance(answer, DescribeGroupsResponse)
        (group,) = answer.groups
        assert group.error is Errors.NONE
        return group.state, len(group.members)


def test_committed_offsets_survive_the_death_of_the_coordinator(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    first = groups.coordinator(0)
    member, _ = groups.two_members(first)
    commit = OffsetCommitRequest(
        group_id="g",
        offsets={T0: CommittedOffset(42, 0, "note")},
        generation_id=member.generation_id,
        member_id=member.member_id,
    )
    committed = groups.ask(first, commit)
    assert committed == OffsetCommitResponse({T0: Errors.NONE})
    groups.world.kill(first)
    groups.world.run_for(12_000)
    other = next(broker_id for broker_id in IDS if broker_id != first)
    second = groups.coordinator(other)
    assert second != first
    fetched = groups.ask(second, OffsetFetchRequest("g"))
    expected = {T0: FetchedOffset(Errors.NONE, 42, 0, "note")}
    assert fetched == OffsetFetchResponse(Errors.NONE, expected)
    assert groups.world.errors == []


def test_a_member_whose_session_times_out_is_removed_by_a_rebalance(tmp_path: Path) -> None:
    groups = Groups(tmp_path)
    broker_id = groups.coordinator(0)
    stays, _ = groups.two_members(broker_id)
    assert groups.state(broker_id) == ("Stable", 2)
    beat = HeartbeatRequest("g", stays.generation_id, stays.member_id)
    for _ in range(4):
        groups.ask(broker_id, beat)
        groups.world.run_for(3_000)
    assert groups.state(broker_id) == ("PreparingRebalance", 1)
    again = groups.joined(groups.join(broker_id, stays.member_id))
    assert (again.error, again.generation_id) == (Errors.NONE, stays.generation_id + 1)
    assert [one.member_id for one in again.members] == [stays.member_id]
