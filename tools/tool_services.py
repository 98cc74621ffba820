"""Connections, random numbers and clock that the caller of a Kafka tool provides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import msgspec

from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.placement.draws import IntSource
from klamm.placement.pools import NO_POOLS, Pools
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin


class ToolServices(msgspec.Struct, frozen=True, kw_only=True):
    """Connections, random numbers and clock for one run of a tool.

    - ``open_store``: connects to ZooKeeper, given a connect string.
    - ``open_cluster``: connects to a running cluster, given its address. Like ``open_store``, it
      raises EnvironmentProblem if no server responds.
    - ``before_write``: called before the first write to ZooKeeper; may raise NotKlamm.
    - ``source``: random numbers for replica placement.
    - ``now_ms`` and ``sleep_ms``: clock for retries of log directory moves.
    - ``pools``: if set, kafka-topics with --zookeeper places topics inside these pools.
    """

    open_store: Callable[[str], AbstractContextManager[Store]]
    open_cluster: Callable[[str], AbstractContextManager[KafkaAdmin]]
    before_write: Callable[[KafkaZkClient], None]
    source: IntSource
    now_ms: Callable[[], float]
    sleep_ms: Callable[[float], None]
    pools: Pools = NO_POOLS

    @contextmanager
    def connected(
        self, zookeeper: str | None, server: str | None, *, writes: bool = False
    ) -> Iterator[ZooKeeperAdmin | KafkaAdmin]:
        """Context manager that yields an admin of ``zookeeper``, or of ``server`` if that is None.

        With ``writes``, an admin of ZooKeeper has passed ``before_write``.
        """
        if zookeeper is None:
            with self.open_cluster(server or "") as admin:
                yield admin
            return
        with self.open_store(zookeeper) as store:
            client = KafkaZkClient(store)
            if writes:
                self.before_write(client)
            yield ZooKeeperAdmin(client, self.source, self.pools)
