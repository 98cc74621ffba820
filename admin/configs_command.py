"""The whole of kafka-configs for topics and brokers: arguments in, output and exit code out.

It changes znodes by ``--zookeeper``; quotas of clients and users klamm has none. It opens no
connection by itself. Mirrors ConfigCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from admin.configs_options import (
    BROKERS,
    PARSER,
    TOPICS,
    ConfigOptions,
    illegal_argument,
)
from admin.entity_configs import ZooKeeperConfigs
from admin.java_maps import hash_map_order, string_hash
from admin.jopt import VERSION_TEXT, UncaughtException, UsageExit, VersionExit
from admin.reassign_admin import ConfigResource
from admin.reassign_moves import BROKER_THROTTLES
from admin.scala_sets import mutable_order
from admin.tool_output import ToolOutput, java_class
from admin.topic_command import CommandResult, describe_error
from cluster.errors import (
    EnvironmentProblem,
    InvalidConfig,
    KlammError,
    NotKlamm,
    UsageError,
)
from zk.kafka_zk_client import KafkaZkClient
from zk.store import Store
from zk.znodes import DEFAULT_ENTITY
from zk.znodes.json_values import ILLEGAL_ARGUMENT

_UNCLEAN: Final = "unclean.leader.election.enable"
_LONG_MAX: Final = 2**63 - 1
_ZOOKEEPER_WARNING: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.",
    "Use --bootstrap-server instead to specify a broker to connect to.",
)


class ConfigServices(msgspec.Struct, frozen=True):
    """What the command needs of the world: a connection, and a word before it writes."""

    open_store: Callable[[str], AbstractContextManager[Store]]
    before_write: Callable[[KafkaZkClient], None]


def run_configs_command(args: Sequence[str], services: ConfigServices) -> CommandResult:
    """Run kafka-configs with ``args``.

    Raises what opening the connection raises, NotKlamm if a write is refused, and UsageError for
    what klamm leaves out. Every other error becomes the tool's own text and exit code.
    """
    output = ToolOutput()
    try:
        command = ConfigOptions(args)
    except VersionExit:
        return CommandResult(f"{VERSION_TEXT}\n", "", 0, {"version": VERSION_TEXT, "exit_code": 0})
    except UsageExit as error:
        report = _report(None, output, error, UsageError.exit_code)
        return CommandResult("", f"{error.message}\n{PARSER.usage}", 1, report)
    except UncaughtException as error:
        report = _report(None, output, error, UsageError.exit_code)
        return CommandResult("", f"{error.message}\n", 1, report)
    if command.zookeeper is None:
        raise UsageError("klamm answers kafka-configs by --zookeeper alone")
    if command.entity_types[0] not in (TOPICS, BROKERS):
        raise UsageError(
            f"klamm has no configs of {command.entity_types[0]}", hint="topics and brokers have"
        )
    for line in _ZOOKEEPER_WARNING:
        output.println(line)
    with services.open_store(command.zookeeper) as store:
        client = KafkaZkClient(store)
        if command.action == "alter":
            services.before_write(client)
        tool = _ZooKeeperTool(client, output)
        try:
            tool.alter(command) if command.action == "alter" else tool.describe(command)
        except (EnvironmentProblem, NotKlamm):
            raise
        except KlammError as error:
            report = _report(command.action, output, error, error.exit_code)
            return CommandResult(output.text, _error_text(error, args), 1, report, error.hint)
    return CommandResult(output.text, "", 0, _report(command.action, output, None, 0))


class _ZooKeeperTool:
    """Alter and describe on the znodes of one chroot."""

    def __init__(self, client: KafkaZkClient, output: ToolOutput) -> None:
        self._client = client
        self._configs = ZooKeeperConfigs(client)
        self._output = output

    def alter(self, command: ConfigOptions) -> None:
        """Add and remove configs of one entity, and tell the brokers."""
        added = command.configs_to_add(self._output)
        deleted = command.configs_to_delete()
        entity = ConfigResource(command.entity_types[0], command.entity_names[0] or DEFAULT_ENTITY)
        if entity.entity_type == BROKERS:
            self._check_not_running(entity.name, added)
        configs = self._client.get_entity_configs(*entity)
        absent = [name for name in deleted if name not in configs]
        if absent:
            raise UncaughtException(
                "org.apache.kafka.common.errors.InvalidConfigurationException",
                f"Invalid config(s): {','.join(absent)}",
            )
        configs |= added
        for name in deleted:
            configs.pop(name, None)
        if entity.entity_type == BROKERS:
            _validate_broker_configs(configs, added)
        self._configs.change(entity, configs)
        self._output.println(f"Completed updating config for entity: {_shown(entity)}.")
        self._output.report["entities"] = [_entity_report(entity, configs)]

    def describe(self, command: ConfigOptions) -> None:
        """Print the configs that are set, of one entity or of all that have any."""
        entity_type = command.entity_types[0]
        names = [name or DEFAULT_ENTITY for name in command.entity_names[:1]]
        if not names:
            names = self._client.get_all_entities_with_config(entity_type)
        found = self._configs.overrides([ConfigResource(entity_type, name) for name in names])
        for entity, configs in found.items():
            # Java's Properties grow one entry earlier than a HashMap.
            order = hash_map_order(list(configs), entries=len(configs) + 1)
            shown = ",".join(f"{name}={configs[name]}" for name in order)
            self._output.println(f"Configs for {_shown(entity)} are {shown}")
        self._output.report["entities"] = [
            _entity_report(entity, configs) for entity, configs in found.items()
        ]

    def _check_not_running(self, name: str, added: Mapping[str, str]) -> None:
        others = [config for config in added if config not in BROKER_THROTTLES]
        if not others:
            return
        listed = ", ".join(mutable_order(others, string_hash))
        refused = (
            "requirement failed: --bootstrap-server option must be specified to update broker "
            f"configs Set({listed})."
        )
        why = (
            "Broker configuration updates using ZooKeeper are supported for bootstrapping before "
            "brokers are started to enable encrypted password configs to be stored in ZooKeeper."
        )
        live = self._client.get_sorted_broker_list()
        if name == DEFAULT_ENTITY and live:
            raise illegal_argument(f"{refused} for default cluster if any broker is running. {why}")
        if name != DEFAULT_ENTITY and int(name) in live:
            raise illegal_argument(f"{refused} when broker {name} is running. {why}")


def _validate_broker_configs(configs: Mapping[str, str], added: Mapping[str, str]) -> None:
    unknown = [name for name in added if name not in (*BROKER_THROTTLES, _UNCLEAN)]
    if unknown:
        raise UsageError(
            f"klamm's brokers have no config {unknown[0]}",
            hint=f"they have {', '.join((*BROKER_THROTTLES, _UNCLEAN))}",
        )
    for name in BROKER_THROTTLES:
        if name in configs:
            _validate_rate(name, configs[name].strip())
    word = configs.get(_UNCLEAN, "true").strip()
    if word.lower() not in ("true", "false"):
        raise InvalidConfig(
            f"Invalid value {word} for configuration {_UNCLEAN}: Expected value to be either true "
            "or false"
        )


def _validate_rate(name: str, word: str) -> None:
    digits = word[1:] if word[:1] in ("+", "-") else word
    if not (digits.isascii() and digits.isdigit()) or abs(int(word)) > _LONG_MAX:
        raise InvalidConfig(
            f"Invalid value {word} for configuration {name}: Not a number of type LONG"
        )
    if int(word) < 0:
        raise InvalidConfig(
            f"Invalid value {int(word)} for configuration {name}: Value must be at least 0"
        )


def _shown(entity: ConfigResource) -> str:
    kind = "topic" if entity.entity_type == TOPICS else entity.entity_type
    return f"default {kind}" if entity.name == DEFAULT_ENTITY else f"{kind} '{entity.name}'"


def _error_text(error: KlammError, args: Sequence[str]) -> str:
    java = java_class(error)
    is_terse = java in (
        ILLEGAL_ARGUMENT,
        "org.apache.kafka.common.errors.InvalidConfigurationException",
    ) or error.message.startswith(("Unknown topic config name", "conflict topic config"))
    if is_terse:
        return f"{error.message}\n"
    head = f"Error while executing config command with args '{' '.join(args)}'"
    return f"{head}\n{java}: {error.message}\n"


def _entity_report(entity: ConfigResource, configs: Mapping[str, str]) -> dict[str, Any]:
    return {"type": entity.entity_type, "name": entity.name, "configs": dict(configs)}


def _report(
    action: str | None, output: ToolOutput, error: KlammError | None, exit_code: int
) -> dict[str, Any]:
    return {
        "action": action,
        **output.report,
        "error": None if error is None else describe_error(error),
        "exit_code": exit_code,
    }
