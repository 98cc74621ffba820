"""Changes the ACLs of the znodes in a chroot to Kafka's ACLs, or back to ACLs open to all clients.

Mirrors kafka.admin.ZkSecurityMigrator, except that missing znodes are not created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from klamm.cluster.errors import StoreError
from klamm.zk.acls import OPEN_ACL, SECURE_ROOT_PATHS, default_acl
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.kazoo_wire import SetAcl
from klamm.zk.store import GetChildren, ResultCode
from klamm.zk.znode_client import missing_chroot

_AT_ONCE = 1_000


def set_acls(
    session: KazooSession,
    *,
    is_secure: bool,
    more_paths: Iterable[str],
    on_progress: Callable[[int], None],
) -> int:
    """Set the ACLs of the chroot and of the trees rooted at SECURE_ROOT_PATHS and ``more_paths``.

    ``is_secure``: set Kafka's ACLs instead of ACLs open to all clients. Return the number of
    changed znodes; ``on_progress`` is called with the number changed so far. A znode that another
    client deletes in the meantime is skipped. Raises StoreError if ZooKeeper rejects a change, or
    if the chroot does not exist.
    """
    count = 0
    for paths in _levels(KazooStore(session), [*SECURE_ROOT_PATHS, *more_paths]):
        requests = [
            SetAcl(path, default_acl(path) if is_secure else OPEN_ACL, session.chroot)
            for path in paths
        ]
        session.run(requests, repeat=True)
        count += sum(request.code is ResultCode.OK for request in requests)
        for path, request in zip(paths, requests, strict=True):
            assert request.code is not None, f"the request to set the ACL of {path} has no reply"
            if request.code is ResultCode.NONODE and path == "/":
                raise missing_chroot(session.chroot.path)
            if request.code not in (ResultCode.OK, ResultCode.NONODE):
                raise _refused(path, request.code, count)
        on_progress(count)
    return count


def _refused(path: str, code: ResultCode, count: int) -> StoreError:
    why = (
        "permission denied for this identity"
        if code is ResultCode.NOAUTH
        else f"ZooKeeper answered {code.name}"
    )
    changed = f"{count} znodes were changed" if count else "no znode was changed"
    return StoreError(
        f"the ACL of {path} cannot be changed: {why}; {changed}",
        hint="use the identity that created the ACL, then run the same command again",
        definite=count == 0 and code.is_definite,
    )


def _levels(store: KazooStore, roots: list[str]) -> Iterator[Sequence[str]]:
    """Yield the paths of the chroot and of the trees at ``roots``, level by level, in batches."""
    yield ["/"]
    level = roots
    while level:
        below: list[str] = []
        for first in range(0, len(level), _AT_ONCE):
            paths = level[first : first + _AT_ONCE]
            # Read before the ACLs change, so that a run without the right identity changes nothing.
            for path, found in zip(paths, store.read(list(map(GetChildren, paths))), strict=True):
                below += [f"{path}/{name}" for name in found.children or ()]
            yield paths
        level = below
