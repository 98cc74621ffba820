"""How many operations go into a transaction, and what is sent again when one of them fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from klamm.cluster.errors import OperationTooBig, StoreError
from klamm.zk.fenced_writes import FencedDeleter, FencedWriter
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.request_size import MAX_TRANSACTION_BYTES, transaction_size
from klamm.zk.store import Check, Create, Delete, Exists, ReadOp, ResultCode, Transaction, WriteOp
from klamm.zk.znode_client import ZNodeClient
from tests.conformance.factories import ManualClock, ok


class Recorder:
    """A writer, and the transactions that it sent."""

    def __init__(self, group_size: int = 500, group_bytes: int = 1 << 17) -> None:
        server = MemoryServer(ManualClock())
        self.store = MemoryStore(server)
        self.transactions: list[Transaction] = []
        ok(self.store, Create("/controller_epoch", b"1"))
        server.before_op = self._record
        self._writer = FencedWriter(self.store, group_size, group_bytes)

    def _record(self, session_id: int, op: ReadOp | Transaction) -> None:
        if isinstance(op, Sequence):
            self.transactions.append(op)

    def sizes(self, ops: list[WriteOp]) -> list[int]:
        """How many operations each transaction had, the fence left out."""
        self.transactions.clear()
        self._writer.write(ops, 0)
        assert {type(transaction[0]) for transaction in self.transactions} <= {Check}
        return [len(transaction) - 1 for transaction in self.transactions]


def creates(count: int, data: bytes | None = None) -> list[WriteOp]:
    return [Create(f"/n{i:03d}", data) for i in range(count)]


def test_operations_fill_groups_in_order() -> None:
    assert Recorder(group_size=4).sizes(creates(10)) == [4, 4, 2]
    assert Recorder(group_size=1).sizes(creates(3)) == [1, 1, 1]
    assert Recorder().sizes([]) == []


def test_no_group_exceeds_its_bytes() -> None:
    recorder = Recorder(group_bytes=1_000)
    assert sum(recorder.sizes(creates(40, b"x" * 100))) == 40
    sizes = [transaction_size(transaction) for transaction in recorder.transactions]
    assert max(sizes) <= 1_000
    assert min(sizes[:-1]) > 800
    assert Recorder(group_bytes=1_000).sizes(creates(2, b"x" * 5_000)) == [1, 1]


def test_a_group_may_have_exactly_its_bytes() -> None:
    full = transaction_size([Check("/controller_epoch", 0), *creates(3)])
    assert Recorder(group_bytes=full).sizes(creates(6)) == [3, 3]
    assert Recorder(group_bytes=full - 1).sizes(creates(6)) == [2, 2, 2]


def test_an_operation_may_have_exactly_zookeepers_maximum_size() -> None:
    recorder = Recorder()
    least = transaction_size([Check("/controller_epoch", 0), Create("/n", b"")])
    largest = Create("/n", b"x" * (MAX_TRANSACTION_BYTES - least))
    assert recorder.sizes([Create("/a", b""), largest]) == [1, 1]
    too_big = Create("/m", b"x" * (MAX_TRANSACTION_BYTES - least + 1))
    with pytest.raises(OperationTooBig, match=r"^/m: a write of 1048[0-9]{3} bytes exceeds"):
        recorder.sizes([Create("/b", b""), too_big])
    assert recorder.transactions == []


@pytest.mark.parametrize(
    ("bad", "sizes"),
    [
        ([], [10]),
        ([4], [10, 9]),
        ([4, 9], [10, 9, 8]),
        ([0, 1, 2], [10, 9, 8, 1, 1, 1, 1, 1, 1, 1]),
        ([0, 1, 2, 3, 4], [10, 9, 8, 1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_a_failed_group_is_sent_again_without_its_bad_item_and_singly_after_three(
    bad: list[int], sizes: list[int]
) -> None:
    recorder = Recorder()
    ok(recorder.store, *(creates(10)[i] for i in bad))
    assert recorder.sizes(creates(10)) == sizes


def test_other_groups_of_a_batch_are_not_sent_again() -> None:
    recorder = Recorder(group_size=3)
    ok(recorder.store, creates(9)[4])
    assert recorder.sizes(creates(9)) == [3, 3, 3, 2]


def test_a_tree_that_grows_while_it_is_deleted_is_read_and_deleted_again() -> None:
    server = MemoryServer(ManualClock())
    store = MemoryStore(server)
    ok(store, Create("/controller_epoch", b"1"), Create("/a", None), Create("/a/b", None))

    def create_another_child(session_id: int, op: ReadOp | Transaction) -> None:
        if isinstance(op, Sequence) and Delete("/a") in op:
            server.before_op = None
            ok(store, Create("/a/c", None))

    server.before_op = create_another_child
    deleter = FencedDeleter(ZNodeClient(store), FencedWriter(store, 500, 1 << 17))
    assert deleter.delete_trees(["/a"], 0) == {}
    assert store.read([Exists("/a")])[0].code is ResultCode.NONODE


def test_a_znode_that_cannot_be_deleted_is_an_error() -> None:
    store = MemoryStore(MemoryServer(ManualClock()))
    ok(store, Create("/controller_epoch", b"1"), Create("/a", None), Create("/a/b", None))
    deleter = FencedDeleter(ZNodeClient(store), FencedWriter(store))
    with pytest.raises(StoreError, match="BadArguments"):
        deleter.delete(["/a", "/no", "/"], 0)
    assert store.read([Exists("/a")])[0].code is ResultCode.NONODE
    deleter.delete(["/a", "/no"], 0)
