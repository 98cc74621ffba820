"""The admin calls of confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka as ck
import pytest
from confluent_kafka import admin as ck_admin

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
    retention_is_5,
    topic_is_created,
    topic_is_deleted,
)


def _run_confluent(call: Call, given: Given, servers: list[str]) -> Any:
    return call.make(ck_admin.AdminClient({"bootstrap.servers": ",".join(servers)}), given)


def _results(futures: Mapping[Any, Any]) -> list[Any]:
    return [future.result(30) for future in futures.values()]


def _result(futures: Mapping[Any, Any]) -> Any:
    (result,) = _results(futures)
    return result


def _refusal(call: Callable[[], Any]) -> int:
    with pytest.raises(ck.KafkaException) as caught:
        call()
    return int(caught.value.args[0].code())


def _group_offsets(given: Given, offset: int | None = None) -> list[Any]:
    partition = ck.TopicPartition(given.topic, 0, *(() if offset is None else (offset,)))
    return [ck.ConsumerGroupTopicPartitions(given.group, [partition])]


def _ck_retention(given: Given) -> list[Any]:
    return [ck_admin.ConfigResource("topic", given.topic, set_config={"retention.ms": "5"})]


def _ck_incremental_retention(given: Given) -> list[Any]:
    entry = ck_admin.ConfigEntry(
        "retention.ms", "5", incremental_operation=ck_admin.AlterConfigOpType.SET
    )
    return [ck_admin.ConfigResource("topic", given.topic, incremental_configs=[entry])]


_ACL: Final = ck_admin.AclBinding(
    ck_admin.ResourceType.TOPIC,
    "t",
    ck_admin.ResourcePatternType.LITERAL,
    "User:a",
    "*",
    ck_admin.AclOperation.READ,
    ck_admin.AclPermissionType.ALLOW,
)
_ACL_FILTER: Final = ck_admin.AclBindingFilter(
    *(
        getattr(_ACL, name)
        for name in (
            "restype",
            "name",
            "resource_pattern_type",
            "principal",
            "host",
            "operation",
            "permission_type",
        )
    )
)
_CREDENTIAL: Final = ck_admin.ScramCredentialInfo(ck_admin.ScramMechanism.SCRAM_SHA_256, 8192)
_SECURITY_DISABLED: Final = ck.KafkaError.SECURITY_DISABLED
_CALLS: Final[dict[str, Call | NotRun]] = {
    "create_topics": Call(
        lambda a, g: _result(a.create_topics([ck_admin.NewTopic(f"new-{g.topic}", 2, 2)])),
        topic_is_created,
    ),
    "delete_topics": Call(lambda a, g: _result(a.delete_topics([g.topic])), topic_is_deleted),
    "list_topics": Call(lambda a, _: a.list_topics(timeout=30).topics, has_topic),
    "describe_topics": Call(
        lambda a, g: len(_result(a.describe_topics(ck.TopicCollection([g.topic]))).partitions),
        gives(2),
    ),
    "create_partitions": Call(
        lambda a, g: _result(a.create_partitions([ck_admin.NewPartitions(g.topic, 3)])),
        has_three_partitions,
    ),
    "describe_cluster": Call(lambda a, _: len(a.describe_cluster().result(30).nodes), gives(3)),
    "cluster_id": Call(
        lambda a, g: a.cluster_id(timeout=30) == g.server.cluster.spec.cluster_id, gives(True)
    ),
    "describe_configs": Call(
        lambda a, g: (
            _result(a.describe_configs([ck_admin.ConfigResource("topic", g.topic)]))[
                "flush.ms"
            ].value
        ),
        gives("9223372036854775807"),
    ),
    "alter_configs": Call(lambda a, g: _result(a.alter_configs(_ck_retention(g))), retention_is_5),
    "incremental_alter_configs": Call(
        lambda a, g: _result(a.incremental_alter_configs(_ck_incremental_retention(g))),
        retention_is_5,
    ),
    "list_consumer_groups": Call(
        lambda a, _: [one.group_id for one in a.list_consumer_groups().result(30).valid],
        has_group,
    ),
    "list_groups": Call(lambda a, _: [one.id for one in a.list_groups(timeout=30)], has_group),
    "describe_consumer_groups": Call(
        lambda a, g: _result(a.describe_consumer_groups([g.group])).state,
        gives(ck.ConsumerGroupState.EMPTY),
    ),
    "list_consumer_group_offsets": Call(
        lambda a, g: (
            _result(a.list_consumer_group_offsets(_group_offsets(g))).topic_partitions[0].offset
        ),
        gives(COMMITTED),
    ),
    "alter_consumer_group_offsets": Call(
        lambda a, g: [
            _result(a.alter_consumer_group_offsets(_group_offsets(g, 7))),
            _result(a.list_consumer_group_offsets(_group_offsets(g))).topic_partitions[0].offset,
        ][1],
        gives(7),
    ),
    "delete_consumer_groups": Call(
        lambda a, g: [
            _result(a.delete_consumer_groups([g.group])),
            g.group in [one.group_id for one in a.list_consumer_groups().result(30).valid],
        ],
        gives([None, False]),
    ),
    "list_offsets": Call(
        lambda a, g: (
            _result(
                a.list_offsets({ck.TopicPartition(g.topic, 0): ck_admin.OffsetSpec.latest()})
            ).offset
        ),
        gives(RECORDS),
    ),
    "delete_records": Call(
        lambda a, g: _result(a.delete_records([ck.TopicPartition(g.topic, 0, 4)])).low_watermark,
        gives(4),
    ),
    "elect_leaders": Call(
        lambda a, g: [
            error.code()
            for error in a.elect_leaders(ck.ElectionType.PREFERRED, [ck.TopicPartition(g.topic, 0)])
            .result(30)
            .values()
        ],
        gives([ck.KafkaError.ELECTION_NOT_NEEDED]),
    ),
    "alter_user_scram_credentials": Call(
        lambda a, g: [
            _result(
                a.alter_user_scram_credentials(
                    [ck_admin.UserScramCredentialUpsertion(g.group, _CREDENTIAL, b"secret")]
                )
            ),
            _result(a.describe_user_scram_credentials([g.group]))
            .scram_credential_infos[0]
            .iterations,
        ],
        gives([None, 8192]),
    ),
    "describe_user_scram_credentials": Call(
        lambda a, g: _refusal(lambda: _result(a.describe_user_scram_credentials([g.group]))),
        gives(ck.KafkaError.RESOURCE_NOT_FOUND),
    ),
    "create_acls": Call(
        lambda a, _: _refusal(lambda: _result(a.create_acls([_ACL]))), gives(_SECURITY_DISABLED)
    ),
    "describe_acls": Call(
        # confluent-kafka hides the error.
        lambda a, _: a.describe_acls(_ACL_FILTER).result(30),
        gives([]),
    ),
    "delete_acls": Call(
        lambda a, _: _refusal(lambda: _result(a.delete_acls([_ACL_FILTER]))),
        gives(_SECURITY_DISABLED),
    ),
}

CONFLUENT = Library(
    ck_admin.AdminClient, _run_confluent, _CALLS, frozenset({"poll", "set_sasl_credentials"})
)
