"""zk/acls.py: who may read and write the znodes that klamm creates with zookeeper.set.acl=true."""

from __future__ import annotations

import pytest

from klamm.zk.acls import CREATOR_ACL, CREATOR_WRITES_ALL_READ, OPEN_ACL, Acl, default_acl


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/brokers/topics/t", CREATOR_WRITES_ALL_READ),
        ("/config/topics/t", CREATOR_WRITES_ALL_READ),
        ("/config/users/alice", CREATOR_ACL),
        ("/config/brokers/1", CREATOR_ACL),
        ("/delegation_token/tokens/1", CREATOR_ACL),
        ("/consumers", OPEN_ACL),
    ],
)
def test_only_the_creator_reads_secrets_and_anyone_writes_consumers(path: str, acl: Acl) -> None:
    assert default_acl(path) == acl
