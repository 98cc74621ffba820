"""SASL on klamm's listeners, with the clients of others and with bytes."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.admin.configs.scram_credentials import MIN_ITERATIONS, CredentialUpsertion
from klamm.cluster.api_errors import Errors
from klamm.lab.actions.network_actions import FailRequests
from klamm.server.cluster_server import ClusterServer
from klamm.server.metrics import metrics_text
from klamm.wire import connection
from klamm.world.kafka.jars import kafka_libs
from klamm.world.real import listeners
from tests.listeners import BROKERS, ask, bootstrap, config_of, create, free_ports, place
from tests.security_clients import (
    ROUND_TRIP_PARAMS,
    ROUND_TRIPS,
    Login,
    librdkafka_config,
    trusting,
)
from tests.waiting import wait_until
from tests.zookeeper_tls import Certificates

ALL_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
ALICE = Login("PLAIN", "alice", "of alice: #secret")
FAILED = "broker 0 closed a connection: authentication of 127.0.0.1 failed: "
NO_USERS = "no user can log in to the listener SASL_PLAINTEXT, because none is defined"
METADATA_V1 = struct.pack(">hhihi", 3, 1, 9, -1, -1)
API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 9, -1)
TOKEN = b"\0alice\0of alice: #secret"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(
    chroot: str,
    tmp_path: Path,
    certificates: Certificates,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[ClusterServer]:
    """A cluster with SASL that logs every failure.

    The parameter is the security protocol and the mechanisms.
    """
    monkeypatch.setattr(listeners, "WARNING_INTERVAL_S", 0.0)
    users = tmp_path / "users.txt"
    users.write_text(f"# users\n\n{ALICE.user}:{ALICE.password}\nbob:b\n")
    config = {
        "klamm.sasl.plain.users.location": str(users),
        "sasl.enabled.mechanisms": getattr(request, "param", ("", "PLAIN"))[1],
        "connection.failed.authentication.delay.ms": "0",
    }
    protocol, _ = getattr(request, "param", ("SASL_PLAINTEXT", ""))
    if protocol == "SASL_SSL":
        config["ssl.keystore.location"] = str(certificates.server)
    listen = f"{protocol}://{free_ports(BROKERS)}"
    with ClusterServer(config_of(chroot, tmp_path / "data", listen, config=config)) as opened:
        create(opened, (0, 1, 2))
        yield opened


def handshake(mechanism: bytes, version: int = 1) -> bytes:
    return struct.pack(">hhihh", 17, version, 9, -1, len(mechanism)) + mechanism


def authenticate(token: bytes, version: int = 0) -> bytes:
    return struct.pack(">hhihi", 36, version, 9, -1, len(token)) + token


@pytest.mark.parametrize(
    ("mechanisms", "users", "is_warned"),
    [
        (ALL_MECHANISMS, None, True),
        (ALL_MECHANISMS, "# no users\n", True),
        ("SCRAM-SHA-256", "bob:b\n", True),
        (ALL_MECHANISMS, "bob:b\n", False),
    ],
)
def test_listeners_without_users_warn(
    chroot: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    mechanisms: str,
    users: str | None,
    is_warned: bool,
) -> None:
    config = {"sasl.enabled.mechanisms": mechanisms}
    if users is not None:
        config["klamm.sasl.plain.users.location"] = str(tmp_path / "users.txt")
        (tmp_path / "users.txt").write_text(users)
    listen = f"SASL_PLAINTEXT://{free_ports(BROKERS)}"
    with ClusterServer(config_of(chroot, tmp_path / "data", listen, config=config)) as server:
        assert (NO_USERS in caplog.text) == is_warned
        alice = CredentialUpsertion("alice", 1, MIN_ITERATIONS, b"salt", b"salted")
        server.admin.user_scram_credentials.alter([alice], [])
    caplog.clear()
    with ClusterServer(config_of(chroot, tmp_path / "data", listen, config=config)):
        assert NO_USERS not in caplog.text


class Exchange:
    """A connection on which frames are sent and received one by one."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._stream = client.makefile("rb")

    def ask(self, frame: bytes) -> bytes | None:
        """Return the answer to a frame; None if the broker hangs up."""
        with contextlib.suppress(ConnectionError):
            self._client.sendall(struct.pack(">i", len(frame)) + frame)
            size = self._stream.read(4)
            return self._stream.read(struct.unpack(">i", size)[0]) if size else None
        return None


@contextlib.contextmanager
def exchange(server: ClusterServer) -> Iterator[Exchange]:
    with socket.create_connection(place(server, 0), 10) as client:
        yield Exchange(client)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


