"""What a Store owes when its connection breaks: each watch once, each write's outcome unhidden.

The same cases for every backend, and for a real ZooKeeper with a chroot and without one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.store import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ReadOp,
    ReadResult,
    ResultCode,
    SessionState,
    SetData,
    TxnResult,
    WatchEvent,
    WatchKind,
    WriteOp,
)
from tests.conformance.links import KazooLink, Link, session_states, watch_events
from tests.conformance.memory_link import MemoryLink
from tests.waiting import wait_until

# One watch arms itself with its read; of many, the watches are armed behind the reads.
FEW, MANY = 1, 50
OK = ResultCode.OK


@pytest.fixture(params=["memory", "kazoo-chroot", "kazoo-root"])
def link(request: pytest.FixtureRequest) -> Iterator[Link]:
    link: Link = MemoryLink() if request.param == "memory" else kazoo_link(request)
    yield link
    link.close()


def kazoo_link(request: pytest.FixtureRequest) -> KazooLink:
    zookeeper: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
    path = request.getfixturevalue("chroot").removeprefix(zookeeper.connect_string)
    if request.param == "kazoo-chroot":
        return KazooLink(zookeeper.port, chroot=path, base="")
    return KazooLink(zookeeper.port, chroot="", base=path)


def write(link: Link, *ops: WriteOp) -> None:
    results = link.other.write([[op] for op in ops])
    assert [result.code for result in results] == [OK] * len(ops)


def fill(link: Link, count: int) -> list[str]:
    """Create so many znodes under the link's base."""
    paths = [f"{link.base}/n{index}" for index in range(count)]
    write(link, *(Create(path, b"before") for path in paths))
    return paths


class InThread:
    """A call that waits for the connection in a separate thread."""

    def __init__(self, call: Callable[[], Sequence[ReadResult | TxnResult]]) -> None:
        self.results: Sequence[ReadResult | TxnResult] = ()
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.results = self._call()

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def codes(self) -> list[ResultCode]:
        self._thread.join(20)
        assert not self.waits
        return [result.code for result in self.results]


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("reader", [GetData, Exists])
def test_data_changed_while_disconnected_is_one_event(
    link: Link, reader: type[GetData | Exists], count: int
) -> None:
    paths = fill(link, count)
    link.store.read([reader(path, watch=True) for path in paths])
    link.disconnect()
    write(link, SetData(paths[0], b"once"), SetData(paths[0], b"twice"))
    link.reconnect()
    assert watch_events(link) == [WatchEvent(WatchKind.DATA_CHANGED, paths[0])]


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("reader", [GetData, Exists])
def test_created_while_disconnected_is_one_event(
    link: Link, reader: type[GetData | Exists], count: int
) -> None:
    paths = [f"{link.base}/absent{index}" for index in range(count)]
    found = link.store.read([reader(path, watch=True) for path in paths])
    assert {result.code for result in found} == {ResultCode.NONODE}
    link.disconnect()
    write(link, Create(paths[0], None))
    link.reconnect()
    assert watch_events(link) == [WatchEvent(WatchKind.CREATED, paths[0])]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_child_added_while_disconnected_is_one_event(link: Link, count: int) -> None:
    paths = fill(link, count)
    link.store.read([GetChildren(path, watch=True) for path in paths])
    link.disconnect()
    write(link, Create(f"{paths[0]}/child", None))
    link.reconnect()
    assert watch_events(link) == [WatchEvent(WatchKind.CHILDREN_CHANGED, paths[0])]


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "disconnected"])
def test_deleted_with_data_and_child_watch_is_one_event(
    link: Link, count: int, connected: bool
) -> None:
    paths = fill(link, count)
    watched: list[ReadOp] = [GetData(path, watch=True) for path in paths]
    watched += [GetChildren(path, watch=True) for path in paths]
    link.store.read(watched)
    if not connected:
        link.disconnect()
    write(link, Delete(paths[0]))
    if not connected:
        link.reconnect()
    assert watch_events(link) == [WatchEvent(WatchKind.DELETED, paths[0])]


