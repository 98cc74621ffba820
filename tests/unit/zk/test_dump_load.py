"""A load of a dump, in memory: what is written, what is not, and what is left when it fails."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pytest

from klamm.cluster.errors import OperationTooBig, StoreError, UsageError
from klamm.world.clock import VirtualClock
from klamm.zk import dump_load
from klamm.zk.dump import DumpedZNode, dump
from klamm.zk.dump_load import (
    NotEmpty,
    PartlyLoaded,
    check_no_load_is_open,
    load,
    run_on_thread,
    undo,
)
from klamm.zk.dump_text import data_of
from klamm.zk.load_plan import LOADING_PATH, LoadPlan, plan_load
from klamm.zk.memory_store import LostReply, MemoryServer, MemoryStore
from klamm.zk.request_size import MAX_TRANSACTION_BYTES, transaction_size
from klamm.zk.store import (
    Create,
    Delete,
    GetChildren,
    GetData,
    ReadOp,
    ReadResult,
    ResultCode,
    SetData,
)
from tests.waiting import wait_until

BINARY = b"\xff\x00\xfe"


class Tree(NamedTuple):
    """Paths and data, in the order of a dump."""

    znodes: tuple[tuple[str, bytes | None], ...]


def tree_of(store: MemoryStore) -> Tree:
    return Tree(tuple((znode.path, data_of(znode)) for znode in dump(store)))


def new_store() -> MemoryStore:
    return MemoryStore(MemoryServer(VirtualClock()))


def source(count: int = 300) -> list[DumpedZNode]:
    """A dump of /a with ``count`` children, null, empty and binary data, and an ephemeral."""
    store = new_store()
    store.write([[SetData("/", b"root")], [Create("/a", None)], [Create("/a/e", b"")]])
    store.write([[Create("/a/bin", BINARY)], [Create("/eph", b"1", ephemeral=True)]])
    store.write([[Create(f"/a/{n}", str(n).encode())] for n in range(count)])
    return dump(store)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_load, "ZNODES_PER_BATCH", 64)
    monkeypatch.setattr(dump_load, "OPS_PER_TRANSACTION", 10)


def plan() -> LoadPlan:
    return plan_load(source())


def fails_at(store: MemoryStore, number: int, error: type[Exception]) -> None:
    """Let the ``number``-th transaction that writes raise."""
    seen = 0

    def before(_: int, op: object) -> None:
        nonlocal seen
        if isinstance(op, list):
            seen += 1
            if seen == number:
                raise error("broken")

    store.server.before_op = before


def test_a_load_writes_all_znodes_of_the_dump_but_ephemerals() -> None:
    znodes, store = source(), new_store()
    told: list[tuple[int, int]] = []
    result = load(
        store, plan_load(znodes), on_progress=lambda done, total: told.append((done, total))
    )
    wanted = tuple((z.path, data_of(z)) for z in znodes if z.path != "/eph")
    assert tree_of(store) == Tree(wanted)
    assert (result.written, result.found) == (303, 0)
    assert told == [(64, 303), (128, 303), (192, 303), (256, 303), (303, 303)]
    assert plan_load(znodes).ephemeral == ("/eph",)


def test_the_last_transaction_says_that_the_load_is_complete() -> None:
    store = new_store()
    seen: list[object] = []
    store.server.before_op = lambda _, op: seen.append(op) if isinstance(op, list) else None
    load(store, plan(), last=[Create("/end", None)])
    assert any(SetData("/", b"root") in op for op in seen[:-1] if isinstance(op, list))
    assert seen[-1] == [Create("/end", None), Delete(LOADING_PATH)]


def test_a_dump_of_a_copy_is_the_dump() -> None:
    first, second = new_store(), new_store()
    load(first, plan())
    load(second, plan_load(dump(first)))
    assert tree_of(second) == tree_of(first)


def test_a_dump_lists_parents_first_and_siblings_by_name() -> None:
    store = new_store()
    paths = ["/a", "/a-b", "/a/c", "/a/c/d", "/a-b/c"]
    store.write([[Create(path, None)] for path in paths])
    store.server.tree.nodes["/a"].owner = -2
    found = dump(store)
    assert [one.path for one in found] == ["/", "/a", "/a/c", "/a/c/d", "/a-b", "/a-b/c"]
    assert [one.ephemeral_owner for one in found[:2]] == ["0x0", "0xfffffffffffffffe"]
    assert [one.path for one in dump(store, "/a")] == ["/a", "/a/c", "/a/c/d"]


class Refusing(MemoryStore):
    """A server that refuses to read /a/s."""

    code = ResultCode.NOAUTH
    kinds: tuple[type[ReadOp], ...] = (GetData, GetChildren)

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        refused = ReadResult(self.code)
        return [
            refused if op.path == "/a/s" and isinstance(op, self.kinds) else result
            for op, result in zip(ops, super().read(ops), strict=True)
        ]


def test_znodes_that_may_not_be_read_are_in_the_dump() -> None:
    store = Refusing(MemoryServer(VirtualClock()))
    store.write([[Create(path, b"x")] for path in ("/a", "/a/s", "/a/s/b", "/a/t")])
    found = dump(store, "/a")
    assert [(one.path, one.unreadable) for one in found] == [
        ("/a", msgspec.UNSET),
        ("/a/s", "NOAUTH"),
        ("/a/t", msgspec.UNSET),
    ]
    store.code, store.kinds = ResultCode.SESSIONEXPIRED, (GetChildren,)
    with pytest.raises(StoreError, match="/a/s"):
        dump(store, "/a")


@pytest.mark.parametrize(
    ("path", "message"), [("/no", "znode /no does not exist"), ("/", "/chroot")]
)
def test_a_dump_of_nothing_is_an_error(path: str, message: str) -> None:
    store = new_store()
    del store.server.tree.nodes["/"]
    with pytest.raises(StoreError, match=message):
        dump(store, path, chroot="/chroot")


def test_large_znodes_are_written_in_several_transactions() -> None:
    znodes = [DumpedZNode(f"/{n}", data="x" * 300_000) for n in range(9)]
    assert MAX_TRANSACTION_BYTES < 9 * 300_000
    store = new_store()
    assert load(store, plan_load(znodes)).written == 9
    assert [len(data or b"") for path, data in tree_of(store).znodes if path != "/"] == [
        300_000
    ] * 9


def test_the_parts_above_a_part_are_made() -> None:
    store = new_store()
    store.write([[SetData("/", b"mine")]])
    made = plan_load([DumpedZNode("/x/y/z", data="1"), DumpedZNode("/x/y/z/w", data=None)])
    load(store, made)
    assert tree_of(store).znodes == (
        ("/", b"mine"),
        ("/x", None),
        ("/x/y", None),
        ("/x/y/z", b"1"),
        ("/x/y/z/w", None),
    )
    assert made.added == ("/x", "/x/y")


def test_znodes_of_zookeeper_and_unreadable_ones_are_left_out() -> None:
    made = plan_load(
        [
            DumpedZNode("/zookeeper", data=""),
            DumpedZNode("/zookeeper/quota", data=""),
            DumpedZNode("/zookeepers", data="x"),
            DumpedZNode("/secret", unreadable="NOAUTH"),
            DumpedZNode("/klamm", data="{}"),
        ],
        frozenset(["/klamm"]),
    )
    assert [op.path for op in made.creates] == ["/zookeepers"]
    assert made.unreadable == ("/secret",)


@pytest.mark.parametrize(
    ("znodes", "said"),
    [
        (
            [DumpedZNode("/big", data="x" * MAX_TRANSACTION_BYTES)],
            "/big has 1048567 bytes, which exceeds",
        ),
        (
            [DumpedZNode("/controller"), DumpedZNode("/controller/x")],
            "below /controller, which is ephemeral",
        ),
        ([DumpedZNode(LOADING_PATH, data="{}")], "it was made during an unfinished load"),
    ],
)
def test_znodes_that_cannot_be_written_are_refused_before_anything_is_written(
    znodes: list[DumpedZNode], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        plan_load(znodes)


@pytest.mark.parametrize("op", [Create("/big", b""), SetData("/", b"")])
def test_the_largest_znode_that_fits_into_a_transaction_is_loaded(op: Create | SetData) -> None:
    size, store = MAX_TRANSACTION_BYTES - transaction_size([op]), new_store()
    largest, larger = ([DumpedZNode(op.path, data="x" * n)] for n in (size, size + 1))
    load(store, plan_load(largest))
    assert store.read([GetData(op.path)])[0].data == b"x" * size
    with pytest.raises(UsageError, match=f"{op.path} has {size + 1} bytes, which exceeds"):
        plan_load(larger)


def test_a_target_that_is_not_empty_is_not_changed() -> None:
    store = new_store()
    store.write([[Create(f"/{name}", b"")] for name in "gfedcba"])
    before = tree_of(store)
    prepared: list[None] = []
    with pytest.raises(NotEmpty, match=r"found /a, /b, /c, /d, /e and 2 more"):
        load(store, plan(), prepare=lambda: prepared.append(None))
    assert tree_of(store) == before
    assert prepared == []


def test_zookeepers_own_znode_does_not_count() -> None:
    store = new_store()
    store.write([[Create("/zookeeper", b"")]])
    assert load(store, plan()).written == 303


@pytest.mark.parametrize("error", [StoreError, OperationTooBig])
def test_an_interrupted_load_is_reported_and_completes_when_it_is_repeated(
    error: type[Exception],
) -> None:
    store = new_store()
    fails_at(store, 20, error)
    with pytest.raises(PartlyLoaded, match="128 of 303 znodes and /klamm-loading") as caught:
        load(store, plan())
    assert isinstance(caught.value.__cause__, error)
    assert caught.value.hint is not None and "--undo" in caught.value.hint
    store.server.before_op = None
    with pytest.raises(StoreError, match="its load was interrupted"):
        check_no_load_is_open(store)
    other = plan_load(source(2))
    with pytest.raises(
        NotEmpty, match=r"interrupted load of another dump: found /a, /klamm-loading"
    ):
        load(store, other)
    with pytest.raises(NotEmpty, match="load is of another dump: nothing was deleted"):
        undo(store, [other])
    result = load(store, plan(), last=[Create("/end", b"x")])
    assert result.found >= 128
    check_no_load_is_open(store)
    whole = new_store()
    load(whole, plan(), last=[Create("/end", b"x")])
    assert tree_of(store) == tree_of(whole)


def test_an_interrupted_load_is_removed() -> None:
    store = new_store()
    fails_at(store, 20, StoreError)
    with pytest.raises(PartlyLoaded):
        load(store, plan())
    store.server.before_op = None
    assert undo(store, [plan_load([]), plan()]) >= 128
    assert [znode.path for znode in dump(store)] == ["/"]
    with pytest.raises(NotEmpty, match="nothing was deleted"):
        undo(store, [plan_load([]), plan()])


def test_a_complete_load_is_not_removed() -> None:
    store = new_store()
    load(store, plan())
    before = tree_of(store)
    with pytest.raises(NotEmpty, match="there is no interrupted load to undo"):
        undo(store, [plan_load([]), plan()])
    assert tree_of(store) == before


@pytest.mark.parametrize(
    "written", [SetData("/a/1", b"mine"), Create("/a/1", b"1", ephemeral=True)]
)
def test_a_concurrent_writer_is_noticed(written: SetData | Create) -> None:
    store = new_store()
    fails_at(store, 20, StoreError)
    with pytest.raises(PartlyLoaded):
        load(store, plan())
    store.server.before_op = None
    if isinstance(written, Create):
        store.write([[Delete("/a/1")]])
    store.write([[written]])
    with pytest.raises(PartlyLoaded, match="another client is writing to the target: /a/1 differs"):
        load(store, plan())


@pytest.mark.parametrize("when", ["before_op", "after_op"])
def test_every_lost_reply_is_settled(when: str) -> None:
    store = new_store()
    store.yield_control = lambda: None
    seen = 0

    def lose(*args: object) -> None:
        nonlocal seen
        if isinstance(args[1], list):
            seen += 1
            if seen % 3 == 0:
                raise LostReply

    setattr(store.server, when, lose)
    assert load(store, plan(), last=[Create("/end", None)]).found == 0
    setattr(store.server, when, None)
    whole = new_store()
    load(whole, plan(), last=[Create("/end", None)])
    assert tree_of(store) == tree_of(whole)
    assert seen > 30


@pytest.mark.parametrize("number", [0, 1, 7, 1234])
def test_the_next_numbered_znode_comes_after_those_of_the_dump(number: int) -> None:
    store = new_store()
    names = ["a", f"change_{number:010}", "id-12345678901"]
    load(store, plan_load([DumpedZNode(f"/changes/{name}", data="") for name in names]))
    assert [z.path for z in dump(store, "/changes")[1:]] == [f"/changes/{name}" for name in names]
    created = store.write([[Create("/changes/change_", b"", sequential=True)]])[0].results[0].path
    assert created == f"/changes/change_{max(number + 1, 3):010}"


def test_the_next_numbered_znode_comes_after_those_of_the_dump_if_requests_are_lost() -> None:
    store = new_store()
    store.yield_control = lambda: None
    advances = 0

    def lose(*args: object) -> None:
        nonlocal advances
        if isinstance(args[1], list) and any(isinstance(op, Delete) for op in args[1]):
            advances += 1
            if advances == 1:
                raise LostReply

    store.server.before_op = lose
    load(store, plan_load([DumpedZNode("/changes/change_0000000007", data="")]))
    assert advances > 1
    created = store.write([[Create("/changes/change_", b"", sequential=True)]])[0].results[0].path
    assert created == "/changes/change_0000000008"


def test_work_on_a_thread_is_stopped_by_an_interrupt() -> None:
    stopped = threading.Event()
    ended: list[bool] = []

    main = threading.main_thread().ident or 0

    def waits() -> bool:
        stack = traceback.extract_stack(sys._current_frames()[main])
        return "result" in [frame.name for frame in stack]

    def work() -> None:
        wait_until(waits)
        signal.pthread_kill(main, signal.SIGINT)
        ended.append(stopped.wait(20))

    with pytest.raises(KeyboardInterrupt):
        run_on_thread(work, stopped.set)
    assert ended == [True]


def test_work_on_a_thread_ends_by_itself() -> None:
    stops: list[None] = []
    assert run_on_thread(lambda: 5, lambda: stops.append(None)) == 5
    with pytest.raises(ZeroDivisionError):
        run_on_thread(lambda: 1 // 0, lambda: stops.append(None))
    assert stops == []


@pytest.mark.parametrize(
    ("znodes", "root"),
    [
        ([DumpedZNode("/", "x")], b"x"),
        ([DumpedZNode("/", unreadable="NOAUTH")], msgspec.UNSET),
        ([DumpedZNode("/a", "x")], msgspec.UNSET),
    ],
)
def test_the_root_is_written_if_the_dump_has_its_data(
    znodes: list[DumpedZNode], root: object
) -> None:
    assert plan_load(znodes).root == root
