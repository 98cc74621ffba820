"""The watch table: an event is told once, and what is armed is known at every moment."""

from __future__ import annotations

import pytest

from klamm.zk.kazoo_watches import (
    CHILD,
    DATA,
    EXIST,
    SetWatches,
    WatchTable,
    set_watches,
    watch_for,
)
from klamm.zk.kazoo_wire import Chroot
from klamm.zk.store import (
    Exists,
    GetChildren,
    GetData,
    ReadOp,
    ReadResult,
    ResultCode,
    Stat,
    WatchKind,
)

CHROOT = Chroot("/klamm")
STAT = Stat(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)
FOUND = ReadResult(ResultCode.OK, stat=STAT)
ABSENT = ReadResult(ResultCode.NONODE)
CREATED, DELETED, CHANGED = WatchKind.CREATED, WatchKind.DELETED, WatchKind.DATA_CHANGED
CHILDREN = WatchKind.CHILDREN_CHANGED


@pytest.fixture
def table() -> WatchTable:
    return WatchTable()


def send(table: WatchTable, zxid: int = 7, **watches: int) -> SetWatches:
    """A SetWatches on its way: ``name=bits`` stands for the path /name."""
    wanted = {f"/{name}": bits for name, bits in watches.items()}
    [request] = set_watches(zxid, wanted, CHROOT, table)
    request.serialize()
    return request


def answer(request: SetWatches) -> None:
    request.set(True)


def armed(table: WatchTable) -> dict[str, int]:
    """What a reconnect would arm."""
    table.disconnected(9)
    return {path: bits for request in table.rearm(CHROOT) for path, bits in request.watches.items()}


@pytest.mark.parametrize(
    ("op", "result", "watch"),
    [
        (GetData("/a", watch=True), FOUND, DATA),
        (GetData("/a", watch=True), ABSENT, EXIST),
        (Exists("/a", watch=True), FOUND, DATA),
        (Exists("/a", watch=True), ABSENT, EXIST),
        (GetChildren("/a", watch=True), FOUND, CHILD),
        (GetChildren("/a", watch=True), ABSENT, 0),
        (GetData("/a", watch=True), ReadResult(ResultCode.NOAUTH), 0),
        (GetData("/a"), FOUND, 0),
    ],
)
def test_which_watch_a_read_asks_for(op: ReadOp, result: ReadResult, watch: int) -> None:
    assert watch_for(op, result) == watch


def test_an_event_uses_up_the_watches_it_concerns(table: WatchTable) -> None:
    answer(send(table, a=DATA | CHILD, b=DATA | CHILD, c=DATA | CHILD, d=EXIST))
    assert table.fired(CHANGED, "/a")
    assert table.fired(CHILDREN, "/b")
    assert table.fired(DELETED, "/c")
    assert table.fired(CREATED, "/d")
    assert armed(table) == {"/a": CHILD, "/b": DATA}


def test_a_watch_that_fires_before_the_response_is_not_armed(table: WatchTable) -> None:
    request = send(table, a=DATA, b=DATA)
    assert table.fired(CHANGED, "/a")
    answer(request)
    assert armed(table) == {"/b": DATA}


def test_an_event_of_an_older_watch_leaves_the_newer_one(table: WatchTable) -> None:
    answer(send(table, a=DATA))
    request = send(table, a=DATA)
    assert table.fired(CHANGED, "/a")
    answer(request)
    assert armed(table) == {"/a": DATA}


def test_a_deletion_found_twice_is_reported_once(table: WatchTable) -> None:
    request = send(table, a=DATA | CHILD, b=DATA)
    assert table.fired(DELETED, "/a")
    assert not table.fired(DELETED, "/a")
    answer(request)
    assert armed(table) == {"/b": DATA}


def test_a_deletion_that_one_watch_reported_is_not_taken_for_two(table: WatchTable) -> None:
    send(table, a=CHILD, b=DATA)
    for path in ("/a", "/b", "/a", "/b"):
        assert table.fired(DELETED, path)


