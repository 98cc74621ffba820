"""What tests of log directories do in a simulated cluster, and what they look at."""

from __future__ import annotations

from typing import Any, Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest, ProduceResponse
from klamm.cluster.quirks import Quirks
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import (
    Address,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    Message,
    Request,
    Response,
)
from klamm.cluster.types import TopicPartition
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.held_followers import hold, release
from tests.sim.worlds import active_controller, create_topic, state_of, three_brokers

CLIENT = Address("client", 1)
DIRS = ("d0", "d1", "d2")
CONFIG = {"log.dirs": ",".join(DIRS), "auto.leader.rebalance.enable": "false"}
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def on_three_dirs(*replicas: int, **spec: Any) -> SimulatedWorld:
    """Brokers 0, 1 and 2; t has three partitions with these replicas, each of which is in d0, d1 or
    d2 according to its number on all of them."""
    world = three_brokers(**{"config": CONFIG, **spec})
    create_topic(world, "t", dict.fromkeys(range(3), replicas))
    world.run_for(3_000)
    for broker_id in replicas:
        assert [dir_of(world, broker_id, tp) for tp in (T0, T1, T2)] == list(DIRS)
    return world


def dir_of(world: SimulatedWorld, broker_id: int, partition: TopicPartition) -> str | None:
    """Where a broker has a replica; None if it has none that can be used."""
    return world.nodes[broker_id].node.broker.log_manager.dirs.path_of(partition)


def fail(world: SimulatedWorld, broker_id: int, *paths: str, within_ms: float = 5_000) -> None:
    """Let directories fail, one after the other."""
    for path in paths:
        world.fail_log_dir(broker_id, path)
        world.run_for(within_ms)


def notices(world: SimulatedWorld) -> list[str]:
    """What is in /log_dir_event_notification."""
    store = world.open_store()
    found = KafkaZkClient(store).get_children("/log_dir_event_notification")
    store.close()
    return found


def ask_broker(world: SimulatedWorld, broker_id: int, request: Request) -> Response:
    """Ask a broker as a client does."""
    answers: list[Response] = []
    world.transport.register(CLIENT, lambda message: answers.append(message.body))
    world.transport.send(Message(CLIENT, Address("broker", broker_id), 1, request))
    assert world.run_until(lambda: bool(answers))
    return answers[0]


def alter_dirs(world: SimulatedWorld, broker_id: int, **dirs: str) -> AlterReplicaLogDirsResponse:
    """Ask a broker to move partitions of t, by number (``p0``), to directories."""
    targets = {TopicPartition("t", int(name[1:])): path for name, path in dirs.items()}
    answer = ask_broker(world, broker_id, AlterReplicaLogDirsRequest(targets))
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    return answer


def described(world: SimulatedWorld, broker_id: int) -> DescribeLogDirsResponse:
    """What a broker says of all of its directories."""
    answer = ask_broker(world, broker_id, DescribeLogDirsRequest())
    assert isinstance(answer, DescribeLogDirsResponse)
    return answer


def second_directory_fails(quirks: Quirks) -> None:
    """Of a broker one directory fails, then another."""
    world = on_three_dirs(1, 0, quirks=quirks)
    fail(world, 1, "d0", "d1")
    states = active_controller(world).context.replica_states[1]
    shown = [states[tp] for tp in (T0, T1, T2)]
    assert shown == [ReplicaState.OFFLINE, ReplicaState.OFFLINE, ReplicaState.ONLINE], (
        "a lost replica is shown as online"
    )


def produce(world: SimulatedWorld, broker_id: int, count: int, partition: int = 0) -> None:
    """Have records of t acknowledged by all of its ISR."""
    batch = {TopicPartition("t", partition): CountedBatch(count, 100 * count)}
    answer = ask_broker(world, broker_id, ProduceRequest(-1, 60_000, batch))
    assert isinstance(answer, ProduceResponse)
    assert [found.error for found in answer.partitions.values()] == [Errors.NONE]


def make_preferred_leaders_lead(world: SimulatedWorld, *partitions: TopicPartition) -> None:
    """As kafka-preferred-replica-election does."""
    store = world.open_store()
    assert KafkaZkClient(store).create_preferred_replica_election(partitions)
    store.close()
    world.run_for(1_000)


def leader_epoch_begins_while_a_future_log_is_empty(quirks: Quirks) -> None:
    """A replica is to move; before the first chunk is copied a follower dies."""
    world = on_three_dirs(1, 2, quirks=quirks)
    produce(world, 1, 10)
    world.disks.slow(1, None, 1)
    alter_dirs(world, 1, p0="d2")
    world.kill(2)
    world.run_for(10_000)
    assert state_of(world, *T0).leader_epoch == 1
    world.disks.heal()
    world.run_for(60_000)
    assert dir_of(world, 1, T0) == "d2", "the replica never arrives"


def leader_moves_before_it_has_written(quirks: Quirks) -> None:
    """Two leaders follow each other and write nothing; the second one moves its log."""
    world = on_three_dirs(1, 2, quirks=quirks)
    produce(world, 1, 10)
    world.kill(1)
    world.run_for(10_000)
    world.start(1)
    world.run_for(20_000)
    assert sorted(state_of(world, *T0).isr) == [1, 2] and state_of(world, *T0).leader == 2
    hold(world, 2)
    make_preferred_leaders_lead(world, T0)
    alter_dirs(world, 1, p0="d2")
    world.run_for(1_000)
    assert (state_of(world, *T0).leader, dir_of(world, 1, T0)) == (1, "d2")
    release(world, 2)
    world.run_for(60_000)
    assert sorted(state_of(world, *T0).isr) == [1, 2], "the follower falls out of the ISR"


def last_follower_leaves_the_isr(quirks: Quirks) -> None:
    """A record waits for a follower that fetches no more, and for nobody once that is out."""
    world = on_three_dirs(1, 2, quirks=quirks)
    hold(world, 2)
    answers: list[Response] = []
    world.transport.register(CLIENT, lambda message: answers.append(message.body))
    body = ProduceRequest(-1, 300_000, {T0: CountedBatch(1, 100)})
    world.transport.send(Message(CLIENT, Address("broker", 1), 1, body))
    world.run_for(100_000)
    assert state_of(world, *T0).isr == (1,)
    assert answers, "a record that the whole ISR has is not acknowledged"


LOG_DIR_DRILLS: Final = {
    "log_dir_failure_revives_offline_replicas": (
        second_directory_fails,
        "a lost replica is shown as online",
    ),
    "kafka_9087": (leader_epoch_begins_while_a_future_log_is_empty, "the replica never arrives"),
    "kafka_13091": (
        last_follower_leaves_the_isr,
        "a record that the whole ISR has is not acknowledged",
    ),
    "kafka_15608": (leader_moves_before_it_has_written, "the follower falls out of the ISR"),
}
