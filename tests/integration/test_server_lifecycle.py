"""server/cluster_server.py: opening, closing, waiting, and whose ZooKeeper it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import msgspec
import pytest
from kazoo.client import KazooClient

from klamm.cli.status import status_lines
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import (
    EnvironmentProblem,
    KlammError,
    RequestTimedOut,
    UsageError,
    WrongState,
    ZooKeeperUnavailable,
)
from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.lab.actions.actions import Kill, MoveController, PowerOff, Start, Stop
from klamm.server import admin_channel, broker_operations, cluster_server
from klamm.server.admin_channel import MAY_STILL_ACT
from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig
from klamm.server.data_dir import read_address
from klamm.world.journal.journal import read_journal
from klamm.zk.guard import MARKER_PATH
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import SessionState
from klamm.zk.znode_client import NodeExists
from tests.server_configs import server_config
from tests.waiting import wait_until

T = TypeVar("T")
TOPIC = CreateTopicsRequest((CreatableTopic("kept", 2, 2),), 10_000)


def config(chroot: str, **changes: object) -> ServerConfig:
    values: dict[str, object] = {
        "brokers": 2,
        "zookeeper": chroot,
        "session_timeout_ms": 2000,
        **changes,
    }
    return server_config(**values)  # type: ignore[arg-type]


def in_thread(function: Callable[[], T]) -> Future[T]:
    """The result of ``function``, which runs in a new thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="test").start()
    return future


def names_of_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate())


