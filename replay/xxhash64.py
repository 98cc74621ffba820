"""Spark's xxhash64 of a string, in plain Python, for tables that are written without Spark.

XXH64 of the UTF-8 bytes with Spark's seed, as a signed number. Meant for names, of which there are
few beside the rows. Mirrors org.apache.spark.sql.catalyst.expressions.XXH64.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

SPARK_SEED: Final = 42
_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5
_STRIPE: Final = Struct("<4Q")
_LONG: Final = Struct("<Q")
_INT: Final = Struct("<I")
_SIGN: Final = 1 << 63


def xxhash64(text: str) -> int:
    """What F.xxhash64 says of a column with this string alone."""
    data = text.encode()
    size, at = len(data), 0
    if size >= _STRIPE.size:
        sums = [
            SPARK_SEED + _P1 + _P2 & _MASK,
            SPARK_SEED + _P2 & _MASK,
            SPARK_SEED,
            SPARK_SEED - _P1 & _MASK,
        ]
        while at + _STRIPE.size <= size:
            lanes = _STRIPE.unpack_from(data, at)
            sums = [_round(total, lane) for total, lane in zip(sums, lanes, strict=True)]
            at += _STRIPE.size
        turns = zip(sums, (1, 7, 12, 18), strict=True)
        found = sum(_rotated(total, bits) for total, bits in turns) & _MASK
        for total in sums:
            found = (found ^ _round(0, total)) * _P1 + _P4 & _MASK
    else:
        found = SPARK_SEED + _P5
    found = _rest(found + size & _MASK, data, at)
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    found ^= found >> 32
    return found - (1 << 64) if found & _SIGN else found


def _rest(found: int, data: bytes, at: int) -> int:
    """The bytes that fill no stripe."""
    size = len(data)
    while at + _LONG.size <= size:
        (lane,) = _LONG.unpack_from(data, at)
        found = _rotated(found ^ _round(0, lane), 27) * _P1 + _P4 & _MASK
        at += _LONG.size
    if at + _INT.size <= size:
        (lane,) = _INT.unpack_from(data, at)
        found = _rotated(found ^ lane * _P1 & _MASK, 23) * _P2 + _P3 & _MASK
        at += _INT.size
    for byte in data[at:]:
        found = _rotated(found ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    return found


def _round(total: int, lane: int) -> int:
    return _rotated(total + lane * _P2 & _MASK, 31) * _P1 & _MASK


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK
