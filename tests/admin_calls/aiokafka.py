"""The admin calls of aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aiokafka
from aiokafka import admin as ak_admin
from aiokafka.admin.config_resource import ConfigResource as AkResource
from aiokafka.admin.config_resource import ConfigResourceType

from tests.admin_calls.calls import (
    COMMITTED,
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


def _run_aiokafka(call: Call, given: Given, servers: list[str]) -> Any:
    async def made() -> Any:
        client = ak_admin.AIOKafkaAdminClient(bootstrap_servers=servers)
        await client.start()
        try:
            return await call.make(client, given)
        finally:
            await client.close()

    return asyncio.run(made())


def _ak_resource(given: Given, configs: dict[str, str] | None = None) -> list[Any]:
    return [AkResource(ConfigResourceType.TOPIC, given.topic, configs)]


async def _ak_described(client: Any, given: Given) -> str:
    (response,) = await client.describe_configs(_ak_resource(given))
    ((*_, entries),) = response.resources
    return next(entry[1] for entry in entries if entry[0] == "flush.ms")


async def _ak_group_state(client: Any, given: Given) -> str:
    (response,) = await client.describe_consumer_groups([given.group])
    return str(response.groups[0][2])


async def _ak_partitions(client: Any, given: Given) -> int:
    return len((await client.describe_topics([given.topic]))[0]["partitions"])


async def _ak_brokers(client: Any, _: Given) -> int:
    return len((await client.describe_cluster())["brokers"])


async def _ak_groups(client: Any, _: Given) -> list[str]:
    return [group for group, _ in await client.list_consumer_groups()]


async def _ak_offset(client: Any, given: Given) -> int:
    offsets = await client.list_consumer_group_offsets(given.group)
    return int(offsets[aiokafka.TopicPartition(given.topic, 0)].offset)


async def _ak_coordinator_is_known(client: Any, given: Given) -> bool:
    return await client.find_coordinator(given.group) in range(3)


_CALLS: Final[dict[str, Call | NotRun]] = {
    "create_topics": Call(
        lambda a, g: a.create_topics([ak_admin.NewTopic(f"new-{g.topic}", 2, 2)]),
        topic_is_created,
    ),
    "delete_topics": Call(lambda a, g: a.delete_topics([g.topic]), topic_is_deleted),
    "list_topics": Call(lambda a, _: a.list_topics(), has_topic),
    "describe_topics": Call(_ak_partitions, gives(2)),
    "create_partitions": Call(
        lambda a, g: a.create_partitions({g.topic: ak_admin.NewPartitions(3)}),
        has_three_partitions,
    ),
    "describe_cluster": Call(_ak_brokers, gives(3)),
    "describe_configs": Call(_ak_described, gives("9223372036854775807")),
    "alter_configs": Call(
        lambda a, g: a.alter_configs(_ak_resource(g, {"retention.ms": "5"})), retention_is_5
    ),
    "find_coordinator": Call(_ak_coordinator_is_known, gives(True)),
    "list_consumer_groups": Call(_ak_groups, has_group),
    "describe_consumer_groups": Call(_ak_group_state, gives("Empty")),
    "list_consumer_group_offsets": Call(_ak_offset, gives(COMMITTED)),
    "delete_records": Call(
        lambda a, g: a.delete_records(
            {aiokafka.TopicPartition(g.topic, 0): ak_admin.RecordsToDelete(4)}
        ),
        lambda given, result: gives({aiokafka.TopicPartition(given.topic, 0): 4})(given, result),
    ),
}

AIOKAFKA = Library(
    ak_admin.AIOKafkaAdminClient, _run_aiokafka, _CALLS, frozenset({"close", "start"})
)
