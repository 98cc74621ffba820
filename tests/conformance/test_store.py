"""What every Store answers: data, versions, ephemerals, sequences, transactions.

The same cases for the store in memory and for the one on a real ZooKeeper.
"""

from __future__ import annotations

import pytest

from klamm.cluster.errors import OperationTooBig
from klamm.zk.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    OpResult,
    ResultCode,
    SessionState,
    SetData,
    Stat,
    Store,
    WriteOp,
)
from tests.conformance.factories import Events, StoreFactory, ok

OK = ResultCode.OK


def stat_of(store: Store, path: str) -> Stat:
    result = store.read([Exists(path)])[0]
    assert result.stat is not None, path
    return result.stat


def data_of(store: Store, path: str) -> bytes | None:
    result = store.read([GetData(path)])[0]
    assert result.code is OK
    return result.data


def code(store: Store, *ops: WriteOp) -> ResultCode:
    """The code of one transaction."""
    return store.write([ops])[0].code


@pytest.mark.parametrize("data", [None, b"", b"x", b"\x00\xff" * 100], ids=repr)
def test_a_created_znode_reads_back(store: Store, data: bytes | None) -> None:
    ok(store, Create("/a", data))
    result = store.read([GetData("/a")])[0]
    stat = result.stat
    assert stat is not None
    assert result.data == data
    assert result.children is None
    assert stat == Stat(
        stat.czxid,
        stat.czxid,
        stat.ctime_ms,
        stat.ctime_ms,
        0,
        0,
        0,
        0,
        len(data or b""),
        0,
        stat.czxid,
    )
    assert stat.czxid > 0
    assert store.read([Exists("/a")])[0].stat == stat


def test_reads_of_an_absent_znode(store: Store) -> None:
    for op in (GetData("/no"), Exists("/no"), GetChildren("/no"), GetData("/no/below")):
        result = store.read([op])[0]
        assert (result.code, result.data, result.stat, result.children) == (
            ResultCode.NONODE,
            None,
            None,
            None,
        )


def test_a_batch_of_reads_answers_in_order(store: Store) -> None:
    ok(store, Create("/p", None), *(Create(f"/p/{i}", b"%d" % i) for i in range(50)))
    ops = [GetData(f"/p/{i}") if i % 2 else Exists(f"/p/{i}") for i in range(60)]
    ops[10] = GetChildren("/p")  # type: ignore[call-overload]
    results = store.read(ops)
    assert [r.code for r in results[:50]] == [OK] * 50
    assert [r.code for r in results[50:]] == [ResultCode.NONODE] * 10
    assert sorted(results[10].children or ()) == sorted(str(i) for i in range(50))
    assert [r.data for r in results[1:50:2]] == [b"%d" % i for i in range(1, 50, 2)]
    assert results[12].data is None
    assert results[12].stat is not None
    assert store.read([]) == []
    assert store.write([]) == []


def test_writing_raises_version_and_mzxid(store: Store) -> None:
    ok(store, Create("/a", b"0"))
    before = stat_of(store, "/a")
    result = store.write([[SetData("/a", b"one", 0)]])[0]
    after = stat_of(store, "/a")
    assert result.results == [OpResult(OK, "/a", 1, before.czxid)]
    assert result.zxid == after.mzxid > before.mzxid
    assert (after.version, after.czxid, after.pzxid) == (1, before.czxid, before.pzxid)
    assert after.data_length == 3
    ok(store, SetData("/a", None, ANY_VERSION))
    assert stat_of(store, "/a").version == 2
    assert data_of(store, "/a") is None


def test_a_wrong_version_changes_nothing(store: Store) -> None:
    ok(store, Create("/a", b"0"), Create("/a/b", None), SetData("/a", b"1"))
    before = stat_of(store, "/a")
    assert code(store, SetData("/a", b"2", 0)) is ResultCode.BADVERSION
    assert code(store, Check("/a", 0)) is ResultCode.BADVERSION
    assert code(store, Delete("/a", 0)) is ResultCode.BADVERSION
    assert code(store, Delete("/a", 1)) is ResultCode.NOTEMPTY
    assert code(store, Check("/a", 1)) is OK
    assert stat_of(store, "/a") == before


def test_writes_to_absent_znodes(store: Store) -> None:
    assert code(store, SetData("/no", b"")) is ResultCode.NONODE
    assert code(store, Delete("/no")) is ResultCode.NONODE
    assert code(store, Check("/no", 0)) is ResultCode.NONODE
    assert code(store, Create("/no/below", None)) is ResultCode.NONODE
    ok(store, Create("/a", None))
    assert code(store, Create("/a", b"other")) is ResultCode.NODEEXISTS
    assert data_of(store, "/a") is None


