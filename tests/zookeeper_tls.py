"""A ZooKeeper server with TLS, and certificates that are made for one test run."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.ports import HOST, free_port
from klamm.zk.security import ZooKeeperTls

KEY_PASSWORD = " of the key "


class Certificates:
    """A CA, a server's certificate for ``127.0.0.1``, and a client's, as PEM files in ``folder``.

    ``stranger``: the CA of somebody else. ``encrypted_key``: the client's, under KEY_PASSWORD.
    """

    def __init__(self, folder: Path, server_name: str = HOST) -> None:
        self.ca, self.stranger = folder / "ca.pem", folder / "stranger.pem"
        self.server = folder / "server.pem"
        self.client, self.client_key = folder / "client.pem", folder / "client-key.pem"
        self.encrypted_key = folder / "client-key-encrypted.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        trustme.CA().cert_pem.write_to_path(self.stranger)
        server = authority.issue_cert(server_name)
        self.server.write_bytes(_pkcs8(server))
        for pem in server.cert_chain_pems:
            pem.write_to_path(self.server, append=True)
        client = authority.issue_cert("klamm@example.org")
        self.client_key.write_bytes(_pkcs8(client))
        self.encrypted_key.write_bytes(_pkcs8(client, KEY_PASSWORD))
        for pem in client.cert_chain_pems:
            pem.write_to_path(self.client, append=True)

    def tls(self, **changed: object) -> ZooKeeperTls:
        """What a client needs."""
        known = {"ca": self.ca, "certificate": self.client, "key": self.client_key}
        return ZooKeeperTls(**{**known, **changed})  # type: ignore[arg-type]


class TlsZooKeeper(EmbeddedZooKeeper):
    """An embedded server that also serves TLS on ``tls_port``, to clients with a certificate."""

    def __init__(self, certificates: Certificates) -> None:
        super().__init__()
        self.tls_port = free_port()
        self._settings |= {
            "secureClientPort": str(self.tls_port),
            "secureClientPortAddress": HOST,
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "ssl.keyStore.location": str(certificates.server),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(certificates.ca),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
            "ssl.hostnameVerification": "false",
        }

    @property
    def tls_connect_string(self) -> str:
        """``127.0.0.1:port``, to which a chroot may be appended."""
        return f"{HOST}:{self.tls_port}"


def _pkcs8(issued: trustme.LeafCert, password: str | None = None) -> bytes:
    """The private key in the one form that both Java and OpenSSL read."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password.encode()),
    )
