"""What the API answers about reassignments, elections, log directories and configs.

As handlers.py, of which it is a part. Mirrors the calls of org.apache.kafka.clients.admin.Admin
that Kafka's tools make.
"""

from __future__ import annotations

from starlette.requests import Request

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
from server.handlers import decode
from server.log_dir_bodies import (
    AlterLogDirs,
    Brokers,
    LogDirs,
    ReplicaFailures,
    ReplicaPlaces,
    Replicas,
)

# Reassignments and elections


def list_reassignments(server: ClusterServer, request: Request, body: bytes) -> Reassignments:
    """What is being reassigned: everything, or of the partitions of the body."""
    asked = keys(decode(body, PartitionsOrAll).partitions)
    return Reassignments.of(server.admin.list_partition_reassignments(asked))


def alter_reassignments(server: ClusterServer, request: Request, body: bytes) -> PartitionResults:
    """Start, replace or (`replicas` null) cancel reassignments; the answer names the partitions
    that were refused."""
    wanted = decode(body, AlterReassignments)
    targets = {one.key: one.replicas for one in wanted.reassignments}
    if len(targets) < len(wanted.reassignments):
        raise UsageError("a partition is named twice")
    failures = server.admin.alter_partition_reassignments(targets, wanted.timeout_ms)
    return PartitionResults.of(failures)


def elect_leaders(server: ClusterServer, request: Request, body: bytes) -> PartitionResults:
    """Elect preferred or unclean leaders of partitions, or of all that need it; the answer has
    NONE for every election that took place."""
    wanted = decode(body, ElectLeaders)
    results = server.admin.elect_leaders(
        wanted.election_type, keys(wanted.partitions), wanted.timeout_ms
    )
    return PartitionResults.of(results)


# Log directories


def describe_log_dirs(server: ClusterServer, request: Request, body: bytes) -> LogDirs:
    """The log directories of brokers, and what is in them."""
    brokers = decode(body, Brokers).brokers
    asked = server.admin.live_broker_ids() if brokers is None else brokers
    return LogDirs.of(server.admin.describe_log_dirs(asked))


def describe_replicas(server: ClusterServer, request: Request, body: bytes) -> ReplicaPlaces:
    """In which directories replicas are, and to which they move."""
    asked = [replica.replica for replica in decode(body, Replicas).replicas]
    return ReplicaPlaces.of(server.admin.describe_replica_log_dirs(asked))


def alter_log_dirs(server: ClusterServer, request: Request, body: bytes) -> ReplicaFailures:
    """Give replicas another directory; the answer names those that were refused."""
    wanted = {one.replica: one.log_dir for one in decode(body, AlterLogDirs).replicas}
    return ReplicaFailures.of(server.admin.alter_replica_log_dirs(wanted))


# Configs


def describe_configs(server: ClusterServer, request: Request, body: bytes) -> ConfigEntries:
    """Every config of a topic or a broker (`<default>`: all brokers), and where it comes from."""
    entity = decode(body, Entity).resource
    return ConfigEntries(list(server.admin.describe_configs(entity)))


def config_overrides(server: ClusterServer, request: Request, body: bytes) -> ConfigsOfEntities:
    """The configs that are set for topics and brokers."""
    asked = [entity.resource for entity in decode(body, Entities).entities]
    found = server.admin.overrides(asked)
    return ConfigsOfEntities(
        tuple(EntityConfigs(*resource, dict(found[resource])) for resource in asked)
    )


def alter_configs(server: ClusterServer, request: Request, body: bytes) -> ConfigsOfEntities:
    """Set or (null) remove configs of topics and brokers; the answer has all that are set then."""
    wanted = decode(body, ConfigsOfEntities).by_entity()
    server.admin.incremental_alter_configs(wanted)
    found = server.admin.overrides(list(wanted))
    return ConfigsOfEntities(
        tuple(EntityConfigs(*resource, dict(found[resource])) for resource in wanted)
    )
