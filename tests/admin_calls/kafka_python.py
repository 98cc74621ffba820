"""The admin calls of kafka-python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import confluent_kafka as ck
import kafka
import pytest
from kafka import admin as kp_admin
from kafka.errors import NoError, SecurityDisabledError

from tests.admin_calls.calls import (
    COMMITTED,
    RECORDS,
    Call,
    Given,
    Library,
    NotRun,
    gives,
    has_group,
    has_three_partitions,
    has_topic,
    is_moved,
    retention_is_5,
    topic_is_created,
    topic_is_deleted,
)


def _run_kafka_python(call: Call, given: Given, servers: list[str]) -> Any:
    client = kp_admin.KafkaAdminClient(bootstrap_servers=servers)
    try:
        return call.make(client, given)
    finally:
        client.close()


def _kp_refused(call: Callable[[], Any]) -> bool:
    with pytest.raises(SecurityDisabledError):
        call()
    return True


def _kp(given: Given, partition: int = 0) -> Any:
    return kafka.TopicPartition(given.topic, partition)


def _kp_retention(given: Given, value: str | None = "5") -> list[Any]:
    return [kp_admin.ConfigResource("TOPIC", given.topic, {"retention.ms": value})]


_NO_TRANSACTIONS: Final = NotRun("klamm's brokers have no transactions")
_CALLS: Final[dict[str, Call | NotRun]] = {
    "create_topics": Call(
        lambda a, g: a.create_topics([kp_admin.NewTopic(f"new-{g.topic}", 2, 2)]),
        topic_is_created,
    ),
    "delete_topics": Call(lambda a, g: a.delete_topics([g.topic]), topic_is_deleted),
    "list_topics": Call(lambda a, _: a.list_topics(), has_topic),
    "describe_topics": Call(
        lambda a, g: len(a.describe_topics([g.topic])[0]["partitions"]), gives(2)
    ),
    "wait_for_topics": Call(lambda a, g: a.wait_for_topics([g.topic]), gives(None)),
    "create_partitions": Call(
        lambda a, g: a.create_partitions({g.topic: kp_admin.NewPartitions(3)}),
        has_three_partitions,
    ),
    "api_versions": Call(lambda a, _: a.api_versions()[1], gives((0, 12))),
    "describe_configs": Call(
        lambda a, g: a.describe_configs(
            [kp_admin.ConfigResource("TOPIC", g.topic)], config_filter="all"
        )["topic"][g.topic]["flush.ms"]["value"],
        gives("9223372036854775807"),
    ),
    "alter_configs": Call(lambda a, g: a.alter_configs(_kp_retention(g)), retention_is_5),
    "reset_configs": Call(
        lambda a, g: [
            a.alter_configs(_kp_retention(g)),
            a.reset_configs(_kp_retention(g, None)),
            a.describe_configs([kp_admin.ConfigResource("TOPIC", g.topic)])["topic"][g.topic],
        ][2],
        gives({}),
    ),
    "list_groups": Call(
        lambda a, _: [one["group_id"] for one in a.list_groups()],
        has_group,
    ),
    "describe_groups": Call(
        lambda a, g: a.describe_groups([g.group])[g.group]["group_state"], gives("Empty")
    ),
    "list_group_offsets": Call(
        lambda a, g: a.list_group_offsets(g.group)[g.group][_kp(g)].offset, gives(COMMITTED)
    ),
    "alter_group_offsets": Call(
        lambda a, g: [
            a.alter_group_offsets(g.group, {_kp(g): kafka.OffsetAndMetadata(7, "", -1)})[_kp(g)],
            a.list_group_offsets(g.group)[g.group][_kp(g)].offset,
        ],
        gives([NoError, 7]),
    ),
    "reset_group_offsets": Call(
        lambda a, g: a.reset_group_offsets(g.group, {_kp(g): kp_admin.OffsetSpec.EARLIEST})[_kp(g)],
        gives({"error": NoError, "offset": 0}),
    ),
    "delete_group_offsets": Call(
        lambda a, g: a.delete_group_offsets(g.group, [_kp(g)])[_kp(g)], gives(NoError)
    ),
    "delete_groups": Call(
        lambda a, g: [
            list(a.delete_groups([g.group])),
            g.group in [one["group_id"] for one in a.list_groups()],
        ][1],
        gives(False),
    ),
    "remove_group_members": Call(
        lambda a, g: [
            error.__name__
            for error in a.remove_group_members(
                g.group, [kp_admin.MemberToRemove(member_id="absent")]
            ).values()
        ],
        gives(["UnknownMemberIdError"]),
    ),
    "list_partition_offsets": Call(
        lambda a, g: a.list_partition_offsets({_kp(g): kp_admin.OffsetSpec.LATEST})[_kp(g)].offset,
        gives(RECORDS),
    ),
    "delete_records": Call(
        lambda a, g: a.delete_records({_kp(g): 4})[_kp(g)]["low_watermark"], gives(4)
    ),
    "elect_leaders": Call(
        lambda a, g: (
            a.elect_leaders(0, {g.topic: [0]}, raise_errors=False)
            .replica_election_results[0]
            .partition_result[0]
            .error_code
        ),
        gives(ck.KafkaError.ELECTION_NOT_NEEDED),
    ),
    "alter_partition_reassignments": Call(
        lambda a, g: a.alter_partition_reassignments({_kp(g): [0, 2]}), is_moved
    ),
    "list_partition_reassignments": Call(
        lambda a, g: a.list_partition_reassignments({g.topic: [0]}), gives({})
    ),
    "describe_log_dirs": Call(
        lambda a, g: [
            topic["name"]
            for broker in a.describe_log_dirs()
            for log_dir in broker["log_dirs"]
            for topic in log_dir["topics"]
        ],
        has_topic,
    ),
    "alter_replica_log_dirs": Call(
        lambda a, g: [
            error.__name__
            for error in a.alter_replica_log_dirs({(g.topic, 0, 0): "/absent"}).values()
        ],
        gives(["LogDirNotFoundError"]),
    ),
    "describe_user_scram_credentials": Call(
        lambda a, g: a.describe_user_scram_credentials([g.group])[g.group]["credential_infos"],
        gives([]),
    ),
    "describe_acls": Call(
        lambda a, _: _kp_refused(
            lambda: a.describe_acls(
                kp_admin.ACLFilter(
                    None,
                    None,
                    kp_admin.ACLOperation.ANY,
                    kp_admin.ACLPermissionType.ANY,
                    kp_admin.ResourcePatternFilter(
                        kp_admin.ResourceType.ANY, None, kp_admin.ACLResourcePatternType.ANY
                    ),
                )
            )
        ),
        gives(True),
    ),
    "describe_features": Call(lambda a, _: a.describe_features(), gives({})),
    "alter_user_scram_credentials": NotRun("kafka-python asks any broker and hides NOT_CONTROLLER"),
    "describe_cluster": NotRun("kafka-python needs version 1 of the API; 2.8.2 has version 0"),
    **dict.fromkeys(("create_acls", "delete_acls"), NotRun("klamm's brokers have no authorizer")),
    **dict.fromkeys(
        ("abort_transaction", "describe_transactions", "find_hanging_transactions"),
        _NO_TRANSACTIONS,
    ),
    **dict.fromkeys(
        (
            "describe_metadata_quorum",
            "describe_topic_partitions",
            "list_config_resources",
            "list_transactions",
        ),
        NotRun("2.8.2 has no such API"),
    ),
    **dict.fromkeys(
        ("describe_producers", "update_features"), NotRun("klamm's brokers have no such API")
    ),
}

KAFKA_PYTHON = Library(
    kp_admin.KafkaAdminClient,
    _run_kafka_python,
    _CALLS,
    frozenset({"close", "get_broker_version_data"}),
)
