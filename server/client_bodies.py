"""JSON bodies of the requests and responses of `klamm produce` and `klamm consume`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from klamm.cluster.data_requests import Acks
from klamm.cluster.integers import INT32_MAX, INT64_MAX, Count, Int64
from klamm.server.bodies import RequestBody

MAX_RECORDS: Final = 100_000
MAX_GENERATED_RECORDS: Final = 10_000_000
MAX_RECORD_BYTES: Final = 1 << 20
"""Maximum size of a key, of a value, or of a generated record."""
RecordText = Annotated[str, Meta(max_length=MAX_RECORD_BYTES)]
From = Literal["beginning", "end", "offset", "time"]


class NewProducer(RequestBody, frozen=True):
    """Body of POST /producers, which opens a producer for one topic.

    If ``partition`` is null, records are partitioned by key, or round-robin if they have no key.
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
    """Response to POST /producers and /consumers.

    If ``has_values`` is false, the cluster's logs are offset-only: they keep no keys and values.
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

    The response is sent when at most ``max_undecided`` records are undecided (neither acknowledged
    nor failed), or after ``wait_ms``.
    """

    records: Annotated[tuple[KeyValue, ...], Meta(max_length=MAX_RECORDS)] = ()
    record_count: Annotated[int, Meta(ge=0, le=MAX_GENERATED_RECORDS)] = 0
    record_size_bytes: Annotated[int, Meta(ge=1, le=MAX_RECORD_BYTES)] = 100
    max_undecided: Count = 100_000
    wait_ms: Count = 1_000


class Offsets(msgspec.Struct, frozen=True):
    """Offsets of acknowledged records in one partition and leader epoch; ``end`` is exclusive."""

    partition: int
    leader_epoch: int
    start: int
    end: int


class NotAcknowledged(msgspec.Struct, frozen=True):
    """Records of one partition that were not acknowledged, and the error.

    ``is_in_doubt`` means that the leader may have appended the records nevertheless.
    """

    partition: int
    record_count: int
    error: str
    text: str
    is_in_doubt: bool


class ProducerStatus(msgspec.Struct, frozen=True):
    """Response to all requests about a producer.

    ``undecided`` counts the records that are neither acknowledged nor failed. ``waiting_for`` lists
    the reasons why partitions with such records make no progress.
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
    """Body of POST /producers/N/close.

    The server waits up to ``wait_ms`` until every record is acknowledged or has failed. If some
    records are still undecided, the producer is closed only if ``gives_up`` is true.
    """

    wait_ms: Count = 1_000
    gives_up: bool = False


class NewConsumer(RequestBody, frozen=True):
    """Body of POST /consumers; if ``partition`` is null, all partitions are read.

    ``start`` is where to begin: "offset" begins at ``offset``, and "time" at ``timestamp_ms``.
    """

    topic: str
    partition: Count | None = None
    start: From = "end"
    offset: Annotated[int, Meta(ge=0, le=INT64_MAX)] | None = None
    timestamp_ms: Int64 | None = None

    def __post_init__(self) -> None:
        for name, value, start in (
            ("offset", self.offset, "offset"),
            ("timestamp_ms", self.timestamp_ms, "time"),
        ):
            if (value is not None) != (self.start == start):
                raise ValueError(f'`{name}` and "start": "{start}" require each other')


class Poll(RequestBody, frozen=True):
    """Body of POST /consumers/N/poll.

    The response is sent when records are available, or after ``wait_ms``.
    """

    wait_ms: Count = 500


class ReadRecords(msgspec.Struct, frozen=True):
    """Records read from an offset-only log, which does not keep the records themselves.

    All have the same leader epoch. ``start`` is the first offset; ``end`` is exclusive.
    """

    partition: int
    leader_epoch: int
    start: int
    end: int
    size_bytes: int


class ReadRecord(msgspec.Struct, frozen=True):
    """One record. Bytes in key or value that are not UTF-8 are replaced with U+FFFD."""

    partition: int
    leader_epoch: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


class Polled(msgspec.Struct, frozen=True):
    """Response to POST /consumers/N/poll.

    - ``counted``: ranges of records read from offset-only logs.
    - ``records``: records read from logs with segment files.
    - ``errors``: reasons why partitions cannot be read any further.
    - ``waiting_for``: reasons why partitions cannot be read at the moment.
    - ``truncations``: logs that were truncated below the consumer's position.
    - ``positions``, ``high_watermarks``: offsets keyed by partition; unknown offsets are omitted.
    """

    counted: list[ReadRecords]
    records: list[ReadRecord]
    errors: list[str]
    truncations: list[str]
    waiting_for: list[str]
    positions: dict[int, int]
    high_watermarks: dict[int, int]
