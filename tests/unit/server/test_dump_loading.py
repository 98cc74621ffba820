"""What `klamm up --from-dump` writes and prints while it loads a dump."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from klamm.cluster.errors import KlammError, StoreError
from klamm.server import dump_loading
from klamm.server.dump_loading import _LoadedLines, load_dump
from klamm.server.dumped_cluster import DumpedCluster, read_dumped_cluster
from klamm.zk.dump_load import NotEmpty
from klamm.zk.guard import MARKER_PATH, RunInfo
from klamm.zk.store import SessionEvent, SessionState
from tests.server_configs import server_config
from tests.unit.server.test_dumped_cluster import registration, topic

RUN = RunInfo("run", 5, "1")


@pytest.fixture
def dumped() -> DumpedCluster:
    """Broker 1 runs; brokers 2 and 3 are dead."""
    return read_dumped_cluster([registration(1), topic("t", [1, 3], [2])], "kafka.json")


def load(dump: DumpedCluster, where: str, *, is_own: bool = False) -> list[str]:
    """Load a dump; what is said."""
    said: list[str] = []
    config = server_config(dump=dump, zookeeper=None if is_own else where)
    load_dump(dump, where, config, RUN, said.append)
    return said


def test_a_dump_is_loaded_and_marked(
    chroot: str, zookeeper_client: KazooClient, dumped: DumpedCluster
) -> None:
    noted = replace(dumped, notes=("a note",))
    assert load(noted, f"{chroot}/copy") == [
        "Dump: a note",
        "Dump loaded: 3 znodes from kafka.json",
        "Brokers not started, because they are dead in the dump: 2, 3",
    ]
    root = f"/{chroot.rpartition('/')[2]}/copy"
    assert sorted(zookeeper_client.get_children(root)) == ["brokers", "klamm"]
    assert b'"run"' in zookeeper_client.get(f"{root}{MARKER_PATH}")[0]
    assert load(replace(dumped, dead=()), f"{chroot}/other") == [
        "Dump loaded: 3 znodes from kafka.json"
    ]


@pytest.mark.parametrize("is_own", [True, False])
def test_a_dump_is_not_loaded_into_a_zookeeper_that_is_not_empty(
    chroot: str, zookeeper_client: KazooClient, dumped: DumpedCluster, is_own: bool
) -> None:
    zookeeper_client.create(f"/{chroot.rpartition('/')[2]}/mine")
    with pytest.raises(NotEmpty) as refused:
        load(dumped, chroot, is_own=is_own)
    assert refused.value.message == (
        "a dump can be loaded only into an empty ZooKeeper: the target is not empty: found /mine"
    )
    assert refused.value.hint == (
        "choose another --data-dir" if is_own else "choose a chroot that is empty or does not exist"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("lost")])
def test_a_load_that_ends_early_closes_its_session(
    chroot: str, dumped: DumpedCluster, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def cut_short(*_: object) -> None:
        raise error

    monkeypatch.setattr(dump_loading, "run_on_thread", cut_short)
    config = server_config(dump=dumped, zookeeper=chroot)
    with pytest.raises(type(error)):
        load_dump(dumped, chroot, config, RUN, said.append)
    if isinstance(error, KlammError):
        assert said == []
    else:
        [line] = said
        assert line.startswith("Interrupted: at least 0 of 3 znodes and /klamm-loading were ")


def test_a_lost_connection_during_a_load_is_an_error() -> None:
    said: list[str] = []
    for state in SessionState:
        dump_loading._report_lost_connection(SessionEvent(state), said.append)
    assert said == ["Connection lost: waiting for ZooKeeper"]


@pytest.mark.parametrize(
    ("total", "reported"),
    [
        (9_999, []),
        (10_000, [10_000]),
        (35_000, [10_000, 20_000, 30_000]),
        (200_000, list(range(20_000, 200_001, 20_000))),
    ],
)
def test_progress_is_reported_about_ten_times(total: int, reported: list[int]) -> None:
    lines: list[str] = []
    progress = _LoadedLines(lines.append)
    for done in (*range(0, total, 500), total):
        progress(done, total)
    assert lines == [f"Znodes loaded: {done}/{total}" for done in reported]
    assert progress.done == total
