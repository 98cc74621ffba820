"""Pages: whole HTML that loads nothing, holds what it was given, and lets no name break it."""

from __future__ import annotations

import random

import pytest

from klamm.report.page import MOST_TABLE_ROWS, page_html
from klamm.report.plots import WIDTH, frame_of
from klamm.report.plots import drawn as draw
from klamm.report.values import (
    Arrow,
    Bar,
    Block,
    Figure,
    Gantt,
    HeatMap,
    Lane,
    Lanes,
    Life,
    LifeLines,
    Marker,
    Page,
    Section,
    SequenceDiagram,
    Span,
    StepPlot,
    StepRows,
    Steps,
    Table,
    Tone,
)
from tests.unit.report.pages import Element, everything, loaded, read_page

BEGIN = 1_630_490_400_000
HOUR = 3_600_000
MARKS = (
    Marker(BEGIN, "broker failure", "broker failure on broker 2", Tone.BAD),
    Marker(BEGIN + HOUR, "election", "7 elections"),
)
LIFE = Life([(BEGIN, 1, 3, "OnlinePartition"), (BEGIN + HOUR, -1, 1, "OfflinePartition")], 2)
HOSTILE = (
    "</title><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</svg></style><iframe src=//evil.example>",
    "' onmouseover='alert(1)",
    "\u202egnp.exe\u202c",
    "\x00\x1b[31mred\ud800",
    "&lt;b&gt; &amp;",
    "]]><!--",
)


def plots(name: str = "orders-3") -> list[Block]:
    steps = Steps(name, [(BEGIN, 0), (BEGIN + HOUR, 1200), (BEGIN + 2 * HOUR, 3)])
    end = BEGIN + 3 * HOUR
    bars = [
        Bar(name, BEGIN, BEGIN + HOUR, "completed", Tone.GOOD),
        Bar(f"{name} again", BEGIN + HOUR, None, "stuck", Tone.WARNING),
    ]
    return [
        StepPlot(f"{name}: plot", steps, end, "note of the plot", MARKS),
        StepRows(f"{name}: rows", [steps, Steps("broker 2", [(BEGIN, 7)])], BEGIN, end),
        HeatMap(f"{name}: heat", [name, "broker 2"], 3, BEGIN, HOUR, {(0, 0): 4, (1, 2): 40}),
        Gantt(f"{name}: gantt", bars, end),
        Table(f"{name}: table", ("topic", "count"), [(name, 1234567), ("b", None)]),
        LifeLines(f"{name}: life", {name: LIFE}, BEGIN, end, [MARKS]),
    ]


def a_page(name: str = "orders-3") -> Page:
    return Page(
        f"Replay of {name}",
        f"3 violations in {name}",
        Tone.BAD,
        [Figure("1,204", f"events of {name}"), Figure("3", "violations", Tone.BAD)],
        [("source", name)],
        [Section(f"Plots of {name}", f"All about {name}.", plots(name)), Section("Nothing")],
    )


def drawn(*blocks: Block) -> Element:
    return read_page(page_html(Page("t", "v", sections=[Section("s", "", blocks)])))


def rows_of(table: Element) -> list[list[str]]:
    return [[cell.text for cell in row.all("td")] for row in table.only("tbody").all("tr")]


def test_a_page_has_its_values_in_its_order() -> None:
    root = read_page(page_html(a_page()))
    html = root.only("html")
    assert html.attributes["lang"] == "en"
    assert html.only("head").only("title").text == "Replay of orders-3"
    assert html.only("h1").text == "Replay of orders-3"
    assert html.only("p", "verdict").attributes["class"] == "verdict bad"
    assert [e.text for e in html.only("dl", "figures").all("dd")] == ["1,204", "3"]
    assert [e.text for e in html.all("h2")] == ["Plots of orders-3", "Nothing"]
    assert [e.text for e in html.all("h3")] == [
        f"orders-3: {kind}" for kind in ("plot", "rows", "heat", "gantt", "life")
    ]
    assert len(html.all("svg", "plot")) == len(html.all("figure")) == 5
    targets = {e.attributes["id"] for e in everything(html) if "id" in e.attributes}
    assert {f"#{target}" for target in targets} >= {
        e.attributes["href"] for e in html.only("nav").all("a")
    }


