"""Routes of the HTTP API of a running cluster.

Handlers are in handlers.py, admin_handlers.py and client_handlers.py. How a request is
read, run and answered is in endpoint.py and answers.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from cluster.errors import KlammError
from cluster.requests import CreateTopicsRequest
from server import admin_handlers, client_handlers, handlers
from server.answers import CountedAnswers, on_error, on_http_error
from server.bodies import (
    AlterReassignments,
    CreatePartitions,
    ElectLeaders,
    PartitionsOrAll,
    Topics,
)
from server.client_bodies import CloseProducer, NewConsumer, NewProducer, Poll, SendRecords
from server.cluster_server import ClusterServer
from server.config_bodies import ConfigsOfEntities, Entities, Entity
from server.endpoint import Endpoints
from server.handlers import AddBroker, Handler, JournalQuery, Network, StartBroker
from server.log_dir_bodies import AlterLogDirs, Brokers, FailDisk, FailLogDir, Replicas, SlowDisk
from server.openapi import openapi_document
from server.security import Gatekeeper


class IdConvertor(IntegerConvertor):
    """Ids in paths: at most as many digits as an int32."""

    regex = "[0-9]{1,10}"


register_url_convertor("id", IdConvertor())


class ApiRoute(NamedTuple):
    """A path, its handler, and the type of the request's body or query.

    ``only_looks``: a read of cached state that must be answered however busy klamm is.
    """

    method: str
    path: str
    handler: Handler
    body: Any = None
    query: Any = None
    only_looks: bool = False


ROUTES: Final = (
    ApiRoute("GET", "/status", handlers.status, only_looks=True),
    ApiRoute("GET", "/openapi.json", handlers.openapi, only_looks=True),
    ApiRoute("GET", "/metrics", handlers.metrics, only_looks=True),
    ApiRoute("GET", "/journal", handlers.journal, None, JournalQuery, only_looks=True),
    ApiRoute("POST", "/controller/move", handlers.move_controller),
    ApiRoute("GET", "/brokers", handlers.list_brokers),
    ApiRoute("POST", "/brokers", handlers.add_broker, AddBroker),
    ApiRoute("GET", "/brokers/live", handlers.live_brokers),
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
    ApiRoute("GET", "/topics", handlers.list_topics),
    ApiRoute("POST", "/topics", handlers.create_topics, CreateTopicsRequest),
    ApiRoute("POST", "/topics/describe", handlers.describe_topics, Topics),
    ApiRoute("POST", "/topics/partitions", handlers.create_partitions, CreatePartitions),
    ApiRoute("POST", "/topics/delete", handlers.delete_topics, Topics),
    ApiRoute("GET", "/topics/{topic:str}", handlers.describe_topic),
    ApiRoute("GET", "/reassignments", admin_handlers.list_reassignments, PartitionsOrAll),
    ApiRoute("POST", "/reassignments", admin_handlers.alter_reassignments, AlterReassignments),
    ApiRoute("POST", "/reassignments/list", admin_handlers.list_reassignments, PartitionsOrAll),
    ApiRoute("POST", "/elections", admin_handlers.elect_leaders, ElectLeaders),
    ApiRoute("GET", "/log-dirs", admin_handlers.describe_log_dirs, Brokers),
    ApiRoute("POST", "/log-dirs", admin_handlers.alter_log_dirs, AlterLogDirs),
    ApiRoute("POST", "/log-dirs/describe", admin_handlers.describe_log_dirs, Brokers),
    ApiRoute("POST", "/log-dirs/replicas", admin_handlers.describe_replicas, Replicas),
    ApiRoute("POST", "/configs", admin_handlers.alter_configs, ConfigsOfEntities),
    ApiRoute("POST", "/configs/describe", admin_handlers.describe_configs, Entity),
    ApiRoute("POST", "/configs/overrides", admin_handlers.config_overrides, Entities),
    ApiRoute("POST", "/producers", client_handlers.open_producer, NewProducer),
    ApiRoute("POST", "/producers/{id:id}/records", client_handlers.send_records, SendRecords),
    ApiRoute("POST", "/producers/{id:id}/close", client_handlers.close_producer, CloseProducer),
    ApiRoute("POST", "/consumers", client_handlers.open_consumer, NewConsumer),
    ApiRoute("POST", "/consumers/{id:id}/poll", client_handlers.poll, Poll),
    ApiRoute("POST", "/consumers/{id:id}/close", client_handlers.close_consumer),
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
