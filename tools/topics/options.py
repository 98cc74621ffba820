"""Options of kafka-topics and their valid combinations.

Mirrors kafka.admin.TopicCommand.TopicCommandOptions, with the same checks in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from klamm.admin.config_validation import validate_topic_configs, validate_topic_names
from klamm.cluster.errors import UsageError
from klamm.cluster.jvm.java_strings import compiled, java_split, java_trim
from klamm.placement.assign import Assignment
from klamm.placement.manual import parse_replica_assignment
from klamm.tools.jopt import OptionParser, Options, UncaughtException, UsageExit
from klamm.tools.tool_output import ToolOutput, message_format_warnings

_ACTIONS: Final = ("alter", "create", "describe", "list", "delete")
_REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_ABOUT: Final = ", delete, describe, or change a topic."
_OVERRIDES: Final = "topics-with-overrides"

PARSER: Final = OptionParser(
    "kafka-topics",
    f"This tool helps to create{_ABOUT}",
    with_value=(
        "bootstrap-server",
        "command-config",
        "zookeeper",
        "topic",
        "config",
        "delete-config",
        "partitions",
        "replication-factor",
        "replica-assignment",
    ),
    flags=(
        *_ACTIONS,
        *_REPORTS,
        _OVERRIDES,
        "if-exists",
        "if-not-exists",
        "disable-rack-aware",
        "force",
        "exclude-internal",
    ),
)


class TopicCommandOptions:
    """A parsed and checked command line of kafka-topics.

    The constructor raises UsageExit, VersionExit or UncaughtException if Kafka's tool would exit.
    """

    def __init__(self, args: Sequence[str]) -> None:
        if not args:
            raise UsageExit(f"Create{_ABOUT}")
        self.options = PARSER.parse(args)
        self._check()

    @property
    def action(self) -> str:
        """The requested action: alter, create, describe, list or delete."""
        return next(action for action in _ACTIONS if self.options.has(action))

    def replica_assignment(self) -> Assignment | None:
        """Return the value of --replica-assignment as {partition: replicas}, or None."""
        text = self.options.text("replica-assignment")
        return parse_replica_assignment(text) if text else None

    def configs_to_add(self, output: ToolOutput) -> dict[str, str]:
        """Return the validated config overrides to add, keyed by name.

        Raises UsageError, InvalidConfig.
        """
        pairs = [java_split(text, r"\s*=\s*") for text in self.options.texts("config")]
        if any(len(pair) != 2 for pair in pairs):
            raise UsageError(
                "requirement failed: Invalid topic config: all configs to be added must be in the "
                'format "key=val".'
            )
        configs = {java_trim(name): java_trim(value) for name, value in pairs}
        validate_topic_configs(configs)
        for warning in message_format_warnings(configs):
            output.warn(warning)
        return configs

    def configs_to_delete(self) -> list[str]:
        """Return the names of the config overrides to remove. Raises InvalidConfig."""
        names = [java_trim(text) for text in self.options.texts("delete-config")]
        validate_topic_names(names)
        return names

    def topic_filter(self) -> re.Pattern[str] | None:
        """Return the value of ``--topic`` as a compiled pattern, or None if the option is absent.

        The value is a regular expression in which a comma means "or".
        """
        text = self.options.text("topic")
        if text is None:
            return None
        pattern = re.sub(r'^["\']+|["\']+$', "", java_trim(text).replace(",", "|").replace(" ", ""))
        try:
            return compiled(pattern)
        except ValueError as error:
            raise UncaughtException(
                "java.lang.RuntimeException", f"{pattern} is an invalid regex."
            ) from error

    def _check(self) -> None:
        options = self.options
        if sum(map(options.has, _ACTIONS)) != 1:
            raise UsageExit(
                "Command must include exactly one action: "
                "--list, --describe, --create, --alter or --delete"
            )
        if options.has("bootstrap-server") == options.has("zookeeper"):
            raise UncaughtException(
                "java.lang.IllegalArgumentException",
                "Only one of --bootstrap-server or --zookeeper must be specified",
            )
        _check_required(options)
        _check_invalid(options)


def _check_required(options: Options) -> None:
    if options.has("describe") and options.has("if-exists"):
        options.require("topic")
    if not options.has("list") and not options.has("describe"):
        options.require("topic")
    if options.has("create") and not options.has("replica-assignment") and options.has("zookeeper"):
        options.require("partitions", "replication-factor")
    if options.has("bootstrap-server") and options.has("alter"):
        if options.has("config"):
            raise UsageExit(
                'Option combination "[bootstrap-server],[config]" can\'t be used with option '
                '"[alter]" (the kafka-configs CLI supports altering topic configs with a '
                "--bootstrap-server option)"
            )
        options.require("partitions")


def _check_invalid(options: Options) -> None:
    options.refuse("config", _all_but("alter", "create"))
    options.refuse("delete-config", [*_all_but("alter"), "bootstrap-server"])
    options.refuse("partitions", _all_but("alter", "create"))
    options.refuse("replication-factor", _all_but("create"))
    options.refuse("replica-assignment", _all_but("create", "alter"))
    if options.has("create"):
        options.refuse("replica-assignment", ("partitions", "replication-factor"))
    for report in _REPORTS:
        others = [other for other in _REPORTS if other != report]
        by_zookeeper = ["zookeeper"] if "min-isr" in report else []
        options.refuse(report, [*_all_but("describe"), *others, _OVERRIDES, *by_zookeeper])
    options.refuse(_OVERRIDES, [*_all_but("describe"), *_REPORTS])
    options.refuse("if-exists", _all_but("alter", "delete", "describe"))
    options.refuse("if-not-exists", _all_but("create"))
    options.refuse("exclude-internal", _all_but("list", "describe"))


def _all_but(*allowed: str) -> list[str]:
    return [action for action in _ACTIONS if action not in allowed]