@pytest.mark.parametrize("path", ["/a/", "/a//b", "/a/./b", "/a/../b"])
def test_impossible_paths_are_refused(store: Store, path: str) -> None:
    ok(store, Create("/a", None))
    assert code(store, Create(path, None)) in (ResultCode.BADARGUMENTS, ResultCode.NONODE)
    assert stat_of(store, "/a").num_children == 0


@pytest.mark.parametrize(
    "path", ["/.", "/..", "/a\0", "/a\x1f", "/a\x7f", "/a\x9f", "/a\ue000", "/a\ufff0"], ids=ascii
)
def test_names_that_zookeeper_forbids_are_refused(store: Store, path: str) -> None:
    assert code(store, Create(path, None)) is ResultCode.BADARGUMENTS


def test_names_next_to_the_forbidden_ones_are_allowed(store: Store) -> None:
    names = ("...", ".a", "a b", "\xa0", "\uf900", "\uffef")
    ok(store, *(Create(f"/{name}", None) for name in names))
    assert set(names) <= set(store.read([GetChildren("/")])[0].children or ())


def test_the_parent_counts_its_children(store: Store) -> None:
    ok(store, Create("/p", None))
    made = stat_of(store, "/p")
    ok(store, Create("/p/a", None), Create("/p/b", None), SetData("/p/a", b"x"))
    two = stat_of(store, "/p")
    assert (two.num_children, two.cversion, two.version) == (2, 2, 0)
    assert two.pzxid == stat_of(store, "/p/b").czxid > made.pzxid
    assert two.mzxid == made.mzxid
    deleted = store.write([[Delete("/p/a")]])[0]
    one = stat_of(store, "/p")
    assert (one.num_children, one.cversion, one.pzxid) == (1, 3, deleted.zxid)


def test_sequences_count_creations_not_children(store: Store) -> None:
    ok(store, Create("/q", None))
    add = Create("/q/n_", None, sequential=True)
    first = [result.results[0].path for result in store.write([[add], [add]])]
    assert first == ["/q/n_0000000000", "/q/n_0000000001"]
    ok(store, Delete("/q/n_0000000000"), Create("/q/other", None))
    assert store.write([[add]])[0].results[0].path == "/q/n_0000000003"
    assert code(store, add, Check("/q", 7)) is ResultCode.BADVERSION
    assert store.write([[add, add]])[0].results[1].path == "/q/n_0000000005"


