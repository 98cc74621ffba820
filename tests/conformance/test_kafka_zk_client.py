"""Kafka's znodes by name: what a starting broker makes, and reads that set bad znodes apart.

The same cases for the store in memory and for the one on a real ZooKeeper.
"""

from __future__ import annotations

import pytest

from klamm.cluster.errors import StoreError
from klamm.cluster.quirks import Quirks
from klamm.cluster.types import (
    Broker,
    EndPoint,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Create, GetData, SetData, Store, WatchEvent, WatchKind
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes import (
    BrokerInfo,
    ControllerZNode,
    MalformedZNode,
    TopicPartitionStateZNode,
)
from tests.conformance.factories import Events, StoreFactory, ok

NOW_MS = 1_700_000_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
# As the transaction log of a starting 2.8.2 broker shows them.
RECORDED_PATHS = (
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/config",
    "/config/changes",
    "/admin",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)


def info(broker_id: int, port: int = 9092) -> BrokerInfo:
    return BrokerInfo(Broker(broker_id, (EndPoint("h", port),), "r1"))


@pytest.fixture
def client(store: Store) -> KafkaZkClient:
    client = KafkaZkClient(store)
    client.create_top_level_paths()
    return client


def test_top_level_paths_are_made_as_a_broker_makes_them(
    store: Store, client: KafkaZkClient
) -> None:
    found = store.read([GetData(path) for path in RECORDED_PATHS])
    assert [result.data for result in found] == [None] * len(RECORDED_PATHS)
    stats = [result.stat for result in found if result.stat is not None]
    assert [stat.version for stat in stats] == [0] * len(RECORDED_PATHS)
    assert [stat.czxid for stat in stats] == sorted(stat.czxid for stat in stats)
    ok(store, SetData("/latest_producer_id_block", b"kept"))
    client.create_top_level_paths()
    again = [result.stat for result in store.read([GetData(path) for path in RECORDED_PATHS])]
    assert [s.czxid for s in again if s] == [s.czxid for s in stats]


def test_the_first_broker_names_the_cluster(client: KafkaZkClient) -> None:
    assert client.get_cluster_id() is None
    assert client.create_or_get_cluster_id("abc") == "abc"
    assert client.create_or_get_cluster_id("def") == "abc"
    assert client.get_cluster_id() == "abc"


def test_registration_is_made_null_and_set_in_one_transaction(
    store: Store, client: KafkaZkClient
) -> None:
    epoch = client.register_broker(info(3), NOW_MS)
    found = store.read([GetData("/brokers/ids/3")])[0]
    assert found.stat is not None
    assert (found.stat.version, found.stat.czxid, found.stat.mzxid) == (1, epoch, epoch)
    assert found.stat.ephemeral_owner == store.session_id
    assert client.get_broker(3) == info(3).broker
    assert client.get_broker(4) is None
    assert client.register_broker(info(3), NOW_MS) == epoch


def test_registration_of_a_taken_id_is_refused(store_factory: StoreFactory) -> None:
    first, second = (KafkaZkClient(store_factory.open()) for _ in range(2))
    first.create_top_level_paths()
    first.register_broker(info(1), NOW_MS)
    with pytest.raises(NodeExists, match="KeeperErrorCode = NodeExists for /brokers/ids/1"):
        second.register_broker(info(1), NOW_MS)


def test_registration_after_expiry_has_a_new_epoch(
    store_factory: StoreFactory, store: Store, client: KafkaZkClient
) -> None:
    epoch = client.register_broker(info(1), NOW_MS)
    store_factory.expire(store)
    store.reopen()
    assert client.register_broker(info(1), NOW_MS) > epoch


def test_registration_left_by_an_earlier_session_is_replaced(store_factory: StoreFactory) -> None:
    earlier, later = store_factory.open(), store_factory.open()
    client = KafkaZkClient(earlier)
    client.create_top_level_paths()
    epoch = client.register_broker(info(1), NOW_MS)
    client.store = later
    assert client.register_broker(info(1), NOW_MS) > epoch
    stat = later.read([GetData("/brokers/ids/1")])[0].stat
    assert stat is not None
    assert stat.ephemeral_owner == later.session_id


def test_malformed_registrations_are_set_apart(store: Store, client: KafkaZkClient) -> None:
    epoch = client.register_broker(info(2), NOW_MS)
    for name, data in (("1", b"{"), ("3", None), ("x", b"{}"), ("4", b'{"version":5}')):
        ok(store, Create(f"/brokers/ids/{name}", data))
    assert client.get_sorted_broker_list() == [1, 2, 3, 4]
    events = Events(store)
    found = client.get_all_brokers_and_epochs_in_cluster(watch=True)
    assert {i: (b.broker, b.epoch) for i, b in found.values.items()} == {2: (info(2).broker, epoch)}
    assert sorted(str(e.path) for e in found.malformed) == [
        "/brokers/ids/1",
        "/brokers/ids/3",
        "/brokers/ids/4",
        "/brokers/ids/x",
    ]
    ok(store, Create("/brokers/ids/5", None))
    assert events.watches() == [WatchEvent(WatchKind.CHILDREN_CHANGED, "/brokers/ids")]
    with pytest.raises(MalformedZNode):
        KafkaZkClient(
            store, Quirks(malformed_znode_fails_the_event=True)
        ).get_all_brokers_and_epochs_in_cluster()


def test_topics_and_their_ids(store: Store, client: KafkaZkClient) -> None:
    events = Events(store)
    assert client.get_all_topics_in_cluster(watch=True) == []
    topic_id = "P22SxLbARtavHwABAgMEBQ"
    assignment = {T0: ReplicaAssignment((1, 2)), T1: ReplicaAssignment((2, 3, 1), (3,), (1,))}
    assert client.create_topic_assignment("t", None, assignment)
    assert not client.create_topic_assignment("t", None, {})
    client.set_topic_assignment("t", topic_id, assignment)
    ok(store, Create("/brokers/topics/empty", b""), Create("/brokers/topics/text", b"not json"))
    ok(store, Create("/brokers/topics/null", None))
    assert client.get_all_topics_in_cluster() == ["empty", "null", "t", "text"]
    found = client.get_topic_assignments(["empty", "gone", "null", "t", "text"])
    assert found.values == {"t": TopicIdReplicaAssignment("t", topic_id, assignment)}
    assert found.missing == ["gone"]
    assert [e.path for e in found.malformed] == [
        "/brokers/topics/empty",
        "/brokers/topics/null",
        "/brokers/topics/text",
    ]
    assert client.get_topic_ids_for_topics(["t", "gone"]) == {"t": topic_id}
    assert events.watches() == [WatchEvent(WatchKind.CHILDREN_CHANGED, "/brokers/topics")]
    like_kafka = KafkaZkClient(store, Quirks(malformed_znode_fails_the_event=True))
    assert like_kafka.get_topic_assignments(["text"]).values["text"].assignment == {}
    with pytest.raises(MalformedZNode, match="/brokers/topics/empty"):
        like_kafka.get_topic_assignments(["empty"])


def test_partition_states(store: Store, client: KafkaZkClient) -> None:
    state = LeaderAndIsr(1, 4, (1, 2))
    tps = [TopicPartition("t", i) for i in range(5)]
    contents = {
        0: TopicPartitionStateZNode.encode(state, 7),
        1: b"junk",
        2: b'{"leader":1}',
        3: TopicPartitionStateZNode.encode(state, 8),
    }
    client.make_sure_persistent_paths_exist([f"/brokers/topics/t/partitions/{i}" for i in contents])
    ok(store, *(Create(TopicPartitionStateZNode.path(tps[i]), d) for i, d in contents.items()))
    ok(store, SetData(TopicPartitionStateZNode.path(tps[3]), contents[3]))
    found = client.get_partition_states(tps)
    assert found.values == {
        tps[0]: LeaderIsrAndControllerEpoch(state, 7),
        tps[3]: LeaderIsrAndControllerEpoch(state.with_zk_version(1), 8),
    }
    assert found.missing == [tps[4]]
    assert [e.path for e in found.malformed] == [TopicPartitionStateZNode.path(t) for t in tps[1:3]]
    like_kafka = KafkaZkClient(store, Quirks(malformed_znode_fails_the_event=True))
    assert like_kafka.get_partition_states(tps[:2]).missing == [tps[1]]


def test_the_controller_is_watched_even_when_absent(store: Store, client: KafkaZkClient) -> None:
    events = Events(store)
    assert client.get_controller_epoch() is None
    assert client.get_data_and_stat("/controller", watch=True) is None
    ok(store, Create("/controller", ControllerZNode.encode(5, NOW_MS), ephemeral=True))
    assert events.watches() == [WatchEvent(WatchKind.CREATED, "/controller")]
    assert client.get_controller_id() == 5


def test_configs_and_their_notices(client: KafkaZkClient) -> None:
    assert client.get_entity_configs("topics", "t") == {}
    client.set_or_create_entity_configs("topics", "t", {"retention.ms": "1"})
    client.set_or_create_entity_configs("topics", "t", {"retention.ms": "2"})
    assert client.get_entity_configs("topics", "t") == {"retention.ms": "2"}
    found = client.get_topic_configs(["t", "u"])
    assert (found.values, found.missing) == ({"t": {"retention.ms": "2"}}, ["u"])
    assert client.get_all_entities_with_config("topics") == ["t"]
    client.create_config_change_notification("topics/t")
    assert client.get_children("/config/changes") == ["config_change_0000000000"]
    notification = client.get_data_and_stat("/config/changes/config_change_0000000000")
    assert notification is not None
    assert notification[0] == b'{"version":2,"entity_path":"topics/t"}'


def test_requests_of_tools_and_notices_of_brokers(client: KafkaZkClient) -> None:
    assert client.create_delete_topic_path("t")
    assert not client.create_delete_topic_path("t")
    assert client.get_topic_deletions() == ["t"]
    assert client.get_partition_reassignment() == {}
    assert client.create_partition_reassignment({T0: (1, 2)})
    assert client.get_partition_reassignment() == {T0: (1, 2)}
    assert client.reassign_partitions_in_progress()
    assert client.create_preferred_replica_election([T1, T0])
    assert client.get_preferred_replica_election() == [T1, T0]
    client.propagate_isr_changes([T0])
    client.propagate_isr_changes([T1, T0])
    numbers = ["0000000000", "0000000001"]
    names = client.get_children("/isr_change_notification")
    assert names == [f"isr_change_{number}" for number in numbers]
    isr_changes = client.get_partitions_from_isr_change_notifications([*numbers, "0000000009"])
    assert isr_changes.values == {numbers[0]: [T0], numbers[1]: [T1, T0]}
    assert isr_changes.missing == ["0000000009"]
    client.propagate_log_dir_event(4)
    assert client.get_children("/log_dir_event_notification") == ["log_dir_event_0000000000"]
    assert client.get_broker_ids_from_log_dir_events(numbers[:1]).values == {numbers[0]: 4}


def test_deleting_a_tree(store: Store, client: KafkaZkClient) -> None:
    client.make_sure_persistent_paths_exist(["/brokers/topics/t/partitions/0/state"])
    for path, version, code in (
        ("/brokers/topics/t", -1, "Directory not empty"),
        ("/brokers/topics/t/partitions/0/state", 7, "BadVersion"),
    ):
        with pytest.raises(StoreError, match=code):
            client.delete(path, version)
    for _ in range(2):
        client.delete_recursive("/brokers/topics/t")
    assert client.get_all_topics_in_cluster() == []
