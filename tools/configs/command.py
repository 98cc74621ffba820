"""Runs the tool kafka-configs for topics, brokers and users. Mirrors kafka.admin.ConfigCommand.

With ``--zookeeper``, the tool changes znodes itself, also those of SCRAM credentials of users.
klamm does not support client and user quotas. The caller provides the connections to the cluster
and to ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from klamm.admin.config_validation import changed_configs, validate_broker_configs
from klamm.admin.configs.config_resource import BROKERS, TOPICS, USERS, ConfigResource
from klamm.admin.configs.scram_credentials import SCRAM_MECHANISMS, credential_config, sanitized
from klamm.admin.configs.zookeeper import change_configs, read_overrides
from klamm.admin.failures import InvalidConfiguration
from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.configs import THROTTLED_RATES
from klamm.cluster.errors import (
    EnvironmentProblem,
    KlammError,
    NotKlamm,
    UsageError,
)
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import children_order, hash_map_order
from klamm.cluster.jvm.scala_sets import mutable_order
from klamm.tools.command_result import CommandResult
from klamm.tools.configs.cluster import ClusterConfigs, check_there, entity_report
from klamm.tools.configs.options import PARSER, ConfigOptions, illegal_argument
from klamm.tools.jopt import UncaughtException
from klamm.tools.tool_output import (
    ZOOKEEPER_WARNING,
    KafkaTool,
    ToolOutput,
    check_properties_file,
    java_class,
    java_message,
)
from klamm.tools.tool_services import ToolServices
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import DEFAULT_ENTITY, ConfigEntityZNode
from klamm.zk.znodes.json_values import ILLEGAL_ARGUMENT

_PASSWORD: Final = re.compile(r"password=[^\]\s]*")
_RELATIVE: Final = re.compile(r"/\.\.?(?=/|\Z)")
_INVALID_CONFIGURATION: Final = InvalidConfiguration.kafka_class


def _run(output: ToolOutput, args: Sequence[str], services: ToolServices) -> CommandResult:
    """Run kafka-configs with ``args`` and return its output and exit code.

    Raises an error if no connection can be established, NotKlamm if klamm must not write to this
    ZooKeeper, and UsageError for entity types that klamm does not support. For any other error, the
    result has the error message and exit code of Kafka's tool.
    """
    output.report["action"] = None
    try:
        command = ConfigOptions(args)
    except UncaughtException as error:
        return output.failed(error, f"{error.message}\n")
    output.report["action"] = command.action
    _check_supported(command)
    try:
        if command.options.has("zookeeper"):
            output.println(*ZOOKEEPER_WARNING)
        else:
            check_properties_file(command.options.text("command-config"))
        zookeeper = command.options.text("zookeeper")
        server = command.options.text("bootstrap-server")
        with services.connected(zookeeper, server, writes=command.action == "alter") as found:
            tool = (
                _ZooKeeperTool(found.client, output)
                if isinstance(found, ZooKeeperAdmin)
                else ClusterConfigs(found, output)
            )
            getattr(tool, command.action)(command)
    except (EnvironmentProblem, NotKlamm):
        raise
    except KlammError as error:
        return output.failed(error, _error_text(error, args), error.hint)
    return output.succeeded()


run_configs_command: Final = KafkaTool(PARSER, _run)


def _check_supported(command: ConfigOptions) -> None:
    in_zookeeper = command.options.has("zookeeper")
    supported = (TOPICS, BROKERS, USERS) if in_zookeeper else (TOPICS, BROKERS)
    for entity_type in command.entity_types:
        if entity_type not in supported:
            way = " with --bootstrap-server" if entity_type == USERS else ""
            hint = f"supported entity types: {', '.join(supported)}"
            if way:
                hint += "; with --zookeeper also users"
            raise UsageError(
                f"klamm does not support configs of {entity_type}{way}", hint=hint, exit_code=1
            )


class _ZooKeeperTool:
    """The actions of kafka-configs (alter, describe) on the znodes of one chroot."""

    def __init__(self, client: KafkaZkClient, output: ToolOutput) -> None:
        self._client = client
        self._output = output

    def alter(self, command: ConfigOptions) -> None:
        """Add and remove configs of the given entity, and notify the brokers."""
        added = command.configs_to_add(self._output)
        deleted = command.configs_to_delete()
        entity = _entity(command.entity_types[0], command.entity_names[0])
        if entity.entity_type == BROKERS:
            self._check_not_running(entity.name, added)
        if entity.entity_type == USERS:
            added = _with_credentials(added)
        configs = self._client.get_entity_configs(*entity)
        check_there(deleted, configs)
        configs = changed_configs(configs, {**added, **dict.fromkeys(deleted)})
        if entity.entity_type == BROKERS:
            validate_broker_configs(configs, added)
        change_configs(self._client, entity, configs)
        self._output.println(f"Completed updating config for entity: {_shown(entity)}.")
        self._output.report["entities"] = [entity_report(entity, configs)]

    def describe(self, command: ConfigOptions) -> None:
        """Print the config overrides of the given entity, or of all entities with overrides."""
        entity_type = command.entity_types[0]
        entities = [_entity(entity_type, name) for name in command.entity_names[:1]] or [
            ConfigResource(entity_type, name)
            for name in children_order(self._client.get_all_entities_with_config(entity_type))
        ]
        found = read_overrides(self._client, entities)
        for entity, configs in found.items():
            # Java's Properties grow one entry earlier than a HashMap.
            order = hash_map_order(list(configs), entries=len(configs) + 1)
            shown = ",".join(f"{name}={configs[name]}" for name in order)
            self._output.println(f"Configs for {_shown(entity)} are {shown}")
        self._output.report["entities"] = [
            entity_report(entity, configs) for entity, configs in found.items()
        ]

    def _check_not_running(self, name: str, added: Mapping[str, str]) -> None:
        others = [config for config in added if config not in THROTTLED_RATES]
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


def _shown(entity: ConfigResource) -> str:
    kind = {TOPICS: "topic", USERS: "user-principal"}.get(entity.entity_type, entity.entity_type)
    name = unquote(entity.name) if entity.entity_type == USERS else entity.name
    return f"default {kind}" if entity.name == DEFAULT_ENTITY else f"{kind} '{name}'"


def _entity(entity_type: str, name: str) -> ConfigResource:
    """Return an entity that was named on the command line.

    Raises IllegalArgumentException, as ZooKeeper's client does, if its path is relative.
    """
    if entity_type == USERS:
        name = sanitized(name)
    path = ConfigEntityZNode.path(entity_type, name or DEFAULT_ENTITY)
    relative = _RELATIVE.search(path)
    if relative is not None:
        raise illegal_argument(
            f'Invalid path string "{path}" caused by relative paths not allowed '
            f"@{relative.end() - 1}"
        )
    return ConfigResource(entity_type, name or DEFAULT_ENTITY)


def _with_credentials(added: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a user with credentials instead of passwords."""
    unknown = sorted(added.keys() - SCRAM_MECHANISMS.keys())
    if unknown:
        raise UsageError(
            f"klamm does not support the user config {', '.join(unknown)}",
            hint=f"supported: {', '.join(SCRAM_MECHANISMS)}",
        )
    try:
        return {
            name: credential_config(SCRAM_MECHANISMS[name], value) for name, value in added.items()
        }
    except ValueError as error:
        raise illegal_argument(str(error)) from None


def _error_text(error: KlammError, args: Sequence[str]) -> str:
    java, message = java_class(error), java_message(error)
    if java in (ILLEGAL_ARGUMENT, _INVALID_CONFIGURATION) or java.startswith("joptsimple."):
        return f"{message}\n"
    shown = _PASSWORD.sub("password=[hidden]", " ".join(args))
    head = f"Error while executing config command with args '{shown}'"
    return f"{head}\n{java}{': ' if message else ''}{message}\n"
