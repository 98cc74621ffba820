"""Encodes records as batches and decodes batches, using the library aiokafka.

Clients and tools use this module to create or inspect records, and brokers use it to find records
by timestamp and to recompress batches. A broker that only appends and replicates handles whole
batches (record_batch.py) and never imports this module. Mirrors
org.apache.kafka.common.record.{MemoryRecordsBuilder, DefaultRecord, CompressionType}.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import cramjam
from aiokafka.errors import KafkaError
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from klamm.brokers.logs.errors import CorruptRecord
from klamm.brokers.logs.record_batch import COMPRESSIONS, MAGIC, BatchHeader
from klamm.cluster.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Header,
    Record,
    StoredRecord,
)

_NO_LIMIT_BYTES: Final = 2**31 - 1
# Exceptions of the libraries behind aiokafka for invalid compressed data or records.
_UNDECODABLE: Final = (
    KafkaError,
    cramjam.DecompressionError,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
)


def encode_batch(
    records: Sequence[Record],
    compression: str = "none",
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Encode records as one batch with base offset 0, as a producer sends it.

    ``compression`` is one of COMPRESSIONS. If it does not make the batch smaller, the batch stays
    uncompressed.
    """
    builder = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=COMPRESSIONS.index(compression),
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=_NO_LIMIT_BYTES,
    )
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp_ms, key, value, [tuple(header) for header in headers])
    return bytes(builder.build())


def decode_batch(batch: bytes, header: BatchHeader) -> list[StoredRecord]:
    """Decode the records of one whole batch. Raises CorruptRecord."""
    try:
        decoded = list(DefaultRecordBatch(batch))
    except _UNDECODABLE as error:
        raise CorruptRecord(
            f"The records at offsets {header.base_offset} to {header.last_offset} "
            f"cannot be decoded: {error}"
        ) from error
    return [
        StoredRecord(
            one.offset,
            Record(one.timestamp, one.key, one.value, tuple(Header(*pair) for pair in one.headers)),
        )
        for one in decoded
    ]
