"""Each fault of network links stops, holds or delays the messages that it names, and no others."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.requests import Address, Message
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, Verdict, play, verdict_of
from klamm.zk.store import SessionEvent, SessionState, StoreEvent, WatchEvent, WatchKind
from tests.sim.worlds import three_brokers

HEAD = """
drill: faults
about: a fault of the network
always: all
cluster:
  brokers: {brokers}
  controllers: [0]
  config: {{replica.lag.time.max.ms: 2000, replica.socket.timeout.ms: 1500}}
  topics: {{t: [[1, 2]]}}
steps:
"""
RECOVERS = "eventually: {within: 90s, healthy: true}\n"


def run(steps: str, brokers: int = 3) -> tuple[Verdict, Counter[str]]:
    """Run a drill; return its verdict, and how many messages of each kind arrived at each party
    during its steps, as in ``FetchRequest 2 -> 1``."""
    drill = parse_drill(HEAD.format(brokers=brokers) + steps + RECOVERS, "d.yaml")
    world = drill.simulated_world(NO_QUIRKS, 0)
    arrived: Counter[str] = Counter()
    deliver = world.transport.deliver

    def counted(message: Message) -> None:
        if world.transport.faults:
            source, destination = message.source, message.destination
            kind = type(message.body).__name__
            arrived[
                f"{kind} {source.role[0]}{source.id} -> {destination.role[0]}{destination.id}"
            ] += 1
        deliver(message)

    world.transport.deliver = counted  # type: ignore[method-assign]
    verdict = verdict_of(play(drill, SimulatedDriver(world)))
    return verdict, arrived


def passed(steps: str, brokers: int = 3) -> Counter[str]:
    """Run a drill that passes; return what arrived."""
    verdict, arrived = run(steps, brokers)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())
    return arrived


def holds(steps: str) -> bool:
    """Run a drill that passes."""
    return passed(steps) is not None


def test_a_cut_in_one_direction_lets_the_other_direction_through() -> None:
    arrived = passed("""
  - cut: {from: 1, to: 2}
  - produce: {t-0: 10}
    until: {isr: {t-0: [1]}, acknowledged: {t-0: 10}}
""")
    assert not arrived["FetchResponse b1 -> b2"]
    arrived = passed("""
  - cut: {from: 2, to: 1}
  - produce: {t-0: 10}
    until: {isr: {t-0: [1]}, acknowledged: {t-0: 10}}
""")
    assert arrived["FetchResponse b1 -> b2"]
    assert not arrived["FetchRequest b2 -> b1"]


def test_a_broker_can_be_cut_off_from_the_controller_alone() -> None:
    arrived = passed("""
  - cut: {between: [1, controller], only: control}
  - produce: {t-0: 10}
    until: {acknowledged: {t-0: 10}}
  - kill: 2
  - wait: 6s
    expect: {isr: {t-0: [1]}}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1
  - wait: 5s
    expect: {exists: /brokers/topics/u/partitions/0/state, hosts: {1: [t-0]}}
""")
    assert not [kind for kind in arrived if "c0" in kind and "b1" in kind]
    assert arrived["ProduceRequest c1 -> b1"]


def test_the_answers_to_a_broker_that_the_controller_cannot_hear_are_repeated_without_harm() -> (
    None
):
    arrived = passed("""
  - cut: {from: 1, to: controller, only: control}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1
  - wait: 70s
    expect: {hosts: {1: [t-0, u-0]}}
""")
    assert arrived["LeaderAndIsrRequest c0 -> b1"] == 3
    assert not arrived["LeaderAndIsrResponse b1 -> c0"]


def test_a_broker_can_be_cut_off_from_clients_alone() -> None:
    arrived = passed("""
  - cut: {between: [1, clients]}
  - produce: {t-0: 10}
  - wait: 5s
    expect: {isr: {t-0: [1, 2]}, acknowledged: {t-0: 0}}
""")
    assert not arrived["ProduceRequest c1 -> b1"]
    assert arrived["MetadataResponse b2 -> c1"]


def test_a_split_in_three_parts_leaves_each_part_to_itself() -> None:
    arrived = passed(
        """
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1:2:3:4
    until: {healthy: true}
  - cut: {between: [[0, clients], [1, 2], [3, 4]]}
  - wait: 3s
  - heal_network
  - produce: {u-0: 10}
    until: {acknowledged: {u-0: 10}}
  - cut: {between: [[0], [1, 2, clients], [3, 4]]}
  - produce: {u-0: 10}
  - wait: 10s
    expect: {acknowledged: {u-0: 10}, isr: {u-0: [1, 2, 3, 4]}}
