"""A broker's registration in ZooKeeper, its configuration, and what it shows of itself."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.broker import KafkaServer
from klamm.brokers.config import broker_config
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.status import BrokerCounts, broker_counts
from klamm.cluster.errors import InvalidConfig, KlammError
from klamm.cluster.journal import Kind
from klamm.cluster.requests import Address, AlterIsrRequest
from klamm.world.journal.journal import MemoryJournal
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.store import Delete, Exists, ReadOp, ReadResult, StoreEvent, WatchEvent, WatchKind
from tests.unit.brokers.network import (
    T0,
    T1,
    TOPIC_ID,
    Network,
    cached,
    fetch_of,
    leader_and_isr,
    registered,
    state,
    update_metadata,
)
from tests.unit.brokers.replica_status import replica_status


def test_startup_makes_the_top_level_znodes_and_registers() -> None:
    network = Network()
    broker = network.add(1)
    epoch = broker.startup()
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    found = client.get_all_brokers_and_epochs_in_cluster().values
    assert {b: (r.broker, r.epoch) for b, r in found.items()} == {1: (broker.info, epoch)}
    assert broker.broker_epoch == epoch > 0
    assert client.path_exists("/admin/delete_topics")


def test_a_broker_watches_its_registration() -> None:
    network = Network()
    broker = network.add(1)
    broker.startup()
    events: list[StoreEvent] = []
    network.stores[1].add_listener(events.append)
    network.stores[1].write([[Delete("/brokers/ids/1")]])
    assert events == [WatchEvent(WatchKind.DELETED, "/brokers/ids/1")]


def test_a_broker_starts_with_its_dynamic_config() -> None:
    network = Network()
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    client.create_top_level_paths()
    client.set_or_create_entity_configs("brokers", "1", {"unclean.leader.election.enable": "true"})
    broker = network.add(1)
    assert not broker.dynamic_config_manager.config.unclean_leader_election_enable
    broker.startup()
    assert broker.dynamic_config_manager.config.unclean_leader_election_enable


def test_a_directory_that_is_unusable_at_the_start_is_not_reported(tmp_path: Path) -> None:
    network = Network()
    (tmp_path / "a").write_text("a file")
    config = broker_config({"log.dirs": "a,b"})
    broker = network.add(1, config, proposed_cluster_id="c", log_store=FileLogStore(tmp_path))
    broker.startup()
    assert broker.log_manager.dirs.offline == ("a",)
    network.pass_time(1)
    client = KafkaZkClient(network.stores[1])
    assert client.get_children("/log_dir_event_notification") == []
    broker.log_maintenance.shutdown()


def test_a_broker_that_is_registered_does_not_register_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    broker = network.add(1)
    broker.register_again()
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    client.create_top_level_paths()
    assert client.get_all_brokers_and_epochs_in_cluster().values == {}, "it never was registered"
    epoch = broker.startup()
    broker.register_again()
    assert broker.broker_epoch == epoch
    assert "registered again" not in caplog.text
    client.store.write([[Delete("/brokers/ids/1")]])
    broker.register_again()
    assert broker.broker_epoch > epoch


def test_a_second_registration_is_journalled_with_both_epochs() -> None:
    network, journal = Network(), MemoryJournal()
    store = MemoryStore(network.zookeeper, 6000)
    log_journal = LogJournal(journal, network.clock, "r")
    broker = KafkaServer(registered(1), store, network, network.clock, log_journal=log_journal)
    first = broker.startup()
    store.write([[Delete("/brokers/ids/1")]])
    broker.register_again()
    (row,) = journal.rows
    assert (row.kind, row.replica) == (Kind.BROKER_REGISTERED_AGAIN, 1)
    epochs = {"broker_epoch_before": first, "broker_epoch": broker.broker_epoch}
    assert json.loads(row.detail or "") == epochs


def test_the_first_broker_gives_the_cluster_its_id_and_the_others_take_it() -> None:
    network = Network()
    first, second = network.add(1, proposed_cluster_id="one"), network.add(2, None, -1, "two")
    assert first.cluster_id is None
    for broker in (first, second):
        broker.startup()
        assert broker.cluster_id == "one"
    store = MemoryStore(network.zookeeper, 6000)
    ids, path = store.read([Exists("/cluster/id"), Exists("/brokers/ids/1")])
    assert ids.stat is not None and path.stat is not None
    assert ids.stat.czxid < path.stat.czxid


def test_an_id_that_another_session_holds_is_refused_in_kafkas_words() -> None:
    network = Network()
    first = network.add(1).startup()
    with pytest.raises(KlammError, match="KeeperErrorCode = NodeExists for /brokers/ids/1"):
        network.add(1).startup()
    store = MemoryStore(network.zookeeper, 6000)
    (found,) = store.read([Exists("/brokers/ids/1")])
    assert found.stat is not None and found.stat.czxid == first


def test_after_an_expired_session_the_broker_registers_under_a_greater_epoch() -> None:
    network = Network()
    broker = network.add(1)
    first = broker.startup()
    network.zookeeper.expire_session(network.stores[1].session_id)
    broker.on_session_expired()
    assert broker.broker_epoch > first
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    assert client.get_sorted_broker_list() == [1]


def test_a_broker_that_was_not_registered_is_not_after_an_expired_session() -> None:
    network = Network()
    broker = network.add(1)
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    client.create_top_level_paths()
    network.zookeeper.expire_session(network.stores[1].session_id)
    broker.on_session_expired()
    assert client.get_sorted_broker_list() == []


class BatchesStore(MemoryStore):
    """Remembers its batches of reads of topic configs."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server, 6000)
        self.batches: list[list[str]] = []

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        found = [op.path for op in ops if op.path.startswith("/config/topics/")]
        if found:
            self.batches.append(found)
        return super().read(ops)


