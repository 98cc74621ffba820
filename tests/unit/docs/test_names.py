"""What the pages name is there: links, files, events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from klamm.controller import events

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in ("bench", "docs") for page in (ROOT / folder).rglob("*.md")),
    ]
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    broken = [
        link for link in links if "://" not in link and not (page.parent / link).resolve().exists()
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_sections_lead_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)#([^)]*)\)", page.read_text(encoding="utf-8"))
    broken = [
        f"{file}#{anchor}"
        for file, anchor in links
        if "://" not in file and anchor not in anchors(page.parent / file if file else page)
    ]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`([\w-]+(?:/[\w.-]+)+\.(?:py|md|toml))[:`]", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_page_of_the_controller_names_every_event() -> None:
    page = (ROOT / "docs" / "controller.md").read_text(encoding="utf-8")
    table = page.split("| source | event |")[1].split("\n\n")[0]
    cells = [row.split("|")[2] for row in table.splitlines() if row.count("|") == 4]
    named = {name for cell in cells for name in re.findall(r"\w+", cell)}
    abstract = {"ControllerEvent", "PendingRequestTimeout", "RequestReceived", "ResponseReceived"}
    exist = {
        name
        for name, value in vars(events).items()
        if isinstance(value, type) and issubclass(value, events.ControllerEvent)
    }
    assert named == exist - abstract, "the table of events in docs/controller.md"
