"""The queue: order, preemption, timers, copies, and what it measures."""

from __future__ import annotations

import copy
import threading

from klamm.controller.event_manager import EventManager, QueuedEvent
from klamm.controller.events import (
    BrokerChange,
    ControllerEvent,
    ControllerState,
    CreateTopicsTimeout,
    Expire,
    PartitionModifications,
    RequestTimeout,
    TopicChange,
)
from klamm.world.clock import VirtualClock


class Log:
    """Keeps what it is given to process or to preempt; an event may cause another."""

    def __init__(self) -> None:
        self.processed: list[QueuedEvent] = []
        self.preempted: list[ControllerEvent] = []
        self.states: list[ControllerState] = []
        self.manager: EventManager | None = None
        self.clock: VirtualClock | None = None

    def process(self, queued: QueuedEvent) -> None:
        assert self.manager is not None
        self.processed.append(queued)
        self.states.append(self.manager.state)
        if queued.event == TopicChange():
            assert self.clock is not None
            self.clock.advance_to(self.clock.monotonic_ms() + 20)
            self.manager.put_caused(BrokerChange())

    def preempt(self, event: ControllerEvent) -> None:
        self.preempted.append(event)

    @property
    def events(self) -> list[ControllerEvent]:
        return [queued.event for queued in self.processed]


def made() -> tuple[EventManager, Log, VirtualClock]:
    clock, log = VirtualClock(), Log()
    log.manager, log.clock = EventManager(clock, log), clock
    return log.manager, log, clock


def drain(manager: EventManager) -> None:
    while manager.step():
        pass


def test_events_are_processed_in_the_order_they_were_put() -> None:
    manager, log, _ = made()
    assert not manager.step()
    for creation in range(3):
        manager.put(CreateTopicsTimeout(creation))
    assert manager.event_queue_size == 3
    assert manager.step()
    assert log.events == [CreateTopicsTimeout(0)]
    drain(manager)
    assert log.events == [CreateTopicsTimeout(n) for n in range(3)]


def test_an_event_names_its_cause() -> None:
    manager, log, _ = made()
    manager.put(Expire())
    topic_change = manager.put(TopicChange())
    drain(manager)
    assert [queued.cause_id for queued in log.processed] == [0, 0, topic_change.event_id]
    assert [queued.event_id for queued in log.processed] == [1, 2, 3]


def test_clear_and_put_answers_the_requests_that_it_drains() -> None:
    manager, log, _ = made()
    manager.put(TopicChange())
    manager.put(BrokerChange())
    manager.clear_and_put(Expire())
    assert log.preempted == [TopicChange(), BrokerChange()]
    drain(manager)
    assert log.events == [Expire()]


def test_a_timeout_of_a_request_stays_in_a_cleared_queue_and_keeps_its_cause() -> None:
    manager, log, _ = made()
    cause = manager.put(Expire())
    manager.step()
    with manager.processing(cause):
        manager.put_caused(CreateTopicsTimeout(1))
    manager.put(BrokerChange())
    manager.clear_and_put(Expire())
    drain(manager)
    assert log.preempted == [BrokerChange()]
    processed = [(queued.event, queued.cause_id) for queued in log.processed[1:]]
    assert processed == [(CreateTopicsTimeout(1), cause.event_id), (Expire(), 0)]


def test_timers_join_the_queue_when_they_are_due() -> None:
    manager, log, clock = made()
    manager.schedule(RequestTimeout(2), 200)
    manager.schedule(RequestTimeout(1), 100)
    assert manager.next_due_ms() == 100
    assert not manager.has_work()
    assert not manager.step()
    clock.advance_to(100)
    manager.put(BrokerChange())
    assert manager.has_work()
    drain(manager)
    assert log.events == [BrokerChange(), RequestTimeout(1)]
    clock.advance_to(250)
    drain(manager)
    assert log.events[2:] == [RequestTimeout(2)]
    assert manager.next_due_ms() is None


def test_timers_of_one_instant_keep_their_order() -> None:
    manager, log, clock = made()
    for broker_id in (3, 1, 2):
        manager.schedule(RequestTimeout(broker_id), 5)
    clock.advance_to(5)
    drain(manager)
    assert log.events == [RequestTimeout(3), RequestTimeout(1), RequestTimeout(2)]


def test_cancelled_timers_never_fire() -> None:
    manager, log, clock = made()
    for broker_id in (1, 2, 3):
        manager.schedule(RequestTimeout(broker_id), 5 * broker_id)
    manager.cancel(lambda event: event != RequestTimeout(2))
    clock.advance_to(100)
    drain(manager)
    assert log.events == [RequestTimeout(2)]


def test_the_time_of_events_in_the_queue_and_in_processing_is_measured() -> None:
    manager, log, clock = made()
    manager.put(TopicChange())
    clock.advance_to(7)
    drain(manager)
    assert (manager.event_queue_time_ms.count, manager.event_queue_time_ms.sum_ms) == (2, 7)
    timer = manager.rate_and_time["TopicChangeRateAndTimeMs"]
    assert (timer.count, timer.sum_ms) == (1, 20)
    assert log.states == [ControllerState.TOPIC_CHANGE, ControllerState.BROKER_CHANGE]
    assert manager.state is ControllerState.IDLE


def test_on_put_is_called_after_each_event_that_is_put() -> None:
    manager, _, _ = made()
    woken: list[int] = []
    manager.on_put = lambda: woken.append(manager.event_queue_size)
    manager.put(BrokerChange())
    manager.clear_and_put(Expire())
    assert woken == [1, 1]


def test_puts_from_many_threads_all_arrive() -> None:
    manager, log, _ = made()
    threads = [
        threading.Thread(
            target=lambda first: [manager.put(CreateTopicsTimeout(first + n)) for n in range(500)],
            args=(1000 * number,),
        )
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        manager.step()
    drain(manager)
    assert len({queued.event_id for queued in log.processed}) == 2000
    for number in range(4):
        mine = [e for e in log.events if isinstance(e, CreateTopicsTimeout)]
        own = [e.number for e in mine if e.number // 1000 == number]
        assert own == sorted(own)


def test_a_copy_has_its_own_queue() -> None:
    manager, log, _ = made()
    manager.put(BrokerChange())
    twin = copy.deepcopy(log)
    assert twin.manager is not None
    drain(twin.manager)
    assert twin.events == [BrokerChange()]
    assert manager.event_queue_size == 1
    assert not log.processed


def test_events_of_one_kind_right_behind_are_processed_together() -> None:
    clock = VirtualClock()
    taken: list[list[ControllerEvent]] = []

    class Taker(Log):
        def process(self, queued: QueuedEvent) -> None:
            assert self.manager is not None
            following = self.manager.take_following(PartitionModifications)
            taken.append([queued.event, *(each for _, each in following)])

    log = Taker()
    manager = log.manager = EventManager(clock, log)
    a, b, c = (PartitionModifications(topic) for topic in "abc")
    for event in (a, b, TopicChange(), c):
        manager.put(event)
    while manager.step():
        pass
    # What came in between keeps its place.
    assert taken == [[a, b], [TopicChange(), c]]
    assert manager.event_queue_time_ms.count == 4
