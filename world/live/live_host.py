"""What clusters on a real ZooKeeper have in common, with simulated brokers or Kafka's."""

from __future__ import annotations

from klamm.world.clock import WallClock
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.live.broker_hub import BrokerHub
from klamm.world.live.hub_clients import HubClients
from klamm.world.live.sessions import OwnSession
from klamm.world.transport import RoutedTransport


class LiveHost:
    """A clock, a network, a thread for the clients and simulated brokers, and a session.

    ``own_session``: the session with ZooKeeper for commands, checks and scenarios."""

    def __init__(self, spec: ClusterSpec, connect_string: str) -> None:
        self.connect_string = connect_string
        self.clock = WallClock()
        self.transport = RoutedTransport()
        self.own_session = OwnSession(connect_string, spec)
        self._hub = BrokerHub(self.clock)
        self.clients = HubClients(self._hub, self.transport, self.clock)
        self._hub.start()

    def _close_host(self) -> None:
        self.own_session.close()
        self._hub.close()