def test_everything_is_freed_and_the_next_goes_on(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    root = f"/{chroot.rpartition('/')[2]}"
    before = names_of_threads()
    with ClusterServer(config(chroot, data_dir=tmp_path)) as first:
        first.admin.create_topics(TOPIC)
        cluster_id = first.status().cluster_id
    first.close()
    assert names_of_threads() == before
    assert zookeeper_client.get_children(f"{root}/brokers/ids") == []
    with ClusterServer(config(chroot, data_dir=tmp_path)) as second:
        assert second.status().cluster_id == cluster_id
        controller = second.status().controller
        assert controller is not None and controller.epoch == 2
        wait_until(lambda: list(second.admin.list_topics()) == ["kept"])
    assert names_of_threads() == before
    rows = read_journal(tmp_path / "journal.jsonl")
    assert len({row.run_id for row in rows}) == 2
    assert [row.kind for row in rows].count("run_start") == 2
    for broker_id in (0, 1):
        assert (tmp_path / "logs" / f"broker-{broker_id}" / "controller.log").exists()


def test_the_same_seed_goes_on_with_its_draws_after_a_restart(chroot: str, tmp_path: Path) -> None:
    seeded = config(chroot, data_dir=tmp_path, seed=7)
    with ClusterServer(seeded) as first:
        (kept,) = first.admin.create_topics(TOPIC).topics
        seeds = [first.cluster.spec.seed]
    with ClusterServer(seeded) as second:
        another = CreateTopicsRequest((CreatableTopic("another", 2, 2),), 10_000)
        (made,) = second.admin.create_topics(another).topics
        assert made.error is Errors.NONE
        assert made.topic_id != kept.topic_id
        seeds.append(second.cluster.spec.seed)
        second.operations.perform(MoveController())
        controller = second.status().controller
        assert controller is not None
        assert (controller.malformed, controller.topics) == ({}, 2)
    assert seeds == [seeded.spec("run", None, incarnation=n).seed for n in range(2)]
    assert seeds[0] == 7 != seeds[1]


def test_each_step_of_a_start_is_said(chroot: str, tmp_path: Path) -> None:
    said: list[str] = []
    started = config(chroot, data_dir=tmp_path, brokers=25, controllers=1, seed=3, racks=("a", "b"))
    with ClusterServer(started, said.append) as server:
        url = "http://u:1"
        server.publish(url)
        status = server.status()
        assert (status.url, status.data_dir) == (url, str(tmp_path))
        address = read_address(tmp_path)
        assert address is not None and address.url == url
    assert said == [
        f"Connecting to ZooKeeper: {chroot}",
        f"ZooKeeper found: {chroot}",
        "Starting 25 brokers",
        *(f"Brokers registered: {count}/25" for count in (*range(2, 25, 2), 25)),
        "Controller elected: broker 0, epoch 1",
    ]
    assert read_address(tmp_path) is None
    first = read_journal(tmp_path / "journal.jsonl")[0]
    detail = msgspec.json.decode(first.detail or "")
    assert {name: detail[name] for name in ("brokers", "controllers", "seed", "from_dump")} == {
        **{"brokers": 25, "controllers": 1, "seed": 3, "from_dump": None}
    }
    assert (detail["racks"], detail["session_timeout_ms"]) == (["a", "b"], 2000)


def test_sessions_of_an_earlier_run_are_waited_for(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"/{chroot.rpartition('/')[2]}"
    zookeeper_client.create(f"{root}{MARKER_PATH}", b"{}")
    for broker_id in (1, 0):
        path = f"{root}/brokers/ids/{broker_id}"
        zookeeper_client.create(path, b"{}", ephemeral=True, makepath=True)
    waits = "Waiting for the sessions of an earlier run to expire: brokers 0, 1"
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if line == waits:
            for broker_id in (0, 1):
                zookeeper_client.delete(f"{root}/brokers/ids/{broker_id}")

    with monkeypatch.context() as patch:
        patch.setattr(cluster_server, "EXPIRY_MARGIN_S", -1.9)
        with pytest.raises(EnvironmentProblem) as refused:
            ClusterServer(config(chroot, data_dir=tmp_path)).open()
    assert refused.value.message == (
        "brokers 0, 1 are registered in this ZooKeeper by another process"
    )
    with ClusterServer(config(chroot, data_dir=tmp_path), say):
        assert waits in said


def test_kafkas_clients_are_told_of_three_brokers(tmp_path: Path) -> None:
    def addresses(listen: str | None) -> object:
        given = config("zk:1", data_dir=tmp_path, brokers=5, listen=listen)
        server = ClusterServer(given)
        spec = given.spec("r", None, None)
        server.cluster = SimpleNamespace(spec=spec)  # type: ignore[assignment]
        return server.bootstrap_servers(), given.listen_protocol

    assert addresses(None) == ([], "PLAINTEXT")
    ports = (9092, 9093, 9094)
    assert addresses("127.0.0.1:9092") == ([f"127.0.0.1:{port}" for port in ports], "PLAINTEXT")


def test_no_broker_reacts_to_the_end_of_another(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    partitions = f"/{chroot.rpartition('/')[2]}/brokers/topics/kept/partitions"
    with ClusterServer(config(chroot, data_dir=tmp_path, brokers=8, controllers=1)) as server:
        server.admin.create_topics(CreateTopicsRequest((CreatableTopic("kept", 40, 8),), 10_000))
    for partition in range(40):
        data, stat = zookeeper_client.get(f"{partitions}/{partition}/state")
        assert len(msgspec.json.decode(data)["isr"]) == 8
        assert stat.version == 0


def test_a_persistent_znode_among_the_brokers_keeps_no_broker_out(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path)):
        pass
    path = f"/{chroot.rpartition('/')[2]}/brokers/ids/77"
    zookeeper_client.create(path, b"garbage")
    with ClusterServer(config(chroot, data_dir=tmp_path)) as server:
        server.admin.create_topics(TOPIC)
        assert "/brokers/ids/77" in str(server.status())


def test_kafkas_logs_are_at_the_level_that_was_asked_for(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path, state_change_level="INFO")) as server:
        server.admin.create_topics(TOPIC)
    logs = [path.read_text() for path in (tmp_path / "logs").glob("*/state-change.log")]
    assert any(" INFO " in text for text in logs)
    assert not any(" TRACE " in text for text in logs)


def test_without_zookeeper_nothing_is_left(tmp_path: Path) -> None:
    nowhere = config(
        "127.0.0.1:1/x",
        data_dir=tmp_path / "a" / "b",
        config={"zookeeper.connection.timeout.ms": "300"},
    )
    before = names_of_threads()
    for _ in range(2):
        with pytest.raises(ZooKeeperUnavailable, match=r"at 127\.0\.0\.1:1 within 300 ms"):
            ClusterServer(nowhere).open()
    assert names_of_threads() == before
    assert list(tmp_path.iterdir()) == []


def test_files_of_brokers_are_not_left_aside(tmp_path: Path) -> None:
    log_dir = tmp_path / "brokers" / "0" / "kafka-logs"
    log_dir.mkdir(parents=True)
    (log_dir / "meta.properties").touch()
    no_zookeeper = "127.0.0.1:1/none"
    with (
        pytest.raises(UsageError, match="without --segments they would be ignored") as refused,
        ClusterServer(config(no_zookeeper, data_dir=tmp_path)),
    ):
        pass
    assert refused.value.hint == "run klamm up with --segments, or choose another --data-dir"
    assert [file.name for file in tmp_path.iterdir()] == ["brokers"]


def test_an_epoch_that_is_no_number_is_shown_and_refused(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    path = f"/{chroot.rpartition('/')[2]}/controller_epoch"
    with ClusterServer(config(chroot, data_dir=tmp_path, controllers=1)) as server:
        assert server.status().zookeeper.malformed == {}
        zookeeper_client.set(path, b"seven")
        KafkaZkClient(server.cluster.store).delete("/controller")

        def shown() -> str:
            return "\n".join(status_lines(server.status()))

        wait_until(lambda: "the election of a controller:\n  /controller_epoch: " in shown())
    with pytest.raises(KlammError, match=r"malformed znode /controller_epoch: .*can be elected"):
        ClusterServer(config(chroot, data_dir=tmp_path)).open()


@pytest.mark.slow
def test_two_klamms_do_not_share_a_chroot(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path / "1")) as first:
        epochs = [broker.broker_epoch for broker in first.status().brokers]
        with pytest.raises(EnvironmentProblem, match="brokers 0, 1 are registered"):
            ClusterServer(config(chroot, data_dir=tmp_path / "2", brokers=3)).open()
        status = first.status()
        assert [broker.broker_epoch for broker in status.brokers] == epochs
        assert status.controller is not None and status.controller.epoch == 1
        assert status.controller.live_brokers.keys() == {"0", "1"}


def test_the_end_does_not_wait_for_those_who_wait(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(
        config(chroot, data_dir=tmp_path, controllers=1, session_timeout_ms=30_000)
    ) as server:
        server.operations.perform(Kill(0))
        starting = in_thread(lambda: server.operations.perform(Start(0)))
        creating = in_thread(lambda: server.admin.create_topics(TOPIC))
        wait_until(lambda: server.cluster.nodes.starting_broker_ids == [0])
        assert server.operations.state_of(0) == "starting"
        assert not starting.done()
        assert not creating.done()
    for waiting in (starting, creating):
        with pytest.raises(
            KlammError, match=r"klamm is shutting|was stopped before it was registered"
        ):
            waiting.result(5)


def test_a_broker_that_is_powered_off_while_it_waits(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path, session_timeout_ms=20_000)) as server:
        server.operations.perform(Kill(1))
        starting = in_thread(lambda: server.operations.perform(Start(1)))
        wait_until(lambda: server.cluster.nodes.starting_broker_ids == [1])
        server.operations.perform(PowerOff(1))
        with pytest.raises(KlammError, match="was stopped before it was registered"):
            starting.result(5)
        assert server.operations.state_of(1) == "powered off"
        with pytest.raises(WrongState, match="broker 1 is not running"):
            server.operations.perform(Kill(1))


def test_a_broker_that_cannot_register_is_freed(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path, session_timeout_ms=20_000)) as server:
        server.operations.perform(Kill(1))
        before = names_of_threads()
        with pytest.raises(NodeExists, match="its previous session has not expired"):
            server.operations.perform(Start(1, wait=False))
        wait_until(lambda: names_of_threads() == before)
        assert server.operations.state_of(1) == "killed"


