"""zk/data_tree.py: stats of znodes, ZooKeeper's rules for writes, and transactions that fail."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from klamm.zk.data_tree import DataTree, is_valid
from klamm.zk.store import Check, Create, Delete, ResultCode, SetData, Transaction, WriteOp


def apply(tree: DataTree, *ops: WriteOp, session: int = 7, zxid: int = 1, ms: int = 10) -> Any:
    transaction: Transaction = list(ops)
    return tree.apply(transaction, session, zxid, ms)[0]


def state(tree: DataTree) -> list[Any]:
    """All that a tree holds."""
    znodes = [(path, node.data, node.stat(), node.creations) for path, node in tree.items()]
    return [znodes, tree.ephemerals]


@pytest.fixture
def tree() -> DataTree:
    """/a with the children b (ephemeral) and c, made one after the other."""
    tree = DataTree()
    for zxid, op in enumerate(
        (Create("/a", b"xyz"), Create("/a/b", None, ephemeral=True), Create("/a/c", b"")), 1
    ):
        assert apply(tree, op, zxid=zxid, ms=10 * zxid).code is ResultCode.OK
    return tree


def test_stats_follow_writes_of_a_znode_and_its_children(tree: DataTree) -> None:
    found = tree.nodes["/a"].stat()
    assert (found.czxid, found.mzxid, found.pzxid) == (1, 1, 3)
    assert (found.ctime_ms, found.mtime_ms) == (10, 10)
    assert (found.version, found.cversion, found.data_length, found.num_children) == (0, 2, 3, 2)
    apply(tree, SetData("/a", b"z"), zxid=4, ms=40)
    apply(tree, Delete("/a/c"), zxid=5, ms=50)
    found = tree.nodes["/a"].stat()
    assert (found.czxid, found.mzxid, found.pzxid) == (1, 4, 5)
    assert (found.ctime_ms, found.mtime_ms) == (10, 40)
    assert (found.version, found.cversion, found.data_length, found.num_children) == (1, 3, 1, 1)
    assert [tree.nodes[path].stat().ephemeral_owner for path in ("/a", "/a/b")] == [0, 7]
    assert tree.nodes["/a/b"].stat().data_length == 0


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (Create("/a", b""), ResultCode.NODEEXISTS),
        (Create("/x/y", b""), ResultCode.NONODE),
        (Create("/a/b/c", b""), ResultCode.NOCHILDRENFOREPHEMERALS),
        (Create("a", b""), ResultCode.BADARGUMENTS),
        (Create("/a/", b""), ResultCode.BADARGUMENTS),
        (SetData("/x", b""), ResultCode.NONODE),
        (SetData("/a", b"", 1), ResultCode.BADVERSION),
        (SetData("/a", b"", 0), ResultCode.OK),
        (Delete("/"), ResultCode.BADARGUMENTS),
        (Delete("/x"), ResultCode.NONODE),
        (Delete("/a"), ResultCode.NOTEMPTY),
        (Delete("/a/c", 1), ResultCode.BADVERSION),
        (Delete("/a/c", 0), ResultCode.OK),
        (Check("/x", 0), ResultCode.NONODE),
        (Check("/a", 1), ResultCode.BADVERSION),
        (Check("/a", 0), ResultCode.OK),
    ],
)
def test_a_refused_operation_changes_nothing(tree: DataTree, op: WriteOp, code: ResultCode) -> None:
    before = state(deepcopy(tree))
    assert apply(tree, op, zxid=9, ms=90).code is code
    if code is not ResultCode.OK:
        assert state(tree) == before


@pytest.mark.parametrize(
    "op",
    [
        Create("/a/d", b"", ephemeral=True),
        Create("/a/n-", b"", sequential=True),
        SetData("/a", b"new"),
        Delete("/a/b"),
        Delete("/a/c"),
    ],
)
def test_a_transaction_that_fails_is_undone(tree: DataTree, op: WriteOp) -> None:
    before = state(deepcopy(tree))
    failed = apply(tree, op, SetData("/a", b"more"), Check("/x", 0), Check("/a", 0), zxid=9, ms=90)
    assert (failed.code, failed.failed_index) == (ResultCode.NONODE, 2)
    assert [result.code.name for result in failed.results] == [
        *("OK", "OK", "NONODE", "RUNTIMEINCONSISTENCY")
    ]
    assert state(tree) == before


@pytest.mark.parametrize("op", [SetData("/a", b"", 0), Check("/a", 0), SetData("/a", b"", 2)])
def test_an_earlier_version_is_refused_like_a_later_one(tree: DataTree, op: WriteOp) -> None:
    apply(tree, SetData("/a", b"new"))
    assert apply(tree, op).code is ResultCode.BADVERSION
    assert apply(tree, SetData("/a", b"", -1)).code is ResultCode.OK


def test_numbers_go_on_after_deletions(tree: DataTree) -> None:
    apply(tree, Delete("/a/c"))
    names = [apply(tree, Create("/a/n-", b"", sequential=True)).results[0].path for _ in range(2)]
    assert names == ["/a/n-0000000002", "/a/n-0000000003"]


def test_ephemerals_go_with_their_session(tree: DataTree) -> None:
    apply(tree, Create("/a/other", b"", ephemeral=True), session=8)
    changes = tree.remove_ephemerals(7, 9)
    assert [change.path for change in changes] == ["/a/b"]
    assert sorted(tree.nodes) == ["/", "/a", "/a/c", "/a/other"]
    assert tree.ephemerals.keys() == {8}
    assert tree.nodes["/a"].pzxid == 9
    apply(tree, Delete("/a/other"))
    assert tree.ephemerals == {}


def test_a_copy_is_independent(tree: DataTree) -> None:
    before = state(deepcopy(tree))
    copy = deepcopy(tree)
    apply(copy, Create("/a/d", b"", ephemeral=True), SetData("/a", b"new"))
    assert state(tree) == before
    assert tree.nodes["/a"].children == {"b", "c"}


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        ("/", True),
        ("/a/b", True),
        ("/a..b/.c", True),
        ("/\N{SNOWMAN}", True),
        ("a", False),
        ("/a/", False),
        ("//a", False),
        ("/a/./b", False),
        ("/..", False),
        ("/a\0b", False),
        ("/a\x1f", False),
        ("/a\x7f", False),
        ("/a\x9f", False),
        ("/a\ue000", False),
        ("/a\ufff0", False),
    ],
)
def test_invalid_paths_are_recognized(path: str, valid: bool) -> None:
    assert is_valid(path) is valid
