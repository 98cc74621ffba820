"""Connections, randomness and time that Kafka's tools get from their caller."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec

from klamm.placement.draws import IntSource
from klamm.placement.pools import Pools
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin


class ToolServices(msgspec.Struct, frozen=True, kw_only=True):
    """Connections, randomness and time for one run of a tool.

    ``open_store`` connects to a ZooKeeper connect string, ``open_cluster`` to the address of a
    running cluster; both raise EnvironmentProblem if no server responds. ``before_write`` is called
    before the first write to a ZooKeeper, and may raise NotKlamm. ``source`` draws the start index
    and the shift of placements. ``now_ms`` and ``sleep_ms`` time the moves between log directories.
    ``pools``: kafka-topics with --zookeeper places topics inside these pools.
    """

    open_store: Callable[[str], AbstractContextManager[Store]]
    open_cluster: Callable[[str], AbstractContextManager[KafkaAdmin]]
    before_write: Callable[[KafkaZkClient], None]
    source: IntSource
    now_ms: Callable[[], float]
    sleep_ms: Callable[[float], None]
    pools: Pools | None = None
