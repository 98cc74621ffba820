"""kafka-log-dirs: its checks as Kafka's own tool makes them, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.admin.kafka_admin import LogDirDescription
from klamm.cluster.errors import RequestTimedOut
from klamm.cluster.requests import ReplicaInfo
from klamm.cluster.types import TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.tools.command_result import CommandResult
from klamm.tools.log_dirs_command import run_log_dirs_command
from klamm.world.kafka.jars import kafka_libs
from tests.cli.test_reassign_against_kafka import without_frames
from tests.unit.tools.vectors import memory_server, services

STORAGE_ERROR = "org.apache.kafka.common.errors.KafkaStorageException"


class Cluster:
    """KafkaAdmin of two brokers; ``asked`` keeps what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def live_brokers(self) -> list[BrokerMetadata]:
        return [BrokerMetadata(0), BrokerMetadata(1)]

    def describe_log_dirs(
        self, brokers: Sequence[int]
    ) -> Mapping[int, Mapping[str, LogDirDescription]]:
        self.asked = list(brokers)
        replicas = {
            TopicPartition("t", 1): ReplicaInfo(7, 0, False),
            TopicPartition("t", 0): ReplicaInfo(5, 2, True),
            TopicPartition("u", 0): ReplicaInfo(1, 0, False),
        }
        log_dirs = {
            "/b": LogDirDescription(STORAGE_ERROR, {}),
            "/a": LogDirDescription(None, replicas),
        }
        return {broker: log_dirs for broker in brokers}


def describe(args: Sequence[str], cluster: Cluster) -> CommandResult:
    return run_log_dirs_command(args, services(memory_server(), cluster))


def test_describe_prints_the_directories_of_the_named_brokers_and_topics() -> None:
    cluster = Cluster()
    line = "--bootstrap-server s:1 --describe --topic-list t --broker-list 1,"
    result = describe(line.split(), cluster)
    assert result.stdout == (
        "Querying brokers for log directories information\n"
        "Received log directory information from brokers 1\n"
        '{"version":1,"brokers":[{"broker":1,"logDirs":['
        '{"logDir":"/a","error":null,"partitions":['
        '{"partition":"t-0","size":5,"offsetLag":2,"isFuture":true},'
        '{"partition":"t-1","size":7,"offsetLag":0,"isFuture":false}]},'
        f'{{"logDir":"/b","error":"{STORAGE_ERROR}","partitions":[]}}]}}]}}\n'
    )
    assert (cluster.asked, result.exit_code) == ([1], 0)
    assert len(result.report["brokers"][0]["logDirs"]) == 2


def test_describe_without_lists_asks_all_brokers_for_all_topics() -> None:
    cluster = Cluster()
    result = describe(["--describe", "--bootstrap-server=s:1"], cluster)
    assert cluster.asked == [0, 1]
    assert '"u-0"' in result.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "This tool helps to query log directory usage on the specified brokers."),
        ("--describe", 'Missing required argument "[bootstrap-server]"'),
        ("--bootstrap-server s:1", 'Missing required argument "[describe]"'),
        ("--describe --bootstrap-server s:1 --broker-list 1,x", 'For input string: "x"'),
        ("--nope", "nope is not a recognized option"),
    ],
)
def test_missing_and_invalid_options_are_refused(line: str, said: str) -> None:
    cluster = Cluster()
    result = describe(line.split(), cluster)
    assert said in result.stderr
    assert (result.exit_code, cluster.asked) == (1, [])


class Silent(Cluster):
    """No broker responds in time."""

    def describe_log_dirs(
        self, brokers: Sequence[int]
    ) -> Mapping[int, Mapping[str, LogDirDescription]]:
        raise RequestTimedOut("Late.", hint="no response from broker 1")


def test_a_broker_that_does_not_respond_is_named_in_the_hint() -> None:
    line = "--describe --bootstrap-server s:1 --broker-list 1"
    result = describe(line.split(), Silent())
    assert result.stdout == "Querying brokers for log directories information\n"
    assert "org.apache.kafka.common.errors.TimeoutException: Late.\n" in result.stderr
    assert (result.exit_code, result.hint) == (1, "no response from broker 1")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON)
@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "--version",
        "--describe",
        "--bootstrap-server s:1",
        "--describe --bootstrap-server s:1 --bootstrap-server t:1",
        "--describe --bootstrap-server s:1 --command-config absent",
        "--nope",
    ],
)
def test_the_command_line_is_checked_as_by_kafkas_tool(line: str) -> None:
    expected = run_tool("kafka.admin.LogDirsCommand", line.split())
    result = describe(line.split(), Cluster())
    assert result.stdout == expected.stdout
    assert result.stderr == without_frames(expected.stderr)
    assert result.exit_code == expected.returncode
