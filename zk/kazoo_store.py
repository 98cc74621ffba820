"""The Store on a real ZooKeeper: how a wave of operations becomes few requests.

It decides which requests are sent and reads their answers back as results; the connection, its
watches and its events are KazooSession's. It repeats no write and decodes no znode.

Mirrors kafka.zookeeper.ZooKeeperClient, which sends one request per operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_watches import set_watches, watch_for
from klamm.zk.kazoo_waves import Wait, within
from klamm.zk.kazoo_wire import Multi, MultiRead, Request, SingleRead, multi_reads
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.store import (
    Exists,
    GetData,
    Listener,
    ReadOp,
    ReadResult,
    ResultCode,
    Transaction,
    TxnResult,
)

# So few reads are quicker one by one: each arms its watch in the same round trip.
_SINGLES_AT_MOST: Final = 2


class KazooStore:
    """A Store; several may share one session, and ``close`` of any of them ends it for all.

    ``wait`` is how a call waits for ZooKeeper: it is handed a Completion and returns when that is
    done. By default it blocks the calling thread, as long as the session lets it; a greenlet hub
    hands in its own.
    """

    def __init__(self, session: KazooSession, wait: Wait | None = None) -> None:
        self._session = session
        self._wait = wait or session.wait

    @property
    def session_id(self) -> int:
        """The id of the current session."""
        return self._session.session_id

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Do a wave of reads, repeated until the session is connected or gone."""
        if len(ops) <= _SINGLES_AT_MOST or not self._probe():
            results = self._read_singly(ops)
            self._arm_where_absent(ops, results)
            return results
        # Before the reads are sent: a change after them must not fall between read and watch.
        relative_zxid = self._session.last_zxid
        results = self._read_in_bulk(ops)
        self._arm(ops, results, relative_zxid)
        return results

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Do a wave of transactions in order, each one request.

        Raises OperationTooBig before anything is sent if one of them is more than ZooKeeper takes.
        """
        session = self._session
        requests = [
            Multi(ops, session.chroot, sets_acls=session.security.sets_acls) for ops in transactions
        ]
        session.run(requests, repeat=False, wait=self._wait)
        return [request.result() for request in requests]

    def add_listener(self, listener: Listener) -> None:
        """Call ``listener`` for every event of the session, on the connection's own thread."""
        self._session.add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._session.remove_listener(listener)

    def reopen(self) -> None:
        """Begin a new session after the old one expired; nothing if it has not."""
        self._session.reopen(self._wait)

    def close(self) -> None:
        """End the session: its ephemeral nodes go at once."""
        self._session.close()

    def abandon(self) -> None:
        """Drop the connection as a killed process does: the session lives until it times out."""
        self._session.abandon()

    def _probe(self) -> bool:
        """Whether the server knows MultiRead; afterwards last_zxid is known as well.

        ZooKeeper before 3.6 closes the connection after such a request: so only one is tried.
        """
        session = self._session
        if session.has_multi_read is None or not session.is_zxid_current:
            [request] = multi_reads([GetData("/")], session.chroot)
            session.run([request], repeat=True, wait=self._wait)
            if request.code is ResultCode.OK:
                session.has_multi_read = True
            elif request.code is ResultCode.MARSHALLINGERROR:
                session.has_multi_read = False
        return bool(session.has_multi_read)

    def _read_in_bulk(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        requests: list[MultiRead] = list(multi_reads(ops, self._session.chroot))
        self._session.run(requests, repeat=True, wait=self._wait)
        results: list[ReadResult] = []
        for request in requests:
            if request.reply is None:
                results += [ReadResult(_code(request)) for _ in range(request.count)]
            else:
                results += request.reply
        return results

    def _read_singly(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        session = self._session
        requests = [SingleRead(op, session.chroot, session.watches.read) for op in ops]
        session.run(requests, repeat=True, wait=self._wait)
        return [request.reply or ReadResult(_code(request)) for request in requests]

    def _arm(
        self, ops: Sequence[ReadOp], results: Sequence[ReadResult], relative_zxid: int
    ) -> None:
        wanted: dict[str, int] = {}
        for op, result in zip(ops, results, strict=True):
            if op.watch:
                watch = watch_for(op, result)
                if watch:
                    wanted[op.path] = wanted.get(op.path, 0) | watch
        session = self._session
        requests = list(set_watches(relative_zxid, wanted, session.chroot, session.watches))
        session.run(requests, repeat=True, wait=self._wait)

    def _arm_where_absent(self, ops: Sequence[ReadOp], results: Sequence[ReadResult]) -> None:
        """A GetData that finds no znode arms nothing; the watch on its creation comes here.

        The relative zxid does not matter: only whether the znode is there by now.
        """
        missed = [
            (op, result)
            for op, result in zip(ops, results, strict=True)
            if isinstance(op, GetData) and op.watch and result.code is ResultCode.NONODE
        ]
        self._arm([op for op, _ in missed], [result for _, result in missed], 0)


def newest_zxid(
    connect_string: str, timeout_ms: int, security: ZooKeeperSecurity = UNSECURED
) -> int:
    """Open a session and return its zxid, which is newer than all committed transactions.

    Raises ZooKeeperUnavailable if no server accepts the session and answers in time.
    """
    hosts = connect_string.partition("/")[0]
    with contextlib.closing(KazooSession(hosts, timeout_ms, timeout_ms, security)) as session:
        KazooStore(session, within(timeout_ms / 1000)).read([Exists("/")])
        return session.last_zxid


def _code(request: Request) -> ResultCode:
    assert request.code is not None, "the wave is finished, so each request has its code"
    return request.code
