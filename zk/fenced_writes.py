"""Writes fenced by the controller epoch, grouped into transactions.

The first operation of every transaction checks the version of /controller_epoch. The writes are
independent of each other, and each has a separate result. Kafka 2.8.2 sends one transaction per
write (kafka.zk.KafkaZkClient, wrapRequestWithControllerEpochCheck) and deletes one znode after
another (deleteRecursive). klamm puts as many writes as fit into a transaction, and deletes several
trees together, level by level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.cluster.errors import ControllerMoved, OperationTooBig
from klamm.zk.request_size import GROUP_BYTES, MAX_TRANSACTION_BYTES, op_size, transaction_size
from klamm.zk.store import (
    Check,
    Delete,
    GetChildren,
    OpResult,
    ResultCode,
    Store,
    Transaction,
    WriteOp,
)
from klamm.zk.znode_client import ZNodeClient, store_error
from klamm.zk.znodes import ControllerEpochZNode

GROUP_SIZE: Final = 500
FAILURES_BEFORE_SINGLES: Final = 3


class _Group(NamedTuple):
    """Writes that are sent in one transaction.

    ``indices`` are the positions of these writes in the list of all writes. ``failures`` counts the
    rejected attempts to send them.
    """

    indices: list[int]
    failures: int


class FencedWriter:
    """Executes writes that fail if another controller has been elected.

    ``group_size`` is the maximum number of writes per transaction (1 in Kafka).
    ``group_bytes`` is the maximum size in bytes of a transaction with several writes.
    """

    def __init__(
        self, store: Store, group_size: int = GROUP_SIZE, group_bytes: int = GROUP_BYTES
    ) -> None:
        assert group_size >= 1
        self._store = store
        self._group_size = group_size
        self._group_bytes = group_bytes

    def write(self, ops: Sequence[WriteOp], epoch_zk_version: int) -> list[OpResult]:
        """Write ``ops`` in order, and return one result per operation.

        The operations must not depend on each other. If one of them fails, ZooKeeper rejects the
        whole transaction, so the other operations are sent again without the failed one. After
        three such failures, each operation is sent in a separate transaction. The result
        CONNECTIONLOSS means that the outcome is unknown.

        Raises ControllerMoved if the version of /controller_epoch has changed, SessionExpired if
        the session has expired, and OperationTooBig, before anything is sent, if an operation
        exceeds ZooKeeper's maximum request size.
        """
        # In ZooKeeper, -1 matches any version: then a deposed controller could write, too.
        assert epoch_zk_version >= 0, "a fenced write requires the version of /controller_epoch"
        fence = Check(ControllerEpochZNode.path, epoch_zk_version)
        results: dict[int, OpResult] = {}
        groups = self._grouped(ops, transaction_size([fence]))
        while groups:
            batch: list[Transaction] = [[fence, *(ops[i] for i in g.indices)] for g in groups]
            again: list[_Group] = []
            for group, answer in zip(groups, self._store.write(batch), strict=True):
                if answer.code is ResultCode.OK:
                    results.update(zip(group.indices, answer.results[1:], strict=True))
                elif answer.code is ResultCode.SESSIONEXPIRED:
                    raise store_error(answer.code, fence.path)
                elif answer.failed_index == 0:
                    raise ControllerMoved(
                        "Controller epoch zkVersion check fails. "
                        f"Expected zkVersion = {epoch_zk_version}"
                    )
                elif answer.failed_index > 0:
                    bad = group.indices[answer.failed_index - 1]
                    results[bad] = OpResult(answer.code)
                    again += _without(bad, group)
                else:
                    results.update((i, OpResult(answer.code)) for i in group.indices)
            groups = again
        return [results[i] for i in range(len(ops))]

    def write_until_known(self, ops: Sequence[WriteOp], epoch_zk_version: int) -> list[OpResult]:
        """Like ``write``, but repeat operations whose reply was lost until a reply arrives.

        If the reply to a successful Create or Delete was lost, the result is that of the repeated
        operation: NODEEXISTS or NONODE.
        """
        results = self.write(ops, epoch_zk_version)
        lost = _lost(range(len(ops)), results)
        while lost:
            repeated = self.write([ops[i] for i in lost], epoch_zk_version)
            for i, result in zip(lost, repeated, strict=True):
                results[i] = result
            lost = _lost(lost, results)
        return results

    def _grouped(self, ops: Sequence[WriteOp], fence_bytes: int) -> list[_Group]:
        groups: list[_Group] = []
        indices: list[int] = []
        total = fence_bytes
        for index, op in enumerate(ops):
            size = op_size(op)
            if fence_bytes + size > MAX_TRANSACTION_BYTES:
                raise OperationTooBig(
                    f"{op.path}: a write of {size} bytes exceeds ZooKeeper's maximum request size"
                )
            full = len(indices) == self._group_size or total + size > self._group_bytes
            if indices and full:
                groups.append(_Group(indices, 0))
                indices, total = [], fence_bytes
            indices.append(index)
            total += size
        if indices:
            groups.append(_Group(indices, 0))
        return groups


def _without(bad: int, group: _Group) -> list[_Group]:
    rest = [index for index in group.indices if index != bad]
    failures = group.failures + 1
    if failures >= FAILURES_BEFORE_SINGLES:
        return [_Group([index], failures) for index in rest]
    return [_Group(rest, failures)] if rest else []


def _lost(indices: Sequence[int], results: Sequence[OpResult]) -> list[int]:
    return [i for i in indices if results[i].code is ResultCode.CONNECTIONLOSS]


_ROUNDS: Final = 3
"""Maximum number of attempts to delete a tree in which other clients create new znodes."""
_Levels = list[list[tuple[str, str]]]
"""Znodes of several trees as (root, path) pairs, one list per level, starting with the roots."""


class FencedDeleter:
    """Deletes znodes and trees with fenced writes. Raises the same errors as FencedWriter."""

    def __init__(self, reader: ZNodeClient, writer: FencedWriter) -> None:
        self._reader = reader
        self._writer = writer

    def delete(self, paths: Sequence[str], epoch_zk_version: int) -> None:
        """Delete znodes together with everything below them. Missing znodes are ignored.

        Raises StoreError if a znode could not be deleted.
        """
        codes = dict(zip(paths, self._delete(paths, epoch_zk_version), strict=True))
        trees = [path for path, code in codes.items() if code is ResultCode.NOTEMPTY]
        left = self.delete_trees(trees, epoch_zk_version)
        for path, code in codes.items():
            code = left.get(path, ResultCode.OK) if code is ResultCode.NOTEMPTY else code
            if code is not ResultCode.OK:
                raise store_error(code, path)

    def delete_trees(self, roots: Sequence[str], epoch_zk_version: int) -> dict[str, ResultCode]:
        """Delete trees of znodes. Return {root: code} for trees that could not be deleted.

        The number of pipelined batches depends on the depth of the trees, not on the number of
        trees.
        """
        failed: dict[str, ResultCode] = {}
        pending = list(roots)
        for _ in range(_ROUNDS):
            levels = self._levels(pending)
            failed = {k: v for k, v in failed.items() if k not in pending}
            for level in reversed(levels):
                codes = self._delete([path for _, path in level], epoch_zk_version)
                for (root, _), code in zip(level, codes, strict=True):
                    if code is not ResultCode.OK:
                        failed.setdefault(root, code)
            pending = [root for root, code in failed.items() if code is ResultCode.NOTEMPTY]
            if not pending:
                break
        return failed

    def _levels(self, roots: Sequence[str]) -> _Levels:
        levels: _Levels = []
        level = [(root, root) for root in roots]
        while level:
            levels.append(level)
            reads = self._reader.read([GetChildren(path) for _, path in level])
            level = [
                (root, f"{path}/{child}")
                for (root, path), read in zip(level, reads, strict=True)
                for child in read.children or ()
            ]
        return levels

    def _delete(self, paths: Sequence[str], epoch_zk_version: int) -> list[ResultCode]:
        """Delete znodes, and return a result code for each: OK if the znode was missing."""
        results = self._writer.write_until_known([Delete(path) for path in paths], epoch_zk_version)
        codes = [result.code for result in results]
        return [ResultCode.OK if code is ResultCode.NONODE else code for code in codes]
