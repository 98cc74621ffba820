"""The demo: a cluster starts, creates topics, loses a broker and its controller, and recovers.

Each step demonstrates one task of Kafka's controller. The steps are yielded as values, which the
command line prints. The demo never sleeps for a fixed time: it waits for conditions, with
deadlines.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.counting import joined
from klamm.cluster.errors import KlammError
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    Address,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.cluster.types import LeaderIsrAndControllerEpoch, TopicPartition
from klamm.lab.checks.agreement import StoredCluster, check_cluster
from klamm.lab.demo.demo_stage import RACKS, TIMEOUT_S, DemoOptions, Stage
from klamm.statemachines.partition_state import PartitionState
from klamm.tools.tool_output import ToolOutput
from klamm.tools.topics.options import TopicCommandOptions
from klamm.tools.topics.service import TopicService
from klamm.world.transport import RequestClient
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.waiting import wait_until
from klamm.zk.znodes import TopicZNode

MIN_BROKERS: Final = 3
AUTOMATIC: Final = "orders"
MANUAL: Final = "payments"
THROUGH_CONTROLLER: Final = "audit"
_REPLICATION_FACTOR: Final = 3
_MANUAL_PARTITIONS: Final = 3
_CLIENT: Final = Address("client", 1)
_AGREEMENT_TIMEOUT_S: Final = 10.0


class StepBegins(msgspec.Struct, frozen=True):
    """The title of the step that is about to begin."""

    title: str


class DemoStep(msgspec.Struct, frozen=True):
    """A finished step: its output as lines of text, and the same facts as values."""

    title: str
    lines: tuple[str, ...]
    facts: dict[str, Any]
    elapsed_ms: int


class DemoEnd(msgspec.Struct, frozen=True):
    """Result of the demo: the final contents of ZooKeeper, and the journal."""

    stored: StoredCluster
    journal: Path


_Output = tuple[Sequence[str], dict[str, Any]]


def run_demo(options: DemoOptions) -> Generator[StepBegins | DemoStep | DemoEnd]:
    """Run the demo. Raises KlammError if a step does not complete in time.

    Everything is closed before DemoEnd is yielded, and also when the iterator is closed early.
    """
    with contextlib.ExitStack() as stack:
        story = _Story(options, stack)
        for title, act in story.acts():
            yield StepBegins(title)
            begun_s = time.monotonic()
            lines, facts = act()
            yield DemoStep(title, tuple(lines), facts, round((time.monotonic() - begun_s) * 1000))
        end = story.end()
    yield end


class _Story:
    """One run of the demo: its steps, and the state that they share."""

    def __init__(self, options: DemoOptions, stack: contextlib.ExitStack) -> None:
        self._brokers = options.brokers
        self._stage = Stage(options, stack)
        self._dead: list[int] = []

    def acts(self) -> Iterator[tuple[str, Callable[[], _Output]]]:
        """Yield the title and the function of each step, in order."""
        yield "Start ZooKeeper", self._start_zookeeper
        yield f"Start {self._brokers} brokers in {len(RACKS)} racks", self._start_brokers
        yield f"Create {AUTOMATIC}: placed by Kafka's algorithm", self._create_automatically
        yield f"Create {MANUAL}: with a manual replica assignment", self._create_manually
        yield f"Create {THROUGH_CONTROLLER}: by a request to the controller", self._ask_controller
        yield "Describe the topics", self._describe
        yield "Kill the broker that leads the most partitions", self._kill_busiest
        yield "Kill the controller", self._kill_controller
        yield "Start both again", self._restart
        yield "Compare brokers, caches and controller with ZooKeeper", self._check

    def end(self) -> DemoEnd:
        """Return the result of the demo. Call this while the cluster is still running."""
        stored = StoredCluster.read(self._stage.cluster.store)
        return DemoEnd(stored, self._stage.journal.path)

    # -- a cluster

    def _start_zookeeper(self) -> _Output:
        self._stage.open_zookeeper()
        at = self._stage.connect_string
        return [f"ZooKeeper listens on {at}."], {"zookeeper": at}

    def _start_brokers(self) -> _Output:
        self._stage.open_cluster()
        spec, (controller_id, context) = self._stage.cluster.spec, self._stage.controller()
        in_racks = {
            rack: [id_ for id_ in spec.broker_ids if spec.racks[id_] == rack] for rack in RACKS
        }
        lines = [f"{rack}: brokers {joined(members)}" for rack, members in in_racks.items()]
        lines.append(f"Broker {controller_id} is the controller, with epoch {context.epoch}.")
        facts = {
            "cluster_id": spec.cluster_id,
            "racks": in_racks,
            "controller": controller_id,
            "controller_epoch": context.epoch,
        }
        return lines, facts

    # -- topics

    def _create_automatically(self) -> _Output:
        factor = str(_REPLICATION_FACTOR)
        return self._kafka_topics(AUTOMATIC, "--partitions", "12", "--replication-factor", factor)

    def _create_manually(self) -> _Output:
        """Create a topic with three partitions that all have the same leader.

        The leader is the broker with the next id after the controller's. It then leads the most
        partitions."""
        ids = self._stage.cluster.spec.broker_ids
        controller_id, _ = self._stage.controller()
        leader, *followers = _turned(ids, ids.index(controller_id) + 1)
        replicas = [
            ":".join(
                str(id_) for id_ in (leader, *_turned(followers, n)[: _REPLICATION_FACTOR - 1])
            )
            for n in range(_MANUAL_PARTITIONS)
        ]
        return self._kafka_topics(MANUAL, "--replica-assignment", ",".join(replicas))

    def _kafka_topics(self, topic: str, *how: str) -> _Output:
        begun_ms = self._stage.cluster.clock.now_ms()
        said = ToolOutput(topics=[], warnings=[])
        command = TopicCommandOptions(
            ["--zookeeper", self._stage.connect_string, "--create", "--topic", topic, *how]
        )
        self._topics(command, said).create()
        times = self._times_of(topic, begun_ms)
        facts = {"topic": topic, "how": list(how), **times}
        command_line = f"kafka-topics --create --topic {topic} {' '.join(how)}"
        return [command_line, said.text.strip(), _timeline(times)], facts

    def _topics(self, command: TopicCommandOptions, said: ToolOutput) -> TopicService:
        client = KafkaZkClient(self._stage.cluster.store)
        return TopicService(ZooKeeperAdmin(client, self._stage.random), command, said)

    def _ask_controller(self) -> _Output:
        clock, transport = self._stage.cluster.clock, self._stage.cluster.transport
        controller_id, _ = self._stage.controller()
        topic = CreatableTopic(THROUGH_CONTROLLER, 6, _REPLICATION_FACTOR)
        request = CreateTopicsRequest((topic,), round(TIMEOUT_S * 1000))
        begun_ms = clock.now_ms()
        answer = RequestClient(_CLIENT).send(
            transport, Address("controller", controller_id), request
        )
        try:
            body = answer.result(TIMEOUT_S)
        except TimeoutError:
            raise KlammError(f"broker {controller_id} did not respond to CreateTopics") from None
        answered_ms = clock.now_ms()
        assert isinstance(body, CreateTopicsResponse)
        (result,) = body.topics
        if result.error is not Errors.NONE:
            raise KlammError(f"CreateTopics: {result.error.name} {result.error_message or ''}")
        times = self._times_of(THROUGH_CONTROLLER, begun_ms)
        times["answered_ms"] = answered_ms - begun_ms
        facts = {"topic": THROUGH_CONTROLLER, "topic_id": result.topic_id, **times}
        asked = (
            f"CreateTopics to broker {controller_id}: 6 partitions, "
            f"replication factor {_REPLICATION_FACTOR}"
        )
        return [asked, f"The topic id is {result.topic_id}.", _timeline(times)], facts

    def _times_of(self, topic: str, begun_ms: int) -> dict[str, int]:
        """Wait until all partitions of a topic are online.

        Return the times at which the topic's znode was created and at which its last partition came
        online, in milliseconds after ``begun_ms``."""

        def is_online(stored: StoredCluster) -> bool:
            partitions = [tp for tp in stored.assignments if tp.topic == topic]
            return bool(partitions) and all(tp in stored.states for tp in partitions)

        self._stage.wait_until(f"{topic} is Online", is_online)
        found = KafkaZkClient(self._stage.cluster.store).get_data_and_stat(TopicZNode.path(topic))
        assert found is not None
        online = [
            row.t_ms
            for row in self._stage.rows()
            if row.topic == topic
            and row.kind == Kind.PARTITION_TRANSITION
            and row.to == PartitionState.ONLINE.value
        ]
        return {"written_ms": found[1].ctime_ms - begun_ms, "online_ms": max(online) - begun_ms}

    def _describe(self) -> _Output:
        said = ToolOutput(topics=[], warnings=[])
        command = TopicCommandOptions(["--zookeeper", self._stage.connect_string, "--describe"])
        self._topics(command, said).describe()
        return said.text.expandtabs().splitlines(), {"topics": said.report["topics"]}

    # -- losses

    def _kill_busiest(self) -> _Output:
        states = StoredCluster.read(self._stage.cluster.store).states
        led = Counter(state.leader_and_isr.leader for state in states.values())
        busiest = max(sorted(led), key=lambda broker_id: led[broker_id])
        lines, facts = self._kill(busiest)
        return [f"Broker {busiest} led {led[busiest]} of {len(states)} partitions.", *lines], facts

    def _kill_controller(self) -> _Output:
        old_id, old_context = self._stage.controller()
        old_epoch = old_context.epoch
        killed_ms = self._stage.cluster.clock.now_ms()
        lines, facts = self._kill(old_id)
        new_id, context = self._stage.controller()
        epoch = context.epoch
        at = {row.kind: row.t_ms - killed_ms for row in self._stage.rows() if row.epoch == epoch}
        elected_ms, ready_ms = at[Kind.CONTROLLER_ELECTED], at[Kind.CONTROLLER_READY]
        facts |= {
            "controller": new_id,
            "controller_epoch": epoch,
            "previous_controller_epoch": old_epoch,
            "elected_ms": elected_ms,
            "ready_ms": ready_ms,
        }
        changes = [
            f"Broker {old_id} was the controller, with epoch {old_epoch}.",
            f"Broker {new_id} is the controller, with epoch {epoch}: elected after "
            f"{elected_ms} ms, ready after {ready_ms} ms.",
        ]
        return [*changes, *lines], facts

    def _kill(self, broker_id: int) -> _Output:
        """Kill a broker, wait until it has left every ISR, and report the elections."""
        before = StoredCluster.read(self._stage.cluster.store).states
        rows_before = len(self._stage.rows())
        begun_ms = self._stage.cluster.clock.now_ms()
        self._stage.cluster.kill(broker_id)
        self._dead.append(broker_id)

        def is_gone(stored: StoredCluster) -> bool:
            states = [leadership.leader_and_isr for leadership in stored.states.values()]
            return broker_id not in stored.broker_epochs and not any(
                broker_id in (state.leader, *state.isr) for state in states
            )

        self._stage.wait_until(f"broker {broker_id} is out of every ISR", is_gone)
        elections = [
            _election(row, before)
            for row in self._stage.rows()[rows_before:]
            if row.kind == Kind.PARTITION_TRANSITION and row.election is not None
        ]
        noticed_ms = min((e["t_ms"] for e in elections), default=begun_ms) - begun_ms
        lines = [f"Session expired; elections started after {noticed_ms} ms:"]
        lines += [_election_line(election) for election in elections]
        return lines, {"killed": broker_id, "elections": elections}

    def _restart(self) -> _Output:
        begun_ms = self._stage.cluster.clock.now_ms()
        dead, self._dead = self._dead, []
        self._stage.start_brokers(dead)

        def are_full(stored: StoredCluster) -> bool:
            return all(
                sorted(leadership.leader_and_isr.isr) == sorted(stored.assignments[tp].replicas)
                for tp, leadership in stored.states.items()
            )

        stored = self._stage.wait_until("every ISR is complete again", are_full)
        full_ms = self._stage.cluster.clock.now_ms() - begun_ms
        led = Counter(state.leader_and_isr.leader for state in stored.states.values())
        imbalance = self._stage.controller()[1].preferred_replica_imbalance_count
        facts = {
            "restarted": dead,
            "full_isrs": len(stored.states),
            "full_after_ms": full_ms,
            "led_by": {str(id_): led[id_] for id_ in sorted(stored.broker_epochs)},
            "preferred_replica_imbalance": imbalance,
        }
        return [
            f"Brokers {joined(dead)} are back: after {full_ms} ms all {len(stored.states)} ISRs "
            "are complete.",
            f"Leaders did not move: {imbalance} partitions are not led by their preferred replica.",
        ], facts

    def _check(self) -> _Output:
        cluster = self._stage.cluster
        wait_until(lambda: not check_cluster(cluster, cluster.store), _AGREEMENT_TIMEOUT_S)
        disagreements = [*check_cluster(cluster, cluster.store), *cluster.errors]
        stored = StoredCluster.read(self._stage.cluster.store)
        brokers, partitions = len(stored.broker_epochs), len(stored.states)
        replicas = sum(len(assignment.replicas) for assignment in stored.assignments.values())
        facts = {
            "brokers": brokers,
            "partitions": partitions,
            "replicas": replicas,
            "disagreements": disagreements,
        }
        compared = (
            f"{partitions} partitions in {brokers} metadata caches, {replicas} replicas, live "
            "brokers, and the controller's context and metrics"
        )
        verdict = f"{len(disagreements)} disagreements:" if disagreements else "All agree."
        return [f"Compared: {compared}.", verdict, *disagreements], facts


def _election(
    row: JournalRow, before: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]
) -> dict[str, Any]:
    """Return the leader election that a journal row records, as plain values.

    ``from`` is the leader before the broker was killed. The row may have -1 as the previous leader,
    because a new controller first removes dead leaders, and then elects new ones.
    """
    assert row.topic is not None
    return {
        "topic": row.topic,
        "partition": row.partition,
        "from": before[TopicPartition(row.topic, row.partition)].leader_and_isr.leader,
        "to": row.leader,
        "leader_epoch": row.leader_epoch,
        "isr": row.isr,
        "rule": row.election,
        "t_ms": row.t_ms,
    }


def _election_line(election: dict[str, Any]) -> str:
    tp = TopicPartition(election["topic"], election["partition"])
    return (
        f"{tp!s:<12} leader {election['from']} -> {election['to']}, "
        f"leader epoch {election['leader_epoch']}, ISR {joined(election['isr'])}, "
        f"{election['rule']}"
    )


def _timeline(times: dict[str, int]) -> str:
    parts = [
        f"Topic znode created after {times['written_ms']} ms",
        f"all partitions online after {times['online_ms']} ms",
    ]
    if "answered_ms" in times:
        parts.append(f"response after {times['answered_ms']} ms")
    return f"{', '.join(parts)}."


def _turned(ids: Sequence[int], by: int) -> Sequence[int]:
    by %= len(ids)
    return [*ids[by:], *ids[:by]]
