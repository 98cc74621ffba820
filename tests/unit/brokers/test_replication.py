"""Records from a producer to the leader, its followers and back: fetches, truncation, acks, ISRs.

Sources: Partition, ReplicaManager, AbstractFetcherThread, DelayedProduce.
"""

from __future__ import annotations

import pytest

from klamm.brokers.config import broker_config
from klamm.brokers.leaders.leader_replicas import FollowerNotifications
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.partitions.remote_replica import RemoteReplica, pack_followers, unpack_followers
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
)
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import PartitionAndReplica, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.unit.brokers.network import T0, T1, update_metadata
from tests.unit.brokers.replicas import CLIENT, IDS, Replicas


@pytest.fixture
def replicas() -> Replicas:
    """Brokers 1 to 3 with t-0 in sync and empty, led by 1 at epoch 3."""
    replicas = Replicas()
    replicas.lead(1, 3)
    return replicas


def test_nothing_is_sent_while_nothing_is_written(replicas: Replicas) -> None:
    sent = [m for m in replicas.sent if isinstance(m.body, FetchRequest | FetchResponse)]
    assert sent == []
    assert [broker.next_due_ms() for broker in replicas.brokers.values()] == [None] * 3


def test_records_and_the_high_watermark_reach_every_replica(replicas: Replicas) -> None:
    for _ in range(3):
        replicas.replicate(1, 10)
    assert replicas.ends() == [(30, 30)] * 3
    assert [replicas.epochs(broker_id) for broker_id in IDS] == [[(3, 0, 30)]] * 3


def test_all_replicas_at_rest_have_no_timer_and_send_nothing(replicas: Replicas) -> None:
    replicas.replicate(1, 10)
    replicas.pass_time(60_000)
    mark = len(replicas.sent)
    replicas.pass_time(600_000)
    assert len(replicas.sent) == mark
    assert [broker.next_due_ms() for broker in replicas.brokers.values()] == [None] * 3


def test_replicas_at_rest_are_packed_and_continue_as_if_they_were_not(replicas: Replicas) -> None:
    replicas.replicate(1, 10)
    leader = replicas.replica(1)
    before = leader.remotes
    replicas.pass_time(600_000)
    for broker_id in IDS:
        log = replicas.replica(broker_id).log
        assert isinstance(log, IntervalLog)
        assert log.intervals()
        assert isinstance(log.kept, bytes)
        assert replicas.replica(broker_id).checkpoint is None
    assert isinstance(leader.known, bytes)
    assert len(leader.known) < 40
    assert leader.remotes == before
    replicas.replicate(1, 5)
    assert replicas.ends() == [(15, 15)] * 3


def test_different_followers_are_unchanged_after_packing() -> None:
    resting = [RemoteReplica(n, 5.5 + n, 5.5 + n, 9, 9, 2, False, 9, 1) for n in (3, 200, 1)]
    behind = RemoteReplica(2, 1.0, 7.0, 9, 4, 1, True, 4, 0)
    for remotes in (tuple(resting), (*resting, behind), (behind, *resting), (behind,)):
        assert unpack_followers(pack_followers(remotes)) == remotes
    assert len(pack_followers(tuple(resting))) < len(pack_followers((*resting, behind))) / 2


def test_acks_0_has_no_answer_acks_1_one_at_once_and_all_one_when_all_have_it(
    replicas: Replicas,
) -> None:
    nobody, leader, everybody = (replicas.produce(1, 5, acks=acks) for acks in (0, 1, -1))
    assert replicas.produced(leader) == ProducedPartition(Errors.NONE, 5, 3, 0)
    assert replicas.produced(everybody) is None
    replicas.settle()
    assert replicas.produced(everybody) == ProducedPartition(Errors.NONE, 10, 3, 0)
    assert replicas.produced(nobody) is None


