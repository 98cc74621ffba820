"""One node of a cluster: a broker and, if it is a candidate, its controller.

The broker and the controller of a node share one ZooKeeper session, as in Kafka, so that one crash
removes the ephemeral znodes of both. This module creates nodes; runtime/node_actors.py runs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from klamm.admin.topics.topics import new_topic_id
from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.broker import KafkaServer
from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.logs.log_store import LogStore
from klamm.cluster.protocols import Clock, Journal, Transport
from klamm.controller.candidacy import Candidacy
from klamm.controller.kafka_controller import KafkaController
from klamm.controller.request_sender import RequestTap
from klamm.controller.state_change_log import StateChangeLog
from klamm.placement.draws import JavaRandom
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.zk.store import Store


@dataclass(kw_only=True)
class Node:
    """A broker and its controller (None if the broker is not a controller candidate)."""

    broker: KafkaServer
    controller: KafkaController | None

    @property
    def id(self) -> int:
        """The broker's id."""
        return self.broker.info.id


def build_node(
    spec: ClusterSpec,
    broker_id: int,
    *,
    broker_store: Store,
    controller_store: Store,
    transport: Transport,
    clock: Clock,
    journal: Journal,
    state_change_log: StateChangeLog | None,
    incarnation: int,
    log_store: LogStore | None,
    connections: CertainConnections | None = None,
    log_journal: LogJournal | None,
    copying: Copying | None,
    candidacy: Candidacy | None,
    request_taps: Iterable[RequestTap],
) -> Node:
    """Create a node's broker and, if the broker is a controller candidate, its controller.

    ``broker_store`` and ``controller_store`` use the same session. ``incarnation`` differs for each
    start of the broker, so that a restarted broker draws different random numbers. ``log_journal``
    receives rows about logs. ``candidacy`` and ``request_taps`` are shared by all nodes of a
    cluster.
    """
    info = spec.broker_info(broker_id)
    broker = KafkaServer(
        info,
        broker_store,
        transport,
        clock,
        spec.broker_config,
        # Topic ids and cluster ids have the same format: a random UUID in base64.
        spec.cluster_id or new_topic_id(JavaRandom(spec.seed)),
        spec.quirks,
        log_store,
        connections,
        log_journal,
        copying,
    )
    if not spec.is_candidate(broker_id):
        return Node(broker=broker, controller=None)
    controller = KafkaController(
        spec.controller_config(broker_id),
        info,
        controller_store,
        transport,
        clock,
        journal,
        broker.metadata_cache,
        JavaRandom(hash((spec.seed, broker_id, incarnation))),
        spec.quirks,
        state_change_log,
        broker.on_registered,
        broker.dynamic_config_manager.config,
        candidacy,
        request_taps,
    )
    broker.dynamic_config_manager.on_unclean_election_enabled = (
        controller.enable_unclean_leader_election
    )
    return Node(broker=broker, controller=controller)
