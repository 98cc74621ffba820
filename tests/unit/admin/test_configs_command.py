"""kafka-configs on a ZooKeeper in memory: what klamm itself decides, and its checks."""

from __future__ import annotations

import pytest

from klamm.admin.command_result import CommandResult
from klamm.admin.configs.command import run_configs_command
from klamm.admin.configs.options import parse_properties
from klamm.cluster.errors import UsageError
from klamm.zk.dump import dump
from tests.unit.admin.reassign_world import World

WARNING = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
    "Use --bootstrap-server instead to specify a broker to connect to.\n"
)


@pytest.fixture
def world() -> World:
    return World(2, {"t": {"0": [0, 1]}})


def run(world: World, line: str) -> CommandResult:
    return run_configs_command(["--zookeeper", "z:1", *line.split()], world.services())


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
    ],
)
def test_what_is_refused_writes_nothing(world: World, line: str, error: str) -> None:
    before = dump(world.client.store)
    result = run(world, line)
    assert (result.stderr, result.exit_code) == (error, 1)
    assert dump(world.client.store) == before


def test_a_broker_that_is_not_running_takes_what_klamm_knows(world: World) -> None:
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


@pytest.mark.parametrize("line", ["--describe --user u", "--describe --ip 1.2.3.4"])
def test_what_klamm_leaves_out_is_said(world: World, line: str) -> None:
    with pytest.raises(UsageError, match="klamm does not support configs of"):
        run(world, line)


def test_properties() -> None:
    text = "# c\n! c\n\na=1\nb : 2\nc 3\nd=x=y\ne\nf = one,\\\n   two\n"
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "x=y",
        "e": "",
        "f": "one,two",
    }
