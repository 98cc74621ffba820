"""Chooses and checks loopback ports for servers that klamm starts."""

from __future__ import annotations

import errno
import secrets
import socket

from klamm.cluster.errors import UsageError, ZooKeeperUnavailable

HOST = "127.0.0.1"
# Below every system's ephemeral range: inside it, a client that retries a dead port may get that
# very port as its local one, connect to itself, and keep the server from coming back.
FREE_PORTS = range(20_000, 32_000)
PORT_TRIES = 20


def free_port() -> int:
    """Return a port in the range FREE_PORTS that is not in use."""
    for _ in range(PORT_TRIES):
        port = secrets.choice(FREE_PORTS)
        if _bind_error(port) is None:
            return port
    raise ZooKeeperUnavailable(f"no free port in {FREE_PORTS.start}-{FREE_PORTS.stop - 1}")


def require_free(port: int, remedy: str = "choose another port") -> None:
    """Raise UsageError if the port is invalid, and ZooKeeperUnavailable if it is in use.

    The hint of the error begins with ``remedy``, which tells the user what to do.
    """
    if port not in range(1, 65536):
        raise UsageError(f"{port} is not a valid port", hint="valid ports are 1 to 65535")
    error = _bind_error(port)
    if error is not None:
        problem = (
            "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        )
        raise ZooKeeperUnavailable(
            f"port {port} {problem}", hint=f"{remedy}, or stop the program that uses it"
        )


def _bind_error(port: int) -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the server does: a port with recently closed connections counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error
    return None
