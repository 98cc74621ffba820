"""The backends and the kinds of log that the conformance suites run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.zk.store import Store
from tests.conformance.factories import KazooFactory, MemoryFactory, StoreFactory
from tests.conformance.replica_logs import IntervalLogFactory, LogFactory
from tests.conformance.segment_logs import SegmentLogFactory


@pytest.fixture(params=["memory", "kazoo"])
def store_factory(request: pytest.FixtureRequest) -> Iterator[StoreFactory]:
    """Opens stores on a server in memory, and on a real one."""
    factory: StoreFactory
    if request.param == "memory":
        factory = MemoryFactory()
    else:
        factory = KazooFactory(request.getfixturevalue("chroot"))
    yield factory
    factory.close()


@pytest.fixture
def store(store_factory: StoreFactory) -> Store:
    """One store."""
    return store_factory.open()


@pytest.fixture(params=["interval", "segment"])
def log_factory(request: pytest.FixtureRequest) -> Iterator[LogFactory]:
    """Opens logs of one kind: every test runs on each."""
    factory: LogFactory = (
        SegmentLogFactory() if request.param == "segment" else IntervalLogFactory()
    )
    yield factory
    factory.close()


@pytest.fixture
def log(log_factory: LogFactory) -> ReplicaLog:
    """One new, empty log."""
    return log_factory.create()
