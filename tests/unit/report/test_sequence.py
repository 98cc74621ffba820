"""Where a sequence diagram has its lifelines, arrows and labels."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.report.sequence import drawn_sequence
from klamm.report.values import Arrow, SequenceDiagram, Span, Tone

NAMES = ("a", "b", "c")
"""Their lifelines are at 214, 490 and 766."""
RIGHT, LEFT = "M758.0 50.0L766.0 54.0L758.0 58.0Z", "M222.0 50.0L214.0 54.0L222.0 58.0Z"
ACROSS = "M214.0 54.0H766.0"


def drawn(*arrows: Arrow, **lives: list[Span]) -> dict[str, Any]:
    every = {name: lives.get(name, []) for name in NAMES}
    return drawn_sequence(SequenceDiagram("d", every, arrows))


@pytest.mark.parametrize(
    ("sources", "targets", "line", "heads", "dots", "label"),
    [
        (("a",), ("c",), ACROSS, RIGHT, [214], (220, 47)),
        (("c",), ("a",), ACROSS, LEFT, [766], (220, 47)),
        (("b",), ("a", "c"), ACROSS, LEFT + RIGHT, [490], (220, 47)),
        (("a", "b"), ("c",), ACROSS, RIGHT, [214, 490], (220, 47)),
        (("a",), ("a",), "M214.0 48.0h26.0v6H214.0", LEFT, [214], (246, 54)),
        (("b",), (), "", "", [490], (500, 51)),
        ((), (), "", "", [], (76, 47)),
    ],
)
def test_an_arrow_leads_from_its_sources_to_its_targets(
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    line: str,
    heads: str,
    dots: list[float],
    label: tuple[float, float],
) -> None:
    (row,) = drawn(Arrow(5, "text", sources, targets, Tone.BAD, is_dashed=True))["rows"]
    assert (row["line"], row["heads"], row["dots"]) == (line, heads, dots)
    assert (row["label_x"], row["label_y"]) == label
    assert (row["y"], row["text"], row["tone"], row["dashed"]) == (54, "text", Tone.BAD, True)
    assert (row["across"], row.get("note", False)) == (not sources, bool(sources) and not targets)


@pytest.mark.parametrize(
    ("text", "shown", "label_x"),
    [
        ("x" * 66, "x" * 66, 500),
        ("x" * 100, "x" * 100, 266),
        ("x" * 120, "x" * 120, 128),
        ("x" * 121, "x" * 119 + "\u2026", 128),
    ],
)
def test_a_label_has_room(text: str, shown: str, label_x: float) -> None:
    (row,) = drawn(Arrow(0, text, ("b",)))["rows"]
    assert (row["text"], row["full"]) == (shown, text)
    assert row["label_x"] == pytest.approx(label_x, abs=0.7)


def test_rows_are_in_order_and_say_a_time_once() -> None:
    diagram = drawn(*(Arrow(t_ms, "", ("a",)) for t_ms in (0, 0, 7, 9_000, 9_000)))
    assert [row["y"] for row in diagram["rows"]] == [54, 86, 118, 150, 182]
    assert [row["time"] for row in diagram["rows"]] == ["0.000 s", "", "0.007 s", "9.000 s", ""]
    assert diagram["height"] == 202
    assert diagram["names"] == [("a", 214), ("b", 490), ("c", 766)]
    assert diagram["summary"] == "5 rows between 3 lifelines: a, b, c"


def test_a_lifeline_has_the_state_of_each_row() -> None:
    spans = [Span(0, 10, "up"), Span(10, 20, "dead", Tone.BAD), Span(30, 40, "up")]
    times = (0, 9, 10, 20, 25, 40, 41)
    lives = drawn(*(Arrow(t_ms, "", ("b",)) for t_ms in times), b=spans)["lives"]
    assert [(life["top"], life["bottom"], life["text"], life["tone"]) for life in lives] == [
        (30, 94, "up", Tone.PLAIN),
        (94, 158, "dead", Tone.BAD),
        (190, 222, "up", Tone.PLAIN),
    ]
    assert {life["x"] for life in lives} == {490}
