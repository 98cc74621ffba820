"""`klamm controller run` without Kafka's jars: what it refuses, and requests to other processes.

The brokers are simulated ones with listeners, which stand for brokers of another process.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from klamm.cli.main import main
from klamm.cluster.errors import EnvironmentProblem, KlammError, NotKlamm, UsageError
from klamm.cluster.types import Broker, EndPoint
from klamm.server import controller_server
from klamm.server.cluster_server import ClusterServer
from klamm.server.controller_server import (
    ControllerServer,
    ControllerServerConfig,
    KnownController,
    await_successor,
)
from klamm.server.kafka_cluster import parse_listener
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.kafka.cluster import KafkaCluster
from klamm.zk.guard import MARKER_PATH
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo, ClusterIdZNode
from tests.kafka_cluster import KlammController
from tests.listeners import BROKERS, config_of, create_everywhere, free_ports
from tests.waiting import wait_until

PATIENCE_S = 30.0
Configure = Callable[..., ControllerServerConfig]


@pytest.fixture
def configure(chroot: str, tmp_path: Path) -> Configure:
    """Returns a configuration for the chroot of the test."""

    def configured(listener: str = "127.0.0.1:9099", **options: object) -> ControllerServerConfig:
        return ControllerServerConfig(
            zookeeper=chroot,
            listeners=(parse_listener(listener),),
            broker_id=1000,
            data_dir=tmp_path / "controller",
            session_timeout_ms=2000,
            **options,  # type: ignore[arg-type]
        )

    return configured


@pytest.fixture
def root(chroot: str, zookeeper_client: KazooClient) -> Iterator[str]:
    """The chroot of a Kafka cluster with an id and without brokers."""
    path = chroot[chroot.index("/") :]
    data = b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    zookeeper_client.create(f"{path}{ClusterIdZNode.path}", data, makepath=True)
    zookeeper_client.ensure_path(f"{path}/brokers/ids")
    yield path


def refusal(config: ControllerServerConfig) -> KlammError:
    """Return the error with which the process refuses to start."""
    with pytest.raises(KlammError) as caught, ControllerServer(config, threading.Event(), print):
        pass
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:9099", EndPoint("h", 9099)),
        ("internal://[::1]:1", EndPoint("::1", 1, "INTERNAL")),
        ("h", None),
        ("h:0", None),
        ("h:65536", None),
        ("PLAINTEXT://:9099", None),
    ],
)
def test_a_listener_is_parsed_or_refused(text: str, expected: EndPoint | None) -> None:
    if expected is not None:
        assert parse_listener(text) == expected
        return
    with pytest.raises(UsageError, match="not \\[NAME://\\]HOST:PORT"):
        parse_listener(text)


def test_bad_options_are_refused(configure: Configure) -> None:
    with pytest.raises(UsageError, match=r"protocol 2\.0 to 2\.8"):
        configure(config={"inter.broker.protocol.version": "1.1"})
    with pytest.raises(UsageError, match="--rack is empty"):
        configure(rack=" ")
    with pytest.raises(UsageError, match="not a valid version"):
        configure(config={"inter.broker.protocol.version": "3.9"})
    assert configure(config={"inter.broker.protocol.version": "2.3"}).protocol.stop_replica_version


def test_a_chroot_without_a_cluster_is_refused(configure: Configure) -> None:
    error = refusal(configure())
    assert isinstance(error, NotKlamm)
    assert error.message.startswith("there is no Kafka cluster in ZooKeeper at ")


def test_a_cluster_of_klamm_is_refused(
    configure: Configure, root: str, zookeeper_client: KazooClient
) -> None:
    zookeeper_client.create(root + MARKER_PATH)
    error = refusal(configure())
    assert isinstance(error, NotKlamm)
    assert "was created by klamm" in error.message


@pytest.mark.parametrize(
    ("broker", "options", "message"),
    [
        (
            Broker(1, (EndPoint("h", 1),), "r"),
            {},
            "broker 1 has rack r, but this controller has no rack: Kafka would create no topics",
        ),
        (
            Broker(1, (EndPoint("h", 1),)),
            {"rack": "r"},
            "broker 1 has no rack, but this controller has rack r: Kafka would create no topics",
        ),
        (
            Broker(1, (EndPoint("h", 1, "A"), EndPoint("h", 2, "B", "SSL"))),
            {"listener": "C://h:1"},
            "broker 1 has no listener C; its listeners: A (PLAINTEXT), B (SSL)",
        ),
    ],
)
def test_brokers_that_do_not_fit(
    configure: Configure,
    root: str,
    zookeeper_client: KazooClient,
    broker: Broker,
    options: dict[str, str],
    message: str,
) -> None:
    path = root + BrokerIdZNode.path(1)
    zookeeper_client.create(path, BrokerIdZNode.encode(BrokerInfo(broker), 0))
    assert refusal(configure(**options)).message == message


@pytest.mark.slow
def test_an_id_in_use_is_refused(
    configure: Configure, root: str, zookeeper_client: KazooClient
) -> None:
    broker = Broker(1000, (EndPoint("h", 1),))
    path = root + BrokerIdZNode.path(1000)
    zookeeper_client.create(path, BrokerIdZNode.encode(BrokerInfo(broker), 0), ephemeral=True)
    error = refusal(configure(f"127.0.0.1:{free_ports(1)}"))
    assert error.message == "broker 1000 is registered by another process"
    zookeeper_client.delete(path)


def test_a_port_in_use_is_refused(configure: Configure, root: str) -> None:
    port = free_ports(1)
    config = configure(f"127.0.0.1:{port}")
    with ControllerServer(config, threading.Event(), print) as first:
        wait_until(first.known_controller, PATIENCE_S)
        error = refusal(configure(f"127.0.0.1:{port}", takes_over=True))
    assert isinstance(error, EnvironmentProblem)


def test_brokers_of_another_process_are_driven(
    chroot: str,
    configure: Configure,
    zookeeper_client: KazooClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_ports(BROKERS + 1)
    failures: list[KlammError] = []
    with ClusterServer(config_of(chroot, tmp_path / "brokers", str(port))) as brokers:
        zookeeper_client.delete(chroot[chroot.index("/") :] + MARKER_PATH)
        before = brokers.cluster.active_controller
        candidate = configure(f"127.0.0.1:{port + BROKERS}")
        with ControllerServer(candidate, threading.Event(), failures.append) as server:
            # It follows the UpdateMetadata requests of the active controller.
            waiting = wait_until(server.known_controller, PATIENCE_S)
            assert waiting == KnownController(before or 0, 1)
        config = configure(f"127.0.0.1:{port + BROKERS}", takes_over=True)
        with ControllerServer(config, threading.Event(), failures.append) as server:
            taken = KnownController(1000, 2)
            wait_until(lambda: server.known_controller() == taken, PATIENCE_S)
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
            wait_until(lambda: admin.list_topics().controller_id == 1000, PATIENCE_S)
            create_everywhere(admin, 2, PATIENCE_S)
        successor = await_successor(config)
        assert successor is not None
        assert successor.broker_id in range(BROKERS)
        assert successor.epoch == 3
    assert failures == []
    monkeypatch.setattr(controller_server, "SUCCESSOR_TIMEOUT_S", 0.5)
    begun_s = time.monotonic()
    assert await_successor(config) is None
    assert time.monotonic() - begun_s >= 0.5


@pytest.mark.slow
def test_topics_with_replicas_on_the_controller_are_warned_of(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    root, port = chroot[chroot.index("/") :], free_ports(BROKERS + 1)

    def create(topic: str, *replicas: list[int]) -> None:
        data = {"version": 2, "partitions": {str(n): one for n, one in enumerate(replicas)}}
        zookeeper_client.create(f"{root}/brokers/topics/{topic}", json.dumps(data).encode())

    with ClusterServer(config_of(chroot, tmp_path / "brokers", str(port))):
        zookeeper_client.delete(root + MARKER_PATH)
        for number in range(7):
            create(f"t{number}", [1000, 0], [0])
        listener = f"127.0.0.1:{port + BROKERS}"
        klamm = KlammController(chroot, listener, tmp_path, (), ("--take-over",))
        try:
            klamm.await_line("^warning: .* 2 more topics")
            create("u", [1000], [0, 1000], [1000], [1, 2])
            klamm.await_line("of topic u have .*\n.*\n.*UNCLEAN")
            assert klamm.end(signal.SIGTERM) == 0
        finally:
            klamm.kill()
    here, left = (
        f"warning: broker 1000 {what}: "
        for what in ("is this controller, which stores nothing", "ends, and stored nothing")
    )
    of_t = [f"1 of 2 partitions of topic t{n} has a replica there" for n in range(5)]
    of_u = "3 of 4 partitions of topic u have a replica there, 2 of them no other, and so no leader"
    assert [line for line in klamm.printed.splitlines() if line.startswith("warning:")] == [
        *(here + text for text in (*of_t, "2 more topics with replicas there", of_u)),
        *(left + text for text in (*of_t, "3 more topics with replicas there")),
    ]
    advice = f"klamm reassign-partitions --zookeeper {chroot} --execute"
    assert klamm.printed.count(advice) == 3


@pytest.mark.slow
def test_commands_know_that_the_controller_runs(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, port, folder = chroot[chroot.index("/") :], free_ports(BROKERS + 1), tmp_path / "klamm"

    def run(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--data-dir", str(folder)])
        return code, *capsys.readouterr()

    with ClusterServer(config_of(chroot, tmp_path / "brokers", str(port))):
        zookeeper_client.delete(root + MARKER_PATH)
        listener = f"127.0.0.1:{port + BROKERS}"
        klamm = KlammController(chroot, listener, tmp_path, (), ("--take-over",))
        try:
            klamm.await_line("is the controller")
            data = b'{"version": 2, "partitions": {"0": [1000]}}'
            zookeeper_client.create(f"{root}/brokers/topics/alone", data)
            klamm.await_line("of topic alone")
            wait_until(lambda: "no leader" in run("explain", "alone-0")[1], PATIENCE_S)
            code, out, err = run("explain", "alone-0")
            tail, status = run("journal", "tail"), run("status")
        finally:
            klamm.kill()
    assert (code, err) == (0, "")
    first, _, wait, *_ = out.splitlines()
    assert first.endswith("; a running klamm writes to this file")
    assert wait == (
        "  the partition has no leader, because its ISR is only broker 1000, klamm's controller, "
        "which stores nothing; reassign it to other brokers, and elect a leader there with "
        "kafka-leader-election --election-type UNCLEAN"
    )
    assert "    not recorded by klamm controller run; its state-change.log counts them" in out
    assert (tail[0], tail[2]) == (0, "")
    assert (status[0], status[1]) == (1, "")
    assert status[2].startswith(f"error: the klamm that runs in {folder} has no HTTP API: ")
    ended = f"warning: the cluster of {folder}/journal.jsonl has ended: "
    assert run("explain", "alone-0")[2].startswith(ended)
    assert run("journal", "tail")[2].startswith(ended)
    assert run("status")[2].startswith("error: no running klamm found: ")


def test_a_user_without_sasl_is_refused(configure: Configure, root: str) -> None:
    name = "klamm.sasl.inter.broker.user.location"
    error = refusal(configure(config={name: "/nope"}))
    assert error.message == (
        f"--config {name}=/nope: the controller would not log in, because no --listener uses SASL: "
        "PLAINTEXT (PLAINTEXT)"
    )


def test_the_session_timeout_is_the_controllers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["controller", "run", "--help"]) == 0
    assert "session timeout of this controller" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_controllers_of_a_drill_take_the_ids_in_turn(
    chroot: str,
    root: str,
    tmp_path: Path,
    zookeeper_client: KazooClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("klamm.world.kafka.cluster._MAX_CONTROLLERS", 2)
    spec = ClusterSpec(broker_ids=(0,), session_timeout_ms=2000)
    cluster, ids = KafkaCluster(spec, chroot, tmp_path, has_klamm=True), f"{root}/brokers/ids"

    def is_alone(controller_id: int) -> bool:
        return zookeeper_client.get_children(ids) == [str(controller_id)]

    try:
        for _ in range(3):
            cluster.move_controller()
            controller_ids = [one.controller_id for one in cluster.controllers]
            wait_until(partial(is_alone, controller_ids[-1]), PATIENCE_S)
    finally:
        cluster.close()
    assert controller_ids == [1000, 1001, 1000, 1001]
