"""The size of a transaction is the number of bytes that really go over the wire."""

from __future__ import annotations

import pytest

from klamm.zk.kazoo_wire import Chroot, Multi
from klamm.zk.request_size import transaction_size
from klamm.zk.store import Check, Create, Delete, SetData, WriteOp


@pytest.mark.parametrize("chroot", ["", "/a/chroot"])
@pytest.mark.parametrize(
    "ops",
    [
        [Create("/a", b"xyz")],
        [Create("/ä/b", None, ephemeral=True, sequential=True)],
        [SetData("/abc", None, 3), SetData("/abc", b"", 3)],
        [Check("/controller_epoch", 1), Delete("/a"), SetData("/b", b"x" * 1000)],
    ],
)
def test_sizes_are_those_of_the_requests(ops: list[WriteOp], chroot: str) -> None:
    payload = Multi(ops, Chroot(chroot)).payload
    assert transaction_size(ops) + len(ops) * len(chroot) == len(payload)
