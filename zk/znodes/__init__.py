"""Znode formats of Kafka 2.8: path, encoding and decoding of every znode, as in kafka.zk.ZkData.

The package does not access ZooKeeper. ``path`` is a string if there is only one such znode, and
otherwise a function, e.g. of the topic. ``decode`` raises MalformedZNode if Kafka 2.8.2's decoder
throws, and otherwise returns the same value as Kafka, even for malformed content.
"""

from __future__ import annotations

from typing import Final

from klamm.zk.znodes.admin import (
    AclZNode,
    AdminZNode,
    ConsumerPathZNode,
    DelegationTokenAuthZNode,
    DelegationTokensZNode,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    ExtendedAclZNode,
    PreferredReplicaElectionZNode,
    ReassignmentTargets,
    ReassignPartitionsZNode,
)
from klamm.zk.znodes.brokers import (
    BrokerIdsZNode,
    BrokerIdZNode,
    BrokerInfo,
    BrokerSequenceIdZNode,
    BrokersZNode,
)
from klamm.zk.znodes.configs import (
    CONFIG_TYPES,
    DEFAULT_ENTITY,
    ConfigChange,
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
    ConfigZNode,
)
from klamm.zk.znodes.controller import (
    ClusterIdZNode,
    ClusterZNode,
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    FeatureZNodeStatus,
    ProducerIdBlock,
    ProducerIdBlockZNode,
)
from klamm.zk.znodes.features import VersionRange
from klamm.zk.znodes.json_values import MalformedZNode, UnparsableJson
from klamm.zk.znodes.notifications import (
    IsrChangeNotificationSequenceZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationSequenceZNode,
    LogDirEventNotificationZNode,
)
from klamm.zk.znodes.topics import (
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicsZNode,
    TopicZNode,
)

PERSISTENT_ZK_PATHS: Final = (
    ConsumerPathZNode.path,
    BrokerIdsZNode.path,
    TopicsZNode.path,
    ConfigEntityChangeNotificationZNode.path,
    DeleteTopicsZNode.path,
    BrokerSequenceIdZNode.path,
    IsrChangeNotificationZNode.path,
    ProducerIdBlockZNode.path,
    LogDirEventNotificationZNode.path,
    *(ConfigEntityTypeZNode.path(entity_type) for entity_type in CONFIG_TYPES),
)
"""Paths of the znodes that a broker creates (with null data) on startup, in this order."""

__all__ = [
    "CONFIG_TYPES",
    "DEFAULT_ENTITY",
    "PERSISTENT_ZK_PATHS",
    "AclZNode",
    "AdminZNode",
    "BrokerIdZNode",
    "BrokerIdsZNode",
    "BrokerInfo",
    "BrokerSequenceIdZNode",
    "BrokersZNode",
    "ClusterIdZNode",
    "ClusterZNode",
    "ConfigChange",
    "ConfigEntityChangeNotificationSequenceZNode",
    "ConfigEntityChangeNotificationZNode",
    "ConfigEntityTypeZNode",
    "ConfigEntityZNode",
    "ConfigZNode",
    "ConsumerPathZNode",
    "ControllerEpochZNode",
    "ControllerZNode",
    "DelegationTokenAuthZNode",
    "DelegationTokensZNode",
    "DeleteTopicsTopicZNode",
    "DeleteTopicsZNode",
    "ExtendedAclZNode",
    "FeatureZNode",
    "FeatureZNodeStatus",
    "IsrChangeNotificationSequenceZNode",
    "IsrChangeNotificationZNode",
    "LogDirEventNotificationSequenceZNode",
    "LogDirEventNotificationZNode",
    "MalformedZNode",
    "PreferredReplicaElectionZNode",
    "ProducerIdBlock",
    "ProducerIdBlockZNode",
    "ReassignPartitionsZNode",
    "ReassignmentTargets",
    "TopicPartitionStateZNode",
    "TopicPartitionZNode",
    "TopicPartitionsZNode",
    "TopicZNode",
    "TopicsZNode",
    "UnparsableJson",
    "VersionRange",
]
