"""Rows of a journal as the bytes of its file."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from klamm.cluster.journal import JournalRow


def journal_bytes(rows: Sequence[JournalRow]) -> bytes:
    """Encode rows as they are written to a journal's file."""
    return msgspec.json.Encoder().encode_lines(rows)
