"""What `klamm status` says of work that is under way, in the simulated world."""

from __future__ import annotations

import msgspec

from klamm.cli.status import queued_text, state_lines, work_lines
from klamm.cluster.status import (
    ControllerStatus,
    Deletion,
    FailedLogDir,
    FailoverState,
    JournalState,
    MalformedConfig,
    OtherController,
)
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.status import DEAD_LEADERS_LISTED, simulated_status
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.held_followers import hold, release
from tests.sim.deletions import delete_topics
from tests.sim.reassignments import brokers_up, reassign, with_topic
from tests.sim.worlds import active_controller, create_topic

T0 = TopicPartition("t", 0)


def shown(world: SimulatedWorld) -> tuple[ControllerStatus, list[str]]:
    status = active_controller(world).status()
    return status, work_lines(status)


def test_nothing_is_under_way() -> None:
    world = brokers_up()
    with_topic(world, (0, 1))
    assert shown(world)[1] == []


def test_a_deletion_and_a_reassignment_wait_for_a_dead_broker() -> None:
    world = brokers_up()
    with_topic(world, (0, 3), topic="gone")
    with_topic(world, (0, 1))
    with_topic(world, (0, 1), topic="s")
    world.kill(3)
    world.run_for(10_000)
    delete_topics(world, "gone")
    hold(world, 2)
    reassign(world, {T0: (2, 3), TopicPartition("s", 0): (0, 2)})
    world.run_for(5_000)
    status, lines = shown(world)
    assert lines == [
        "Deleting:    topic gone waits for broker 3",
        "Reassigning: t-0 from 0,1 to 2,3 waits for broker 3",
        "             s-0 from 0,1 to 0,2 is under way",
    ]
    assert status.deletions == [
        Deletion(
            topic="gone",
            waits_for_brokers=[3],
            waits_for_log_dirs_of=[],
            waits_for_reassignment=False,
        )
    ]
    assert status.reassignments[0].target == [2, 3]
    release(world, 2)
    world.start(3)
    world.run_for(10_000)
    assert shown(world)[1] == []


def test_a_deletion_waits_for_a_reassignment_and_of_many_some_are_shown() -> None:
    world = brokers_up()
    create_topic(world, "t", {n: (0, 1) for n in range(7)})
    world.run_for(3_000)
    hold(world, 2)
    reassign(world, {TopicPartition("t", n): (0, 2) for n in range(7)})
    world.run_for(2_000)
    delete_topics(world, "t")
    world.run_for(1_000)
    status, lines = shown(world)
    assert lines[:2] == [
        "Deleting:    topic t waits for its reassignment",
        "Reassigning: t-0 from 0,1 to 0,2 is under way",
    ]
    assert lines[-1] == "             and 2 more"
    assert status.partitions_being_reassigned == len(status.reassignments) == 7
    assert status.topics_to_be_deleted == ["t"]


def test_the_status_names_brokers_that_shut_down() -> None:
    world = brokers_up()
    active_controller(world).context.add_shutting_down_broker(2)
    assert shown(world)[1] == ["Stopping:    broker 2"]


def test_all_partitions_of_a_dead_leader_count_though_some_are_not_listed() -> None:
    world = brokers_up()
    count = DEAD_LEADERS_LISTED + 1
    create_topic(world, "t", {n: (3, 1) for n in range(count)})
    world.run_for(3_000)
    world.kill(3)
    store = world.open_store()
    status = simulated_status(world, store)
    store.close()
    [dead] = status.dead_leaders
    assert (dead.broker, dead.partition_count) == (3, count)
    assert len(dead.partitions) == DEAD_LEADERS_LISTED
    assert status.partitions_without_live_leader == count


def test_a_single_event_is_not_plural() -> None:
    status = active_controller(brokers_up()).status()
    waiting = {"0": 1, "1": 2}
    queued = msgspec.structs.replace(status, event_queue_size=1, requests_waiting=waiting)
    assert queued_text(queued) == "1 event, 3 requests"


