"""Every admin call of three Python libraries, on klamm's listeners."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import confluent_kafka
import pytest

from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.server.cluster_server import ClusterServer
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.admin_calls.aiokafka import AIOKAFKA
from tests.admin_calls.calls import COMMITTED, RECORDS, Call, Given, NotRun
from tests.admin_calls.confluent import CONFLUENT
from tests.admin_calls.kafka_python import KAFKA_PYTHON
from tests.listeners import BROKERS, bootstrap, config_of, free_ports

LIBRARIES = {"aiokafka": AIOKAFKA, "confluent-kafka": CONFLUENT, "kafka-python": KAFKA_PYTHON}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterServer]:
    chroot = f"{zookeeper.connect_string}/client-admins-{uuid.uuid4().hex}"
    folder = tmp_path_factory.mktemp("klamm")
    with ClusterServer(config_of(chroot, folder, str(free_ports(BROKERS)))) as opened:
        yield opened


def calls() -> Iterator[object]:
    """Yield every call of every library, marked with what it shows of the library."""
    for name, library in LIBRARIES.items():
        for method, call in library.calls.items():
            alike = [
                other
                for other, found in library.calls.items()
                if (found == call if isinstance(call, NotRun) else isinstance(found, Call))
            ]
            marks = [pytest.mark.client(name, shows=f"admin calls: {', '.join(sorted(alike))}")]
            if isinstance(call, NotRun):
                marks.append(pytest.mark.skip(reason=call.reason))
            yield pytest.param(name, method, id=f"{name}-{method}", marks=marks)


def given(server: ClusterServer, name: str) -> Given:
    """Make the topic and the group of a call."""
    topic = CreatableTopic(name, assignments={0: (0, 1), 1: (1, 2)})
    server.admin.create_topics(CreateTopicsRequest((topic,), 10_000))
    servers = ",".join(bootstrap(server))
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for _ in range(RECORDS):
        producer.produce(name, b"x", partition=0)
    assert producer.flush(60) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": name})
    offset = confluent_kafka.TopicPartition(name, 0, COMMITTED)
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()
    return Given(server, topic=name, group=name)


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
@pytest.mark.parametrize(("library", "method"), list(calls()))
def test_an_admin_call_does_what_it_says(server: ClusterServer, library: str, method: str) -> None:
    found = LIBRARIES[library]
    call = found.calls[method]
    assert isinstance(call, Call)
    prepared = given(server, f"{library}-{method}")
    call.check(prepared, found.run(call, prepared, bootstrap(server)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_admin_call_of_a_library_is_listed(library: str) -> None:
    found = LIBRARIES[library]
    methods = {
        name
        for name in dir(found.admin_client)
        if not name.startswith("_") and callable(getattr(found.admin_client, name))
    }
    assert methods == found.calls.keys() | found.others
