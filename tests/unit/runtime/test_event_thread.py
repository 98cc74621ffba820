"""A controller's event thread, ended at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from klamm.runtime.real.running_node import EventThread
from tests.unit.controller.cluster import Cluster


@pytest.mark.parametrize("end", [EventThread.kill, EventThread.stop])
def test_a_thread_that_was_ended_before_it_started_ends(
    end: Callable[[EventThread], None],
) -> None:
    cluster = Cluster()
    cluster.start(0)
    thread = EventThread(cluster.controllers[0], cluster.clock)
    before = threading.active_count()
    end(thread)
    if end is EventThread.stop:
        cluster.controllers[0].step()
    thread.start()
    thread.kill()
    assert threading.active_count() == before
