"""Faults of single requests of clients, as librdkafka's mock cluster has them.

A fault applies to requests by API, client id and broker. The transport takes the fault of a request
from here and carries it out.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest
from klamm.cluster.counting import brokers_text
from klamm.cluster.refusals import APIS_OF_BROKERS, REFUSALS, refusal
from klamm.cluster.requests import Message
from klamm.cluster.suggestions import suggestion

_CLIENT: Final = "client"

LISTENER_APIS: Final = frozenset(
    (
        "AlterClientQuotas",
        "AlterConfigs",
        "AlterUserScramCredentials",
        "ApiVersions",
        "CreateAcls",
        "CreatePartitions",
        "DeleteAcls",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeUserScramCredentials",
        "IncrementalAlterConfigs",
        "SaslAuthenticate",
        "SaslHandshake",
    )
)
"""The APIs that listeners answer themselves (wire/): their requests are not messages."""
KAFKAS_ERRORS: Final = "https://kafka.apache.org/28/protocol.html"
CLIENT_APIS: Final = tuple(
    sorted({one.api for one in REFUSALS.values()} - APIS_OF_BROKERS | LISTENER_APIS)
)
"""The APIs whose requests may have a fault, by Kafka's names."""


class RequestFault(msgspec.Struct):
    """A fault of requests. None stands for all APIs, clients or brokers.

    Of the last three fields one is set; if none is, the requests are lost:

    - ``error``: the requests are refused with this error, and have no other effect.
    - ``is_cut``: the requests are lost, and the client's connection to the broker breaks.
    - ``delay_ms``: the requests reach the broker later by this time.

    ``left``: the number of requests that will still have the fault; None for all.
    """

    api: str | None
    client_id: str | None
    broker_ids: frozenset[int] | None
    left: int | None
    error: Errors | None = None
    is_cut: bool = False
    delay_ms: int = 0

    def concerns(self, api: str, client_id: str | None, broker_id: int) -> bool:
        """Return True if the fault applies to a request of an API to a broker."""
        return (
            self.api in (None, api)
            and self.client_id in (None, client_id)
            and (self.broker_ids is None or broker_id in self.broker_ids)
        )

    @property
    def text(self) -> str:
        """Description for users, with the number of requests that will still have the fault."""
        if self.left == 1:
            return f"the next {self._text(is_one=True)}"
        count = "all" if self.left is None else f"the next {self.left}"
        return f"{count} {self.effect_text}"

    @property
    def effect_text(self) -> str:
        """Description of the requests and of what happens to them."""
        return self._text(is_one=False)

    def _text(self, is_one: bool) -> str:
        be = "is" if is_one else "are"
        effect = f"{be} dropped"
        if self.error is not None:
            effect = f"{'fails' if is_one else 'fail'} with {self.error.name}"
        elif self.is_cut:
            effect = "breaks its connection" if is_one else "break their connections"
        elif self.delay_ms:
            effect = f"{be} delayed by {self.delay_ms} ms"
        return (
            f"{self.api or 'client'} {'request' if is_one else 'requests'}"
            + ("" if self.client_id is None else f" of client {self.client_id}")
            + ("" if self.broker_ids is None else f" to {brokers_text(sorted(self.broker_ids))}")
            + f" {effect}"
        )

    def response(self, request: Any) -> Any:
        """Return the response that refuses a request with ``error``."""
        assert self.error is not None
        return refusal(request, self.error)


def check_request_fault(
    api: str | None,
    client: str | None,
    error: str | None,
    drop: bool,
    cut: bool,
    delay_ms: int | None,
) -> None:
    """Raise ValueError unless exactly one effect is given, and the API and the error exist."""
    if sum(map(bool, (error, drop, cut, delay_ms))) != 1:
        raise ValueError("give one of 'error', 'drop', 'cut' and 'delay_ms'")
    if client == "":
        raise ValueError("the client id is empty")
    if api is not None and api not in CLIENT_APIS:
        hint = suggestion(api, CLIENT_APIS, "see the list of APIs in docs/clients-and-tools.md")
        raise ValueError(f"{api} is not an API of clients; {hint}")
    if error and not Errors.__members__.get(error):
        names = (one.name for one in Errors if one)
        hint = suggestion(error, names, f"see the list of errors in {KAFKAS_ERRORS}")
        raise ValueError(f"{error} is not an error of Kafka 2.8.2; {hint}")


class RequestFaults(list[RequestFault]):
    """The faults of requests in a cluster, oldest first.

    If several apply to a request, the oldest counts."""

    def take(self, message: Message, client_id: str | None) -> RequestFault | None:
        """Return the fault of a message, and count it; None if the message has none."""
        known = REFUSALS.get(type(message.body))
        if known is None or message.source.role != _CLIENT:
            return None
        if isinstance(message.body, MetadataRequest) and message.body.topics == ():
            return None  # klamm's listeners ask for this to serve other APIs
        return self.take_named(known.api, client_id, message.destination.id)

    def take_named(self, api: str, client_id: str | None, broker_id: int) -> RequestFault | None:
        """Return the fault of a request to a broker, and count it; None if it has none."""
        for fault in self:
            if fault.concerns(api, client_id, broker_id):
                if fault.left is not None:
                    fault.left -= 1
                    if not fault.left:
                        self.remove(fault)
                return fault
        return None