def test_a_watch_armed_again_after_its_deletion_was_notified_is_kept(link: Link) -> None:
    [path] = fill(link, 1)
    link.store.read([GetData(path, watch=True), GetChildren(path, watch=True)])
    link.disconnect()
    write(link, Delete(path))
    link.reconnect()
    wait_until(lambda: watch_events(link), what="the deletion")
    link.store.read([GetData(path, watch=True)])
    link.disconnect()
    write(link, Create(path, None))
    link.reconnect()
    assert watch_events(link)[1:] == [WatchEvent(WatchKind.CREATED, path)]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_watches_of_a_new_session_tell_nothing_of_the_past(link: Link, count: int) -> None:
    paths = fill(link, count)
    link.store.read([GetData(path, watch=True) for path in paths])
    link.expire()
    write(link, SetData(paths[0], b"after"))
    link.store.reopen()
    results = link.store.read([GetData(path, watch=True) for path in paths])
    assert results[0].data == b"after"
    assert watch_events(link) == []
    write(link, SetData(paths[-1], b"again"))
    assert watch_events(link) == [WatchEvent(WatchKind.DATA_CHANGED, paths[-1])]


@pytest.mark.parametrize("count", [FEW, MANY])
def test_an_answer_that_comes_first_hides_no_event(link: Link, count: int) -> None:
    paths = fill(link, count)
    link.store.read([GetData(path, watch=True) for path in paths])
    link.disconnect()
    write(link, SetData(paths[0], b"after"))
    told: list[int] = []

    def read() -> Sequence[ReadResult]:
        results = link.store.read([GetData(paths[0])])
        told.append(sum(isinstance(event, WatchEvent) for event in link.events))
        return results

    reads = [InThread(read) for _ in range(3)]
    assert all(read.waits for read in reads)
    link.reconnect()
    assert [read.codes() for read in reads] == [[OK]] * 3
    assert told == [1, 1, 1], "who reads the new data has been told of the change"
    assert watch_events(link) == [WatchEvent(WatchKind.DATA_CHANGED, paths[0])]


def test_a_change_notified_before_the_cut_is_not_notified_again(link: Link) -> None:
    [path] = fill(link, 1)
    link.store.read([GetData(path, watch=True)])
    write(link, SetData(path, b"told"))
    assert len(watch_events(link)) == 1
    link.disconnect()
    write(link, SetData(path, b"not watched"))
    link.reconnect()
    assert len(watch_events(link)) == 1


@pytest.mark.parametrize("count", [FEW, MANY])
def test_watches_stay_armed_over_quiet_reconnects(link: Link, count: int) -> None:
    paths = fill(link, count)
    link.store.read([GetData(path, watch=True) for path in paths])
    for _ in range(2):
        link.disconnect()
        link.reconnect()
    assert watch_events(link) == []
    write(link, *(SetData(path, b"after") for path in paths))
    assert watch_events(link) == [WatchEvent(WatchKind.DATA_CHANGED, path) for path in paths]


def test_a_connection_lost_while_arming_again_loses_nothing(link: Link) -> None:
    paths = fill(link, 2)
    link.store.read([GetData(path, watch=True) for path in paths])
    link.disconnect()
    write(link, SetData(paths[0], b"after"))
    link.lose_reply()
    link.reconnect()
    wait_until(
        lambda: session_states(link)[2:4] == [SessionState.DISCONNECTED, SessionState.CONNECTED]
    )
    write(link, SetData(paths[1], b"after"))
    assert watch_events(link) == [WatchEvent(WatchKind.DATA_CHANGED, path) for path in paths]


@pytest.mark.parametrize("replies_before", [0, 1, 2])
def test_a_connection_lost_in_a_batch_of_watched_reads(link: Link, replies_before: int) -> None:
    paths = fill(link, MANY)
    link.store.read([GetData(path) for path in paths])
    link.lose_reply(replies_before)
    results = link.store.read([GetData(path, watch=True) for path in paths])
    assert {result.data for result in results} == {b"before"}
    write(link, SetData(paths[-1], b"after"))
    assert WatchEvent(WatchKind.DATA_CHANGED, paths[-1]) in watch_events(link)