""",
        brokers=5,
    )
    assert arrived["FetchRequest b2 -> b1"]
    assert not arrived["FetchRequest b3 -> b1"]
    assert not arrived["AlterIsrRequest b1 -> c0"]


def test_what_is_clogged_arrives_in_order_when_the_network_is_healed() -> None:
    arrived = passed("""
  - clog: {from: controller, to: [1, 2]}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1
  - reassign: {u-0: [2]}
  - wait: 10s
    expect: {hosts: {1: [t-0]}, reassigning: [u-0]}
  - heal_network:
    until: {reassigning: [], replicas: {u-0: [2]}, hosts: {1: [t-0], 2: [t-0, u-0]}}
    within: 5s
""")
    assert not [kind for kind in arrived if kind.endswith("c0 -> b1")]


@pytest.mark.parametrize(("ms", "within"), [(100, "300ms"), (2000, "8200ms")])
def test_a_delay_adds_to_every_message_in_its_direction(ms: int, within: str) -> None:
    steps = f"""
  - delay: {{from: clients, to: 1, ms: {ms}}}
  - produce: {{t-0: 10}}
    until: {{acknowledged: {{t-0: 10}}}}
    within: {within}
"""
    assert holds(steps)
    verdict, _ = run(steps.replace(within, f"{ms - 10}ms"))
    assert verdict.outcome is Outcome.STUCK


def test_control_requests_are_lost_repeated_and_reordered_without_harm() -> None:
    arrived = passed("""
  - degrade_network: {between: [controller, others], only: control, loss: 0.3, repetition: 0.5,
      reordering: 0.5}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1:2,2:1
  - reassign: {u-0: [2, 0], u-1: [0, 1]}
    until: {reassigning: [], replicas: {u-0: [2, 0], u-1: [0, 1]}, isr: {u-0: [2, 0], u-1: [0, 1]}}
    within: 5min
""")
    assert arrived["LeaderAndIsrRequest c0 -> b1"]


def test_a_broker_that_is_cut_off_from_zookeeper_leads_until_its_session_expires() -> None:
    assert holds("""
  - cut: {between: [1, zookeeper]}
  - produce: {t-0: 10}
    until: {acknowledged: {t-0: 10}}
    within: 1s
    expect: {leader: {t-0: 1}}
  - wait: 1ms
    until: {brokers: [0, 2], leader: {t-0: 2}, isr: {t-0: [2]}}
    within: 2s
  - wait: 10s
    expect: {brokers: [0, 2]}
  - heal_network:
    until: {brokers: [0, 1, 2], isr: {t-0: [1, 2]}}
    within: 2s
""")


def test_a_paused_broker_does_not_reconnect_when_the_network_is_healed() -> None:
    assert holds("""
  - pause: 1
  - cut: {between: [1, zookeeper]}
  - heal_network:
  - wait: 9s
    expect: {brokers: [0, 2]}
  - resume: 1
    until: {brokers: [0, 1, 2]}
""")


def test_a_short_cut_costs_no_session() -> None:
    assert holds("""
  - cut: {between: [others, zookeeper]}
  - create_znode: {/admin/delete_topics/t: null}
  - wait: 2s
    until: {exists: /brokers/topics/t, brokers: [0, 1, 2]}
    within: 1ms
  - heal_network:
    until: {deleted: t, brokers: [0, 1, 2], controller_epoch: 1}
""")


@pytest.mark.parametrize(
    ("direction", "is_created"),
    [("from: controller, to: zookeeper", False), ("from: zookeeper, to: controller", True)],
)
def test_a_write_arrives_if_only_its_reply_is_lost(direction: str, is_created: bool) -> None:
    state = "/brokers/topics/u/partitions/0/state"
    assert holds(f"""
  - before: {{event: TopicChange, operation: 6}}
    cut: {{{direction}}}
  - run: topics --zookeeper {{zk}} --create --topic u --replica-assignment 1
  - wait: 1s
    until: {{{"exists" if is_created else "absent"}: {state}}}
    within: 1ms
  - heal_network:
    until: {{leader: {{u-0: 1}}}}
""")


def test_a_controller_that_is_cut_off_believes_until_it_reaches_zookeeper_again() -> None:
    head = HEAD.replace("controllers: [0]", "controllers: [0, 1]")
    drill = parse_drill(
        head.format(brokers=3)
        + """
  - cut: {between: [controller, zookeeper]}
  - wait: 10s
    until: {controller_epoch: 2}
