"""All that Kafka's tools ask of a running cluster, answered in the server's own process.

What is asked of whom is in the classes it is made of; here they are one client with one address.
Mirrors org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

from server.config_admin import ConfigCalls
from server.log_dir_admin import LogDirCalls
from server.partition_admin import PartitionCalls
from server.topic_admin import TopicCalls


class RunningClusterAdmin(TopicCalls, PartitionCalls, LogDirCalls, ConfigCalls):
    """ClusterAdmin, ReassignAdmin, ElectionAdmin, LogDirsAdmin and ConfigsAdmin. For any thread."""