def test_a_page_loads_nothing_and_runs_only_its_script() -> None:
    page = page_html(a_page())
    root = read_page(page)
    assert loaded(root) == []
    assert "//" not in page
    policy = next(
        e for e in root.all("meta") if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.attributes["content"].startswith("default-src 'none';")


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_a_page(name: str) -> None:
    ordinary, hostile = (read_page(page_html(a_page(n))) for n in ("orders-3", name))
    assert [e.tag for e in everything(hostile)] == [e.tag for e in everything(ordinary)]
    assert [sorted(e.attributes) for e in everything(hostile)] == [
        sorted(e.attributes) for e in everything(ordinary)
    ]
    assert loaded(hostile) == []
    text = hostile.only("h1").text
    for before, shown in zip(f"Replay of {name}", text, strict=True):
        assert shown in (before, "\ufffd")
    page_html(a_page(name)).encode()


def test_every_plot_has_a_text_for_screen_readers() -> None:
    root = read_page(page_html(a_page()))
    ids = [e.attributes["id"] for e in everything(root) if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for svg in root.all("svg", "plot"):
        assert svg.attributes["role"] == "img"
        title, told = svg.attributes["aria-labelledby"].split()
        named = {e.attributes.get("id"): e.text for e in everything(svg)}
        assert named[title] and named[told]
    (plot, *_) = root.all("svg", "plot")
    assert "marks: broker failure 1; marks: election 1" in plot.only("desc").text
    assert "at most 1,200 at 2021-09-01 11:00:00.000" in plot.only("desc").text


def test_every_plot_stands_beside_its_table() -> None:
    root = read_page(page_html(a_page()))
    tables = {t.only("caption").text: rows_of(t) for t in root.all("table")}
    assert tables["orders-3: plot"] == [
        ["2021-09-01 10:00:00.000", "0"],
        ["2021-09-01 11:00:00.000", "1,200"],
        ["2021-09-01 12:00:00.000", "3"],
    ]
    assert tables["orders-3: rows"] == [
        ["orders-3", "0", "1,200", "3"],
        ["broker 2", "7", "7", "7"],
    ]
    assert tables["orders-3: heat"] == [["orders-3", "4"], ["broker 2", "40"]]
    assert [row[3:] for row in tables["orders-3: gantt"]] == [
        ["1 h 00 min", "completed"],
        ["2 h 00 min", "stuck"],
    ]
    assert tables["orders-3: table"] == [["orders-3", "1,234,567"], ["b", ""]]


def test_a_row_ends_with_its_last_value_and_all_rows_have_no_caption() -> None:
    steps = Steps("broker 1", [(BEGIN, 5), (BEGIN + HOUR, 1_234)])
    rows = StepRows("r", [steps], BEGIN, BEGIN + 2 * HOUR, total=1)
    heat = HeatMap("h", ["a", "b"], 1, BEGIN, HOUR, {(0, 0): 1})
    (row,) = draw(rows, frame_of([rows]))["rows"]
    assert row["last"] == "1,234"
    assert "Only the first" not in page_html(
        Page("t", "v", sections=[Section("s", "", [rows, heat])])
    )
    few = StepRows("r", [steps], BEGIN, BEGIN + 2 * HOUR, total=3)
    page = page_html(Page("t", "v", sections=[Section("s", "", [few])]))
    assert "Only the first 1 of 3 are drawn." in page


def test_the_table_of_a_timeline_is_in_order_of_time() -> None:
    lanes = [
        Lane("broker 1", [Span(BEGIN + 2_000, BEGIN + 3_000, "dead")]),
        Lane("broker 2", [Span(BEGIN, BEGIN + 1_000, "slow")]),
    ]
    marks = (Marker(BEGIN + 1_500, "election", "an election"),)
    root = drawn(Lanes("l", lanes, BEGIN, BEGIN + 4_000, marks=marks))
    assert [(row[0], row[-1]) for row in rows_of(root.only("table"))] == [
        ("broker 2", "slow"),
        ("election", "an election"),
        ("broker 1", "dead"),
    ]


def test_every_label_of_a_lane_is_shown_beside_its_moment_and_covers_no_other() -> None:
    moments = [
        Span(BEGIN + n // 3 * 300, BEGIN + n // 3 * 300, f"step {n}" + "x" * (n * 7 % 11))
        for n in range(36)
    ]
    faults = [Span(BEGIN + n, BEGIN + 1_000 + n, f"fault {n}") for n in range(20)]
    lanes = [Lane("steps", moments, is_labelled=True), Lane("faults", faults, is_labelled=True)]
    root = drawn(Lanes("l", lanes, BEGIN, BEGIN + 3_500))
    labels = [text for text in root.all("text", "label") if not text.attributes.get("style")]
    assert [label.text for label in labels] == [span.text for span in (*moments, *faults)]
    taken: list[tuple[float, float, float]] = []
    for label in labels:
        at, y, begin, length = (
            float(str(label.attributes[name])) for name in ("x", "y", "data-begin", "data-length")
        )
        assert at == begin
        x = at - length if label.attributes.get("text-anchor") == "end" else at
        assert x + length <= WIDTH - 50
        assert all(y != row or x >= end or x + length <= start for row, start, end in taken)
        taken.append((y, x, x + length))
    assert len({y for y, _, _ in taken[:36]}) == 9, "labels that fit share a row"


def test_a_box_that_is_longer_than_its_label_is_covered_by_no_other() -> None:
    faults = [Span(BEGIN, BEGIN + 3_000, "cut"), Span(BEGIN + 1_500, BEGIN + 2_000, "delay")]
    root = drawn(Lanes("l", [Lane("faults", faults, is_labelled=True)], BEGIN, BEGIN + 3_500))
    boxes = [rect for rect in root.all("rect") if "span" in str(rect.attributes.get("class"))]
    (top, height), (next_top, _) = (
        (float(str(box.attributes["y"])), float(str(box.attributes["height"]))) for box in boxes
    )
    assert next_top >= top + height


def test_a_long_name_and_a_long_label_are_cut_and_their_titles_are_not() -> None:
    name, text = "n" * 249, "t" * 249
    lanes = [Lane(name, [Span(BEGIN, BEGIN, text)], is_labelled=True)]
    root = drawn(Lanes("l", lanes, BEGIN, BEGIN + 1_000))
    assert (root.only("text", "name").text, root.only("text", "label").text) == (
        f"{name[:21]}…",
        f"{text[:43]}…",
    )
    titles = [title.text for title in root.only("svg", "plot").all("title")]
    assert titles == ["l", name, f"{name}: {text}, 2021-09-01 10:00:00.000"]


def test_a_lifeline_shows_the_state_at_each_arrow_and_at_a_change_the_new_one() -> None:
    states = [Span(5, 10, "alive"), Span(10, 20, "dead", Tone.BAD), Span(40, 60, "alive")]
    arrows = [Arrow(t_ms, f"at {t_ms}", ("broker 1",)) for t_ms in (0, 5, 9, 10, 20, 30, 40)]
    root = drawn(SequenceDiagram("s", {"broker 1": states}, arrows))
    lines = root.all("line", "lifeline")
    ends = [[float(str(line.attributes[name])) for name in ("y1", "y2")] for line in lines]
    (top, _), *_ = ends
    height = (ends[0][1] - top) / 2
    assert [line.only("title").text for line in lines] == ["alive", "dead", "alive"]
    assert [[(y - top) / height for y in pair] for pair in ends] == [[0, 2], [2, 4], [5, 6]]


def test_a_label_stays_inside_the_picture() -> None:
    bars = [Bar("topic-00000-0", BEGIN, None, "open, last A2", Tone.WARNING)]
    (label,) = (
        text
        for text in drawn(Gantt("bars", bars, BEGIN + HOUR + HOUR // 10)).all("text")
        if text.text == "1 h 06 min, open, last A2"
    )
    assert float(str(label.attributes["x"])) + 6.5 * len(label.text) <= WIDTH


def test_the_text_of_an_arrow_stays_inside_the_picture_as_long_as_it_fits() -> None:
    lives: dict[str, list[Span]] = {f"broker {n}": [] for n in range(9)}
    words = ("short", "x" * 40, "x" * 200)
    arrows = [Arrow(0, text, ("broker 8",)) for text in words]
    texts = [
        text
        for text in drawn(SequenceDiagram("s", lives, arrows)).all("text")
        if text.text[:1] in ("s", "x")
    ]
    begins = [float(str(text.attributes["x"])) for text in texts]
    ends = [begin + 6.9 * len(text.text) for begin, text in zip(begins, texts, strict=True)]
    assert begins[0] > begins[1] > begins[2]
    assert max(ends) <= WIDTH - 4 and begins[2] >= 4


def test_a_step_line_is_flat_until_the_value_changes() -> None:
    root = drawn(*plots()[:1])
    (line,) = root.all("path", "step")
    assert line.attributes["d"] == "M150 212H401.33V52H652.67V211.6H904"


def test_cells_and_bars_stand_where_their_times_are() -> None:
    root = drawn(*plots()[2:4])
    cells = [e for e in root.all("rect", "cell") if e.all("title")]
    assert [e.only("title").text for e in cells] == [
        "orders-3, from 2021-09-01 10:00:00.000: 4 changes",
        "broker 2, from 2021-09-01 12:00:00.000: 40 changes",
    ]
    assert [e.attributes["x"] for e in cells] == ["150", "652.67"]
    faint, full = (float(e.attributes["fill-opacity"] or 0) for e in cells)
    assert faint < full == 1
    done, stuck = root.all("rect", "bar")
    assert done.attributes["class"] == "bar good"
    assert stuck.attributes["class"] == "bar warning open"
    half, whole = (float(e.attributes["width"] or 0) for e in (done, stuck))
    assert whole == pytest.approx(2 * half, abs=0.1)


def test_all_plots_share_the_time_axis_and_mark_what_happened() -> None:
    root = drawn(*plots())
    assert len({svg.attributes["viewbox"] for svg in root.all("svg", "time")}) == 5
    assert {(e.attributes["x"], e.attributes["width"]) for e in root.all("svg", "time")} == {
        ("150", "754")
    }
    ticks = [[e.text for e in g.all("text")] for g in root.all("g", "ticks")]
    assert len(ticks) == 5 and ticks.count(ticks[0]) == 5
    assert [e.attributes["href"] for e in root.all("use")] == [
        "#marks-0",
        *["#marks-1"] * 3,
        "#marks-0",
    ]
    (failure, election) = root.only("defs").children[0].all("path", "tick")
    assert failure.attributes["class"] == "tick bad"
    assert failure.attributes["d"] == "M150 2v10"
    assert election.attributes["d"] == "M401.33 16v10"
    (through,) = root.only("defs").all("path", "through")
    assert through.attributes["d"] == "M150 2V4000"


def test_the_time_axis_ends_with_the_last_bar() -> None:
    late = Gantt("late", [Bar("r", BEGIN, BEGIN + HOUR, "completed")], BEGIN + 1)
    assert (frame_of([late]).x.low, frame_of([late]).x.high) == (BEGIN, BEGIN + HOUR)


def test_a_page_of_many_lives_is_small() -> None:
    chosen = random.Random(1)
    states = ["OnlinePartition", "OfflinePartition", "NewPartition"]

    def life() -> Life:
        times = sorted(chosen.randrange(BEGIN, BEGIN + 24 * HOUR) for _ in range(10))
        changes = [
            (t_ms, chosen.randrange(100), chosen.randrange(4), chosen.choice(states))
            for t_ms in times
        ]
        return Life(changes, 10)

    lives = {f"topic-{n % 2000}-{n // 2000}": life() for n in range(3_000)}
    block = LifeLines("life", lives, BEGIN, BEGIN + 24 * HOUR, [MARKS])
    assert len(page_html(Page("t", "v", sections=[Section("s", "", [block])]))) < 350_000


def test_a_plot_that_is_too_long_is_cut_with_a_note() -> None:
    rows = [(f"topic-{n}", n) for n in range(MOST_TABLE_ROWS + 50)]
    table = drawn(Table("long", ("topic", "count"), rows))
    assert len(rows_of(table.only("table"))) == MOST_TABLE_ROWS
    assert table.all("p", "note")[-1].text == "and 50 more"
    known = drawn(Table("part", ("topic", "count"), rows[:10], total=1_000_010))
    assert known.all("p", "note")[-1].text == "and 1,000,000 more"
    bars = [Bar(f"r-{n}", BEGIN, BEGIN + n, "completed") for n in range(200)]
    gantt = drawn(Gantt("many", bars, BEGIN + 200))
    assert len(gantt.all("rect", "bar")) == 60
    assert "Only the first 60 of 200 are drawn." in gantt.only("figcaption").text
    many = [Steps(f"broker {n}", [(BEGIN, n)]) for n in range(1000)]
    leaders = drawn(StepRows("leaders", many, BEGIN, BEGIN + 1))
    assert len(leaders.all("path", "step")) == 40
    assert "Only the first 40 of 1,000 are drawn." in leaders.only("figcaption").text
    # What is not drawn does not count for the scales.
    rows_plot = StepRows("leaders", many, BEGIN, BEGIN + 1)
    assert str(draw(rows_plot, frame_of([rows_plot]))["summary"]).endswith("scale from 0 to 39")
    heat = HeatMap("h", ["a"], 2, BEGIN, HOUR, {(0, 1): 3, (0, 2): 9, (1, 0): 9})
    assert [cell["opacity"] for cell in draw(heat, frame_of([heat]))["cells"]] == [1]
    steps = Steps("offline", [(BEGIN + n, n % 7) for n in range(100_000)])
    page = page_html(Page("t", "v", sections=[Section("s", "", [StepPlot("p", steps, BEGIN)])]))
    assert len(page) < 200_000
    assert "Reduced from 100,000 changes" in page


def test_plots_and_tables_without_rows_say_none() -> None:
    end = BEGIN
    root = drawn(
        StepPlot("p", Steps("n", []), end),
        StepRows("r", [], BEGIN, end),
        HeatMap("h", [], 0, BEGIN, 1, {}),
        Gantt("g", [], end),
        Table("t", ("a",), []),
    )
    assert [e.text for e in root.all("p", "note")] == ["none"] * 5
    assert len(root.all("svg", "plot")) == 4
