"""Batches: what their headers say, that their CRC is heeded, and that they change places whole."""

from __future__ import annotations

import struct

import pytest

from klamm.brokers.logs.errors import CorruptRecord, UnsupportedMessageFormat
from klamm.brokers.logs.record_batch import (
    COMPRESSIONS,
    check_batches,
    check_crc,
    parse_header,
    place,
    walk,
)
from klamm.brokers.logs.records import encode_batch
from klamm.cluster.records import NO_SEQUENCE, SEQUENCE_MAX, Header, Record, StoredRecord
from tests.unit.brokers.logs.batches import NOW_MS, batch, decode_batches, old_message

RECORDS = [
    Record(NOW_MS, b"key", b"x" * 1000, (Header("h", b"1"), Header("none", None))),
    Record(NOW_MS + 5, None, b"y" * 1000),
    Record(NOW_MS + 2, b"deleted", None),
]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_are_decoded_as_they_were_encoded(compression: str) -> None:
    encoded = encode_batch(RECORDS, compression, producer_id=7, producer_epoch=1, base_sequence=40)
    header = parse_header(encoded)
    check_crc(encoded, header)
    assert COMPRESSIONS[header.compression_id] == compression
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 3)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS + 5)
    assert header.producer_batch[:4] == (7, 1, 40, 42)
    assert list(decode_batches(place(encoded, 500, 3))) == [
        StoredRecord(500 + number, record) for number, record in enumerate(RECORDS)
    ]


def test_a_leader_sets_offset_and_epoch_and_the_crc_stays_valid() -> None:
    placed = place(batch(b"a", b"b"), 2**40, 12)
    (header,) = check_batches(placed)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (2**40, 2**40 + 2, 12)
    assert placed[16:] == batch(b"a", b"b")[16:]


def test_every_byte_after_the_crc_counts() -> None:
    good = batch(b"abc")
    for at in range(17, len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(CorruptRecord):
            check_batches(bytes(bad))


def test_damage_is_distinguished_from_messages_of_old_formats() -> None:
    good = batch(b"abc")
    with pytest.raises(CorruptRecord, match="Invalid magic found in record: 3"):
        parse_header(good[:16] + b"\x03" + good[17:])
    for magic in (b"\x00", b"\x01"):
        with pytest.raises(CorruptRecord, match="Invalid magic found in record"):
            parse_header(good[:16] + magic + good[17:])
    with pytest.raises(UnsupportedMessageFormat, match="format 1"):
        parse_header(old_message(b"x" * 40))
    with pytest.raises(CorruptRecord, match="Invalid magic found in record: 0"):
        parse_header(bytes(len(good)))
    with pytest.raises(CorruptRecord, match="smaller than the minimum"):
        parse_header(good[:8] + struct.pack(">i", 48) + good[12:])


@pytest.mark.parametrize("cut", [1, 60, 61, 62])
def test_batches_end_where_the_bytes_end(cut: int) -> None:
    two = batch(b"a") + batch(b"b")
    assert [position for position, _ in walk(two)] == [0, len(two) // 2]
    with pytest.raises(CorruptRecord):
        check_batches(two[:-cut])


def test_sequences_begin_again_after_the_largest() -> None:
    header = parse_header(batch(b"a", b"b", b"c", producer_id=1, base_sequence=SEQUENCE_MAX - 1))
    assert header.last_sequence == 0
    assert header._replace(base_sequence=NO_SEQUENCE).last_sequence == NO_SEQUENCE


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_records_that_cannot_be_decoded_are_corrupt(compression: str) -> None:
    good = encode_batch(RECORDS, compression)
    spoilt = good[:70] + bytes(byte ^ 0x5A for byte in good[70:90]) + good[90:]
    with pytest.raises(CorruptRecord, match="offsets 0 to 2 cannot be decoded"):
        list(decode_batches(spoilt))
