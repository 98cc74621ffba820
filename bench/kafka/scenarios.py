"""What is done to a cluster, free of any product: layouts, moves and the znodes that ask for them.

klamm's own benchmark uses the same. It must not know who carries the work out.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable
from typing import NamedTuple

REPLICATION_FACTOR = 3
FIRST_BROKER = 1
TOPIC_CONFIG = b'{"version":1,"config":{}}'
TOPIC_ID_BYTES = 16


class Partition(NamedTuple):
    """One partition and the replicas it is to have, preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[int, ...]

    @property
    def state_path(self) -> str:
        """The znode with its leader, epoch and ISR."""
        return f"/brokers/topics/{self.topic}/partitions/{self.partition}/state"


class Topic(NamedTuple):
    """A topic and its partitions, in order of their ids."""

    name: str
    partitions: tuple[Partition, ...]

    @property
    def path(self) -> str:
        """The znode with its assignment."""
        return f"/brokers/topics/{self.name}"

    @property
    def config_path(self) -> str:
        """The znode with its configuration."""
        return f"/config/topics/{self.name}"

    def payload(self) -> bytes:
        """The assignment znode, with a topic id that depends on the name alone."""
        topic_id = random.Random(self.name).randbytes(TOPIC_ID_BYTES)
        value = {
            "version": 3,
            "topic_id": base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode(),
            "partitions": {str(item.partition): item.replicas for item in self.partitions},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        return _encode(value)


def topics(first: int, count: int, partitions_per_topic: int, brokers: int) -> list[Topic]:
    """Topics number ``first`` and following: leaders in turn, followers as Kafka spreads them."""
    made = []
    for number in range(first, first + count):
        name = f"t{number:06d}"
        start = (number - first) * partitions_per_topic
        made.append(
            Topic(
                name,
                tuple(
                    Partition(name, partition, _replicas(start + partition, brokers))
                    for partition in range(partitions_per_topic)
                ),
            )
        )
    return made


def _replicas(number: int, brokers: int) -> tuple[int, ...]:
    leader = number % brokers
    shift = number // brokers
    followers = (
        (leader + 1 + (shift + place) % (brokers - 1)) % brokers
        for place in range(REPLICATION_FACTOR - 1)
    )
    return tuple(FIRST_BROKER + broker for broker in (leader, *followers))


def moves(partitions: Iterable[Partition], brokers: int) -> list[Partition]:
    """One replica of each gives way to the next broker that has none; in turn the 1st, 2nd, 3rd."""
    moved = []
    for number, item in enumerate(partitions):
        place = number % len(item.replicas)
        new = item.replicas[place]
        while new in item.replicas:
            new = FIRST_BROKER + (new - FIRST_BROKER + 1) % brokers
        replicas = (*item.replicas[:place], new, *item.replicas[place + 1 :])
        moved.append(item._replace(replicas=replicas))
    return moved


def reassignment_payload(plan: Iterable[Partition]) -> bytes:
    """/admin/reassign_partitions."""
    return _encode({"version": 1, "partitions": [item._asdict() for item in plan]})


def preferred_election_payload(partitions: Iterable[Partition]) -> bytes:
    """/admin/preferred_replica_election."""
    chosen = [{"topic": item.topic, "partition": item.partition} for item in partitions]
    return _encode({"version": 1, "partitions": chosen})


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
