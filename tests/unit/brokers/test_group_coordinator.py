"""The state machine of groups: members that join, sync, live, leave, and are removed.

Sources: GroupCoordinator, GroupMetadata and GroupMetadataManager (kafka.coordinator.group).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.brokers.config import broker_config
from klamm.brokers.logs.records import encode_batch
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.group_requests import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    GroupRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    Protocol,
    SyncGroupRequest,
    SyncGroupResponse,
)
from klamm.cluster.records import CountedBatch, Record
from klamm.cluster.requests import (
    Address,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Message,
)
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from tests.unit.brokers.groups import (
    BROKER,
    CLIENT,
    DELAY_MS,
    OFFSETS,
    PROTOCOLS,
    REBALANCE_MS,
    SESSION_MS,
    SUBSCRIPTION,
    U0,
    Groups,
)
from tests.unit.brokers.network import (
    CONTROLLER,
    T0,
    Network,
    cached,
    fetch_of,
    stop_replica,
    update_metadata,
)


@pytest.fixture
def groups() -> Groups:
    return Groups()


# -- joins and syncs


def test_two_members_join_sync_and_live(groups: Groups) -> None:
    numbers = [groups.join(), groups.join()]
    groups.network.pass_time(DELAY_MS)
    assert groups.answer(numbers[0]) is None, "a member was added, so the delay begins again"
    assert groups.state() == ("PreparingRebalance", 2)
    groups.network.pass_time(DELAY_MS)
    leader, follower = map(groups.joined, numbers)
    assert (leader.error, leader.generation_id, leader.leader) == (Errors.NONE, 1, leader.member_id)
    assert [one.member_id for one in leader.members] == [leader.member_id, follower.member_id]
    assert [one.metadata for one in leader.members] == [SUBSCRIPTION] * 2
    assert (follower.leader, follower.members) == (leader.member_id, ())
    assert (follower.protocol_type, follower.protocol_name) == ("consumer", "range")
    waiting = groups.sync(follower)
    assert groups.answer(waiting) is None
    assert groups.beat(follower) is Errors.NONE
    assert groups.synced(groups.sync(leader)).assignment == leader.member_id.encode()
    expected = SyncGroupResponse(Errors.NONE, "consumer", "range", follower.member_id.encode())
    assert groups.synced(waiting) == expected
    for _ in range(5):
        groups.network.pass_time(SESSION_MS / 2)
        assert [groups.beat(one) for one in (leader, follower)] == [Errors.NONE] * 2
    described = groups.describe()
    assert (described.state, described.protocol) == ("Stable", "range")
    assert [one.assignment.decode() for one in described.members] == [
        leader.member_id,
        follower.member_id,
    ]


def test_the_initial_delay_ends_with_the_rebalance_timeout_of_the_members(groups: Groups) -> None:
    numbers = [groups.join()]
    for _ in range(6):
        groups.network.pass_time(DELAY_MS - 1)
        numbers.append(groups.join())
        groups.network.pass_time(1)
    groups.network.pass_time(REBALANCE_MS - 6 * DELAY_MS - 1)
    assert groups.answer(numbers[0]) is None
    groups.network.pass_time(1)
    assert [groups.joined(number).generation_id for number in numbers] == [1] * 7


def test_a_rebalance_takes_as_long_as_the_slowest_member_may(groups: Groups) -> None:
    hour_ms = 3_600_000
    first = groups.join(rebalance_ms=hour_ms)
    groups.join(rebalance_ms=1_000)
    groups.network.pass_time(2 * DELAY_MS)
    leader = groups.joined(first)
    groups.sync(leader)
    number = groups.join(leader.member_id)
    groups.network.pass_time(1_000)
    assert groups.answer(number) is None


def test_a_new_member_that_waits_needs_no_heartbeats_for_five_minutes(groups: Groups) -> None:
    [old] = groups.admitted(groups.join(rebalance_ms=3_600_000))
    new = groups.join(session_ms=6_000)
    for _ in range(50):
        groups.network.pass_time(6_000 - 1)
        assert groups.beat(old) is Errors.REBALANCE_IN_PROGRESS
    assert groups.answer(new) is None
    groups.network.pass_time(50)
    assert groups.joined(new).error is Errors.UNKNOWN_MEMBER_ID


def test_a_third_member_makes_the_others_join_again(groups: Groups) -> None:
    members = groups.stable(2)
    third = groups.join()
    described = groups.describe()
    assert described.protocol == ""
    assert {(one.metadata, one.assignment) for one in described.members} == {(b"", b"")}
    assert [groups.beat(one) for one in members] == [Errors.REBALANCE_IN_PROGRESS] * 2
    assert groups.synced(groups.sync(members[0])).error is Errors.REBALANCE_IN_PROGRESS
    numbers = [groups.join(one.member_id) for one in members]
    assert [groups.joined(one).generation_id for one in (third, *numbers)] == [2] * 3
    assert groups.joined(third).leader == members[0].member_id


def test_only_changes_and_the_leader_begin_a_rebalance(groups: Groups) -> None:
    leader, follower = groups.stable(2)
    again = groups.joined(groups.join(follower.member_id))
    assert (again.error, again.generation_id) == (Errors.NONE, 1)
    assert groups.state() == ("Stable", 2)
    groups.join(leader.member_id)
    assert groups.state() == ("PreparingRebalance", 2)


def test_a_leader_that_joins_again_before_its_sync_gets_the_same_answer(groups: Groups) -> None:
    leader, _ = groups.joining(2)
    assert groups.joined(groups.join(leader.member_id)) == leader
    assert groups.state() == ("CompletingRebalance", 2)


def test_a_member_that_does_not_join_again_in_time_is_removed(groups: Groups) -> None:
    leader, follower = groups.stable(2)
    again = groups.join(follower.member_id, protocols=(Protocol("range", b""),))
    for _ in range(4):
        groups.network.pass_time(REBALANCE_MS / 4)
        groups.beat(leader)
    joined = groups.joined(again)
    assert (joined.leader, joined.generation_id) == (follower.member_id, 2)
    assert groups.beat(leader) is Errors.UNKNOWN_MEMBER_ID


def test_members_vote_for_a_protocol_that_all_support(groups: Groups) -> None:
    one, two, three = (Protocol(name, SUBSCRIPTION) for name in ("one", "two", "three"))
    preferred = ((three, two, one), (three, one, two), (one, two))
    numbers = [groups.join(protocols=each) for each in preferred]
    assert groups.joined(groups.join(protocols=(three,))).error is (
        Errors.INCONSISTENT_GROUP_PROTOCOL
    )
    other = groups.join(protocol_type="connect", protocols=(one,))
    assert groups.joined(other).error is Errors.INCONSISTENT_GROUP_PROTOCOL
    groups.network.pass_time(2 * DELAY_MS)
    assert [groups.joined(number).protocol_name for number in numbers] == ["one"] * 3


def test_of_protocols_with_equal_votes_the_first_in_scalas_order_is_selected(
    groups: Groups,
) -> None:
    ours = [Protocol(name, SUBSCRIPTION) for name in ("range", "rr")]
    numbers = [groups.join(protocols=each) for each in (tuple(ours), tuple(reversed(ours)))]
    groups.network.pass_time(2 * DELAY_MS)
    assert [groups.joined(number).protocol_name for number in numbers] == ["rr"] * 2


def test_a_protocol_that_a_member_names_twice_counts_once(groups: Groups) -> None:
    number = groups.join(protocols=(Protocol("range", b"first"), Protocol("range", b"second")))
    groups.network.pass_time(DELAY_MS)
    [joined] = groups.joined(number).members
    assert joined.metadata == b"first"


def test_a_rebalancing_group_that_all_have_left_takes_a_new_member(groups: Groups) -> None:
    first = groups.join(instance="i")
    assert groups.leave("", "i") is Errors.NONE
    assert groups.joined(first).error is Errors.UNKNOWN_MEMBER_ID
    assert groups.state() == ("PreparingRebalance", 0)
    other = groups.join(protocol_type="connect")
    assert groups.joined(other).error is Errors.INCONSISTENT_GROUP_PROTOCOL
    [joined] = groups.admitted(groups.join(protocols=(Protocol("other", SUBSCRIPTION),)))
    assert (joined.error, joined.protocol_name, joined.leader) == (
        Errors.NONE,
        "other",
        joined.member_id,
    )


def test_a_member_without_id_gets_one_and_joins_with_it(groups: Groups) -> None:
    told = groups.joined(groups.join(needs_id=True))
    assert told.error is Errors.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("c-")
    assert groups.state() == ("Empty", 0)
    number = groups.join(told.member_id, needs_id=True)
    groups.network.pass_time(DELAY_MS)
    assert groups.joined(number).member_id == told.member_id


def test_a_rebalance_waits_for_a_pending_member_until_its_session_ends(groups: Groups) -> None:
    [member] = groups.stable()
    assert groups.joined(groups.join(needs_id=True)).error is Errors.MEMBER_ID_REQUIRED
    number = groups.join(member.member_id)
    groups.network.pass_time(SESSION_MS - 1)
    assert groups.answer(number) is None
    groups.network.pass_time(1)
    assert groups.joined(number).generation_id == 2


def test_a_pending_member_that_joins_or_leaves_holds_up_no_rebalance(groups: Groups) -> None:
    told = groups.joined(groups.join(needs_id=True))
    static = groups.joined(groups.join(told.member_id, instance="i"))
    assert (static.error, static.member_id) == (Errors.UNKNOWN_SERVER_ERROR, "")
    [member] = groups.admitted(groups.join(told.member_id, needs_id=True))
    groups.sync(member)
    member = groups.joined(groups.join(member.member_id))
    assert member.generation_id == 2
    groups.sync(member)
    other = groups.joined(groups.join(needs_id=True))
    number = groups.join(member.member_id)
    assert groups.answer(number) is None
    assert groups.leave(other.member_id) is Errors.NONE
    assert groups.joined(number).generation_id == 3


def test_invalid_joins_are_refused() -> None:
    groups = Groups({"group.min.session.timeout.ms": "6000"})
    assert groups.joined(groups.join(protocol_type="")).error is (
        Errors.INCONSISTENT_GROUP_PROTOCOL
    )
    assert groups.joined(groups.join(session_ms=5_999)).error is Errors.INVALID_SESSION_TIMEOUT
    assert groups.joined(groups.join("c-1")).error is Errors.UNKNOWN_MEMBER_ID
    assert groups.joined(groups.join(protocols=())).error is Errors.INCONSISTENT_GROUP_PROTOCOL
    [member] = groups.stable()
    assert groups.joined(groups.join("c-1")).error is Errors.UNKNOWN_MEMBER_ID
    number = groups.join(member.member_id, instance="i")
    assert groups.joined(number).error is Errors.UNKNOWN_MEMBER_ID
    assert groups.answer(groups.join(session_ms=6_000)) is None


@pytest.mark.parametrize(
    ("instance", "error"),
    [("i" * 32_730, Errors.NONE), ("ä" * 16_366, Errors.UNKNOWN_SERVER_ERROR)],
    ids=["fits", "too long"],
)
def test_a_member_id_must_fit_into_a_record(groups: Groups, instance: str, error: Errors) -> None:
    [joined] = groups.admitted(groups.join(instance=instance))
    assert joined.error is error
    if not error:
        assert groups.synced(groups.sync(joined, instance)).error is Errors.NONE


@pytest.mark.parametrize("mismatch", [("connect", "range"), ("consumer", "other")])
def test_a_sync_must_name_the_protocol_of_the_group(
    groups: Groups, mismatch: tuple[str, str]
) -> None:
    [member] = groups.joining()

    def sync(kind: str, name: str) -> Errors:
        body = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=member.member_id,
            protocol_type=kind,
            protocol_name=name,
        )
        return groups.synced(groups.send(body)).error

    assert sync(*mismatch) is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert sync("consumer", "range") is Errors.NONE


def test_a_full_group_refuses_new_members() -> None:
    groups = Groups({"group.max.size": "2"})
    leader, follower = groups.stable(2)
    refused = groups.joined(groups.join())
    assert (refused.error, refused.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")
    assert groups.state() == ("Stable", 2)
    numbers = [groups.join(one.member_id) for one in (leader, follower)]
    assert [groups.joined(number).generation_id for number in numbers] == [2, 2]


def test_members_that_do_not_sync_in_time_are_removed(groups: Groups) -> None:
    leader, follower = groups.joining(2)
    groups.sync(leader)
    assert groups.state() == ("Stable", 2)
    for _ in range(3):
        groups.network.pass_time(REBALANCE_MS / 4)
        assert [groups.beat(one) for one in (leader, follower)] == [Errors.NONE] * 2
    groups.network.pass_time(REBALANCE_MS / 4)
    assert groups.state() == ("PreparingRebalance", 1)
    assert groups.beat(follower) is Errors.UNKNOWN_MEMBER_ID
    assert groups.joined(groups.join(leader.member_id)).generation_id == 2


# -- members that are gone, unknown or replaced


def test_a_member_without_heartbeats_is_removed_when_its_session_ends(groups: Groups) -> None:
    stays, _ = groups.stable(2)
    groups.network.pass_time(SESSION_MS - 1)
    assert groups.beat(stays) is Errors.NONE
    assert groups.state() == ("Stable", 2)
    groups.network.pass_time(1)
    assert groups.state() == ("PreparingRebalance", 1)
    again = groups.joined(groups.join(stays.member_id))
    assert [one.member_id for one in again.members] == [stays.member_id]


def test_a_member_that_waits_needs_no_heartbeats(groups: Groups) -> None:
    leader, follower = groups.joining(2)
    waiting = groups.sync(follower)
    for _ in range(3):
        groups.network.pass_time(REBALANCE_MS / 4)
        assert groups.beat(leader) is Errors.NONE
    groups.sync(leader)
    assert groups.synced(waiting).error is Errors.NONE
    assert groups.state() == ("Stable", 2)


def test_a_static_member_that_comes_back_replaces_itself_without_a_rebalance(
    groups: Groups,
) -> None:
    [old] = groups.stable(instance="i")
    groups.network.pass_time(SESSION_MS - 1)
    new = groups.joined(groups.join(instance="i", needs_id=True))
    groups.network.pass_time(1)
    assert (new.error, new.generation_id) == (Errors.NONE, old.generation_id)
    assert new.member_id != old.member_id == new.leader, "so that it assigns nothing"
    assert groups.state() == ("Stable", 1)
    assert groups.synced(groups.sync(new, "i")).assignment == old.member_id.encode()
    assert groups.beat(new, "i") is Errors.NONE
    assert groups.beat(old, "i") is Errors.FENCED_INSTANCE_ID
    assert groups.synced(groups.sync(old, "i")).error is Errors.FENCED_INSTANCE_ID
    fenced = groups.join(old.member_id, instance="i")
    assert groups.joined(fenced).error is Errors.FENCED_INSTANCE_ID
    assert groups.leave(old.member_id, "i") is Errors.FENCED_INSTANCE_ID
    groups.network.pass_time(SESSION_MS)
    assert groups.state() == ("Empty", 0)


def test_a_static_member_that_left_or_is_new_needs_no_known_id(groups: Groups) -> None:
    [member] = groups.stable(instance="i")
    assert groups.leave("", "i") is Errors.NONE
    [joined] = groups.admitted(groups.join(instance="i", needs_id=True))
    assert (joined.error, joined.generation_id) == (Errors.NONE, 3)
    assert joined.member_id != member.member_id


def test_a_static_leader_that_does_not_rejoin_stays_a_member(groups: Groups) -> None:
    leader, *others = groups.admitted(
        groups.join(instance="i", session_ms=60_000), groups.join(), groups.join()
    )
    assert leader.leader == leader.member_id
    again = [groups.join(one.member_id, protocols=(Protocol("range", b"new"),)) for one in others]
    groups.network.pass_time(REBALANCE_MS)
    joined = groups.joined(again[0])
    assert joined.leader == others[0].member_id
    assert [one.member_id for one in joined.members] == [one.member_id for one in (leader, *others)]


def test_a_rebalance_that_no_static_member_joins_is_tried_again(groups: Groups) -> None:
    first = groups.join(instance="i", session_ms=60_000)
    second = groups.join(instance="j", session_ms=60_000)
    groups.network.pass_time(2 * DELAY_MS)
    one, other = groups.joined(first), groups.joined(second)
    groups.sync(one, "i")
    third = groups.joined(groups.join(needs_id=True))
    groups.join(third.member_id)
    assert groups.state() == ("PreparingRebalance", 3)
    groups.network.pass_time(1)
    assert groups.leave(third.member_id) is Errors.NONE
    groups.network.pass_time(REBALANCE_MS - 2)
    assert groups.state() == ("PreparingRebalance", 2)
    groups.network.pass_time(1)
    assert groups.state() == ("PreparingRebalance", 2), "nobody can lead"
    again = groups.join(other.member_id, instance="j")
    assert groups.answer(again) is None
    groups.network.pass_time(REBALANCE_MS)
    joined = groups.joined(again)
    assert (joined.generation_id, joined.leader) == (2, other.member_id)
    assert [member.member_id for member in joined.members] == [one.member_id, other.member_id]


def test_static_members_without_time_to_rejoin_stay_until_their_sessions_end(
    groups: Groups,
) -> None:
    static, other = groups.admitted(groups.join(instance="i", rebalance_ms=0), groups.join())
    assert [groups.synced(groups.sync(one)).error for one in (static, other)] == [Errors.NONE] * 2
    assert groups.leave(other.member_id) is Errors.NONE
    groups.network.pass_time(SESSION_MS - 1)
    assert groups.state() == ("PreparingRebalance", 1)
    groups.network.pass_time(1)
    assert groups.state() == ("Empty", 0)


def test_a_rebalancing_group_has_room_for_those_that_have_joined() -> None:
    groups = Groups({"group.max.size": "2"})
    leader, follower = groups.stable(2)
    first = groups.join(leader.member_id)
    assert groups.answer(first) is None
    second = groups.join()
    assert groups.answer(second) is None, "one of two has joined"
    refused = groups.joined(groups.join(follower.member_id))
    assert (refused.error, refused.member_id) == (Errors.GROUP_MAX_SIZE_REACHED, "")
    assert groups.joined(first).generation_id == 2, "who was refused is no longer waited for"
    assert groups.joined(second).generation_id == 2


def test_a_member_that_has_joined_may_join_a_full_group_again() -> None:
    groups = Groups({"group.max.size": "2"})
    leader, follower = groups.stable(2)
    third = groups.join(leader.member_id)
    again = groups.join(leader.member_id)
    assert groups.answer(again) is None
    number = groups.join(follower.member_id)
    assert [groups.joined(one).generation_id for one in (again, number)] == [2, 2]
    assert groups.answer(third) is None, "the request was replaced"


def test_a_new_id_that_cannot_be_stored_is_not_given(groups: Groups) -> None:
    [old] = groups.stable(instance="i")
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.join(instance="i", protocols=(Protocol("range", b"new"),))
    groups.network.pass_time(4_999)
    assert groups.answer(number) is None
    groups.network.pass_time(1)
    refused = groups.joined(number)
    assert (refused.error, refused.member_id) == (Errors.REBALANCE_IN_PROGRESS, "")
    assert groups.beat(old, "i") is Errors.NONE
    assert [one.metadata for one in groups.describe().members] == [b"new"], "as in 2.8.2"


def test_a_static_member_fences_its_waiting_requests(groups: Groups) -> None:
    first = groups.join(instance="i")
    second = groups.join(instance="i")
    assert groups.joined(first).error is Errors.FENCED_INSTANCE_ID
    groups.network.pass_time(2 * DELAY_MS)
    assert groups.joined(second).error is Errors.NONE
    assert groups.state() == ("CompletingRebalance", 1)


def test_a_static_member_with_another_choice_of_protocol_begins_a_rebalance(groups: Groups) -> None:
    groups.stable(instance="i")
    new = groups.join(instance="i", protocols=(Protocol("other", b""), *PROTOCOLS))
    joined = groups.joined(new)
    assert (joined.generation_id, joined.protocol_name) == (2, "other")
    assert joined.leader == joined.member_id


def test_a_new_id_that_is_not_given_ends_no_session(groups: Groups) -> None:
    [old] = groups.stable(instance="i")
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    groups.join(instance="i")
    groups.network.pass_time(5_000)
    for _ in range(2):
        assert groups.beat(old, "i") is Errors.NONE
        groups.network.pass_time(SESSION_MS - 1)
        assert groups.state() == ("Stable", 1)
    groups.network.pass_time(1)
    assert groups.state() == ("Empty", 0)


def test_a_static_member_may_leave_before_its_new_id_is_stored(groups: Groups) -> None:
    groups.stable(instance="i")
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.join(instance="i")
    assert groups.leave("", "i") is Errors.NONE
    assert groups.joined(number).error is Errors.UNKNOWN_MEMBER_ID
    groups.network.pass_time(REBALANCE_MS)
    assert groups.state() == ("Empty", 0)


def test_a_static_member_that_is_replaced_before_its_sync_is_not_removed(groups: Groups) -> None:
    leader, _ = groups.admitted(groups.join(), groups.join(instance="i"))
    groups.sync(leader)
    new = groups.joined(groups.join(instance="i"))
    assert new.member_id.startswith("i-")
    assert groups.synced(groups.sync(new, "i")).error is Errors.NONE
    for _ in range(8):
        groups.network.pass_time(REBALANCE_MS / 4)
        assert [groups.beat(leader), groups.beat(new, "i")] == [Errors.NONE] * 2
    assert groups.state() == ("Stable", 2)


def test_a_static_follower_that_comes_back_does_not_lead(groups: Groups) -> None:
    leader, _ = groups.admitted(groups.join(), groups.join(instance="i"))
    groups.sync(leader)
    named = [groups.joined(groups.join(instance="i")).leader for _ in range(2)]
    assert named == [leader.member_id] * 2


def test_a_member_that_leaves_is_no_longer_a_member(groups: Groups) -> None:
    stays, leaves = groups.stable(2)
    assert groups.leave("c-1") is Errors.UNKNOWN_MEMBER_ID
    assert groups.leave(leaves.member_id) is Errors.NONE
    assert groups.leave(leaves.member_id) is Errors.UNKNOWN_MEMBER_ID
    assert groups.state() == ("PreparingRebalance", 1)
    assert groups.leave(stays.member_id) is Errors.NONE
    assert groups.state() == ("Empty", 0)
    told = groups.joined(groups.join(needs_id=True))
    assert groups.leave(told.member_id) is Errors.NONE
    assert groups.joined(groups.join(told.member_id)).error is Errors.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_its_sync_waits_is_answered(groups: Groups) -> None:
    _, follower = groups.joining(2)
    waiting = groups.sync(follower)
    assert groups.leave(follower.member_id) is Errors.NONE
    assert groups.synced(waiting).error is Errors.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "body",
    [
        HeartbeatRequest("none", 1, "c-1"),
        SyncGroupRequest(group_id="none", generation_id=1, member_id="c-1"),
        HeartbeatRequest("g", 1, "c-1"),
        SyncGroupRequest(group_id="g", generation_id=1, member_id="c-1"),
    ],
)
def test_requests_of_unknown_members_are_refused(groups: Groups, body: GroupRequest) -> None:
    groups.stable()
    answer = groups.answer(groups.send(body))
    assert answer is not None
    assert answer.error is Errors.UNKNOWN_MEMBER_ID  # type: ignore[union-attr]


def test_members_of_a_group_that_does_not_exist_are_unknown(groups: Groups) -> None:
    assert groups.joined(groups.join("c-1")).error is Errors.UNKNOWN_MEMBER_ID
    assert groups.leave("c-1") is Errors.UNKNOWN_MEMBER_ID
    assert groups.state() == ("Dead", 0)


def test_an_assignment_that_cannot_be_stored_begins_a_rebalance() -> None:
    groups = Groups({"min.insync.replicas": "2"})
    leader, follower = groups.joining(2)
    waiting = groups.sync(follower)
    for number in (groups.sync(leader), waiting):
        assert groups.synced(number).error is Errors.COORDINATOR_NOT_AVAILABLE
    assert groups.state() == ("PreparingRebalance", 2)


def test_an_assignment_counts_once_the_replicas_have_it(groups: Groups) -> None:
    [member] = groups.joining()
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.sync(member)
    groups.network.pass_time(4_999)
    assert groups.answer(number) is None
    assert groups.state() == ("CompletingRebalance", 1)
    groups.network.pass_time(1)
    assert groups.synced(number).error is Errors.REBALANCE_IN_PROGRESS
    assert groups.state() == ("PreparingRebalance", 1)


@pytest.mark.parametrize(
    "body",
    [
        HeartbeatRequest("", 1, "c-1"),
        SyncGroupRequest(group_id="", generation_id=1, member_id="c-1"),
        OffsetDeleteRequest("", ()),
    ],
)
def test_a_group_with_members_needs_a_name(groups: Groups, body: GroupRequest) -> None:
    answer = groups.answer(groups.send(body))
    assert answer is not None
    assert answer.error is Errors.INVALID_GROUP_ID  # type: ignore[union-attr]


def test_requests_of_another_generation_are_refused(groups: Groups) -> None:
    [member] = groups.stable()
    past = JoinGroupResponse(Errors.NONE, member.member_id, member.generation_id - 1)
    assert groups.beat(past) is Errors.ILLEGAL_GENERATION
    assert groups.synced(groups.sync(past)).error is Errors.ILLEGAL_GENERATION
    assert groups.commit(past) is Errors.ILLEGAL_GENERATION
    assert groups.beat(member) is Errors.NONE


def test_the_next_leader_is_the_member_that_joined_first(groups: Groups) -> None:
    leader, *others = groups.stable(3)
    assert groups.leave(leader.member_id) is Errors.NONE
    numbers = [groups.join(one.member_id) for one in reversed(others)]
    assert {groups.joined(number).leader for number in numbers} == {others[0].member_id}


def test_new_members_delay_only_the_first_generation(groups: Groups) -> None:
    [member] = groups.stable()
    assert groups.leave(member.member_id) is Errors.NONE
    first = groups.join()
    groups.network.pass_time(DELAY_MS - 1)
    second = groups.join()
    groups.network.pass_time(1)
    assert [groups.joined(number).generation_id for number in (first, second)] == [3, 3]


def test_a_member_that_has_joined_must_send_heartbeats(groups: Groups) -> None:
    groups.join()
    groups.network.pass_time(DELAY_MS)
    groups.network.pass_time(SESSION_MS - 1)
    assert groups.state() == ("CompletingRebalance", 1)
    groups.network.pass_time(1)
    assert groups.state() == ("Empty", 0)


def test_a_rebalance_answers_the_syncs_that_wait(groups: Groups) -> None:
    _, follower = groups.joining(2)
    waiting = groups.sync(follower)
    groups.join()
    assert groups.synced(waiting).error is Errors.REBALANCE_IN_PROGRESS


def test_a_member_without_an_assignment_has_no_partitions(groups: Groups) -> None:
    [member] = groups.stable()
    again = groups.joined(groups.join(member.member_id))
    body = SyncGroupRequest(
        group_id="g", generation_id=again.generation_id, member_id=again.member_id
    )
    assert groups.synced(groups.send(body)).assignment == b""


@pytest.mark.parametrize("is_completing", [False, True])
def test_an_assignment_that_is_stored_after_its_generation_does_not_count(
    groups: Groups, is_completing: bool
) -> None:
    [member] = groups.joining()
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    first = groups.sync(member)
    number = groups.join()
    assert groups.synced(first).error is Errors.REBALANCE_IN_PROGRESS
    if is_completing:
        again = groups.joined(groups.join(member.member_id))
        assert (again.generation_id, groups.joined(number).generation_id) == (2, 2)
    before = groups.state()
    fetched = fetch_of(2, OFFSETS, leader_epoch=4, offset=1, epoch=4)
    groups.network.request(BROKER, fetched, Address("broker", 2))
    assert before == groups.state()
    assert before == ("CompletingRebalance" if is_completing else "PreparingRebalance", 2)


def test_a_group_that_is_too_large_to_store_is_a_server_error() -> None:
    groups = Groups({"message.max.bytes": "100"})
    [member] = groups.joining()
    assert groups.synced(groups.sync(member)).error is Errors.UNKNOWN_SERVER_ERROR


# -- coordinators


def test_only_the_groups_of_a_partition_are_forgotten_with_it() -> None:
    groups = Groups({"offsets.topic.num.partitions": "2"})
    coordinator = groups.network.brokers[BROKER].groups
    coordinator.on_election(1, 0)
    groups.network.pass_time(1)
    # The codes of "g" and "h" are 103 and 104.
    assert [coordinator.partition_of(name) for name in ("g", "h")] == [1, 0]
    for name in ("g", "h"):
        groups.send(
            JoinGroupRequest(
                group_id=name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=PROTOCOLS,
            )
        )
    coordinator.on_resignation(1, 1)
    listed = (ListedGroup("h", "", "Empty"),)
    assert groups.answer(groups.send(ListGroupsRequest())) == ListGroupsResponse(
        Errors.NONE, listed
    )


def test_a_loaded_group_has_its_leader_and_its_subscriptions(tmp_path: Path) -> None:
    groups = Groups(segments=tmp_path)
    _, other = groups.admitted(groups.join(instance="i", session_ms=60_000), groups.join())
    newer = (Protocol("range", b"\0\1" + SUBSCRIPTION[2:]),)
    again = groups.join(other.member_id, protocols=newer)
    groups.network.pass_time(REBALANCE_MS)
    leader = groups.joined(again)
    assert leader.leader == other.member_id, "which is not the first member"
    groups.sync(leader)
    for tp in (T0, U0):
        assert groups.commit(leader, tp) is Errors.NONE
    groups.reload()
    deleted = groups.answer(groups.send(OffsetDeleteRequest("g", (T0, U0))))
    assert deleted == OffsetDeleteResponse(
        Errors.NONE, {T0: Errors.GROUP_SUBSCRIBED_TO_TOPIC, U0: Errors.NONE}
    )
    groups.join(other.member_id, protocols=newer)
    assert groups.state() == ("PreparingRebalance", 2), "its leader has joined again"


def test_groups_that_cannot_be_loaded_are_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    groups = Groups(segments=tmp_path)
    assert groups.commit() is Errors.NONE
    unknown = encode_batch([Record(groups.network.clock.now_ms(), b"\0\x09", b"")])
    body = ProduceRequest(1, 1_000, {OFFSETS: unknown})
    message = Message(CLIENT, Address("broker", BROKER), 1, body)
    produces = groups.network.brokers[BROKER].replica_manager.leaders.produces
    appended = produces.produce(message, body, 0, 0, internal_topics_allowed=True)
    assert appended is not None and appended.partitions[OFFSETS].error is Errors.NONE
    groups.reload()
    [record] = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "Unknown group metadata message version: 9" in record.getMessage()
    assert groups.state() == ("Dead", 0)
    assert groups.commit() is Errors.NONE


def test_clients_do_not_produce_to_internal_topics(groups: Groups) -> None:
    other = TopicPartition(OFFSETS.topic, 99)
    records = CountedBatch(1, 100)
    body = ProduceRequest(1, 1_000, {OFFSETS: records, other: records})
    answer = groups.answer(groups.send(body))
    assert answer == ProduceResponse(
        {
            OFFSETS: ProducedPartition(Errors.INVALID_TOPIC_EXCEPTION),
            other: ProducedPartition(Errors.UNKNOWN_TOPIC_OR_PARTITION),
        }
    )


def test_groups_are_listed_by_their_states(groups: Groups) -> None:
    groups.stable()
    for states, expected in (((), True), (("Stable",), True), (("Empty", "Dead"), False)):
        answer = groups.answer(groups.send(ListGroupsRequest(states)))
        listed = (ListedGroup("g", "consumer", "Stable"),) if expected else ()
        assert answer == ListGroupsResponse(Errors.NONE, listed)


def test_a_coordinator_that_resigns_answers_delayed_requests(groups: Groups) -> None:
    number = groups.join()
    groups.lead(leader=2, leader_epoch=4)
    assert groups.joined(number).error is Errors.NOT_COORDINATOR
    assert groups.joined(groups.join()).error is Errors.NOT_COORDINATOR
    assert groups.describe().error is Errors.NOT_COORDINATOR
    groups.lead(leader_epoch=5)
    _, follower = groups.joining(2)
    waiting = groups.sync(follower)
    groups.lead(leader=2, leader_epoch=6)
    assert groups.synced(waiting).error is Errors.NOT_COORDINATOR
    assert groups.beat(follower) is Errors.NOT_COORDINATOR
    groups.network.pass_time(600_000)
    assert groups.network.brokers[BROKER].groups.next_due_ms() is None, "no timer is left"


def test_a_broker_that_is_not_the_coordinator_neither_deletes_nor_removes_members(
    groups: Groups,
) -> None:
    [member] = groups.stable()
    groups.network.brokers[BROKER].groups.on_resignation(0, 4)
    deleted = groups.answer(groups.send(DeleteGroupsRequest(("g",))))
    assert deleted == DeleteGroupsResponse({"g": Errors.NOT_COORDINATOR})
    leaving = LeaveGroupRequest("g", (MemberIdentity(member.member_id),))
    assert groups.answer(groups.send(leaving)) == LeaveGroupResponse(Errors.NOT_COORDINATOR)


def test_stale_elections_and_resignations_change_nothing(groups: Groups) -> None:
    groups.stable()
    coordinator = groups.network.brokers[BROKER].groups
    coordinator.on_resignation(0, 2)
    assert groups.state() == ("Stable", 1)
    coordinator.on_resignation(0, 4)
    coordinator.on_election(0, 3)
    groups.network.pass_time(1)
    assert groups.describe().error is Errors.NOT_COORDINATOR


def test_a_coordinator_that_loads_asks_for_patience(groups: Groups) -> None:
    coordinator = groups.network.brokers[BROKER].groups
    coordinator.on_resignation(0, 4)
    coordinator.on_election(0, 5)
    assert groups.describe().error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    member = JoinGroupResponse(Errors.NONE, "c-1", 1)
    assert groups.beat(member) is Errors.NONE
    assert groups.synced(groups.sync(member)).error is Errors.REBALANCE_IN_PROGRESS
    loading = ListGroupsResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, ())
    assert groups.answer(groups.send(ListGroupsRequest())) == loading
    groups.network.pass_time(1)
    assert groups.state() == ("Dead", 0)


def test_a_group_without_a_name_may_be_described_but_not_joined(groups: Groups) -> None:
    answer = groups.answer(groups.send(DescribeGroupsRequest(("",))))
    assert answer == DescribeGroupsResponse((DescribedGroup(Errors.NONE, "", "Dead"),))
    beat = groups.answer(groups.send(HeartbeatRequest("", 1, "c-1")))
    assert beat == HeartbeatResponse(Errors.INVALID_GROUP_ID)
    deleted = groups.answer(groups.send(DeleteGroupsRequest(("",))))
    assert deleted == DeleteGroupsResponse({"": Errors.GROUP_ID_NOT_FOUND})


def test_a_coordinator_that_is_dead_is_not_named(groups: Groups) -> None:
    def found() -> object:
        return groups.network.request(BROKER, FindCoordinatorRequest("g"), Address("client", 5))

    unavailable = FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)
    groups.network.request(BROKER, update_metadata(cached(OFFSETS, leader=9)))
    assert found() == unavailable
    groups.network.request(BROKER, update_metadata(cached(OFFSETS, leader=-1)))
    assert found() == unavailable
    groups.network.request(BROKER, update_metadata(cached(OFFSETS, leader=BROKER)))
    assert isinstance(answer := found(), FindCoordinatorResponse) and answer.coordinator is not None
    assert answer.coordinator.id == BROKER


def test_a_coordinator_that_is_elected_again_keeps_its_groups(groups: Groups) -> None:
    groups.stable()
    groups.network.brokers[BROKER].groups.on_election(0, 4)
    assert groups.state() == ("Stable", 1)


def test_a_coordinator_that_resigns_while_it_loads_loads_nothing(groups: Groups) -> None:
    coordinator = groups.network.brokers[BROKER].groups
    coordinator.on_resignation(0, 4)
    coordinator.on_election(0, 5)
    coordinator.on_resignation(0, 6)
    groups.network.pass_time(1)
    assert groups.describe().error is Errors.NOT_COORDINATOR


def test_a_coordinator_loads_the_groups_that_another_has_stored(tmp_path: Path) -> None:
    groups = Groups(segments=tmp_path)
    leader, follower = groups.stable(2)
    for tp in (T0, U0):
        assert groups.commit(leader, tp) is Errors.NONE
    groups.network.request(BROKER, update_metadata(cached(U0, leader=-2)))
    before = groups.describe()
    groups.reload()
    assert groups.describe() == before
    assert groups.offsets() == {T0: 42}
    assert [groups.beat(one) for one in (leader, follower)] == [Errors.NONE] * 2
    for one in (leader, follower):
        assert groups.leave(one.member_id) is Errors.NONE
    groups.reload()
    assert (groups.state(), groups.offsets()) == (("Empty", 0), {T0: 42})
    assert groups.answer(groups.send(DeleteGroupsRequest(("g",)))) == DeleteGroupsResponse(
        {"g": Errors.NONE}
    )
    groups.reload()
    assert groups.state() == ("Dead", 0)


def test_members_of_a_loaded_group_must_send_heartbeats(tmp_path: Path) -> None:
    groups = Groups(segments=tmp_path)
    groups.stable()
    groups.reload()
    assert groups.state() == ("Stable", 1)
    groups.network.pass_time(SESSION_MS)
    assert groups.state() == ("Empty", 0)


def test_a_loaded_group_that_is_too_large_now_begins_a_rebalance(tmp_path: Path) -> None:
    earlier = Groups(segments=tmp_path)
    earlier.stable(2)
    earlier.network.brokers[BROKER].log_maintenance.shutdown()
    groups = Groups({"group.max.size": "1"}, segments=tmp_path)
    assert groups.state() == ("PreparingRebalance", 2)


def test_a_replica_that_is_stopped_but_not_deleted_keeps_its_groups(groups: Groups) -> None:
    groups.stable()
    groups.network.request(BROKER, stop_replica(OFFSETS, 4, delete=False))
    assert groups.state() == ("Stable", 1)


def test_the_offsets_topic_is_created_by_one_request_at_a_time() -> None:
    network = Network()
    broker = network.add(BROKER, broker_config({"request.timeout.ms": "1000"}))
    client = Address("client", 5)

    def created() -> list[Message]:
        """Ask for a coordinator; return all requests to create topics so far."""
        found = network.request(BROKER, FindCoordinatorRequest("g"), client)
        assert found == FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)
        return [m for m in network.sent if isinstance(m.body, CreateTopicsRequest)]

    assert created() == [], "no controller is known"
    network.request(BROKER, update_metadata())
    [first] = created()
    assert first.destination == Address("controller", CONTROLLER)
    assert isinstance(first.body, CreateTopicsRequest)
    [topic] = first.body.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (OFFSETS_TOPIC, 50, 3)
    assert topic.configs["cleanup.policy"] == "compact"
    network.pass_time(999)
    assert len(created()) == 1
    other = Message(first.destination, broker.address, -1, CreateTopicsResponse(()))
    broker.receive(other)
    assert len(created()) == 1, "a response to another request"
    network.pass_time(1)
    [_, second] = created()
    broker.receive(
        Message(second.destination, broker.address, second.correlation_id, CreateTopicsResponse(()))
    )
    assert len(created()) == 3


def test_the_epochs_of_deleted_partitions_are_forgotten(groups: Groups) -> None:
    groups.network.request(BROKER, stop_replica(OFFSETS))
    assert groups.describe().error is Errors.NOT_COORDINATOR
    groups.lead(leader_epoch=0)
    assert groups.state() == ("Dead", 0)


def test_a_broker_counts_the_partitions_when_it_starts() -> None:
    network = Network()
    before = network.add(1)
    store = MemoryStore(network.zookeeper, 6_000)
    zk = KafkaZkClient(store)
    zk.create_top_level_paths()
    tps = [TopicPartition(OFFSETS_TOPIC, partition) for partition in range(7)]
    zk.create_topic_assignment(OFFSETS_TOPIC, None, dict.fromkeys(tps, ReplicaAssignment((1, 2))))
    after = network.add(2, proposed_cluster_id="cluster-id-of-22-chars")
    after.startup()
    # Only a part of the topic has arrived.
    for broker_id in (1, 2):
        network.brokers[broker_id] = before if broker_id == 1 else after
        epoch = network.brokers[broker_id].broker_epoch
        network.request(broker_id, update_metadata(cached(tps[3]), broker_epoch=epoch))
    # "g".hashCode() is 103.
    assert (before.groups.partition_of("g"), after.groups.partition_of("g")) == (103 % 50, 103 % 7)


def test_a_static_member_fences_its_waiting_sync(groups: Groups) -> None:
    _, follower = groups.admitted(groups.join(), groups.join(instance="i"))
    waiting = groups.sync(follower, "i")
    assert groups.answer(waiting) is None
    groups.join(instance="i")
    assert groups.synced(waiting).error is Errors.FENCED_INSTANCE_ID
