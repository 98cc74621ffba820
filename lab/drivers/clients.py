"""Clients of scenarios: a producer, a consumer, and an operator that sends admin requests.

The producer sends records while brokers fail, and no record may be lost. Therefore the producer is
idempotent and uses acks=-1, and the consumer reads every partition from the first record that the
producer sent. lab/checks/clients.py checks the results.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from klamm.cluster.errors import KlammError, RequestTimedOut
from klamm.cluster.records import Record
from klamm.cluster.requests import Address, Request, Response
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.clients import Finding, check_clients, check_leader, lost_offsets
from klamm.lab.drivers.client_host import ClientHost
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS
from klamm.world.clients.batches import Counted, Payload
from klamm.world.clients.config import ConsumerConfig, ProducerConfig
from klamm.world.clients.consumer import Consumer
from klamm.world.clients.producer import Producer
from klamm.world.transport import RequestClient
from klamm.world.views.brokers import leading_replica, log_end_offset
from klamm.zk.kafka_zk_client import KafkaZkClient

OPERATOR: Final = Address("client", 0)
PRODUCER: Final = Address("client", 1)
CONSUMER: Final = Address("client", 2)
BATCH_RECORDS: Final = 10
RECORD_BYTES: Final = 100
_ANSWER_MARGIN_MS: Final = 1_000
"""How much longer than the request's own timeout the operator waits for the response."""
_FIRST_ADDED_ID: Final = 1_000_000
_READ_TIMEOUT_MS: Final = 2_000
FETCH_WAIT_MS: Final = 20_000
_VALUE: Final = b"v" * RECORD_BYTES


class ScenarioClients:
    """The producers and the consumers of one scenario.

    ``has_files``: brokers store records in segment files; otherwise they have in-memory
    (offset-only) logs. ``fetch_wait_ms``: how long a broker may keep a fetch of the consumer
    waiting."""

    def __init__(
        self, host: ClientHost, *, has_files: bool, fetch_wait_ms: int = FETCH_WAIT_MS
    ) -> None:
        self._host = host
        self._has_files = has_files
        config = ProducerConfig(acks=-1, enable_idempotence=True)
        self._brokers = brokers = host.cluster.spec.broker_ids
        self._producer = Producer(PRODUCER, brokers, config)
        self._produced: Counter[TopicPartition] = Counter()
        self._added: list[Producer] = []
        self._readers: dict[TopicPartition, Consumer] = {}
        # Fetches wait long, so that a cluster without writes can become idle.
        reads = ConsumerConfig(auto_offset_reset="earliest", fetch_max_wait_ms=fetch_wait_ms)
        self._consumer = Consumer(CONSUMER, brokers, reads, log_journal=host.cluster.log_journal)
        self._has_begun = False

    def produce(self, tp: TopicPartition, count: int) -> None:
        """Pass ``count`` records to the producer, which sends them and retries if necessary."""
        self._begin()
        self._produced[tp] += count

        def give(now_ms: float) -> None:
            if tp not in self._consumer.partitions:
                self._consumer.assign((*self._consumer.partitions, tp))
                # After preloading, the consumer starts at the end of the log.
                if before := log_end_offset(self._host.cluster, tp):
                    self._consumer.seek(tp, before)
            for sent in range(0, count, BATCH_RECORDS):
                records = min(BATCH_RECORDS, count - sent)
                payload: Payload = Counted(records, records * RECORD_BYTES)
                if self._has_files:
                    # As in Kafka's producer, every record has a timestamp. Without it, the leader
                    # would forget the producer at its next retention check.
                    payload = (Record(self._host.cluster.clock.now_ms(), None, _VALUE),) * records
                self._producer.send(tp, payload, now_ms)

        self._host.call_client(give)

    @property
    def produced(self) -> Collection[TopicPartition]:
        """The partitions to which the producer sends records."""
        return self._produced.keys()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            for client in (self._producer, self._consumer):
                self._host.add_client(client)

    def add_producer(self, config: ProducerConfig) -> Producer:
        """Add a producer. Records that it was acknowledged with acks=-1 must be in leaders' logs.

        The scenario's consumer does not follow the partitions of added producers."""
        self._begin()
        producer = Producer(self._new_address(), self._brokers, config)
        self._added.append(producer)
        self._host.add_client(producer)
        return producer

    def reader(self, tp: TopicPartition) -> Consumer:
        """Return the consumer that keeps the records of this partition; it is paused at first."""
        if tp not in self._readers:
            self._begin()
            # A short timeout, because a bootstrap broker may be paused.
            config = ConsumerConfig(request_timeout_ms=_READ_TIMEOUT_MS)
            address, journal = self._new_address(), self._host.cluster.log_journal
            reader = Consumer(
                address, self._brokers, config, keeps_records=True, log_journal=journal
            )
            reader.is_paused = True
            reader.assign([tp])
            self._readers[tp] = reader
            self._host.add_client(reader)
        return self._readers[tp]

    def _new_address(self) -> Address:
        return Address("client", _FIRST_ADDED_ID + len(self._added) + len(self._readers))

    def acknowledged(self, tp: TopicPartition) -> int:
        """Return how many of the producer's records were acknowledged (with acks=-1)."""
        known = self._host.call_client(lambda _: tuple(self._producer.acknowledged.get(tp, ())))
        return sum(one.stretch.end - one.stretch.start for one in known)

    def consumed(self, tp: TopicPartition) -> int:
        """Return how many records the consumer has read from a partition."""
        read = self._host.call_client(lambda _: tuple(self._consumer.read.get(tp, ())))
        return sum(one.end - one.start for one in read)

    def records_in_doubt(self, tp: TopicPartition) -> int | None:
        """Return how many of the producer's records were neither acknowledged nor refused.

        Return None if the producer has sent none to the partition."""
        if tp not in self._produced:
            return None
        refused = self._host.call_client(lambda _: tuple(self._producer.failed.get(tp, ())))
        refused_count = sum(one.record_count for one in refused)
        return self._produced[tp] - self.acknowledged(tp) - refused_count

    def records_lost(self, tp: TopicPartition) -> int | None:
        """Return how many acknowledged records of the producer the leader's log lacks.

        Return None if the producer has sent none to the partition, or if no running broker leads
        it."""

        def lost(_: float) -> int | None:
            leader = leading_replica(self._host.cluster, tp) if tp in self._produced else None
            if leader is None:
                return None
            ranges = lost_offsets(self._producer.acknowledged.get(tp, ()), leader)
            return sum(end - start for start, end in ranges)

        return self._host.call_client(lost)

    def findings(self) -> list[str]:
        """Return the violations of client guarantees, one line each."""
        if not self._has_begun:
            return []

        def find(_: float) -> list[Finding]:
            shared = {tp for one in self._added for tp in (*one.acknowledged, *one.indefinite)}
            found = check_clients([self._producer], [self._consumer])
            return [
                *(one for one in found if one.topic_partition not in shared),
                *self._lost_by_leaders(),
            ]

        return list(map(str, self._host.call_client(find)))

    def _lost_by_leaders(self) -> Iterator[Finding]:
        """Find acknowledged records that are not in the leader's log.

        The consumer's reads do not show this if it read the records before they were lost."""
        for tp, acknowledged in itertools.chain.from_iterable(
            producer.acknowledged.items() for producer in (self._producer, *self._added)
        ):
            if (leader := leading_replica(self._host.cluster, tp)) is not None:
                yield from check_leader(acknowledged, leader)


