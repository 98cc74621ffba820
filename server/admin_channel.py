"""AdminChannel of the cluster that the server runs in its own process.

Sends requests like any other client, retries when the controller changes, and reads a broker's
metadata cache. Mirrors the retries and the choice of nodes in
org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple, TypeVar

from klamm.admin.admin_channel import RETRY_BACKOFF_MS, is_not_controller, timed_out
from klamm.admin.kafka_admin import ListenerAdmin
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.topic_metadata import answer_metadata
from klamm.cluster.client_requests import MetadataRequest, MetadataResponse
from klamm.cluster.counting import brokers_text, joined
from klamm.cluster.errors import KlammError, RequestTimedOut, UnknownBroker
from klamm.cluster.requests import (
    Address,
    ListPartitionReassignmentsRequest,
    PartitionResponse,
    Request,
    Response,
    TopicResponse,
)
from klamm.cluster.types import NO_LEADER, ReplicaAssignment, TopicPartition
from klamm.server.closing import POLL_S, Closing
from klamm.server.zookeeper import connected_store, lost_zookeeper, why_no_controller
from klamm.world.real.cluster import RealCluster
from klamm.world.real.running_node import RunningNode
from klamm.world.transport import RequestClient
from klamm.zk.kafka_zk_client import KafkaZkClient

API_TIMEOUT_S: Final = 60.0
"""Maximum time that a call waits for a broker or controller: Kafka's default.api.timeout.ms."""
ANSWER_MARGIN_S: Final = 5.0
"""How much longer than the request's own timeout to wait for the response."""
MAY_STILL_ACT: Final = "the controller may still carry out the request: check before you repeat it"

_client_ids = itertools.count()
C = TypeVar("C", bound=TopicResponse | PartitionResponse)
R = TypeVar("R", bound=Response)
_T = TypeVar("_T")


def new_client_address() -> Address:
    """Return a transport address that no other client in this process has."""
    return Address("client", next(_client_ids))


def admin_of(
    cluster: RealCluster, closing: Closing, api_timeout_s: float = API_TIMEOUT_S
) -> ListenerAdmin:
    """Return a thread-safe admin client of a cluster that runs in this process."""
    spec = cluster.spec
    channel = ServerChannel(cluster, closing, api_timeout_s)
    return ListenerAdmin(channel, spec.config, spec.pools, spec.partition_limits)


class _Sent(NamedTuple):
    """A request in flight, and the node to which it was sent."""

    node: RunningNode | None
    answer: Future[object]

    @property
    def result(self) -> object | None:
        """The response, or None if it has not arrived."""
        return self.answer.result() if self.answer.done() else None


