"""What the benchmark makes of its figures, in which order it runs, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from bench.figures import KAFKA, KLAMM, RAW_STORE, Layout, Verdict, busy_share, verdicts
from bench.kafka.scenarios import topics
from bench.klamm_applied import what_is_not_applied
from bench.klamm_traffic import Traffic
from bench.parts import GROWING, PARTS, steps_for
from bench.raw_store import grouped, state_of
from bench.report import tables
from bench.run import Run, main, plan
from klamm.brokers.broker import KafkaServer
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    Address,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    Request,
    Response,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.fenced_writes import GROUP_SIZE
from klamm.zk.request_size import GROUP_BYTES, op_size
from klamm.zk.store import Create
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.sim.worlds import create_topic, three_brokers

SMALL, LARGE = Layout(1_000, 100), Layout(10_000, 100)


def result(product: str, layout: Layout, step: str, **fields: Any) -> dict[str, Any]:
    """A result as a step gives it, as far as figures need it."""
    return {
        "product": product,
        "partitions": layout.partitions,
        "partitions_per_topic": layout.partitions_per_topic,
        "step": step,
        "run": 0,
        "n": layout.partitions,
        "wall_s": 1.0,
        "load_s": 1.0,
        "per_s": float(layout.partitions),
        "cpu_controller_s": 1.0,
        "cpu_zookeeper_s": 0.0,
        "zookeeper_packets": 7,
        "resident_controller_mb": 50,
        "store": {"events": 1, "read_batches": 2, "write_batches": 3, "store_requests": 9},
        **fields,
    }


def judged(*results: dict[str, Any]) -> list[tuple[str, float, bool]]:
    """Verdicts, rounded."""
    return [(v.what, round(v.value, 2), v.holds) for v in verdicts(results)]


def test_klamm_must_be_twice_as_fast_at_a_failover_and_half_as_fast_again_at_a_creation() -> None:
    found = judged(
        result(KLAMM, SMALL, "create", wall_s=1.0),
        result(KAFKA, SMALL, "create", wall_s=1.4),
        result(KLAMM, SMALL, "failover", load_s=0.5, wall_s=9.0),
        result(KAFKA, SMALL, "failover", load_s=1.0, wall_s=1.0),
        result(KLAMM, SMALL, "broker_failure", wall_s=1.0),
        result(KAFKA, SMALL, "broker_failure", wall_s=1.9),
    )
    assert found == [
        ("10 x 100, create: times as fast as Kafka", 1.4, False),
        ("10 x 100, failover: times as fast as Kafka", 2.0, True),
        ("10 x 100, broker_failure: times as fast as Kafka", 1.9, False),
    ]


def test_of_each_run_the_last_counts_and_of_the_runs_the_median() -> None:
    [(_, ratio, _)] = judged(
        result(KLAMM, SMALL, "failover", load_s=9.0),
        result(KLAMM, SMALL, "failover", load_s=1.0),
        result(KLAMM, SMALL, "failover", load_s=3.0, run=1),
        result(KLAMM, SMALL, "failover", load_s=2.0, run=2),
        result(KAFKA, SMALL, "failover", load_s=8.0, run=3),
        result(KAFKA, SMALL, "failover", load_s=6.0, run=3),
    )
    assert ratio == 3.0


def test_a_warm_up_is_no_figure() -> None:
    assert judged(result(KLAMM, SMALL, "create_cold"), result(KAFKA, SMALL, "create_cold")) == []


def test_ten_times_the_partitions_cost_at_most_thirteen_times_the_cpu() -> None:
    small = result(KLAMM, SMALL, "create", cpu_controller_s=0.1, cpu_zookeeper_s=0.1)
    fine = result(KLAMM, LARGE, "create", cpu_controller_s=2.0, cpu_zookeeper_s=0.6)
    dear = {**fine, "cpu_controller_s": 2.1}
    what = "100 x 100 to 10 x 100, create: times the CPU"
    alone = "100 x 100 to 10 x 100, create: times klamm's CPU"
    assert judged(small, fine) == [(what, 13.0, True), (alone, 20.0, False)]
    assert judged(small, dear) == [(what, 13.5, False), (alone, 21.0, False)]
    assert judged(small, {**dear, "partitions_per_topic": 1}) == []


@pytest.mark.parametrize(
    ("step", "ratio"),
    [
        ("controlled_shutdown", 2.0),
        ("preferred_election", 1.5),
        ("reassign_znode", 5.0),
        ("delete_topics", 3.0),
    ],
)
def test_each_step_is_judged_by_its_ratio_to_kafka(step: str, ratio: float) -> None:
    klamm = result(KLAMM, SMALL, step, n=500)
    fine = result(KAFKA, SMALL, step, n=500, wall_s=ratio)
    slow = result(KAFKA, SMALL, step, n=500, wall_s=ratio - 0.1)
    what = f"10 x 100, {step}: times as fast as Kafka"
    assert judged(klamm, fine) == [(what, ratio, True)]
    assert judged(klamm, slow) == [(what, round(ratio - 0.1, 2), False)]


def test_a_larger_reassignment_costs_no_more_a_partition_and_no_more_batches() -> None:
    def reassigned(n: int, seconds: float, batches: int) -> list[dict[str, Any]]:
        store = {"events": 1, "read_batches": batches, "write_batches": 4, "store_requests": 50}
        return [
            result(KLAMM, LARGE, "reassign_znode", n=n, wall_s=seconds),
            result(KLAMM, LARGE, "reassign_held", n=n, store=store),
            result(KLAMM, LARGE, "reassign_released", n=n, store=store),
        ]

    few = reassigned(1_000, 1.0, 1)
    name = "100 x 100, reassignment of 5,000 to one of 1,000"
    seconds, batches = f"{name}: times the seconds a partition", f"{name}: times the batches"
    assert judged(*few, *reassigned(5_000, 5.0, 2)) == [(seconds, 1.0, True), (batches, 1.2, True)]
    assert judged(*few, *reassigned(5_000, 6.0, 3)) == [
        (seconds, 1.2, False),
        (batches, 1.4, False),
    ]
    assert judged(*few) == []
    assert "| 100 x 100 | 1,000 | 2 | 10 | 100 | 0.1000 |" in tables(few)
    # Kafka moves the smaller number, so that is what it is compared by.
    kafka = result(KAFKA, LARGE, "reassign_znode", n=1_000, wall_s=7.0)
    assert judged(*few, *reassigned(5_000, 5.0, 1), kafka)[0][1] == 7.0


def test_bytes_of_a_partition_are_judged() -> None:
    memory = result(KLAMM, SMALL, "memory", brokers=5, context_bytes=1_501, klamm_bytes=3_000)
    assert judged(memory) == [
        ("context alone, bytes a partition", 1501, False),
        ("with 5 brokers' state, bytes a partition", 3000, True),
    ]


def test_the_tables_show_kafka_the_store_and_what_is_required() -> None:
    text = tables(
        [
            result(KLAMM, SMALL, "create", wall_s=0.5),
            result(KAFKA, SMALL, "create", wall_s=2.0, cpu_controller_s=3.0),
            result(RAW_STORE, SMALL, "create", per_s=4000.0),
        ]
    )
    assert "| 10 x 100 | create | 0.50 | 2.00 | 4.0 | 1.00 | 3.00 | 3.0 |" in text
    assert "| 10 x 100 | create | 2,000 | 4,000 | 50% |" in text
    assert "| 10 x 100 | create | 1,000 | 1 | 2 | 3 | 9 | 0.0090 | 7 | 7 | 50 |" in text
    assert "| 10 x 100, create: times as fast as Kafka | 4.0 | at least 1.50 | yes |" in text


def test_without_kafka_nothing_is_compared_with_it() -> None:
    text = tables([result(KLAMM, SMALL, "create")])
    assert "as fast as Kafka" not in text and "| klamm s |" not in text


def test_the_share_of_other_processes_in_the_cpu_is_measured() -> None:
    busy = result(KLAMM, SMALL, "create", cpu_window_s=2.0, cpu_others_s=1.0)
    idle = result(KLAMM, SMALL, "failover", cpu_window_s=2.0, cpu_others_s=0.0)
    assert busy_share([busy, idle, result(RAW_STORE, SMALL, "set")], 2) == 0.125
    assert busy_share([], 2) == 0.0


def test_a_verdict_is_on_the_right_side_of_its_limit() -> None:
    assert Verdict("", 2.0, 2.0, True).holds and not Verdict("", 1.9, 2.0, True).holds
    assert Verdict("", 2.0, 2.0, False).holds and not Verdict("", 2.1, 2.0, False).holds


def test_klamm_and_kafka_take_turns_and_only_compared_steps_are_repeated() -> None:
    single = Layout(1_000, 1)
    assert list(plan([SMALL, single], True, 2)) == [
        Run(KLAMM, SMALL, PARTS),
        Run(KAFKA, SMALL, PARTS),
        Run(KLAMM, single, GROWING),
        Run(KAFKA, single, GROWING),
        Run(KLAMM, SMALL, GROWING, is_first=False),
    ]
    assert list(plan([SMALL], False, 1)) == [Run(KLAMM, SMALL, PARTS)]
    assert list(plan([SMALL, single], False, 2, ("deletion",))) == [
        Run(KLAMM, SMALL, ("deletion",))
    ]
    assert list(plan([single], False, 1, ("deletion",))) == [Run(KLAMM, single, ("deletion",))]


def test_a_part_of_the_benchmark_runs_the_steps_that_it_needs() -> None:
    returns = ("controlled_shutdown", "broker_leaves", "broker_start", "isr_rejoin")
    cycle = (*returns, "preferred_election")
    assert steps_for(LARGE, KLAMM, ["election"]) == ("create:1000", *cycle, "create", *cycle)
    assert steps_for(LARGE, KAFKA, ["shutdown"]) == ("create:1000", *returns, "create", *returns)
    assert steps_for(SMALL, KAFKA, ["deletion"]) == ("create:100", "create", "delete_topics:5")
    assert steps_for(LARGE, KAFKA, ["reassignment"]) == (
        "create:1000",
        "create",
        "reassign_znode:100",
        "reassign_znode:1000",
    )
    assert steps_for(LARGE, KLAMM, ["reassignment"])[4:] == (
        "reassign_znode:5000",
        "reassign_held:1000",
        "reassign_released",
        "reassign_held:5000",
        "reassign_released",
    )
    assert set(steps_for(LARGE, KLAMM, ["reassignment"])) < set(steps_for(LARGE, KLAMM))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--partitions", "1050"], "1050 partitions are not ten or more topics of 100"),
        (["--partitions", "500"], "500 partitions are not ten or more topics of 100"),
        (
            ["--partitions", "5", "--partitions-per-topic", "0"],
            "5 partitions are not ten or more topics of 0",
        ),
        (["--partitions-per-topic", "1"], "--partitions-per-topic goes with --partitions"),
        (["--rounds", "0"], "--rounds is a number from 1"),
    ],
)
def test_a_benchmark_that_cannot_run_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {error}") and err.count("\n") == 1


def test_the_raw_store_writes_in_groups_as_large_as_klamms() -> None:
    small = [Create(f"/{number}", b"") for number in range(GROUP_SIZE + 1)]
    assert [len(group) for group in grouped(small)] == [GROUP_SIZE, 1]
    large = [Create(f"/{number}", bytes(GROUP_BYTES // 3)) for number in range(5)]
    groups = grouped(large)
    assert [op for group in groups for op in group] == large
    assert all(sum(map(op_size, group)) <= GROUP_BYTES for group in groups)


def test_the_raw_store_writes_the_states_that_a_controller_would() -> None:
    [topic] = topics(0, 1, 1, 5)
    state = TopicPartitionStateZNode.decode(state_of(topic.partitions[0]), 0)
    assert state is not None
    assert state.leader_and_isr.isr == topic.partitions[0].replicas
    assert state.leader_and_isr.leader == topic.partitions[0].replicas[0]


# What klamm's process counts

BROKER, CONTROLLER = Address("broker", 2), Address("controller", 1)
TP = TopicPartition("orders", 0)


def asked(number: int, body: Request) -> Message:
    """A request of the controller to broker 2."""
    return Message(CONTROLLER, BROKER, number, body)


def answered(number: int, body: Response) -> Message:
    """Broker 2's answer to it."""
    return Message(BROKER, CONTROLLER, number, body)


