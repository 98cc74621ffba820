"""Properties files as java.util.Properties reads them."""

from __future__ import annotations

import pytest

from klamm.cluster.java_properties import parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb : 2\r\nc 3\rd=x=y\ne", {"a": "1", "b": "2", "c": "3", "d": "x=y", "e": ""}),
        ("# c \\\n! c\n\n a = 1 \\\n   2\n", {"a": "1 2"}),
        ("k\\ 1\\:=\\t\\u0041\\q\\\\\nk2\\\\\n", {"k 1:": "\tAq\\", "k2\\": ""}),
        ("k3\\\\\\\n  x", {"k3\\x": ""}),
        ("a\xa0b\x85=\x0b1", {"a\xa0b\x85": "\x0b1"}),
        ("=v\na==b\na = = c", {"": "v", "a": "= c"}),
    ],
)
def test_properties(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_an_escape_that_is_malformed() -> None:
    with pytest.raises(ValueError, match="Malformed"):
        parse_properties("a=\\u00g1")
