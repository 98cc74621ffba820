"""Identity, ACLs and TLS on a real ZooKeeper: what other clients may read and change."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from klamm.cli.main import main
from klamm.cluster.errors import UsageError, ZooKeeperUnavailable
from klamm.zk.acls import SECURE_ROOT_PATHS
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_connection import LinkCut, SessionHandler
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.store import Create, GetData, ResultCode
from tests.serving import klamm, klamm_up
from tests.zookeeper_tls import KEY_PASSWORD, Certificates, TlsZooKeeper

pytestmark = pytest.mark.usefixtures("servers_hurry")
TIMEOUT_MS = 10_000
DIGEST = "klamm:secret"
PROTECTED = ZooKeeperSecurity(digest=DIGEST, sets_acls=True)
OWNER = make_digest_acl("klamm", "secret", all=True)
ALL_READ = make_acl("world", "anyone", read=True)


@contextlib.contextmanager
def session(address: str, security: ZooKeeperSecurity = UNSECURED) -> Iterator[KazooStore]:
    opened = KazooSession(address, TIMEOUT_MS, security=security)
    with contextlib.closing(opened):
        yield KazooStore(opened)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_server(certificates: Certificates) -> Iterator[TlsZooKeeper]:
    with TlsZooKeeper(certificates) as server:
        yield server


@pytest.fixture(scope="module")
def owner(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A plain session of the identity; the server hides digests from others."""
    client = KazooClient(hosts=zookeeper.connect_string, auth_data=[("digest", DIGEST)])
    client.start()
    yield client
    client.stop()
    client.close()


def acls_of(client: KazooClient, path: str) -> list[ACL]:
    return list(client.get_acls(path)[0])


# -- ACLs and digests


def test_znodes_of_an_identity_are_protected_as_kafka_protects_them(
    chroot: str, owner: KazooClient, zookeeper_client: KazooClient
) -> None:
    root = chroot[chroot.index("/") :]
    with session(chroot, PROTECTED) as store:
        KafkaZkClient(store).create_top_level_paths()
    assert acls_of(owner, f"{root}/brokers/topics") == [OWNER, ALL_READ]
    assert acls_of(owner, f"{root}/config/topics") == [OWNER, ALL_READ]
    with pytest.raises(NoAuthError):
        zookeeper_client.get(f"{root}/config/users")
    assert acls_of(owner, f"{root}/consumers") == OPEN_ACL_UNSAFE
    with pytest.raises(NoAuthError):
        zookeeper_client.set(f"{root}/brokers/topics", b"")


def test_without_acls_an_identity_creates_open_znodes(
    chroot: str, owner: KazooClient, zookeeper_client: KazooClient
) -> None:
    root = chroot[chroot.index("/") :]
    with session(chroot, ZooKeeperSecurity(digest=DIGEST)) as store:
        KafkaZkClient(store).create_top_level_paths()
    assert acls_of(owner, f"{root}/config/users") == OPEN_ACL_UNSAFE


def test_another_identity_is_refused_and_the_same_one_is_not(chroot: str) -> None:
    with session(chroot, PROTECTED) as store:
        store.write([[Create("/config", None)], [Create("/config/users", b"secret")]])
    for digest, code in (("klamm:wrong", ResultCode.NOAUTH), (DIGEST, ResultCode.OK)):
        with session(chroot, ZooKeeperSecurity(digest=digest)) as store:
            assert store.read([GetData("/config/users")])[0].code is code


def test_a_cluster_is_protected_and_opened_again(
    chroot: str, owner: KazooClient, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    root = chroot[chroot.index("/") :]
    with session(chroot) as store:
        KafkaZkClient(store).create_recursive("/klamm", b"{}")
        KafkaZkClient(store).create_top_level_paths()
        KafkaZkClient(store).create_recursive("/config/users/alice", b"{}")

    refused = klamm(tmp_path, "zk", "secure", "--zookeeper", chroot)
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        "error: the znodes cannot be protected: no ZooKeeper identity is configured"
    )

    done = klamm(tmp_path, "zk", "secure", "--zookeeper", chroot, "--json", KLAMM_ZK_DIGEST=DIGEST)
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout)["secure"] is True
    assert acls_of(owner, f"{root}/brokers/ids") == [OWNER, ALL_READ]
    assert acls_of(owner, root) == [OWNER, ALL_READ]
    assert acls_of(owner, f"{root}/klamm") == [OWNER, ALL_READ]
    with pytest.raises(NoAuthError):
        zookeeper_client.get(f"{root}/config/users/alice")

    refused = klamm(
        tmp_path, "zk", "unsecure", "--zookeeper", chroot, KLAMM_ZK_DIGEST="klamm:wrong"
    )
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "error: the ACL of / cannot be changed: permission denied for this identity; "
        "no znode was changed\n"
    )
    done = klamm(tmp_path, "zk", "unsecure", "--zookeeper", chroot, KLAMM_ZK_DIGEST=DIGEST)
    assert done.returncode == 0, done.stderr
    assert "are open to all clients" in done.stdout
    assert acls_of(owner, f"{root}/config/users/alice") == OPEN_ACL_UNSAFE
    assert acls_of(owner, root) == OPEN_ACL_UNSAFE


