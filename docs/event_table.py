"""The tables of docs/event-table.md, from replay/event_schema.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from replay.encode import PUBLISHED
from replay.event_schema import CODED_SCHEMA, COLUMN_TEXTS, STATE_CODES


def column_table() -> str:
    """Every column: its type, whether it may be null, what it says."""
    lines = ["| column | type | null | |", "|---|---|---|---|"]
    lines += [
        f"| {field.name} | {field.dataType.simpleString()} | {'yes' if field.nullable else ''} "
        f"| {COLUMN_TEXTS[field.name]} |"
        for field in CODED_SCHEMA
    ]
    return "\n".join(lines) + "\n"


def code_table() -> str:
    """Every code of every published list."""
    lists = {name: list(enumerate(words, 1)) for name, words in PUBLISHED.items()}
    states = [(code, word) for word, code in STATE_CODES.items()]
    lines = ["| column | codes |", "|---|---|"]
    lines += [f"| {name} | {_codes(codes)} |" for name, codes in lists.items()]
    lines.append(f"| from_state, to_state | {_codes(states)} |")
    return "\n".join(lines) + "\n"


def _codes(codes: Iterable[tuple[int, object]]) -> str:
    return ", ".join(f"{code} {word}" for code, word in codes)


SECTIONS: Final[dict[str, Callable[[], str]]] = {"columns": column_table, "codes": code_table}