def test_a_request_counts_when_it_is_answered() -> None:
    traffic = Traffic()
    state = LeaderAndIsrPartitionState(TP, 1, 2, 0, (2,), 0, (2,))
    traffic.tap(asked(7, LeaderAndIsrRequest(1, 1, 1, [state], {}, ())))
    traffic.tap(asked(8, UpdateMetadataRequest(1, 1, 1, [], (), {})))
    assert traffic.counts()["LEADER_AND_ISR"]["requests"] == 0
    traffic.tap(answered(7, LeaderAndIsrResponse(Errors.NONE, {TP: Errors.NONE})))
    counted = traffic.counts()["LEADER_AND_ISR"]
    assert (counted["requests"], counted["partitions"]) == (1, 1)
    assert counted["last"] == counted["first"] > 0
    assert traffic.counts()["UPDATE_METADATA"]["requests"] == 0
    traffic.reset()
    assert traffic.counts()["LEADER_AND_ISR"]["requests"] == 0
    assert traffic.errors == []


def test_errors_of_brokers_are_counted_except_equal_epochs() -> None:
    traffic = Traffic()
    partitions = {TP: Errors.STALE_CONTROLLER_EPOCH}
    traffic.tap(answered(1, LeaderAndIsrResponse(Errors.NONE, partitions)))
    assert traffic.errors == []
    traffic.tap(answered(2, LeaderAndIsrResponse(Errors.NONE, {TP: Errors.KAFKA_STORAGE_ERROR})))
    traffic.tap(answered(3, UpdateMetadataResponse(Errors.STALE_BROKER_EPOCH)))
    traffic.tap(answered(4, StopReplicaResponse(Errors.NONE, {TP: Errors.FENCED_LEADER_EPOCH})))
    traffic.tap(answered(5, StopReplicaResponse(Errors.NONE, {TP: Errors.KAFKA_STORAGE_ERROR})))
    assert traffic.errors == [
        "broker-2: orders-0: KAFKA_STORAGE_ERROR",
        "broker-2: UpdateMetadataResponse: STALE_BROKER_EPOCH",
        "broker-2: orders-0: KAFKA_STORAGE_ERROR",
    ]


