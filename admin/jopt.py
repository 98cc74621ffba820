"""Command-line parser that behaves like joptsimple 5 in Kafka's tools.

Each tool has one table of options. Options are ``--name value`` or ``--name=value``, also with one
dash, and without abbreviations; other words are ignored. Values are converted on access, as in
Kafka, so an invalid number fails only where it is used. Mirrors joptsimple.OptionParser(false) and
kafka.utils.CommandLineUtils.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Final

from klamm.cluster.errors import KlammError, UsageError

VERSION_TEXT: Final = "2.8.2 (Commit:3146c6ff4a24cc24)"


class UsageExit(KlammError):
    """The tool prints ``message`` and its usage to standard error and exits with 1."""

    exit_code = 1


class VersionExit(KlammError):
    """The tool prints its version and exits with 0."""

    exit_code = 0


class UncaughtException(UsageError):
    """An exception that Kafka's tool does not catch: the JVM prints it and exits with 1."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


class Options:
    """The options given on a command line, and their values as text."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        """Return True if the option was given."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """Return the value of an option that may be given once; None if it is absent.

        Raises UncaughtException if it was given more than once.
        """
        values = self._values.get(name)
        if not values:
            return None
        if len(values) > 1:
            raise UncaughtException(
                "joptsimple.MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return values[0]

    @property
    def names(self) -> list[str]:
        """Names of the given options, in order."""
        return list(self._values)

    def texts(self, name: str) -> list[str]:
        """Return all values of an option, in order."""
        return list(self._values.get(name, ()))

    def integer(self, name: str, bits: int = 32) -> int | None:
        """Return the value as a Java int or long; None if it is absent.

        Raises UsageError for any other text.
        """
        text = self.text(name)
        if text is None:
            return None
        digits = text[1:] if text[:1] in ("+", "-") else text
        limit = 2 ** (bits - 1)
        if not (digits.isascii() and digits.isdigit()) or not -limit <= int(text) < limit:
            raise UsageError(f"Cannot parse argument '{text}' of option {name}")
        return int(text)

    # -- kafka.utils.CommandLineUtils

    def end_with_help(self, args: Sequence[str], about: str) -> None:
        """Exit with the usage for --help or without arguments; exit for --version."""
        if not args or self.has("help"):
            raise UsageExit(about)
        if self.has("version"):
            raise VersionExit("")

    def require(self, *names: str) -> None:
        """Exit with the usage unless all ``names`` were given."""
        for name in names:
            if not self.has(name):
                raise UsageExit(f'Missing required argument "[{name}]"')

    def refuse(self, used: str, invalid: Sequence[str]) -> None:
        """Exit with the usage if ``used`` was given together with one of ``invalid``."""
        if self.has(used):
            for name in invalid:
                if self.has(name):
                    raise UsageExit(f'Option "[{used}]" can\'t be used with option "[{name}]"')


class OptionParser:
    """Parser of one tool's options, with and without values."""

    def __init__(self, tool: str, with_value: Collection[str], flags: Collection[str]) -> None:
        self._tool = tool
        self._with_value = frozenset(with_value)
        self._flags = frozenset(flags) | {"help", "version"}

    @property
    def usage(self) -> str:
        """Text that ``--help`` prints below its first line, identical to Kafka's."""
        return (files("klamm.admin") / "texts" / f"{self._tool}.txt").read_text()

    def parse(self, args: Sequence[str]) -> Options:
        """Parse a command line. Raises UncaughtException as joptsimple does."""
        values: dict[str, list[str]] = {}
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if word == "--":
                break
            if not word.startswith("-") or word == "-":
                continue
            is_long = word.startswith("--")
            name, _, value = word[2 if is_long else 1 :].partition("=")
            self._check_known(name, is_long)
            found = values.setdefault(name, [])
            if name in self._with_value:
                if not value:
                    if not rest:
                        raise UncaughtException(
                            "joptsimple.OptionMissingRequiredArgumentException",
                            f"Option {name} requires an argument",
                        )
                    value = rest.pop(0)
                found.append(value)
        return Options(values)

    def _check_known(self, name: str, is_long: bool) -> None:
        if name in self._with_value or name in self._flags:
            return
        shown = name if is_long else name[:1]
        raise UncaughtException(
            "joptsimple.UnrecognizedOptionException", f"{shown} is not a recognized option"
        )