class OperatorClient:
    """Sends admin requests to the controller and the brokers of a scenario's cluster.

    The cluster runs while the client waits for a response."""

    def __init__(self, driver: ClientHost) -> None:
        self._driver = driver
        self._client = RequestClient(OPERATOR)

    def ask(self, request: Request, broker_id: int | None = None) -> Response:
        """Send a request to a broker (None: to the active controller) and return the response.

        Raises RequestTimedOut if there is no response, KlammError if there is no controller."""
        if broker_id is not None:
            return self._ask(request, Address("broker", broker_id))
        history, elected = self._driver.admin_history, self._elected()
        called = history.call()
        response = None
        try:
            response = self._ask(request, Address("controller", elected[0]))
        finally:
            is_current = self._is_elected(elected)
            history.answered(called, request, response, is_current=is_current)
        return response

    def _ask(self, request: Request, destination: Address) -> Response:
        driver = self._driver
        answer = self._client.send(driver.cluster.transport, destination, request)
        # A request that times out at the controller is answered then.
        timeout_ms = getattr(request, "timeout_ms", 0) + _ANSWER_MARGIN_MS
        driver.run_until(answer.done, max(timeout_ms, STEP_TIMEOUT_MS))
        if not answer.done():
            raise RequestTimedOut(f"{destination.role} {destination.id} did not respond")
        response = answer.result()
        assert isinstance(response, Response), "not a response"
        return response

    def _elected(self) -> tuple[int, object]:
        """Return the controller's id and the controller epoch. Raises KlammError without one."""
        zk = KafkaZkClient(self._driver.store)
        controller_id = zk.get_controller_id()
        if controller_id is None:
            raise KlammError("there is no active controller")
        return controller_id, zk.get_controller_epoch()

    def _is_elected(self, elected: tuple[int, object]) -> bool:
        """Return True if ZooKeeper confirms that this is still the controller."""
        try:
            return self._elected() == elected
        except KlammError:
            return False
