"""What one API is to klamm: messages that brokers handle, or calls that a listener answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from klamm.admin.kafka_admin import ListenerAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.errors import AdminError, KlammError, UsageError
from klamm.cluster.requests import ApiError, Request
from klamm.wire.schema import Values
from klamm.wire.translations import Translation


class Api(NamedTuple):
    """Versions of an API whose requests and responses are values of klamm.

    ``response`` is a function of the request if that is needed to translate the response.
    ``complete`` adds to the values of a response, as it is known to the broker with the given id,
    what the response lacks; it runs on a thread and may wait.
    """

    key: int
    versions: range
    request: Translation
    response: Translation | Callable[[Any], Translation]
    complete: Callable[[ListenerAdmin, int, Any, Values], Values] | None = None

    def response_to(self, request: Request) -> Translation:
        """Return the translation of the response to ``request``."""
        return self.response if isinstance(self.response, Translation) else self.response(request)


class Asked(NamedTuple):
    """A request, the broker that received it, and the controller and brokers that it knows."""

    body: Any
    broker_id: int
    metadata: MetadataResponse


Refuse = Callable[[Any, ApiError], Values]
"""Returns the response to a request that fails as a whole, given its body."""


class ListenerCall(NamedTuple):
    """Versions of an API that the listener answers, with klamm's admin client if it is needed.

    ``answer`` runs on a thread and may wait.
    """

    key: int
    versions: range
    answer: Callable[[ListenerAdmin, Asked], Values]
    refuse: Refuse


def api_error(error: KlammError) -> ApiError:
    """Return the error of a response for an error of klamm's admin client.

    A UsageError is about something that klamm does not support. As in 2.8.2, an unexpected error of
    an admin operation has no message.
    """
    if isinstance(error, UsageError):
        return ApiError(Errors.INVALID_REQUEST, error.message)
    if not isinstance(error, AdminError):
        return ApiError(Errors.UNKNOWN_SERVER_ERROR, error.message)
    is_unexpected = error.code is Errors.UNKNOWN_SERVER_ERROR
    return ApiError(error.code, None if is_unexpected else error.message)