class ServerChannel:
    """AdminChannel that sends requests over the cluster's own transport. Thread-safe."""

    def __init__(self, cluster: RealCluster, closing: Closing, api_timeout_s: float) -> None:
        self._cluster = cluster
        self._closing = closing
        self._api_timeout_s = api_timeout_s
        self._client = RequestClient(new_client_address())

    # -- the controller

    def ask_controller(
        self, call: str, request: Request, kind: type[C], timeout_ms: int | None = None
    ) -> C:
        """Send a request to the controller, and retry until the active controller responds.

        Waits at most ``timeout_ms`` for a controller, and ANSWER_MARGIN_S longer for its response.
        Raises RequestTimedOut. It is not definite if a controller may have carried out the request.
        """
        deadline_s = self._deadline_s(timeout_ms)
        answer_by_s = deadline_s if timeout_ms is None else deadline_s + ANSWER_MARGIN_S
        is_unanswered = False
        try:
            while True:
                controller_id = self._controller_id(deadline_s, call)
                was_unanswered, is_unanswered = is_unanswered, True
                response = self._ask_once(controller_id, request, call, answer_by_s)
                if isinstance(response, kind):
                    if not is_not_controller(response):
                        return response
                    is_unanswered = was_unanswered
                self._pause(deadline_s, call)
        except KlammError as error:
            if is_unanswered and not isinstance(request, ListPartitionReassignmentsRequest):
                error.definite = False
                error.hint = f"{f'{error.hint}; ' if error.hint else ''}{MAY_STILL_ACT}"
            raise

    def await_controller(self, call: str, timeout_ms: int) -> None:
        """Wait until a controller is elected. Raises RequestTimedOut."""
        self._controller_id(self._deadline_s(timeout_ms), call)

    def partition_count(self) -> int | None:
        """Return the number of partitions in the controller's context.

        Returns None if there is no controller.
        """
        context = self._cluster.controller_context
        return None if context is None else len(context.assignments)

    def running_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the running reassignments in the controller's context.

        The result is empty if there is no controller.
        """
        context = self._cluster.controller_context
        return {} if context is None else context.running_reassignments()

    def _controller_id(self, deadline_s: float, call: str) -> int:
        return self._wait_until(
            lambda: self._cluster.active_controller,
            deadline_s,
            call,
            hint=lambda: why_no_controller(self._cluster),
        )

    def _ask_once(
        self, controller_id: int, request: Request, call: str, deadline_s: float
    ) -> object:
        """Send one request and return the response.

        Returns None if the controller stopped without responding, or if it is paused and another
        controller has been elected.
        """
        sent = self._send(Address("controller", controller_id), request)
        while time.monotonic() < deadline_s:
            try:
                return self._closing.result_of(sent.answer, POLL_S)
            except TimeoutError:
                if self._is_lost(controller_id, sent):
                    return None
        raise timed_out(call, self.now_ms(), lost_zookeeper(self._cluster))

    def _is_lost(self, controller_id: int, sent: _Sent) -> bool:
        running = self._cluster.nodes.get(controller_id)
        if running is None or running is not sent.node:
            return True
        return running.is_paused and self._cluster.active_controller is not None

    # -- brokers

    def ask_brokers(
        self, call: str, requests: Mapping[int, Request], kind: type[R]
    ) -> dict[int, R]:
        """Send a request to each broker in parallel, and return the responses keyed by broker id.

        A broker that is down gets its request once it has registered again. The result omits
        brokers that do not respond before the timeout, and brokers that do not exist.
        """
        requests = {id_: request for id_, request in requests.items() if self._exists(id_)}
        answers: dict[int, R] = {}
        waiting: dict[int, _Sent] = {}

        def is_complete() -> bool | None:
            for broker_id, request in requests.items():
                if broker_id in answers:
                    continue
                sent = waiting.get(broker_id)
                result = None if sent is None else sent.result
                if isinstance(result, kind):
                    answers[broker_id] = result
                elif self.is_registered(broker_id) and (
                    sent is None or sent.node is not self._cluster.nodes.get(broker_id)
                ):
                    waiting[broker_id] = self._send(Address("broker", broker_id), request)
            return True if len(answers) == len(requests) else None

        with contextlib.suppress(RequestTimedOut):
            self._wait_until(is_complete, self._deadline_s(), call)
        return answers

    def await_broker(self, call: str, broker_id: int, timeout_ms: int | None = None) -> None:
        """Wait until a broker is registered and not paused.

        Raises RequestTimedOut, or UnknownBroker if the cluster has no such broker.
        """
        if not self._exists(broker_id):
            raise self.no_response(call, [broker_id])

        def is_there() -> bool | None:
            running = self._cluster.nodes.get(broker_id)
            is_paused = running is not None and running.is_paused
            return True if self.is_registered(broker_id) and not is_paused else None

        self._wait_until(
            is_there,
            self._deadline_s(timeout_ms),
            call,
            hint=lambda: f"broker {broker_id} does not respond",
        )

    def no_response(self, call: str, broker_ids: Sequence[int]) -> RequestTimedOut:
        """Return the error to raise if none of ``broker_ids`` responded to a call.

        The error is UnknownBroker if one of these brokers does not exist.
        """
        unknown = [id_ for id_ in broker_ids if not self._exists(id_)]
        late = timed_out(call, self.now_ms(), f"no response from {brokers_text(broker_ids, ', ')}")
        if not unknown:
            return late
        known = joined(self._cluster.spec.broker_ids, ", ")
        missing = f"{brokers_text(unknown, ', ')} {'does' if len(unknown) == 1 else 'do'} not exist"
        return UnknownBroker(
            late.message, hint=f"{missing}; brokers: {known}", definite=late.definite
        )

    def await_leaders(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> bool:
        """Wait until a broker's metadata cache has a leader for every partition.

        Returns False if the timeout expires first.
        """
        cache = self._cache()

        def have_leaders() -> bool | None:
            return all(cache.leader_of(tp) not in (None, NO_LEADER) for tp in partitions) or None

        try:
            return self._closing.wait_until(have_leaders, time.monotonic() + timeout_ms / 1000, "")
        except RequestTimedOut:
            return False

    def topic_names(self) -> Sequence[str]:
        """Return the sorted names of all topics, from the metadata cache of a running broker."""
        with self._cluster.broker_thread_paused():
            return sorted(self._cache().topics())

    def metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Return metadata of ``topics`` and the live brokers, from the cache of a running broker.

        The broker is the controller's broker if that is running.
        """
        with self._cluster.broker_thread_paused():
            return answer_metadata(self._cache(), MetadataRequest(tuple(topics)))

    def is_registered(self, broker_id: int) -> bool:
        """Return True if the broker is running and registered."""
        cluster = self._cluster
        return broker_id in cluster.nodes and broker_id not in cluster.nodes.starting_broker_ids

    def _cache(self) -> MetadataCache:
        """Return the metadata cache of the controller's broker, or of another running broker.

        Raises RequestTimedOut if no broker is running.
        """
        running = dict(self._cluster.nodes)
        for candidate in (self._cluster.active_controller, *sorted(running)):
            if candidate in running and not running[candidate].is_paused:
                return running[candidate].node.broker.metadata_cache
        raise timed_out("describeCluster", self.now_ms(), "no broker is running")

    def _exists(self, broker_id: int) -> bool:
        return broker_id in self._cluster.spec.broker_ids

    # -- znodes and time

    @property
    def zk(self) -> KafkaZkClient:
        """Client that uses the cluster's ZooKeeper session.

        Raises ZooKeeperUnavailable while the session is disconnected.
        """
        return KafkaZkClient(connected_store(self._cluster))

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def _deadline_s(self, timeout_ms: int | None = None) -> float:
        own_s = self._api_timeout_s if timeout_ms is None else max(0, timeout_ms) / 1000
        return time.monotonic() + min(own_s, self._api_timeout_s)

    def _pause(self, deadline_s: float, call: str) -> None:
        retry_at_s = time.monotonic() + RETRY_BACKOFF_MS / 1000
        self._wait_until(lambda: True if time.monotonic() >= retry_at_s else None, deadline_s, call)

    def _wait_until(
        self,
        condition: Callable[[], _T | None],
        deadline_s: float,
        call: str,
        *,
        hint: Callable[[], str | None] | None = None,
    ) -> _T:
        """Wait until ``condition`` returns a value other than None, and return that value.

        Raises RequestTimedOut at the deadline; its hint is what ``hint`` returns.
        """
        try:
            return self._closing.wait_until(condition, deadline_s, "")
        except RequestTimedOut:
            found = lost_zookeeper(self._cluster) if hint is None else hint()
            raise timed_out(call, self.now_ms(), found) from None

    # -- messages

    def _send(self, destination: Address, request: Request) -> _Sent:
        node = self._cluster.nodes.get(destination.id)
        return _Sent(node, self._client.send(self._cluster.transport, destination, request))
