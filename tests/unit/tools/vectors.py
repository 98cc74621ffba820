"""Reads what Kafka 2.8.2 answered from tests/data/admin, and builds a ZooKeeper to ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.types import Broker, EndPoint
from klamm.placement.draws import JavaRandom
from klamm.tools.tool_services import ToolServices
from klamm.world.clock import VirtualClock
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_server import MemoryServer
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import Store
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo

DATA = Path(__file__).parents[2] / "data" / "admin"

Case = dict[str, Any]


def cases(name: str) -> list[Any]:
    """The lines of one file as pytest parameters, named by their line number."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [
        pytest.param(json.loads(line), id=f"line{number}") for number, line in enumerate(lines, 1)
    ]


def memory_server() -> MemoryServer:
    """An empty ZooKeeper in memory."""
    return MemoryServer(VirtualClock())


def put(client: KafkaZkClient, path: str, data: object) -> None:
    """Create a znode: null for None, text as it is, anything else as JSON."""
    if path.startswith("/brokers/ids/"):
        broker_id = int(path.rpartition("/")[2])
        broker = Broker(broker_id, (EndPoint("localhost", 9092),), f"rack{broker_id}")
        data = BrokerIdZNode.encode(BrokerInfo(broker), 0).decode()
    if data is not None and not isinstance(data, str):
        data = re.sub(r"<id-(\d+)>", lambda found: topic_id(int(found[1])), json.dumps(data))
    assert client.create_recursive(path, None if data is None else str(data).encode()), path


def topic_id(number: int) -> str:
    """A topic id that stands for ``<id-number>``."""
    return f"recordedTopicId0{number:05d}A"


def masked(text: str) -> str:
    """Text with what no two runs share made equal, as it is in the recordings."""
    text = re.sub(r"recordedTopicId0\d{5}A|<id-\d+>", "<id>", text)
    text = re.sub(r"change_\d{10}$", "change_N", text)
    return re.sub(r"\[I@[0-9a-f]+", "[I@<hash>", text)


def services(server: MemoryServer, cluster: Any = None, **others: Any) -> ToolServices:
    """What a tool needs, on a ZooKeeper in memory and perhaps a cluster."""

    @contextmanager
    def open_store(_: str) -> Iterator[Store]:
        store = MemoryStore(server)
        yield store
        store.close()

    @contextmanager
    def open_cluster(address: str) -> Iterator[Any]:
        if cluster is None:
            raise UsageError(f"nothing at {address}")
        yield cluster

    given: dict[str, Any] = {
        "open_store": open_store,
        "open_cluster": open_cluster,
        "before_write": lambda _: None,
        "source": JavaRandom(1),
        "now_ms": lambda: 0.0,
        "sleep_ms": lambda _: None,
    }
    return ToolServices(**given | others)
