"""SCRAM credentials of users: their derivation from passwords, and their text in /config/users.

A credential contains no password, but who reads it can pose as the broker. Mirrors
org.apache.kafka.common.security.scram.internals.{ScramFormatter,ScramCredentialUtils} and
{describe,alter}UserScramCredentials of kafka.server.ZkAdminManager (KIP-84, KIP-554).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from klamm.admin.configs.config_resource import USERS, ConfigResource
from klamm.admin.configs.zookeeper import change_configs
from klamm.admin.failures import message_of
from klamm.cluster.api_errors import Errors
from klamm.cluster.jvm.java_base64 import decode_base64
from klamm.cluster.jvm.java_integer import parse_java_int
from klamm.cluster.jvm.java_strings import java_split
from klamm.cluster.requests import ApiError
from klamm.zk.kafka_zk_client import KafkaZkClient

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
_FIELDS: Final = ("salt", "stored_key", "server_key", "iterations")
_EMPTY_NAME: Final = "Username must not be empty"
_FAILED: Final = ApiError(
    Errors.UNKNOWN_SERVER_ERROR, message_of(ApiError(Errors.UNKNOWN_SERVER_ERROR))
)
_PASSWORD: Final = re.compile(r"(?:iterations=([0-9]*),)?password=(.*)")


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism: its SASL name, its number in requests, and its hash in hashlib."""

    name: str
    type: int
    hash: str


SCRAM_MECHANISMS: Final = {
    one.name: one
    for one in (
        ScramMechanism("SCRAM-SHA-256", 1, "sha256"),
        ScramMechanism("SCRAM-SHA-512", 2, "sha512"),
    )
}
_BY_TYPE: Final = {one.type: one for one in SCRAM_MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a broker keeps of a user's password for one mechanism (RFC 5802, section 5)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @property
    def text(self) -> str:
        """The credential as the value of a config, as Kafka writes it."""
        keys = (self.salt, self.stored_key, self.server_key)
        values = [*(base64.b64encode(key).decode() for key in keys), self.iterations]
        return ",".join(f"{name}={value}" for name, value in zip(_FIELDS, values, strict=True))


def parse_credential(text: str) -> ScramCredential | None:
    """Parse the value of a config, or return None if it is malformed."""
    parts = [part.partition("=") for part in java_split(text, ",")]
    values = {name: value for name, _, value in parts}
    if not all(equals for _, equals, _ in parts) or values.keys() != set(_FIELDS):
        return None
    salt, stored_key, server_key = (decode_base64(values[name]) for name in _FIELDS[:3])
    iterations = parse_java_int(values["iterations"])
    if salt is None or stored_key is None or server_key is None or iterations is None:
        return None
    return ScramCredential(salt, stored_key, server_key, iterations)


def new_credential(mechanism: ScramMechanism, password: str, iterations: int) -> ScramCredential:
    """Return a credential with a random salt."""
    salt = secrets.token_bytes(32)
    salted = hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)
    return credential_of(mechanism, salt, salted, iterations)


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Return the credential for a password that a client has salted."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash)
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.hash)
    stored_key = hashlib.new(mechanism.hash, client_key).digest()
    return ScramCredential(salt, stored_key, server_key, iterations)


def credential_config(mechanism: ScramMechanism, value: str) -> str:
    """Return the config for ``[iterations=N,]password=WORD``, as given to kafka-configs.

    Raises ValueError, whose text does not contain the password.
    """
    match = _PASSWORD.fullmatch(value)
    shown = mechanism.name.replace("-", "_")
    if match is None:
        raise ValueError(f"Invalid credential property {shown}")
    iterations = MIN_ITERATIONS if match[1] is None else parse_java_int(match[1])
    if iterations is None:
        raise ValueError(f'For input string: "{match[1]}"')
    if iterations < MIN_ITERATIONS:
        raise ValueError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for "
            f"{shown}"
        )
    if not match[2]:
        raise ValueError("Empty key")
    return new_credential(mechanism, match[2], iterations).text


class CredentialDeletion(NamedTuple):
    """A credential to delete. ``mechanism``: the number of the mechanism."""

    user: str
    mechanism: int


class CredentialUpsertion(NamedTuple):
    """A credential to create or replace. ``mechanism``: the number of the mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class DescribedUser(NamedTuple):
    """A user's mechanisms with their iterations, or why they are not known."""

    error: ApiError
    iterations: Mapping[ScramMechanism, int] = {}


