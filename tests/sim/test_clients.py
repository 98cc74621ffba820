"""Producers and consumers in a cluster that fails: what was acknowledged is read, and once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.clients import (
    DUPLICATE,
    INCONSISTENT_OFFSETS,
    LOST_WRITE,
    NONMONOTONIC_POLL,
    NONMONOTONIC_SEND,
    UNSEEN,
    check_clients,
)
from klamm.world.clients.batches import Counted
from klamm.world.clients.config import ConsumerConfig, ProducerConfig
from klamm.world.clients.consumer import Consumer
from klamm.world.clients.producer import Producer
from tests.sim.faults import cut_off, degraded, drawn_network
from tests.sim.replication import IDS, RECORD_BYTES, T0, Cluster
from tests.sim.snapshots import fingerprint
from tests.sim.worlds import create_topic, three_brokers

BATCH = 3
READER = Address("client", 11)


class Clients(Cluster):
    """A producer and a consumer of t-0, which has a replica on each of three brokers."""

    def __init__(
        self,
        producer: ProducerConfig | None = None,
        consumer: ConsumerConfig | None = None,
        **spec: Any,
    ) -> None:
        super().__init__(**spec)
        config = producer or ProducerConfig(acks=-1, enable_idempotence=True)
        self.producer = Producer(Address("client", 10), IDS, config)
        reads = consumer or ConsumerConfig(auto_offset_reset="earliest")
        self.consumer = Consumer(READER, IDS, reads)
        self.consumer.assign([T0])
        self.world.add_client(self.producer)
        self.world.add_client(self.consumer)

    def send(self, batches: int, every_ms: float = 20.0) -> None:
        """Give the producer batches, one after the other."""
        for _ in range(batches):
            payload = Counted(BATCH, BATCH * RECORD_BYTES)
            self.producer.send(T0, payload, self.world.clock.monotonic_ms())
            self.world.run_for(every_ms)

    def finish(self) -> None:
        """Wait until every record is decided and the consumer has read all that is committed."""
        assert self.world.run_until(self._is_done, timeout_ms=300_000), (
            self.producer.undecided_count
        )
        self.world.run_for(2_000)
        assert self.world.errors == []

    def _is_done(self) -> bool:
        return not self.producer.undecided_count

    @property
    def acknowledged_count(self) -> int:
        return sum(
            one.stretch.end - one.stretch.start for one in self.producer.acknowledged.get(T0, ())
        )

    @property
    def read_count(self) -> int:
        return sum(stretch.end - stretch.start for stretch in self.consumer.read.get(T0, ()))

    def kinds(self) -> list[str]:
        """What is wrong, by name."""
        return [finding.kind for finding in check_clients([self.producer], [self.consumer])]


def test_what_is_acknowledged_is_read_in_order_and_once() -> None:
    clients = Clients()
    clients.send(20)
    clients.finish()
    assert clients.kinds() == []
    assert clients.acknowledged_count == clients.read_count == 60
    assert clients.consumer.position(T0) == 60
    [mine], [read] = clients.producer.acknowledged[T0], clients.consumer.read[T0]
    assert mine.stretch == read and (mine.first_number, read.leader_epoch) == (0, 0)
    assert (clients.producer.failed, clients.producer.indefinite) == ({}, {})


@pytest.mark.parametrize("how", ["kill", "stop", "pause", "isolate"])
def test_a_leader_that_goes_takes_nothing_acknowledged_with_it(how: str) -> None:
    clients = Clients()
    world = clients.world
    clients.send(10)
    leader = clients.state().leader
    if how == "isolate":
        world.transport.faults = (cut_off(world, leader),)
    else:
        {"kill": world.kill, "stop": world.stop, "pause": world.pause}[how](leader)
    clients.send(10)
    if how == "isolate":
        world.run_for(10_000)
        world.transport.heal()
    clients.finish()
    assert clients.kinds() == []
    assert clients.acknowledged_count == clients.read_count == 60
    if how != "isolate":
        assert clients.state().leader != leader
        assert len(clients.consumer.read[T0]) == 2, "of two leader epochs"


def bad_network(seed: int, config: ProducerConfig) -> Clients:
    """Twenty batches over connections that break."""
    clients = Clients(config, seed=seed)
    clients.world.transport.faults = (degraded(loss=0.05),)
    clients.send(20)
    clients.world.transport.heal()
    clients.finish()
    return clients


def test_idempotence_stores_nothing_twice_where_connections_break_and_without_it_some_are() -> None:
    plain: list[str] = []
    for seed in range(8):
        idempotent = bad_network(seed, ProducerConfig(acks=-1, enable_idempotence=True))
        assert idempotent.kinds() == []
        assert idempotent.acknowledged_count == idempotent.read_count == 60
        plain += bad_network(seed, ProducerConfig(acks=-1)).kinds()
    assert DUPLICATE in plain, "the network was bad enough"
    assert not {LOST_WRITE, UNSEEN, INCONSISTENT_OFFSETS} & set(plain)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_brokers_nothing_acknowledged_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    clients = Clients(seed=seed, config={"min.insync.replicas": "2"})
    world = clients.world
    for _ in range(15):
        network = drawn_network(rng)
        world.transport.faults = (network, cut_off(world, *rng.choice(((), (), (0,), (1,), (2,)))))
        down = [broker_id for broker_id in IDS if broker_id not in world.nodes]
        match rng.choice(("start", "kill", "stop", "nothing")):
            case "start" if down:
                world.start(rng.choice(down))
            case "kill" if len(down) < 2:
                world.kill(rng.choice([b for b in IDS if b in world.nodes]))
            case "stop" if len(down) < 2:
                world.stop(rng.choice([b for b in IDS if b in world.nodes]))
        clients.send(5, every_ms=rng.choice((1.0, 50.0, 400.0)))
        world.run_for(rng.choice((0.0, 5_000.0, 40_000.0)))
    clients.heal()
    clients.finish()
    assert clients.kinds() == []
    sent = clients.producer.sent_count
    assert clients.acknowledged_count + unacknowledged(clients.producer) == sent == 225
    assert clients.acknowledged_count > 50


def unacknowledged(producer: Producer) -> int:
    kept = (*producer.failed.get(T0, ()), *producer.indefinite.get(T0, ()))
    return sum(one.record_count for one in kept)


def test_what_the_leader_alone_acknowledged_may_be_lost_and_that_is_found() -> None:
    clients = Clients(ProducerConfig(acks=1))
    world = clients.world
    clients.send(5)
    world.transport.faults = (cut_off(world, 0),)
    clients.send(5)
    assert clients.acknowledged_count == 30
    world.kill(0)
    world.transport.heal()
    world.run_for(10_000)
    clients.finish()
    assert clients.kinds() == [UNSEEN]
    clients.send(10)
    clients.finish()
    found = {INCONSISTENT_OFFSETS, NONMONOTONIC_SEND}
    assert set(clients.kinds()) == found, "others have their offsets"
    assert clients.acknowledged_count == 60 and clients.read_count == 45


def test_too_few_in_sync_refuse_until_the_delivery_times_out() -> None:
    config = ProducerConfig(acks=-1, request_timeout_ms=1_000, delivery_timeout_ms=5_000)
    clients = Clients(config, config={"min.insync.replicas": "2"})
    for broker_id in (1, 2):
        clients.world.stop(broker_id)
    clients.world.run_for(1_000)
    clients.send(1)
    clients.finish()
    [failed] = clients.producer.failed[T0]
    assert (failed.first_number, failed.record_count) == (0, BATCH)
    assert failed.error is Errors.NOT_ENOUGH_REPLICAS
    assert failed.text == "Expiring 3 record(s) for t-0:5000 ms has passed since batch creation"
    assert (clients.producer.indefinite, clients.read_count) == ({}, 0)
    clients.world.start(1)
    clients.send(1)
    clients.finish()
    assert clients.read_count == BATCH


def test_a_delivery_that_times_out_on_the_way_is_indefinite_and_idempotence_goes_on_after_it() -> (
    None
):
    config = ProducerConfig(
        acks=-1, enable_idempotence=True, request_timeout_ms=1_000, delivery_timeout_ms=3_000
    )
    clients = Clients(config)
    clients.send(2)
    clients.world.transport.faults = (cut_off(clients.world, 0),)
    clients.send(2)
    clients.finish()
    lost = clients.producer.indefinite[T0]
    assert [one.first_number for one in lost] == [6, 9] and T0 not in clients.producer.failed
    clients.world.transport.heal()
    clients.send(3)
    clients.finish()
    assert clients.kinds() == []
    assert clients.acknowledged_count == 15
    assert clients.read_count == 21, "what was given up was stored all the same, once"


def test_without_an_answer_nothing_is_known() -> None:
    clients = Clients(ProducerConfig(acks=0))
    clients.send(4)
    clients.finish()
    [*lost] = clients.producer.indefinite[T0]
    assert [(one.record_count, one.error) for one in lost] == [(BATCH, Errors.NONE)] * 4
    assert clients.read_count == 12 and clients.kinds() == []


def test_a_consumer_finds_that_the_log_was_cut_below_its_position() -> None:
    for reset, at in (("earliest", 30), ("none", None)):
        clients = Clients(
            consumer=ConsumerConfig(auto_offset_reset=reset),
            config={"unclean.leader.election.enable": "true"},
        )
        clients.consumer.seek(T0, 0)
        world = clients.world
        clients.send(5)
        for broker_id in (1, 2):
            world.stop(broker_id)
        world.run_for(1_000)
        clients.send(5)
        assert clients.read_count == 30
        world.kill(0)
        world.start(1)
        world.run_for(20_000)
        [cut] = clients.consumer.truncations
        assert (cut.position.offset, cut.diverged_at) == (30, 15)
        assert clients.consumer.position(T0) == (15 if at else None)
        assert bool(clients.consumer.errors) == (reset == "none")
        clients.send(5)
        clients.finish()
        found = {INCONSISTENT_OFFSETS, NONMONOTONIC_SEND}
        assert set(clients.kinds()) == (found | {NONMONOTONIC_POLL} if at else found)


def test_offsets_out_of_range_are_reset_as_wanted() -> None:
    for reset, position in (("earliest", 0), ("latest", 15), ("none", None)):
        clients = Clients(consumer=ConsumerConfig(auto_offset_reset=reset))
        clients.send(5)
        clients.consumer.seek(T0, 99)
        clients.world.run_for(1_000)
        if reset == "earliest":
            assert clients.read_count == 30, "all of it once more"
        elif position is None:
            text = (
                "Fetch position 99 is out of range for partition t-0: the log start offset is 0 "
                "and the high watermark is 15"
            )
            assert clients.consumer.errors == {T0: text}
        else:
            assert clients.consumer.position(T0) == position


def test_a_consumer_begins_at_its_start_position() -> None:
    clients = Clients(consumer=ConsumerConfig(auto_offset_reset="none"))
    world, consumer = clients.world, clients.consumer
    assert consumer.errors == {T0: "Undefined offset with no reset policy for partitions: [t-0]"}
    clients.send(5, every_ms=1_000)
    begun_ms = world.clock.now_ms()
    world.kill(clients.state().leader)
    world.run_for(10_000)
    clients.send(5)
    clients.finish()
    for seek, position in (
        (lambda: consumer.seek_to_beginning(T0), 0),
        (lambda: consumer.seek_to_end(T0), 30),
        (lambda: consumer.seek_to_time(T0, begun_ms), 15),
        (lambda: consumer.seek_to_time(T0, begun_ms + 3_600_000), 30),
        (lambda: consumer.seek(T0, 4), 4),
    ):
        consumer.is_paused = True
        seek()
        world.run_for(500)
        assert consumer.position(T0) == position
    consumer.is_paused = False
    world.run_for(500)
    assert [stretch.start for stretch in consumer.read[T0]] == [4, 15]


def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    world = three_brokers()
    producer = Producer(Address("client", 10), IDS, ProducerConfig(acks=-1))
    world.add_client(producer)
    producer.send(T0, Counted(1, 100), world.clock.monotonic_ms())
    world.run_for(3_000)
    assert producer.undecided_count == 1
    assert producer.network.metadata.topic_errors == {"t": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    create_topic(world, "t", {0: IDS})
    assert world.run_until(lambda: not producer.undecided_count)
    assert [one.stretch.end for one in producer.acknowledged[T0]] == [1]


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_topic_that_cannot_be_ends_what_clients_want_of_it(idempotent: bool) -> None:
    world = three_brokers()
    create_topic(world, "t", {0: IDS})
    config = ProducerConfig(acks=-1, enable_idempotence=idempotent)
    producer, consumer = Producer(Address("client", 10), IDS, config), Consumer(READER, IDS)
    bad = TopicPartition("a b", 0)
    consumer.assign([bad, T0])
    world.add_client(producer)
    world.add_client(consumer)
    for tp in (bad, T0):
        producer.send(tp, Counted(2, 200), world.clock.monotonic_ms())
    world.run_for(1_000)
    assert producer.undecided_count == 0 and list(producer.acknowledged) == [T0]
    [lost] = producer.failed[bad]
    assert (lost.record_count, lost.error) == (2, Errors.INVALID_TOPIC_EXCEPTION)
    assert consumer.errors == {bad: "Invalid topics: [a b]"}
    assert consumer.position(T0) == 2
    known = [client.network.metadata.update_count for client in (producer, consumer)]
    world.run_for(10_000)
    assert [client.network.metadata.update_count for client in (producer, consumer)] == known


def test_clients_that_have_nothing_to_do_have_no_timer_but_for_metadata() -> None:
    clients = Clients()
    clients.send(3)
    clients.consumer.is_paused = True
    clients.finish()
    now_ms = clients.world.clock.monotonic_ms()
    for client in (clients.producer, clients.consumer):
        due_ms = client.next_due_ms()
        assert due_ms is not None and due_ms - now_ms > 200_000


def test_the_same_seed_gives_the_same_end() -> None:
    def run() -> tuple[str, object]:
        clients = bad_network(5, ProducerConfig(acks=-1))
        return fingerprint(clients.world), clients.producer.acknowledged

    assert run() == run()
