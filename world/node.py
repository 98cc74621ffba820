"""One node of a cluster: a broker and, if it is a candidate, its controller.

The broker and the controller of a node share one ZooKeeper session, as in Kafka, so that one crash
removes the ephemeral znodes of both. world/node_host.py creates nodes, and
world/node_actors.py runs them.
"""

from __future__ import annotations

from dataclasses import dataclass

from klamm.brokers.broker import KafkaServer
from klamm.controller.kafka_controller import KafkaController


@dataclass(kw_only=True)
class Node:
    """A broker and its controller (None if the broker is not a controller candidate)."""

    broker: KafkaServer
    controller: KafkaController | None

    @property
    def id(self) -> int:
        """The broker's id."""
        return self.broker.info.id

    @property
    def has_candidate(self) -> bool:
        """True if its controller takes part in elections."""
        return self.controller is not None and self.controller.is_candidate
