"""A controller's event thread, ended at any time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from klamm.controller.kafka_controller import KafkaController
from klamm.world.real.running_node import EventThread
from tests.unit.controller.cluster import Cluster
from tests.waiting import wait_until


@pytest.fixture
def controller() -> KafkaController:
    return Cluster().start(0).controllers[0]


@pytest.fixture
def thread(controller: KafkaController) -> Iterator[EventThread]:
    """The thread of the controller, which the test starts."""
    found = EventThread(controller, controller.clock)
    yield found
    found.kill()


@pytest.mark.parametrize("end", [EventThread.kill, EventThread.stop])
def test_a_thread_that_was_ended_before_it_started_ends(
    controller: KafkaController, thread: EventThread, end: Callable[[EventThread], None]
) -> None:
    before = threading.active_count()
    end(thread)
    if end is EventThread.stop:
        controller.step()
    thread.start()
    thread.kill()
    assert threading.active_count() == before


def test_an_event_that_arrives_while_the_thread_goes_to_sleep_wakes_it(
    controller: KafkaController, thread: EventThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut_down_meanwhile() -> None:
        monkeypatch.undo()
        controller.shutdown()

    monkeypatch.setattr(controller, "next_due_ms", shut_down_meanwhile)
    thread.start()
    assert wait_until(lambda: controller.is_shut_down, what="the event that arrived meanwhile")


def test_a_timer_that_is_centuries_away_does_not_end_the_thread(
    controller: KafkaController, thread: EventThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "next_due_ms", lambda: 1e17)
    thread.start()
    for _ in range(2):
        controller.on_candidacy_changed()
        wait_until(lambda: not controller.events.has_work())
    assert thread._thread.is_alive()


def test_a_paused_thread_processes_no_event(
    controller: KafkaController, thread: EventThread
) -> None:
    thread.pause()
    thread.start()
    controller.on_candidacy_changed()
    assert not threading.Event().wait(0.05)
    assert controller.events.has_work()
    thread.resume()
    wait_until(lambda: not controller.events.has_work())


@pytest.mark.parametrize("end", [EventThread.kill, EventThread.stop])
def test_the_end_of_a_thread_waits_for_the_event_in_progress(
    controller: KafkaController,
    thread: EventThread,
    end: Callable[[EventThread], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step, has_begun, may_end = controller.step, threading.Event(), threading.Event()

    def slow_step() -> bool:
        has_begun.set()
        may_end.wait()
        return step()

    monkeypatch.setattr(controller, "step", slow_step)
    thread.start()
    has_begun.wait()
    ending = threading.Thread(target=end, args=(thread,))
    ending.start()
    ending.join(0.05)
    is_waiting = ending.is_alive()
    may_end.set()
    ending.join()
    assert is_waiting
    assert not thread._thread.is_alive()


def test_a_thread_that_is_stopped_lets_its_controller_resign_even_if_it_is_paused(
    controller: KafkaController, thread: EventThread
) -> None:
    before = threading.active_count()
    thread.start()
    thread.pause()
    thread.stop()
    assert threading.active_count() == before
    assert controller.is_shut_down
    assert not controller.is_active
