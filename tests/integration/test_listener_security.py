"""TLS on klamm's listeners, with the clients of others."""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from klamm.cluster.errors import UsageError
from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig
from klamm.server.metrics import metrics_text
from klamm.world.real import listeners
from tests.listeners import BROKERS, ask, bootstrap, config_of, create, free_ports, place
from tests.security_clients import ROUND_TRIP_PARAMS, trusting
from tests.waiting import wait_until
from tests.zookeeper_tls import KEY_PASSWORD, Certificates

METADATA_V1 = struct.pack(">hhihi", 3, 1, 9, -1, -1)
HANDSHAKE_FAILED = "broker 0 closed a connection: TLS handshake with 127.0.0.1 failed: "


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def tls_config(
    chroot: str, data_dir: Path, certificates: Certificates, client_auth: str = "none"
) -> ServerConfig:
    config = {
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.location": str(certificates.ca),
        "ssl.client.auth": client_auth,
    }
    return config_of(chroot, data_dir, f"SSL://{free_ports(BROKERS)}", config=config)


@pytest.fixture
def server(
    chroot: str,
    tmp_path: Path,
    certificates: Certificates,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ClusterServer]:
    """A cluster with TLS that logs every failure; the parameter is ssl.client.auth."""
    monkeypatch.setattr(listeners, "WARNING_INTERVAL_S", 0.0)
    client_auth = getattr(request, "param", "none")
    with ClusterServer(tls_config(chroot, tmp_path, certificates, client_auth)) as opened:
        create(opened, (0, 1, 2))
        yield opened


