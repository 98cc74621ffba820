"""Routes of the HTTP API of a running cluster.

The calls of KafkaAdmin are in admin_calls.py, other handlers in handlers.py. How a request is
read, run and answered is in endpoint.py and answers.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.routing import Route

from cluster.errors import KlammError
from server import handlers
from server.admin_calls import CALLS, AdminCall
from server.answers import CountedAnswers, on_error, on_http_error
from server.bodies import FailDisk, FailLogDir, SlowDisk
from server.client_bodies import CloseProducer, NewConsumer, NewProducer, Poll, SendRecords
from server.cluster_server import ClusterServer
from server.endpoint import Endpoints
from server.handlers import AddBroker, JournalQuery, Network, StartBroker
from server.openapi import ApiRoute, openapi_document
from server.security import Gatekeeper


class IdConvertor(IntegerConvertor):
    """Ids in paths: at most as many digits as an int32."""

    regex = "[0-9]{1,10}"


register_url_convertor("id", IdConvertor())


def _admin_route(call: AdminCall) -> ApiRoute:
    """Return the route of a call of KafkaAdmin."""

    def handler(server: ClusterServer, request: Request, wanted: Any) -> Any:
        return call.answer_to(server.admin, wanted)

    handler.__name__, handler.__doc__ = call.operation, call.about
    handler.__annotations__ = {"return": call.answer}
    method, _, path = call.route.partition(" ")
    return ApiRoute(method, path, handler, call.body)


ROUTES: Final = (
    ApiRoute("GET", "/status", handlers.status, only_looks=True),
    ApiRoute("GET", "/openapi.json", handlers.openapi, only_looks=True),
    ApiRoute("GET", "/metrics", handlers.metrics, only_looks=True),
    ApiRoute("GET", "/journal", handlers.journal, None, JournalQuery, only_looks=True),
    ApiRoute("POST", "/controller/move", handlers.move_controller),
    ApiRoute("GET", "/brokers", handlers.list_brokers),
    ApiRoute("POST", "/brokers", handlers.add_broker, AddBroker),
    ApiRoute("GET", "/brokers/{id:id}", handlers.describe_broker),
    ApiRoute("GET", "/brokers/{id:id}/metadata", handlers.broker_metadata),
    ApiRoute("POST", "/brokers/{id:id}/start", handlers.start_broker, StartBroker),
    ApiRoute("POST", "/brokers/{id:id}/fail-log-dir", handlers.fail_log_dir, FailLogDir),
    ApiRoute("POST", "/brokers/{id:id}/{action:str}", handlers.act_on_broker),
    ApiRoute("POST", "/network", handlers.set_network, Network),
    ApiRoute("POST", "/disks/fail", handlers.fail_disk, FailDisk),
    ApiRoute("POST", "/disks/slow", handlers.slow_disk, SlowDisk),
    ApiRoute("POST", "/disks/heal", handlers.heal_disks),
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
    return openapi_document(ROUTES, {"action": handlers.ACTIONS})
