"""Answers the APIs of client quotas, which klamm's brokers keep and do not enforce.

Mirrors handleDescribeClientQuotasRequest and handleAlterClientQuotasRequest of
kafka.server.KafkaApis.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from klamm.admin.configs.client_quotas import QuotaFilter
from klamm.admin.failures import InvalidRequest
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.errors import KlammError
from klamm.cluster.requests import ApiError
from klamm.wire.api import Asked, ListenerCall, api_error
from klamm.wire.schema import Values
from klamm.wire.translations import error_fields, error_or_empty

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntryData
    from kio.schema.describe_client_quotas.v1.request import ComponentData

_EXACT, _DEFAULT, _ANY = range(3)
_MATCH_TYPES: Final = (_EXACT, _DEFAULT, _ANY)


def _describe_client_quotas(admin: ListenerAdmin, asked: Asked) -> Values:
    """Describe the quotas of the entities that match a filter."""
    try:
        filters = [_filter(one) for one in asked.body.components]
        described = admin.client_quotas.describe(filters, is_strict=asked.body.strict)
    except KlammError as error:
        return _refuse_describe_client_quotas(asked.body, api_error(error))
    return {
        **error_or_empty(ApiError()),
        "entries": [
            {
                "entity": _entity(entity),
                "values": [{"key": name, "value": value} for name, value in quotas.items()],
            }
            for entity, quotas in described.items()
        ],
    }


def _refuse_describe_client_quotas(_: object, error: ApiError) -> Values:
    """Refuse DescribeClientQuotas."""
    return {**error_fields(error), "entries": None}


def _alter_client_quotas(admin: ListenerAdmin, asked: Asked) -> Values:
    """Change the quotas of entities, one by one. Any broker does so."""
    entries = []
    for one in asked.body.entries:
        error = ApiError()
        try:
            admin.client_quotas.alter(
                frozenset((part.entity_type, part.entity_name) for part in one.entity),
                {op.key: None if op.remove else op.value for op in one.ops},
                validate_only=asked.body.validate_only,
            )
        except KlammError as failure:
            error = api_error(failure)
        entries.append(_altered(one, error))
    return {"entries": entries}


def _refuse_alter_client_quotas(body: AlterClientQuotasRequest, error: ApiError) -> Values:
    """Refuse every change of AlterClientQuotas."""
    return {"entries": [_altered(one, error) for one in body.entries]}


def _filter(component: ComponentData) -> QuotaFilter:
    """Return a filter. Raises InvalidRequest."""
    if component.match_type not in _MATCH_TYPES:
        raise InvalidRequest(f"Unexpected match type: {component.match_type}")
    name = component.match if component.match_type == _EXACT else None
    return QuotaFilter(component.entity_type, name, is_any=component.match_type == _ANY)


def _altered(entry: EntryData, error: ApiError) -> Values:
    entity = ((part.entity_type, part.entity_name) for part in entry.entity)
    return {**error_fields(error), "entity": _entity(entity)}


def _entity(entity: Iterable[tuple[str, str | None]]) -> list[Values]:
    return [{"entity_type": entity_type, "entity_name": name} for entity_type, name in entity]


APIS: Final = (
    ListenerCall(48, range(2), _describe_client_quotas, _refuse_describe_client_quotas),
    ListenerCall(49, range(2), _alter_client_quotas, _refuse_alter_client_quotas),
)
