"""ACLs that Kafka sets on new znodes, and the paths that these ACLs protect.

kazoo_wire.py encodes the ACLs. Mirrors kafka.zk.ZkData (SecureRootPaths, SensitiveRootPaths,
defaultAcls) and org.apache.zookeeper.ZooDefs.Ids.
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
    """ACL entry: permissions granted to the identity ``id`` under an authentication ``scheme``."""

    permissions: Permission
    scheme: str
    id: str


Acl = tuple[AclEntry, ...]

_CREATOR: Final = AclEntry(Permission.ALL, "auth", "")
"""ACL entry that the server replaces with an entry for each identity of the client."""

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
"""Roots of the trees that ``klamm zk secure`` protects, as in Kafka's ZkSecurityMigrator."""

SENSITIVE_ROOT_PATHS: Final = (
    ConfigEntityTypeZNode.path("users"),
    ConfigEntityTypeZNode.path("brokers"),
    DelegationTokensZNode.path,
)
"""Roots of the trees that hold secrets, which only the creator may read."""


def default_acl(path: str) -> Acl:
    """Return the ACL that a client with zookeeper.set.acl=true sets on a new znode at ``path``."""
    if path == ConsumerPathZNode.path:  # consumers of any identity write below it
        return OPEN_ACL
    if path.startswith(SENSITIVE_ROOT_PATHS):
        return CREATOR_ACL
    return CREATOR_WRITES_ALL_READ
