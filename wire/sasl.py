"""The broker's side of SASL: what a client may send before it is authenticated (KIP-43, KIP-152).

Messages go in and out as bytes; connection.py reads and writes them. Mirrors
org.apache.kafka.common.security.authenticator.SaslServerAuthenticator, and the mechanism PLAIN
org.apache.kafka.common.security.plain.internals.{PlainSaslServer,PlainServerCallbackHandler}.
GSSAPI, delegation tokens and re-authentication are not supported.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, NoReturn, Protocol

from klamm.cluster.api_errors import Errors
from klamm.wire.apis import (
    API_VERSIONS,
    API_VERSIONS_RANGE,
    APIS,
    api_versions,
    error_of_versions,
)
from klamm.wire.frames import (
    IncomingRequest,
    InvalidRequestFrame,
    RequestKey,
    api_name,
    encoded_response,
    framed,
    parse_request,
    request_key,
)

MAX_RECEIVE_BYTES: Final = 524_288
"""Kafka's default of sasl.server.max.receive.size."""
_SASL_HANDSHAKE: Final = 17
_SASL_AUTHENTICATE: Final = 36
_SHOWN_CHARACTERS: Final = 64


class AuthenticationFailed(Exception):
    """A client could not be authenticated.

    The text is the reason for the log. ``response`` is the frame to send before the connection is
    closed, or None.
    """

    def __init__(self, reason: str, response: bytes | None = None) -> None:
        super().__init__(reason)
        self.response = response


class SaslAuthenticationFailed(Exception):
    """A mechanism refused a client. The text is sent to the client."""


class InvalidCredentials(Exception):
    """A mechanism refused a client. The text is not sent: it may tell which users exist."""


class SaslServer(Protocol):
    """The broker's side of one exchange of a mechanism."""

    is_complete: bool

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to a client's token.

        Raises SaslAuthenticationFailed, InvalidCredentials.
        """


class PlainServer:
    """Mechanism PLAIN (RFC 4616). ``users`` are the passwords, keyed by user name."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self.is_complete = False
        self._users = users

    def evaluate(self, token: bytes) -> bytes:
        """Return the empty answer to a token with the right password."""
        parts = token.decode("utf-8", "replace").split("\0", 3)
        if len(parts) != 3:
            raise SaslAuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        for what, value in (("username", user), ("password", password)):
            if not value:
                raise SaslAuthenticationFailed(f"Authentication failed: {what} not specified")
        expected = self._users.get(user)
        # Compared for unknown users too, so that the time tells nothing about them.
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_right:
            raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
        check_authorization_id(authorization_id, user)
        self.is_complete = True
        return b""


def check_authorization_id(authorization_id: str, user: str) -> None:
    """Raise SaslAuthenticationFailed if a client wants to act as another user."""
    if authorization_id not in ("", user):
        raise SaslAuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )


class SaslAuthenticator:
    """Authenticates the client of one connection.

    ``servers`` makes the server of each enabled mechanism, keyed by mechanism. ``is_complete`` is
    True once the client is authenticated.
    """

    def __init__(self, servers: Mapping[str, Callable[[], SaslServer]]) -> None:
        self._servers = servers
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._has_versions = False
        self._has_headers = False

    @property
    def is_complete(self) -> bool:
        """True once the client is authenticated."""
        return self._server is not None and self._server.is_complete

    def request(self, frame: bytes) -> IncomingRequest | None:
        """Return the request in a frame that ``receive`` would answer; None for a mere token.

        Raises InvalidRequestFrame for a malformed request.
        """
        if self._server is not None and not self._has_headers:
            return None
        key = _key_of(frame)
        if key.api_key == API_VERSIONS:
            return parse_request(frame) if key.api_version in API_VERSIONS_RANGE else None
        is_known = key.api_key in (_SASL_HANDSHAKE, _SASL_AUTHENTICATE)
        return parse_request(frame) if is_known and (key[:2] in APIS) else None

    def receive(self, frame: bytes) -> bytes:
        """Return the framed answer to a request or token, which may block.

        Raises AuthenticationFailed, and InvalidRequestFrame for a malformed request.
        """
        if self._server is None:
            return self._on_request(frame)
        if self._has_headers:
            return self._on_authenticate(self._server, frame)
        try:
            return framed(self._server.evaluate(frame))
        except (SaslAuthenticationFailed, InvalidCredentials) as error:
            raise AuthenticationFailed(str(error)) from None

    def _on_request(self, frame: bytes) -> bytes:
        """Answer ApiVersions, which may be sent once, and SaslHandshake."""
        key = _key_of(frame)
        if key.api_key == API_VERSIONS and not self._has_versions:
            if key.api_version not in API_VERSIONS_RANGE:
                lowest = key._replace(api_version=0)
                return encoded_response(lowest, api_versions(Errors.UNSUPPORTED_VERSION))
            error = error_of_versions(parse_request(frame).body)
            self._has_versions = error is Errors.NONE
            return encoded_response(key, api_versions(error))
        if key.api_key != _SASL_HANDSHAKE or (key.api_key, key.api_version) not in APIS:
            _refuse_request(key, "handshake")
        mechanism: str = parse_request(frame).body.mechanism
        answer = {"error_code": Errors.NONE, "mechanisms": tuple(self._servers)}
        if mechanism not in self._servers:
            answer["error_code"] = Errors.UNSUPPORTED_SASL_MECHANISM
            raise AuthenticationFailed(
                f"Unsupported SASL mechanism {mechanism[:_SHOWN_CHARACTERS]}",
                encoded_response(key, answer),
            )
        self._has_headers = key.api_version >= 1
        self._mechanism = mechanism
        self._server = self._servers[mechanism]()
        return encoded_response(key, answer)

    def _on_authenticate(self, server: SaslServer, frame: bytes) -> bytes:
        key = _key_of(frame)
        if key.api_key != _SASL_AUTHENTICATE or (key.api_key, key.api_version) not in APIS:
            _refuse_request(key, "authentication")
        token: bytes = parse_request(frame).body.auth_bytes
        answer: dict[str, object] = {
            "error_code": Errors.NONE,
            "error_message": None,
            "auth_bytes": b"",
            "session_lifetime": timedelta(0),
        }
        try:
            answer["auth_bytes"] = server.evaluate(token)
        except (SaslAuthenticationFailed, InvalidCredentials) as error:
            text = str(error)
            if isinstance(error, InvalidCredentials):
                text = (
                    "Authentication failed during authentication due to invalid credentials with "
                    f"SASL mechanism {self._mechanism}"
                )
            answer |= {"error_code": Errors.SASL_AUTHENTICATION_FAILED, "error_message": text}
            raise AuthenticationFailed(str(error), encoded_response(key, answer)) from None
        return encoded_response(key, answer)


def _key_of(frame: bytes) -> RequestKey:
    try:
        return request_key(frame)
    except struct.error:
        raise InvalidRequestFrame("a request without a header during authentication") from None


def _refuse_request(key: RequestKey, during: str) -> NoReturn:
    """Raise AuthenticationFailed for a request that must not be sent now."""
    name = f"API key {key.api_key}, version {key.api_version}"
    if key.api_key == API_VERSIONS:
        name = "ApiVersions"
    elif (key.api_key, key.api_version) in APIS:
        name = api_name(key)
    raise AuthenticationFailed(f"Unexpected Kafka request of type {name} during SASL {during}.")
