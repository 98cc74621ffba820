"""Transaction logs to try things on: clusters' stories written by hand, and events read of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from klamm.replay.engines import Engine
from klamm.replay.generate.txn_log_writer import TxnLogWriter, log_name
from klamm.replay.sources import SourceOptions
from klamm.replay.sources.zookeeper import SOURCE
from klamm.zk.txn_log import TxnOp, TxnType
from tests.spark.reading import Told, read_source


class Written(NamedTuple):
    """A transaction to be written."""

    zxid: int
    session: int
    ops: tuple[TxnOp, ...]


class Story:
    """Transactions of one ensemble, numbered from ``first_zxid``, a second apart."""

    def __init__(self, first_zxid: int = 1) -> None:
        self.txns: list[Written] = []
        self._next_zxid = first_zxid

    def txn(self, session: int, *ops: TxnOp) -> int:
        """One more transaction; its zxid."""
        zxid = self._next_zxid
        self.txns.append(Written(zxid, session, ops))
        self._next_zxid += 1
        return zxid

    def elect(self, session: int, broker: int, epoch: int, chroot: str = "") -> int:
        """A controller's election, /controller_epoch being written the ``epoch``-th time."""
        data = b'{"version":1,"brokerid":%d,"timestamp":"1"}' % broker
        return self.txn(
            session,
            TxnOp(TxnType.CREATE, f"{chroot}/controller", data, is_ephemeral=True),
            TxnOp(TxnType.SET_DATA, f"{chroot}/controller_epoch", b"%d" % epoch, epoch),
        )

    def register(self, session: int, broker: int, chroot: str = "") -> int:
        """A broker's registration."""
        path = f"{chroot}/brokers/ids/{broker}"
        return self.txn(
            session,
            TxnOp(TxnType.CREATE, path, None, is_ephemeral=True),
            TxnOp(TxnType.SET_DATA, path, b"{}", 1),
        )

    def lead(
        self,
        session: int,
        fence: int | None,
        version: int,
        *,
        leader: int = 1,
        epoch: int = 1,
        isr: str = "1,2",
        chroot: str = "",
        partition: int = 0,
    ) -> int:
        """A write of a state of topic t; version 0 creates it, ``fence`` None is a leader's own."""
        path = f"{chroot}/brokers/topics/t/partitions/{partition}/state"
        data = (
            f'{{"controller_epoch":{epoch},"leader":{leader},"version":1,'
            f'"leader_epoch":{version},"isr":[{isr}]}}'
        ).encode()
        kind = TxnType.SET_DATA if version else TxnType.CREATE
        op = TxnOp(kind, path, data, version if version else -1)
        if fence is None:
            return self.txn(session, op)
        return self.txn(session, check(fence, chroot), op)

    def delete(self, session: int, path: str) -> int:
        """A deletion without a fence."""
        return self.txn(session, TxnOp(TxnType.DELETE, path))

    def close(self, session: int, paths: tuple[str, ...] | None = None) -> int:
        """The end of a session; ``paths`` are told since 3.6."""
        return self.txn(session, TxnOp(TxnType.CLOSE_SESSION, paths=paths))


def check(fence: int, chroot: str = "") -> TxnOp:
    """A controller's check of its epoch."""
    return TxnOp(TxnType.CHECK, f"{chroot}/controller_epoch", version=fence + 1)


def error(number: int) -> TxnOp:
    """What is left of a refused operation."""
    return TxnOp(TxnType.ERROR, number=number)


def write_log(folder: Path, txns: Sequence[Written]) -> Path:
    """A log of some transactions, named as ZooKeeper names it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / log_name(txns[0].zxid)
    with closing(TxnLogWriter(path)) as writer:
        for zxid, session, ops in txns:
            writer.write(zxid, 1_000 * zxid, session, ops, cxid=zxid)
    return path


def read_events(engine: Engine, *paths: Path, run: str | None = None) -> Told:
    """Events and damages of ZooKeeper's files."""
    return read_source(engine, SOURCE, paths, SourceOptions(run=run))
