"""What the tools of a drill on Kafka's brokers see of the cluster."""

from __future__ import annotations

from klamm.drills.kafka.cluster import CONTROLLER_IDS
from klamm.drills.kafka.driver import BrokersStore
from klamm.runtime.checks.admin_history import AdminHistory
from klamm.runtime.clock import VirtualClock
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_server import MemoryServer
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import GetChildren
from klamm.zk.znodes import BrokerIdsZNode


def test_tools_do_not_see_the_brokers_of_klamms_controllers() -> None:
    memory = MemoryStore(MemoryServer(VirtualClock()))
    store = BrokersStore(memory, AdminHistory(lambda: 0.0))
    assert store.read([GetChildren(BrokerIdsZNode.path)])[0].children is None
    zk = KafkaZkClient(memory)
    for broker_id in (0, 7, CONTROLLER_IDS[0], CONTROLLER_IDS[-1]):
        zk.create_recursive(f"{BrokerIdsZNode.path}/{broker_id}")
    ids, others = store.read([GetChildren(BrokerIdsZNode.path), GetChildren("/brokers")])
    assert (ids.children, others.children) == (["0", "7"], ["ids"])