# -- clients


@pytest.mark.parametrize("server", [("SASL_SSL", "PLAIN")], indirect=True)
@pytest.mark.client(shows="SASL PLAIN over TLS: a record produced and consumed")
@pytest.mark.parametrize("round_trip", ROUND_TRIP_PARAMS)
def test_clients_authenticate_with_plain(
    server: ClusterServer,
    certificates: Certificates,
    round_trip: Callable[[list[str], Path, Login], bytes],
) -> None:
    assert round_trip(bootstrap(server), certificates.ca, ALICE) == b"record"


@pytest.mark.parametrize("server", [("SASL_SSL", "PLAIN")], indirect=True)
def test_a_client_learns_why_it_is_refused(
    server: ClusterServer, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    for login, code, text in (
        (
            ALICE._replace(password="wrong"),
            confluent_kafka.KafkaError._AUTHENTICATION,
            "Authentication failed: Invalid username or password",
        ),
        (
            ALICE._replace(mechanism="SCRAM-SHA-512"),
            confluent_kafka.KafkaError._AUTHENTICATION,
            "PLAIN",
        ),
    ):
        errors: list[confluent_kafka.KafkaError] = []
        config = librdkafka_config(bootstrap(server)[:1], certificates.ca, login)
        config["error_cb"] = errors.append
        client = AdminClient(config)

        def is_refused(
            client: AdminClient = client,
            errors: list[confluent_kafka.KafkaError] = errors,
            code: int = code,
            text: str = text,
        ) -> bool:
            client.poll(0.1)
            return any(error.code() == code and text in error.str() for error in errors)

        wait_until(is_refused)
    assert not [line for line in warnings(caplog) if "wrong" in line or ALICE.password in line]


# -- SCRAM


def upsertion(login: Login) -> UserScramCredentialUpsertion:
    mechanism = ScramMechanism[login.mechanism.replace("-", "_")]
    info = ScramCredentialInfo(mechanism, 4096)
    return UserScramCredentialUpsertion(login.user, info, login.password.encode())


def admin_client(server: ClusterServer, certificates: Certificates) -> AdminClient:
    return AdminClient(librdkafka_config(bootstrap(server), certificates.ca, ALICE))


@pytest.mark.slow
@pytest.mark.parametrize("server", [("SASL_SSL", ALL_MECHANISMS)], indirect=True)
def test_clients_authenticate_with_scram(server: ClusterServer, certificates: Certificates) -> None:
    logins = [
        Login("SCRAM-SHA-256", "carol", "of carol"),
        Login("SCRAM-SHA-512", "dave", "of \u00e9"),
    ]
    client = admin_client(server, certificates)
    for future in client.alter_user_scram_credentials(list(map(upsertion, logins))).values():
        future.result(30)
    for round_trip, login in itertools.product(ROUND_TRIPS.values(), logins):
        assert round_trip(bootstrap(server), certificates.ca, login) == b"record"


@pytest.mark.parametrize("server", [("SASL_SSL", ALL_MECHANISMS)], indirect=True)
def test_credentials_are_described_changed_and_deleted(
    server: ClusterServer, certificates: Certificates
) -> None:
    client = admin_client(server, certificates)

    def alter(*changes: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> list[str]:
        futures = client.alter_user_scram_credentials(list(changes))
        return [
            "" if (error := future.exception(30)) is None else error.args[0].str()
            for _, future in sorted(futures.items())
        ]

    carol, dave = Login("SCRAM-SHA-256", "carol", "c"), Login("SCRAM-SHA-512", "dave", "d")
    few = UserScramCredentialUpsertion(
        "eve", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4095), b"e"
    )
    gone = UserScramCredentialDeletion("frank", ScramMechanism.SCRAM_SHA_256)
    assert alter(upsertion(carol), upsertion(dave), few, gone) == [
        "",
        "",
        "Too few iterations",
        "Attempt to delete a user credential that does not exist",
    ]
    twice = "A user credential cannot be altered twice in the same request"
    assert alter(upsertion(carol), upsertion(carol)) == [twice]
    described = client.describe_user_scram_credentials().result(30)
    assert {
        user: [(one.mechanism, one.iterations) for one in found.scram_credential_infos]
        for user, found in described.items()
    } == {
        "carol": [(ScramMechanism.SCRAM_SHA_256, 4096)],
        "dave": [(ScramMechanism.SCRAM_SHA_512, 4096)],
    }
    unknown = client.describe_user_scram_credentials(["eve"])["eve"].exception(30)
    assert unknown.args[0].code() == confluent_kafka.KafkaError.RESOURCE_NOT_FOUND
    with scram_exchange(server, certificates) as asked:
        assert asked(b"n,,n=carol,r=x")[:6] == struct.pack(">ih", 9, 0)
    assert alter(UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)) == [""]
    with scram_exchange(server, certificates) as asked:
        refused = asked(b"n,,n=carol,r=x")
        assert refused[:6] == struct.pack(">ih", 9, 58)
        assert b"due to invalid credentials with SASL mechanism SCRAM-SHA-256" in refused


