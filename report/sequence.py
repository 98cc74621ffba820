"""Geometry of sequence diagrams, which templates/plots.html draws as SVG.

Each arrow is on a separate row, below the names of the lifelines. Time runs downwards in the order
of the arrows, not to scale. This module only computes positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from klamm.report.scales import elapsed_text
from klamm.report.values import Arrow, SequenceDiagram, Span

_WIDTH: Final = 960.0
_TIMES: Final = 76.0
_RIGHT: Final = 56.0
_HEAD: Final = 30.0
_ROW: Final = 32.0
_CHARACTER: Final = 6.9
_MOST_CHARACTERS: Final = 120
_LOOP: Final = 26.0


def drawn_sequence(diagram: SequenceDiagram) -> dict[str, Any]:
    """Return the template's values for a sequence diagram."""
    names = list(diagram.lives)
    gap = (_WIDTH - _TIMES - _RIGHT) / max(len(names), 1)
    xs = {name: _TIMES + (n + 0.5) * gap for n, name in enumerate(names)}
    height = _HEAD + len(diagram.arrows) * _ROW + 12
    rows = [_row(arrow, n, xs) for n, arrow in enumerate(diagram.arrows)]
    times = [elapsed_text(arrow.t_ms) for arrow in diagram.arrows]
    for n, row in enumerate(rows):
        row["time"] = times[n] if n == 0 or times[n] != times[n - 1] else ""
    return {
        "kind": "SequenceDiagram",
        "title": diagram.title,
        "summary": f"{len(rows)} rows between {len(names)} lifelines: {', '.join(names)}",
        "width": _WIDTH,
        "height": height,
        "head": _HEAD,
        "names": list(xs.items()),
        "lives": [life for name, x in xs.items() for life in _lives(diagram, name, x)],
        "rows": rows,
    }


def _lives(diagram: SequenceDiagram, name: str, x: float) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a lifeline: it changes at the row of the first arrow after a change."""
    spans, times = diagram.lives[name], [arrow.t_ms for arrow in diagram.arrows]
    for span, rows in groupby(range(len(times)), key=lambda n: _span_at(spans, times[n])):
        if span is not None:
            piece = list(rows)
            top, bottom = _HEAD + piece[0] * _ROW, _HEAD + (piece[-1] + 1) * _ROW
            yield {"x": x, "top": top, "bottom": bottom, "tone": span.tone, "text": span.text}


def _span_at(spans: Sequence[Span], t_ms: int) -> Span | None:
    return next((span for span in reversed(spans) if span.begin_ms <= t_ms <= span.end_ms), None)


def _row(arrow: Arrow, n: int, xs: dict[str, float]) -> dict[str, Any]:
    """Return one row: its text, its lines, and the points and dots at their ends."""
    y = _HEAD + (n + 1) * _ROW - 8
    text = arrow.text
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS - 1]}…"
    sources, targets = ([xs[name] for name in names] for names in (arrow.sources, arrow.targets))
    row = {"y": y, "text": text, "full": arrow.text, "tone": arrow.tone, "top": y - _ROW + 8}
    row |= {"dashed": arrow.is_dashed, "line": "", "heads": "", "dots": sources, "across": False}
    if not sources:
        return {**row, "across": True, "label_x": _label_x(_TIMES, text), "label_y": y - 7}
    ends = [*sources, *targets]
    row |= {"label_x": _label_x(min(ends) + 6, text), "label_y": y - 7}
    if not targets:
        return row | {"label_x": _label_x(sources[0] + 10, text), "label_y": y - 3, "note": True}
    if set(ends) == {sources[0]}:
        x = sources[0]
        row["line"] = f"M{x:.1f} {y - 6:.1f}h{_LOOP}v6H{x:.1f}"
        row["label_x"] = _label_x(x + _LOOP + 6, text)
        row["label_y"] = y
    else:
        row["line"] = f"M{min(ends):.1f} {y:.1f}H{max(ends):.1f}"
    left = sources[0]
    row["heads"] = "".join(_head(x, y, points_left=x <= left) for x in targets)
    return row


def _head(x: float, y: float, *, points_left: bool) -> str:
    back = 8 if points_left else -8
    return f"M{x + back:.1f} {y - 4:.1f}L{x:.1f} {y:.1f}L{x + back:.1f} {y + 4:.1f}Z"


def _label_x(begin: float, text: str) -> float:
    """Return the left end of a label that begins at ``begin`` if there is enough room."""
    return max(min(begin, _WIDTH - 4 - len(text) * _CHARACTER), 4.0)
