"""How the server asks the cluster it runs: the controller, a broker, or the znodes.

A client like any other: messages there, an answer or no answer back. What is asked is said by the
classes that build on this one. Mirrors Call, its retries and its node providers in
org.apache.kafka.clients.admin.KafkaAdminClient.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, NamedTuple, TypeVar

from brokers.broker import Broker
from brokers.metadata_cache import MetadataCache
from cluster.errors import RequestTimedOut
from cluster.requests import (
    Address,
    ListPartitionReassignmentsRequest,
    Message,
    Request,
    Response,
)
from controller.kafka_controller import KafkaController
from runtime.real.cluster import RealCluster
from runtime.real.running_node import RunningNode
from server.closing import POLL_S, Closing
from server.zookeeper import connected_store, lost_zookeeper, why_no_controller
from zk.kafka_zk_client import KafkaZkClient

API_TIMEOUT_S: Final = 60.0
"""How long a call looks for a broker or controller to answer it: default.api.timeout.ms."""
ANSWER_MARGIN_S: Final = 5.0
"""Extra time to wait for an answer beyond the request's timeout."""
RETRY_BACKOFF_S: Final = 0.1
"""retry.backoff.ms."""
MAY_BE_DONE: Final = "the controller may still carry out the request: check before you repeat it"

_client_ids = itertools.count()
R = TypeVar("R", bound=Response)
_T = TypeVar("_T")


def new_client_address() -> Address:
    """An address that no other client of this process has."""
    return Address("client", next(_client_ids))


class _Sent(NamedTuple):
    """A request on its way, and the process that is to answer it."""

    number: int
    node: RunningNode | None
    answer: Future[object]

    @property
    def result(self) -> object | None:
        """The answer, if it has come."""
        return self.answer.result() if self.answer.done() else None


