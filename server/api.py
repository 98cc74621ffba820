"""Routes of the HTTP API of a running cluster.

The calls of KafkaAdmin are in admin_calls.py, actions in runtime/actions.py, other handlers in
handlers.py. How a request is read, run and answered is in endpoint.py and answers.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from cluster.errors import KlammError
from runtime.actions import ACTIONS, ActionKind, FailDisk, HealDisks, SlowDisk
from server import handlers
from server.admin_calls import CALLS, AdminCall
from server.answers import CountedAnswers, on_error, on_http_error
from server.bodies import DiskFaults, body_of
from server.client_bodies import CloseProducer, NewConsumer, NewProducer, Poll, SendRecords
from server.cluster_server import ClusterServer
from server.endpoint import Endpoints
from server.handlers import AddBroker, JournalQuery
from server.openapi import ApiRoute, openapi_document
from server.security import Gatekeeper
from zk.ensemble import SINGLE_SERVER


class IdConvertor(IntegerConvertor):
    """Ids in paths: at most as many digits as an int32."""

    regex = "[0-9]{1,10}"


register_url_convertor("id", IdConvertor())


def _admin_route(call: AdminCall) -> ApiRoute:
    """Return the route of a call of KafkaAdmin."""

    def handler(server: ClusterServer, request: Request, wanted: Any) -> Any:
        return call.answer_to(server.admin, wanted)

    method, _, path = call.route.partition(" ")
    handler.__name__, handler.__doc__ = call.operation, call.about
    handler.__annotations__ = {"return": call.answer}
    return ApiRoute(method, path, handler, call.body)


def action_route(word: str, kind: ActionKind) -> ApiRoute:
    """Return the route of an action."""
    action = kind.action

    def handler(server: ClusterServer, request: Request, wanted: msgspec.Struct | None) -> Any:
        arguments = {} if wanted is None else msgspec.structs.asdict(wanted)
        if "id" in request.path_params:
            arguments["broker"] = request.path_params["id"]
        return server.operations.perform(action(**arguments))

    handler.__name__, handler.__doc__ = word, action.__doc__
    is_of_disks = issubclass(action, FailDisk | SlowDisk | HealDisks)
    handler.__annotations__ = {"return": DiskFaults if is_of_disks else dict[str, Any]}
    return ApiRoute("POST", str(kind.path).replace("{id}", "{id:id}"), handler, body_of(kind))


ROUTES: Final = (
    ApiRoute("GET", "/status", handlers.status, only_looks=True),
    ApiRoute("GET", "/openapi.json", handlers.openapi, only_looks=True),
    ApiRoute("GET", "/metrics", handlers.metrics, only_looks=True),
    ApiRoute("GET", "/journal", handlers.journal, None, JournalQuery, only_looks=True),
    ApiRoute("GET", "/brokers", handlers.list_brokers),
    ApiRoute("POST", "/brokers", handlers.add_broker, AddBroker),
    ApiRoute("GET", "/brokers/{id:id}", handlers.describe_broker),
    ApiRoute("GET", "/brokers/{id:id}/metadata", handlers.broker_metadata),
    *(action_route(word, kind) for word, kind in ACTIONS.items() if kind.path is not None),
    ApiRoute("GET", "/zookeeper", handlers.zookeeper_servers),
    ApiRoute("POST", "/zookeeper/{server:str}/{action:str}", handlers.act_on_zookeeper),
    *map(_admin_route, CALLS),
    ApiRoute("GET", "/topics/{topic:str}", handlers.describe_topic),
    ApiRoute("POST", "/producers", handlers.open_producer, NewProducer),
    ApiRoute("POST", "/producers/{id:id}/records", handlers.send_records, SendRecords),
    ApiRoute("POST", "/producers/{id:id}/close", handlers.close_producer, CloseProducer),
    ApiRoute("POST", "/consumers", handlers.open_consumer, NewConsumer),
    ApiRoute("POST", "/consumers/{id:id}/poll", handlers.poll, Poll),
    ApiRoute("POST", "/consumers/{id:id}/close", handlers.close_consumer),
)
"""A table of contents. Fixed paths stand before those with a name in them."""


def create_app(server: ClusterServer) -> Starlette:
    """The ASGI application of an open cluster."""
    endpoints = Endpoints()
    routes = [
        Route(
            route.path,
            endpoints.endpoint(
                partial(route.handler, server),
                route.body,
                route.query,
                only_looks=route.only_looks,
            ),
            methods=[route.method],
        )
        for route in ROUTES
    ]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(CountedAnswers, counts=server.answer_counts),
            Middleware(
                Gatekeeper, host_names=server.config.host_names(), token=server.config.token
            ),
        ],
        exception_handlers={KlammError: on_error, HTTPException: on_http_error},
    )
    app.state.openapi = api_document()
    return app


def api_document() -> dict[str, Any]:
    """Return the OpenAPI document of all routes."""
    return openapi_document(ROUTES, {"action": SINGLE_SERVER})
