"""The broker's side of the SASL mechanisms SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

Mirrors org.apache.kafka.common.security.scram.internals.{ScramSaslServer,ScramMessages}. As in
Kafka there is no channel binding, and user names are not normalized (SASLprep). Other than Kafka it
also compares the nonces, as the RFC requires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from klamm.admin.configs.scram_credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    parse_credential,
)
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.errors import KlammError
from klamm.wire.sasl import InvalidCredentials, check_authorization_id

_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_DELEGATED: Final = ",tokenauth=true"
_NONCE_BYTES: Final = 24


class ScramServer:
    """One exchange. ``credential_of`` returns the credential of a user, or None.

    ``server_nonce``: random in every exchange.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        server_nonce: str | None = None,
    ) -> None:
        self.is_complete = False
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._server_nonce = server_nonce or secrets.token_urlsafe(_NONCE_BYTES)
        self._credential: ScramCredential | None = None
        self._nonce = ""
        self._messages = ""

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to the client's first or final message."""
        text = token.decode("utf-8", "replace")
        if self._credential is None:
            return self._on_first(text).encode()
        return self._on_final(self._credential, text).encode()

    def _on_first(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise InvalidCredentials("Invalid SCRAM client first message format")
        user = match["user"].replace("=2C", ",").replace("=3D", "=")
        if _DELEGATED in match["extensions"]:
            raise InvalidCredentials(f"Token Authentication failed: Invalid tokenId : {user}")
        credential = self._credential_of(user)
        if credential is None:
            raise InvalidCredentials("Authentication failed: Invalid user credentials")
        check_authorization_id(match["authorization_id"] or "", user)
        if credential.iterations < MIN_ITERATIONS:
            raise InvalidCredentials(
                f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS} for "
                f"{self._mechanism.name}"
            )
        self._credential = credential
        self._nonce = match["nonce"] + self._server_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._messages = f"{match['bare']},{answer}"
        return answer

    def _on_final(self, credential: ScramCredential, text: str) -> str:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise InvalidCredentials("Invalid SCRAM client final message format")
        messages = f"{self._messages},{match['without_proof']}".encode()
        signature = self._hmac(credential.stored_key, messages)
        proof = base64.b64decode(match["proof"])
        if len(proof) != len(signature) or match["nonce"] != self._nonce:
            raise InvalidCredentials("Invalid client credentials")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._mechanism.hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise InvalidCredentials("Invalid client credentials")
        self.is_complete = True
        return f"v={base64.b64encode(self._hmac(credential.server_key, messages)).decode()}"

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._mechanism.hash)


class StoredCredentials:
    """The credentials in ZooKeeper. Thread-safe.

    Each authentication reads them. While ZooKeeper is lost, users that were authenticated before
    keep their credentials, as in Kafka, whose brokers cache all of them.
    """

    def __init__(self, admin: ListenerAdmin) -> None:
        self._admin = admin
        self._known: dict[str, dict[str, str]] = {}

    def has_any(self) -> bool:
        """Return False if no user has a credential. While ZooKeeper is lost, some may have one."""
        try:
            return bool(self._admin.user_scram_credentials.describe(None))
        except KlammError:
            return True

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """Return a user's credential. Raises InvalidCredentials if it cannot be read."""
        try:
            configs = self._admin.user_scram_credentials.configs(user)
        except KlammError as error:
            configs = self._known.get(user, {})
            if not configs:
                text = f"Authentication failed: Credentials could not be obtained: {error}"
                raise InvalidCredentials(text) from error
        self._known.pop(user, None)
        if mechanism.name not in configs:
            return None
        self._known[user] = configs
        credential = parse_credential(configs[mechanism.name])
        if credential is None:
            raise InvalidCredentials(f"the {mechanism.name} credential in ZooKeeper is malformed")
        return credential