def test_later_deletions_of_the_same_znode_are_notified(table: WatchTable) -> None:
    answer_due = send(table, a=DATA | CHILD)
    assert table.fired(DELETED, "/a")
    assert not table.fired(DELETED, "/a")
    answer(answer_due)
    answer(send(table, a=DATA))
    assert table.fired(DELETED, "/a")
    assert armed(table) == {}


def test_two_requests_in_flight_are_distinguished(table: WatchTable) -> None:
    first, second = send(table, a=DATA), send(table, a=DATA)
    assert table.fired(CHANGED, "/a")
    answer(first)
    answer(second)
    assert armed(table) == {"/a": DATA}


def test_an_event_without_a_watch_is_notified_nevertheless(table: WatchTable) -> None:
    assert table.fired(CHANGED, "/a")
    assert table.fired(DELETED, "/a")


def test_a_read_that_watches_arms_at_its_answer(table: WatchTable) -> None:
    table.read(GetData("/a", watch=True), FOUND)
    table.read(GetData("/b", watch=True), ABSENT)
    table.read(Exists("/c", watch=True), ABSENT)
    table.read(GetChildren("/a", watch=True), FOUND)
    table.read(Exists("/d"), FOUND)
    assert armed(table) == {"/a": DATA | CHILD, "/c": EXIST}


def test_a_second_loss_keeps_the_first_zxid_until_all_is_armed_again(table: WatchTable) -> None:
    answer(send(table, a=DATA))
    table.disconnected(100)
    [first] = table.rearm(CHROOT)
    first.serialize()
    table.disconnected(200)
    [second] = table.rearm(CHROOT)
    assert second.payload[:8] == (100).to_bytes(8)
    second.serialize()
    answer(second)
    table.disconnected(300)
    [third] = table.rearm(CHROOT)
    assert third.payload[:8] == (300).to_bytes(8)


def test_a_second_loss_forgets_no_request(table: WatchTable) -> None:
    wanted = {f"/{'long' * 20}{index}": DATA for index in range(4_000)}
    requests = list(set_watches(1, wanted, CHROOT, table))
    for request in requests:
        request.serialize()
        answer(request)
    table.disconnected(100)
    assert len(table.rearm(CHROOT)) == len(requests) > 2
    table.disconnected(200)
    assert armed(table) == wanted


def test_a_watch_that_fired_before_a_second_loss_is_not_armed_again(table: WatchTable) -> None:
    answer(send(table, a=DATA, b=DATA))
    table.disconnected(100)
    [request] = table.rearm(CHROOT)
    request.serialize()
    assert table.fired(CHANGED, "/a")
    assert armed(table) == {"/b": DATA}


def test_a_request_lost_with_its_connection_arms_nothing(table: WatchTable) -> None:
    request = send(table, a=DATA)
    request.complete(ResultCode.CONNECTIONLOSS, None)
    assert armed(table) == {}


def test_a_new_session_has_no_watches(table: WatchTable) -> None:
    answer(send(table, a=DATA))
    table.clear()
    assert len(table) == 0
    assert armed(table) == {}


def test_requests_are_bounded_and_keep_a_znodes_watches_together(table: WatchTable) -> None:
    wanted = {f"/{'long' * 20}{index}": DATA | CHILD for index in range(4_000)}
    requests = list(set_watches(1, wanted, CHROOT, table))
    assert len(requests) > 1
    assert all(len(request.payload) < 128 * 1024 + 50 for request in requests)
    together: dict[str, int] = {}
    for request in requests:
        together.update(request.watches)
    assert together == wanted
    assert sum(len(request.watches) for request in requests) == len(wanted)


def test_a_request_names_full_paths(table: WatchTable) -> None:
    [request] = set_watches(5, {"/a": DATA, "/": CHILD, "/b": EXIST}, CHROOT, table)
    assert request.payload == b"".join(
        (
            (5).to_bytes(8),
            b"\0\0\0\1" + b"\0\0\0\x08/klamm/a",
            b"\0\0\0\1" + b"\0\0\0\x08/klamm/b",
            b"\0\0\0\1" + b"\0\0\0\x06/klamm",
        )
    )
