"""Kafka 2.8.2's own ConfigCommand and klamm's, side by side: same bytes and znodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.cli.main import main
from klamm.cluster.configs import TOPIC_CONFIGS
from klamm.world.kafka.jars import kafka_libs
from tests.cli.test_reassign_against_kafka import registration, without_frames
from tests.cli.test_topics_against_kafka import znodes

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]

TOOL = "kafka.admin.ConfigCommand"
RATE = "leader.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"
TWELVE = ",".join(
    f"{name}={config.default}"
    for name, config in list(TOPIC_CONFIGS.items())[:14]
    if config.default
)
SCRIPTS = {
    "topics": [
        "--describe --topic t",
        "--alter --topic t --add-config retention.ms=5,cleanup.policy=[compact,delete]",
        "--alter --entity-type topics --entity-name t --add-config flush.ms=1",
        "--alter --topic t --add-config message.format.version=2.7",
        "--describe --entity-type topics",
        "--alter --topic t --delete-config retention.ms,flush.ms --add-config segment.ms=7",
        "--alter --topic t --delete-config retention.ms",
        "--alter --topic t --add-config-file {file}",
        f"--alter --topic t --add-config {TWELVE}",
        "--alter --topic t --add-config nope=1",
        "--alter --topic t --add-config flush.ms=x",
        "--alter --topic t --add-config flush.ms",
        "--alter --topic t --add-config flush.ms=",
        "--alter --topic t --add-config ,",
        "--alter --topic t --add-config flush.ms=2,,",
        "--alter --topic none --add-config flush.ms=1",
        "--alter --topic . --add-config flush.ms=1",
        "--describe --topic ..",
        "--describe --topic a/../t",
        "--describe --entity-type users --entity-name .",
        "--alter --topic t --add-config min.compaction.lag.ms=9,max.compaction.lag.ms=3",
        "--alter --topic t --add-config-file absent",
        f"--alter --topic t --add-config {REPLICAS}=[1:2,3:4]",
        f"--alter --topic t --add-config {REPLICAS}=*",
        f"--alter --topic t --add-config {REPLICAS}=none",
        f"--alter --topic t --add-config {REPLICAS}=[1:2,*]",
    ],
    "brokers": [
        f"--alter --broker 0 --add-config {RATE}=7",
        f"--alter --entity-type brokers --entity-default --add-config {RATE}=8",
        "--describe --entity-type brokers",
        "--describe --broker-defaults",
        "--describe --broker 7",
        f"--alter --broker 0 --delete-config {RATE}",
        f"--alter --broker 0 --delete-config {RATE}",
        f"--alter --broker 0 --add-config {RATE}=-1",
        f"--alter --broker 0 --add-config {RATE}=x",
        "--alter --broker 0 --add-config unclean.leader.election.enable=true",
        "--alter --broker-defaults --add-config unclean.leader.election.enable=true",
    ],
    "refusals": [
        "",
        "--version",
        "--help",
        "--nope",
        "--alter --describe",
        "--describe",
        "--describe --topic t --all",
        "--describe --topic t --add-config a=b",
        "--describe --topic t --bootstrap-server s:1",
        "--describe --entity-type x",
        "--describe --topic t --broker 0",
        "--describe --entity-type topics --topic u",
        "--describe --entity-type topics --entity-type topics",
        "--describe --broker x",
        "--describe --broker-logger 1",
        "--alter --entity-type topics --add-config a=b",
        "--alter --entity-type brokers --add-config a=b",
        "--alter --topic t",
        "--alter --topic t --add-config a=b --add-config-file f",
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_say_and_write_the_same(
    chroot: str,
    zookeeper_client: KazooClient,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    script: str,
) -> None:
    root = chroot[chroot.index("/") :]
    for name in ("kafka", "klamm"):
        zookeeper_client.create(f"{root}/{name}/brokers/ids/0", registration(0), makepath=True)
        topic = b'{"version":3,"partitions":{"0":[0]}}'
        zookeeper_client.create(f"{root}/{name}/brokers/topics/t", topic, makepath=True)
    file = tmp_path / "configs"
    file.write_text("# a comment\nretention.ms = 77\nflush.ms:5\n\n  index.interval.bytes 99\n")
    for line in SCRIPTS[script]:
        args = line.replace("{file}", str(file)).split()
        expected = run_tool(TOOL, ["--zookeeper", f"{chroot}/kafka", *args])
        code = main(["configs", "--yes", "--zookeeper", f"{chroot}/klamm", *args])
        printed = capsys.readouterr()
        assert printed.out == expected.stdout, line
        assert code == expected.returncode, line
        if line != "--help":
            error = without_frames(expected.stderr).replace(f"{root}/kafka", f"{root}/klamm")
            assert printed.err == error, line
        found = [znodes(zookeeper_client, f"{root}/{name}") for name in ("klamm", "kafka")]
        assert found[0] == found[1], line
