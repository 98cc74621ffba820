"""Kafka 2.8.2's own TopicCommand and klamm's, side by side: same bytes, same znodes."""

from __future__ import annotations

import json
import re

import pytest
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_topic_command
from klamm.cli.main import main
from klamm.cluster.configs import TOPIC_CONFIGS
from klamm.world.kafka.jars import kafka_libs

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]

REGISTRATION = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://localhost:9092"],"jmx_port":-1,"port":9092,"host":"localhost",'
    b'"version":5,"timestamp":"1"}'
)
ALL_CONFIGS = {name: config.default for name, config in TOPIC_CONFIGS.items() if config.default}
FOUR_CONFIGS = "--config retention.ms=5 --config flush.ms=1 --config cleanup.policy=compact"
SCRIPTS = {
    "a life": [
        f"--create --topic t --replica-assignment 0:1,1:0 {FOUR_CONFIGS} --config preallocate=true",
        "--describe",
        "--create --topic t --partitions 1 --replication-factor 1 --if-not-exists",
        "--create --topic a.b --replica-assignment 0 --config message.format.version=2.7",
        "--create --topic a_b --replica-assignment 0",
        "--alter --topic t --partitions 5 --config flush.ms=2 --delete-config retention.ms",
        "--alter --topic t --partitions 6 --replica-assignment 0:1,0:1,0:1,0:1,0:1,1:2",
        "--alter --topic t --partitions 6 --replica-assignment 0:1,0:1,0:1,0:1,0:1,1:0",
        "--describe --topic t",
        "--delete --topic t",
        "--delete --topic t",
        "--list",
        "--describe --unavailable-partitions",
    ],
    "refusals": [
        "--create --topic t --partitions 1 --replication-factor 3",
        "--create --topic t --partitions 0 --replication-factor 1",
        "--create --topic t --partitions 1 --replication-factor 0",
        "--create --topic t --partitions 99999999999 --replication-factor 1",
        "--create --topic t/x --replica-assignment 0",
        "--create --topic t --replica-assignment 0:x",
        "--create --topic t --replica-assignment 0 --config retention.ms",
        "--create --topic t --replica-assignment 0 --config retention.ms=",
        "--create --topic t --replica-assignment 0 --config cleanup.policy=gone",
        "--create --topic t --replica-assignment 0 --config min.cleanable.dirty.ratio=2",
        "--create --topic t --replica-assignment 0 --config nope=1",
        "--create --topic t --replica-assignment 0 --config segment.bytes=1 --config segment.ms=x",
        "--alter --topic t --partitions 2",
        "--list --topic t --topic u",
        "--list --topic (",
        "--list --topic t{1,3}",
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_say_and_write_the_same(
    chroot: str, zookeeper_client: KazooClient, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    root = chroot[chroot.index("/") :]
    for name in ("kafka", "klamm"):
        for broker_id in (0, 1):
            path = f"{root}/{name}/brokers/ids/{broker_id}"
            zookeeper_client.create(path, REGISTRATION, makepath=True)
    for line in SCRIPTS[script]:
        args = line.split()
        expected = run_topic_command(f"{chroot}/kafka", args)
        code = main(["topics", "--yes", "--zookeeper", f"{chroot}/klamm", *args])
        printed = capsys.readouterr().out
        assert printed == expected.stdout, line
        assert code == expected.returncode, line
        if "--replication-factor" not in line:
            assert znodes(zookeeper_client, f"{root}/klamm") == znodes(
                zookeeper_client, f"{root}/kafka"
            ), line


def test_every_config_with_its_default(chroot: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that share a bucket of Java's map come in the znode's order, in Kafka in another."""
    configs = [f"--config={name}={value}" for name, value in ALL_CONFIGS.items()]
    made = run_topic_command(
        chroot, ["--create", "--topic", "t", "--replica-assignment", "0", *configs]
    )
    assert made.stdout.endswith("Created topic t.\n")
    expected = run_topic_command(chroot, ["--describe", "--topics-with-overrides"])
    assert main(["topics", "--zookeeper", chroot, "--describe", "--topics-with-overrides"]) == 0
    printed = capsys.readouterr().out
    assert printed.partition("Configs: ")[0] == expected.stdout.partition("Configs: ")[0]
    assert shown_configs(printed) == shown_configs(expected.stdout)
    assert len(shown_configs(printed)) == len(ALL_CONFIGS)


def shown_configs(text: str) -> list[str]:
    """The configs of a topic's line, sorted; a value may hold commas only between them."""
    return sorted(text.partition("Configs: ")[2].split("\n")[0].split(","))


def znodes(client: KazooClient, path: str) -> dict[str, object]:
    """Everything below ``path``, data as JSON where it is JSON."""
    data, stat = client.get(path)
    content = json.loads(data) if data else data
    found: dict[str, object] = {"": (content, stat.version)}
    for name in client.get_children(path):
        below = znodes(client, f"{path}/{name}")
        found |= {f"/{name}{key}": value for key, value in below.items()}
    return {re.sub(r"\d{10}$", "N", key): value for key, value in found.items()}
