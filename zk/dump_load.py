"""Writes what `klamm zk dump` printed into an empty place of a ZooKeeper.

What is written is said by a plan of load_plan.py: parents first, in waves of transactions. While it
writes, ``/klamm-loading`` says so; it goes with the last transaction, so a load that was cut short
is seen, can go on where it ended, and can be taken away again. Neither versions, zxids, times,
access lists nor ephemerals are kept. It must not know what a znode holds. Kafka has nothing like
it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple, TypeVar

import msgspec

from klamm.cluster.errors import KlammError, StoreError
from klamm.zk.load_plan import LOADING_PATH, ZOOKEEPERS_OWN, LoadPlan
from klamm.zk.request_size import GROUP_BYTES, op_size
from klamm.zk.store import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    ResultCode,
    SetData,
    Store,
    WriteOp,
)
from klamm.zk.znode_client import store_error

ZNODES_A_WAVE: Final = 5_000
OPS_A_TRANSACTION: Final = 100
_TO_BE_SETTLED: Final = (ResultCode.NODEEXISTS, ResultCode.CONNECTIONLOSS)

T = TypeVar("T")

OnProgress = Callable[[int, int], None]
"""Called with how many znodes are written, and how many there are to write."""


class NotEmpty(KlammError):
    """Something is there already; nothing was written."""


class Interrupted(KlammError):
    """The load ended half-way: what is written stays, and /klamm-loading says so."""

    definite = False


class LoadResult(NamedTuple):
    """How many znodes the dump put there, and how many of them an earlier, unended load had."""

    written: int
    found: int


class _Loading(msgspec.Struct, frozen=True):
    digest: str
    znodes: int
    version: int = 1


def load(
    store: Store,
    plan: LoadPlan,
    *,
    last: Sequence[WriteOp] = (),
    prepare: Callable[[], None] = lambda: None,
    on_progress: OnProgress = lambda done, total: None,
) -> LoadResult:
    """Write the plan; ``last`` is done in the transaction that ends it.

    ``prepare`` is called before the first write, once it is known that the place is empty, so that
    it can create the chroot. An earlier load of the same plan that did not end is ended. Raises
    NotEmpty; Interrupted with what is to be done if anything goes wrong half-way.
    """
    found = _require_empty(store, plan)
    if found is None:
        prepare()
        mark = msgspec.json.encode(_Loading(plan.digest, len(plan.creates)))
        _create_all(store, [Create(LOADING_PATH, mark)])
    done = there = 0
    try:
        for start in range(0, len(plan.creates), ZNODES_A_WAVE):
            wave = plan.creates[start : start + ZNODES_A_WAVE]
            there += _create_all(store, wave)
            done += len(wave)
            on_progress(done, len(plan.creates))
        for path, count in plan.counters:
            _advance(store, path, count)
        _set_root(store, plan)
        _end(store, last)
    except StoreError as error:
        raise cut_short(str(error), done, len(plan.creates)) from error
    return LoadResult(len(plan.creates), 0 if found is None else there)


def cut_short(why: str, done: int, total: int) -> Interrupted:
    """The error that says what a load has left behind that ended half-way."""
    return Interrupted(
        f"{why}: at least {done} of {total} znodes are written, and {LOADING_PATH}",
        hint="the same command goes on where it ended; klamm zk load DUMP --undo takes them away",
    )


def apart(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """What ``work`` gives, on a thread of its own: kazoo swallows an exception of a signal that
    comes while it is called.

    If a signal ends the wait ``stop`` is called, which must make ``work`` end, and that is awaited.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="dump-load")
    thread.start()
    try:
        return future.result()
    finally:
        if not future.done():
            stop()
        thread.join()


def undo(
    store: Store, plans: Sequence[LoadPlan], on_progress: OnProgress = lambda done, total: None
) -> int:
    """Delete what a load of one of these plans, that did not end, has written; how many znodes.

    Raises NotEmpty if no such load was here, StoreError if somebody else wrote below one of them.
    """
    digest = _loading(store)
    plan = next((plan for plan in plans if plan.digest == digest), None)
    if plan is None:
        raise NotEmpty(
            f"no load of this dump was cut short here: nothing is deleted (no {LOADING_PATH})"
            if digest is None
            else "another dump was being loaded here: nothing is deleted",
            hint="give the dump that was being loaded",
        )
    deleted, done = 0, 0
    backwards = plan.creates[::-1]
    for start in range(0, len(backwards), ZNODES_A_WAVE):
        wave = backwards[start : start + ZNODES_A_WAVE]
        deleted += _delete_all(store, [op.path for op in wave])
        done += len(wave)
        on_progress(done, len(backwards))
    _delete_all(store, [LOADING_PATH])
    return deleted


def check_no_load_is_open(store: Store) -> None:
    """Raise StoreError where a dump is half loaded, or is being loaded now."""
    if _loading(store) is not None:
        raise StoreError(
            f"a dump is being loaded here, or its load was cut short ({LOADING_PATH} is there)",
            hint="the same klamm zk load DUMP, or klamm up --from-dump DUMP, goes on with it",
        )