def test_ephemerals_belong_to_their_session(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    assert 0 != store.session_id != other.session_id
    ok(store, Create("/mine", None, ephemeral=True), Create("/kept", None))
    ok(store, Create("/kept/e_", None, ephemeral=True, sequential=True))
    assert stat_of(other, "/mine").ephemeral_owner == store.session_id
    assert code(other, Create("/mine/below", None)) is ResultCode.NOCHILDRENFOREPHEMERALS
    parent = stat_of(other, "/kept")
    store.close()
    assert [r.code for r in other.read([Exists("/mine"), Exists("/kept/e_0000000000")])] == [
        ResultCode.NONODE
    ] * 2
    after = stat_of(other, "/kept")
    assert (after.num_children, after.cversion) == (0, parent.cversion + 1)
    assert after.pzxid > parent.pzxid


def test_a_transaction_has_one_zxid(store: Store) -> None:
    result = store.write([[Create("/a", b"1"), Create("/b", None), SetData("/a", b"2", 0)]])[0]
    assert (result.code, result.failed_index) == (OK, -1)
    a, b = stat_of(store, "/a"), stat_of(store, "/b")
    assert result.zxid == a.czxid == b.czxid == a.mzxid
    assert result.results == [
        OpResult(OK, "/a", 0, a.czxid),
        OpResult(OK, "/b", 0, a.czxid),
        OpResult(OK, "/a", 1, a.czxid),
    ]
    assert a.version == 1


def test_inside_a_transaction_each_operation_sees_those_before(store: Store) -> None:
    ok(store, Create("/old", b"0"))
    ops: list[WriteOp] = [
        Create("/p", None),
        Create("/p/c", b"1"),
        SetData("/p/c", b"2", 0),
        Check("/p/c", 1),
        SetData("/p/c", b"3", 1),
        Delete("/old", 0),
        Create("/old", b"new"),
    ]
    assert code(store, *ops) is OK
    assert (data_of(store, "/p/c"), stat_of(store, "/p/c").version) == (b"3", 2)
    assert (data_of(store, "/old"), stat_of(store, "/old").version) == (b"new", 0)
    assert code(store, Delete("/p/c"), Delete("/p")) is OK
    assert code(store, Delete("/old"), Check("/old", 0)) is ResultCode.NONODE


@pytest.mark.parametrize(
    ("ops", "failed_index", "failure"),
    [
        ([Check("/p", 1), Create("/p/n", None)], 0, ResultCode.BADVERSION),
        ([Create("/p/n", None), Create("/p/c", None), Delete("/p/d")], 1, ResultCode.NODEEXISTS),
        ([SetData("/p/c", b"x"), Delete("/p/c"), Delete("/p/no")], 2, ResultCode.NONODE),
        ([Delete("/p/c", 5), Create("/p/n", None)], 0, ResultCode.BADVERSION),
        (
            [Create("/p/e", None, ephemeral=True), Create("/p/e/x", None)],
            1,
            ResultCode.NOCHILDRENFOREPHEMERALS,
        ),
        ([Delete("/p/d"), Create("/p/d", b"again"), Delete("/p")], 2, ResultCode.NOTEMPTY),
    ],
)
def test_a_failed_transaction_names_its_operation_and_leaves_nothing(
    store: Store, ops: list[WriteOp], failed_index: int, failure: ResultCode
) -> None:
    ok(store, Create("/p", b""), Create("/p/c", b"c"), Create("/p/d", b"d"))
    paths = ["/p", "/p/c", "/p/d", "/p/n", "/p/e"]
    before = store.read([GetData(path) for path in paths])
    result = store.write([ops])[0]
    assert (result.code, result.failed_index, result.zxid) == (failure, failed_index, 0)
    codes = [r.code for r in result.results]
    assert codes[failed_index] is failure
    assert codes[:failed_index] == [OK] * failed_index
    assert codes[failed_index + 1 :] == [ResultCode.RUNTIMEINCONSISTENCY] * (
        len(ops) - failed_index - 1
    )
    assert store.read([GetData(path) for path in paths]) == before


def test_a_batch_of_transactions_goes_in_order_past_failures(store: Store) -> None:
    results = store.write(
        [
            [Create("/a", b"")],
            [SetData("/a", b"1", 0)],
            [SetData("/a", b"bad", 0)],
            [Check("/a", 1), SetData("/a", b"2", 1)],
            [Create("/no/where", None)],
            [Delete("/a", 2)],
        ]
    )
    assert [r.code for r in results] == [
        OK,
        OK,
        ResultCode.BADVERSION,
        OK,
        ResultCode.NONODE,
        OK,
    ]
    zxids = [r.zxid for r in results if r.zxid]
    assert zxids == sorted(set(zxids))


def test_thousands_of_operations_go_in_one_call(store: Store) -> None:
    count = 3_000
    ok(store, Create("/many", None))
    created = store.write(
        [[Create(f"/many/{i}", b"0") for i in range(n, n + 500)] for n in range(0, count, 500)]
    )
    assert {r.code for r in created} == {OK}
    ops = [[SetData(f"/many/{i}", b"%d" % i, 0)] for i in range(count)]
    assert {r.results[0].version for r in store.write(ops)} == {1}
    read = store.read([GetData(f"/many/{i}") for i in range(count)])
    assert [r.data for r in read] == [b"%d" % i for i in range(count)]
    assert len(store.read([GetChildren("/many")])[0].children or ()) == count


def test_an_operation_too_big_is_refused_before_anything_is_sent(store: Store) -> None:
    ok(store, Create("/a", b"small"))
    with pytest.raises(OperationTooBig):
        store.write([[SetData("/a", b"first")], [SetData("/a", b"x" * (1 << 20))]])
    assert data_of(store, "/a") == b"small"
    many: list[WriteOp] = [Create(f"/n{i}", b"x" * 200) for i in range(6_000)]
    with pytest.raises(OperationTooBig):
        store.write([many])
    assert store.read([Exists("/n0")])[0].code is ResultCode.NONODE
    ok(store, SetData("/a", b"y" * 1_000_000))
    assert stat_of(store, "/a").data_length == 1_000_000


def test_an_expired_session_writes_nothing(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    events = Events(store)
    ok(store, Create("/a", b"0"), Create("/e", None, ephemeral=True))
    old = store.session_id
    store_factory.expire(store)
    assert [r.code for r in store.write([[SetData("/a", b"1")], [Create("/b", None)]])] == [
        ResultCode.SESSIONEXPIRED
    ] * 2
    assert store.read([GetData("/a")])[0].code is ResultCode.SESSIONEXPIRED
    assert [r.code for r in other.read([Exists("/e"), Exists("/b")])] == [ResultCode.NONODE] * 2
    assert data_of(other, "/a") == b"0"
    store.reopen()
    assert store.session_id not in (0, old)
    assert events.sessions()[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    ok(store, SetData("/a", b"1", 0))


def test_an_abandoned_session_lives_until_its_timeout(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    ok(store, Create("/e", None, ephemeral=True))
    owner = store.session_id
    store.abandon()
    assert stat_of(other, "/e").ephemeral_owner == owner
    store_factory.wait_for_timeout(store)
    assert other.read([Exists("/e")])[0].code is ResultCode.NONODE
