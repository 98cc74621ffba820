"""bench/chaos_judge.py: every kind of planted fault is found, and nothing else."""

from __future__ import annotations

import pytest

from bench.chaos_judge import (
    Disturbance,
    Epoch,
    Holder,
    Judge,
    Overlap,
    State,
    Sweep,
    Topic,
    growth_of,
    unexplained,
    what_is_not_converged,
)

TP = ("t", 0)
HOLDER = Holder(broker=1, session=0x11, czxid=5)
EPOCH = Epoch(epoch=3, version=3, mzxid=10)
TOPIC = Topic({0: (1, 2, 3)}, {}, {}, mzxid=8)
STATE = State(
    leader=1, isr=(1, 2), leader_epoch=4, controller_epoch=3, version=6, mzxid=20, czxid=9
)


def sweep(
    state: State = STATE,
    *,
    epoch: Epoch = EPOCH,
    holder: Holder | None = HOLDER,
    holder_after: Holder | None = HOLDER,
    brokers: dict[int, int] | None = None,
    topic: Topic = TOPIC,
    mzxid_after: int = 8,
) -> Sweep:
    return Sweep(
        epoch_before=epoch,
        holder_before=holder,
        brokers={1: 0x11, 2: 0x12, 3: 0x13} if brokers is None else brokers,
        topics_before={"t": topic},
        states={TP: state},
        mzxids_after={"t": mzxid_after},
        holder_after=holder_after,
        epoch_after=epoch,
    )


def kinds(*sweeps: Sweep) -> list[str]:
    judge = Judge()
    for one in sweeps:
        judge.judge(one)
    return list(judge.counts)


def test_a_cluster_in_order_has_no_violations() -> None:
    later = STATE._replace(leader=2, isr=(2, 1), leader_epoch=5, version=7, mzxid=21)
    leaderless = later._replace(leader=-1, leader_epoch=6, version=8, mzxid=22)
    assert kinds(sweep(), sweep(), sweep(later), sweep(leaderless)) == []


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (STATE._replace(leader=3), "leader outside the ISR"),
        (STATE._replace(leader=-1, isr=()), "empty ISR"),
        (STATE._replace(isr=(1, 1)), "a broker twice in the ISR"),
        (STATE._replace(isr=(1, 9)), "ISR outside the replicas"),
        (STATE._replace(controller_epoch=2), "written by a deposed controller"),
    ],
)
def test_a_bad_state_is_found(state: State, kind: str) -> None:
    assert kinds(sweep(state)) == [kind]


@pytest.mark.parametrize(
    ("then", "kind"),
    [
        (STATE._replace(leader=2, version=7, mzxid=21), "two leaders in one leader epoch"),
        (STATE._replace(leader_epoch=3, version=7, mzxid=21), "leader epoch went back"),
        (STATE._replace(version=5), "a state's version went back"),
        (STATE._replace(isr=(1,)), "a state changed without a new version"),
    ],
)
def test_a_bad_change_is_found(then: State, kind: str) -> None:
    assert kinds(sweep(), sweep(then)) == [kind]


def test_a_topic_created_again_begins_anew() -> None:
    again = State(2, (2,), 0, 3, 0, 30, czxid=30)
    assert kinds(sweep(), sweep(again)) == []


def test_replicas_that_changed_meanwhile_are_not_compared() -> None:
    moved = STATE._replace(isr=(1, 9))
    assert kinds(sweep(moved, mzxid_after=19)) == []


def test_a_replica_that_is_being_added_may_be_in_the_isr() -> None:
    topic = TOPIC._replace(adding={0: (9,)})
    assert kinds(sweep(STATE._replace(isr=(1, 9)), topic=topic)) == []


def test_a_replica_that_a_cancelled_reassignment_added_may_stay_until_the_isr_is_written() -> None:
    adding = TOPIC._replace(adding={0: (9,)})
    cancelled = TOPIC._replace(mzxid=25)
    in_isr = STATE._replace(isr=(1, 9))
    assert kinds(sweep(in_isr, topic=cancelled, mzxid_after=25)) == []
    # Its leader writes the ISR in between, for another reason.
    shrunk = in_isr._replace(version=7, mzxid=26)
    judged = kinds(sweep(in_isr, topic=adding), sweep(shrunk, topic=cancelled, mzxid_after=25))
    assert judged == []
    entered = STATE._replace(isr=(1, 9), version=7, mzxid=26)
    assert kinds(sweep(), sweep(entered, topic=cancelled, mzxid_after=25)) == [
        "ISR outside the replicas"
    ]


