"""The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512, with the example of RFC 7677."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import cast

import pytest

from klamm.admin.configs.scram_credentials import (
    SCRAM_MECHANISMS,
    ScramCredential,
    credential_config,
    credential_of,
    new_credential,
    parse_credential,
)
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.wire.sasl import InvalidCredentials, SaslAuthenticationFailed
from klamm.wire.scram import ScramServer, StoredCredentials

SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
SHA_512 = SCRAM_MECHANISMS["SCRAM-SHA-512"]
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = f"rOprNGfwEbeRWgbNEkqO{SERVER_NONCE}"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()


def credential(mechanism: object = SHA_256, iterations: int = 4096) -> ScramCredential:
    found = SHA_512 if mechanism is SHA_512 else SHA_256
    salted = hashlib.pbkdf2_hmac(found.hash, b"pencil", SALT, iterations)
    return credential_of(found, SALT, salted, iterations)


def server(known: ScramCredential | None = None) -> ScramServer:
    users = {"user": known or credential(), "a,b=c": credential(), "a=2C": credential()}
    return ScramServer(SHA_256, users.get, SERVER_NONCE)


def test_scram_sha_256_gives_the_answers_of_rfc_7677() -> None:
    exchange = server()
    assert exchange.evaluate(FIRST) == f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert not exchange.is_complete
    assert exchange.evaluate(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.is_complete


def client_final(answer: str, nonce: str) -> tuple[bytes, bytes]:
    """Return the client's final message of SCRAM-SHA-512, and the answer that it expects.

    These are the client's steps, as RFC 5802 has them.
    """
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha512")
    message = f"{FIRST[3:].decode()},{answer},c=biws,r={nonce}".encode()
    signature = hmac.digest(hashlib.sha512(client_key).digest(), message, "sha512")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), message, "sha512")
    final = f"c=biws,r={nonce},p={base64.b64encode(proof).decode()}"
    return final.encode(), b"v=" + base64.b64encode(expected)


def test_scram_sha_512_authenticates_a_client() -> None:
    exchange = ScramServer(SHA_512, {"user": credential(SHA_512)}.get)
    answer = exchange.evaluate(FIRST).decode()
    final, expected = client_final(answer, answer.split(",")[0][2:])
    assert exchange.evaluate(final) == expected


def test_another_nonce_is_refused() -> None:
    exchange = ScramServer(SHA_512, {"user": credential(SHA_512)}.get)
    final, _ = client_final(exchange.evaluate(FIRST).decode(), "another")
    with pytest.raises(InvalidCredentials):
        exchange.evaluate(final)


def test_nonces_are_random() -> None:
    answers = {ScramServer(SHA_256, lambda _: credential()).evaluate(FIRST) for _ in range(20)}
    assert len(answers) == 20


def test_names_are_escaped_and_may_be_given_twice() -> None:
    assert server().evaluate(b"n,,n=a=2Cb=3Dc,r=x").startswith(b"r=x")
    assert server().evaluate(b"n,,n=a=3D2C,r=x").startswith(b"r=x")
    assert server().evaluate(b"n,a=user,n=user,r=x,ext=1").startswith(b"r=x")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "Invalid SCRAM client first message format"),
        (b"y,,n=user,r=x", "Invalid SCRAM client first message format"),
        (b"p=tls-unique,,n=user,r=x", "Invalid SCRAM client first message format"),
        (b"n,,n=user", "Invalid SCRAM client first message format"),
        (b"n,,n=us=er,r=x", "Invalid SCRAM client first message format"),
        (b"n,,n=\xff,r=x", "Invalid SCRAM client first message format"),
        (b"n,,n=nobody,r=x", "Authentication failed: Invalid user credentials"),
        (b"n,,n=user,r=x,tokenauth=true", "Token Authentication failed: Invalid tokenId : user"),
    ],
)
def test_a_first_message_is_refused(first: bytes, reason: str) -> None:
    with pytest.raises(InvalidCredentials, match=f"^{reason}$"):
        server().evaluate(first)


def test_another_authorization_id_and_few_iterations_are_refused() -> None:
    with pytest.raises(SaslAuthenticationFailed, match="different from username"):
        server().evaluate(b"n,a=root,n=user,r=x")
    with pytest.raises(InvalidCredentials, match="Iterations 4095 is less than the minimum 4096"):
        server(credential(iterations=4095)).evaluate(FIRST)


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"p=dH", b"p=eH"),
        FINAL.replace(b"r=rO", b"r=xO"),
        FINAL.replace(b"c=biws", b"c=eSws"),
        FINAL[:-44] + b"dHzb",
        FINAL[:-1],
        FINAL[:-47],
        b"",
        FIRST,
    ],
)
def test_a_final_message_is_refused(final: bytes) -> None:
    exchange = server()
    exchange.evaluate(FIRST)
    with pytest.raises(InvalidCredentials):
        exchange.evaluate(final)
    assert not exchange.is_complete


def test_credentials_are_written_as_kafka_writes_them() -> None:
    text = (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert credential().text == text
    assert parse_credential(text) == credential()
    assert parse_credential(text.replace("==,", ",").replace("4096", "+4096")) == credential()
    iterations = (text.replace("4096", wrong) for wrong in ("", "x", "2147483648", "1" * 5000))
    salts = (text.replace("W22Z", wrong) for wrong in ("W*2Z", "W\u00e9", "W-2Z", "="))
    for malformed in ("", "salt=x", f"{text},x", *iterations, *salts):
        assert parse_credential(malformed) is None
    assert "W22Z" not in repr(credential())
    assert "stored" not in repr(credential())


def test_credentials_are_derived_from_passwords() -> None:
    text = credential_config(SHA_256, "iterations=5000,password=a,password=b")
    made = parse_credential(text)
    assert made is not None
    assert made.iterations == 5000
    salted = hashlib.pbkdf2_hmac("sha256", b"a,password=b", made.salt, 5000)
    assert made == credential_of(SHA_256, made.salt, salted, 5000)
    assert new_credential(SHA_256, "a", 4096).salt != new_credential(SHA_256, "a", 4096).salt
    assert parse_credential(credential_config(SHA_512, "password=a")) is not None
    for value in ("secret", "iterations=4095,password=secret"):
        with pytest.raises(ValueError, match="SCRAM_SHA_512") as refused:
            credential_config(SHA_512, value)
        assert "secret" not in str(refused.value)


class Admin:
    """Has one user, until ZooKeeper is lost."""

    def __init__(self) -> None:
        self.users = {"user": {"SCRAM-SHA-256": credential().text, "SCRAM-SHA-512": "malformed"}}
        self.is_lost = False

    @property
    def user_scram_credentials(self) -> Admin:
        return self

    def describe(self, users: None) -> dict[str, dict[str, str]]:
        assert users is None
        if self.is_lost:
            raise ZooKeeperUnavailable("ZooKeeper is lost")
        return self.users

    def configs(self, user: str) -> dict[str, str]:
        if self.is_lost:
            raise ZooKeeperUnavailable("ZooKeeper is lost")
        return self.users.get(user, {})


def test_users_keep_their_credentials_while_zookeeper_is_lost() -> None:
    admin = Admin()
    stored = StoredCredentials(cast(ListenerAdmin, admin))
    assert stored.find(SHA_256, "user") == credential()
    assert stored.find(SHA_256, "other") is None
    with pytest.raises(InvalidCredentials, match="in ZooKeeper is malformed"):
        stored.find(SHA_512, "user")
    admin.is_lost = True
    assert stored.find(SHA_256, "user") == credential()
    with pytest.raises(InvalidCredentials, match="could not be obtained: ZooKeeper is lost"):
        stored.find(SHA_256, "other")
    admin.is_lost = False
    admin.users.clear()
    assert stored.find(SHA_256, "user") is None
    admin.is_lost = True
    with pytest.raises(InvalidCredentials, match="could not be obtained"):
        stored.find(SHA_256, "user")


def test_some_user_may_have_a_credential_while_zookeeper_is_lost() -> None:
    admin = Admin()
    stored = StoredCredentials(cast(ListenerAdmin, admin))
    assert stored.has_any()
    admin.users.clear()
    assert not stored.has_any()
    admin.is_lost = True
    assert stored.has_any()
