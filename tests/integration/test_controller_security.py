"""klamm's controller drives brokers of Kafka 2.8.2 over TLS and SASL.

Tests of Kafka's brokers are marked ``kafka``: they need its jars.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
import trustme
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.cluster.errors import KlammError, UsageError
from klamm.server.cluster_server import ClusterServer
from klamm.server.controller_server import (
    ControllerServer,
    ControllerServerConfig,
    KnownController,
)
from klamm.server.kafka_cluster import parse_listener
from klamm.wire.broker_security import broker_security
from klamm.wire.config import inter_broker_config
from klamm.world.kafka.jars import kafka_libs
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.guard import MARKER_PATH
from tests.kafka_cluster import (
    PATIENCE_S,
    KafkaCluster,
    Security,
    kill_first_leader,
    values_until,
)
from tests.listeners import (
    BROKERS,
    bootstrap,
    config_of,
    create_everywhere,
    free_ports,
    place,
)
from tests.security_clients import Login, librdkafka_config
from tests.waiting import wait_until
from tests.zookeeper_tls import Certificates

USER, PASSWORD = "klamm", "of klamm: secret"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
CASES = {
    "SSL": ("SSL", None, None),
    "SASL_PLAINTEXT": ("SASL_PLAINTEXT", "SCRAM-SHA-512", None),
    "SASL_SSL": ("SASL_SSL", "PLAIN", None),
    "control plane": ("SASL_PLAINTEXT", "PLAIN", "SSL"),
}
"""Inter-broker protocol, SASL mechanism, and protocol of a separate listener for controllers."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def security_of(
    protocol: str,
    mechanism: str | None,
    control_plane: str | None,
    folder: Path,
    certificates: Certificates,
) -> Security:
    """Return the security of a cluster; with SSL alone, both ends need a certificate."""
    brokers, klamm, clients = [], [], {"security.protocol": protocol}
    if "SSL" in f"{protocol} {control_plane}":
        files = (
            f"ssl.keystore.location={certificates.server}",
            f"ssl.truststore.location={certificates.ca}",
            f"ssl.client.auth={'required' if mechanism is None else 'none'}",
        )
        klamm += files
        # Kafka reads only encrypted keys from files.
        key, begin, chain = certificates.server.read_text().partition("-----BEGIN CERTIFICATE")
        brokers += [
            *files[1:],
            "ssl.truststore.type=PEM",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.key={key}",
            f"ssl.keystore.certificate.chain={begin}{chain}",
        ]
        clients["ssl.ca.location"] = str(certificates.ca)
        if mechanism is None:
            clients["ssl.certificate.location"] = str(certificates.client)
            clients["ssl.key.location"] = str(certificates.client_key)
    if mechanism is not None:
        users = folder / "users.txt"
        users.write_text(f"{USER}:{PASSWORD}\n")
        name = f"listener.name.{protocol.lower()}.{mechanism.lower()}.sasl.jaas.config"
        plain = f' user_{USER}="{PASSWORD}"' if mechanism == "PLAIN" else ""
        both = f"sasl.mechanism.inter.broker.protocol={mechanism}"
        brokers += [
            both,
            f"sasl.enabled.mechanisms={mechanism}",
            f'{name}={LOGIN_MODULES[mechanism]} required username="{USER}" '
            f'password="{PASSWORD}"{plain};',
        ]
        klamm += [
            both,
            f"klamm.sasl.inter.broker.user.location={users}",
            f"klamm.sasl.plain.users.location={users}",
        ]
        clients |= {
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    return Security(protocol, brokers, klamm, clients, control_plane)


@pytest.fixture(params=CASES)
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates
) -> Iterator[KafkaCluster]:
    """Three brokers under klamm's controller; the parameter is the security protocol."""
    if kafka_libs() is None:
        pytest.skip(SKIP_REASON)
    protocol, mechanism, control_plane = CASES[request.param]
    with EmbeddedZooKeeper() as zookeeper:
        security = security_of(protocol, mechanism, control_plane, tmp_path, certificates)
        opened = KafkaCluster(zookeeper.connect_string, tmp_path, "2.8", security)
        if mechanism == "SCRAM-SHA-512":
            add_user(opened.zookeeper, mechanism)
        try:
            opened.start()
            yield opened
        finally:
            opened.close()


def add_user(connect_string: str, mechanism: str) -> None:
    """Store the credential in ZooKeeper, before the first broker starts."""
    client = KazooClient(hosts=connect_string.partition("/")[0])
    client.start()
    client.ensure_path("/" + connect_string.partition("/")[2])
    client.stop()
    client.close()
    credential = f"{mechanism}=[password={PASSWORD}]"
    entity = ("--entity-type", "users", "--entity-name", USER)
    done = run_tool(
        "kafka.admin.ConfigCommand",
        ["--zookeeper", connect_string, "--alter", "--add-config", credential, *entity],
    )
    assert done.returncode == 0, done.stderr