class ClusterCalls:
    """Asks the controller and the brokers of one cluster. For any thread."""

    def __init__(
        self, cluster: RealCluster, closing: Closing, api_timeout_s: float = API_TIMEOUT_S
    ) -> None:
        self._cluster = cluster
        self._closing = closing
        self._api_timeout_s = api_timeout_s
        self._address = new_client_address()
        self._lock = threading.Lock()
        self._last_correlation_id = 0
        self._answers: dict[int, Future[object]] = {}
        cluster.transport.register(self._address, self._on_message)

    # -- the controller

    def _ask_controller(
        self,
        call: str,
        request: Request,
        kind: type[R],
        is_refused: Callable[[R], bool],
        *,
        timeout_ms: int | None = None,
    ) -> R:
        """Ask until one answers that is the controller, as ``is_refused`` tells from the answer.

        ``timeout_ms``: the request's timeout in the controller. The search for a controller
        takes no longer; reporting the timeout may take a little more. Raises RequestTimedOut.
        """
        deadline_s = self._deadline_s(timeout_ms)
        while True:
            controller_id = self._controller_id(deadline_s, call)
            answer_by_s = deadline_s if timeout_ms is None else deadline_s + ANSWER_MARGIN_S
            response = self._ask_once(controller_id, request, call, answer_by_s)
            if isinstance(response, kind) and not is_refused(response):
                return response
            self._pause(deadline_s, call)

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
        """One request; None if the controller ended before it answered, or hangs and has a
        successor.
        """
        sent = self._send(Address("controller", controller_id), request)
        try:
            while time.monotonic() < deadline_s:
                try:
                    return self._closing.result_of(sent.answer, POLL_S)
                except TimeoutError:
                    if self._is_lost(controller_id, sent):
                        return None
            raise timed_out(call, hint=self._hint_of_unanswered(request))
        finally:
            self._forget(sent)

    def _is_lost(self, controller_id: int, sent: _Sent) -> bool:
        running = self._cluster.nodes.get(controller_id)
        if running is None or running is not sent.node:
            return True
        return running.is_paused and self._cluster.active_controller is not None

    def _controller(self) -> KafkaController | None:
        """The controller itself, to look at what it knows."""
        controller_id = self._cluster.active_controller
        running = None if controller_id is None else self._cluster.nodes.get(controller_id)
        return None if running is None else running.node.controller

    # -- brokers

    def _ask_brokers(
        self, call: str, requests: Mapping[int, Request], kind: type[R]
    ) -> dict[int, R]:
        """Ask brokers at once, those that are away as soon as they are back.

        Gives the answers that came in time.
        """
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
                elif self._is_registered(broker_id) and (
                    sent is None or sent.node is not self._cluster.nodes.get(broker_id)
                ):
                    if sent is not None:
                        self._forget(sent)
                    waiting[broker_id] = self._send(Address("broker", broker_id), request)
            return True if len(answers) == len(requests) else None

        try:
            self._wait_until(is_complete, self._deadline_s(), call)
        except RequestTimedOut:
            return answers
        finally:
            for sent in waiting.values():
                self._forget(sent)
        return answers

    def _await_broker(self, broker_id: int, call: str, timeout_s: float) -> None:
        """Wait until a broker is there to be asked. Raises RequestTimedOut."""

        def is_there() -> bool | None:
            running = self._cluster.nodes.get(broker_id)
            is_paused = running is not None and running.is_paused
            return True if self._is_registered(broker_id) and not is_paused else None

        deadline_s = time.monotonic() + min(timeout_s, self._api_timeout_s)
        self._wait_until(
            is_there, deadline_s, call, hint=lambda: f"broker {broker_id} does not answer"
        )

    def _is_registered(self, broker_id: int) -> bool:
        cluster = self._cluster
        return broker_id in cluster.nodes and broker_id not in cluster.nodes.starting_broker_ids

    def _cache(self, broker_id: int | None = None) -> MetadataCache:
        """A broker's metadata cache: the controller's own if there is a controller.

        Raises RequestTimedOut if no broker runs.
        """
        return self._any_broker(broker_id).metadata_cache

    def _any_broker(self, broker_id: int | None = None) -> Broker:
        wanted = self._cluster.active_controller if broker_id is None else broker_id
        running = dict(self._cluster.nodes)
        for candidate in (wanted, *sorted(running)):
            if candidate in running and not running[candidate].is_paused:
                return running[candidate].node.broker
        raise timed_out("describeCluster", hint="no broker runs")

    # -- znodes and time

    def _zk(self) -> KafkaZkClient:
        """Raises ZooKeeperUnavailable while ZooKeeper does not answer."""
        return KafkaZkClient(connected_store(self._cluster))

    def _hint_of_unanswered(self, request: Request) -> str | None:
        """Return the hint for a request that the controller received but did not answer."""
        lost = lost_zookeeper(self._cluster)
        if isinstance(request, ListPartitionReassignmentsRequest):
            return lost
        return f"{f'{lost}; ' if lost else ''}{MAY_BE_DONE}"

    def _deadline_s(self, timeout_ms: int | None = None) -> float:
        own_s = self._api_timeout_s if timeout_ms is None else max(0, timeout_ms) / 1000
        return time.monotonic() + min(own_s, self._api_timeout_s)

    def _pause(self, deadline_s: float, call: str) -> None:
        retry_at_s = time.monotonic() + RETRY_BACKOFF_S
        self._wait_until(lambda: True if time.monotonic() >= retry_at_s else None, deadline_s, call)

    def _wait_until(
        self,
        condition: Callable[[], _T | None],
        deadline_s: float,
        call: str,
        *,
        hint: Callable[[], str | None] | None = None,
    ) -> _T:
        """``hint`` is called at the deadline."""
        try:
            return self._closing.wait_until(condition, deadline_s, "")
        except RequestTimedOut:
            found = lost_zookeeper(self._cluster) if hint is None else hint()
            raise timed_out(call, hint=found) from None

    # -- messages

    def _send(self, destination: Address, request: Request) -> _Sent:
        node = self._cluster.nodes.get(destination.id)
        answer: Future[object] = Future()
        with self._lock:
            self._last_correlation_id += 1
            number = self._last_correlation_id
            self._answers[number] = answer
        self._cluster.transport.send(Message(self._address, destination, number, request))
        return _Sent(number, node, answer)

    def _forget(self, sent: _Sent) -> None:
        with self._lock:
            self._answers.pop(sent.number, None)

    def _on_message(self, message: Message) -> None:
        with self._lock:
            answer = self._answers.pop(message.correlation_id, None)
        if answer is not None:
            answer.set_result(message.body)


def timed_out(call: str, *, hint: str | None = None) -> RequestTimedOut:
    """The words of Kafka's Admin client for a call that nobody answered."""
    now_ms = time.time_ns() // 1_000_000
    return RequestTimedOut(
        f"Call(callName={call}, deadlineMs={now_ms - 1}, tries=1, nextAllowedTryMs="
        f"{now_ms + round(RETRY_BACKOFF_S * 1000)}) timed out at {now_ms} after 1 attempt(s)",
        hint=hint,
    )
