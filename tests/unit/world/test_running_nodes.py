"""Nodes of a real cluster: how they start, run and stop, and the listeners that are notified."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from klamm.brokers.broker import KafkaServer
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError, WrongState
from klamm.cluster.requests import Address, Message, UpdateMetadataResponse
from klamm.controller.kafka_controller import KafkaController
from klamm.world.journal.journal import MemoryJournal
from klamm.world.node import Node
from klamm.world.real.cluster import RealCluster
from klamm.world.real.running_node import MortalJournal, MortalTransport, RunningNode
from klamm.world.real.running_nodes import RunningNodes
from klamm.zk.kazoo_session import KazooSession
from tests.unit.controller.cluster import Cluster


class Session:
    """A session of which only the listeners and the heartbeats are known."""

    def __init__(self, last_zxid: int) -> None:
        self.last_zxid = last_zxid
        self.listeners: list[object] = []
        self.is_suspended = False

    def add_listener(self, listener: object) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: object) -> None:
        self.listeners.remove(listener)

    def suspend(self) -> None:
        self.is_suspended = True

    def resume(self) -> None:
        self.is_suspended = False


class Sent:
    """Transport that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)


def node(controller: KafkaController | None = None, zxid: int = 1) -> RunningNode:
    return RunningNode(
        node=Node(broker=cast("KafkaServer", None), controller=controller),
        session=cast("KazooSession", Session(zxid)),
        is_pooled=False,
        transport=MortalTransport(Sent()),
        journal=MortalJournal(MemoryJournal()),
    )


@pytest.fixture
def changes() -> list[tuple[int, bool]]:
    return []


@pytest.fixture
def nodes(changes: list[tuple[int, bool]]) -> RunningNodes:
    found = RunningNodes()
    found.on_change = lambda broker_id, is_running: changes.append((broker_id, is_running))
    return found


def test_a_broker_starts_runs_and_stops(
    nodes: RunningNodes, changes: list[tuple[int, bool]]
) -> None:
    one = node()
    started = nodes.add(1, one)
    nodes.add(0, node())
    assert (nodes.is_starting(1), nodes.starting_broker_ids, started.done()) == (
        True,
        [0, 1],
        False,
    )
    nodes.on_started(1)
    assert (nodes.is_starting(1), nodes.starting_broker_ids) == (False, [0])
    assert started.result(0) is None
    assert nodes[1] is one
    drained = nodes.drain_of(1)
    assert nodes.drain_of(1) is drained and not drained.done()
    assert nodes.take(1) is one
    assert drained.result(0) is None
    assert not nodes.drain_of(1).done(), "of the next process"
    assert changes == [(1, True), (1, False)]
    with pytest.raises(WrongState, match="broker 1 is not running"):
        nodes.take(1)
    assert changes == [(1, True), (1, False)]


def test_waiting_for_the_start_of_a_broker_fails_once_it_is_stopped(nodes: RunningNodes) -> None:
    started = nodes.add(1, node())
    nodes.take(1)
    with pytest.raises(KlammError, match="broker 1 was stopped before it was registered"):
        started.result(0)
    nodes.on_started(1)
    assert not nodes.is_starting(1)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KlammError("no", hint="wait"), "no (wait)"),
        (KlammError("no"), "no"),
        (ValueError("no"), "no"),
    ],
)
def test_the_reason_why_a_broker_did_not_start_is_kept_until_the_next_start(
    nodes: RunningNodes, error: Exception, text: str
) -> None:
    one = node()
    started = nodes.add(1, one)
    assert nodes.give_up(1, error) == (one, started)
    assert nodes.give_up(1, error) == (None, None)
    assert (nodes.failures, nodes.is_starting(1), 1 in nodes) == ({1: text}, False, False)
    nodes.add(1, one)
    assert nodes.failures == {}


