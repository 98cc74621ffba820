"""What the API answers about reassignments, elections, log directories and configs.

As handlers.py, of which it is a part. Mirrors the calls of org.apache.kafka.clients.admin.Admin
that Kafka's tools make.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from admin.configs.config_resource import ConfigResource
from cluster.errors import UsageError
from server.bodies import (
    AlterReassignments,
    ElectLeaders,
    PartitionResults,
    PartitionsOrAll,
    Reassignments,
    keys,
)
from server.cluster_server import ClusterServer
from server.config_bodies import ConfigEntries, ConfigsOfEntities, Entities, Entity, EntityConfigs
from server.log_dir_bodies import (
    AlterLogDirs,
    Brokers,
    LogDirs,
    ReplicaFailures,
    ReplicaPlaces,
    Replicas,
)

# Reassignments and elections


def list_reassignments(
    server: ClusterServer, request: Request, wanted: PartitionsOrAll
) -> Reassignments:
    """The running reassignments: all, or those of the partitions in the body."""
    return Reassignments.of(server.admin.list_partition_reassignments(keys(wanted.partitions)))


def alter_reassignments(
    server: ClusterServer, request: Request, wanted: AlterReassignments
) -> PartitionResults:
    """Start, replace or (`replicas` null) cancel reassignments; the answer lists the refused
    partitions."""
    targets = {one.key: one.replicas for one in wanted.reassignments}
    if len(targets) < len(wanted.reassignments):
        raise UsageError("a partition is named twice")
    failures = server.admin.alter_partition_reassignments(targets, wanted.timeout_ms)
    return PartitionResults.of(failures)


def elect_leaders(
    server: ClusterServer, request: Request, wanted: ElectLeaders
) -> PartitionResults:
    """Elect preferred or unclean leaders of the partitions in the body, or of all partitions that
    need it; the answer has the code NONE for each election that succeeded."""
    results = server.admin.elect_leaders(
        wanted.election_type, keys(wanted.partitions), wanted.timeout_ms
    )
    return PartitionResults.of(results)


# Log directories


def describe_log_dirs(server: ClusterServer, request: Request, wanted: Brokers) -> LogDirs:
    """The log directories of brokers, and the replicas in them."""
    asked = server.admin.live_broker_ids() if wanted.brokers is None else wanted.brokers
    return LogDirs.of(server.admin.describe_log_dirs(asked))


def describe_replicas(server: ClusterServer, request: Request, wanted: Replicas) -> ReplicaPlaces:
    """The log directory of each replica, and the one it moves to."""
    asked = [replica.replica for replica in wanted.replicas]
    return ReplicaPlaces.of(server.admin.describe_replica_log_dirs(asked))


def alter_log_dirs(
    server: ClusterServer, request: Request, wanted: AlterLogDirs
) -> ReplicaFailures:
    """Move replicas to other log directories; the answer lists the refused replicas."""
    log_dirs = {one.replica: one.log_dir for one in wanted.replicas}
    return ReplicaFailures.of(server.admin.alter_replica_log_dirs(log_dirs))


# Configs


def describe_configs(server: ClusterServer, request: Request, wanted: Entity) -> ConfigEntries:
    """All configs of a topic or a broker (`<default>`: all brokers), and their sources."""
    return ConfigEntries(list(server.admin.describe_configs(wanted.resource)))


def config_overrides(
    server: ClusterServer, request: Request, wanted: Entities
) -> ConfigsOfEntities:
    """The configs that are set for the topics and brokers in the body, or for all."""
    asked = None if wanted.entities is None else [entity.resource for entity in wanted.entities]
    return _configs_of(server, asked)


def alter_configs(
    server: ClusterServer, request: Request, wanted: ConfigsOfEntities
) -> ConfigsOfEntities:
    """Set or (null) remove configs of topics and brokers; the answer has all configs that are set
    afterwards."""
    changes = wanted.by_entity()
    server.admin.incremental_alter_configs(changes)
    return _configs_of(server, list(changes))


def _configs_of(
    server: ClusterServer, resources: Sequence[ConfigResource] | None
) -> ConfigsOfEntities:
    found = server.admin.overrides(resources)
    return ConfigsOfEntities(
        tuple(
            EntityConfigs(*resource, dict(found[resource]))
            for resource in (found if resources is None else resources)
        )
    )