def test_acks_that_do_not_exist_are_refused(replicas: Replicas) -> None:
    number = replicas.produce(1, acks=2)  # type: ignore[arg-type]
    assert replicas.produced(number) == ProducedPartition(Errors.INVALID_REQUIRED_ACKS)
    assert replicas.ends()[0] == (0, 0)
    produces = replicas.brokers[1].replica_manager.leaders.produces
    other = TopicPartition("other", 0)
    body = ProduceRequest(2, 1_000, {T0: b"", other: b""})  # type: ignore[arg-type]
    address = Address("broker", 1)
    answer = produces.produce(Message(CLIENT, address, 1, body), body, 0, 0)
    assert answer == ProduceResponse(
        {
            T0: ProducedPartition(Errors.INVALID_REQUIRED_ACKS),
            other: ProducedPartition(Errors.UNKNOWN_TOPIC_OR_PARTITION),
        }
    )


def test_a_follower_does_not_take_a_producers_records(replicas: Replicas) -> None:
    number = replicas.produce(2)
    assert replicas.produced(number) == ProducedPartition(Errors.NOT_LEADER_OR_FOLLOWER)


def test_the_ack_waits_for_every_member_of_the_isr_and_for_no_longer_than_the_timeout(
    replicas: Replicas,
) -> None:
    replicas.lost = (3,)
    number = replicas.produce(1, 5, timeout_ms=1500)
    replicas.pass_time(1499)
    assert replicas.ends() == [(5, 0), (5, 0), (0, 0)]
    assert replicas.produced(number) is None
    replicas.pass_time(1)
    assert replicas.produced(number) == ProducedPartition(Errors.REQUEST_TIMED_OUT, 0, 3, 0)


def test_lost_messages_are_sent_again(replicas: Replicas) -> None:
    replicas.lost = (3,)
    number = replicas.produce(1, 5)
    replicas.pass_time(2_000)
    replicas.lost = ()
    replicas.pass_time(500)
    assert replicas.produced(number) == ProducedPartition(Errors.NONE, 0, 3, 0)
    replicas.lost = (1,)
    number = replicas.produce(1, 5)
    replicas.pass_time(2_000)
    assert replicas.produced(number) is None, "the leader hears of no fetch"
    replicas.lost = ()
    replicas.pass_time(500)
    assert replicas.produced(number) == ProducedPartition(Errors.NONE, 5, 3, 0)
    assert replicas.ends() == [(10, 10)] * 3


def test_duplicate_and_late_messages_count_once(replicas: Replicas) -> None:
    replicas.replicate(1, 5)
    replicas.replicate(1, 5)
    for message in [m for m in replicas.sent if isinstance(m.body, FetchResponse)]:
        replicas.send(message)
    replicas.settle()
    assert replicas.ends() == [(10, 10)] * 3


def test_a_follower_that_lags_for_too_long_leaves_the_isr_and_the_others_continue(
    replicas: Replicas,
) -> None:
    replicas.lost = (3,)
    number = replicas.replicate(1, 5, timeout_ms=60_000)
    replicas.pass_time(30_000)
    assert replicas.replica(1).isr == IDS
    replicas.pass_time(15_000)
    replicas.settle()
    assert replicas.replica(1).isr == (1, 2)
    assert replicas.produced(number) == ProducedPartition(Errors.NONE, 0, 3, 0)
    replicas.lost = ()
    replicas.pass_time(1_000)
    replicas.settle()
    assert replicas.replica(1).isr == IDS
    assert replicas.ends() == [(5, 5)] * 3


def test_an_isr_that_is_about_to_shrink_still_counts(replicas: Replicas) -> None:
    replicas.confirms = False
    replicas.lost = (3,)
    replicas.produce(1, 5)
    replicas.pass_time(60_000)
    pending = replicas.replica(1).pending
    assert pending is not None and pending.isr == (1, 2)
    assert replicas.ends()[0] == (5, 0)
    replicas.confirms = True
    replicas.settle()
    assert replicas.ends()[:2] == [(5, 5), (5, 5)]


def test_a_replica_that_is_about_to_join_counts_already() -> None:
    replicas = Replicas()
    replicas.confirms = False
    replicas.lead(1, 3, (1, 2))
    assert replicas.replica(1).maximal_isr == IDS
    replicas.lost = (3,)
    replicas.replicate(1, 5)
    assert replicas.ends() == [(5, 0), (5, 0), (0, 0)]


