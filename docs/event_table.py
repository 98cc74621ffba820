"""Tables of the event table's columns and codes in docs/replay.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from docs.markdown import table
from klamm.replay.encode import PUBLISHED
from klamm.replay.event_schema import CODED_SCHEMA, COLUMN_TEXTS, STATE_CODES

_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.string(): "string",
    CODED_SCHEMA.field("isr").type: "array<int>",
}


def column_table() -> str:
    """Return the table of columns, with the type, nullability and meaning of each."""
    rows = [
        (
            field.name,
            _TYPES[field.type],
            "yes" if field.nullable else "",
            COLUMN_TEXTS[field.name],
        )
        for field in CODED_SCHEMA
    ]
    return table(("column", "type", "null", "meaning"), rows)


def code_table() -> str:
    """Return the table of the codes in the event table, with the string that each stands for."""
    rows = [(name, _codes(enumerate(words, 1))) for name, words in PUBLISHED.items()]
    states = [(code, word) for word, code in STATE_CODES.items()]
    return table(("column", "codes"), [*rows, ("from_state, to_state", _codes(states))])


def _codes(codes: Iterable[tuple[int, object]]) -> str:
    return ", ".join(f"{code} {word}" for code, word in codes)


SECTIONS: Final[dict[str, Callable[[], str]]] = {"columns": column_table, "codes": code_table}
