"""Committed offsets of groups: commits, deletion, and expiry.

Sources: GroupCoordinator, GroupMetadata and GroupMetadataManager (kafka.coordinator.group).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import (
    CommittedOffset,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    FetchedOffset,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Protocol,
)
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.groups import (
    BROKER,
    DELAY_MS,
    OFFSETS,
    SESSION_MS,
    SUBSCRIPTION,
    U0,
    Groups,
)
from tests.unit.brokers.network import T0, cached, fetch_of, update_metadata


@pytest.fixture
def groups() -> Groups:
    return Groups()


def test_only_members_of_the_current_generation_and_groups_without_members_commit(
    groups: Groups,
) -> None:
    for generation_id in (0, 1):
        member = JoinGroupResponse(Errors.NONE, "c-1", generation_id)
        assert groups.commit(member) is Errors.ILLEGAL_GENERATION
    assert groups.commit(tp=TopicPartition("none", 0)) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert groups.commit(metadata="x" * 4_097) is Errors.OFFSET_METADATA_TOO_LARGE
    assert groups.offsets() == {}
    assert groups.commit(metadata="\u00e9" * 4_096) is Errors.NONE, "the limit is in characters"
    assert groups.offsets() == {T0: 42}
    [member] = groups.joining()
    assert groups.commit() is Errors.UNKNOWN_MEMBER_ID
    assert groups.commit(member, U0) is Errors.REBALANCE_IN_PROGRESS
    groups.sync(member)
    assert groups.commit(member, U0) is Errors.NONE
    assert groups.offsets() == {T0: 42, U0: 42}


def test_a_commit_counts_once_the_replicas_have_it(groups: Groups) -> None:
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    commit = OffsetCommitRequest(group_id="g", offsets={T0: CommittedOffset(42)})
    number = groups.send(commit)
    groups.network.pass_time(4_999)
    assert (groups.answer(number), groups.offsets()) == (None, {})
    for require_stable, expected in (
        (True, FetchedOffset(Errors.UNSTABLE_OFFSET_COMMIT)),
        (False, FetchedOffset()),
    ):
        asked = groups.send(OffsetFetchRequest("g", (T0,), require_stable))
        assert groups.answer(asked) == OffsetFetchResponse(Errors.NONE, {T0: expected})
    groups.network.pass_time(1)
    late = OffsetCommitResponse({T0: Errors.REQUEST_TIMED_OUT})
    assert (groups.answer(number), groups.offsets()) == (late, {})


def test_a_commit_that_arrives_after_its_partition_is_deleted_changes_nothing(
    groups: Groups,
) -> None:
    assert [groups.commit(tp=tp) for tp in (T0, U0)] == [Errors.NONE] * 2
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.send(OffsetCommitRequest(group_id="g", offsets={T0: CommittedOffset(43)}))
    groups.network.request(BROKER, update_metadata(cached(leader=-2)))
    fetched = fetch_of(2, OFFSETS, leader_epoch=4, offset=4, epoch=4)
    groups.network.request(BROKER, fetched, Address("broker", 2))
    assert groups.answer(number) == OffsetCommitResponse({T0: Errors.NONE})
    assert groups.offsets() == {U0: 42}


def test_a_commit_is_subject_to_retention_like_any_record(groups: Groups) -> None:
    maintenance = groups.network.brokers[BROKER].log_maintenance
    assert maintenance.next_due_ms() is None
    groups.commit()
    assert maintenance.next_due_ms() == groups.network.clock.time_ms + 300_000


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"min.insync.replicas": "2"}, Errors.COORDINATOR_NOT_AVAILABLE),
        ({"message.max.bytes": "1"}, Errors.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_a_commit_that_the_log_refuses_is_not_stored(
    config: dict[str, str], expected: Errors
) -> None:
    groups = Groups(config)
    assert (groups.commit(), groups.offsets()) == (expected, {})


def test_a_commit_may_say_how_long_it_is_kept() -> None:
    groups = Groups({"offsets.retention.check.interval.ms": "1000"})
    committed = CommittedOffset(42, timestamp_ms=1)
    for tp, kept_ms in ((T0, 10_000), (U0, -1)):
        body = OffsetCommitRequest(group_id="g", offsets={tp: committed}, retention_time_ms=kept_ms)
        assert groups.answer(groups.send(body)) == OffsetCommitResponse({tp: Errors.NONE})
    groups.network.pass_time(9_000)
    assert T0 in groups.offsets()
    groups.network.pass_time(2_000)
    assert T0 not in groups.offsets()


def test_a_commit_may_fail_in_part(groups: Groups) -> None:
    offsets = {T0: CommittedOffset(42, metadata="x" * 4_097), U0: CommittedOffset(42)}
    answer = groups.answer(groups.send(OffsetCommitRequest(group_id="g", offsets=offsets)))
    expected = {T0: Errors.OFFSET_METADATA_TOO_LARGE, U0: Errors.NONE}
    assert (answer, groups.offsets()) == (OffsetCommitResponse(expected), {U0: 42})


def test_a_commit_may_say_when_it_was_made() -> None:
    minutes = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups(minutes)
    for tp, timestamp_ms in ((T0, 1), (U0, -1)):
        committed = CommittedOffset(42, timestamp_ms=timestamp_ms)
        groups.send(OffsetCommitRequest(group_id="g", offsets={tp: committed}))
    groups.network.pass_time(1_000)
    assert groups.offsets() == {U0: 42}


def test_a_commit_is_a_heartbeat(groups: Groups) -> None:
    [member] = groups.stable()
    for _ in range(3):
        groups.network.pass_time(SESSION_MS - 1)
        assert groups.commit(member) is Errors.NONE


def delete(groups: Groups) -> Errors:
    """Delete g."""
    answer = groups.answer(groups.send(DeleteGroupsRequest(("g",))))
    assert isinstance(answer, DeleteGroupsResponse)
    return answer.results["g"]


def test_only_empty_groups_are_deleted(groups: Groups) -> None:
    assert delete(groups) is Errors.GROUP_ID_NOT_FOUND
    [member] = groups.stable()
    groups.commit(member)
    assert delete(groups) is Errors.NON_EMPTY_GROUP
    groups.leave(member.member_id)
    assert groups.offsets() == {T0: 42}
    assert delete(groups) is Errors.NONE
    assert (groups.state(), groups.offsets()) == (("Dead", 0), {})
    assert delete(groups) is Errors.GROUP_ID_NOT_FOUND


def delete_offsets(groups: Groups, *tps: TopicPartition) -> OffsetDeleteResponse:
    """Delete committed offsets of g."""
    answer = groups.answer(groups.send(OffsetDeleteRequest("g", tps)))
    assert isinstance(answer, OffsetDeleteResponse)
    return answer


def test_offsets_of_subscribed_topics_are_not_deleted(groups: Groups) -> None:
    none = TopicPartition("none", 0)
    assert delete_offsets(groups, T0).error is Errors.GROUP_ID_NOT_FOUND
    [member] = groups.stable()
    for tp in (T0, U0):
        groups.commit(member, tp)
    assert delete_offsets(groups, T0, U0, none) == OffsetDeleteResponse(
        Errors.NONE,
        {
            T0: Errors.GROUP_SUBSCRIBED_TO_TOPIC,
            U0: Errors.NONE,
            none: Errors.UNKNOWN_TOPIC_OR_PARTITION,
        },
    )
    assert groups.offsets() == {T0: 42}
    groups.leave(member.member_id)
    assert delete_offsets(groups, T0).partitions == {T0: Errors.NONE}
    assert groups.state() == ("Dead", 0), "nothing of the group is left"


def test_no_offsets_of_other_groups_with_members_are_deleted(groups: Groups) -> None:
    [joined] = groups.admitted(groups.join(protocol_type="connect"))
    groups.sync(joined)
    assert delete_offsets(groups, T0) == OffsetDeleteResponse(Errors.NON_EMPTY_GROUP)
    assert groups.leave(joined.member_id) is Errors.NONE
    assert delete_offsets(groups, T0) == OffsetDeleteResponse(Errors.NONE, {T0: Errors.NONE})


@pytest.mark.parametrize("cut", [8, 7, 5])
def test_no_offsets_are_deleted_while_the_subscriptions_are_unknown(
    groups: Groups, cut: int
) -> None:
    [member] = groups.admitted(groups.join(protocols=(Protocol("range", SUBSCRIPTION[:cut]),)))
    groups.sync(member)
    assert groups.commit(member, U0) is Errors.NONE
    assert delete_offsets(groups, U0).partitions == {U0: Errors.GROUP_SUBSCRIBED_TO_TOPIC}


def test_subscriptions_that_become_unknown_are_forgotten(groups: Groups) -> None:
    [member] = groups.stable()
    assert groups.commit(member, U0) is Errors.NONE
    number = groups.join(member.member_id, protocols=(Protocol("range", b"?"),))
    groups.sync(groups.joined(number))
    assert delete_offsets(groups, U0).partitions == {U0: Errors.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_former_member_of_an_empty_group_commits_nothing(groups: Groups) -> None:
    [member] = groups.stable()
    groups.leave(member.member_id)
    assert groups.state() == ("Empty", 0)
    assert groups.commit(member) is Errors.UNKNOWN_MEMBER_ID
    assert groups.commit() is Errors.NONE


def test_offsets_expire_after_the_group_is_empty() -> None:
    minutes = {"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups({**minutes, "group.max.session.timeout.ms": "1800000"})
    number = groups.join(session_ms=1_800_000)
    groups.network.pass_time(DELAY_MS)
    member = groups.joined(number)
    groups.sync(member)
    for tp in (T0, U0):
        groups.commit(member, tp)
    groups.network.pass_time(121_000)
    assert groups.offsets() == {T0: 42}, "the group is subscribed to t"
    groups.leave(member.member_id)
    groups.network.pass_time(118_000)
    assert groups.offsets() == {T0: 42}
    groups.network.pass_time(3_000)
    assert (groups.offsets(), groups.state()) == ({}, ("Dead", 0))


def test_offsets_of_members_that_are_no_consumers_do_not_expire() -> None:
    minutes = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups({**minutes, "group.max.session.timeout.ms": "1800000"})
    number = groups.join(protocol_type="connect", session_ms=1_800_000)
    groups.network.pass_time(DELAY_MS)
    member = groups.joined(number)
    groups.sync(member)
    assert groups.commit(member, U0) is Errors.NONE
    groups.network.pass_time(100_000)
    assert (groups.offsets(), groups.state()) == ({U0: 42}, ("Stable", 1))
    groups.join(member.member_id)
    groups.network.pass_time(100_000)
    assert groups.offsets() == {U0: 42}
    groups.leave(member.member_id)
    groups.network.pass_time(59_000)
    assert groups.offsets() == {U0: 42}
    groups.network.pass_time(3_000)
    assert groups.state() == ("Dead", 0)


def test_offsets_of_a_group_without_members_expire_by_their_commits() -> None:
    minutes = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups(minutes)
    groups.commit(tp=T0)
    groups.network.pass_time(30_000)
    groups.commit(tp=U0)
    for number in range(62):
        # Groups that are created do not put the check off.
        other = OffsetCommitRequest(group_id=f"g{number}", offsets={T0: CommittedOffset(1)})
        groups.send(other)
        groups.network.pass_time(500)
    assert groups.offsets() == {U0: 42}
    groups.network.pass_time(31_000)
    assert groups.state() == ("Dead", 0)


def test_an_offset_does_not_expire_while_a_newer_commit_is_appended(tmp_path: Path) -> None:
    minutes = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups(minutes, tmp_path)
    groups.commit()
    groups.network.pass_time(57_000)
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.send(OffsetCommitRequest(group_id="g", offsets={T0: CommittedOffset(43)}))
    groups.network.pass_time(4_000)
    fetched = fetch_of(2, OFFSETS, leader_epoch=4, offset=2, epoch=4)
    groups.network.request(BROKER, fetched, Address("broker", 2))
    assert groups.answer(number) == OffsetCommitResponse({T0: Errors.NONE})
    assert groups.offsets() == {T0: 43}
    groups.reload()
    assert groups.offsets() == {T0: 43}, "its tombstone came after the commit"


def test_offsets_expire_at_the_end_of_their_retention() -> None:
    minutes = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups(minutes)
    groups.commit()
    groups.network.pass_time(59_999)
    assert groups.offsets() == {T0: 42}
    groups.network.pass_time(1)
    assert groups.offsets() == {}


def test_a_loaded_group_expires_by_the_time_at_which_it_became_empty(tmp_path: Path) -> None:
    minutes = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"}
    groups = Groups(minutes, tmp_path)
    [member] = groups.stable()
    assert groups.commit(member) is Errors.NONE
    for _ in range(5):
        groups.network.pass_time(SESSION_MS - 1)
        groups.beat(member)
    groups.leave(member.member_id)
    groups.reload()
    groups.network.pass_time(58_000)
    assert groups.offsets() == {T0: 42}
    groups.network.pass_time(3_000)
    assert groups.offsets() == {}


def records_appended(groups: Groups) -> int:
    """The number of records in __consumer_offsets-0."""
    log = groups.network.brokers[BROKER].replica_manager.partitions[OFFSETS].log
    assert log is not None
    return log.log_end_offset


def test_only_stored_groups_and_offsets_get_a_tombstone(groups: Groups) -> None:
    groups.commit()
    assert records_appended(groups) == 1
    delete_offsets(groups, U0)
    assert records_appended(groups) == 1
    assert delete(groups) is Errors.NONE
    assert records_appended(groups) == 2, "the group had no record"


@pytest.mark.parametrize("deletes_group", [False, True])
def test_a_commit_in_flight_keeps_a_group_unless_the_group_is_deleted(
    groups: Groups, deletes_group: bool
) -> None:
    groups.commit()
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.send(OffsetCommitRequest(group_id="g", offsets={U0: CommittedOffset(43)}))
    if deletes_group:
        assert delete(groups) is Errors.NONE
    else:
        assert delete_offsets(groups, T0).partitions == {T0: Errors.NONE}
    fetched = fetch_of(2, OFFSETS, leader_epoch=4, offset=3, epoch=4)
    groups.network.request(BROKER, fetched, Address("broker", 2))
    assert groups.answer(number) == OffsetCommitResponse({U0: Errors.NONE})
    assert groups.offsets() == ({} if deletes_group else {U0: 43})


def test_a_commit_that_outlives_the_leadership_fails(groups: Groups) -> None:
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    number = groups.send(OffsetCommitRequest(group_id="g", offsets={T0: CommittedOffset(42)}))
    groups.lead(leader=2, leader_epoch=5)
    assert groups.answer(number) == OffsetCommitResponse({T0: Errors.NOT_COORDINATOR})


def test_offsets_of_deleted_partitions_are_removed(groups: Groups) -> None:
    groups.commit(tp=T0)
    groups.commit(tp=U0)
    groups.network.request(BROKER, update_metadata(cached(leader=-1)))
    assert groups.offsets() == {T0: 42, U0: 42}, "a partition without leader is not deleted"
    groups.network.request(BROKER, update_metadata(cached(leader=-2)))
    assert groups.offsets() == {U0: 42}


def test_of_two_commits_in_flight_the_later_one_counts() -> None:
    groups = Groups()
    groups.lead(leader_epoch=4, isr=(BROKER, 2))
    numbers = [
        groups.send(OffsetCommitRequest(group_id="g", offsets={T0: CommittedOffset(offset)}))
        for offset in (42, 43)
    ]
    fetched = fetch_of(2, OFFSETS, leader_epoch=4, offset=2, epoch=4)
    groups.network.request(BROKER, fetched, Address("broker", 2))
    stored = OffsetCommitResponse({T0: Errors.NONE})
    assert [groups.answer(number) for number in numbers] == [stored, stored]
    assert groups.offsets() == {T0: 43}
