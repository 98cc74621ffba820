"""Deleting under the fence: znodes, and trees of znodes, many at once in a few waves.

It must not know what the znodes mean. Kafka 2.8.2 deletes one znode after the other
(kafka.zk.KafkaZkClient, deleteRecursive); here all trees go level by level together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zk.fenced_writes import FencedWriter
from zk.store import Delete, GetChildren, ResultCode
from zk.znode_client import ZNodeClient, store_error

_ROUNDS: Final = 3
"""How often the children of a tree are read again in which somebody created more."""
_Levels = list[list[tuple[str, str]]]
"""(root, path) of the znodes of some trees, the roots first."""


class FencedDeleter:
    """Deletes by a fenced writer. Methods raise what it raises."""

    def __init__(self, reader: ZNodeClient, writer: FencedWriter) -> None:
        self._reader = reader
        self._writer = writer

    def delete(self, paths: Sequence[str], epoch_zk_version: int) -> None:
        """Delete znodes, and what somebody put below them; one that is absent is no failure.

        Raises StoreError for those of which something is left.
        """
        codes = dict(zip(paths, self._delete(paths, epoch_zk_version), strict=True))
        trees = [path for path, code in codes.items() if code is ResultCode.NOTEMPTY]
        left = self.delete_trees(trees, epoch_zk_version)
        for path, code in codes.items():
            code = left.get(path, ResultCode.OK) if code is ResultCode.NOTEMPTY else code
            if code is not ResultCode.OK:
                raise store_error(code, path)

    def delete_trees(self, roots: Sequence[str], epoch_zk_version: int) -> dict[str, ResultCode]:
        """Delete znodes and all below them; gives the roots of which something is left.

        The number of waves depends on the depth of the trees, not on their number.
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
        """A result for each; one that is absent is OK."""
        results = self._writer.write_until_known([Delete(path) for path in paths], epoch_zk_version)
        codes = [result.code for result in results]
        return [ResultCode.OK if code is ResultCode.NONODE else code for code in codes]
