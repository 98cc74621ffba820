"""Answers the APIs of ACLs, and those of SASL after authentication, without an authorizer.

Mirrors handleDescribeAcls, handleCreateAcls, handleDeleteAcls, handleSaslHandshakeRequest and
handleSaslAuthenticateRequest and handle{Describe,Alter}UserScramCredentialsRequest of
kafka.server.KafkaApis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.admin.configs.scram_credentials import CredentialDeletion, CredentialUpsertion
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError
from klamm.cluster.requests import ApiError
from klamm.wire.api import Asked, ListenerCall, Refuse, api_error
from klamm.wire.schema import Values
from klamm.wire.translations import error_fields, error_or_empty

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
    from kio.schema.create_acls.v2.request import CreateAclsRequest
    from kio.schema.delete_acls.v2.request import DeleteAclsRequest

_NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
_DISABLED: Final = ApiError(Errors.SECURITY_DISABLED, f"{_NO_AUTHORIZER}.")
_AUTHENTICATED: Final = "SaslAuthenticate request received after successful authentication"


def _refuse_describe_acls(_: object, error: ApiError) -> Values:
    return {**error_fields(error), "resources": ()}


def _refuse_create_acls(body: CreateAclsRequest, error: ApiError) -> Values:
    return {"results": [error_fields(error) for _ in body.creations]}


def _refuse_delete_acls(body: DeleteAclsRequest, error: ApiError) -> Values:
    refused = {**error_fields(error), "matching_acls": ()}
    return {"filter_results": [refused for _ in body.filters]}


def _refuse_sasl_handshake(_: object, error: ApiError) -> Values:
    return {"error_code": error.error, "mechanisms": ()}


def _refuse_sasl_authenticate(_: object, error: ApiError) -> Values:
    return {**error_fields(error), "auth_bytes": b""}


def _describe_scram_credentials(admin: ListenerAdmin, asked: Asked) -> Values:
    """Describe the mechanisms and iterations of users, or of all users."""
    users = asked.body.users
    try:
        names = None if users is None else [one.name for one in users]
        described = admin.user_scram_credentials.describe(names)
    except KlammError as error:
        return _refuse_describe_scram_credentials(asked.body, api_error(error))
    return {
        **error_or_empty(ApiError()),
        "results": [
            {
                "user": user,
                **error_or_empty(found.error),
                "credential_infos": [
                    {"mechanism": mechanism.type, "iterations": iterations}
                    for mechanism, iterations in found.iterations.items()
                ],
            }
            for user, found in described.items()
        ],
    }


def _refuse_describe_scram_credentials(_: object, error: ApiError) -> Values:
    """Refuse DescribeUserScramCredentials."""
    return {**error_fields(error), "results": ()}


def _alter_scram_credentials(admin: ListenerAdmin, asked: Asked) -> Values:
    """Change credentials. Only the active controller does so."""
    upsertions = [
        CredentialUpsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
        for one in asked.body.upsertions
    ]
    deletions = [CredentialDeletion(one.name, one.mechanism) for one in asked.body.deletions]
    users = [*(one.user for one in deletions), *(one.user for one in upsertions)]
    if asked.broker_id != asked.metadata.controller_id:
        results = dict.fromkeys(users, ApiError(Errors.NOT_CONTROLLER))
    else:
        try:
            results = admin.user_scram_credentials.alter(upsertions, deletions)
        except KlammError as error:
            results = dict.fromkeys(users, api_error(error))
    return {"results": [{"user": user, **error_or_empty(one)} for user, one in results.items()]}


def _refuse_alter_scram_credentials(
    body: AlterUserScramCredentialsRequest, error: ApiError
) -> Values:
    """Refuse AlterUserScramCredentials."""
    users = [*(one.name for one in body.deletions), *(one.name for one in body.upsertions)]
    return {"results": [{"user": user, **error_fields(error)} for user in users]}


def _refused(key: int, versions: range, refuse: Refuse, error: ApiError) -> ListenerCall:
    """Return an API whose requests are all refused with ``error``."""
    return ListenerCall(key, versions, lambda _, asked: refuse(asked.body, error), refuse)


APIS: Final = (
    # The client is authenticated, or the listener has no SASL.
    _refused(17, range(2), _refuse_sasl_handshake, ApiError(Errors.ILLEGAL_SASL_STATE)),
    # In Kafka's words, without a full stop.
    _refused(
        29, range(3), _refuse_describe_acls, ApiError(Errors.SECURITY_DISABLED, _NO_AUTHORIZER)
    ),
    _refused(30, range(3), _refuse_create_acls, _DISABLED),
    _refused(31, range(3), _refuse_delete_acls, _DISABLED),
    _refused(
        36, range(3), _refuse_sasl_authenticate, ApiError(Errors.ILLEGAL_SASL_STATE, _AUTHENTICATED)
    ),
    ListenerCall(50, range(1), _describe_scram_credentials, _refuse_describe_scram_credentials),
    ListenerCall(51, range(1), _alter_scram_credentials, _refuse_alter_scram_credentials),
)