def test_a_creation_whose_controller_dies_is_asked_again(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path, brokers=3)) as server:
        active = server.cluster.active_controller
        assert active is not None
        running = server.cluster.nodes[active]
        controller, event_thread = running.node.controller, running.event_thread
        assert controller is not None and event_thread is not None
        event_thread.pause()
        creating = in_thread(lambda: server.admin.create_topics(TOPIC))
        wait_until(lambda: controller.events.event_queue_size)
        server.operations.perform(Kill(active))
        assert creating.result(20).topics[0].error is Errors.NONE
        assert server.cluster.active_controller != active


def test_a_request_that_the_controller_does_not_answer_may_still_be_done(
    chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_channel, "ANSWER_MARGIN_S", 0.1)
    with ClusterServer(config(chroot, data_dir=tmp_path)) as server:
        active = server.cluster.active_controller
        assert active is not None
        event_thread = server.cluster.nodes[active].event_thread
        assert event_thread is not None
        event_thread.pause()
        with pytest.raises(RequestTimedOut) as refused:
            server.admin.create_topics(msgspec.structs.replace(TOPIC, timeout_ms=100))
        assert (refused.value.hint, refused.value.definite) == (MAY_STILL_ACT, False)
        monkeypatch.setattr(server.admin._channel, "_api_timeout_s", 0.1)
        with pytest.raises(RequestTimedOut) as unread:
            server.admin.list_partition_reassignments()
        assert (unread.value.hint, unread.value.definite) == (None, True)
        server.cluster.own_session.state = SessionState.DISCONNECTED
        with pytest.raises(RequestTimedOut) as lost:
            server.admin.create_topics(msgspec.structs.replace(TOPIC, timeout_ms=100))
        server.cluster.own_session.state = SessionState.CONNECTED
        where = server.cluster.connect_string
        assert lost.value.hint == f"ZooKeeper at {where} does not respond; {MAY_STILL_ACT}"
        event_thread.resume()
        wait_until(lambda: TOPIC.topics[0].name in server.admin.list_topics())


