"""Validation of batches that a leader receives from producers, or a follower from its leader.

The size, the CRC and the header of a batch are checked. Records are decoded only if the topic is
compacted or limits timestamps, or if the batch must be recompressed. Otherwise a batch whose header
contradicts its records is accepted, although a Kafka broker would reject it. Mirrors
kafka.log.Log.analyzeAndValidateRecords and kafka.log.LogValidator.
"""

from __future__ import annotations

from itertools import pairwise

from klamm.brokers.logs.errors import (
    InvalidRecord,
    InvalidTimestamp,
    OffsetsOutOfOrder,
    RecordTooLarge,
    UnexpectedAppendOffset,
)
from klamm.brokers.logs.log_config import NEVER, LogConfig
from klamm.brokers.logs.record_batch import (
    COMPRESSIONS,
    BatchHeader,
    check_batches,
    check_crc,
    parse_header,
    stamped,
    walk,
)
from klamm.cluster.records import NO_TIMESTAMP, CountedBatch, Produced


def batch_of(produced: Produced) -> bytes:
    """Return ``produced`` if it is a batch for a log on disk.

    Raises InvalidRecord if it is an offset-only batch.
    """
    if not isinstance(produced, bytes):
        raise InvalidRecord("An offset-only batch was sent to a log on disk")
    return produced


def counted_batch_of(produced: Produced) -> CountedBatch:
    """Return ``produced`` if it is a batch for an in-memory (offset-only) log.

    Raises InvalidRecord if it is a batch for a log on disk or contains no records.
    """
    if not isinstance(produced, CountedBatch) or produced.record_count < 1:
        raise InvalidRecord("An offset-only log accepts only offset-only batches with records")
    return produced


def check_produced(
    batch: bytes, name: str, config: LogConfig, now_ms: int
) -> tuple[bytes, BatchHeader]:
    """Validate a producer's batch; return the batch to be stored in the log, and its header.

    If the topic's configs require it (compression.type, message.timestamp.type), the batch is
    recompressed, or its timestamps are set to ``now_ms``. ``name`` is the name of the partition.
    Raises CorruptRecord, UnsupportedMessageFormat, RecordTooLarge, InvalidRecord, InvalidTimestamp.
    """
    if not batch:
        raise InvalidRecord("Record batch has no batches at all")
    _, header = next(walk(batch))
    if header.size_bytes < len(batch):
        raise InvalidRecord("Compressed outer record has more than one batch")
    if header.base_offset != 0:
        raise InvalidRecord(
            f"The baseOffset of the record batch in the append to {name} should be 0, "
            f"but it is {header.base_offset}"
        )
    _check_size(batch, name, config)
    check_crc(batch, header)
    problem = _problem(header)
    if problem:
        raise InvalidRecord(f"{problem} in topic partition {name}.")
    if header.is_log_append_time:
        raise InvalidTimestamp(
            f"Producer should not set timestamp type to LogAppendTime in topic partition {name}."
        )
    if config.compression_id not in (None, header.compression_id):
        batch = _compressed_anew(batch, header, config.compression_id or 0)
        header = parse_header(batch)
        _check_size(batch, name, config)
    limits_time = not config.is_log_append_time and config.timestamp_difference_max_ms < NEVER
    if config.compact or limits_time:
        # Imported here, because decoding needs a library that most brokers never use.
        from klamm.brokers.logs.records import decode_batch

        for _, record in decode_batch(batch, header):
            if config.compact and record.key is None:
                raise InvalidRecord(
                    f"Compacted topic cannot accept message without key in topic partition {name}."
                )
            if limits_time:
                check_timestamp(record.timestamp_ms, config, now_ms)
    if config.is_log_append_time:
        return stamped(batch, header, now_ms)
    return batch, header


def _check_size(batch: bytes, name: str, config: LogConfig) -> None:
    if len(batch) > config.max_message_bytes:
        raise RecordTooLarge(
            f"The record batch size in the append to {name} is {len(batch)} bytes "
            f"which exceeds the maximum configured value of {config.max_message_bytes}."
        )


def _compressed_anew(batch: bytes, header: BatchHeader, compression_id: int) -> bytes:
    # Imported here, because decoding needs a library that most brokers never use.
    from klamm.brokers.logs.records import decode_batch, encode_batch

    return encode_batch(
        [stored.record for stored in decode_batch(batch, header)],
        COMPRESSIONS[compression_id],
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def check_timestamp(timestamp_ms: int, config: LogConfig, now_ms: int) -> None:
    """Raise InvalidTimestamp if a record's timestamp is too far from the leader's time.

    The limit is message.timestamp.difference.max.ms.
    """
    difference_max_ms = config.timestamp_difference_max_ms
    if timestamp_ms != NO_TIMESTAMP and abs(timestamp_ms - now_ms) > difference_max_ms:
        raise InvalidTimestamp(
            f"Timestamp {timestamp_ms} of a message is out of range. The timestamp should be "
            f"within [{now_ms - difference_max_ms}, {now_ms + difference_max_ms}]"
        )


def check_fetched(
    records: bytes, name: str, log_start_offset: int, log_end_offset: int
) -> list[BatchHeader]:
    """Validate batches that a follower is about to append to its log; return their headers.

    Raises CorruptRecord, UnsupportedMessageFormat, OffsetsOutOfOrder and UnexpectedAppendOffset.
    """
    headers = check_batches(records)
    for before, header in pairwise(headers):
        if header.base_offset != before.next_offset:
            raise OffsetsOutOfOrder(
                f"Out of order offsets found in append to {name}: "
                f"{header.base_offset} follows {before.last_offset}"
            )
    if headers and headers[0].base_offset != log_end_offset:
        first, last = headers[0].base_offset, headers[-1].last_offset
        raise UnexpectedAppendOffset(
            f"Unexpected offset in append to {name}. First offset {first} is not the next offset "
            f"{log_end_offset}. Last offset in append: {last}. "
            f"Log start offset = {log_start_offset}",
            first_offset=first,
            last_offset=last,
        )
    return headers


def _problem(header: BatchHeader) -> str:
    """Return the reason for which a producer may not send this batch, or "" if there is none."""
    count = header.record_count
    if count <= 0:
        return f"Invalid reported count for record batch: {count}"
    if count != header.last_offset + 1:
        offsets = f"[0, {header.last_offset}]"
        return f"Inconsistent batch offset range {offsets} and count of records {count}"
    if header.is_control:
        return "Clients are not allowed to write control records"
    if header.is_transactional:
        return "Transactions are not supported by klamm"
    if header.has_producer_id and header.base_sequence < 0:
        return (
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )
    if header.compression_id >= len(COMPRESSIONS):
        return f"Unknown compression type id: {header.compression_id}"
    return ""
