"""kafka-configs with --bootstrap-server on a cluster in memory: what it prints and asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry
from klamm.admin.configs.effective_configs import (
    BrokerConfigs,
    broker_entries,
    default_entries,
    topic_entries,
)
from klamm.cluster.errors import (
    BrokerNotAvailable,
    KlammError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from klamm.tools.command_result import CommandResult
from klamm.tools.configs.command import run_configs_command
from klamm.zk.znodes import DEFAULT_ENTITY
from tests.unit.tools.reassign_world import World, ZnodeCluster

RATE = "leader.replication.throttled.rate"
UNCLEAN = "unclean.leader.election.enable"
DEFAULT_UNCLEAN = f"DEFAULT_CONFIG:{UNCLEAN}=false"
ALL_BROKERS = ConfigResource(BROKERS, DEFAULT_ENTITY)


class ConfigCluster(ZnodeCluster):
    """Also describes configs; ``failure`` is what it answers instead."""

    failure: KlammError | None = None

    def __init__(self, world: World) -> None:
        super().__init__(world.client)
        self.changes: list[Mapping[ConfigResource, Mapping[str, str | None]]] = []

    def list_topics(self) -> list[str]:
        return sorted(self.client.get_all_topics_in_cluster())

    def describe_configs(self, resource: ConfigResource) -> list[ConfigEntry]:
        if self.failure is not None:
            raise self.failure
        of_all = self.overrides([ALL_BROKERS]).get(ALL_BROKERS, {})
        own = self.overrides([resource]).get(resource, {})
        if resource.entity_type == TOPICS:
            return list(topic_entries(own, BrokerConfigs(of_all=of_all)))
        if resource == ALL_BROKERS:
            return default_entries(of_all)
        return list(broker_entries(BrokerConfigs(own=own, of_all=of_all)))

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        self.changes.append(changes)
        super().incremental_alter_configs(changes)


@pytest.fixture
def cluster() -> ConfigCluster:
    return ConfigCluster(World(2, {"t": {"0": [0, 1]}, "u": {"0": [0]}}))


def run(cluster: ConfigCluster, line: str) -> CommandResult:
    args = ["--bootstrap-server", "s:1", *line.split()]
    return run_configs_command(args, World().services(cluster=cluster))


@pytest.mark.parametrize(
    ("entity", "resource", "said"),
    [
        ("--topic t", ConfigResource(TOPICS, "t"), "config for topic t"),
        ("--broker 1", ConfigResource(BROKERS, "1"), "config for broker 1"),
        ("--broker-defaults", ALL_BROKERS, "default config for brokers in the cluster"),
    ],
)
def test_configs_are_added_and_deleted(
    cluster: ConfigCluster, entity: str, resource: ConfigResource, said: str
) -> None:
    first, second = ("flush.ms", "segment.ms") if "topic" in entity else (RATE, UNCLEAN)
    made = run(cluster, f"--alter {entity} --add-config {first}=5")
    assert (made.stdout, made.exit_code) == (f"Completed updating {said}.\n", 0)
    value = "7" if "topic" in entity else "true"
    changed = run(
        cluster, f"--alter {entity} --add-config {second}={value} --delete-config {first}"
    )
    assert cluster.changes == [{resource: {first: "5"}}, {resource: {second: value, first: None}}]
    (entity_after,) = changed.report["entities"]
    assert entity_after["configs"] == {second: value}
    assert entity_after["name"] == resource.name


@pytest.mark.parametrize("entity", ["--topic t", "--broker 1"])
def test_a_config_that_comes_from_elsewhere_cannot_be_deleted(
    cluster: ConfigCluster, entity: str
) -> None:
    run(cluster, f"--alter --broker-defaults --add-config {UNCLEAN}=true")
    del cluster.changes[:]
    refused = run(cluster, f"--alter {entity} --delete-config {UNCLEAN}")
    assert (refused.stderr, refused.exit_code) == (f"Invalid config(s): {UNCLEAN}\n", 1)
    assert cluster.changes == []


def test_a_config_of_a_topic_is_not_both_added_and_deleted(cluster: ConfigCluster) -> None:
    both = "--add-config {0}=2 --delete-config {0}"
    run(cluster, "--alter --topic t --add-config flush.ms=1")
    refused = run(cluster, f"--alter --topic t {both.format('flush.ms')}")
    assert refused.stderr.endswith(
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
        "InvalidRequestException: Error due to duplicate config keys : flush.ms\n"
    )
    run(cluster, f"--alter --broker 1 --add-config {RATE}=1")
    assert run(cluster, f"--alter --broker 1 {both.format(RATE)}").exit_code == 0
    assert cluster.overrides([ConfigResource(BROKERS, "1")]) == {ConfigResource(BROKERS, "1"): {}}


def test_describe_prints_the_configs_of_topics_brokers_and_defaults(cluster: ConfigCluster) -> None:
    run(cluster, f"--alter --broker-defaults --add-config {UNCLEAN}=true")
    run(cluster, "--alter --topic u --add-config flush.ms=5")
    run(cluster, f"--alter --broker 1 --add-config {RATE}=6")
    of_u = run(cluster, "--describe --topic u").stdout
    assert of_u == (
        "Dynamic configs for topic u are:\n"
        "  flush.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:flush.ms=5}\n"
    )
    topics = run(cluster, "--describe --entity-type topics").stdout
    assert sorted(line for line in topics.splitlines() if line.startswith("Dynamic")) == [
        "Dynamic configs for topic t are:",
        "Dynamic configs for topic u are:",
    ]
    of_all = (
        "Default configs for brokers in the cluster are:\n"
        f"  {UNCLEAN}=true sensitive=false "
        f"synonyms={{DYNAMIC_DEFAULT_BROKER_CONFIG:{UNCLEAN}=true}}\n"
    )
    assert run(cluster, "--describe --broker-defaults").stdout == of_all
    brokers = run(cluster, "--describe --entity-type brokers")
    assert brokers.stdout == (
        "Dynamic configs for broker 0 are:\nDynamic configs for broker 1 are:\n"
        f"  {RATE}=6 sensitive=false synonyms={{DYNAMIC_BROKER_CONFIG:{RATE}=6}}\n{of_all}"
    )
    assert [one["name"] for one in brokers.report["entities"]] == ["0", "1", DEFAULT_ENTITY]
    assert brokers.report["entities"][1]["sources"] == {RATE: "DYNAMIC_BROKER_CONFIG"}


def test_all_shows_values_from_everywhere(cluster: ConfigCluster) -> None:
    shown = run(cluster, "--describe --topic t --all").stdout.splitlines()
    assert shown[0] == "All configs for topic t are:"
    assert f"  {UNCLEAN}=false sensitive=false synonyms={{{DEFAULT_UNCLEAN}}}" in shown
    of_broker = run(cluster, "--describe --broker 0 --all").stdout
    assert "\n  log.retention.ms=null sensitive=false synonyms={}\n" in of_broker


EXECUTION = "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."


@pytest.mark.parametrize(
    ("failure", "said", "hint"),
    [
        (
            RequestTimedOut("Late.", hint="start it"),
            "java.util.concurrent.TimeoutException\n",
            "start it",
        ),
        (
            UnknownTopicOrPartition("topic x does not exist"),
            f"{EXECUTION}UnknownTopicOrPartitionException: \n",
            "topic x does not exist",
        ),
        (BrokerNotAvailable("gone"), f"{EXECUTION}BrokerNotAvailableException: gone\n", None),
    ],
)
def test_an_error_of_the_cluster_is_shown_as_kafka_shows_it(
    cluster: ConfigCluster, failure: KlammError, said: str, hint: Any
) -> None:
    cluster.failure = failure
    refused = run(cluster, "--describe --topic x")
    assert refused.stderr == (
        "Error while executing config command with args "
        f"'--bootstrap-server s:1 --describe --topic x'\n{said}"
    )
    assert (refused.exit_code, refused.hint) == (1, hint)


def test_names_that_no_topic_can_have_are_refused(cluster: ConfigCluster) -> None:
    refused = run(cluster, "--describe --topic a/b")
    assert 'InvalidTopicException: Topic name "a/b" is illegal' in refused.stderr
