"""kafka-reassign-partitions: what is throttled, what stays throttled, and unknown topics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from klamm.admin.kafka_admin import ReplicaLogDirs
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import RequestTimedOut
from klamm.cluster.requests import ApiError
from klamm.cluster.types import TopicPartition, TopicPartitionReplica
from klamm.tools.reassignments.text import CANNOT_EXECUTE
from tests.unit.tools.test_reassign_command import SERVER, ZOOKEEPER, Tool

LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def test_throttles_stay_if_they_are_to_be_preserved(tool: Tool) -> None:
    tool(SERVER, "execute", "--throttle", "7")
    tool.complete()
    done = tool(SERVER, "verify", "--preserve-throttles")
    assert "Clearing" not in done.stdout and done.report["state"] == "complete"
    assert tool.world.client.get_entity_configs("topics", "a") != {}
    assert "Clearing" in tool(SERVER, "verify").stdout
    assert tool.world.client.get_entity_configs("topics", "a") == {}


def test_partitions_that_move_already_are_throttled_too(tool: Tool) -> None:
    tool.plan({"topic": "b", "partition": 0, "replicas": [3, 0]})
    tool(SERVER, "execute")
    assert tool.world.client.get_entity_configs("topics", "b") == {}
    tool.plan({"topic": "a", "partition": 0, "replicas": [1, 3]})
    tool(SERVER, "execute", "--additional", "--throttle", "7")
    assert tool.world.client.get_entity_configs("topics", "b") == {
        "leader.replication.throttled.replicas": "0:0,0:2",
        "follower.replication.throttled.replicas": "0:3",
    }


@pytest.mark.parametrize(
    ("given", "rate"), [("0", "0"), ("-1", None), ("9223372036854775807", "9223372036854775807")]
)
def test_a_rate_of_0_between_directories_is_set(tool: Tool, given: str, rate: str | None) -> None:
    tool.world.cluster.log_dirs = {TopicPartitionReplica("a", 0, 0): ReplicaLogDirs("/x")}
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["/y", "any"]})
    tool(SERVER, "execute", "--replica-alter-log-dirs-throttle", given)
    assert tool.world.client.get_entity_configs("brokers", "0").get(LOG_DIR_RATE) == rate


@pytest.mark.parametrize(("words", "tried_ms"), [(["--timeout", "700"], 700), ([], 10_000)])
def test_a_move_between_directories_is_tried_for_its_timeout(
    tool: Tool, words: list[str], tried_ms: int
) -> None:
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["/y", "any"]})
    cluster = tool.world.cluster
    cluster.log_dirs = {TopicPartitionReplica("a", 0, 0): ReplicaLogDirs("/x")}
    cluster.not_there_yet = 10_000
    begun_ms = cluster.clock_ms
    tool(SERVER, "execute", *words)
    assert cluster.clock_ms - begun_ms == tried_ms


def test_an_unknown_topic_does_not_hide_the_others(tool: Tool) -> None:
    tool.plan(
        {"topic": "a", "partition": 0, "replicas": [0, 1]},
        {"topic": "nope", "partition": 0, "replicas": [0]},
    )
    states = {one["topic"]: one for one in tool(SERVER, "verify").report["partitions"]}
    assert (states["a"]["state"], states["a"]["replicas"]) == ("complete", (0, 1))
    assert (states["nope"]["state"], states["nope"]["replicas"]) == ("different", ())


def test_only_a_verification_that_may_remove_throttles_asks_before_it_writes(tool: Tool) -> None:
    tool(ZOOKEEPER, "verify", "--preserve-throttles")
    assert tool.world.written == 0
    tool(ZOOKEEPER, "verify")
    tool(ZOOKEEPER, "execute")
    assert tool.world.written == 2


def test_throttles_stay_while_a_replica_to_move_is_not_there(tool: Tool) -> None:
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["/y", "any"]})
    lost = tool(SERVER, "verify")
    assert "Partition a-0 cannot be found in any live log directory on broker 0." in lost.stdout
    assert "Clearing" not in lost.stdout
    tool.world.cluster.log_dirs = {TopicPartitionReplica("a", 0, 0): ReplicaLogDirs("/x")}
    assert "Clearing" in tool(SERVER, "verify").stdout


def test_another_plan_is_added_only_on_request(tool: Tool) -> None:
    tool(SERVER, "execute")
    tool.plan({"topic": "b", "partition": 0, "replicas": [3, 0]})
    assert CANNOT_EXECUTE in tool(SERVER, "execute").stdout
    assert len(tool.world.cluster.list_partition_reassignments()) == 1
    assert tool(SERVER, "execute", "--additional").exit_code == 0
    assert len(tool.world.cluster.list_partition_reassignments()) == 2


def test_moves_are_cancelled_for_the_timeout(tool: Tool) -> None:
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["/y", "any"]})
    cluster = tool.world.cluster
    cluster.log_dirs = {TopicPartitionReplica("a", 0, 0): ReplicaLogDirs("/x", "/y")}
    cluster.not_there_yet = 10_000
    late = tool(SERVER, "cancel", "--timeout", "700")
    assert late.stdout.endswith("before log directory move could be started for: a-0-0\n")
    assert (late.exit_code, cluster.clock_ms) == (1, 700)


@pytest.mark.parametrize(("text", "hint"), [("no /z", "no /z"), (None, "LOG_DIR_NOT_FOUND")])
def test_a_move_that_a_broker_refuses_is_not_tried_again(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, text: str | None, hint: str
) -> None:
    replica = TopicPartitionReplica("a", 0, 0)
    refused = {replica: ApiError(Errors.LOG_DIR_NOT_FOUND, text)}
    monkeypatch.setattr(tool.world.cluster, "alter_replica_log_dirs", lambda _: refused)
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["/z", "any"]})
    result = tool(SERVER, "execute")
    assert "Error: Failed to alter dir for a-0-0\n" in result.stdout
    named = f"broker 0, log directory /z: {hint}"
    assert (result.exit_code, result.hint, tool.world.cluster.clock_ms) == (1, named, 0)
    assert result.report["error"]["definite"] is False, "the reassignment has been started"


@pytest.mark.parametrize("option", ["--throttle", "--replica-alter-log-dirs-throttle", None])
def test_an_error_after_the_first_change_is_not_definite(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, option: str | None
) -> None:
    refused = {TopicPartition("a", 0): ApiError(Errors.INVALID_REPLICA_ASSIGNMENT)}
    monkeypatch.setattr(tool.world.cluster, "alter_partition_reassignments", lambda *_: refused)
    replica = TopicPartitionReplica("a", 0, 0)
    tool.world.cluster.log_dirs = {replica: ReplicaLogDirs("/x")}
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 3], "log_dirs": ["/y", "any"]})
    result = tool(SERVER, "execute", *([option, "7"] if option else []))
    assert result.exit_code == 1
    assert result.report["error"]["definite"] is (option is None)


def test_topics_that_cannot_be_described_are_an_error(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(_: Sequence[str]) -> None:
        raise RequestTimedOut("Late.")

    monkeypatch.setattr(tool.world.cluster, "describe_topics", late)
    result = tool(SERVER, "verify")
    assert result.exit_code == 1
    assert "org.apache.kafka.common.errors.TimeoutException: Late." in result.stdout


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_throttles_of_brokers_that_are_down_are_reported_and_removed(
    tool: Tool, where: tuple[str, str]
) -> None:
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    client = tool.world.client
    client.set_or_create_entity_configs("brokers", "9", {rate: "5"})
    client.set_or_create_entity_configs("brokers", "8", {rate: "5"})
    client.set_or_create_entity_configs("topics", "a", {replicas: "*"})
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 9]})
    told = tool(where, "verify", "--preserve-throttles").report["throttles"]
    assert told == {"brokers": {"9": {rate: "5"}}, "topics": {"a": {replicas: "*"}}}
    assert "throttles on brokers 0,1,9,2,3\n" in tool(where, "verify").stdout
    assert client.get_entity_configs("brokers", "9") == {}
    assert client.get_entity_configs("brokers", "8") == {rate: "5"}
    assert client.get_entity_configs("topics", "a") == {}


def test_the_unknown_broker_that_is_named_is_the_first_of_a_set(tool: Tool) -> None:
    """Scala's sets of up to four numbers keep their order, larger ones do not."""
    for replicas, unknown in (([3, 9, 8], 9), ([3, 2, 9, 8, 7], 9)):
        tool.plan({"topic": "a", "partition": 0, "replicas": replicas})
        assert f"Error: Unknown broker id {unknown}\n" in tool(SERVER, "execute").stdout
