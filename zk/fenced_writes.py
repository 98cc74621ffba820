"""Independent writes fenced by the controller epoch, grouped into transactions.

Operation 0 of every transaction checks the version of /controller_epoch. Every write has a result.
Kafka 2.8.2 sends one transaction per write (kafka.zk.KafkaZkClient,
wrapRequestWithControllerEpochCheck) and deletes one znode after another (deleteRecursive); here a
transaction contains as many writes as fit, and all trees are deleted level by level together.
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
    """Indices of the operations of one transaction, and how often it has failed."""

    indices: list[int]
    failures: int


class FencedWriter:
    """Writer of operations fenced by a controller epoch.

    ``group_size``: maximum number of operations per transaction; Kafka uses 1. ``group_bytes``:
    maximum size of a transaction with several operations.
    """

    def __init__(
        self, store: Store, group_size: int = GROUP_SIZE, group_bytes: int = GROUP_BYTES
    ) -> None:
        assert group_size >= 1
        self._store = store
        self._group_size = group_size
        self._group_bytes = group_bytes

    def write(self, ops: Sequence[WriteOp], epoch_zk_version: int) -> list[OpResult]:
        """Write ``ops`` in order, independently of each other; return one result per operation.

        If a transaction fails, its other operations are sent again without the failed one, and
        individually after three failures. CONNECTIONLOSS: the outcome is unknown. Operations must
        not depend on each other. Raises ControllerMoved if the fence fails, SessionExpired, and
        OperationTooBig before anything is sent.
        """
        # ZooKeeper takes version -1 for any version: then a deposed controller could write, too.
        assert epoch_zk_version >= 0, "a write of the controller needs a fence"
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
        """Like ``write``, but repeat operations that lost their reply; they must be repeatable.

        If the first attempt of a Create or Delete took effect, the result of the repetition is
        NODEEXISTS or NONODE.
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
"""How often a tree is read and deleted again if new children were created in the meantime."""
_Levels = list[list[tuple[str, str]]]
"""(root, path) of the znodes of several trees by level, roots first."""


class FencedDeleter:
    """Fenced deletion of znodes and trees. Methods raise the errors of FencedWriter."""

    def __init__(self, reader: ZNodeClient, writer: FencedWriter) -> None:
        self._reader = reader
        self._writer = writer

    def delete(self, paths: Sequence[str], epoch_zk_version: int) -> None:
        """Delete znodes with all their children; missing znodes are ignored.

        Raises StoreError for a znode that could not be deleted.
        """
        codes = dict(zip(paths, self._delete(paths, epoch_zk_version), strict=True))
        trees = [path for path, code in codes.items() if code is ResultCode.NOTEMPTY]
        left = self.delete_trees(trees, epoch_zk_version)
        for path, code in codes.items():
            code = left.get(path, ResultCode.OK) if code is ResultCode.NOTEMPTY else code
            if code is not ResultCode.OK:
                raise store_error(code, path)

    def delete_trees(self, roots: Sequence[str], epoch_zk_version: int) -> dict[str, ResultCode]:
        """Delete trees of znodes; return the roots of those that could not be deleted.

        The number of pipelined batches depends on the depth of the trees, not on their number.
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
        """Delete znodes; return a code for each, OK for missing znodes."""
        results = self._writer.write_until_known([Delete(path) for path in paths], epoch_zk_version)
        codes = [result.code for result in results]
        return [ResultCode.OK if code is ResultCode.NONODE else code for code in codes]