def test_a_replica_that_may_not_join_no_longer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = Replicas()
    replicas.confirms = False
    replicas.lead(1, 3, (1, 2))
    replicas.lost = (3,)
    replicas.produce(1, 5)
    replicas.pass_time(31_000)
    assert replicas.ends()[0] == (5, 0)
    monkeypatch.setattr(replicas, "decide", lambda _: Errors.UNKNOWN_SERVER_ERROR)
    replicas.confirms = True
    replicas.settle()
    assert replicas.ends()[0] == (5, 5)


def test_isrs_are_checked_twice_in_the_maximal_lag(replicas: Replicas) -> None:
    replicas.lost = (3,)
    replicas.replicate(1, 5)
    changes = replicas.brokers[1].replica_manager.leaders.isr_changes
    for _ in range(3):
        assert changes.next_due_ms() == replicas.clock.time_ms + 15_000
        replicas.pass_time(15_000)
    replicas.settle()
    replicas.pass_time(15_000)
    assert (replicas.replica(1).isr, changes.next_due_ms()) == ((1, 2), None)


def test_a_leader_begins_to_watch_its_followers_and_to_count_at_once(replicas: Replicas) -> None:
    replicas.replicate(1, 5)
    replicas.lost = (3,)
    replicas.lead(2, 4, told=(1, 2))
    replicas.pass_time(45_000)
    replicas.settle()
    assert replicas.replica(2).isr == (1, 2)
    replicas.lost = (1, 3)
    replicas.replicate(2, 5, acks=1)
    assert replicas.ends()[1] == (10, 5)
    replicas.lead(2, 5, (2,), told=(2,))
    assert replicas.ends()[1] == (10, 10)


def test_a_former_leader_notifies_no_follower(replicas: Replicas) -> None:
    replicas.lost = (2, 3)
    replicas.replicate(1, 5, acks=1)
    replicas.produce(1, 5, acks=1)
    replicas.lead(2, 4, told=(1,))
    mark = len(replicas.sent)
    replicas.pass_time(5_000)
    assert [m for m in replicas.sent[mark:] if isinstance(m.body, FetchResponse)] == []


def test_a_follower_is_expected_from_its_last_notification_on() -> None:
    followers = FollowerNotifications(500.0)
    for tp, now_ms in ((T0, 0.0), (T1, 100.0), (T0, 200.0)):
        followers.add_owing(tp, 2, now_ms)
    assert (followers.next_due_ms({2}), followers.next_due_ms({3})) == (600.0, None)
    assert followers.take_due(599.0) == []
    assert followers.take_due(600.0) == [PartitionAndReplica(T1, 2)]
    followers.remove_owing(T0, 3)
    assert followers.next_due_ms({2}) == 700.0
    followers.remove_owing(T0, 2)
    assert followers.next_due_ms({2}) is None


def test_too_few_in_sync_replicas_refuse_only_acks_all() -> None:
    replicas = Replicas(broker_config({"min.insync.replicas": "2"}))
    replicas.confirms = False
    replicas.lost = (2, 3)
    replicas.lead(1, 3, (1,))
    refused, taken = replicas.produce(1), replicas.produce(1, acks=1)
    assert replicas.produced(refused) == ProducedPartition(
        Errors.NOT_ENOUGH_REPLICAS, log_start_offset=0
    )
    assert replicas.produced(taken) == ProducedPartition(Errors.NONE, 0, 3, 0)


def test_a_leader_alone_in_its_isr_acknowledges_at_once() -> None:
    replicas = Replicas()
    replicas.lead(1, 3, (1,), told=(1,))
    number = replicas.produce(1, 5)
    assert replicas.produced(number) == ProducedPartition(Errors.NONE, 0, 3, 0)


