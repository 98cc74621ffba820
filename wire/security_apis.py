"""Answers the APIs of ACLs, and those of SASL after authentication, without an authorizer.

Mirrors handleDescribeAcls, handleCreateAcls, handleDeleteAcls, handleSaslHandshakeRequest and
handleSaslAuthenticateRequest and handle{Describe,Alter}UserScramCredentialsRequest of
kafka.server.KafkaApis.
"""

from __future__ import annotations

from typing import Final

from klamm.admin.configs.scram_credentials import CredentialDeletion, CredentialUpsertion
from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError
from klamm.cluster.requests import ApiError
from klamm.wire.config_apis import Asked, api_error, error_fields
from klamm.wire.schema import Values

_DISABLED: Final = {
    "error_code": Errors.SECURITY_DISABLED,
    "error_message": "No Authorizer is configured on the broker.",
}


def describe_acls(_: KafkaAdmin, __: Asked) -> Values:
    """Refuse DescribeAcls, in Kafka's words without a full stop."""
    message = "No Authorizer is configured on the broker"
    return {**_DISABLED, "error_message": message, "resources": ()}


def create_acls(_: KafkaAdmin, asked: Asked) -> Values:
    """Refuse every ACL of CreateAcls."""
    return {"results": [_DISABLED for _ in asked.body.creations]}


def delete_acls(_: KafkaAdmin, asked: Asked) -> Values:
    """Refuse every filter of DeleteAcls."""
    return {"filter_results": [{**_DISABLED, "matching_acls": ()} for _ in asked.body.filters]}


def sasl_handshake(_: KafkaAdmin, __: Asked) -> Values:
    """Refuse SaslHandshake: the client is authenticated, or the listener has no SASL."""
    return {"error_code": Errors.ILLEGAL_SASL_STATE, "mechanisms": ()}


def sasl_authenticate(_: KafkaAdmin, __: Asked) -> Values:
    """Refuse SaslAuthenticate."""
    return {
        "error_code": Errors.ILLEGAL_SASL_STATE,
        "error_message": "SaslAuthenticate request received after successful authentication",
        "auth_bytes": b"",
    }


def describe_user_scram_credentials(admin: KafkaAdmin, asked: Asked) -> Values:
    """Describe the mechanisms and iterations of users, or of all users."""
    users = asked.body.users
    try:
        names = None if users is None else [one.name for one in users]
        described = admin.user_scram_credentials.describe(names)
    except KlammError as error:
        return {**error_fields(api_error(error)), "results": ()}
    return {
        "error_code": Errors.NONE,
        "error_message": None,
        "results": [
            {
                "user": user,
                **error_fields(found.error),
                "credential_infos": [
                    {"mechanism": mechanism.type, "iterations": iterations}
                    for mechanism, iterations in found.iterations.items()
                ],
            }
            for user, found in described.items()
        ],
    }


def alter_user_scram_credentials(admin: KafkaAdmin, asked: Asked) -> Values:
    """Change credentials. Only the active controller does so."""
    upsertions = [
        CredentialUpsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
        for one in asked.body.upsertions
    ]
    deletions = [CredentialDeletion(one.name, one.mechanism) for one in asked.body.deletions]
    users = [*(one.user for one in deletions), *(one.user for one in upsertions)]
    if asked.broker_id != asked.controller_id:
        results = dict.fromkeys(users, ApiError(Errors.NOT_CONTROLLER))
    else:
        try:
            results = admin.user_scram_credentials.alter(upsertions, deletions)
        except KlammError as error:
            results = dict.fromkeys(users, api_error(error))
    return {"results": [{"user": user, **error_fields(one)} for user, one in results.items()]}