OF_A_CLUSTER = """\
Controller:  broker 0, epoch 1, IDLE
Queued:      0 events, 0 requests
Topics:      1
Partitions:  2 OnlinePartition
Replicas:    4 OnlineReplica
Offline:     0 partitions; 1 without a live leader; 0 not led by their preferred replica

Broker  Rack  State        Live  Role        Partitions  Leads  Under-replicated
0       -     running      yes   controller  1           1      0
1       -     running      yes   candidate   2           0      0
2       -     running      yes   candidate   0           0      0
3       -     not running  yes   candidate   0           0      0

Broker 3 is dead but leads t-1: the controller elects other leaders when the broker's session \
expires, after at most 6000 ms

Malformed znodes that the controller ignores:
  /brokers/topics/bad: not JSON
"""
OF_AN_OUTAGE = """\
Controller:  none
             Topics, partitions and replicas are shown once a controller is elected
Journal:     no space, for 1.5 s; no controller is elected until the journal is writable
Failovers:   the last 2 failed; the next attempt is in 0.5 s: why
             broker 1 also acts as controller, epoch 7

Broker  Rack  State   Live  Role  Partitions  Leads  Under-replicated
1       r     failed  ?     -     2           1      1
Broker 1 failed: its disk (klamm broker start 1)

Broker 3 is dead but leads t-1: the next controller elects other leaders when ZooKeeper is \
reachable again and the broker's session expires, after at most 6000 ms

Isolated: brokers 1,2 (klamm network heal)
Network loses 5% (klamm network heal)

Skewed clocks (klamm broker skew-clock N --ms 0):
  broker 1: -250 ms

Disk faults (klamm disk heal):
  journal: full
  broker 1, log directory /d: slow, 9 bytes/s
  broker 2, log directory /e: full

Failed log directories (a restart of the broker brings them back):
  broker 1, log directory /f

Malformed znodes that prevent the election of a controller:
  /controller_epoch: not a number

Malformed configs and change notifications that brokers ignore:
  /config/topics/t: not JSON (brokers 0, 1)

Errors inside klamm:
  an error
"""


def test_the_whole_text_of_a_cluster_and_of_an_outage() -> None:
    world = brokers_up()
    with_topic(world, (0, 1), (3, 1))
    store = world.open_store()
    KafkaZkClient(store).create("/brokers/topics/bad", b"?")
    world.run_for(1_000)
    world.kill(3)
    values = simulated_status(world, store)
    store.close()
    assert state_lines(values) == OF_A_CLUSTER.splitlines()
    broker = msgspec.structs.replace(
        values.brokers[1],
        rack="r",
        state="failed",
        reason="its disk",
        live=None,
        is_candidate=False,
        clock_skew_ms=-250,
        leaders=1,
        under_replicated=1,
    )
    outage = msgspec.structs.replace(
        values,
        controller=None,
        brokers=[broker],
        journal=JournalState(is_writable=False, failure="no space", failed_for_ms=1_500),
        failovers=FailoverState(failed=2, failure="why", pause_ms=500),
        other_active_controllers=[OtherController(id=1, epoch=7)],
        isolated_brokers=[1, 2],
        network_faults=["loses 5%"],
        disk_faults=[
            {"journal": True, "kind": "full"},
            {"broker": 1, "log_dir": "/d", "kind": "slow", "bytes_per_s": 9},
            {"broker": 2, "log_dir": "/e", "kind": "full"},
        ],
        failed_log_dirs=[FailedLogDir(broker=1, log_dir="/f")],
        malformed_configs={"/config/topics/t": MalformedConfig("not JSON", [0, 1])},
        errors=["an error"],
        zookeeper=msgspec.structs.replace(
            values.zookeeper, is_stale=True, malformed={"/controller_epoch": "not a number"}
        ),
    )
    assert state_lines(outage) == OF_AN_OUTAGE.splitlines()
