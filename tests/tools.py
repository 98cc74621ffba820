"""Kafka's tools as the steps of a scenario run them: klamm's own, on the scenario's store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from admin.cluster_topics import ClusterAdmin
from admin.topic_command import Services, run_topic_command
from cluster.errors import UsageError
from placement.draws import JavaRandom
from runtime.scenario import ToolResult
from zk.store import Store


def topic_tool(name: str, args: Sequence[str], store: Store) -> ToolResult:
    """Run kafka-topics with ``--zookeeper`` meaning ``store``."""
    if name != "TopicCommand":
        raise UsageError(f"there is no tool {name} yet")

    @contextlib.contextmanager
    def open_store(_: str) -> Iterator[Store]:
        yield store

    @contextlib.contextmanager
    def open_cluster(address: str) -> Iterator[ClusterAdmin]:
        raise UsageError(f"a scenario's tools work on ZooKeeper, not on {address}")
        yield

    services = Services(open_store, open_cluster, JavaRandom(0), lambda _: None)
    result = run_topic_command(args, services)
    return ToolResult(result.stdout, result.stderr, result.exit_code)
