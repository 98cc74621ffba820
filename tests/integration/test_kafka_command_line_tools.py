"""Kafka 2.8.2's own command-line tools on klamm's listeners (marked ``kafka``: they need its jars).

The expected output is what the tools print on a cluster of 2.8.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.server.cluster_server import ClusterServer
from klamm.world.kafka.jars import kafka_libs
from tests.listeners import BROKERS, bootstrap, config_of, free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Tool = Callable[..., str]


@pytest.fixture
def server(has_segments: bool, chroot: str, tmp_path: Path) -> Iterator[ClusterServer]:
    listen = str(free_ports(BROKERS))
    config = config_of(chroot, tmp_path / "data", listen, has_segments=has_segments)
    with ClusterServer(config) as opened:
        yield opened


@pytest.fixture
def tool(server: ClusterServer) -> Tool:
    """Runs a tool, named by its Java class, and returns what it prints on both streams."""
    if kafka_libs() is None:
        pytest.skip(SKIP_REASON)

    def run(java_class: str, *args: str, given: str = "", at: str = "--bootstrap-server") -> str:
        done = run_tool(java_class, [at, ",".join(bootstrap(server)), *args], given=given)
        return done.stdout + done.stderr

    return run


def shows(tool: str, what: str) -> pytest.MarkDecorator:
    """Mark a test with what it shows of a tool."""
    return pytest.mark.client(tool, version="2.8.2", shows=what)


def json_file(folder: Path, content: object) -> str:
    path = folder / "given.json"
    path.write_text(json.dumps(content))
    return str(path)


@shows("kafka-topics", "create, describe, alter, list, delete")
@shows("kafka-configs", "alter and describe topics; describe a broker with `--all`")
def test_topics_and_their_configs(tool: Tool) -> None:
    topics, configs = "kafka.admin.TopicCommand", "kafka.admin.ConfigCommand"
    options = ("--partitions", "2", "--replication-factor", "3", "--config", "retention.ms=5000")
    assert tool(topics, "--create", "--topic", "a", *options) == "Created topic a.\n"
    assert "Topic 'a' already exists." in tool(topics, "--create", "--topic", "a", *options)
    described = tool(topics, "--describe", "--topic", "a")
    assert re.search(
        r"^Topic: a\tTopicId: \S{22}\tPartitionCount: 2\tReplicationFactor: 3\t"
        r"Configs: retention.ms=5000$",
        described,
        re.MULTILINE,
    )
    assert tool(topics, "--alter", "--topic", "a", "--partitions", "3") == ""
    assert "higher than the requested 1" in tool(
        topics, "--alter", "--topic", "a", "--partitions", "1"
    )
    assert tool(topics, "--list") == "a\n"
    of_a = ("--entity-type", "topics", "--entity-name", "a")
    done = "Completed updating config for topic a.\n"
    assert (
        tool(configs, "--alter", *of_a, "--add-config", "cleanup.policy=[compact,delete]") == done
    )
    assert tool(configs, "--alter", *of_a, "--delete-config", "retention.ms") == done
    assert tool(configs, "--describe", *of_a) == (
        "Dynamic configs for topic a are:\n"
        "  cleanup.policy=compact,delete sensitive=false synonyms={"
        "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
        "DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
    )
    of_1 = ("--entity-type", "brokers", "--entity-name", "1")
    assert "  broker.id=1 sensitive=false" in tool(configs, "--describe", *of_1, "--all")
    assert tool(topics, "--delete", "--topic", "a") == ""
    assert tool(topics, "--list") == "\n"


@shows("kafka-configs", "alter and describe the quotas of users, clients and IP addresses")
def test_quotas_and_users(tool: Tool) -> None:
    configs = "kafka.admin.ConfigCommand"
    for kind, name, change in (
        ("users", "alice", "producer_byte_rate=1024,request_percentage=12.5"),
        ("users", "alice", "SCRAM-SHA-256=[iterations=8192,password=secret]"),
        ("clients", "app", "consumer_byte_rate=2048"),
        ("ips", "127.0.0.1", "connection_creation_rate=5"),
    ):
        of = ("--entity-type", kind, "--entity-name", name)
        done = f"Completed updating config for {kind[:-1]} {name}.\n"
        assert tool(configs, "--alter", *of, "--add-config", change) == done
    assert tool(configs, "--describe", "--entity-type", "users") == (
        "Quota configs for user-principal 'alice' are "
        "producer_byte_rate=1024.0, request_percentage=12.5\n"
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192\n"
    )
    of_alice = ("--entity-type", "users", "--entity-name", "alice")
    removed = ("--delete-config", "producer_byte_rate,request_percentage")
    assert tool(configs, "--alter", *of_alice, *removed).startswith("Completed updating")
    assert "Quota" not in tool(configs, "--describe", *of_alice)
    assert "consumer_byte_rate=2048.0" in tool(configs, "--describe", "--entity-type", "clients")
    assert "connection_creation_rate=5.0" in tool(configs, "--describe", "--entity-type", "ips")


@shows("kafka-console-producer", "50 records")
@shows("kafka-console-consumer", "all records, in a group")
@shows("kafka-consumer-perf-test", "50 records")
@shows("kafka-consumer-groups", "list, describe, reset offsets, delete")
@shows("kafka-delete-records", "records before an offset")
@shows("kafka-get-offsets", "latest and earliest offsets")
def test_records_groups_and_offsets(tool: Tool, tmp_path: Path) -> None:
    records = "".join(f"record {number}\n" for number in range(50))
    tool("kafka.admin.TopicCommand", "--create", "--topic", "a", "--partitions", "1")
    assert tool("kafka.tools.ConsoleProducer", "--topic", "a", given=records) == ""
    read = ("--topic", "a", "--from-beginning", "--max-messages", "50", "--group", "g")
    assert (
        tool("kafka.tools.ConsoleConsumer", *read) == f"{records}Processed a total of 50 messages\n"
    )
    offsets = tool("kafka.tools.GetOffsetShell", "--topic", "a", at="--broker-list")
    assert offsets == "a:0:50\n"
    measured = tool("kafka.tools.ConsumerPerformance", "--topic", "a", "--messages", "50")
    assert ", 50, " in measured.splitlines()[1]
    groups = "kafka.admin.ConsumerGroupCommand"
    assert "g\n" in tool(groups, "--list")
    described = tool(groups, "--describe", "--group", "g")
    assert "Consumer group 'g' has no active members." in described
    assert re.search(r"^g +a +0 +50 +50 +0 +- +- +-", described, re.MULTILINE)
    reset = ("--reset-offsets", "--to-earliest", "--topic", "a", "--group", "g", "--execute")
    assert re.search(r"^g +a +0 +0 *$", tool(groups, *reset), re.MULTILINE)
    deleted = "Deletion of requested consumer groups ('g') was successful.\n"
    assert tool(groups, "--delete", "--group", "g") == deleted
    before_20 = {"partitions": [{"topic": "a", "partition": 0, "offset": 20}], "version": 1}
    cut = tool(
        "kafka.admin.DeleteRecordsCommand",
        *("--offset-json-file", json_file(tmp_path, before_20)),
    )
    assert cut.endswith("partition: a-0\tlow_watermark: 20\n")
    earliest = ("--topic", "a", "--time", "-2")
    assert tool("kafka.tools.GetOffsetShell", *earliest, at="--broker-list") == "a:0:20\n"


@shows("kafka-producer-perf-test", "500 records with acks=all")
def test_producer_performance(tool: Tool, server: ClusterServer) -> None:
    libs = kafka_libs()
    if libs is None or not (libs / "kafka-tools-2.8.2.jar").is_file():
        pytest.skip("no kafka-tools-2.8.2.jar: make peer-kafka")
    tool("kafka.admin.TopicCommand", "--create", "--topic", "a", "--partitions", "2")
    measured = run_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        [
            *("--topic", "a", "--num-records", "500", "--record-size", "100"),
            *("--throughput", "-1", "--producer-props", "acks=all"),
            f"bootstrap.servers={','.join(bootstrap(server))}",
        ],
    )
    assert measured.stdout.startswith("500 records sent, "), measured
    offsets = tool("kafka.tools.GetOffsetShell", "--topic", "a", at="--broker-list")
    assert sum(int(line.rpartition(":")[2]) for line in offsets.splitlines()) == 500


@shows("kafka-reassign-partitions", "execute with a throttle, verify, list")
@shows("kafka-leader-election", "preferred leaders of all partitions")
@shows("kafka-log-dirs", "describe")
def test_reassignments_elections_and_log_directories(tool: Tool, tmp_path: Path) -> None:
    created = ("--topic", "a", "--replica-assignment", "0:1")
    assert tool("kafka.admin.TopicCommand", "--create", *created) == "Created topic a.\n"
    reassign = "kafka.admin.ReassignPartitionsCommand"
    moved = {"topic": "a", "partition": 0, "replicas": [1, 0]}
    plan = ("--reassignment-json-file", json_file(tmp_path, {"version": 1, "partitions": [moved]}))
    executed = tool(reassign, *plan, "--execute", "--throttle", "1000000")
    assert "The inter-broker throttle limit was set to 1000000 B/s\n" in executed
    assert executed.endswith("Successfully started partition reassignment for a-0\n")
    while "is still in progress" in (verified := tool(reassign, *plan, "--verify")):
        pass
    assert verified == (
        "Status of partition reassignment:\nReassignment of partition a-0 is complete.\n\n"
        "Clearing broker-level throttles on brokers 0,1,2\n"
        "Clearing topic-level throttles on topic a\n"
    )
    assert tool(reassign, "--list") == "No partition reassignments found.\n"
    elect = ("--election-type", "preferred", "--all-topic-partitions")
    elected = tool("kafka.admin.LeaderElectionCommand", *elect)
    assert elected == "Successfully completed leader election (PREFERRED) for partitions a-0\n"
    log_dirs = tool("kafka.admin.LogDirsCommand", "--describe", "--topic-list", "a")
    found = json.loads(log_dirs.splitlines()[-1])
    assert {
        broker["broker"]: [log["partition"] for log in log_dir["partitions"]]
        for broker in found["brokers"]
        for log_dir in broker["logDirs"]
    } == {0: ["a-0"], 1: ["a-0"], 2: []}


@shows("kafka-broker-api-versions", "all APIs")
def test_the_versions_of_the_apis(tool: Tool) -> None:
    printed = tool("kafka.admin.BrokerApiVersionsCommand")
    assert printed.count("Fetch(1): 0 to 12 [usable: 12]") == BROKERS
    assert printed.count("AlterPartitionReassignments(45): 0 [usable: 0]") == BROKERS