def test_a_broker_that_starts_again_reads_the_configs_of_its_logs_in_one_batch() -> None:
    network, disk = Network(), MemoryLogStore()
    first = network.add(1, log_store=disk)
    first.startup()
    request = leader_and_isr(state(), state(T1), broker_epoch=first.broker_epoch)
    network.request(1, request)
    first.log_maintenance.shutdown()
    client = KafkaZkClient(MemoryStore(network.zookeeper, 6000))
    client.delete("/brokers/ids/1")
    for topic in ("t", "u"):
        client.create(f"/brokers/topics/{topic}", b"{}")
    client.set_or_create_entity_configs("topics", "t", {"retention.ms": "7"})
    store = BatchesStore(network.zookeeper)
    again = KafkaServer(first.info, store, network, network.clock, log_store=disk)
    again.startup()
    assert store.batches == [["/config/topics/t", "/config/topics/u"]]
    logs = list(again.log_manager.logs())
    assert [log.config.retention_ms for log in logs] == [7, 7]


def test_configs_are_read_by_kafkas_names() -> None:
    properties = {
        "log.dirs": "a, b",
        "replica.fetch.backoff.ms": "10",
        "request.timeout.ms": "20",
        "replica.socket.timeout.ms": "30",
        "replica.fetch.wait.max.ms": "40",
        "num.partitions": "7",
    }
    assert broker_config(properties) == msgspec.structs.replace(
        broker_config({}),
        log_dirs=("a", "b"),
        replica_fetch_backoff_ms=10,
        request_timeout_ms=20,
        replica_socket_timeout_ms=30,
        replica_fetch_wait_max_ms=40,
    )
    assert broker_config({}).log_dirs == ("kafka-logs",)


@pytest.mark.parametrize(
    "properties",
    [
        {"replica.fetch.backoff.ms": "soon"},
        {"request.timeout.ms": "-1"},
        {"log.dirs": " , "},
        {"log.dirs": "a,b,a"},
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        broker_config(properties)


def leading_one_following_one() -> Network:
    network = Network()
    network.add(1, broker_epoch=50)
    network.request(1, update_metadata(cached(T0)))
    named = leader_and_isr(state(T0, isr=(1,)), state(T1, leader=2, isr=(2,)))
    network.request(1, named)
    network.request(1, named)
    network.request(1, fetch_of(2), Address("broker", 2))
    return network


def test_the_replicas_of_a_broker_are_counted() -> None:
    broker = leading_one_following_one().brokers[1]
    assert broker_counts(broker) == BrokerCounts(
        partitions=2, leaders=1, under_replicated=1, offline=0
    )


def test_a_replica_that_is_being_added_is_not_missed_in_the_isr() -> None:
    network = Network()
    network.add(1)
    network.request(1, update_metadata())
    named = msgspec.structs.replace(state(T0, replicas=(1, 2, 3)), adding_replicas=(3,))
    network.request(1, leader_and_isr(named, controller_epoch=6))
    broker = network.brokers[1]
    counts = broker_counts(broker)
    assert (counts.leaders, counts.under_replicated) == (1, 0)
    epoch = broker.replica_manager.controller_epoch
    assert epoch == 6, "of any request, not only of UpdateMetadata"


def test_the_status_of_a_replica_shows_its_role_and_directory() -> None:
    broker = leading_one_following_one().brokers[1]
    leader = replica_status(broker, T0)
    assert json.loads(json.dumps(leader)) == {
        "topic": "t",
        "partition": 0,
        "role": "leader",
        "leader": 1,
        "leader_epoch": 3,
        "isr": [1],
        "zk_version": 7,
        "pending_isr": [1, 2],
        "log_dir": "kafka-logs",
        "future_log_dir": None,
        "topic_id": TOPIC_ID,
    }
    follower = replica_status(broker, T1)
    assert follower is not None and (follower["role"], follower["leader"]) == ("follower", 2)
    assert replica_status(broker, T0._replace(partition=9)) is None
    broker.fail_log_dir("kafka-logs")
    offline = replica_status(broker, T0)
    assert offline is not None and offline["role"] == "offline"
    assert broker_counts(broker).offline == 2


def test_a_copy_of_a_cluster_is_independent() -> None:
    network = leading_one_following_one()
    twin = copy.deepcopy(network)
    twin.pass_time(30_000)
    asked = [m for m in twin.sent if isinstance(m.body, AlterIsrRequest)]
    assert len(asked) == 2 and len(network.alter_isr_requests()) == 1
    assert network.brokers[1].next_due_ms() == network.clock.time_ms + 30_000
