"""Whose ZooKeeper it is: where klamm may run, and where a tool must ask."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.errors import NotKlamm
from klamm.zk.dump import dump
from klamm.zk.guard import MARKER_PATH, RunInfo, check_may_run_in, create_marker, foreign_cluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryStore
from tests.unit.tools.vectors import memory_server

RUN = RunInfo("run-1", 1_000, "0.1.0")


@pytest.fixture
def client() -> KafkaZkClient:
    return KafkaZkClient(MemoryStore(memory_server()))


def test_an_empty_chroot_is_free(client: KafkaZkClient) -> None:
    check_may_run_in(client)
    assert foreign_cluster(client) is None


def test_topics_that_tools_made_are_no_cluster(client: KafkaZkClient) -> None:
    client.make_sure_persistent_paths_exist(["/brokers/topics/t", "/config/topics/t", "/zookeeper"])
    check_may_run_in(client)
    assert foreign_cluster(client) is None


@pytest.mark.parametrize(
    ("paths", "brokers"),
    [
        (["/controller"], "no live brokers"),
        (["/brokers/ids"], "no live brokers"),
        (["/brokers/ids/0"], "1 live broker"),
        (["/brokers/ids/0", "/brokers/ids/7"], "2 live brokers"),
    ],
)
def test_a_cluster_without_the_marker_is_refused(
    client: KafkaZkClient, paths: list[str], brokers: str
) -> None:
    client.make_sure_persistent_paths_exist(paths)
    client.create_or_get_cluster_id("4L6g3nShT-eMCtK--X86sw")
    before = dump(client.store)
    with pytest.raises(NotKlamm, match=rf"Kafka cluster 4L6g3nShT-eMCtK--X86sw \({brokers}\)"):
        check_may_run_in(client)
    assert dump(client.store) == before
    assert foreign_cluster(client) == "the Kafka cluster 4L6g3nShT-eMCtK--X86sw"


def test_a_strange_tree_is_asked_about(client: KafkaZkClient) -> None:
    client.make_sure_persistent_paths_exist(["/hbase"])
    assert foreign_cluster(client) == "the Kafka cluster without an id"


def test_an_unreadable_cluster_id_is_reported(client: KafkaZkClient) -> None:
    client.create_recursive("/cluster/id", b"x")
    assert foreign_cluster(client) == "the Kafka cluster with an unreadable /cluster/id"


def test_the_marker_opens_the_chroot(client: KafkaZkClient) -> None:
    client.make_sure_persistent_paths_exist(["/brokers/ids/0", "/controller"])
    assert client.get_data_and_stat(MARKER_PATH) is None
    assert create_marker(client, RUN)
    assert not create_marker(client, RunInfo("run-2", 2_000, "0.1.0"))
    found = client.get_data_and_stat(MARKER_PATH)
    assert found is not None
    assert msgspec.json.decode(found[0] or b"", type=RunInfo) == RUN
    check_may_run_in(client)
    assert foreign_cluster(client) is None
