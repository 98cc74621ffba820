"""A ZooKeeper of klamm's own jar: what its log says is what its own snapshot holds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from klamm.replay.generate.txn_log_writer import TxnLogWriter, log_name
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.snapshot_file import read_entries
from klamm.zk.txn_log import Txn, TxnOp, TxnType, read_txn_log

pytestmark = pytest.mark.usefixtures("servers_hurry")
WRITES = 40
EMPTY_SNAPSHOT = Path(__file__).parents[1] / "data/kafka_logs/trace/zookeeper/version-2/snapshot.0"


@pytest.fixture(scope="module")
def version_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of a server that was started twice: a log, and the snapshot of its second start."""
    folder = tmp_path_factory.mktemp("zookeeper")
    with EmbeddedZooKeeper(folder) as server:
        client = KazooClient(hosts=server.connect_string)
        client.start()
        write(client)
        client.stop()
        client.close()
    with EmbeddedZooKeeper(folder):
        yield folder / "version-2"


def write(client: KazooClient) -> None:
    """Changes of every kind, some of them refused, names beyond ASCII among them."""
    client.create("/a", b"1")
    for number in range(WRITES):
        client.set("/a", str(number).encode())
    client.create("/straße-中", b"\0\xff" * 1000)
    client.create("/gone", None)
    client.delete("/gone")
    client.create("/fleeting", b"", ephemeral=True)
    client.create("/row-", b"", sequence=True)
    multi = client.transaction()
    multi.check("/a", WRITES)
    multi.create("/a/child", b"in a multi")
    multi.set_data("/a", b"multi")
    assert multi.commit()[1] == "/a/child"
    refused = client.transaction()
    refused.check("/a", 7)
    refused.create("/never")
    assert isinstance(refused.commit()[0], Exception)


def applied(tree: dict[str, tuple[bytes | None, int]], op: TxnOp) -> None:
    match op.type:
        case TxnType.CREATE:
            tree[op.path] = (op.data, 0)
        case TxnType.SET_DATA:
            tree[op.path] = (op.data, op.version)
        case TxnType.DELETE:
            del tree[op.path]
        case TxnType.CLOSE_SESSION:
            for path in op.paths or ():
                tree.pop(path, None)


def test_the_log_replayed_is_the_snapshot(version_2: Path) -> None:
    tree: dict[str, tuple[bytes | None, int]] = {}
    for path in sorted(version_2.glob("log.*"), key=lambda path: int(path.suffix[1:], 16)):
        for txn in read_txn_log(path):
            assert isinstance(txn, Txn), txn
            if not txn.is_rejected:
                for op in txn.ops:
                    applied(tree, op)
    newest = max(version_2.glob("snapshot.*"), key=lambda path: int(path.suffix[1:], 16))
    nodes = {entry.path: entry.node for entry in read_entries(newest)}
    ours = {path: (node.data, node.version) for path, node in nodes.items()}
    kept = {path: found for path, found in ours.items() if not path.startswith("/zookeeper")}
    del kept["/"]
    assert tree == kept
    assert set(tree) == {"/a", "/a/child", "/straße-中", "/row-0000000004"}
    assert tree["/a"] == (b"multi", WRITES + 1)


def test_zookeeper_reads_a_log_that_was_written_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "version-2"
    folder.mkdir()
    shutil.copy(EMPTY_SNAPSHOT, folder)
    with closing(TxnLogWriter(folder / log_name(1))) as writer:
        writer.write(1, 1_000, 5, [TxnOp(TxnType.CREATE, "/a", b"1")])
        writer.write(2, 2_000, 5, [TxnOp(TxnType.CREATE, "/straße-中", None)])
        both = [TxnOp(TxnType.CHECK, "/a", version=1), TxnOp(TxnType.SET_DATA, "/a", b"2", 1)]
        writer.write(3, 3_000, 5, both)
        writer.write(4, 4_000, 5, [TxnOp(TxnType.CREATE, "/gone", b"")])
        writer.write(5, 5_000, 5, [TxnOp(TxnType.DELETE, "/gone")])
    with EmbeddedZooKeeper(tmp_path) as server:
        client = KazooClient(hosts=server.connect_string)
        client.start()
        data, stat = client.get("/a")
        assert (data, stat.version, stat.czxid, stat.mzxid, stat.mtime) == (b"2", 1, 1, 3, 3_000)
        assert set(client.get_children("/")) == {"a", "straße-中", "zookeeper"}
        client.stop()
        client.close()
