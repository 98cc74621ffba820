"""Options of kafka-reassign-partitions and their valid combinations.

Mirrors ReassignPartitionsCommand.validateAndParseArgs, with the same checks in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.tools.jopt import OptionParser, Options, UncaughtException, UsageExit
from klamm.tools.tool_output import read_file

_ACTIONS: Final = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED: Final = {
    "verify": ("reassignment-json-file",),
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_PERMITTED: Final = {
    "verify": ("bootstrap-server", "command-config", "preserve-throttles", "zookeeper"),
    "generate": (
        "bootstrap-server",
        "broker-list",
        "command-config",
        "disable-rack-aware",
        "zookeeper",
    ),
    "execute": (
        "additional",
        "bootstrap-server",
        "command-config",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "zookeeper",
    ),
    "cancel": ("bootstrap-server", "command-config", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "command-config"),
}
_BOOTSTRAP_SERVER_ONLY: Final = (
    "additional",
    "cancel",
    "command-config",
    "replica-alter-log-dirs-throttle",
    "list",
    "timeout",
)
_LONG_BITS: Final = 64
_DEFAULTS: Final = {"throttle": -1, "replica-alter-log-dirs-throttle": -1, "timeout": 10_000}

PARSER: Final = OptionParser(
    "kafka-reassign-partitions",
    "This tool helps to move topic partitions between replicas.",
    with_value=(
        "bootstrap-server",
        "command-config",
        "zookeeper",
        "reassignment-json-file",
        "topics-to-move-json-file",
        "broker-list",
        *_DEFAULTS,
    ),
    flags=(*_ACTIONS, "disable-rack-aware", "additional", "preserve-throttles"),
)


class ReassignOptions:
    """A parsed and checked command line of kafka-reassign-partitions.

    The constructor raises UsageExit, VersionExit or UncaughtException if Kafka's tool would exit.
    """

    def __init__(self, args: Sequence[str]) -> None:
        self.options = PARSER.parse(args)
        self.action = _action(self.options)
        _check(self.options, self.action)

    @property
    def preserve_throttles(self) -> bool:
        """True if ``--preserve-throttles`` was given, so throttles are not removed."""
        return self.options.has("preserve-throttles")

    def text(self, name: str) -> str:
        """Return the value of a required option."""
        value = self.options.text(name)
        assert value is not None, name
        return value

    def plan(self) -> str:
        """Return the contents of the reassignment file.

        Raises UncaughtException, as Kafka's tool does, if the file cannot be read.
        """
        return read_file(self.text("reassignment-json-file"))

    def number(self, name: str) -> int:
        """Return the value of an option that takes a rate or a timeout, or the option's default.

        Raises UncaughtException if the value is not a Java long.
        """
        value = self.options.integer(name, bits=_LONG_BITS)
        return _DEFAULTS[name] if value is None else value


def _action(options: Options) -> str:
    given = [action for action in _ACTIONS if options.has(action)]
    if len(given) != 1:
        shown = ", ".join(f"--{action}" for action in _ACTIONS)
        raise UsageExit(f"Command must include exactly one action: {shown}")
    return given[0]


def _check(options: Options, action: str) -> None:
    if not options.has("zookeeper") and not options.has("bootstrap-server"):
        raise UsageExit("Please specify --bootstrap-server")
    options.require(*_REQUIRED[action])
    for name in options.names:
        if name not in (action, *_REQUIRED[action], *_PERMITTED[action]):
            raise UsageExit(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    if not options.has("bootstrap-server"):
        for name in _BOOTSTRAP_SERVER_ONLY:
            if options.has(name):
                raise UncaughtException(
                    "java.lang.RuntimeException",
                    f'You must specify --bootstrap-server when using "[{name}]"',
                )
