"""A page read back as a browser would: its elements, their text, and what it would load."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from html.parser import HTMLParser

LOADING = ("src", "srcset", "href", "xlink:href", "action", "data", "poster", "background")


@dataclass
class Element:
    """An element with all text inside."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str, class_: str = "") -> list[Element]:
        """Every such element below, in order."""
        found = []
        for child in self.children:
            classes = (child.attributes.get("class") or "").split(" ")
            if child.tag == tag and (not class_ or class_ in classes):
                found.append(child)
            found += child.all(tag, class_)
        return found

    def only(self, tag: str, class_: str = "") -> Element:
        """The one such element below."""
        (found,) = self.all(tag, class_)
        return found


class PageReader(HTMLParser):
    """Builds the tree; an element that is closed by another's end is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        element = self._open.pop()
        assert element.tag == tag, f"</{tag}> closes <{element.tag}>"

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data


def read_page(text: str) -> Element:
    """The page's root. Raises AssertionError if its elements do not nest."""
    reader = PageReader()
    reader.feed(text)
    reader.close()
    assert len(reader._open) == 1, [element.tag for element in reader._open]
    return reader.root


def loaded(root: Element) -> list[str]:
    """What the page would fetch, and what it would run but for the script that its policy names."""
    policies = [
        e.attributes["content"] or "" for e in root.all("meta") if "content" in e.attributes
    ]
    found = [script.text for script in root.all("script") if not _is_named(script, policies)]
    for tag in ("link", "iframe", "img", "object", "embed", "base", "form", "image"):
        found += [tag for _ in root.all(tag)]
    for element in everything(root):
        for name, value in element.attributes.items():
            if name in LOADING and not (value or "").startswith("#"):
                found.append(f"{element.tag} {name}={value}")
            if name.startswith("on"):
                found.append(f"{element.tag} {name}")
    for style in root.all("style"):
        found += [word for word in ("url(", "@import", "src:", "http") if word in style.text]
    return found


def _is_named(script: Element, policies: list[str]) -> bool:
    digest = b64encode(sha256(script.text.encode()).digest()).decode()
    return any(f"script-src 'sha256-{digest}';" in policy for policy in policies)


def everything(root: Element) -> list[Element]:
    """All elements below."""
    return [e for child in root.children for e in (child, *everything(child))]
