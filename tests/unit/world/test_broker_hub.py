"""The thread that runs the brokers and clients of a real-world cluster."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from klamm.cluster.errors import KlammError
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.server.thread_failures import threads_watched
from klamm.world.actors import Actor
from klamm.world.clock import VirtualClock, WallClock
from klamm.world.live.broker_hub import BrokerHub
from klamm.world.live.hub_clients import HubClients
from klamm.world.transport import RoutedTransport
from klamm.zk.kazoo_pipeline import Completion
from tests.waiting import wait_until

ONE, TWO = Address("broker", 1), Address("broker", 2)
CLIENT = Address("client", 9)
WAIT_S = 10.0


class Calls(Actor):
    """An actor whose events are functions without arguments."""

    def __init__(self, address: Address, due_ms: float | None = None) -> None:
        super().__init__(address)
        self.due_ms = due_ms
        self.failures: list[BaseException] = []
        self.timers = 0

    def run_event(self) -> None:
        if not self.inbox:
            self.timers += 1
            self.due_ms = None
            return
        event = self.inbox.popleft()
        assert callable(event)
        event()

    def next_due_ms(self) -> float | None:
        return self.due_ms

    def on_failed(self, error: BaseException) -> None:
        self.failures.append(error)


class SharedCalls(Calls):
    is_shared = True


@pytest.fixture
def hub() -> Iterator[BrokerHub]:
    opened = BrokerHub(WallClock())
    opened.start()
    yield opened
    opened.close()


def fail() -> bool:
    raise ValueError("no")


def test_a_call_has_a_result_or_an_error_and_may_be_cancelled(hub: BrokerHub) -> None:
    called: list[str] = []
    with hub.held():
        cancelled = hub.call(lambda: called.append("cancelled"))
        last = hub.call(lambda: called.append("last"))
        assert cancelled.cancel()
        with pytest.raises(TimeoutError):
            last.result(0.05)
    last.result(WAIT_S)
    assert called == ["last"]
    assert hub.call(threading.get_ident).result(WAIT_S) != threading.get_ident()
    with pytest.raises(ValueError, match="no"):
        hub.call(fail).result(WAIT_S)
    assert hub.call(lambda: 3).result(WAIT_S) == 3


def test_events_run_one_by_one_and_those_of_unknown_actors_are_lost(hub: BrokerHub) -> None:
    seen: list[int] = []
    done = threading.Event()
    hub.add(Calls(ONE))
    hub.post(TWO, lambda: seen.append(-1))
    for number in range(5):
        hub.post(ONE, lambda number=number: seen.append(number))
    hub.post(ONE, done.set)
    assert done.wait(WAIT_S)
    assert seen == [0, 1, 2, 3, 4]
    hub.remove(ONE)
    hub.post(ONE, lambda: seen.append(-1))
    hub.call(lambda: None).result(WAIT_S)
    assert seen == [0, 1, 2, 3, 4]


def test_an_event_that_fails_is_kept_and_the_actor_goes_on(hub: BrokerHub) -> None:
    actor, done = Calls(ONE), threading.Event()
    hub.add(actor)
    for _ in range(101):
        hub.post(ONE, fail)
    hub.post(ONE, done.set)
    assert done.wait(WAIT_S)
    assert [address for address, _ in hub.errors] == [ONE] * 100
    assert len(actor.failures) == 101


@pytest.mark.parametrize("is_call_failing", [False, True])
def test_the_thread_ends_with_an_actor_on_which_others_depend(is_call_failing: bool) -> None:
    hub, ended = BrokerHub(WallClock()), threading.Event()
    queued: list[Future[int]] = []

    def fail_with_a_full_queue() -> None:
        if is_call_failing:
            hub.soon(fail)
        queued.append(hub.call(lambda: 5))
        fail()

    with threads_watched(lambda _: ended.set()):
        hub.start()
        hub.add(SharedCalls(ONE))
        hub.post(ONE, fail_with_a_full_queue)
        assert ended.wait(WAIT_S)
        assert queued[0].result(WAIT_S) == 5
        # From now on functions run on the caller's thread.
        assert hub.call(threading.get_ident).result(0) == threading.get_ident()
        with hub.held():
            pass
        hub.close()
        hub.close()


@pytest.mark.parametrize("how", ["held", "closed"])
def test_an_event_in_progress_ends_before_the_thread_is_held_or_closed(how: str) -> None:
    hub, began, may_end = BrokerHub(WallClock()), threading.Event(), threading.Event()
    seen: list[bool] = []

    def event() -> None:
        began.set()
        seen.append(may_end.wait(WAIT_S))

    hub.start()
    hub.add(Calls(ONE))
    hub.post(ONE, event)
    assert began.wait(WAIT_S)
    threading.Timer(0.05, may_end.set).start()
    if how == "held":
        with hub.held():
            assert seen == [True]
    hub.close()
    assert seen == [True]


def test_a_hub_that_was_never_started_can_be_closed() -> None:
    hub = BrokerHub(WallClock())
    hub.close()
    assert not hub.errors


def test_a_paused_actor_runs_its_events_when_it_is_resumed(hub: BrokerHub) -> None:
    seen: list[int] = []
    actor = Calls(ONE)
    hub.add(actor)
    hub.set_paused(ONE, True)
    hub.set_paused(TWO, True)
    hub.post(ONE, lambda: seen.append(1))
    hub.call(lambda: None).result(WAIT_S)
    assert (seen, hub.is_idle) == ([], True)
    hub.set_paused(ONE, False)
    wait_until(lambda: seen == [1])


def test_an_event_waits_for_another_thread_while_other_actors_run(hub: BrokerHub) -> None:
    seen: list[str] = []
    completion, other = Completion(), threading.Event()

    def waits() -> None:
        hub.wait(completion)
        seen.append("continued")

    hub.add(Calls(ONE))
    hub.add(Calls(TWO))
    hub.post(ONE, waits)
    hub.post(ONE, lambda: seen.append("next"))
    hub.post(TWO, other.set)
    assert other.wait(WAIT_S)
    assert (seen, hub.is_idle) == ([], False)
    completion.finish()
    wait_until(lambda: seen == ["continued", "next"])


def test_an_event_in_progress_is_not_resumed_after_its_actor_was_removed(hub: BrokerHub) -> None:
    seen: list[str] = []
    completion = Completion()

    def waits() -> None:
        hub.wait(completion)
        seen.append("continued")

    hub.add(Calls(ONE))
    hub.post(ONE, waits)
    hub.call(lambda: None).result(WAIT_S)
    hub.remove(ONE)
    completion.finish()
    hub.call(lambda: None).result(WAIT_S)
    hub.call(lambda: None).result(WAIT_S)
    assert seen == []


def test_a_timer_runs_when_it_is_due(hub: BrokerHub) -> None:
    begun_ms = WallClock().monotonic_ms()
    actor = Calls(ONE, begun_ms + 30)
    hub.add(actor)
    wait_until(lambda: actor.timers == 1)
    assert WallClock().monotonic_ms() - begun_ms >= 30


def test_a_timer_that_is_centuries_away_does_not_end_the_thread(hub: BrokerHub) -> None:
    hub.add(Calls(ONE, 1e17))
    assert hub.call(threading.get_ident).result(WAIT_S) != threading.get_ident()


@pytest.mark.parametrize(
    ("due_ms", "is_idle"), [(None, True), (2_000.0, False), (2_000.1, True), (0.0, False)]
)
def test_a_timer_that_is_due_soon_is_work(due_ms: float | None, is_idle: bool) -> None:
    hub = BrokerHub(VirtualClock())
    hub._scheduler.add(Calls(ONE, due_ms))
    assert hub.is_idle == is_idle
    hub.soon(lambda: None)
    assert not hub.is_idle, "a function is queued"


# -- clients


class PlayedClient:
    """A client that answers each message by one to broker 1."""

    def __init__(self, due_ms: float | None = None) -> None:
        self.address = CLIENT
        self.received: list[Message] = []
        self.due_ms = due_ms
        self.timers = 0
        self._messages: list[Message] = []

    def take_messages(self) -> list[Message]:
        messages, self._messages = self._messages, []
        return messages

    def receive(self, message: Message, now_ms: float) -> None:
        self.received.append(message)

    def on_timer(self, now_ms: float) -> None:
        self.timers += 1
        self.due_ms = None
        self._messages.append(Message(CLIENT, ONE, self.timers, Disconnected()))

    def next_due_ms(self) -> float | None:
        return self.due_ms


class Clients:
    def __init__(self, hub: BrokerHub) -> None:
        self.transport = RoutedTransport(random.Random(0))
        self.sent: list[Message] = []
        self.transport.register(ONE, self.sent.append)
        self.hub_clients = HubClients(hub, self.transport, WallClock())
        self.client = PlayedClient()
        self.hub_clients.add(self.client)

    def tell(self, number: int) -> None:
        self.transport.send(Message(ONE, CLIENT, number, Disconnected()))


@pytest.fixture
def clients(hub: BrokerHub) -> Clients:
    return Clients(hub)


def test_a_timer_that_a_call_sets_runs_and_its_messages_are_sent(clients: Clients) -> None:
    def set_timer(now_ms: float) -> float:
        clients.client.due_ms = now_ms
        return now_ms

    assert clients.hub_clients.call(set_timer).result(WAIT_S) <= WallClock().monotonic_ms()
    wait_until(lambda: clients.client.timers == 1 and len(clients.sent) == 1)
    with pytest.raises(ValueError, match="no"):
        clients.hub_clients.call(lambda _: fail()).result(WAIT_S)


def test_a_client_hears_of_the_end_of_a_broker_that_it_has_sent_to(clients: Clients) -> None:
    clients.hub_clients.call(lambda now_ms: setattr(clients.client, "due_ms", now_ms)).result()
    wait_until(lambda: clients.sent)
    clients.transport.unregister(ONE)
    wait_until(lambda: clients.client.received)
    assert clients.client.received == [Message(ONE, CLIENT, -1, Disconnected())]


def test_a_condition_is_checked_now_and_after_each_event(clients: Clients) -> None:
    received = clients.client.received
    wait = clients.hub_clients.when
    now = wait(CLIENT, lambda: True)
    two = wait(CLIENT, lambda: len(received) == 2)
    failing = wait(CLIENT, fail)
    cancelled = wait(CLIENT, lambda: len(received) == 1 and fail())
    now.result(WAIT_S)
    with pytest.raises(ValueError, match="no"):
        failing.result(WAIT_S)
    assert cancelled.cancel()
    clients.tell(1)
    wait_until(lambda: len(received) == 1)
    assert not two.done()
    clients.tell(2)
    two.result(WAIT_S)
    assert cancelled.cancelled()


def test_conditions_on_a_client_that_is_removed_or_unknown_fail(clients: Clients) -> None:
    waiting = clients.hub_clients.when(CLIENT, lambda: False)
    clients.hub_clients.remove(CLIENT)
    for future in (waiting, clients.hub_clients.when(CLIENT, lambda: True)):
        with pytest.raises(KlammError, match="was closed in the meantime"):
            future.result(WAIT_S)
    clients.tell(1)
    assert clients.client.received == []
