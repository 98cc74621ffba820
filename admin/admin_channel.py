"""Interface through which KafkaAdmin reaches a cluster; the server and scenarios implement it.

Mirrors the nodes, the retries and the TimeoutException of a Call in
org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.errors import RequestTimedOut
from klamm.cluster.requests import (
    AlterPartitionReassignmentsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    Request,
    Response,
)
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient

RETRY_BACKOFF_MS: Final = 100
"""retry.backoff.ms."""

R = TypeVar("R", bound=Response)


class AdminChannel(Protocol):
    """Transport of a KafkaAdmin's requests to one cluster.

    ``call``: Kafka's name of the call, for the text of errors. Methods that wait raise
    RequestTimedOut, methods that need ZooKeeper raise ZooKeeperUnavailable.
    """

    @property
    def zk(self) -> KafkaZkClient:
        """Client on a connected ZooKeeper session."""
        ...

    def ask_controller(
        self, call: str, request: Request, kind: type[R], timeout_ms: int | None = None
    ) -> R:
        """Send a request to the active controller and return its response.

        ``timeout_ms``: the request's own timeout in the controller.
        """
        ...

    def ask_brokers(
        self, call: str, requests: Mapping[int, Request], kind: type[R]
    ) -> Mapping[int, R]:
        """Send requests to brokers in parallel; return the responses that arrived in time."""
        ...

    def await_controller(self, call: str, timeout_ms: int) -> None:
        """Wait until a controller is elected."""
        ...

    def await_broker(self, call: str, broker_id: int, timeout_ms: int | None = None) -> None:
        """Wait until a broker is available; ``timeout_ms`` None: the timeout of any call."""
        ...

    def await_leaders(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> bool:
        """Wait until a broker's metadata has a leader of each partition; False on a timeout."""
        ...

    def is_registered(self, broker_id: int) -> bool:
        """Return True if the broker runs and is registered."""
        ...

    def topic_names(self) -> Sequence[str]:
        """Return the names of all topics in a broker's metadata cache, sorted."""
        ...

    def metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Return a broker's metadata of these topics, and the live brokers."""
        ...

    def partition_count(self) -> int | None:
        """Return the number of partitions in the controller's context; None without one."""
        ...

    def running_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the running reassignments without waiting; empty without a controller."""
        ...

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970, for the text of errors."""
        ...


def timed_out(call: str, now_ms: int, hint: str | None = None) -> RequestTimedOut:
    """Return the error of Kafka's Admin client for a call that timed out."""
    return RequestTimedOut(
        f"Call(callName={call}, deadlineMs={now_ms - 1}, tries=1, nextAllowedTryMs="
        f"{now_ms + RETRY_BACKOFF_MS}) timed out at {now_ms} after 1 attempt(s)",
        hint=hint,
    )


def is_not_controller(response: Response) -> bool:
    """Return True for a response with the error NOT_CONTROLLER."""
    match response:
        case CreateTopicsResponse() | DeleteTopicsResponse():
            return any(result.error is Errors.NOT_CONTROLLER for result in response.topics)
        case AlterPartitionReassignmentsResponse() | ListPartitionReassignmentsResponse():
            return response.error.error is Errors.NOT_CONTROLLER
        case ElectLeadersResponse():
            return response.error is Errors.NOT_CONTROLLER
    return False