def values_of(cluster: KafkaCluster, topic: str, count: int) -> list[int]:
    """Read partition 0 of a topic until ``count`` values were read, and return them."""
    consumer = confluent_kafka.Consumer({**cluster.client, "group.id": "g"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        return values_until(
            count, topic, lambda: [record.value() for record in consumer.consume(1000, 0.1)]
        )
    finally:
        consumer.close()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_brokers_of_kafka_are_driven(cluster: KafkaCluster) -> None:
    cluster.create("t", {0: (1, 2, 3)})
    cluster.await_partitions("t", {0: (1, [1, 2, 3])})
    load = kill_first_leader(cluster, "t")
    # Leaders ask the controller for each change of an ISR (AlterIsr).
    cluster.await_partitions("t", {0: (2, [1, 2, 3])})
    cluster.brokers[2].stop()
    assert "Controlled shutdown succeeded" in cluster.brokers[2].log
    cluster.await_partitions("t", {0: (1, [1, 3])})
    assert sorted(values_of(cluster, "t", len(load.acknowledged))) == sorted(load.acknowledged)


# -- brokers of klamm in place of Kafka's

PROTOCOL = "sasl.mechanism.inter.broker.protocol"
USERS = "klamm.sasl.inter.broker.user.location"


class Secured(NamedTuple):
    """A cluster of klamm with the listener SASL_SSL, and the configs of a controller for it."""

    brokers: ClusterServer
    configs: dict[str, str]
    controller: Callable[..., ControllerServerConfig]


@pytest.fixture
def secured(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path, certificates: Certificates
) -> Iterator[Secured]:
    """A cluster that a controller may join. The configs of a controller may be changed."""
    security = security_of("SASL_SSL", "PLAIN", None, tmp_path, certificates)
    configs = dict(line.split("=", 1) for line in security.klamm)
    configs |= {"connection.failed.authentication.delay.ms": "0"}
    port = free_ports(BROKERS + 1)

    def controller(**changed: str) -> ControllerServerConfig:
        return ControllerServerConfig(
            zookeeper=chroot,
            listeners=(parse_listener(f"SASL_SSL://127.0.0.1:{port + BROKERS}"),),
            broker_id=1000,
            data_dir=tmp_path / "controller",
            config={**configs, **{name.replace("_", "."): one for name, one in changed.items()}},
            session_timeout_ms=2000,
            takes_over=True,
        )

    enabled = {**configs, "sasl.enabled.mechanisms": "PLAIN"}
    spec = config_of(chroot, tmp_path / "brokers", f"SASL_SSL://{port}", config=enabled)
    with ClusterServer(spec) as brokers:
        zookeeper_client.delete(chroot[chroot.index("/") :] + MARKER_PATH)
        yield Secured(brokers, configs, controller)


def test_brokers_of_another_process_are_driven(secured: Secured) -> None:
    failures: list[KlammError] = []
    with ControllerServer(secured.controller(), threading.Event(), failures.append) as server:
        taken = KnownController(1000, 2)
        wait_until(lambda: server.known_controller() == taken, PATIENCE_S)
        config = librdkafka_config(
            bootstrap(secured.brokers),
            Path(secured.configs["ssl.truststore.location"]),
            Login("PLAIN", USER, PASSWORD),
        )
        admin = AdminClient({**config, "log_level": 0})
        wait_until(lambda: admin.list_topics().controller_id == 1000, PATIENCE_S)
        create_everywhere(admin, 1, PATIENCE_S)
    assert failures == []


def test_a_controller_that_brokers_refuse_does_not_start(
    secured: Secured, certificates: Certificates, tmp_path: Path
) -> None:
    users = {}
    for name, text in (("wrong", "klamm:wrong\n"), ("two", "a:b\nc:d\n"), ("none", "")):
        users[name] = tmp_path / f"{name}.txt"
        users[name].write_text(text)
    other = tmp_path / "other"
    other.mkdir()
    stranger = Certificates(other)
    authority, expired = trustme.CA(), tmp_path / "expired.pem"
    authority.cert_pem.write_to_path(other / "authority.pem")
    issued = authority.issue_cert("127.0.0.1", not_after=datetime(2020, 1, 1, tzinfo=UTC))
    issued.private_key_and_cert_chain_pem.write_to_path(expired)
    own = "the certificate in ssl.keystore.location is not valid for this controller at 127.0.0.1: "
    cases = {
        "broker 0 at {place}: it refused the user klamm: Authentication failed: Invalid username "
        "or password": {USERS: str(users["wrong"])},
        f"{users['two']} has 2 users: expected one line USER:PASSWORD": {USERS: str(users["two"])},
        f"{users['none']} has 0 users: expected one line USER:PASSWORD": {
            USERS: str(users["none"])
        },
        f"{own}certificate has expired": {
            "ssl.truststore.location": str(other / "authority.pem"),
            "ssl.keystore.location": str(expired),
        },
        f"{own}unable to get local issuer certificate": {
            "ssl.truststore.location": str(certificates.stranger)
        },
        "broker 0 at {place}: its certificate is not valid: "
        "unable to get local issuer certificate": {
            "ssl.truststore.location": str(stranger.ca),
            "ssl.keystore.location": str(stranger.server),
        },
        "broker 0 at {place}: it does not accept the SASL mechanism SCRAM-SHA-512; "
        "it accepts PLAIN": {PROTOCOL: "SCRAM-SHA-512"},
    }
    host, port = place(secured.brokers, 0)
    for message, changed in cases.items():
        config = secured.controller(**changed)
        with (
            pytest.raises(KlammError) as caught,
            ControllerServer(config, threading.Event(), print),
        ):
            pass
        assert caught.value.message == message.format(place=f"{host}:{port}")


@pytest.mark.parametrize(
    ("protocol", "config", "message"),
    [
        ("SASL_PLAINTEXT", {PROTOCOL: "PLAIN"}, "SASL requires the mechanism and the user"),
        ("SASL_PLAINTEXT", {USERS: "gone.txt"}, "SASL requires the mechanism and the user"),
        ("SASL_PLAINTEXT", {PROTOCOL: "PLAIN", USERS: "gone"}, "gone cannot be read: No such file"),
        (
            "SSL",
            {"ssl.truststore.location": "gone.pem"},
            "gone.pem cannot be used as CA certificates of the brokers: No such file",
        ),
        (
            "SSL",
            {"ssl.keystore.location": "gone.pem"},
            "gone.pem cannot be used as private key and certificate of the brokers: No such file",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    protocol: str, config: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        broker_security(protocol, inter_broker_config(config))