def test_the_end_of_a_broker_that_failed_is_awaited_once(nodes: RunningNodes) -> None:
    may_end = threading.Event()
    ending = threading.Thread(target=may_end.wait)
    ending.start()
    nodes.on_failed(1, "its disk failed", ending)
    assert nodes.failures == {1: "its disk failed"}
    threading.Timer(0.02, may_end.set).start()
    nodes.await_end(1)
    assert not ending.is_alive()
    nodes.await_end(1)


def test_a_running_node_needs_no_listener() -> None:
    nodes = RunningNodes()
    started = nodes.add(1, node())
    nodes.on_started(1)
    assert started.done()
    nodes.take(1)
    assert not nodes


def test_a_controlled_shutdown_is_over_once(nodes: RunningNodes) -> None:
    nodes.on_drained(1)
    drained = nodes.drain_of(1)
    nodes.on_drained(1)
    nodes.on_drained(1)
    assert drained.result(0) is None


def test_the_newest_zxid_of_all_sessions(nodes: RunningNodes) -> None:
    assert nodes.newest_zxid == 0
    for broker_id, zxid in ((1, 5), (2, 9), (3, 7)):
        nodes.add(broker_id, node(zxid=zxid))
    assert nodes.newest_zxid == 9


def test_the_active_controller_is_the_one_with_the_highest_epoch(nodes: RunningNodes) -> None:
    cluster = Cluster()
    cluster.start(0, 1, candidates=(0, 1))
    nodes.add(2, node())
    real = RealCluster.__new__(RealCluster)  # without a ZooKeeper
    real.nodes = nodes
    assert (real.active_controller, real.controller_context) == (None, None)
    for id_, controller in cluster.controllers.items():
        nodes.add(id_, node(controller))
    assert real.active_controller == 0
    # The session of 0 has expired, which it has not heard yet.
    cluster.expire(0, notify=False)
    cluster.paused.add(0)
    cluster.run()
    assert cluster.controllers[0].is_active
    assert (real.controller, real.active_controller) == (cluster.controllers[1], 1)
    nodes[1].pause()
    assert real.active_controller == 0
    nodes[1].resume()
    assert real.controller_context is cluster.controllers[1].context


def test_controllers_are_idle_when_none_has_an_event(nodes: RunningNodes) -> None:
    cluster = Cluster()
    cluster.start(0, 1, candidates=(0, 1))
    nodes.add(2, node())
    for id_, controller in cluster.controllers.items():
        nodes.add(id_, node(controller))
    assert nodes.is_idle
    for controller in cluster.controllers.values():
        controller.on_candidacy_changed()
    assert [controller.events.has_work() for controller in cluster.controllers.values()] == [
        True,
        True,
    ]
    assert not nodes.is_idle
    for id_ in (0, 1):
        nodes[id_].pause()
    assert nodes.is_idle
    nodes[1].resume()
    assert not nodes.is_idle


def test_nothing_comes_from_a_node_that_is_silent_or_reaches_it() -> None:
    sent, journal, cluster = Sent(), MemoryJournal(), Cluster()
    cluster.start(0)
    node().silence()  # it listens to nothing
    one = node()
    session = cast("Session", one.session)
    one.transport, one.journal = MortalTransport(sent), MortalJournal(journal)

    def listener(_: object) -> None:
        raise AssertionError

    one.listen(listener)
    assert session.listeners == [listener]
    message = Message(
        Address("broker", 1), Address("broker", 2), 1, UpdateMetadataResponse(Errors.NONE)
    )
    rows = [*cluster.journal.rows]
    one.transport.send(message)
    one.journal.append(rows)
    one.silence()
    one.transport.send(message)
    one.journal.append(rows)
    one.journal.flush()
    assert (sent.messages, session.listeners) == ([message], [])
    assert journal.rows == rows != []


def test_a_paused_node_sends_no_heartbeats() -> None:
    one = node()
    session = cast("Session", one.session)
    one.pause()
    assert (one.is_paused, session.is_suspended) == (True, True)
    one.resume()
    assert (one.is_paused, session.is_suspended) == (False, False)
    one.end_controller()
    one.kill_controller()
