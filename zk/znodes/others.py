"""Znodes that klamm names but has no business in: consumers, ACLs, delegation tokens.

Only their paths are here; a dump or a guard must know them. Mirrors kafka.zk.ZkData.
"""

from __future__ import annotations

from typing import Final

PATTERN_TYPES: Final = ("literal", "prefixed")


class ConsumerPathZNode:
    """/consumers: the root of the old consumers."""

    path: Final = "/consumers"


class ConsumerOffset:
    """/consumers/GROUP/offsets/TOPIC/PARTITION: a plain decimal number."""

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """The path of the group's offset."""
        return f"/consumers/{group}/offsets/{topic}/{partition}"

    @staticmethod
    def encode(offset: int) -> bytes:
        """The offset in decimal."""
        return b"%d" % offset


class DelegationTokenAuthZNode:
    """/delegation_token"""

    path: Final = "/delegation_token"


class DelegationTokenChangeNotificationZNode:
    """/delegation_token/token_changes"""

    path: Final = "/delegation_token/token_changes"


class DelegationTokensZNode:
    """/delegation_token/tokens"""

    path: Final = "/delegation_token/tokens"


class DelegationTokenInfoZNode:
    """/delegation_token/tokens/ID"""

    @staticmethod
    def path(token_id: str) -> str:
        """The path of the token."""
        return f"/delegation_token/tokens/{token_id}"


class ExtendedAclZNode:
    """/kafka-acl-extended"""

    path: Final = "/kafka-acl-extended"


class AclZNode:
    """/kafka-acl/TYPE/NAME (literal) or /kafka-acl-extended/PATTERN/TYPE/NAME."""

    @staticmethod
    def root_path(pattern_type: str) -> str:
        """The root of the ACLs of one of PATTERN_TYPES."""
        return "/kafka-acl" if pattern_type == "literal" else f"/kafka-acl-extended/{pattern_type}"

    @staticmethod
    def path(pattern_type: str, resource_type: str, resource_name: str) -> str:
        """The path of a resource's ACLs; ``resource_type`` as in ``Topic``."""
        return f"{AclZNode.root_path(pattern_type)}/{resource_type}/{resource_name}"
