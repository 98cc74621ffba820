"""Options of Kafka's tools as joptsimple parses them."""

from __future__ import annotations

import pytest

from klamm.cluster.errors import UsageError
from klamm.tools.jopt import OptionParser, UncaughtException, UsageExit

PARSER = OptionParser("topics", "about", ("n", "topic"), ("list", "force"))


@pytest.mark.parametrize(
    ("text", "bits", "value"),
    [
        ("0", 32, 0),
        ("+5", 32, 5),
        ("\u0663", 32, 3),
        ("2147483647", 32, 2**31 - 1),
        ("-2147483648", 32, -(2**31)),
        ("9223372036854775807", 64, 2**63 - 1),
        ("-9223372036854775808", 64, -(2**63)),
    ],
)
def test_numbers_at_the_limits_are_accepted(text: str, bits: int, value: int) -> None:
    assert PARSER.parse(["--n", text]).integer("n", bits) == value


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("2147483648", 32),
        ("-2147483649", 32),
        ("9223372036854775808", 64),
        ("-9223372036854775809", 64),
        ("1.0", 32),
        ("+-1", 32),
        ("x", 32),
        ("\U0001d7d1", 32),
        ("1" * 5000, 64),
    ],
)
def test_numbers_beyond_the_limits_are_refused(text: str, bits: int) -> None:
    with pytest.raises(UsageError, match=r"^Cannot parse argument '.*' of option n$"):
        PARSER.parse(["--n", text]).integer("n", bits)


def test_a_command_line_is_split_as_joptsimple_splits_it() -> None:
    options = PARSER.parse(["word", "--topic=a", "-", "-topic", "b", "--list", "--", "--force"])
    assert options.texts("topic") == ["a", "b"]
    assert options.names == ["topic", "topic", "list"]
    assert options.has("list") and not options.has("force")
    assert (options.text("n"), options.integer("n"), options.texts("n")) == (None, None, [])
    with pytest.raises(UncaughtException, match="multiple arguments for option topic"):
        options.text("topic")


def test_a_value_that_cannot_be_read_comes_before_a_second_value() -> None:
    with pytest.raises(UncaughtException, match="multiple arguments for option n"):
        PARSER.parse(["--n", "1", "--n", "2"]).integer("n")
    with pytest.raises(UncaughtException, match="Cannot parse argument 'x' of option n"):
        PARSER.parse(["--n", "1", "--n", "x"]).integer("n")


def test_missing_and_contradictory_options_are_refused() -> None:
    options = PARSER.parse(["--topic", "a", "--list"])
    options.require("topic", "list")
    options.refuse("force", ["topic"])
    options.refuse("topic", ["force"])
    with pytest.raises(UsageExit, match=r'Missing required argument "\[force\]"'):
        options.require("topic", "force")
    with pytest.raises(UsageExit, match=r'"\[topic\]" can\'t be used with option "\[list\]"'):
        options.refuse("topic", ["force", "list"])
