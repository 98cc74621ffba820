"""Kafka 2.8.2's own ReassignPartitionsCommand and klamm's, side by side: same bytes and znodes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.cli.main import main
from klamm.world.kafka.jars import kafka_libs
from tests.cli.test_topics_against_kafka import znodes

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]

TOOL = "kafka.admin.ReassignPartitionsCommand"
BROKERS = range(8)
TOPIC_COUNT = 7


def registration(broker_id: int) -> bytes:
    return json.dumps(
        {
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": ["PLAINTEXT://localhost:9092"],
            "rack": f"r{broker_id % 3}",
            "jmx_port": -1,
            "port": 9092,
            "host": "localhost",
            "version": 5,
            "timestamp": "1",
        }
    ).encode()


def plan(*moves: tuple[str, int, list[int]], **more: object) -> object:
    partitions = [
        {"topic": topic, "partition": partition, "replicas": ids} for topic, partition, ids in moves
    ]
    return {"version": 1, "partitions": partitions, **more}


MANY = plan(*((f"t{n}", 0, [n, (n + 1) % 8]) for n in range(TOPIC_COUNT)))
FILES: dict[str, object] = {
    "one": plan(("t0", 0, [2, 3])),
    "same": plan(("t0", 0, [0, 1])),
    "many": MANY,
    "unknown_partitions": plan(*((f"x{n}", n, [1]) for n in range(6)), ("t0", 0, [1])),
    "unknown_brokers": plan(("t0", 0, [9, 1, 12]), ("t1", 0, [44, 13, 10, 9])),
    "no_partitions": plan(),
    "no_replicas": plan(("t0", 0, [])),
    "twice": plan(("t0", 0, [1]), ("t1", 0, [1]), ("t0", 0, [2]), ("t1", 0, [1])),
    "twice_a_broker": plan(("t0", 0, [1, 1, 2, 2]), ("t1", 0, [3, 3])),
    "log_dirs": {
        "partitions": [{"topic": "t0", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]
    },
    "version": plan(version=2),
    "number": 5,
    "topics": {"topics": [{"topic": "t1"}, {"topic": "none"}]},
    "topics_twice": {"topics": [{"topic": "t1"}, {"topic": "t1"}]},
    "not_topics": {"topics": [{"partition": 1}]},
}
SCRIPTS = {
    "refusals": [
        *(
            f"--execute --reassignment-json-file {name}"
            for name in FILES
            if name not in ("one", "same", "many") and "topics" not in name
        ),
        "--execute --reassignment-json-file absent",
        "--execute --reassignment-json-file one --throttle x",
        "--execute --reassignment-json-file one --zookeeper w:1",
        "--generate --topics-to-move-json-file topics --broker-list 0,0",
        "--generate --topics-to-move-json-file topics --broker-list 0,x",
        "--generate --topics-to-move-json-file topics --broker-list 0",
        "--generate --topics-to-move-json-file topics_twice --broker-list 0,1",
        "--generate --topics-to-move-json-file not_topics --broker-list 0,1",
        "--verify --reassignment-json-file log_dirs",
        "--cancel --reassignment-json-file one",
        "--list",
        "--nope",
        "--help",
    ],
    "a throttled plan": [
        "--verify --reassignment-json-file same",
        "--execute --reassignment-json-file many --throttle 1000",
        "--verify --reassignment-json-file many",
        "--verify --reassignment-json-file same --preserve-throttles",
        "--execute --reassignment-json-file one",
    ],
    "throttles go": [
        "--execute --reassignment-json-file one --throttle 0",
        "-- removed --",
        "--verify --reassignment-json-file many --preserve-throttles",
        "--verify --reassignment-json-file many",
        "--verify --reassignment-json-file no_partitions",
    ],
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


@pytest.mark.parametrize("script", SCRIPTS)
def test_both_say_and_write_the_same(
    chroot: str,
    zookeeper_client: KazooClient,
    capsys: pytest.CaptureFixture[str],
    files: Path,
    script: str,
) -> None:
    root = chroot[chroot.index("/") :]
    for name in ("kafka", "klamm"):
        for broker_id in BROKERS:
            path = f"{root}/{name}/brokers/ids/{broker_id}"
            zookeeper_client.create(path, registration(broker_id), makepath=True)
        for number in range(TOPIC_COUNT):
            topic = json.dumps({"version": 3, "partitions": {"0": [number % 8, 1]}}).encode()
            path = f"{root}/{name}/brokers/topics/t{number}"
            zookeeper_client.create(path, topic, makepath=True)
    for line in SCRIPTS[script]:
        if line == "-- removed --":
            for name in ("kafka", "klamm"):
                zookeeper_client.delete(f"{root}/{name}/admin/reassign_partitions")
            continue
        args = [
            str(files / word) if before.endswith("-file") else word
            for before, word in zip(["", *line.split()], line.split(), strict=False)
        ]
        expected = run_tool(TOOL, ["--zookeeper", f"{chroot}/kafka", *args])
        code = main(["reassign-partitions", "--yes", "--zookeeper", f"{chroot}/klamm", *args])
        printed = capsys.readouterr()
        assert printed.out == without_frames(expected.stdout), line
        assert code == expected.returncode, line
        if line != "--help":
            without_hint = re.sub(r"(?m)^hint: .*\n", "", printed.err)
            assert without_hint == without_frames(expected.stderr), line
        assert contents(zookeeper_client, f"{root}/klamm") == contents(
            zookeeper_client, f"{root}/kafka"
        ), line


def contents(client: KazooClient, path: str) -> dict[str, object]:
    """Everything below ``path``; the plan's partitions sorted."""
    found = znodes(client, path)
    plan = found.get("/admin/reassign_partitions")
    if isinstance(plan, tuple):
        plan[0]["partitions"].sort(key=lambda item: (item["topic"], item["partition"]))
    return found


def without_frames(text: str) -> str:
    """A tool's words without Java's stack frames and causes."""
    return re.sub(r"(?m)^(\tat |Caused by: |\t\.\.\. ).*\n", "", text)
