"""Pages with generated parts: what they show is what the code and the runs say now."""

from __future__ import annotations

import pytest

from docs.drill_tables import drill_table
from docs.generate import PAGES, ROOT, fill
from docs.known_bugs import WITHOUT_A_SWITCH, KnownBug
from docs.quirk_texts import quirk_table
from klamm.cluster.quirks import Quirks
from klamm.lab.conditions.triggers import TRIGGERS
from klamm.lab.drills.bug_texts import quirk_texts
from klamm.lab.language.clusters import CLUSTER_WORDS
from klamm.lab.language.language import DRILL_WORDS
from klamm.lab.language.step_language import STEP_WORDS

SLOW = ("docs/replay.md",)


@pytest.mark.timeout(600)  # a page of bugs runs all their drills
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PAGES]
)
def test_the_page_is_as_it_is_generated(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- generated: " in page
    assert PAGES[name](page) == page, f"{name} is stale: make docs"


def test_every_word_of_the_drill_language_has_a_row() -> None:
    page = (ROOT / "docs/drills.md").read_text(encoding="utf-8")
    words = {*DRILL_WORDS, *CLUSTER_WORDS, *STEP_WORDS} - {*TRIGGERS}
    assert {word for word in words if f"\n| `{word}` | " not in page} == set()


def test_a_drill_is_marked_with_the_worlds_it_runs_in() -> None:
    table = drill_table()
    assert "| `zookeeper-leader-killed` | real only |" in table
    assert "| `zookeeper-quorum-lost` | real only |" in table
    assert "| `a-day-at-constant-rates` | simulated only |" in table
    assert "| `leader-loss` | both |" in table


def test_a_stale_section_is_made_afresh_and_the_rest_is_kept() -> None:
    page = "above\n<!-- generated: x -->\nold\n<!-- end -->\nbelow\n"
    assert fill(page, {"x": lambda: "new\n"}) == page.replace("old", "new")
    with pytest.raises(KeyError, match="x"):
        fill(page, {"y": lambda: ""})


def test_every_quirk_says_what_kafka_does_and_what_klamm_does() -> None:
    assert tuple(quirk_texts()) == Quirks.__struct_fields__
    assert all(len(paragraphs) == 2 for paragraphs in quirk_texts().values())
    assert "| KAFKA-13225 | A dead broker" in quirk_table()


@pytest.mark.parametrize("bug", WITHOUT_A_SWITCH, ids=lambda bug: bug.name)
def test_a_known_bug_names_a_test_that_exists(bug: KnownBug) -> None:
    file, _, function = bug.test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {function}(" in text
    assert bug.name in text.partition(f"def {function}(")[2].partition("\ndef ")[0]
