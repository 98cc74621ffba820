"""zk/security.py: which settings contradict each other, and what a failed handshake means."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.connect import security_of
from klamm.cluster.errors import UsageError
from klamm.zk.security import ZooKeeperSecurity, ZooKeeperTls, zookeeper_tls_failure

CA = Path("ca.pem")
OWN = {"certificate": Path("own.pem"), "key": Path("own.key")}


@pytest.mark.parametrize("missing", OWN)
def test_a_certificate_and_its_key_belong_together(missing: str) -> None:
    given: dict[str, Any] = {**OWN, missing: None}
    with pytest.raises(UsageError, match="a client certificate requires its key, and vice versa"):
        ZooKeeperTls(ca=CA, **given)


@pytest.mark.parametrize("digest", ["", "user", "user:", ":word"])
def test_a_digest_has_a_user_and_a_password(digest: str) -> None:
    with pytest.raises(UsageError, match="is not USER:PASSWORD"):
        ZooKeeperSecurity(digest=digest)


@pytest.mark.parametrize(
    ("settings", "has_identity"),
    [
        ({}, False),
        ({"tls": ZooKeeperTls(ca=CA)}, False),
        ({"tls": ZooKeeperTls(ca=CA, **OWN)}, True),
        ({"digest": "u:p"}, True),
    ],
)
def test_acls_need_an_identity(settings: dict[str, Any], has_identity: bool) -> None:
    assert ZooKeeperSecurity(**settings).has_identity is has_identity
    if has_identity:
        assert ZooKeeperSecurity(sets_acls=True, **settings).sets_acls
        return
    with pytest.raises(UsageError, match="no credentials for the ACLs are configured"):
        ZooKeeperSecurity(sets_acls=True, **settings)


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none cannot be used as CA certificates: No such file"):
        ZooKeeperTls(ca=tmp_path / "none").context()
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    with pytest.raises(UsageError, match=r"wrong\.pem cannot be used as CA certificates") as raised:
        ZooKeeperTls(ca=wrong).context()
    assert raised.value.hint == "klamm reads PEM files, not key stores"


def ssl_error(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, "text")
    error.reason = reason  # type: ignore[assignment]
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConnectionResetError(), "the server at h:1 does not speak TLS"),
        (ssl_error("WRONG_VERSION_NUMBER"), "the server at h:1 does not speak TLS"),
        (ssl_error("UNEXPECTED_EOF_WHILE_READING"), "the server at h:1 does not speak TLS"),
        (ssl_error("BAD_ECPOINT"), "TLS handshake with ZooKeeper at h:1 failed: BAD_ECPOINT"),
        (ssl_error(None), "TLS handshake with ZooKeeper at h:1 failed: text"),
    ],
)
def test_a_failed_handshake_is_explained(error: OSError, message: str) -> None:
    assert zookeeper_tls_failure("h:1", error).message == message


def test_a_certificate_that_is_not_trusted_says_why() -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_message = "Hostname mismatch"
    assert zookeeper_tls_failure("h:1", error).message == (
        "the ZooKeeper server at h:1 has an invalid certificate: Hostname mismatch"
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ZooKeeperSecurity()),
        ({"CA": "ca.pem"}, ZooKeeperSecurity(tls=ZooKeeperTls(ca=CA))),
        (
            {"CA": "ca.pem", "CERT": "own.pem", "KEY": "own.key", "KEY_PASSWORD": "x"},
            ZooKeeperSecurity(tls=ZooKeeperTls(ca=CA, **OWN, key_password="x"), sets_acls=True),
        ),
        ({"CA": "", "KEY": ""}, ZooKeeperSecurity()),
    ],
)
def test_security_is_read_from_the_environment(
    environ: dict[str, str], expected: ZooKeeperSecurity
) -> None:
    given = {f"KLAMM_ZK_TLS_{name}": value for name, value in environ.items()}
    assert security_of(given) == expected
    with_digest = security_of({**given, "KLAMM_ZK_DIGEST": "u:p"})
    assert with_digest == replace(expected, digest="u:p", sets_acls=True)