def test_a_controller_epoch_that_went_back_is_found() -> None:
    back = Epoch(epoch=2, version=4, mzxid=15)
    assert kinds(sweep(), sweep(epoch=back))[0] == "controller epoch went back"


def test_a_write_of_a_deposed_controller_is_found_by_its_zxid() -> None:
    new_epoch = Epoch(epoch=4, version=4, mzxid=25)
    late = STATE._replace(version=7, mzxid=26)
    in_time = STATE._replace(version=7, mzxid=24)
    assert kinds(sweep(), sweep(late, epoch=new_epoch)) == ["written by a deposed controller"]
    assert kinds(sweep(), sweep(in_time, epoch=new_epoch)) == []


def test_epochs_that_were_not_read_are_no_violation() -> None:
    new_epoch = Epoch(epoch=6, version=6, mzxid=25)
    between = STATE._replace(controller_epoch=5, version=7, mzxid=24)
    assert kinds(sweep(), sweep(between, epoch=new_epoch)) == []


def test_a_dead_holder_of_the_controller_is_found() -> None:
    found = kinds(sweep(brokers={2: 0x12, 3: 0x13}))
    assert found == ["/controller is held by a dead broker"]
    assert kinds(sweep(brokers={1: 0x99})) == ["/controller is held by an old session"]


def test_servers_of_an_ensemble_may_close_a_session_after_its_broker_has_a_new_one() -> None:
    moved, replaced = sweep(brokers={1: 0x99}), sweep(brokers={2: 0x12, 3: 0x13})
    judge = Judge(patience=2)
    for one in (moved, replaced, sweep(), moved, moved):
        judge.judge(one)
    assert judge.violations == []
    judge.judge(moved)
    assert list(judge.counts) == ["/controller is held by an old session"]


def test_a_controller_that_changed_meanwhile_is_not_judged() -> None:
    other = Holder(broker=2, session=0x12, czxid=30)
    assert kinds(sweep(brokers={2: 0x12}, holder_after=other)) == []


def test_a_fault_is_reported_once() -> None:
    judge = Judge()
    assert len(judge.judge(sweep(STATE._replace(isr=(1, 9))))) == 1
    assert judge.judge(sweep(STATE._replace(isr=(1, 9)))) == []


def test_what_is_not_converged() -> None:
    whole = sweep(STATE._replace(isr=(1, 2, 3)))
    assert what_is_not_converged(whole, [1, 2, 3]) == []
    left = what_is_not_converged(
        sweep(holder_after=None, topic=TOPIC._replace(adding={0: (3,)})), [1, 2, 3, 4]
    )
    assert left == [
        "broker 4 is not registered",
        "there is no controller",
        "t is being reassigned",
        "t-0: ISR (1, 2) of replicas (1, 2, 3)",
    ]


def test_two_active_controllers_are_matched_with_pauses() -> None:
    overlap = Overlap(broker=1, epoch=3, from_s=100.0, to_s=120.0)
    own = Disturbance("paused", 1, 95.0, 115.0)
    other = Disturbance("paused", 2, 95.0, 115.0)
    everybody = Disturbance("ZooKeeper paused", None, 95.0, 115.0)
    assert unexplained(overlap, [own], 8.0) is None
    assert unexplained(overlap, [everybody], 8.0) is None
    assert unexplained(overlap, [other], 8.0) == "nothing had disturbed it"
    assert unexplained(overlap._replace(to_s=130.0), [own], 8.0) is not None
    assert unexplained(overlap._replace(to_s=101.0), [], 8.0) is None


def test_counters_are_distinguished_from_gauges() -> None:
    flat = growth_of([(t, 50.0 + t % 7) for t in range(100)], least_bound=5.0)
    leak = growth_of([(t, 50.0 + t / 2) for t in range(100)], least_bound=5.0)
    assert flat is not None and flat.is_flat
    assert leak is not None and not leak.is_flat
    assert leak.per_hour == pytest.approx(1800.0)
    assert growth_of([(0.0, 1.0)], least_bound=5.0) is None
