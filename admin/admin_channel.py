"""Interface that KafkaAdmin uses to send requests to a cluster.

The server and the scenario runner implement it. Implementations choose the node for a request,
retry, and time out like the class Call in org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.errors import RequestTimedOut
from klamm.cluster.requests import (
    CreateTopicsResponse,
    DeleteTopicsResponse,
    ElectLeadersResponse,
    PartitionResponse,
    Request,
    Response,
    TopicResponse,
)
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient

RETRY_BACKOFF_MS: Final = 100
"""Pause before a retry: Kafka's default for the client config retry.backoff.ms."""

C = TypeVar("C", bound=TopicResponse | PartitionResponse)
R = TypeVar("R", bound=Response)


class AdminChannel(Protocol):
    """Sends the requests of a KafkaAdmin to one cluster.

    The parameter ``call`` is Kafka's name for the Admin call, e.g. createTopics; error messages
    show this name. The parameter ``kind`` is the type of the expected response. Methods that wait
    can raise RequestTimedOut, and methods that access ZooKeeper can raise ZooKeeperUnavailable.
    """

    @property
    def zk(self) -> KafkaZkClient:
        """ZooKeeper client of the cluster."""
        ...

    def ask_controller(
        self, call: str, request: Request, kind: type[C], timeout_ms: int | None = None
    ) -> C:
        """Send a request to the active controller and return its response.

        ``timeout_ms`` is the value of the timeout field in the request, if there is such a field.
        """
        ...

    def ask_brokers(
        self, call: str, requests: Mapping[int, Request], kind: type[R]
    ) -> Mapping[int, R]:
        """Send a request to each broker; return the responses that arrived in time.

        Requests and responses are keyed by broker id.
        """
        ...

    def await_controller(self, call: str, timeout_ms: int) -> None:
        """Wait until a controller is elected."""
        ...

    def await_broker(self, call: str, broker_id: int, timeout_ms: int | None = None) -> None:
        """Wait until a broker can handle requests.

        If ``timeout_ms`` is None, a default timeout applies.
        """
        ...

    def no_response(self, call: str, broker_ids: Sequence[int]) -> RequestTimedOut:
        """Return the error to raise if none of ``broker_ids`` responded to a call."""
        ...

    def await_leaders(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> bool:
        """Wait until all ``partitions`` have leaders.

        Returns False if ``timeout_ms`` expires first.
        """
        ...

    def is_registered(self, broker_id: int) -> bool:
        """Return True if the broker is running and registered in ZooKeeper."""
        ...

    def topic_names(self) -> Sequence[str]:
        """Return the names of all topics, sorted."""
        ...

    def metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Return the metadata of ``topics`` and the list of live brokers."""
        ...

    def partition_count(self) -> int | None:
        """Return the number of partitions in the controller's context.

        Returns None if there is no controller.
        """
        ...

    def running_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the running reassignments in the controller's context.

        If there is no controller, an empty mapping is returned immediately.
        """
        ...

    def now_ms(self) -> int:
        """Return the cluster's time in milliseconds, for deadlines and error messages."""
        ...


def timed_out(call: str, now_ms: int, hint: str | None = None) -> RequestTimedOut:
    """Return the error that Kafka's Admin client raises for a call that timed out.

    It is definite and retriable, for a call that only reads, or that timed out before it sent its
    request.
    """
    return RequestTimedOut(
        f"Call(callName={call}, deadlineMs={now_ms - 1}, tries=1, nextAllowedTryMs="
        f"{now_ms + RETRY_BACKOFF_MS}) timed out at {now_ms} after 1 attempt(s)",
        hint=hint,
        definite=True,
        retriable=True,
    )


def is_not_controller(response: TopicResponse | PartitionResponse) -> bool:
    """Return True if a response contains the error NOT_CONTROLLER."""
    match response:
        case CreateTopicsResponse() | DeleteTopicsResponse():
            return any(result.error is Errors.NOT_CONTROLLER for result in response.topics)
        case ElectLeadersResponse():
            return response.error is Errors.NOT_CONTROLLER
        case _:
            return response.error.error is Errors.NOT_CONTROLLER