def test_an_isr_that_shrank_below_the_minimum_meanwhile_is_an_error() -> None:
    replicas = Replicas(broker_config({"min.insync.replicas": "3"}))
    replicas.lead(1, 3)
    replicas.lost = (3,)
    number = replicas.produce(1, timeout_ms=60_000)
    replicas.pass_time(45_000)
    replicas.settle()
    answer = ProducedPartition(Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0, 3, 0)
    assert replicas.produced(number) == answer


def test_a_waiting_producer_gets_an_error_when_the_leader_changes(replicas: Replicas) -> None:
    replicas.lost = (3,)
    number = replicas.replicate(1)
    replicas.lead(2, 4, (1, 2), told=(1,))
    assert replicas.produced(number) == ProducedPartition(Errors.NOT_LEADER_OR_FOLLOWER, 0, 3, 0)


def test_a_waiting_producer_gets_an_error_when_the_log_directory_fails() -> None:
    replicas = Replicas(broker_config({"log.dirs": "a,b"}))
    KafkaZkClient(replicas.stores[1]).create_top_level_paths()
    replicas.lead(1, 3)
    number = replicas.produce(1)
    path = replicas.brokers[1].replica_manager.log_dirs.path_of(T0)
    assert path is not None
    replicas.brokers[1].fail_log_dir(path)
    replicas.request(1, update_metadata())
    assert replicas.produced(number) == ProducedPartition(Errors.KAFKA_STORAGE_ERROR, 0, 3, 0)


def test_a_follower_truncates_records_that_its_new_leader_never_had(replicas: Replicas) -> None:
    replicas.replicate(1, 10)
    replicas.lost = (2, 3)
    replicas.replicate(1, 7, acks=1)
    assert replicas.ends()[0] == (17, 10)
    replicas.lost = (1,)
    replicas.lead(2, 4, (2, 3), told=(2, 3))
    replicas.replicate(2, 2)
    replicas.lost = ()
    replicas.lead(2, 5, (2, 3))
    assert replicas.epochs(1) == replicas.epochs(2) == [(3, 0, 10), (4, 10, 12)]
    assert replicas.ends() == [(12, 12)] * 3
    assert replicas.replica(2).isr == (2, 3, 1)


def test_logs_that_diverge_in_several_epochs_converge(replicas: Replicas) -> None:
    replicas.replicate(1, 10)
    epoch = 3
    for leader, others in ((1, (2, 3)), (2, (1, 3)), (1, (2, 3)), (2, (1, 3)), (1, (2, 3))):
        epoch += 1
        replicas.lost = others
        replicas.lead(leader, epoch, (leader,), told=(leader,))
        replicas.produce(leader, epoch, acks=1)
    assert replicas.epochs(1) != replicas.epochs(2)
    replicas.lost = ()
    replicas.lead(2, epoch + 1, (2,))
    replicas.settle()
    assert replicas.epochs(1) == replicas.epochs(2) == replicas.epochs(3)
    assert replicas.replica(2).isr == (2, *sorted((1, 3))) or replicas.replica(2).isr == (2, 3, 1)


def test_a_new_leader_moves_the_high_watermark_only_when_followers_fetch_at_its_epoch(
    replicas: Replicas,
) -> None:
    replicas.lost = (2,)
    replicas.replicate(1, 10)
    replicas.lost = (1, 2)
    replicas.lead(3, 4, (2, 3), told=(3,))
    assert replicas.ends()[2] == (10, 0)
    replicas.lost = (1,)
    replicas.lead(3, 5, (2, 3), told=(2, 3))
    replicas.pass_time(500)
    assert replicas.ends()[1:] == [(10, 10), (10, 10)]


def test_a_follower_joins_the_isr_only_at_the_leaders_epoch(
    replicas: Replicas,
) -> None:
    replicas.replicate(1, 10)
    replicas.lost = (3,)
    replicas.lead(1, 4, (1,))
    replicas.produce(1, 10, acks=1)
    replicas.lead(1, 5, (1,))
    assert replicas.replica(1).epoch_start_offset == 20
    partition = replicas.replica(1)
    assert 3 not in partition.isr and 2 in partition.isr


