"""Tables in docs/replay.md: columns and codes of the event table, answers, planted anomalies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from docs.markdown import table
from klamm.replay.answers import Question, Reading, how_answered
from klamm.replay.encode import PUBLISHED
from klamm.replay.event_schema import CODED_SCHEMA, COLUMN_TEXTS, STATE_CODES
from klamm.replay.generate.options import CANNOT_HOLD, Format, Planted

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


def answer_table() -> str:
    """Return a Markdown table of questions and kinds of logs, with reasons as numbered notes."""
    notes: dict[str, int] = {}
    lines = [f"| question | {' | '.join(Reading)} |", f"|---{'|---' * len(Reading)}|"]
    for question in Question:
        cells = []
        for reading in Reading:
            how, why = how_answered(question, reading)
            note = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
            cells.append(f"{how}{note}")
        lines.append(f"| {question} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {why}" for why, number in notes.items())]
    return "\n".join(lines) + "\n"


def planted_table() -> str:
    """Return a Markdown table that shows which format can contain which kinds of anomaly."""
    lines = [f"| kind | {' | '.join(Format)} |", f"|---{'|---' * len(Format)}|"]
    for kind in Planted:
        cells = (CANNOT_HOLD[written_as].get(kind) for written_as in Format)
        lines.append(
            f"| `{kind}` | {' | '.join('yes' if why is None else f'no: {why}' for why in cells)} |"
        )
    return "\n".join(lines) + "\n"


SECTIONS: Final[dict[str, Callable[[], str]]] = {
    "columns": column_table,
    "codes": code_table,
    "planted": planted_table,
    "answers": answer_table,
}
