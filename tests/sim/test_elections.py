"""Preferred leaders elected by znode: what is asked for is done once, and the znode goes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from klamm.cluster.quirks import Quirks
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.store import ReadOp, ReadResult, SetData, Transaction, TxnResult
from tests.sim.elections import (
    PREFERRED_PATH,
    T0,
    T1,
    U0,
    ask_for_preferred,
    assert_in_agreement,
    depose,
    leaders,
    leaders_moved_away,
    put_request,
    request_is_there,
)
from tests.sim.worlds import active_controller, create_topic, state_of

ALL = (T0, T1, U0)


def test_what_is_asked_for_is_elected_and_nothing_else() -> None:
    world = leaders_moved_away()
    before = {tp: state_of(world, *tp) for tp in ALL}
    ask_for_preferred(world, T0, U0)
    world.run_for(1_000)
    assert leaders(world, ALL) == [1, 2, 1]
    for tp in (T0, U0):
        after = state_of(world, *tp)
        assert after.leader_epoch == before[tp].leader_epoch + 1
        assert after.isr == before[tp].isr
    assert state_of(world, *T1) == before[T1]
    assert not request_is_there(world)
    assert_in_agreement(world)


def test_a_second_request_is_seen() -> None:
    world = leaders_moved_away()
    for tp in ALL:
        ask_for_preferred(world, tp)
        world.run_for(1_000)
        assert leaders(world, [tp]) == [1]
        assert not request_is_there(world)
    assert_in_agreement(world)


@pytest.mark.parametrize("is_failover", [False, True])
def test_what_cannot_be_elected_is_passed_over(is_failover: bool) -> None:
    world = leaders_moved_away()
    create_topic(world, "none", {0: (7,)})
    world.run_for(1_000)
    if is_failover:
        depose(world)
    ask_for_preferred(world, TopicPartition("no", 0), TopicPartition("none", 0), T1)
    world.run_for(1_000)
    assert leaders(world, ALL) == [0, 1, 2]
    assert not request_is_there(world)
    assert_in_agreement(world)


def test_a_dead_preferred_leader_is_not_elected() -> None:
    world = leaders_moved_away()
    world.stop(1)
    world.run_for(1_000)
    before = state_of(world, *T1)
    ask_for_preferred(world, T1)
    world.run_for(1_000)
    assert state_of(world, *T1) == before
    assert not request_is_there(world)
    failed = [row for row in world.journal.rows if row.kind == "partition_failed"]
    assert [(row.topic, row.partition) for row in failed] == [T1]


def test_a_request_found_at_a_failover_is_carried_out() -> None:
    world = leaders_moved_away()
    depose(world)
    ask_for_preferred(world, *ALL)
    world.run_for(2_000)
    assert leaders(world, ALL) == [1, 1, 1]
    assert not request_is_there(world)
    assert_in_agreement(world)


@pytest.mark.parametrize("is_failover", [False, True])
@pytest.mark.parametrize("data", [b"no json", b"", None, b"{}", b'{"partitions": [{"topic": 1}]}'])
def test_a_request_that_cannot_be_read_is_taken_away(data: bytes | None, is_failover: bool) -> None:
    world = leaders_moved_away()
    if is_failover:
        depose(world)
    put_request(world, data)
    world.run_for(1_000)
    assert not request_is_there(world)
    assert active_controller(world).malformed == {}
    malformed = [row.detail for row in world.journal.rows if row.kind == "znode_malformed"]
    assert malformed == [PREFERRED_PATH]
    ask_for_preferred(world, T0)
    world.run_for(1_000)
    assert leaders(world, ALL) == [1, 2, 2]
    assert_in_agreement(world)


@pytest.mark.parametrize(("data", "stays"), [(b"no json", False), (b"{}", True)])
def test_with_quirk_c2_what_kafka_cannot_decode_stays(data: bytes, stays: bool) -> None:
    world = leaders_moved_away(quirks=Quirks(malformed_znode_fails_the_event=True))
    put_request(world, data)
    world.run_for(1_000)
    assert request_is_there(world) == stays


def test_a_request_that_changes_while_it_is_carried_out_is_read_again() -> None:
    world = leaders_moved_away()
    store = world.open_store()
    session_id = world.nodes[0].store.session_id

    def after_op(who: int, op: ReadOp | Transaction, _: ReadResult | TxnResult) -> None:
        is_state = isinstance(op, list | tuple) and op[-1].path.endswith("/state")
        if who == session_id and is_state:
            world.server.after_op = None
            changed = b'{"version":1,"partitions":[{"topic":"u","partition":0}]}'
            store.write([[SetData(PREFERRED_PATH, changed)]])

    world.server.after_op = after_op
    ask_for_preferred(world, T0)
    world.run_for(1_000)
    assert world.server.after_op is None
    assert leaders(world, ALL) == [1, 2, 1]
    assert not request_is_there(world)


def rebalancing(**config: str) -> SimulatedWorld:
    """``leaders_moved_away`` with a rebalance every 20 s; the first, after 5 s, is over."""
    interval = {"leader.imbalance.check.interval.seconds": "20"}
    world = leaders_moved_away(config={**interval, **config})
    assert leaders(world, ALL) == [0, 2, 2]
    return world


def test_leaders_are_rebalanced_at_every_interval() -> None:
    world = rebalancing()
    for _ in range(2):
        world.run_for(21_000)
        assert leaders(world, ALL) == [1, 1, 1]
        world.stop(1)
        world.run_for(500)
        world.start(1)
        world.run_for(2_000)
        assert 1 not in leaders(world, ALL)
    assert_in_agreement(world)


def test_leaders_are_rebalanced_five_seconds_after_a_failover() -> None:
    world = rebalancing(**{"leader.imbalance.check.interval.seconds": "300"})
    depose(world)
    world.run_for(4_500)
    assert leaders(world, ALL) == [0, 2, 2]
    world.run_for(1_000)
    assert leaders(world, ALL) == [1, 1, 1]
    assert_in_agreement(world)


def test_a_small_imbalance_is_left_alone() -> None:
    world = rebalancing(**{"leader.imbalance.per.broker.percentage": "67"})
    ask_for_preferred(world, T0)
    world.run_for(25_000)
    assert leaders(world, ALL) == [1, 2, 2]
    depose(world)
    world.run_for(6_000)
    assert leaders(world, ALL) == [1, 2, 2]


def test_who_cannot_lead_is_not_tried() -> None:
    world = rebalancing()
    world.stop(1)
    world.run_for(45_000)
    assert leaders(world, ALL) == [0, 2, 2]
    assert [row for row in world.journal.rows if row.kind == "partition_failed"] == []
    assert_in_agreement(world)


def test_a_deposed_controller_rebalances_no_more() -> None:
    world = rebalancing()
    depose(world)
    world.run_for(60_000)
    epochs = [
        row.epoch
        for row in world.journal.rows
        if row.kind == "event" and row.detail == "AutoPreferredReplicaLeaderElection"
    ]
    assert epochs[-3:] == [2, 2, 2]
    assert epochs.count(1) == 1


def test_a_controller_elected_again_rebalances_once_at_every_interval() -> None:
    interval = {"leader.imbalance.check.interval.seconds": "20"}
    world = leaders_moved_away(config=interval, candidates=(0,))
    depose(world)
    world.run_for(50_000)
    times_ms = [
        row.t_ms
        for row in world.journal.rows
        if row.kind == "event"
        and row.epoch == 2
        and row.detail == "AutoPreferredReplicaLeaderElection"
    ]
    assert [later - earlier for earlier, later in pairwise(times_ms)] == [20_000, 20_000]


def test_an_imbalance_of_exactly_the_limit_is_left_alone() -> None:
    config = {
        "leader.imbalance.check.interval.seconds": "20",
        "leader.imbalance.per.broker.percentage": "100",
    }
    world = leaders_moved_away(config=config)
    world.run_for(25_000)
    assert leaders(world, (T0, T1, U0)) == [0, 2, 2]
