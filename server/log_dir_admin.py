"""Log directories of the running brokers: each is asked for its own, all at once.

Mirrors describeLogDirs, describeReplicaLogDirs and alterReplicaLogDirs of
org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from admin.failures import Failure, admin_error
from admin.log_dirs_command import LogDirDescription, ReplicaInfo
from admin.reassignments.reassign_admin import ReplicaLogDirs
from admin.reassignments.reassignment_json import TopicPartitionReplica
from cluster.api_errors import Errors
from cluster.requests import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from cluster.types import TopicPartition
from server.cluster_calls import ClusterCalls, timed_out


class LogDirCalls(ClusterCalls):
    """Calls that brokers answer about their directories."""

    def describe_log_dirs(
        self, brokers: Sequence[int]
    ) -> Mapping[int, Mapping[str, LogDirDescription]]:
        """The directories of brokers by path. Raises RequestTimedOut if one does not answer."""
        return {
            broker_id: _descriptions(response)
            for broker_id, response in self._describe(
                "describeLogDirs", {id_: DescribeLogDirsRequest() for id_ in brokers}
            ).items()
        }

    def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> Mapping[TopicPartitionReplica, ReplicaLogDirs]:
        """The directories of replicas; None for one that is in no live directory.

        Raises RequestTimedOut if a broker does not answer.
        """
        asked: dict[int, list[TopicPartition]] = {}
        for topic, partition, broker_id in replicas:
            asked.setdefault(broker_id, []).append(TopicPartition(topic, partition))
        responses = self._describe(
            "describeReplicaLogDirs",
            {id_: DescribeLogDirsRequest(tuple(partitions)) for id_, partitions in asked.items()},
        )
        found = {replica: ReplicaLogDirs(None) for replica in replicas}
        for broker_id, response in responses.items():
            for log_dir in response.log_dirs:
                for log in log_dir.logs:
                    replica = TopicPartitionReplica(*log.topic_partition, broker_id)
                    if replica in found:
                        kind = "future" if log.is_future else "current"
                        found[replica] = found[replica]._replace(**{kind: log_dir.path})
        return found

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, Failure]:
        """Give replicas another directory; gives those that were refused or not answered."""
        wanted: dict[int, dict[TopicPartition, str]] = {}
        for (topic, partition, broker_id), log_dir in log_dirs.items():
            wanted.setdefault(broker_id, {})[TopicPartition(topic, partition)] = log_dir
        call = "alterReplicaLogDirs"
        responses = self._ask_brokers(
            call,
            {id_: AlterReplicaLogDirsRequest(dirs) for id_, dirs in wanted.items()},
            AlterReplicaLogDirsResponse,
        )
        failures: dict[TopicPartitionReplica, Failure] = {}
        for replica in log_dirs:
            response = responses.get(replica.broker_id)
            if response is None:
                failures[replica] = Failure(Errors.REQUEST_TIMED_OUT, timed_out(call).message)
                continue
            error = response.results[TopicPartition(replica.topic, replica.partition)]
            if error is not Errors.NONE:
                failures[replica] = Failure(error)
        return failures

    def _describe(
        self, call: str, requests: Mapping[int, DescribeLogDirsRequest]
    ) -> dict[int, DescribeLogDirsResponse]:
        responses = self._ask_brokers(call, requests, DescribeLogDirsResponse)
        missing = sorted(requests.keys() - responses.keys())
        if missing:
            raise timed_out(call, hint=f"no answer from broker {', '.join(map(str, missing))}")
        return responses


def _descriptions(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
    return {
        log_dir.path: LogDirDescription(
            None
            if log_dir.error is Errors.NONE
            else admin_error(Failure(log_dir.error)).kafka_class,
            {
                log.topic_partition: ReplicaInfo(log.size_bytes, log.offset_lag, log.is_future)
                for log in log_dir.logs
            },
        )
        for log_dir in response.log_dirs
    }
