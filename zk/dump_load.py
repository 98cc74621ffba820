"""Loads the output of `klamm zk dump` into an empty ZooKeeper or chroot.

The znodes of a plan (load_plan.py) are written parents first, in pipelined batches of transactions.
The znode ``/klamm-loading`` exists during the load and is deleted by the last transaction, so that
an interrupted load can be detected, and then resumed or undone. Versions, zxids, times, ACLs and
ephemeral znodes are not restored. The contents of znodes are not interpreted. Kafka has no such
tool.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple, TypeVar

import msgspec

from klamm.cluster.counting import listed
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

ZNODES_PER_BATCH: Final = 5_000
OPS_PER_TRANSACTION: Final = 100
_TO_BE_RESOLVED: Final = (ResultCode.NODEEXISTS, ResultCode.CONNECTIONLOSS)

T = TypeVar("T")

OnProgress = Callable[[int, int], None]
"""Callback for progress: (number of znodes written so far, total number of znodes)."""


class NotEmpty(KlammError):
    """The target has znodes that do not come from an interrupted load of this dump."""


class PartlyLoaded(KlammError):
    """The load was interrupted. The znodes written so far and /klamm-loading still exist."""

    definite = False


class LoadResult(NamedTuple):
    """Result of a complete load.

    ``written`` is the number of znodes in the plan. ``found`` is the number of them that an
    interrupted load had already written.
    """

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
    prepare: Callable[[], object] = lambda: None,
    on_progress: OnProgress = lambda done, total: None,
) -> LoadResult:
    """Write the znodes of the plan, and execute the operations ``last`` in the last transaction.

    ``prepare`` is called after the check that the target is empty and before the first write; it
    may create the chroot. An interrupted load of the same plan is resumed. Raises NotEmpty if the
    target has other content, and PartlyLoaded, with a hint on how to continue, if a write fails.
    """
    found = _require_empty(store, plan)
    if found is None:
        prepare()
        mark = msgspec.json.encode(_Loading(plan.digest, len(plan.creates)))
        _create_all(store, [Create(LOADING_PATH, mark)])
    done = there = 0
    try:
        for start in range(0, len(plan.creates), ZNODES_PER_BATCH):
            batch = plan.creates[start : start + ZNODES_PER_BATCH]
            there += _create_all(store, batch)
            done += len(batch)
            on_progress(done, len(plan.creates))
        for path, count in plan.counters:
            _advance(store, path, count)
        _set_root(store, plan)
        _end(store, last)
    except StoreError as error:
        raise cut_short(str(error), done, len(plan.creates)) from error
    return LoadResult(len(plan.creates), 0 if found is None else there)


def cut_short(why: str, done: int, total: int) -> PartlyLoaded:
    """Return the error for a load that was interrupted after ``done`` of ``total`` znodes.

    ``why`` is the reason for the interruption.
    """
    return PartlyLoaded(
        f"{why}: at least {done} of {total} znodes and {LOADING_PATH} were written",
        hint="run the same command to resume the load, or klamm zk load DUMP --undo to undo it",
    )


def run_on_thread(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run ``work`` on a separate thread and return its result.

    The main thread only waits, because kazoo would swallow an exception that a signal handler
    raises. If a signal interrupts the wait, ``stop`` is called, which must make ``work`` return;
    then the thread is joined.
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
    """Delete the znodes that an interrupted load of one of ``plans`` wrote. Return their number.

    Raises NotEmpty if there is no such load, and StoreError if a loaded znode has children that
    another client created.
    """
    digest = _loading(store)
    plan = next((plan for plan in plans if plan.digest == digest), None)
    if plan is None:
        raise NotEmpty(
            f"there is no interrupted load to undo ({LOADING_PATH} does not exist): "
            "nothing was deleted"
            if digest is None
            else "the interrupted load is of another dump: nothing was deleted",
            hint="give the dump whose load was interrupted",
        )
    deleted, done = 0, 0
    backwards = plan.creates[::-1]
    for start in range(0, len(backwards), ZNODES_PER_BATCH):
        batch = backwards[start : start + ZNODES_PER_BATCH]
        deleted += _delete_all(store, [op.path for op in batch])
        done += len(batch)
        on_progress(done, len(backwards))
    _delete_all(store, [LOADING_PATH])
    return deleted


def check_no_load_is_open(store: Store) -> None:
    """Raise StoreError if a dump is being loaded, or if the load of a dump was interrupted."""
    if _loading(store) is not None:
        raise StoreError(
            f"a dump is being loaded, or its load was interrupted ({LOADING_PATH} exists)",
            hint="to resume the load, repeat klamm zk load DUMP or klamm up --from-dump DUMP",
        )


def _advance(store: Store, path: str, count: int) -> None:
    """Increase the number that the next sequential child of ``path`` gets by ``count``.

    If a reply is lost, the write is repeated, so that the number may become too high.
    """
    child = f"{'' if path == '/' else path}{LOADING_PATH}"
    pair: list[WriteOp] = [Create(child, None), Delete(child)]
    while count:
        group = min(count, OPS_PER_TRANSACTION // 2)
        result = store.write([pair * group])[0]
        if result.code is ResultCode.OK:
            count -= group
        elif result.code is not ResultCode.CONNECTIONLOSS:
            raise store_error(result.code, child)


def _loading(store: Store) -> str | None:
    """Return the digest in /klamm-loading, which identifies the plan being loaded.

    Return None if there is no such znode, and "" if the znode is malformed.
    """
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
    """Return the plan's digest if an interrupted load must be resumed, None if the target is empty.

    Raises NotEmpty if the target has any other content.
    """
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
    if digest is not None:
        raise NotEmpty(
            f"the target has an interrupted load of another dump: found {listed(names, 5)}",
            hint="undo it with klamm zk load THAT_DUMP --undo",
        )
    raise NotEmpty(
        f"the target is not empty: found {listed(names, 5)}",
        hint="choose a chroot that is empty or does not exist",
    )


def _grouped(ops: Sequence[WriteOp]) -> Iterator[list[WriteOp]]:
    group: list[WriteOp] = []
    total = 0
    for op in ops:
        size = op_size(op)
        if group and (len(group) == OPS_PER_TRANSACTION or total + size > GROUP_BYTES):
            yield group
            group, total = [], 0
        group.append(op)
        total += size
    if group:
        yield group


def _create_all(store: Store, batch: Sequence[Create]) -> int:
    """Create the znodes in ``batch``, and return how many already existed with the same data.

    Raises StoreError if a znode exists with other data or a write fails.
    """
    there, left = 0, list(batch)
    while left:
        unsure: list[Create] = []
        groups = list(_grouped(left))
        for group, result in zip(groups, store.write(groups), strict=True):
            if result.code in _TO_BE_RESOLVED:
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
                text = "another client is writing to the target"
                raise StoreError(f"{text}: {op.path} differs from the dump")
            else:
                there += 1
    return there


def _delete_all(store: Store, paths: Sequence[str]) -> int:
    """Delete the znodes at ``paths``, and return how many of them existed."""
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
