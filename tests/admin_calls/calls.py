"""Admin calls of client libraries: what each gets, and what must hold after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from klamm.admin.configs.config_resource import TOPICS, ConfigResource
from klamm.server.cluster_server import ClusterServer
from tests.waiting import wait_until

RECORDS: Final = 10
"""Records in partition 0 of a call's topic."""
COMMITTED: Final = 5
"""The offset of this partition that the call's group has committed."""


class Given(NamedTuple):
    """What a call gets: a topic of two partitions, with replicas 0, 1 and 1, 2, and a group."""

    server: ClusterServer
    topic: str
    group: str

    def partitions(self, topic: str) -> int:
        """Return the number of partitions: 0 if there is no such topic."""
        if topic not in self.server.admin.list_topics():
            return 0
        return len(self.server.admin.describe_topics([topic])[0].partitions)


class Call(NamedTuple):
    """``make`` makes the call; ``check`` asserts what must then hold for its result."""

    make: Callable[[Any, Given], Any]
    check: Callable[[Given, Any], None]


class NotRun(NamedTuple):
    """Why a method has no test."""

    reason: str


class Library(NamedTuple):
    """A client library: its admin client, how a call is made with a new one, and all calls.

    ``others`` are the methods that send no admin request.
    """

    admin_client: type
    run: Callable[[Call, Given, list[str]], Any]
    calls: Mapping[str, Call | NotRun]
    others: frozenset[str]


def gives(expected: object) -> Callable[[Given, Any], None]:
    """Check that the result is ``expected``."""

    def check(_: Given, result: Any) -> None:
        assert result == expected, result

    return check


def has_topic(given: Given, result: Any) -> None:
    assert given.topic in result, result


def has_group(given: Given, result: Any) -> None:
    assert given.group in result, result


def topic_is_created(given: Given, _: Any) -> None:
    wait_until(lambda: given.partitions(f"new-{given.topic}") == 2)


def topic_is_deleted(given: Given, _: Any) -> None:
    wait_until(lambda: given.partitions(given.topic) == 0)


def has_three_partitions(given: Given, _: Any) -> None:
    wait_until(lambda: given.partitions(given.topic) == 3)


def retention_is_5(given: Given, _: Any) -> None:
    resource = ConfigResource(TOPICS, given.topic)
    assert given.server.admin.overrides([resource])[resource] == {"retention.ms": "5"}


def is_moved(given: Given, _: Any) -> None:
    def replicas() -> list[int]:
        topic = given.server.admin.describe_topics([given.topic])[0]
        return list(topic.partitions[0].replicas)

    wait_until(lambda: replicas() == [0, 2])
