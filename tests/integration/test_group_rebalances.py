"""Consumer groups of each client library that rebalance while brokers and controllers fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.lab.actions.actions import Kill, MoveController, Start
from klamm.server.cluster_server import ClusterServer
from tests.group_members import (
    PATIENCE_S,
    AiokafkaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
    Member,
    Polling,
)
from tests.java_clients import java_params
from tests.listeners import BROKERS, bootstrap, config_of, coordinator, free_ports
from tests.waiting import wait_until

PARTITIONS = {0: (1, 2, 0), 1: (2, 0, 1), 2: (0, 1, 2), 3: (1, 0, 2), 4: (2, 1, 0), 5: (0, 2, 1)}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Load(threading.Thread):
    """Produces records one after the other until it is ended; ``acknowledged`` are their values."""

    def __init__(self, servers: list[str]) -> None:
        super().__init__(name="load")
        self.acknowledged: set[bytes] = set()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": ",".join(servers), "enable.idempotence": True, "log_level": 0}
        )
        self._ends = threading.Event()
        self.start()

    def run(self) -> None:
        number = 0
        while not self._ends.wait(0.005):
            partition = number % len(PARTITIONS)
            self._producer.produce(
                "t", b"%d" % number, partition=partition, on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: object, record: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged.add(record.value())

    def end(self) -> set[bytes]:
        """Wait for the records that were sent, and return those that were acknowledged."""
        self._ends.set()
        self.join(2 * PATIENCE_S)
        return self.acknowledged


@pytest.fixture
def server(has_segments: bool, chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    config = config_of(
        chroot,
        tmp_path,
        str(free_ports(BROKERS)),
        has_segments=has_segments,
        config={"group.initial.rebalance.delay.ms": "0"},
    )
    with ClusterServer(config) as opened:
        topic = CreatableTopic("t", assignments=PARTITIONS)
        opened.admin.create_topics(CreateTopicsRequest((topic,), 10_000))
        yield opened


def share(members: list[Polling]) -> bool:
    """Whether each partition is owned by exactly one of the members, and each owns some."""
    failed = [member.error for member in members if member.error is not None]
    assert not failed, failed
    owned = [partition for member in members for partition in member.assigned]
    return sorted(owned) == sorted(PARTITIONS) and all(member.assigned for member in members)


def await_rebalance(members: list[Polling]) -> None:
    """Wait until the members share the partitions."""
    wait_until(
        lambda: share(members),
        PATIENCE_S,
        f"{[member.assigned for member in members]} become shares",
    )


@pytest.mark.client(
    shows="a group whose members join and leave while records are produced, its coordinator and "
    "another broker are killed, and the controller moves; every acknowledged record is read"
)
@pytest.mark.parametrize(
    "new_member",
    [
        pytest.param(LibrdkafkaMember, marks=pytest.mark.client("confluent-kafka")),
        pytest.param(KafkaPythonMember, marks=pytest.mark.client("kafka-python")),
        pytest.param(AiokafkaMember, marks=pytest.mark.client("aiokafka")),
        *java_params(lambda client: (client.member,)),
    ],
)
def test_a_group_rebalances_and_reads_everything_while_leaders_die_and_the_controller_moves(
    server: ClusterServer, new_member: Callable[[list[str]], Member]
) -> None:
    servers = bootstrap(server)
    load = Load(servers)
    members: list[Polling] = []
    left: list[Polling] = []
    try:
        for _ in range(2):
            members.append(Polling(new_member, servers))
            await_rebalance(members)
        dead = coordinator(server, 0)
        server.operations.perform(Kill(dead))
        members.append(Polling(new_member, servers))
        await_rebalance(members)
        server.operations.perform(MoveController())
        left.append(members.pop(0))
        left[0].leave()
        await_rebalance(members)
        server.operations.perform(Start(dead))
        # A leader of two partitions, which may be the controller too.
        next_dead = (dead + 1) % BROKERS
        server.operations.perform(Kill(next_dead))
        members.append(Polling(new_member, servers))
        await_rebalance(members)
        server.operations.perform(Start(next_dead))
        acknowledged = load.end()
        wait_until(
            lambda: acknowledged <= {v for one in (*members, *left) for v in one.values},
            PATIENCE_S,
            "every acknowledged record is read",
        )
        await_rebalance(members)
        assert acknowledged
    finally:
        load.end()
        for member in members:
            member.leave()