def ask_over_tls(server: ClusterServer, context: ssl.SSLContext) -> bytes:
    """Ask broker 0 for all topics; b"" if it hangs up."""
    with (
        socket.create_connection(place(server, 0), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(struct.pack(">i", len(METADATA_V1)) + METADATA_V1)
        try:
            return client.makefile("rb").read(4)
        except OSError:
            return b""


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


# -- TLS


@pytest.mark.client(shows="TLS: a record produced and consumed")
@pytest.mark.parametrize("round_trip", ROUND_TRIP_PARAMS)
def test_clients_produce_and_consume_over_tls(
    server: ClusterServer,
    certificates: Certificates,
    round_trip: Callable[[list[str], Path], bytes],
) -> None:
    assert round_trip(bootstrap(server), certificates.ca) == b"record"


def test_brokers_register_the_security_protocol(
    server: ClusterServer, chroot: str, zookeeper_client: KazooClient
) -> None:
    data, _ = zookeeper_client.get(f"{chroot[chroot.index('/') :]}/brokers/ids/1")
    registered = json.loads(data)
    host, port = place(server, 1)
    assert registered["endpoints"] == [f"SSL://{host}:{port}"]
    assert registered["listener_security_protocol_map"] == {"SSL": "SSL"}
    assert (registered["host"], registered["port"]) == (None, -1)


def test_failed_handshakes_cost_their_own_connection_and_one_line(
    server: ClusterServer, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ask_over_tls(server, trusting(certificates.stranger))
    assert ask(server, 0, METADATA_V1) == b""
    expected = [
        f"{HANDSHAKE_FAILED}tlsv1 alert unknown ca",
        f"{HANDSHAKE_FAILED}the client does not speak TLS",
    ]
    wait_until(lambda: len(warnings(caplog)) >= len(expected))
    assert warnings(caplog) == expected
    assert ask_over_tls(server, trusting(certificates.ca))
    text = metrics_text(server.cluster, *server.collectors).decode()
    name = "kafka_server_socket_server_metrics_failed_authentication_total"
    assert f'{name}{{broker="0"}} 2.0\n' in text


def test_silent_clients_are_cut_off(
    server: ClusterServer,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners, "HANDSHAKE_S", 0.2)
    with socket.create_connection(place(server, 0), 10) as client:
        assert client.recv(1) == b""
    wait_until(lambda: warnings(caplog) == [f"{HANDSHAKE_FAILED}it took too long"])
    monkeypatch.setattr(listeners, "HANDSHAKE_S", 30.0)
    assert ask_over_tls(server, trusting(certificates.ca))


@pytest.mark.parametrize("server", ["required"], indirect=True)
def test_clients_must_have_a_valid_certificate(
    server: ClusterServer,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    assert ask_over_tls(server, trusting(certificates.ca, certificates))
    assert ask_over_tls(server, trusting(certificates.ca)) == b""
    assert ask_over_tls(server, trusting(certificates.ca, other)) == b""
    wait_until(lambda: len(warnings(caplog)) >= 2)
    assert warnings(caplog) == [
        f"{HANDSHAKE_FAILED}peer did not return a certificate",
        f"{HANDSHAKE_FAILED}the client's certificate is not valid: unable to get local issuer "
        "certificate",
    ]


@pytest.mark.parametrize("server", ["requested"], indirect=True)
def test_clients_may_have_a_certificate(server: ClusterServer, certificates: Certificates) -> None:
    assert ask_over_tls(server, trusting(certificates.ca))
    assert ask_over_tls(server, trusting(certificates.ca, certificates))


def test_an_encrypted_private_key_needs_its_password(
    tmp_path: Path, certificates: Certificates
) -> None:
    pem = tmp_path / "encrypted.pem"
    pem.write_bytes(certificates.encrypted_key.read_bytes() + certificates.client.read_bytes())
    password = tmp_path / "password"
    password.write_text(f"{KEY_PASSWORD}\n")
    config = {
        "ssl.keystore.location": str(pem),
        "klamm.ssl.key.password.location": str(password),
    }
    config_of("localhost:2181", tmp_path, "SSL://9092", config=config)
    password.write_text("secret")
    problem = "cannot be used as private key and certificate of the brokers: the password of its"
    with pytest.raises(UsageError, match=problem) as refused:
        config_of("localhost:2181", tmp_path, "SSL://9092", config=config)
    assert "secret" not in str(refused.value)
    assert refused.value.hint == "give it with klamm.ssl.key.password.location"


@pytest.mark.parametrize(
    ("listen", "config", "message"),
    [
        ("HTTP://9092", {}, "--listen HTTP://9092: unknown security protocol HTTP"),
        ("SSL://9092", {}, "TLS requires the brokers' certificate"),
        ("SASL_SSL://9092", {}, "TLS requires the brokers' certificate"),
        (
            "SASL_PLAINTEXT://9092",
            {"sasl.enabled.mechanisms": ""},
            "sasl.enabled.mechanisms is empty: No SASL mechanisms are enabled",
        ),
        (
            "SASL_PLAINTEXT://9092",
            {"klamm.sasl.plain.users.location": "gone.txt"},
            "gone.txt cannot be read: No such file",
        ),
        (
            "9092",
            {"ssl.client.auth": "required"},
            "--config ssl.client.auth would have no effect: no broker listens with SSL",
        ),
        (
            "SASL_PLAINTEXT://9092",
            {"klamm.ssl.key.password.location": "gone.txt"},
            "no broker listens with SASL_SSL",
        ),
        (
            "SSL://9092",
            {"ssl.keystore.location": "{server}", "sasl.enabled.mechanisms": "PLAIN"},
            "--config sasl.enabled.mechanisms would have no effect: no broker listens with "
            "SASL_SSL",
        ),
        (
            None,
            {"klamm.sasl.plain.users.location": "gone.txt"},
            "no broker listens with SASL_PLAINTEXT",
        ),
        (
            "SSL://9092",
            {"ssl.keystore.location": "gone.pem"},
            "gone.pem cannot be used as private key and certificate of the brokers: No such file",
        ),
        (
            "SSL://9092",
            {"ssl.keystore.location": "{encrypted}"},
            "cannot be used as private key and certificate of the brokers: it has no certificate",
        ),
        (
            "SSL://9092",
            {"ssl.keystore.location": "{ca}"},
            "cannot be used as private key and certificate of the brokers: it has no private key",
        ),
        (
            "SSL://9092",
            {"ssl.keystore.location": "{server}", "ssl.client.auth": "required"},
            "ssl.client.auth=required requires the CA of the clients",
        ),
        (
            "SSL://9092",
            {
                "ssl.keystore.location": "{server}",
                "ssl.client.auth": "requested",
                "ssl.truststore.location": "gone.pem",
            },
            "gone.pem cannot be used as CA of clients: No such file",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    tmp_path: Path,
    certificates: Certificates,
    listen: str | None,
    config: dict[str, str],
    message: str,
) -> None:
    files = {
        "encrypted": certificates.encrypted_key,
        "server": certificates.server,
        "ca": certificates.ca,
    }
    given = {name: text.format(**files) for name, text in config.items()}
    with pytest.raises(UsageError, match=re.escape(message)):
        config_of("localhost:2181", tmp_path, listen, config=given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"alice:secret\nsecret\n", "users.txt, line 2: not USER:PASSWORD"),
        (b":secret\n", "users.txt, line 1: not USER:PASSWORD"),
        (b"secret:\n", "users.txt, line 1: not USER:PASSWORD"),
        (b"secret:1\nsecret:2\n", "users.txt, line 2: this user has an earlier line"),
        (b"secret:\xff\n", "users.txt cannot be read: not UTF-8"),
    ],
)
def test_a_malformed_file_of_users_is_refused_without_its_text(
    tmp_path: Path, text: bytes, message: str
) -> None:
    users = tmp_path / "users.txt"
    users.write_bytes(text)
    config = {"klamm.sasl.plain.users.location": str(users)}
    with pytest.raises(UsageError, match=message) as refused:
        config_of("localhost:2181", tmp_path, "SASL_PLAINTEXT://9092", config=config)
    assert "secret" not in str(refused.value)
