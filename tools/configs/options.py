"""Options of kafka-configs: valid combinations, and the configs to add and delete.

Mirrors ConfigCommand.ConfigCommandOptions, parseConfigsToBeAdded and parseConfigsToBeDeleted, with
the same checks in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from klamm.admin.configs.config_resource import BROKERS, TOPICS, USERS
from klamm.cluster.jvm.java_strings import java_split, java_trim
from klamm.tools.jopt import OptionParser, UncaughtException, UsageExit
from klamm.tools.tool_output import ToolOutput, check_properties_file, message_format_warnings
from klamm.zk.znodes.json_values import ILLEGAL_ARGUMENT, MalformedZNode, parse_int

CLIENTS: Final = "clients"
_ZOOKEEPER_TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, "ips")
_BROKER_LOGGERS: Final = "broker-loggers"
_FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": _BROKER_LOGGERS,
    "ip": "ips",
}
_DEFAULT_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": "ips",
}
_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"

PARSER: Final = OptionParser(
    "kafka-configs",
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker or "
    "ip",
    with_value=(
        "zookeeper",
        "bootstrap-server",
        "command-config",
        "entity-type",
        "entity-name",
        "add-config",
        "add-config-file",
        "delete-config",
        "zk-tls-config-file",
        *_FLAGS,
    ),
    flags=("alter", "describe", "all", "entity-default", "force", *_DEFAULT_FLAGS),
)


class ConfigOptions:
    """A parsed and checked command line of kafka-configs.

    The constructor raises UsageExit, VersionExit or UncaughtException if Kafka's tool would exit.
    """

    def __init__(self, args: Sequence[str]) -> None:
        self.options = PARSER.parse(args)
        _check(self)

    @property
    def action(self) -> str:
        """The requested action: ``alter`` or ``describe``."""
        return "alter" if self.options.has("alter") else "describe"

    @property
    def entity_types(self) -> list[str]:
        """The entity types on the command line, e.g. ``topics``."""
        flags = _FLAGS | _DEFAULT_FLAGS
        given = [entity_type for flag, entity_type in flags.items() if self.options.has(flag)]
        return self.options.texts("entity-type") + given

    @property
    def entity_names(self) -> list[str]:
        """The entity names on the command line; "" stands for the default entity."""
        names = iter(self.options.texts("entity-name"))
        given = [
            next(names) if option == "entity-name" else ""
            for option in self.options.names
            if option in ("entity-name", "entity-default")
        ]
        given += [self.options.text(flag) or "" for flag in _FLAGS if self.options.has(flag)]
        return given + ["" for flag in _DEFAULT_FLAGS if self.options.has(flag)]

    def configs_to_add(self, output: ToolOutput) -> dict[str, str]:
        """Return the values of the configs to add, keyed by config name.

        Raises UncaughtException if an option or the file is invalid.
        """
        configs: dict[str, str] = {}
        file = self.options.text("add-config-file")
        if file is not None:
            import javaproperties

            check_properties_file(file)
            try:
                configs |= javaproperties.loads(Path(file).read_bytes())
            except javaproperties.InvalidUEscapeError:
                raise illegal_argument("Malformed \\uxxxx encoding.") from None
        configs |= _parse_pairs(self.options.text("add-config"))
        output.println(*message_format_warnings(configs))
        return configs

    def configs_to_delete(self) -> list[str]:
        """Return the names of the configs to remove."""
        return [
            java_trim(name)
            for text in self.options.texts("delete-config")
            for name in [part for part in text.split(",") if part] or [text]
        ]


def _parse_pairs(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    words = java_split(text, "," + _OUTSIDE_BRACKETS)
    pairs = [re.split(r"\s*=\s*" + _OUTSIDE_BRACKETS, word, flags=re.ASCII) for word in words]
    if any(len(pair) != 2 for pair in pairs):
        raise illegal_argument(
            "requirement failed: Invalid entity config: all configs to be added must be in the "
            'format "key=val".'
        )
    return {java_trim(name): java_trim(re.sub(r"\[?\]?", "", value)) for name, value in pairs}


def illegal_argument(message: str) -> UncaughtException:
    """Return an IllegalArgumentException; the tool prints only its message."""
    return UncaughtException(ILLEGAL_ARGUMENT, message)


def _check(command: ConfigOptions) -> None:
    options = command.options
    if options.has("alter") == options.has("describe"):
        raise UsageExit("Command must include exactly one action: --describe, --alter")
    options.refuse("describe", ("add-config", "delete-config"))
    _check_types(command)
    flags = (*_FLAGS, *_DEFAULT_FLAGS)
    if any(map(options.has, ("entity-name", "entity-type", "entity-default"))) and any(
        map(options.has, flags)
    ):
        raise illegal_argument(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )
    names = command.entity_names
    if not options.has("bootstrap-server") and not options.has("zookeeper"):
        raise illegal_argument(
            "One of the required --bootstrap-server or --zookeeper arguments must be specified"
        )
    if options.has("bootstrap-server") and options.has("zookeeper"):
        raise illegal_argument("Only one of --bootstrap-server or --zookeeper must be specified")
    if options.has("all") and options.has("zookeeper"):
        raise illegal_argument("--bootstrap-server must be specified for --all")
    _check_broker_ids(command, any(names))
    if options.has("describe") and _BROKER_LOGGERS in command.entity_types and not any(names):
        raise illegal_argument(
            f"an entity name must be specified with --describe of {','.join(command.entity_types)}"
        )
    if options.has("alter"):
        _check_alter(command, names)


def _check_types(command: ConfigOptions) -> None:
    types = command.entity_types
    if len(types) != len(set(types)):
        rest = list(types)
        for entity_type in dict.fromkeys(types):
            rest.remove(entity_type)
        raise illegal_argument(f"Duplicate entity type(s) specified: {','.join(rest)}")
    allowed: tuple[str, ...] = _ZOOKEEPER_TYPES
    connection = "--zookeeper"
    if command.options.has("bootstrap-server"):
        allowed, connection = (*_ZOOKEEPER_TYPES, _BROKER_LOGGERS), "--bootstrap-server"
    for entity_type in types:
        if entity_type not in allowed:
            raise illegal_argument(
                f"Invalid entity type {entity_type}, the entity type must be one of "
                f"{','.join(allowed)} with the {connection} argument"
            )
    if not types:
        raise illegal_argument("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise illegal_argument(
            f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together"
        )


def _check_broker_ids(command: ConfigOptions, has_name: bool) -> None:
    types = command.entity_types
    if not has_name or not {BROKERS, _BROKER_LOGGERS} & set(types):
        return
    for option in ("entity-name", "broker", "broker-logger"):
        name = command.options.text(option)
        if name is None:
            continue
        try:
            parse_int(name)
        except MalformedZNode:
            raise illegal_argument(
                f"The entity name for {types[0]} must be a valid integer broker id, but it is: "
                f"{name}"
            ) from None


def _check_alter(command: ConfigOptions, names: list[str]) -> None:
    options, types = command.options, command.entity_types
    if set(types) & {USERS, CLIENTS, BROKERS, "ips"}:
        if not names:
            raise illegal_argument(
                "an entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
    elif not any(names):
        raise illegal_argument(
            f"an entity name must be specified with --alter of {','.join(types)}"
        )
    if options.has("add-config") and options.has("add-config-file"):
        raise illegal_argument("Only one of --add-config or --add-config-file must be specified")
    if not any(map(options.has, ("add-config", "add-config-file", "delete-config"))):
        raise illegal_argument(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter"
        )
