"""JSON bodies of the requests and answers of `klamm produce` and `klamm consume`."""

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
    """Body of POST /producers: a producer for one topic.

    ``partition`` None: by key, or round-robin without a key.
    """

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
    """Answer of POST /producers and /consumers.

    ``has_values``: the cluster's logs keep keys and values; else they are offset-only.
    """

    id: int
    partitions: list[int]
    has_values: bool


class KeyValue(RequestBody, frozen=True):
    """A record to send."""

    value: RecordText
    key: RecordText | None = None


class SendRecords(RequestBody, frozen=True):
    """Body of POST /producers/N/records: the given records, or ``record_count`` generated ones.

    Answered once at most ``max_undecided`` records are undecided, or after ``wait_ms``.
    """

    records: Annotated[tuple[KeyValue, ...], Meta(max_length=MAX_RECORDS)] = ()
    record_count: Annotated[int, Meta(ge=0, le=MAX_GENERATED_RECORDS)] = 0
    record_size_bytes: Annotated[int, Meta(ge=1, le=MAX_RECORD_BYTES)] = 100
    max_undecided: Count = 100_000
    wait_ms: Count = 1_000


class Offsets(msgspec.Struct, frozen=True):
    """Acknowledged offsets of a partition in one leader epoch: ``start`` to ``end`` (exclusive)."""

    partition: int
    leader_epoch: int
    start: int
    end: int


class NotAcknowledged(msgspec.Struct, frozen=True):
    """Records without an acknowledgement. ``is_in_doubt``: they may nevertheless be stored."""

    partition: int
    record_count: int
    error: str
    text: str
    is_in_doubt: bool


class ProducerStatus(msgspec.Struct, frozen=True):
    """Answer of all requests about a producer.

    ``waiting_for``: for each partition with undecided records, the reason as text.
    """

    sent: int
    acknowledged: int
    failed: int
    in_doubt: int
    undecided: int
    offsets: list[Offsets]
    not_acknowledged: list[NotAcknowledged]
    waiting_for: list[str]


class CloseProducer(RequestBody, frozen=True):
    """Body of POST /producers/N/close: waits up to ``wait_ms`` until no record is undecided.

    Then the producer is closed if no record is undecided, or if ``gives_up`` is set.
    """

    wait_ms: Count = 1_000
    gives_up: bool = False


class NewConsumer(RequestBody, frozen=True):
    """Body of POST /consumers. ``partition`` None: all partitions.

    ``start``: the starting position, with ``offset`` or ``timestamp_ms`` if it is one of these.
    """

    topic: str
    partition: Count | None = None
    start: From = "end"
    offset: Annotated[int, Meta(ge=0, le=INT64_MAX)] = 0
    timestamp_ms: Int64 = NO_TIME_MS


class Poll(RequestBody, frozen=True):
    """Body of POST /consumers/N/poll, answered when records are available or after ``wait_ms``."""

    wait_ms: Count = 500


class ReadRecords(msgspec.Struct, frozen=True):
    """Offsets ``start`` to ``end`` (exclusive) of one leader epoch, from an offset-only log."""

    partition: int
    leader_epoch: int
    start: int
    end: int
    size_bytes: int


class ReadRecord(msgspec.Struct, frozen=True):
    """One record with key and value as text; bytes that are not UTF-8 are replaced."""

    partition: int
    leader_epoch: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


class Polled(msgspec.Struct, frozen=True):
    """Answer of POST /consumers/N/poll: ``counted`` or ``records``, by the kind of log.

    ``errors``: why partitions cannot be read further. ``truncations``: logs that were truncated
    below the position. ``waiting_for``: why partitions cannot be read at the moment, as text.
    ``positions`` and ``high_watermarks``: by partition, if known.
    """

    counted: list[ReadRecords]
    records: list[ReadRecord]
    errors: list[str]
    truncations: list[str]
    waiting_for: list[str]
    positions: dict[int, int]
    high_watermarks: dict[int, int]