@pytest.mark.parametrize("command", ["secure", "unsecure"])
def test_a_chroot_that_does_not_exist_is_not_protected(
    chroot: str, tmp_path: Path, command: str
) -> None:
    where = ("--zookeeper", f"{chroot}/nosuch")
    refused = klamm(tmp_path, "zk", command, *where, KLAMM_ZK_DIGEST=DIGEST)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: the chroot /")
    assert "/nosuch does not exist\n" in refused.stderr


@pytest.mark.slow
def test_a_protected_cluster_runs_and_refuses_a_klamm_without_its_identity(
    chroot: str, owner: KazooClient, tmp_path: Path
) -> None:
    root = chroot[chroot.index("/") :]
    protect = ("--zookeeper", f"{chroot}/kafka", "--config", "zookeeper.set.acl=true")
    with klamm_up(tmp_path / "a", "--brokers", "1", *protect, KLAMM_ZK_DIGEST=DIGEST) as up:
        up.ok("topics", "--bootstrap-server", up.url, "--create", "--topic", "t")
        assert acls_of(owner, f"{root}/kafka/brokers/topics/t") == [OWNER, ALL_READ]
        assert acls_of(owner, f"{root}/kafka/controller") == [OWNER, ALL_READ]
        assert acls_of(owner, f"{root}/kafka") == [OWNER, ALL_READ]
        tool = ("topics", "--zookeeper", f"{chroot}/kafka", "--delete", "--topic", "t")
        assert "NoAuth for /admin/delete_topics/t" in up.run(*tool).stderr
    up_again = ("up", "--brokers", "1", "--port", "0", "--zookeeper", f"{chroot}/kafka")
    refused = klamm(tmp_path / "b", *up_again)
    assert refused.returncode == 1
    assert "NoAuth for /" in refused.stderr
    assert "KLAMM_ZK_DIGEST" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "zookeeper.set.acl=true"], "no credentials for the ACLs are configured"),
        (["--zk-digest", "secret"], "not USER:PASSWORD"),
        (["--zk-tls-cert", "c", "--zk-tls-key", "k"], "requires --zk-tls-ca"),
        (["--zk-tls-ca", "c", "--zk-tls-key", "k"], "a client certificate requires its key"),
        (["--zk-tls-ca", "c"], "the embedded ZooKeeper does not support TLS"),
        (["--zk-tls-ca", "gone.pem", "--zookeeper", "localhost:1"], "gone.pem cannot be used"),
    ],
)
def test_security_options_that_cannot_work_are_refused(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    up = ("up", "--brokers", "1", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert main([*up, *arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert "secret" not in errors


# -- TLS


def test_a_cluster_runs_over_tls(
    tls_server: TlsZooKeeper, certificates: Certificates, tmp_path: Path
) -> None:
    address = f"{tls_server.tls_connect_string}/tls"
    files = {
        "KLAMM_ZK_TLS_CA": str(certificates.ca),
        "KLAMM_ZK_TLS_CERT": str(certificates.client),
        "KLAMM_ZK_TLS_KEY": str(certificates.encrypted_key),
        "KLAMM_ZK_TLS_KEY_PASSWORD": KEY_PASSWORD,
    }
    protect = ("--config", "zookeeper.set.acl=true")
    with klamm_up(tmp_path, "--brokers", "3", "--zookeeper", address, *protect, **files) as up:
        up.ok("topics", "--bootstrap-server", up.url, "--create", "--topic", "t")
        listed = klamm(tmp_path, "topics", "--zookeeper", address, "--list", **files)
        assert listed.stdout == "t\n"
    plain = KazooClient(hosts=tls_server.connect_string)
    plain.start()
    try:
        owner, everybody = acls_of(plain, "/tls/brokers/topics/t")
        assert owner.id.scheme == "x509"
        assert everybody == ALL_READ
    finally:
        plain.stop()
        plain.close()


def test_pipelined_batches_are_answered_over_tls(
    tls_server: TlsZooKeeper, certificates: Certificates
) -> None:
    security = ZooKeeperSecurity(tls=certificates.tls())
    with session(tls_server.tls_connect_string, security) as store:
        made = store.write([[Create(f"/pipelined-{n}", b"x" * 2_000)] for n in range(500)])
        assert {result.code for result in made} == {ResultCode.OK}
        read = store.read([GetData(f"/pipelined-{n}") for n in range(500)])
        assert {result.data for result in read} == {b"x" * 2_000}


class UntilWaited(threading.Event):
    """The session is suspended until its handler waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return super().wait(timeout)


def test_replies_that_are_decrypted_already_wait_only_for_a_suspended_session(
    certificates: Certificates,
) -> None:
    """One TLS record may hold several replies: then the socket is silent, though more are there."""
    ours, theirs = socket.socketpair()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificates.server)

    def serve() -> None:
        with serving.wrap_socket(theirs, server_side=True) as server:
            server.sendall(b"first reply, second reply")
            server.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    with certificates.tls().context().wrap_socket(ours, server_hostname="127.0.0.1") as client:
        assert client.recv(len("first reply, ")) == b"first reply, "
        may_run = UntilWaited()
        ready, _, _ = SessionHandler(may_run, certificates.tls().context(), 1.0, LinkCut()).select(
            [client], [], None, 0
        )
        assert ready == [client] and may_run.is_set()
        assert client.recv(100) == b"second reply"
        client.sendall(b".")
    thread.join()


def test_a_session_over_tls_survives_a_restart_of_the_server(certificates: Certificates) -> None:
    with TlsZooKeeper(certificates) as server:
        security = ZooKeeperSecurity(tls=certificates.tls())
        with session(server.tls_connect_string, security) as store:
            store.write([[Create("/before", None)]])
            session_id = store.session_id
            server.kill()
            server.start()
            assert store.read([GetData("/before")])[0].code is ResultCode.OK
            assert store.session_id == session_id


def test_a_server_that_another_ca_signed_is_refused(
    tls_server: TlsZooKeeper, certificates: Certificates
) -> None:
    with pytest.raises(ZooKeeperUnavailable, match="invalid certificate: unable to get local"):
        KazooSession(
            tls_server.tls_connect_string,
            TIMEOUT_MS,
            2_000,
            ZooKeeperSecurity(tls=certificates.tls(ca=certificates.stranger)),
        )


def test_a_server_with_the_certificate_of_another_host_is_refused(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, server_name="zookeeper.example.org")
    with (
        TlsZooKeeper(certificates) as server,
        pytest.raises(ZooKeeperUnavailable, match="IP address mismatch"),
    ):
        security = ZooKeeperSecurity(tls=certificates.tls())
        KazooSession(server.tls_connect_string, TIMEOUT_MS, 2_000, security)


def test_a_plain_client_of_a_tls_port_ends_at_its_timeout(
    tls_server: TlsZooKeeper,
) -> None:
    with pytest.raises(ZooKeeperUnavailable, match="within 500 ms"):
        KazooSession(tls_server.tls_connect_string, TIMEOUT_MS, 500)


def test_a_port_without_tls_is_named_as_such(
    zookeeper: EmbeddedZooKeeper, certificates: Certificates
) -> None:
    security = ZooKeeperSecurity(tls=certificates.tls())
    with pytest.raises(ZooKeeperUnavailable, match="does not speak TLS") as refused:
        KazooSession(zookeeper.connect_string, TIMEOUT_MS, 2_000, security)
    assert "secureClientPort" in str(refused.value.hint)


def test_an_encrypted_key_needs_its_password(certificates: Certificates) -> None:
    assert os.path.exists(certificates.encrypted_key)
    for password in (None, "wrong"):
        tls = certificates.tls(key=certificates.encrypted_key, key_password=password)
        with pytest.raises(
            UsageError,
            match="cannot be used as a client certificate and its key: the password of its private "
            "key is missing or wrong",
        ) as refused:
            tls.context()
        assert refused.value.hint == "give it with KLAMM_ZK_TLS_KEY_PASSWORD"
    with pytest.raises(UsageError, match="the private key is not that of the certificate"):
        certificates.tls(key=certificates.server).context()


def test_every_root_that_kafka_protects_is_named() -> None:
    """The 14 paths of kafka.zk.ZkData.SecureRootPaths at 2.8.2."""
    assert sorted(SECURE_ROOT_PATHS) == [
        "/admin",
        "/brokers",
        "/cluster",
        "/config",
        "/controller",
        "/controller_epoch",
        "/delegation_token",
        "/isr_change_notification",
        "/kafka-acl",
        "/kafka-acl-changes",
        "/kafka-acl-extended",
        "/kafka-acl-extended-changes",
        "/latest_producer_id_block",
        "/log_dir_event_notification",
    ]
