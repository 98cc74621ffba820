"""What klamm up says about where Kafka's clients connect."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.listeners import free_ports
from tests.serving import klamm, klamm_up


@pytest.mark.slow
def test_up_and_status_tell_where_kafkas_clients_connect(tmp_path: Path) -> None:
    first = free_ports(4)
    options = ("--brokers", "4", "--listen", f"SASL_PLAINTEXT://{first}")
    with klamm_up(tmp_path, *options, "--advertised-listener", "localhost") as up:
        servers = ",".join(f"localhost:{first + number}" for number in range(3))
        wanted = f"--bootstrap-server {servers} (security.protocol=SASL_PLAINTEXT)\n"
        assert f"Clients:     {wanted}" in up.ok("status")
        assert up.json("status")["bootstrap_servers"] == servers.split(",")
        output = up.end()
    assert f"Kafka's clients: {wanted}klamm is up: " in output
    assert "warning: no user can log in to the listener SASL_PLAINTEXT" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("nohost.invalid", ""),
        ("203.0.113.9", "Cannot assign requested address\n"),
    ],
)
def test_a_host_that_is_none_of_this_machine_is_refused(
    tmp_path: Path, host: str, reason: str
) -> None:
    refused = klamm(tmp_path, "up", "--brokers", "1", "--port", "0", "--listen", f"{host}:19092")
    assert refused.returncode == 1
    assert f"error: broker 0 cannot listen on {host}:19092: {reason}" in refused.stderr
    hint = f"hint: {host} is no address of this machine: choose another host\n"
    assert refused.stderr.endswith(hint)


@pytest.mark.slow
def test_a_port_that_is_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = klamm(tmp_path, "up", "--brokers", "1", "--port", "0", "--listen", str(port))
    wanted = f"127.0.0.1:{port}: Address already in use\nhint: choose another port\n"
    assert refused.stderr.endswith(wanted)
    assert "ZooKeeper" not in refused.stderr
