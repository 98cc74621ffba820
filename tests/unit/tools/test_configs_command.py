"""kafka-configs on a ZooKeeper in memory: what klamm itself decides, and its checks."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from klamm.admin.configs.scram_credentials import SCRAM_MECHANISMS, credential_of, parse_credential
from klamm.cluster.errors import UsageError
from klamm.tools.command_result import CommandResult
from klamm.tools.configs.command import _error_text, run_configs_command
from klamm.tools.configs.options import ConfigOptions
from klamm.tools.jopt import UncaughtException, UsageExit
from klamm.tools.tool_output import ToolOutput
from klamm.zk.dump import dump
from tests.unit.tools.reassign_world import World
from tests.unit.tools.vectors import put

WARNING = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
    "Use --bootstrap-server instead to specify a broker to connect to.\n"
)


@pytest.fixture
def world() -> World:
    return World(2, {"t": {"0": [0, 1]}})


def run(world: World, line: str) -> CommandResult:
    return run_configs_command(["--zookeeper", "z:1", *line.split()], world.services())


def test_configs_of_brokers_that_klamm_does_not_know_are_kept(world: World) -> None:
    rate, plugin = "leader.replication.throttled.rate", {"of.a.plugin": "x"}
    put(world.client, "/config/brokers/9", {"version": 1, "config": plugin})
    line = "--alter --entity-type brokers --entity-name 9 --add-config"
    assert run(world, f"{line} {rate}=5").exit_code == 0
    assert world.client.get_entity_configs("brokers", "9") == {**plugin, rate: "5"}
    refused = run(world, f"{line} of.another=y")
    assert (refused.exit_code, "of.another is not a dynamic config" in refused.stderr) == (1, True)


def test_a_topics_configs_are_changed_and_announced(world: World) -> None:
    made = run(world, "--alter --topic t --add-config cleanup.policy=[compact,delete],flush.ms=1")
    assert made.stdout == f"{WARNING}Completed updating config for entity: topic 't'.\n"
    changed = run(world, "--alter --topic t --add-config retention.ms=5 --delete-config flush.ms")
    assert changed.report["entities"] == [
        {
            "type": "topics",
            "name": "t",
            "configs": {"cleanup.policy": "compact,delete", "retention.ms": "5"},
        }
    ]
    assert world.written == 2
    assert len(world.client.get_children("/config/changes")) == 2
    shown = run(world, "--describe --entity-type topics")
    assert shown.stdout == (
        f"{WARNING}Configs for topic 't' are cleanup.policy=compact,delete,retention.ms=5\n"
    )
    assert world.written == 2


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("--alter --topic t --delete-config flush.ms", "Invalid config(s): flush.ms\n"),
        ("--alter --topic t --add-config nope=1", "Unknown topic config name: nope\n"),
        (
            "--alter --topic x --add-config flush.ms=1",
            "Error while executing config command with args '--zookeeper z:1 --alter --topic x "
            "--add-config flush.ms=1'\n"
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
            "Topic 'x' does not exist.\n",
        ),
        ("--describe", "At least one entity type must be specified\n"),
        ("--nope", "nope is not a recognized option\n"),
        (
            "--describe --topic t --zookeeper z:2",
            "Found multiple arguments for option zookeeper, but you asked for only one\n",
        ),
        (
            "--alter --topic t --add-config flush.ms=1 --add-config flush.ms=2",
            "Found multiple arguments for option add-config, but you asked for only one\n",
        ),
    ],
)
def test_a_refused_change_writes_nothing(world: World, line: str, error: str) -> None:
    before = dump(world.client.store)
    result = run(world, line)
    assert (result.stderr, result.exit_code) == (error, 1)
    assert dump(world.client.store) == before


def test_topics_are_described_in_the_order_of_zookeepers_children(world: World) -> None:
    for topic in ("__consumer_offsets", "dead", "x-1"):
        world.client.set_or_create_entity_configs("topics", topic, {})
    described = run(world, "--describe --entity-type topics").stdout
    names = re.findall(r"(?m)^Configs for topic '(.*)' are ", described)
    assert [name for name in names if name != "t"] == ["dead", "x-1", "__consumer_offsets"]


def test_a_malformed_config_is_kafkas_error_with_a_hint(world: World) -> None:
    world.client.set_or_create("/config/topics/t", b'{"config":{"retention.ms":5}}')
    result = run(world, "--describe --entity-type topics --entity-name t")
    text = "Expected `String` value, received 5"
    assert result.stderr.endswith(
        f"\ncom.fasterxml.jackson.databind.JsonMappingException: {text}\n"
    )
    assert result.hint == f"malformed znode /config/topics/t: {text}"


def test_a_broker_that_is_not_running_takes_every_config_that_klamm_knows(world: World) -> None:
    added = run(world, "--alter --broker 7 --add-config unclean.leader.election.enable=true")
    assert added.stdout == f"{WARNING}Completed updating config for entity: brokers '7'.\n"
    wrong = run(world, "--alter --broker 7 --add-config unclean.leader.election.enable=maybe")
    assert wrong.stderr.endswith("Expected value to be either true or false\n")
    unknown = run(world, "--alter --broker 7 --add-config log.cleaner.threads=2")
    assert unknown.report["error"]["message"] == (
        "log.cleaner.threads is not a dynamic config of klamm's brokers"
    )
    running = run(world, "--alter --broker 1 --add-config unclean.leader.election.enable=true")
    assert "when broker 1 is running." in running.stderr


SERVER, ZOOKEEPER = "--bootstrap-server s:1", "--zookeeper z:1"
NO_NAME = "an entity-name or default entity must be specified with --alter of users, clients, "


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{SERVER} --topic t", "Command must include exactly one action: --describe, --alter"),
        (f"{SERVER} --topic t --alter --describe", "must include exactly one action"),
        (
            f"{SERVER} --topic t --describe --add-config a=1",
            'Option "[describe]" can\'t be used with option "[add-config]"',
        ),
        (
            f"{SERVER} --topic t --describe --delete-config a",
            'Option "[describe]" can\'t be used with option "[delete-config]"',
        ),
        ("--describe --topic t", "One of the required --bootstrap-server or --zookeeper arguments"),
        (f"{SERVER} {ZOOKEEPER} --describe --topic t", "Only one of --bootstrap-server or --zooke"),
        (f"{ZOOKEEPER} --describe --topic t --all", "--bootstrap-server must be specified for"),
        (
            f"{SERVER} --describe --topic t --entity-default",
            "--entity-{type,name,default} should not be used in conjunction with specific entity",
        ),
        (
            f"{SERVER} --describe --entity-type topics --entity-type users --entity-type topics",
            "Duplicate entity type(s) specified: topics",
        ),
        (
            f"{SERVER} --describe --topic t --broker 1",
            "Only 'users' and 'clients' entity types may",
        ),
        (
            f"{SERVER} --describe --entity-type x",
            "Invalid entity type x, the entity type must be one of topics,clients,users,brokers,"
            "ips,broker-loggers with the --bootstrap-server argument",
        ),
        (
            f"{ZOOKEEPER} --describe --broker-logger 1",
            "the entity type must be one of topics,clients,users,brokers,ips with the --zookeeper",
        ),
        (f"{SERVER} --describe --broker x", "must be a valid integer broker id, but it is: x"),
        (
            f"{SERVER} --describe --entity-type brokers --entity-name 2147483648",
            "The entity name for brokers must be a valid integer broker id, but it is: 2147483648",
        ),
        (
            f"{SERVER} --describe --entity-type broker-loggers",
            "an entity name must be specified with --describe of broker-loggers",
        ),
        (
            f"{SERVER} --alter --entity-type broker-loggers --add-config a=1",
            "an entity name must be specified with --alter of broker-loggers",
        ),
        (f"{SERVER} --alter --entity-type brokers --add-config a=1", NO_NAME),
        (f"{SERVER} --alter --entity-type users --add-config a=1", NO_NAME),
        (
            f"{SERVER} --alter --entity-type topics --add-config a=1",
            "an entity name must be specified with --alter of topics",
        ),
        (
            f"{SERVER} --alter --entity-type topics --entity-default --add-config a=1",
            "an entity name must be specified with --alter of topics",
        ),
        (
            f"{SERVER} --alter --topic t --add-config a=1 --add-config-file f",
            "Only one of --add-config or --add-config-file must be specified",
        ),
        (
            f"{SERVER} --alter --topic t",
            "At least one of --add-config, --add-config-file, or --delete-config must be specified",
        ),
    ],
)
def test_contradictory_options_are_refused(line: str, said: str) -> None:
    with pytest.raises((UncaughtException, UsageExit)) as refused:
        ConfigOptions(line.split())
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("line", "types", "names"),
    [
        ("--describe --entity-type topics", ["topics"], []),
        ("--describe --topic t", ["topics"], ["t"]),
        ("--alter --broker-defaults --delete-config a", ["brokers"], [""]),
        ("--alter --entity-type brokers --entity-default --delete-config a", ["brokers"], [""]),
        ("--alter --broker 2147483647 --add-config a=1", ["brokers"], ["2147483647"]),
        ("--describe --user u --client-defaults", ["users", "clients"], ["u", ""]),
        (
            "--describe --entity-type users --entity-default --entity-type clients --entity-name c",
            ["users", "clients"],
            ["", "c"],
        ),
        ("--describe --entity-type topics --entity-name t --entity-name u", ["topics"], ["t", "u"]),
        ("--describe --topic t --bootstrap-server second", ["topics"], ["t"]),
    ],
)
def test_options_select_entities(line: str, types: list[str], names: list[str]) -> None:
    command = ConfigOptions([*SERVER.split(), *line.split()])
    assert (sorted(command.entity_types), sorted(command.entity_names)) == (
        sorted(types),
        sorted(names),
    )
    assert command.action == line.split()[0].removeprefix("--")


@pytest.mark.parametrize(
    ("line", "added", "deleted"),
    [
        ("--add-config a=1,b=[x,y],,", {"a": "1", "b": "x,y"}, []),
        ("--add-config ,", {}, []),
        ("--add-config a=,b=2", {"a": "", "b": "2"}, []),
        ("--delete-config a,b, --delete-config c", {}, ["a", "b", "c"]),
        ("--delete-config ,", {}, [","]),
    ],
)
def test_configs_of_a_command_line_are_parsed(
    line: str, added: dict[str, str], deleted: list[str]
) -> None:
    command = ConfigOptions([*SERVER.split(), "--alter", "--topic", "t", *line.split()])
    assert command.configs_to_add(ToolOutput()) == added
    assert command.configs_to_delete() == deleted


@pytest.mark.parametrize("text", ["a", "a=1,b", "a=1=2", ""])
def test_configs_without_one_equals_sign_are_refused(text: str) -> None:
    command = ConfigOptions([*SERVER.split(), "--alter", "--topic", "t", "--add-config", text])
    with pytest.raises(UncaughtException, match='must be in the format "key=val"'):
        command.configs_to_add(ToolOutput())


def test_configs_of_a_file_are_read_as_java_reads_properties(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a=1\nb : \\\n  2\xe9\n# c=3\n")
    options = f"--alter --topic t --add-config-file {tmp_path / 'f'}"
    assert ConfigOptions([*SERVER.split(), *options.split()]).configs_to_add(ToolOutput()) == {
        "a": "1",
        "b": "2\xe9",
    }
    (tmp_path / "f").write_text("a=\\u1")
    with pytest.raises(UncaughtException, match="Malformed"):
        ConfigOptions([*SERVER.split(), *options.split()]).configs_to_add(ToolOutput())


def test_the_defaults_of_running_brokers_are_not_changed_in_zookeeper(world: World) -> None:
    line = "--alter --broker-defaults --add-config unclean.leader.election.enable=true"
    refused = run(world, line)
    assert "for default cluster if any broker is running." in refused.stderr
    rate = "follower.replication.throttled.rate=1"
    throttled = run(world, f"--alter --broker-defaults --add-config {rate}")
    assert throttled.stdout == (
        f"{WARNING}Completed updating config for entity: default brokers.\n"
    )
    shown = run(world, "--describe --entity-type brokers")
    assert f"Configs for default brokers are {rate}" in shown.stdout


@pytest.mark.parametrize("line", ["--describe --user u --client c", "--describe --ip 1.2.3.4"])
def test_a_config_that_klamm_does_not_support_is_refused_with_a_reason(
    world: World, line: str
) -> None:
    with pytest.raises(UsageError, match="klamm does not support configs of") as refused:
        run(world, line)
    assert refused.value.exit_code == 1


def test_users_are_changed_in_zookeeper_only(world: World) -> None:
    args = ["--bootstrap-server", "b:1", "--describe", "--entity-type", "users"]
    with pytest.raises(UsageError, match=r"of users with --bootstrap-server$"):
        run_configs_command(args, world.services())


def test_credentials_of_a_user_are_derived_and_announced(world: World, tmp_path: Path) -> None:
    line = "--alter --user a+b --add-config"
    made = run(world, f"{line} SCRAM-SHA-256=[iterations=5000,password=secret]")
    assert made.stdout == (
        f"{WARNING}Completed updating config for entity: user-principal 'a+b'.\n"
    )
    configs = world.client.get_entity_configs("users", "a%2Bb")
    credential = parse_credential(configs["SCRAM-SHA-256"])
    assert credential is not None
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", credential.salt, 5000)
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    assert credential == credential_of(mechanism, credential.salt, salted, 5000)
    file = tmp_path / "user.properties"
    file.write_text("SCRAM-SHA-512=iterations=8192,password=secret\n")
    run(world, f"--alter --user a+b --add-config-file {file}")
    assert "iterations=8192" in world.client.get_entity_configs("users", "a%2Bb")["SCRAM-SHA-512"]
    shown = run(world, "--describe --entity-type users").stdout
    assert shown.startswith(f"{WARNING}Configs for user-principal 'a+b' are SCRAM-SHA-")
    run(world, "--alter --user a+b --delete-config SCRAM-SHA-256")
    assert world.client.get_entity_configs("users", "a%2Bb").keys() == {"SCRAM-SHA-512"}
    assert len(world.client.get_children("/config/changes")) == 3


def test_credentials_that_cannot_be_derived_write_nothing(world: World) -> None:
    before = dump(world.client.store)
    few = run(world, "--alter --user a --add-config SCRAM-SHA-256=[iterations=1,password=secret]")
    assert few.stderr == "Iterations 1 is less than the minimum 4096 required for SCRAM_SHA_256\n"
    malformed = run(world, "--alter --user a --add-config SCRAM-SHA-256=[secret]")
    assert malformed.stderr == "Invalid credential property SCRAM_SHA_256\n"
    quota = run(world, "--alter --user a --add-config producer_byte_rate=1")
    assert "klamm does not support the user config producer_byte_rate" in quota.stderr
    assert dump(world.client.store) == before


def test_errors_hide_passwords() -> None:
    text = _error_text(UsageError("refused"), ["--add-config", "SCRAM-SHA-256=[password=secret]"])
    assert "SCRAM-SHA-256=[password=[hidden]]" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("entity", "path", "place"),
    [
        ("--topic ..", "/config/topics/..", 16),
        ("--topic .", "/config/topics/.", 15),
        ("--topic a/../b", "/config/topics/a/../b", 18),
        ("--user .", "/config/users/.", 14),
    ],
)
@pytest.mark.parametrize("action", ["--describe", "--alter --delete-config retention.ms"])
def test_a_relative_path_is_refused_as_by_zookeepers_client(
    world: World, entity: str, path: str, place: int, action: str
) -> None:
    result = run(world, f"{action} {entity}")
    reason = f'Invalid path string "{path}" caused by relative paths not allowed @{place}'
    assert (result.exit_code, result.stderr) == (1, f"{reason}\n")