@contextlib.contextmanager
def scram_exchange(
    server: ClusterServer, certificates: Certificates
) -> Iterator[Callable[[bytes], bytes]]:
    """Yield a function that sends a message of SCRAM-SHA-256 and returns the response."""
    with (
        socket.create_connection(place(server, 0), 10) as plain,
        trusting(certificates.ca).wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        connected = Exchange(client)
        assert connected.ask(handshake(b"SCRAM-SHA-256"))
        yield lambda message: connected.ask(authenticate(message)) or b""


# -- Kafka's own tools


@pytest.mark.client("kafka-configs", version="2.8.2", shows="SASL over TLS; adds a user")
@pytest.mark.client("kafka-topics", version="2.8.2", shows="SASL over TLS: PLAIN, SCRAM")
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON)
@pytest.mark.parametrize("server", [("SASL_SSL", ALL_MECHANISMS)], indirect=True)
def test_tools_of_kafka_authenticate_and_add_users(
    server: ClusterServer, certificates: Certificates, chroot: str, tmp_path: Path
) -> None:
    def tool(java_class: str, login: Login, *args: str) -> str:
        config = tmp_path / "client.properties"
        module = "plain.Plain" if login.mechanism == "PLAIN" else "scram.Scram"
        config.write_text(
            "security.protocol=SASL_SSL\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.ca}\n"
            f"sasl.mechanism={login.mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{login.user}" password="{login.password}";\n'
        )
        at = ["--bootstrap-server", ",".join(bootstrap(server)), "--command-config", str(config)]
        done = run_tool(java_class, [*at, *args])
        return done.stdout + done.stderr

    configs, topics = "kafka.admin.ConfigCommand", "kafka.admin.TopicCommand"
    carol, dave = Login("SCRAM-SHA-256", "carol", "c"), Login("SCRAM-SHA-512", "d,=", "d")
    of_user = ("--alter", "--entity-type", "users", "--entity-name")
    added = tool(configs, ALICE, *of_user, carol.user, "--add-config", "SCRAM-SHA-256=[password=c]")
    assert added == "Completed updating config for user carol.\n"
    secret = ("--add-config", "SCRAM-SHA-512=[iterations=8192,password=d]")
    run_tool(configs, ["--zookeeper", chroot, *of_user, dave.user, *secret])
    assert tool(topics, carol, "--create", "--topic", "a") == "Created topic a.\n"
    assert tool(topics, dave, "--list") == "a\nt\n"
    wrong = tool(topics, carol._replace(password="wrong"), "--list")
    assert (
        "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed during "
        "authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256\n"
    ) in wrong


# -- bytes


