"""Kafka 2.8's znodes: path, encode and decode of each, as kafka.zk.ZkData.

Pure: nothing here reads or writes ZooKeeper. ``path`` is a string for a single znode and a function
for several. ``decode`` raises MalformedZNode where Kafka 2.8.2 throws, and returns the same value
as Kafka where Kafka is tolerant.
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
"""Znodes that a starting broker creates, in this order, with null data."""

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
