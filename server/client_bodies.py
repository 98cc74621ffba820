"""What travels as JSON between a running cluster and `klamm produce` and `klamm consume`.

Values only: neither HTTP nor a client.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from klamm.cluster.data_requests import Acks
from klamm.cluster.integers import INT32_MAX, INT64_MAX, Count, Int64
from klamm.server.bodies import RequestBody

NO_TIME_MS = -1
MAX_RECORDS: Final = 100_000
MAX_GENERATED_RECORDS: Final = 10_000_000
MAX_RECORD_BYTES: Final = 1 << 20
"""Maximum size of a key, of a value, or of a generated record."""
RecordText = Annotated[str, Meta(max_length=MAX_RECORD_BYTES)]
From = Literal["beginning", "end", "offset", "time"]


class NewProducer(RequestBody, frozen=True):
    """Body of POST /producers. Of one topic; ``partition`` None: any, by key or in turn."""

    topic: str
    partition: Count | None = None
    acks: Acks = -1
    enable_idempotence: bool = False
    delivery_timeout_ms: Count = 120_000
    request_timeout_ms: Count = 30_000
    retries: Count = INT32_MAX
    max_in_flight_requests_per_connection: Count = 5
    compression_type: str = "none"


class ClientOpened(msgspec.Struct, frozen=True):
    """Answer of POST /producers and /consumers. ``has_values``: logs keep keys and values and do
    not only count."""

    id: int
    partitions: list[int]
    has_values: bool


class KeyValue(RequestBody, frozen=True):
    """A record to send."""

    value: RecordText
    key: RecordText | None = None


class SendRecords(RequestBody, frozen=True):
    """Body of POST /producers/N/records: these, or ``record_count`` of ``record_size_bytes``.

    Answered once no more than ``max_undecided`` records are undecided, or after ``wait_ms``.
    """

    records: Annotated[tuple[KeyValue, ...], Meta(max_length=MAX_RECORDS)] = ()
    record_count: Annotated[int, Meta(ge=0, le=MAX_GENERATED_RECORDS)] = 0
    record_size_bytes: Annotated[int, Meta(ge=1, le=MAX_RECORD_BYTES)] = 100
    max_undecided: Count = 100_000
    wait_ms: Count = 1_000


class Offsets(msgspec.Struct, frozen=True):
    """Acknowledged records of a partition, all of one leader epoch: ``start`` to ``end``
    (exclusive)."""

    partition: int
    leader_epoch: int
    start: int
    end: int


class NotAcknowledged(msgspec.Struct, frozen=True):
    """Records without an acknowledgement: ``is_in_doubt`` if they may be stored all the same."""

    partition: int
    record_count: int
    error: str
    text: str
    is_in_doubt: bool


class ProducerStatus(msgspec.Struct, frozen=True):
    """Answer of everything about a producer. ``waiting_for``: what keeps records from being
    decided, in words."""

    sent: int
    acknowledged: int
    failed: int
    in_doubt: int
    undecided: int
    offsets: list[Offsets]
    not_acknowledged: list[NotAcknowledged]
    waiting_for: list[str]


class CloseProducer(RequestBody, frozen=True):
    """Body of POST /producers/N/close: waits until all is decided, at most ``wait_ms``; then,
    with ``gives_up``, the producer is closed whatever is undecided, else only if nothing is."""

    wait_ms: Count = 1_000
    gives_up: bool = False


class NewConsumer(RequestBody, frozen=True):
    """Body of POST /consumers. ``partition`` None: all. ``start`` says where to begin, together
    with ``offset`` or ``timestamp_ms``."""

    topic: str
    partition: Count | None = None
    start: From = "end"
    offset: Annotated[int, Meta(ge=0, le=INT64_MAX)] = 0
    timestamp_ms: Int64 = NO_TIME_MS


class Poll(RequestBody, frozen=True):
    """Body of POST /consumers/N/poll: answered with what there is, or after ``wait_ms``."""

    wait_ms: Count = 500


class ReadRecords(msgspec.Struct, frozen=True):
    """Records ``start`` to ``end`` (exclusive) of one leader epoch, which are only counted."""

    partition: int
    leader_epoch: int
    start: int
    end: int
    size_bytes: int


class ReadRecord(msgspec.Struct, frozen=True):
    """One record with its key and value; bytes that are no UTF-8 are replaced."""

    partition: int
    leader_epoch: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


class Polled(msgspec.Struct, frozen=True):
    """Answer of POST /consumers/N/poll: ``counted`` or ``records``, by the kind of log.

    ``errors``: why partitions are not read any further. ``truncations``: where a log was cut below
    what had been read. ``waiting_for``: what keeps partitions from being read, in words.
    ``positions`` and ``high_watermarks`` by partition, where they are known.
    """

    counted: list[ReadRecords]
    records: list[ReadRecord]
    errors: list[str]
    truncations: list[str]
    waiting_for: list[str]
    positions: dict[int, int]
    high_watermarks: dict[int, int]
