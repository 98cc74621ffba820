"""The backends that the conformance suite runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.factories import KazooFactory, MemoryFactory, StoreFactory
from zk.store import Store


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