""",
        "d.yaml",
    )
    world = drill.simulated_world(NO_QUIRKS, 0)
    list(play(drill, SimulatedDriver(world)))
    controllers = [world.nodes[id_].node.controller for id_ in (0, 1)]
    deposed = min(
        (one for one in controllers if one is not None), key=lambda one: one.context.epoch
    )
    assert deposed.is_active
    world.transport.heal()
    assert world.run_until(lambda: not deposed.is_active, timeout_ms=1_000)
    assert sum(one is not None and one.is_active for one in controllers) == 1


def test_replies_and_watches_arrive_late_and_in_order() -> None:
    assert holds("""
  - delay: {from: zookeeper, to: controller, ms: 1000}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1:2
    expect: {absent: /brokers/topics/u/partitions}
  - wait: 2s
    until: {leader: {u-0: 1}}
    within: 60s
  - heal_network
  - run: topics --zookeeper {zk} --delete --topic u
    until: {deleted: u}
""")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("", id="the first connection"),
        pytest.param("  - pause: 0\n  - wait: 1s\n  - resume: 0\n", id="a new connection"),
        pytest.param(
            "  - pause: 0\n  - wait: 20s\n  - {resume: 0, until: {controller: moved}}\n",
            id="a new session",
        ),
    ],
)
def test_a_lagging_follower_shows_an_earlier_state_that_never_goes_back(before: str) -> None:
    assert holds(f"""
  - lag_zookeeper: {{broker: 0, ms: 5000}}
{before}
  - run: topics --zookeeper {{zk}} --create --topic u --replica-assignment 1:2
  - wait: 4s
    until: {{absent: /brokers/topics/u/partitions}}
    within: 1ms
  - wait: 2s
    until: {{leader: {{u-0: 1}}}}
    within: 10s
  - heal_network
  - run: topics --zookeeper {{zk}} --delete --topic u
    until: {{deleted: u}}
    within: 3s
""")


def test_the_clock_of_a_broker_is_skewed_until_everything_is_healed() -> None:
    drill = parse_drill(
        HEAD.format(brokers=3)
        + """
  - skew_clock: {broker: 1, ms: -3600000}
  - kill: 1
    until: {unregistered: 1}
  - start: 1
    until: {healthy: true}
""",
        "d.yaml",
    )
    world = drill.simulated_world(NO_QUIRKS, 0)
    *_, verdict = play(drill, SimulatedDriver(world))
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())  # type: ignore[union-attr]
    registered = [
        int(json.loads(world.server.tree.nodes[f"/brokers/ids/{id_}"].data or b"")["timestamp"])
        for id_ in (0, 1)
    ]
    assert -3_600_000 < registered[1] - registered[0] < -3_500_000
    world.clocks.heal()
    assert world.clocks[1].now_ms() == world.clock.now_ms()


@pytest.mark.parametrize(
    ("event", "goes_on"),
    [
        pytest.param(SessionEvent(SessionState.CONNECTED), True, id="connected"),
        pytest.param(SessionEvent(SessionState.EXPIRED), True, id="expired"),
        pytest.param(SessionEvent(SessionState.AUTH_FAILED), True, id="not authenticated"),
        pytest.param(SessionEvent(SessionState.DISCONNECTED), False, id="disconnected"),
        pytest.param(WatchEvent(WatchKind.DELETED, "/c"), False, id="a znode has changed"),
    ],
)
def test_what_waits_for_a_session_goes_on_when_its_state_is_known_again(
    event: StoreEvent, goes_on: bool
) -> None:
    world = three_brokers()
    actors, links = world.scheduler.actors, world._zookeeper_links
    waiting = [actors[Address(role, id_)] for id_ in (0, 1) for role in ("broker", "controller")]
    for actor in waiting:
        actor.waiting = True
    links._on_event(0, event)
    assert [actor.waiting for actor in waiting] == [not goes_on, not goes_on, True, True]
    assert [actor in world._agenda._to_recheck for actor in waiting[:2]] == [goes_on, goes_on]


def test_a_node_stops_when_its_controller_has_waited_for_a_slow_zookeeper() -> None:
    assert holds("""
  - delay: {from: 0, to: zookeeper, ms: 400}
  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 1
  - stop: 0
  - until: {brokers: [1, 2]}
  - heal_network
  - start: 0
    until: {leader: {u-0: 1}}
""")
