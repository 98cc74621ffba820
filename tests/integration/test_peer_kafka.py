"""Kafka 2.8.2's own tools beside klamm, and the benchmark of its controller.

What needs Kafka's jars is marked ``kafka`` and skips without them; the rest says what happens then.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, find_javac, run_topic_command
from bench.kafka.run import problems, run_kafka
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.world.kafka.jars import KAFKA_JAR, LIBS_VARIABLE, kafka_libs, require_kafka_libs

FETCH = Path(__file__).parents[2] / "bench" / "kafka" / "fetch.sh"
PARENTS = ("/brokers/ids", "/brokers/topics", "/config/topics")

TopicCommand = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def peer_libs() -> Path:
    """Kafka 2.8.2's jars; skips without them."""
    libs = kafka_libs()
    if libs is None:
        pytest.skip(SKIP_REASON)
    return libs


@pytest.fixture
def topic_command(peer_libs: Path, chroot: str) -> TopicCommand:
    """Kafka's own kafka-topics against this test's chroot."""
    return lambda args: run_topic_command(chroot, args)


@pytest.fixture
def brokers(chroot: str, zookeeper_client: KazooClient) -> str:
    """Three brokers, registered for as long as the test runs. Returns the path of the chroot."""
    root = chroot[chroot.index("/") :]
    for path in PARENTS:
        zookeeper_client.ensure_path(root + path)
    for broker in (1, 2, 3):
        value = {
            "version": 5,
            "host": "localhost",
            "port": 9092,
            "endpoints": ["PLAINTEXT://localhost:9092"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "features": {},
            "timestamp": "0",
        }
        data = json.dumps(value).encode()
        zookeeper_client.create(f"{root}/brokers/ids/{broker}", data)
    return root


def test_the_jars_are_found_where_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIBS_VARIABLE, str(tmp_path))
    assert kafka_libs() is None
    (tmp_path / KAFKA_JAR).touch()
    assert kafka_libs() == tmp_path


def test_without_the_jars_one_line_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIBS_VARIABLE, str(tmp_path))
    with pytest.raises(EnvironmentProblem) as caught:
        require_kafka_libs()
    assert str(caught.value) == f"no {KAFKA_JAR} in {tmp_path}"
    assert caught.value.hint == "make peer-kafka, or set KAFKA_LIBS"


def test_without_maven_the_fetch_says_so_in_one_line(tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("sh", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (commands / name).symlink_to(found)
    script = tmp_path / "bench" / "kafka" / FETCH.name
    script.parent.mkdir(parents=True)
    shutil.copy(FETCH, script)
    done = subprocess.run(
        [str(script)], env={"PATH": str(commands)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no mvn in PATH" in done.stderr
    assert not (tmp_path / ".kafka").exists()


@pytest.mark.parametrize(
    ("partitions", "partitions_per_topic", "brokers", "step", "message"),
    [
        (100, 10, 5, "crate", "no step 'crate'"),
        (100, 10, 5, "create:0", "step 'create:0': a count is a number from 1"),
        (100, 10, 5, "create:15", "step 'create:15': not topics of 10 partitions"),
        (105, 10, 5, "create", "105 partitions are not topics of 10"),
        (100, 10, 3, "create", "3 brokers: at least 4, so that a replica can move"),
    ],
)
def test_a_run_that_is_not_possible_is_refused_before_it_starts(
    tmp_path: Path,
    partitions: int,
    partitions_per_topic: int,
    brokers: int,
    step: str,
    message: str,
) -> None:
    work_dir = tmp_path / "work"
    with pytest.raises(UsageError) as caught:
        run_kafka(partitions, partitions_per_topic, brokers, [step], work_dir=work_dir)
    assert str(caught.value) == message
    assert not work_dir.exists()


@pytest.mark.kafka
def test_kafkas_tool_writes_a_topic(
    topic_command: TopicCommand, brokers: str, zookeeper_client: KazooClient
) -> None:
    done = topic_command(["--create", "--topic", "orders", "--replica-assignment", "1:2,2:3"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "Created topic orders.\n", "")
    data, stat = zookeeper_client.get(f"{brokers}/brokers/topics/orders")
    assert json.loads(data)["partitions"] == {"0": [1, 2], "1": [2, 3]}
    assert stat.version == 0


@pytest.mark.kafka
def test_kafkas_tool_fails_with_its_own_words(
    topic_command: TopicCommand, brokers: str, zookeeper_client: KazooClient
) -> None:
    done = topic_command(
        ["--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "4"]
    )
    assert done.returncode == 1
    assert done.stdout == (
        "Error while executing topic command : Replication factor: 4 larger than available "
        "brokers: 3.\n"
    )
    assert zookeeper_client.get_children(f"{brokers}/brokers/topics") == []


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("steps", "numbers"),
    [
        (
            ["create:50", "create", "failover", "broker_failure", "broker_start", "isr_rejoin"],
            # Three replicas on five brokers in turn: each has three of five partitions.
            [50, 100, 150, 90, 90, 90],
        ),
        (
            [
                "create",
                "controlled_shutdown",
                "broker_leaves",
                "broker_start",
                "isr_rejoin",
                "preferred_election",
                "reassign_znode:10",
                "delete_topics:3",
            ],
            [100, 60, 60, 60, 60, 20, 10, 30],
        ),
    ],
)
def test_kafkas_controller_is_timed(peer_libs: Path, steps: list[str], numbers: list[int]) -> None:
    try:
        find_javac()
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    results = run_kafka(100, 10, 5, steps)
    names = [step.partition(":")[0] for step in steps]
    assert [result["step"] for result in results] == ["create_cold", *names[1:]]
    assert [problem for result in results for problem in problems(result)] == []
    assert [result["n"] for result in results] == numbers
    for result in results:
        assert 0 < result["wall_s"] < result["cpu_window_s"]
        assert result["cpu_controller_s"] >= 0 and result["cpu_zookeeper_s"] >= 0