@pytest.mark.parametrize("is_framed", [True, False])
def test_a_client_authenticates_and_then_sends_requests(
    server: ClusterServer, is_framed: bool
) -> None:
    with exchange(server) as client:
        versions = client.ask(API_VERSIONS_V0)
        assert versions is not None
        assert versions[4:6] == b"\0\0"
        answer = client.ask(handshake(b"PLAIN", 1 if is_framed else 0))
        assert answer == struct.pack(">ihih", 9, 0, 1, 5) + b"PLAIN"
        if is_framed:
            empty = struct.pack(">ihhiq", 9, 0, -1, 0, 0)
            assert client.ask(authenticate(TOKEN, 1)) == empty
        else:
            assert client.ask(TOKEN) == b""
        metadata = client.ask(METADATA_V1)
        assert metadata is not None
        assert b"\0\x01t" in metadata
        late = client.ask(handshake(b"PLAIN"))
        assert late is not None
        assert struct.unpack_from(">ih", late) == (9, 34)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0carol\0b", "Authentication failed: Invalid username or password"),
        (b"\0\0b", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (
            b"alice\0bob\0b",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
        (b"bob\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_a_refused_token_is_answered_and_ends_the_connection(
    server: ClusterServer, caplog: pytest.LogCaptureFixture, token: bytes, message: str
) -> None:
    with exchange(server) as client:
        client.ask(handshake(b"PLAIN"))
        text = message.encode()
        refused = struct.pack(">ihh", 9, 58, len(text)) + text + struct.pack(">i", 0)
        assert client.ask(authenticate(token)) == refused
        assert client.ask(METADATA_V1) is None
    wait_until(
        lambda: warnings(caplog) == [FAILED + message.removeprefix("Authentication failed: ")]
    )
    with exchange(server) as client:
        client.ask(handshake(b"PLAIN", 0))
        assert client.ask(token) is None


def test_what_comes_before_authentication_ends_the_connection(
    server: ClusterServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each list of frames, and the reason in the log; only the last frame is refused."""
    cases: list[tuple[list[bytes], str]] = [
        ([METADATA_V1], "Unexpected Kafka request of type Metadata during SASL handshake."),
        (
            [API_VERSIONS_V0, API_VERSIONS_V0],
            "Unexpected Kafka request of type ApiVersions during SASL handshake.",
        ),
        (
            [authenticate(TOKEN)],
            "Unexpected Kafka request of type SaslAuthenticate during SASL handshake.",
        ),
        (
            [handshake(b"PLAIN", 7)],
            "Unexpected Kafka request of type API key 17, version 7 during SASL handshake.",
        ),
        (
            [handshake(b"PLAIN"), METADATA_V1],
            "Unexpected Kafka request of type Metadata during SASL authentication.",
        ),
    ]
    for frames, reason in cases:
        with exchange(server) as client:
            for frame in frames[:-1]:
                assert client.ask(frame)
            assert client.ask(frames[-1]) is None
        expected = FAILED + reason
        wait_until(lambda expected=expected: warnings(caplog)[-1:] == [expected])
    text = metrics_text(server.cluster, *server.collectors).decode()
    name = "kafka_server_socket_server_metrics_failed_authentication_total"
    assert f'{name}{{broker="0"}} {len(cases)}.0' in text
    for frame in (b"", b"\0", b"\x60\x80" * 20, handshake(b"PLAIN")[:-1], b"\xff" * 600_000):
        with exchange(server) as client:
            assert client.ask(frame) is None
    with exchange(server) as client:
        assert client.ask(handshake(b"PLAIN"))
        assert client.ask(authenticate(TOKEN))


def test_the_answer_to_an_unknown_mechanism_lists_the_mechanisms(server: ClusterServer) -> None:
    with exchange(server) as client:
        answer = client.ask(handshake(b"GSSAPI"))
        assert answer == struct.pack(">ihih", 9, 33, 1, 5) + b"PLAIN"
        assert client.ask(METADATA_V1) is None


def test_an_unknown_version_of_api_versions_is_answered(server: ClusterServer) -> None:
    with exchange(server) as client:
        answer = client.ask(struct.pack(">hhih", 18, 99, 9, -1))
        assert answer is not None
        assert struct.unpack_from(">ih", answer) == (9, 35)
        assert client.ask(API_VERSIONS_V0)
        assert client.ask(handshake(b"PLAIN"))


def test_a_client_that_does_not_authenticate_in_time_is_cut_off(
    server: ClusterServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "AUTHENTICATION_S", 0.2)
    with socket.create_connection(place(server, 0), 10) as client:
        assert client.recv(1) == b""
    wait_until(lambda: warnings(caplog) == [f"{FAILED}it took too long"])
    assert ask(server, 0, API_VERSIONS_V0)


def test_the_steps_of_authentication_have_faults(server: ClusterServer) -> None:
    perform = server.operations.perform
    for fault in (
        FailRequests(api="ApiVersions", error="REQUEST_TIMED_OUT", times=1),
        FailRequests(api="SaslHandshake", error="UNSUPPORTED_SASL_MECHANISM", times=1),
        FailRequests(api="SaslAuthenticate", error="SASL_AUTHENTICATION_FAILED", times=1),
    ):
        perform(fault)
    with exchange(server) as client:
        for frame, error in (
            (API_VERSIONS_V0, Errors.REQUEST_TIMED_OUT),
            (handshake(b"PLAIN"), Errors.UNSUPPORTED_SASL_MECHANISM),
            (authenticate(TOKEN), Errors.SASL_AUTHENTICATION_FAILED),
        ):
            # A refused request has no other effect: the client may send it again.
            for expected in (error, Errors.NONE):
                answer = client.ask(frame)
                assert answer is not None
                assert struct.unpack_from(">h", answer, 4) == (expected,)
        assert client.ask(METADATA_V1)
    perform(FailRequests(api="SaslHandshake", cut=True, times=1))
    with exchange(server) as client:
        assert client.ask(handshake(b"PLAIN")) is None
    assert server.cluster.transport.fault_texts == []
