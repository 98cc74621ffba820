"""A consumer and what it is answered to a fetch: what it hands out, and what it says of the rest.

Source: CompletedFetch (org.apache.kafka.clients.consumer.internals.Fetcher).
"""

from __future__ import annotations

import pytest

from klamm.brokers.logs.record_batch import place
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse, PartitionMetadata, TopicMetadata
from klamm.cluster.data_requests import FetchedPartition, FetchRequest, FetchResponse
from klamm.cluster.requests import Address, Message
from klamm.world.clients.consumer import Consumer
from tests.unit.brokers.logs.batches import batch
from tests.unit.brokers.network import T0, registered

LEADER = 1
GOOD = [place(batch(b"a", b"b", b"c"), base, 4) for base in (0, 3, 6)]


def flipped(batch: bytes, at: int) -> bytes:
    """A batch with one byte that is another."""
    return batch[:at] + bytes([batch[at] ^ 1]) + batch[at + 1 :]


class Fetching:
    """A consumer that reads t-0 from ``offset`` on, of a leader that is played by hand."""

    def __init__(self, offset: int) -> None:
        self.consumer = Consumer(Address("client", 1), [LEADER], keeps_records=True)
        self.consumer.assign([T0])
        self.consumer.seek(T0, offset)
        self.consumer.on_timer(0.0)
        partition = PartitionMetadata(Errors.NONE, 0, LEADER, 4, (LEADER,), (LEADER,))
        topic = TopicMetadata(Errors.NONE, "t", None, (partition,))
        self._answer(MetadataResponse((registered(LEADER),), LEADER, (topic,)))

    def answer(self, records: bytes | None, error: Errors = Errors.NONE) -> None:
        """The next fetch gives this."""
        fetched = FetchedPartition(
            error, 4, self.consumer.position(T0) or 0, records=records, high_watermark=9
        )
        self._answer(FetchResponse({T0: fetched}))

    def taken(self) -> list[tuple[int, int]]:
        """(first offset, end) of what the consumer hands out."""
        return [
            (one.start, one.end) for read in self.consumer.take_records() for one in read.stretches
        ]

    def _answer(self, body: MetadataResponse | FetchResponse) -> None:
        [sent] = self.consumer.take_messages()
        if isinstance(body, FetchResponse):
            assert isinstance(sent.body, FetchRequest)
        answered = Message(sent.destination, sent.source, sent.correlation_id, body)
        self.consumer.receive(answered, 0.0)


def test_records_before_a_corrupt_batch_are_returned_and_the_error_names_the_next_offset(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fetching = Fetching(1)
    consumer = fetching.consumer
    spoilt = flipped(GOOD[1], len(GOOD[1]) - 2)
    fetching.answer(GOOD[0] + spoilt + GOOD[2])
    assert (consumer.position(T0), consumer.errors) == (3, {})
    assert [read.records for read in consumer.take_records()] == [GOOD[0]]
    consumer.on_timer(0.0)
    fetching.answer(spoilt + GOOD[2])
    said = consumer.errors[T0]
    assert said.startswith(
        "Record batch for partition t-0 at offset 3 is invalid, cause: Record is corrupt (stored "
    )
    assert said.endswith(
        "please seek past the record to continue consumption; the next batch starts at offset 6"
    )
    assert caplog.messages == [f"consumer: {said}"]
    consumer.seek(T0, 6)
    consumer.on_timer(0.0)
    fetching.answer(GOOD[2])
    assert (fetching.taken(), consumer.errors) == ([(6, 9)], {})


@pytest.mark.parametrize(
    "rest",
    [flipped(GOOD[1], 16), GOOD[1][:40], GOOD[1][:-1]],
    ids=["magic", "torn header", "torn records"],
)
def test_bytes_that_are_no_batch_are_corrupt(rest: bytes) -> None:
    fetching = Fetching(0)
    fetching.answer(GOOD[0] + rest)
    assert fetching.taken() == [(0, 3)]
    fetching.consumer.on_timer(0.0)
    fetching.answer(rest)
    said = fetching.consumer.errors[T0]
    assert said.startswith("Record batch for partition t-0 at offset 3 is invalid, cause: ")


def test_an_error_of_the_brokers_log_is_raised_once() -> None:
    fetching = Fetching(3)
    fetching.answer(None, Errors.CORRUPT_MESSAGE)
    assert fetching.consumer.errors == {
        T0: "Encountered corrupt message when fetching offset 3 for topic-partition t-0"
    }
    fetching.consumer.on_timer(10_000.0)
    assert fetching.consumer.take_messages() == []
