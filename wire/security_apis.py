"""Answers the APIs of ACLs, and those of SASL after authentication, without an authorizer.

Mirrors handleDescribeAcls, handleCreateAcls, handleDeleteAcls, handleSaslHandshakeRequest and
handleSaslAuthenticateRequest of kafka.server.KafkaApis.
"""

from __future__ import annotations

from typing import Final

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster.api_errors import Errors
from klamm.wire.config_apis import Asked
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
