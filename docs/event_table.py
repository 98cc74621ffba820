"""Tables of the event table's columns and codes in docs/replay.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from docs.markdown import table
from klamm.replay.encode import PUBLISHED
from klamm.replay.event_schema import CODED_SCHEMA, COLUMN_TEXTS, STATE_CODES


def column_table() -> str:
    """Return the table of columns: type, whether it may be null, meaning."""
    rows = [
        (
            field.name,
            field.dataType.simpleString(),
            "yes" if field.nullable else "",
            COLUMN_TEXTS[field.name],
        )
        for field in CODED_SCHEMA
    ]
    return table(("column", "type", "null", "meaning"), rows)


def code_table() -> str:
    """Return the table of published codes."""
    rows = [(name, _codes(enumerate(words, 1))) for name, words in PUBLISHED.items()]
    states = [(code, word) for word, code in STATE_CODES.items()]
    return table(("column", "codes"), [*rows, ("from_state, to_state", _codes(states))])


def _codes(codes: Iterable[tuple[int, object]]) -> str:
    return ", ".join(f"{code} {word}" for code, word in codes)


SECTIONS: Final[dict[str, Callable[[], str]]] = {"columns": column_table, "codes": code_table}