def test_a_move_that_elects_no_broker_says_why(
    chroot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_operations, "MOVE_TIMEOUT_S", 0.3)
    why = "no controller is elected while the journal cannot be written: full"
    with ClusterServer(config(chroot, data_dir=tmp_path)) as server:
        server.cluster.candidacy.hold = "the journal cannot be written: full"
        with pytest.raises(RequestTimedOut, match=r"no broker was elected within 0\.3 s") as moved:
            server.operations.perform(MoveController())
        assert moved.value.hint == why
        for _ in range(2):
            with pytest.raises(KlammError, match="the cluster has no controller to move") as again:
                server.operations.perform(MoveController())
            assert again.value.hint == why
            KafkaZkClient(server.cluster.store).delete("/controller_epoch")
        lines = status_lines(server.status())
        after = lines[lines.index("Controller:  none") + 1]
        assert after.strip().startswith("Topics, partitions and replicas are shown once")


def test_of_two_starts_of_a_broker_at_once_one_is_refused(chroot: str, tmp_path: Path) -> None:
    with ClusterServer(config(chroot, data_dir=tmp_path)) as server:
        server.operations.perform(Stop(1))
        both = [in_thread(lambda: server.operations.perform(Start(1))) for _ in range(2)]
        errors = [future.exception(60) for future in both]
        assert sorted(type(error).__name__ for error in errors) == ["NoneType", "WrongState"]
        assert server.operations.state_of(1) == "running"
