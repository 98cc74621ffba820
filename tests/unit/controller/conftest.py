"""What tests of controllers share."""

from __future__ import annotations

import pytest

from tests.unit.controller.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Brokers 0, 1 and 2, of which broker 0 is the controller; how they started is forgotten."""
    made = Cluster().start(0, 1, 2)
    made.forget()
    return made