class UserScramCredentials:
    """The SCRAM credentials of all users of one cluster, in its ZooKeeper."""

    def __init__(self, client: KafkaZkClient) -> None:
        self._client = client

    def configs(self, user: str) -> dict[str, str]:
        """Return a user's configs: {} for an unknown user. Raises MalformedZNode."""
        return self._client.get_entity_configs(*_resource(user))

    def describe(self, users: Sequence[str] | None) -> dict[str, DescribedUser]:
        """Describe users, or all that have a credential if ``users`` is None or empty."""
        if not users:
            names = self._client.get_all_entities_with_config(USERS)
            found = {unquote(one): self._described(unquote(one)) for one in names}
            return {
                user: one
                for user, one in sorted(found.items())
                if one.error.error is not Errors.RESOURCE_NOT_FOUND
            }
        described: dict[str, DescribedUser] = {}
        for user, times in Counter(users).items():
            if not user:
                described[user] = _refused(Errors.RESOURCE_NOT_FOUND, _EMPTY_NAME)
            elif times > 1:
                described[user] = _refused(
                    Errors.DUPLICATE_RESOURCE,
                    "Cannot describe SCRAM credentials for the same user twice in a single "
                    f"request: {user}",
                )
            else:
                described[user] = self._described(user)
        return described

    def _described(self, user: str) -> DescribedUser:
        configs, iterations = self.configs(user), {}
        for mechanism in SCRAM_MECHANISMS.values():
            if mechanism.name in configs:
                credential = parse_credential(configs[mechanism.name])
                if credential is None:
                    return DescribedUser(_FAILED)
                iterations[mechanism] = credential.iterations
        if not iterations:
            text = f"Attempt to describe a user credential that does not exist: {user}"
            return _refused(Errors.RESOURCE_NOT_FOUND, text)
        return DescribedUser(ApiError(), iterations)

    def alter(
        self, upsertions: Sequence[CredentialUpsertion], deletions: Sequence[CredentialDeletion]
    ) -> dict[str, ApiError]:
        """Change credentials, user by user, and return the result of each user."""
        results = {one.user: error for one in deletions if (error := _error_of(one))}
        results |= {one.user: error for one in upsertions if (error := _error_of(one))}
        every = [(one.user, one.mechanism) for one in upsertions]
        every += [(one.user, one.mechanism) for one in deletions]
        for (user, _), times in Counter(every).items():
            if times > 1 and user not in results:
                text = "A user credential cannot be altered twice in the same request"
                results[user] = ApiError(Errors.DUPLICATE_RESOURCE, text)
        for user in dict.fromkeys(user for user, _ in every):
            if user not in results:
                results[user] = self._alter(
                    user,
                    [one for one in upsertions if one.user == user],
                    [one for one in deletions if one.user == user],
                )
        return results

    def _alter(
        self,
        user: str,
        upsertions: Sequence[CredentialUpsertion],
        deletions: Sequence[CredentialDeletion],
    ) -> ApiError:
        configs = self.configs(user)
        for deletion in deletions:
            if configs.pop(_BY_TYPE[deletion.mechanism].name, None) is None:
                text = "Attempt to delete a user credential that does not exist"
                return ApiError(Errors.RESOURCE_NOT_FOUND, text)
        for one in upsertions:
            mechanism = _BY_TYPE[one.mechanism]
            if not one.salted_password:
                return _FAILED  # Java makes no key of nothing.
            credential = credential_of(mechanism, one.salt, one.salted_password, one.iterations)
            configs[mechanism.name] = credential.text
        change_configs(self._client, _resource(user), configs)
        return ApiError()


def _resource(user: str) -> ConfigResource:
    return ConfigResource(USERS, sanitized(user))


def sanitized(user: str) -> str:
    """Return the name of a user's znode (org.apache.kafka.common.utils.Sanitizer)."""
    # Java, unlike Python, also encodes the tilde.
    return quote(user, safe="").replace("~", "%7E")


def _refused(error: Errors, text: str) -> DescribedUser:
    return DescribedUser(ApiError(error, text))


def _error_of(change: CredentialUpsertion | CredentialDeletion) -> ApiError | None:
    """Return why a change cannot be made, whatever credentials there are."""
    if not change.user:
        return ApiError(Errors.UNACCEPTABLE_CREDENTIAL, _EMPTY_NAME)
    if change.mechanism not in _BY_TYPE:
        return ApiError(Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, CredentialUpsertion):
        if change.iterations < MIN_ITERATIONS:
            return ApiError(Errors.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MAX_ITERATIONS:
            return ApiError(Errors.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return None
