"""What tests of failed log directories do in a simulated cluster, and what they look at."""

from __future__ import annotations

from typing import Any, Final

from cluster.quirks import Quirks
from cluster.requests import (
    Address,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    Message,
    Request,
    Response,
)
from cluster.types import TopicPartition
from runtime.simulated_world import SimulatedWorld
from statemachines.replica_state import ReplicaState
from tests.sim.worlds import active_controller, create_topic, three_brokers
from zk.kafka_zk_client import KafkaZkClient

CLIENT = Address("client", 0)
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


LOG_DIR_DRILLS: Final = {
    "hazard_c10": (second_directory_fails, "a lost replica is shown as online"),
}
