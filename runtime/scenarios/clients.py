"""Clients of scenarios: a producer, a consumer, and an operator that sends admin requests.

Records are sent while brokers fail, and none may be lost. So the producer is idempotent with acks
-1, and the consumer reads every partition from the producer's first record on.
runtime/checks/clients.py checks the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from klamm.brokers.clients.batches import Counted, Payload
from klamm.brokers.clients.config import ConsumerConfig, ProducerConfig
from klamm.brokers.clients.consumer import Consumer
from klamm.brokers.clients.producer import Producer
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.logs.records import Record
from klamm.cluster.errors import KlammError, RequestTimedOut
from klamm.cluster.records import NO_TIMESTAMP
from klamm.cluster.requests import (
    NO_CORRELATION_ID,
    Address,
    Disconnected,
    Message,
    Request,
    Response,
)
from klamm.cluster.types import TopicPartition
from klamm.runtime.checks.clients import Finding, check_clients, check_leader
from klamm.runtime.client_actor import Client
from klamm.runtime.cluster import brokers_of
from klamm.runtime.scenarios.steps import STEP_TIMEOUT_MS
from klamm.zk.kafka_zk_client import KafkaZkClient

if TYPE_CHECKING:
    from klamm.runtime.scenarios.driver import ScenarioDriver

OPERATOR: Final = Address("client", 0)
PRODUCER: Final = Address("client", 1)
CONSUMER: Final = Address("client", 2)
BATCH_RECORDS: Final = 10
RECORD_BYTES: Final = 100
_FETCH_WAIT_MS: Final = 20_000
_RECORD: Final = Record(NO_TIMESTAMP, None, b"v" * RECORD_BYTES)

T = TypeVar("T")


class ScenarioClients:
    """The producer and consumer of one scenario; ``bootstrap``: ids of the brokers to begin with.

    ``log_journal`` receives rows about corrupt batches. ``has_files``: logs on disk with records,
    not offset-only logs."""

    def __init__(
        self,
        host: ScenarioDriver,
        bootstrap: Iterable[int],
        log_journal: LogJournal,
        *,
        has_files: bool,
    ) -> None:
        self._host = host
        self._has_files = has_files
        config = ProducerConfig(acks=-1, enable_idempotence=True)
        brokers = tuple(bootstrap)
        self._producer = Producer(PRODUCER, brokers, config)
        # Long idle fetches: a cluster without writes can then become idle.
        reads = ConsumerConfig(auto_offset_reset="earliest", fetch_max_wait_ms=_FETCH_WAIT_MS)
        self._consumer = Consumer(CONSUMER, brokers, reads, log_journal=log_journal)
        self._has_begun = False

    def produce(self, tp: TopicPartition, count: int) -> None:
        """Pass records to the producer, which sends and retries them."""
        if not self._has_begun:
            self._has_begun = True
            for client in (self._producer, self._consumer):
                self._host.add_client(client)

        def give(now_ms: float) -> None:
            if tp not in self._consumer.partitions:
                self._consumer.assign((*self._consumer.partitions, tp))
                if before := self._end_of(tp):
                    self._consumer.seek(tp, before)
            for sent in range(0, count, BATCH_RECORDS):
                records = min(BATCH_RECORDS, count - sent)
                payload: Payload = Counted(records, records * RECORD_BYTES)
                if self._has_files:
                    payload = (_RECORD,) * records
                self._producer.send(tp, payload, now_ms)

        self._host.call_client(give)

    def reconnect(self, broker_ids: Iterable[int]) -> None:
        """Move the clients to a new process of the cluster; their old connections are lost."""
        if not self._has_begun:
            return
        clients: tuple[Client, ...] = (self._producer, self._consumer)
        for client in clients:
            self._host.add_client(client)

        def lose(now_ms: float) -> None:
            for client in clients:
                for broker_id in broker_ids:
                    gone = Address("broker", broker_id)
                    lost = Message(gone, client.address, NO_CORRELATION_ID, Disconnected())
                    client.receive(lost, now_ms)

        self._host.call_client(lose)

    def _end_of(self, tp: TopicPartition) -> int:
        """Return the end of preloaded logs: earlier records are not the producer's."""
        found = (
            broker.replica_manager.partitions.get(tp) for broker in brokers_of(self._host.cluster)
        )
        ends = (one.log.log_end_offset for one in found if one is not None and one.log is not None)
        return max(ends, default=0)

    def acknowledged(self, tp: TopicPartition) -> int:
        """Return the number of records of a partition that the whole ISR has."""
        known = self._host.call_client(lambda _: tuple(self._producer.acknowledged.get(tp, ())))
        return sum(one.stretch.end - one.stretch.start for one in known)

    def consumed(self, tp: TopicPartition) -> int:
        """Return the number of records read from a partition."""
        read = self._host.call_client(lambda _: tuple(self._consumer.read.get(tp, ())))
        return sum(one.end - one.start for one in read)

    def findings(self) -> list[str]:
        """Return violations of client guarantees, one line each."""
        if not self._has_begun:
            return []

        def find(_: float) -> list[Finding]:
            return [*check_clients([self._producer], [self._consumer]), *self._lost_by_leaders()]

        return list(map(str, self._host.call_client(find)))

    def _lost_by_leaders(self) -> Iterator[Finding]:
        """Find acknowledged records that leaders lack; they may be lost after they were read."""
        for tp, acknowledged in self._producer.acknowledged.items():
            leaders = [
                (partition.leader_epoch, broker.info.id, partition.log)
                for broker in brokers_of(self._host.cluster)
                if (partition := broker.replica_manager.partitions.get(tp)) is not None
                and partition.is_leader(broker.info.id)
                and partition.log is not None
            ]
            if not leaders:
                continue
            _, leader, log = max(leaders, key=lambda found: found[0])
            yield from check_leader(tp, acknowledged, leader, log)


class OperatorClient:
    """Sends requests to the controller and brokers of a scenario's cluster."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._asked = 0

    def ask(self, request: Request, broker_id: int | None = None) -> Response:
        """Send a request to a broker, or (None) to the controller; return the response.

        Raises RequestTimedOut without a response, KlammError if there is no controller."""
        driver = self._driver
        if broker_id is None:
            destination = self._controller()
        else:
            destination = Address("broker", broker_id)
        self._asked += 1
        answers: list[Message] = []
        driver.cluster.transport.register(OPERATOR, answers.append)
        driver.cluster.transport.send(Message(OPERATOR, destination, self._asked, request))

        def answered() -> list[Message]:
            """Return the response; late ones to earlier requests are ignored."""
            return [one for one in answers if one.correlation_id == self._asked]

        if not driver.run_until(lambda: bool(answered()), STEP_TIMEOUT_MS):
            raise RequestTimedOut(f"{destination.role} {destination.id} did not respond")
        body = answered()[0].body
        assert isinstance(body, Response), "only answers come to a client"
        return body

    def _controller(self) -> Address:
        controller_id = KafkaZkClient(self._driver.store).get_controller_id()
        if controller_id is None:
            raise KlammError("there is no active controller")
        return Address("controller", controller_id)
