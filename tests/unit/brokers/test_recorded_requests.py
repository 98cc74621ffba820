"""Replays the LeaderAndIsr and StopReplica requests that real controllers sent to real brokers.

After every recorded step each broker must hold what the step's state znodes say. UpdateMetadata
requests were recorded without their content, so the test fills them from the transitions; what
leaders ask by AlterIsr is granted as a controller does. Members of an ISR are compared as sets:
followers race to join it.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    Address,
    AlterIsrRequest,
    AlterIsrResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.types import LEADER_DURING_DELETE, LeaderAndIsr, TopicPartition
from tests.unit.brokers.network import Network, registered

DATA = Path(__file__).parents[2] / "data" / "brokers" / "recorded_requests.json"
SCENARIOS: dict[str, list[dict[str, Any]]] = json.loads(DATA.read_text(encoding="utf-8"))
REQUESTS = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")
ACCEPTED = {Errors.NONE, Errors.STALE_CONTROLLER_EPOCH, Errors.FENCED_LEADER_EPOCH}


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


class RecordedController:
    """Sends what was recorded, keeps what the state znodes hold, and grants ISR expansions."""

    def __init__(self) -> None:
        self.network = Network()
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.deleted: set[TopicPartition] = set()
        self.step: dict[str, Any] = {}
        self.leaving: list[int] = []
        self._answered = 0

    def play(self, step: dict[str, Any]) -> None:
        self.step = step
        for broker_id in step["killed"]:
            del self.network.brokers[broker_id]
        for broker_id in step["started"]:
            self.network.add(broker_id)
        self.leaving = step["stopped"]
        for broker_id in self.leaving:
            self.network.brokers[broker_id].begin_shutdown()
        for _, rows in groupby(step["rows"], key=self._place):
            for (kind, target), same in groupby(rows, key=self._recipient):
                self._send(kind, target, list(same))
            self._settle()
        for broker_id in self.leaving:
            del self.network.brokers[broker_id]

    def _place(self, row: list[Any]) -> Any:
        return row[1] if row[0] in REQUESTS else None

    def _recipient(self, row: list[Any]) -> tuple[str, Any]:
        return row[0], row[2] if row[0] in REQUESTS else None

    def _send(self, kind: str, target: Any, rows: list[list[Any]]) -> None:
        if kind == "state":
            for _, tp, leader, epoch, isr, version in rows:
                self._write(partition(tp), LeaderAndIsr(leader, epoch, tuple(isr), version))
        elif kind == "deleted":
            self.deleted.update(partition(row[1]) for row in rows)
        elif kind == "UpdateMetadata":
            self._update_metadata(target, list(self.states))
        elif target in self.network.brokers:
            send = self._leader_and_isr if kind == "LeaderAndIsr" else self._stop_replica
            send(target, rows)

    def _write(self, tp: TopicPartition, written: LeaderAndIsr) -> None:
        if written.zk_version == 0:
            self.deleted.discard(tp)
        known = self.states.get(tp)
        if known is None or written.zk_version == 0 or known.zk_version < written.zk_version:
            self.states[tp] = written

    def _header(self) -> tuple[int, int, int]:
        return self.step["controller"], self.step["controller_epoch"], -1

    def _leader_and_isr(self, broker_id: int, rows: list[list[Any]]) -> None:
        states = []
        for _, _, _, tp, epoch, leader, leader_epoch, isr, version, replicas, *rest in rows:
            adding, removing, is_new = rest
            state = LeaderAndIsrPartitionState(
                partition(tp),
                epoch,
                leader,
                leader_epoch,
                tuple(isr),
                version,
                tuple(replicas),
                tuple(adding),
                tuple(removing),
                is_new,
            )
            self.replicas[state.topic_partition] = state.replicas
            states.append(state)
            self._write(
                state.topic_partition, LeaderAndIsr(leader, leader_epoch, state.isr, version)
            )
        live = tuple(registered(b) for b in self.network.brokers)
        request = LeaderAndIsrRequest(*self._header(), states, self.step["topic_ids"], live)
        answer = self.network.request(broker_id, request)
        assert isinstance(answer, LeaderAndIsrResponse)
        assert answer.error == Errors.NONE and set(answer.partition_errors.values()) <= set(
            ACCEPTED
        )

    def _stop_replica(self, broker_id: int, rows: list[list[Any]]) -> None:
        states = [StopReplicaPartitionState(partition(r[3]), r[4], r[5]) for r in rows]
        answer = self.network.request(broker_id, StopReplicaRequest(*self._header(), states))
        assert isinstance(answer, StopReplicaResponse)
        assert answer.error == Errors.NONE and set(answer.partition_errors.values()) <= set(
            ACCEPTED
        )
        for state in states:
            if state.delete_partition:
                partitions = self.network.brokers[broker_id].replica_manager.partitions
                assert state.topic_partition not in partitions

    def _update_metadata(self, broker_ids: list[int], tps: list[TopicPartition]) -> None:
        states = []
        for tp in tps:
            known = self.states[tp]
            leader = LEADER_DURING_DELETE if tp in self.deleted else known.leader
            replicas = self.replicas.get(tp, ())
            states.append(
                UpdateMetadataPartitionState(
                    tp, 0, leader, known.leader_epoch, known.isr, known.zk_version, replicas
                )
            )
        gone = [b for b in self.leaving if b not in broker_ids]
        live = tuple(registered(b) for b in self.network.brokers if b not in gone)
        request = UpdateMetadataRequest(*self._header(), states, live, self.step["topic_ids"])
        for broker_id in broker_ids:
            if broker_id in self.network.brokers:
                self.network.request(broker_id, request)

    def _settle(self) -> None:
        self.network.deliver()
        while len(asked := self.network.alter_isr_requests()) > self._answered:
            message = asked[self._answered]
            self._answered += 1
            if message.source.id in self.network.brokers:
                self._grant(message)
                self.network.deliver()

    def _grant(self, message: Message) -> None:
        assert message.destination == Address("controller", self.step["controller"])
        request = message.body
        assert isinstance(request, AlterIsrRequest)
        granted: dict[TopicPartition, LeaderAndIsr | Errors] = {}
        for tp, proposed in request.partitions.items():
            known = self.states[tp]
            assert (known.leader_epoch, known.zk_version) == (
                proposed.leader_epoch,
                proposed.zk_version,
            )
            self.states[tp] = granted[tp] = proposed.with_zk_version(proposed.zk_version + 1)
        self.network.answer(message, AlterIsrResponse(Errors.NONE, granted))
        self._update_metadata(list(self.network.brokers), list(granted))


def comparable(leader: int, epoch: int, isr: Any, version: int) -> tuple[Any, ...]:
    return leader, epoch, sorted(isr), version


@pytest.mark.parametrize("name", SCENARIOS)
def test_brokers_equal_the_state_znodes_after_every_recorded_step(name: str) -> None:
    controller = RecordedController()
    for step in SCENARIOS[name]:
        controller.play(step)
        znodes = {partition(tp): comparable(*state) for tp, state in step["states"].items()}
        for broker_id, broker in controller.network.brokers.items():
            where = f"{name}, step {step['name']!r}, broker {broker_id}"
            cached = {
                s.topic_partition: comparable(s.leader, s.leader_epoch, s.isr, s.zk_version)
                for s in broker.metadata_cache.states()
            }
            # Deleted in memory, with znodes that stay until every replica is gone.
            served = {tp: z for tp, z in znodes.items() if tp not in controller.deleted}
            assert cached == served, where
            for tp, znode in served.items():
                if broker_id not in controller.replicas.get(tp, ()) or znode[0] == -1:
                    continue
                hosted = broker.replica_manager.partitions[tp].leader_and_isr
                assert hosted is not None, where
                held = comparable(hosted.leader, hosted.leader_epoch, hosted.isr, hosted.zk_version)
                # A follower is told leader and epoch; the ISR belongs to its leader.
                compared = 4 if znode[0] == broker_id else 2
                assert held[:compared] == znode[:compared], f"{where}, {tp}"


def test_every_recorded_kind_of_request_is_replayed() -> None:
    kinds = {row[0] for steps in SCENARIOS.values() for step in steps for row in step["rows"]}
    assert kinds == {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "state", "deleted"}
    assert len(SCENARIOS) == 25
