"""ACLs of new znodes, and the protected paths.

The wire format is in kazoo_wire.py. Mirrors kafka.zk.ZkData (SecureRootPaths,
SensitiveRootPaths, defaultAcls) and org.apache.zookeeper.ZooDefs.Ids.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final, NamedTuple

from klamm.zk.znodes import (
    AclZNode,
    AdminZNode,
    BrokersZNode,
    ClusterZNode,
    ConfigEntityTypeZNode,
    ConfigZNode,
    ConsumerPathZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DelegationTokenAuthZNode,
    DelegationTokensZNode,
    ExtendedAclZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    ProducerIdBlockZNode,
)


class Permission(IntFlag):
    """Permissions of an ACL entry (org.apache.zookeeper.ZooDefs.Perms)."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class AclEntry(NamedTuple):
    """Permissions of the identity ``id`` of an authentication ``scheme``."""

    permissions: Permission
    scheme: str
    id: str


Acl = tuple[AclEntry, ...]

_CREATOR: Final = AclEntry(Permission.ALL, "auth", "")
"""Every authenticated identity of the creating session; the server fills them in."""

OPEN_ACL: Final[Acl] = (AclEntry(Permission.ALL, "world", "anyone"),)
CREATOR_ACL: Final[Acl] = (_CREATOR,)
CREATOR_WRITES_ALL_READ: Final[Acl] = (_CREATOR, AclEntry(Permission.READ, "world", "anyone"))

SECURE_ROOT_PATHS: Final = (
    AdminZNode.path,
    BrokersZNode.path,
    ClusterZNode.path,
    ConfigZNode.path,
    ControllerZNode.path,
    ControllerEpochZNode.path,
    IsrChangeNotificationZNode.path,
    ProducerIdBlockZNode.path,
    LogDirEventNotificationZNode.path,
    DelegationTokenAuthZNode.path,
    ExtendedAclZNode.path,
    AclZNode.path,
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)
"""The trees that ``klamm zk secure`` protects, as Kafka's zookeeper-security-migration does."""

SENSITIVE_ROOT_PATHS: Final = (
    ConfigEntityTypeZNode.path("users"),
    ConfigEntityTypeZNode.path("brokers"),
    DelegationTokensZNode.path,
)
"""The trees that hold secrets: only their creator may read them."""


def default_acl(path: str) -> Acl:
    """Return the ACL of a new znode, for a client that sets ACLs."""
    if path == ConsumerPathZNode.path:  # consumers of any identity write below it
        return OPEN_ACL
    if path.startswith(SENSITIVE_ROOT_PATHS):
        return CREATOR_ACL
    return CREATOR_WRITES_ALL_READ
