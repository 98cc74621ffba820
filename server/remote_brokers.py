"""Opens the ports of a cluster's brokers, and connects its controllers to brokers elsewhere.

The transport of a cluster delivers messages within the process. Control requests to brokers that
are not part of the cluster's specification are sent over TCP instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_version import ApiVersion
from klamm.cluster.configs import BROKER_CONFIGS
from klamm.cluster.requests import Message
from klamm.cluster.types import EndPoint
from klamm.server.admin_channel import new_client_address
from klamm.wire.broker_connections import BrokerConnections
from klamm.wire.broker_security import BrokerSecurity
from klamm.wire.control_encoder import ControlEncoder
from klamm.world.real.cluster import RealCluster
from klamm.world.real.listeners import Listener, Listeners


@contextlib.contextmanager
def network_opened(
    cluster: RealCluster,
    admin: ListenerAdmin,
    listeners: Sequence[Listener],
    control_listener_name: str,
    security: BrokerSecurity,
) -> Iterator[Listeners]:
    """Context manager: brokers listen, and controllers of ``cluster`` reach remote brokers.

    The first of ``listeners`` is named like the inter-broker listener of remote brokers.
    ``control_listener_name``: the one on which they accept requests of a controller. ``security``:
    of the connections to it.
    """

    def end_point_of(controller_id: int, broker_id: int) -> EndPoint | None:
        running = cluster.nodes.get(controller_id)
        controller = None if running is None else running.node.controller
        broker = None if controller is None else controller.context.live_brokers.get(broker_id)
        end_points, name = () if broker is None else broker.end_points, control_listener_name
        return next((one for one in end_points if one.listener_name == name), None)

    config = cluster.spec.config
    protocol = ApiVersion(BROKER_CONFIGS["inter.broker.protocol.version"].value(config))
    timeout_s = BROKER_CONFIGS["controller.socket.timeout.ms"].value(config) / 1000
    encoder = ControlEncoder(protocol, listeners[0].name)
    opened = Listeners(cluster, listeners, new_client_address, admin)
    opened.open()
    connections = BrokerConnections(
        opened.loop, cluster.transport, encoder, end_point_of, timeout_s, security
    )

    def send(message: Message) -> None:
        if message.destination.id not in cluster.spec.broker_ids:
            connections.send(message)

    cluster.transport.remote = send
    try:
        yield opened
    finally:
        cluster.transport.remote = None
        asyncio.run_coroutine_threadsafe(connections.close(), opened.loop).result()
        opened.close()