def test_a_leader_notifies_a_follower_that_is_alive_again(replicas: Replicas) -> None:
    replicas.replicate(1, 10)
    replicas.request(1, update_metadata(live=(0, 1, 2)))
    number = replicas.produce(1, 10)
    replicas.pass_time(5_000)
    assert replicas.produced(number) is None
    replicas.request(1, update_metadata())
    replicas.pass_time(500)
    assert replicas.produced(number) == ProducedPartition(Errors.NONE, 10, 3, 0)


def test_an_empty_follower_gets_the_high_watermark_once_it_is_alive(replicas: Replicas) -> None:
    replicas.request(1, update_metadata(live=(0, 1, 2)))
    number = replicas.produce(1, 10)
    replicas.pass_time(5_000)
    assert replicas.ends() == [(10, 0), (10, 0), (0, 0)]
    replicas.request(1, update_metadata())
    replicas.pass_time(1_000)
    assert replicas.produced(number) == ProducedPartition(Errors.NONE, 0, 3, 0)


def test_a_high_watermark_that_moved_while_a_follower_was_dead_is_sent_later(
    replicas: Replicas,
) -> None:
    replicas.withholds = lambda m: isinstance(m.body, FetchRequest) and m.source.id == 2
    replicas.replicate(1, 10)
    replicas.request(1, update_metadata(live=(0, 1, 2)))
    replicas.withholds = None
    replicas.pass_time(700)
    assert replicas.ends() == [(10, 10), (10, 10), (10, 0)]
    replicas.request(1, update_metadata())
    replicas.settle()
    assert replicas.ends() == [(10, 10)] * 3


def test_a_high_watermark_whose_message_was_lost_is_requested(replicas: Replicas) -> None:
    def tells_high_watermark(message: Message) -> bool:
        body = message.body
        return (
            isinstance(body, FetchResponse)
            and message.destination.id == 2
            and any(answer.high_watermark == 10 for answer in body.partitions.values())
        )

    replicas.withholds = tells_high_watermark
    replicas.replicate(1, 10)
    replicas.withholds = None
    replicas.pass_time(400)
    assert replicas.ends() == [(10, 10), (10, 0), (10, 10)]
    replicas.pass_time(200)
    assert replicas.ends() == [(10, 10)] * 3
    sent = len(replicas.sent)
    replicas.pass_time(60_000)
    assert len(replicas.sent) == sent


def test_a_repeated_fetch_gets_the_records_of_the_lost_response() -> None:
    remote = RemoteReplica(2, 0.0, log_end_offset=5, sent_high_watermark=5)
    asked = FetchPartition(10, 3, 3)
    remote.record_fetch(asked, 10, 1.0)
    assert remote.sent_high_watermark == 5
    remote.record_fetch(asked, 10, 2.0)
    assert remote.sent_high_watermark == 0


def test_a_follower_starts_its_log_at_the_log_start_of_the_leader(replicas: Replicas) -> None:
    replicas.lost = (3,)
    replicas.replicate(1, 10, acks=1)
    log = replicas.replica(1).log
    assert log is not None
    log.increment_log_start_offset(6)
    replicas.lost = ()
    replicas.pass_time(500)
    third = replicas.replica(3).log
    assert third is not None
    assert (third.log_start_offset, third.log_end_offset) == (6, 10)
    assert replicas.ends() == [(10, 10)] * 3


def test_an_unsolicited_response_of_another_epoch_is_ignored(replicas: Replicas) -> None:
    replicas.replicate(1, 10)
    replicas.lost = (3,)
    replicas.produce(1, 5, acks=1)
    late = [m for m in replicas.sent if isinstance(m.body, FetchResponse)][-1]
    replicas.lost = (1,)
    replicas.lead(2, 4, (2, 3), told=(2, 3))
    replicas.brokers[3].receive(
        Message(late.source, replicas.brokers[3].address, late.correlation_id, late.body)
    )
    replicas.settle()
    assert replicas.epochs(3) == replicas.epochs(2)
    assert replicas.replica(3).leader_epoch == 4
    assert T0 in replicas.brokers[3].replica_manager.partitions
