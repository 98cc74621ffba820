"""Produce requests that a leader refuses: with which error, and with which start of the log.

Sources: ReplicaManager.{appendRecords, appendToLocalLog}.
"""

from __future__ import annotations

import pytest

from klamm.brokers.leaders.produces import Produces
from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.replica_log import Appended
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.requests import Address, Message
from klamm.cluster.topic_names import OFFSETS_TOPIC
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import T0, cached, update_metadata
from tests.unit.brokers.replicas import CLIENT, Replicas


@pytest.fixture
def replicas() -> Replicas:
    """Brokers 1 to 3 with t-0 in sync, led by 1 at epoch 3; its log starts at 4 and ends at 10."""
    made = Replicas()
    made.lead(1, 3)
    made.replicate(1, 10)
    log = made.replica(1).log
    assert log is not None and log.increment_log_start_offset(4)
    return made


def test_an_internal_topic_is_refused_only_where_it_is_known(replicas: Replicas) -> None:
    produces = replicas.brokers[1].replica_manager.leaders.produces
    tp = TopicPartition(OFFSETS_TOPIC, 0)
    body = ProduceRequest(1, 1_000, {tp: b""})
    for error in (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.INVALID_TOPIC_EXCEPTION):
        answer = produces.produce(Message(CLIENT, Address("broker", 1), 1, body), body, 0, 0)
        assert answer == ProduceResponse({tp: ProducedPartition(error)})
        replicas.request(1, update_metadata(cached(tp)))


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (Errors.MESSAGE_TOO_LARGE, -1),
        (Errors.RECORD_LIST_TOO_LARGE, -1),
        (Errors.CORRUPT_MESSAGE, -1),
        (Errors.KAFKA_STORAGE_ERROR, -1),
        (Errors.INVALID_RECORD, 4),
        (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 4),
    ],
)
def test_only_some_errors_come_with_the_start_of_the_log(
    replicas: Replicas, error: Errors, start: int
) -> None:
    def append(*_: object) -> Appended:
        raise ReplicaLogError("it does not fit")

    hosted = {T0: replicas.replica(1)}
    produces = Produces(1, hosted, lambda _: Errors.NONE, append, lambda *_: error)
    body = ProduceRequest(1, 1_000, {T0: b""})
    answer = produces.produce(Message(CLIENT, Address("broker", 1), 1, body), body, 0, 0)
    assert answer == ProduceResponse({T0: ProducedPartition(error, log_start_offset=start)})
