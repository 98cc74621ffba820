"""Command-line parser that behaves like joptsimple 5 in Kafka's tools.

Options are written ``--name value`` or ``--name=value``, with one or two dashes, and cannot be
abbreviated; arguments that are not options are ignored. As in Kafka, a value is converted only when
it is used, so an invalid number is reported only then. Mirrors joptsimple.OptionParser(false) and
kafka.utils.CommandLineUtils.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib.resources import files
from typing import Final, TypeVar

from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_integer import parse_java_int
from klamm.cluster.jvm.scala_sets import immutable_order

T = TypeVar("T")

VERSION_TEXT: Final = "2.8.2 (Commit:3146c6ff4a24cc24)"


class UsageExit(UsageError):
    """Ends the tool with exit code 1; the message and the usage are printed to standard error."""


class VersionExit(KlammError):
    """Ends the tool with exit code 0, after printing its version."""

    exit_code = 0


class UncaughtException(UsageError):
    """An exception that Kafka's tool does not catch: the JVM prints it and exits with code 1."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


class Options:
    """The options given on a command line, and their values as text."""

    def __init__(self, given: Sequence[tuple[str, str | None]]) -> None:
        """``given`` are the options in command-line order, each with its value, or None."""
        self._given = given

    def has(self, name: str) -> bool:
        """Return True if the option was given."""
        return name in self.names

    def text(self, name: str) -> str | None:
        """Return the value of an option that may be given only once, or None if it is absent.

        Raises UncaughtException if the option was given more than once.
        """
        return self.value(name, str)

    @property
    def names(self) -> list[str]:
        """Names of the given options, in command-line order; one given twice occurs twice."""
        return [name for name, _ in self._given]

    def texts(self, name: str) -> list[str]:
        """Return all values of an option, in command-line order."""
        return [value for given, value in self._given if given == name and value is not None]

    def integer(self, name: str, bits: int = 32) -> int | None:
        """Return an option's value as a Java int or long, or None if the option is absent.

        Raises UncaughtException if a value is not a signed integer of ``bits`` bits, or if the
        option was given more than once.
        """
        return self.value(name, lambda text: parse_java_int(text, bits))

    def value(self, name: str, read: Callable[[str], T | None]) -> T | None:
        """Return an option's value as ``read`` converts it, or None if the option is absent.

        Raises UncaughtException if ``read`` returns None for a value, or if the option was given
        more than once.
        """
        values: list[T] = []
        for text in self.texts(name):
            value = read(text)
            if value is None:
                raise UncaughtException(
                    "joptsimple.OptionArgumentConversionException",
                    f"Cannot parse argument '{text}' of option {name}",
                )
            values.append(value)
        if len(values) > 1:
            raise UncaughtException(
                "joptsimple.MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return values[0] if values else None

    # -- kafka.utils.CommandLineUtils

    def require(self, *names: str) -> None:
        """Raise UsageExit if one of the options ``names`` is missing."""
        for name in names:
            if not self.has(name):
                raise UsageExit(f'Missing required argument "[{name}]"')

    def refuse(self, used: str, invalid: Sequence[str]) -> None:
        """Raise UsageExit if the option ``used`` was given together with one of ``invalid``."""
        if self.has(used):
            for name in immutable_order(invalid, _option_hash):
                if self.has(name):
                    raise UsageExit(f'Option "[{used}]" can\'t be used with option "[{name}]"')


class OptionParser:
    """Parser of one tool's options; ``flags`` are the options that take no value.

    ``about`` is the description of the tool, which precedes its usage.
    """

    def __init__(
        self, tool: str, about: str, with_value: Collection[str], flags: Collection[str]
    ) -> None:
        self._tool = tool
        self._about = about
        self._with_value = frozenset(with_value)
        self._flags = frozenset(flags) | {"help", "version"}

    @property
    def usage(self) -> str:
        """Usage text that ``--help`` prints after the description, identical to Kafka's."""
        return (files("klamm.tools") / "texts" / f"{self._tool}.txt").read_text()

    def parse(self, args: Sequence[str]) -> Options:
        """Parse a command line. Raises UncaughtException if joptsimple would throw an exception.

        Also raises UsageExit if --help or no argument is given, and VersionExit for --version.
        """
        given: list[tuple[str, str | None]] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                continue
            is_long = word.startswith("--")
            name, equals, value = word[2 if is_long else 1 :].partition("=")
            if name in self._flags:
                given.append((name, None))
            elif name not in self._with_value:
                shown = name if is_long else word[1]
                raise UncaughtException(
                    "joptsimple.UnrecognizedOptionException", f"{shown} is not a recognized option"
                )
            elif equals or rest:
                given.append((name, value if equals else rest.pop(0)))
            else:
                raise UncaughtException(
                    "joptsimple.OptionMissingRequiredArgumentException",
                    f"Option {name} requires an argument",
                )
        options = Options(given)
        if not args or options.has("help"):
            raise UsageExit(self._about)
        if options.has("version"):
            raise VersionExit("")
        return options


def _option_hash(name: str) -> int:
    """Return joptsimple.AbstractOptionSpec.hashCode of an option with one name."""
    return 31 + string_hash(name) & 0xFFFFFFFF
