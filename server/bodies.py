"""Bodies of the HTTP API: the base type of requests, the bodies of actions, and created topics.

The other bodies of Kafka's Admin calls are in admin_bodies.py, those of producers and consumers
in client_bodies.py.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.integers import Count
from klamm.cluster.requests import CreatableTopicResult, CreateTopicsResponse
from klamm.lab.actions.action import BROKER, Action, BrokerRef
from klamm.lab.actions.network_actions import Groups, IsolatedBrokers, Parties
from klamm.world.network import Party

_WITH_IDS: Final = {
    BrokerRef: int,
    BrokerRef | None: int | None,
    IsolatedBrokers: tuple[Count, ...],
    Parties: tuple[Party, ...],
    Groups: tuple[tuple[Party, ...], ...],
}
"""Maps the types of broker references in actions to the types of broker ids in request bodies."""


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of all types in requests; unknown fields are an error.

    Types that occur only in responses accept unknown fields, so that clients can read the responses
    of newer servers.
    """


class NoFields(RequestBody, frozen=True):
    """Body or query without fields."""


def body_of(action: type[Action]) -> type[msgspec.Struct] | None:
    """Return the type of an action's request body, or None if the body has no fields.

    The fields are the arguments of the action that are not part of its path. A broker is given by
    its id, not by a reference like "leader of t-0".
    """
    in_path = ("broker",) if str(action.PATH).startswith(BROKER) else ()
    fields = [
        (
            field.name,
            _WITH_IDS.get(field.type, field.type),
            msgspec.field(default=field.default, name=field.encode_name),
        )
        for field in msgspec.structs.fields(action)
        if field.name not in in_path
    ]
    if not fields:
        return None
    namespace: dict[str, Any] = {"__doc__": action.__doc__}
    if hasattr(action, "__post_init__"):

        def check(body: msgspec.Struct) -> None:
            action(**dict.fromkeys(in_path, 0), **msgspec.structs.asdict(body))

        namespace["__post_init__"] = check
    return msgspec.defstruct(
        action.__name__,
        fields,
        bases=(RequestBody,),
        namespace=namespace,
        frozen=True,
        kw_only=True,
    )


class CreatedTopic(msgspec.Struct, frozen=True):
    """Result of creating one topic; ``code`` is NONE if there was no error."""

    name: str
    code: str
    message: str | None = None
    topic_id: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class CreatedTopics(msgspec.Struct, frozen=True):
    """Response to POST /topics: one result per topic, in the order of the request."""

    topics: list[CreatedTopic]

    @staticmethod
    def of(response: CreateTopicsResponse) -> CreatedTopics:
        """Return the body for a response of the controller."""
        rows = map(msgspec.structs.astuple, response.topics)
        return CreatedTopics([CreatedTopic(name, code.name, *rest) for name, code, *rest in rows])

    def response(self) -> CreateTopicsResponse:
        """Return the controller's response, from which ``of`` made this body."""
        rows = map(msgspec.structs.astuple, self.topics)
        return CreateTopicsResponse(
            tuple(CreatableTopicResult(name, Errors[code], *rest) for name, code, *rest in rows)
        )