def test_a_read_waits_for_the_connection(link: Link) -> None:
    [path] = fill(link, 1)
    link.disconnect()
    reads = [
        InThread(lambda: link.store.read([GetData(path)])),
        InThread(lambda: link.store.read([GetData(path)] * MANY)),
    ]
    assert all(read.waits for read in reads)
    link.reconnect()
    assert [set(read.codes()) for read in reads] == [{OK}, {OK}]


def test_a_write_whose_reply_is_lost_says_so_and_took_place(link: Link) -> None:
    [path] = fill(link, 1)
    link.lose_reply()
    [result] = link.store.write([[SetData(path, b"after", 0)]])
    assert result.code is ResultCode.CONNECTIONLOSS
    assert session_states(link) == [SessionState.DISCONNECTED, SessionState.CONNECTED]
    [found] = link.store.read([GetData(path)])
    assert found.data == b"after"
    assert found.stat is not None
    assert found.stat.version == 1


def test_of_a_batch_of_writes_the_answered_ones_are_known(link: Link) -> None:
    paths = fill(link, 3)
    link.lose_reply(replies_before=1)
    results = link.store.write([[SetData(path, b"after", 0)] for path in paths])
    assert [result.code for result in results[:2]] == [OK, ResultCode.CONNECTIONLOSS]
    # The last may not have been sent before the connection broke: then it has its own answer.
    assert results[2].code in (OK, ResultCode.CONNECTIONLOSS)
    [last] = link.other.read([GetData(paths[2])])
    assert results[2].code is not OK or last.data == b"after"


def test_session_events_come_in_order(link: Link) -> None:
    for _ in range(2):
        link.disconnect()
        link.reconnect()
    assert session_states(link) == [SessionState.DISCONNECTED, SessionState.CONNECTED] * 2


def test_a_reconnect_keeps_session_and_ephemerals(link: Link) -> None:
    path, session_id = f"{link.base}/mine", link.store.session_id
    link.store.write([[Create(path, None, ephemeral=True)]])
    link.disconnect()
    link.reconnect()
    [found] = link.other.read([Exists(path)])
    assert link.store.session_id == session_id
    assert found.stat is not None
    assert found.stat.ephemeral_owner == session_id


def test_an_expired_session_answers_nothing_until_reopened(link: Link) -> None:
    [path] = fill(link, 1)
    owned = f"{link.base}/owned"
    link.store.write([[Create(owned, None, ephemeral=True)]])
    link.store.read([GetData(path, watch=True)])
    session_id = link.store.session_id
    link.expire()
    assert link.store.read([GetData(path)])[0].code is ResultCode.SESSIONEXPIRED
    assert {r.code for r in link.store.read([GetData(path, watch=True)] * MANY)} == {
        ResultCode.SESSIONEXPIRED
    }
    assert link.store.write([[SetData(path, b"no")]])[0].code is ResultCode.SESSIONEXPIRED
    link.store.reopen()
    assert link.store.session_id not in (0, session_id)
    assert session_states(link)[-2:] == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert [result.code for result in link.store.read([GetData(path), Exists(owned)])] == [
        OK,
        ResultCode.NONODE,
    ]
    write(link, SetData(path, b"after"))
    assert watch_events(link) == []


def test_what_waits_for_the_connection_learns_of_the_expiry(link: Link) -> None:
    [path] = fill(link, 1)
    link.disconnect()
    waiting = [
        InThread(lambda: link.store.read([GetData(path)] * MANY)),
        InThread(lambda: link.store.write([[SetData(path, b"after")]])),
    ]
    link.expire()
    assert [set(each.codes()) for each in waiting] == [{ResultCode.SESSIONEXPIRED}] * 2
    assert link.other.read([GetData(path)])[0].data == b"before"


def test_reopen_of_a_live_session_changes_nothing(link: Link) -> None:
    session_id = link.store.session_id
    link.store.reopen()
    assert link.store.session_id == session_id
    assert link.events == []