def _advance(store: Store, path: str, count: int) -> None:
    """Raise the number of the next sequential child by ``count``; more, if a reply is lost."""
    child = f"{'' if path == '/' else path}{LOADING_PATH}"
    pair: list[WriteOp] = [Create(child, None), Delete(child)]
    while count:
        group = min(count, OPS_A_TRANSACTION // 2)
        result = store.write([pair * group])[0]
        if result.code is ResultCode.OK:
            count -= group
        elif result.code is not ResultCode.CONNECTIONLOSS:
            raise store_error(result.code, child)


def _loading(store: Store) -> str | None:
    """The digest of the plan whose load has not ended; "" if that cannot be read."""
    result = store.read([GetData(LOADING_PATH)])[0]
    if result.code is ResultCode.NONODE:
        return None
    if result.code is not ResultCode.OK:
        raise store_error(result.code, LOADING_PATH)
    try:
        return msgspec.json.decode(result.data or b"", type=_Loading).digest
    except msgspec.DecodeError:
        return ""


def _require_empty(store: Store, plan: LoadPlan) -> str | None:
    """The digest of this plan if its load is to be ended; None if nothing is there."""
    result = store.read([GetChildren("/")])[0]
    if result.code not in (ResultCode.OK, ResultCode.NONODE):
        raise store_error(result.code, "/")
    names = [f"/{name}" for name in sorted(result.children or ())]
    names = [name for name in names if name != ZOOKEEPERS_OWN]
    if not names:
        return None
    digest = _loading(store)
    if digest == plan.digest:
        return digest
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    if digest is not None:
        raise NotEmpty(
            f"another dump was being loaded here, and that did not end: there are {shown}",
            hint="klamm zk load THAT_DUMP --undo takes it away",
        )
    raise NotEmpty(
        f"it is not empty: there are {shown}", hint="choose a chroot that is empty or not there"
    )


def _grouped(ops: Sequence[WriteOp]) -> Iterator[list[WriteOp]]:
    group: list[WriteOp] = []
    total = 0
    for op in ops:
        size = op_size(op)
        if group and (len(group) == OPS_A_TRANSACTION or total + size > GROUP_BYTES):
            yield group
            group, total = [], 0
        group.append(op)
        total += size
    if group:
        yield group


def _create_all(store: Store, wave: Sequence[Create]) -> int:
    """Create these znodes; how many of them were there already, as they should be.

    Raises StoreError, also if one of them is there and holds something else.
    """
    there, left = 0, list(wave)
    while left:
        unsure: list[Create] = []
        groups = list(_grouped(left))
        for group, result in zip(groups, store.write(groups), strict=True):
            if result.code in _TO_BE_SETTLED:
                unsure += [op for op in group if isinstance(op, Create)]
            elif result.code is not ResultCode.OK:
                raise store_error(result.code, group[max(result.failed_index, 0)].path)
        left = []
        reads = store.read([GetData(op.path) for op in unsure]) if unsure else []
        for op, read in zip(unsure, reads, strict=True):
            if read.code is ResultCode.NONODE:
                left.append(op)
            elif read.code is not ResultCode.OK:
                raise store_error(read.code, op.path)
            elif read.data != op.data or read.stat is None or read.stat.ephemeral_owner:
                raise StoreError(f"somebody else writes here: {op.path} is not what the dump holds")
            else:
                there += 1
    return there


def _delete_all(store: Store, paths: Sequence[str]) -> int:
    """Delete those of these znodes that are there; how many there were."""
    count: int | None = None
    while True:
        found = store.read([Exists(path) for path in paths])
        left = [
            path for path, r in zip(paths, found, strict=True) if r.code is not ResultCode.NONODE
        ]
        count = len(left) if count is None else count
        if not left:
            return count
        groups = list(_grouped([Delete(path) for path in left]))
        for group, result in zip(groups, store.write(groups), strict=True):
            if result.code not in (ResultCode.OK, ResultCode.NONODE, ResultCode.CONNECTIONLOSS):
                raise store_error(result.code, group[max(result.failed_index, 0)].path)


def _set_root(store: Store, plan: LoadPlan) -> None:
    root = plan.root
    if isinstance(root, msgspec.UnsetType) or store.read([GetData("/")])[0].data == root:
        return
    code = ResultCode.CONNECTIONLOSS
    while code is ResultCode.CONNECTIONLOSS:
        code = store.write([[SetData("/", root)]])[0].code
    if code is not ResultCode.OK:
        raise store_error(code, "/")


def _end(store: Store, last: Sequence[WriteOp]) -> None:
    while True:
        result = store.write([[*last, Delete(LOADING_PATH)]])[0]
        if result.code is ResultCode.OK:
            return
        if result.code is not ResultCode.CONNECTIONLOSS:
            raise store_error(result.code, LOADING_PATH)
        if store.read([Exists(LOADING_PATH)])[0].code is ResultCode.NONODE:
            return
