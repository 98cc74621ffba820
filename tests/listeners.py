"""Clusters on whose listeners the tests' clients connect."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig

BROKERS = 3


def free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free.

    They are drawn, because tests run in several processes, and none of them is in FREE_PORTS.
    """
    for first in random.sample(range(10_000, 19_000), 100):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def config_of(
    chroot: str,
    data_dir: Path,
    listen: str | None,
    advertised_listener: str | None = None,
    *,
    has_segments: bool = True,
) -> ServerConfig:
    """Return the configuration of a cluster that listens from ``[HOST:]PORT`` on.

    Its controller does not rebalance leaders, so that they move only when a test moves them.
    """
    return ServerConfig(
        brokers=BROKERS,
        zookeeper=chroot,
        session_timeout_ms=2000,
        data_dir=data_dir,
        has_segments=has_segments,
        config={"auto.leader.rebalance.enable": "false"},
        listen=listen,
        advertised_listener=advertised_listener,
    )


def place(server: ClusterServer, broker_id: int) -> tuple[str, int]:
    """Return the host and port on which a broker listens."""
    end_point = server.cluster.spec.broker_info(broker_id).end_points[0]
    return end_point.host, end_point.port


def bootstrap(server: ClusterServer) -> list[str]:
    """Return HOST:PORT of every broker."""
    places = (place(server, broker_id) for broker_id in range(BROKERS))
    return [f"{host}:{port}" for host, port in places]