def brokers_of(world: SimulatedWorld) -> list[KafkaServer]:
    """The running brokers."""
    return [running.node.broker for running in world.nodes.values()]


def test_the_states_of_brokers_are_compared_with_zookeeper() -> None:
    world = three_brokers()
    create_topic(world, "orders", {0: (0, 1), 1: (1, 2)})
    world.run_for(1_000)
    store = world.open_store()
    found = what_is_not_applied(store, brokers_of(world))
    # Three caches and two replicas, for each of two partitions.
    assert found == {"applied": 10, "not_applied": 0, "not_applied_shown": ""}

    first, second, third = brokers_of(world)
    del first.replica_manager.partitions[TP]
    hosted = second.replica_manager.partitions[TP].state
    cached = third.metadata_cache.get(TP)
    assert hosted is not None and cached is not None
    second.replica_manager.partitions[TP].make_follower(
        LeaderAndIsrPartitionState(TP, 1, 1, 5, (1,), 9, hosted.replicas)
    )
    third.metadata_cache.__init__()  # type: ignore[misc]
    found = what_is_not_applied(store, brokers_of(world))
    assert (found["applied"], found["not_applied"]) == (6, 4)
    assert found["not_applied_shown"].startswith("broker 0: orders-0: hosted None, not (Leader:0,")


def test_partitions_that_a_leaving_broker_no_longer_follows_are_not_compared() -> None:
    world = three_brokers()
    create_topic(world, "orders", {0: (0, 1), 1: (1, 2)})
    world.run_for(1_000)
    leaving = world.nodes[1].node.broker
    leaving.begin_controlled_shutdown()
    world.run_for(1_000)
    assert leaving.controlled_shutdown.succeeded
    # Three caches, and the replicas of the two other brokers.
    found = what_is_not_applied(world.open_store(), brokers_of(world))
    assert (found["applied"], found["not_applied"]) == (8, 0)
    leaving.replica_manager.is_shutting_down = False
    assert what_is_not_applied(world.open_store(), brokers_of(world))["not_applied"] == 1
