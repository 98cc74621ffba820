"""What an operator does to a cluster of either world by hand: asks its controller, rewrites znodes.

For the drivers of scenarios; what a step means is runner.py's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster.errors import KlammError, RequestTimedOut
from cluster.requests import Address, Message, Request, Response
from runtime.scenarios.steps import STEP_TIMEOUT_MS
from runtime.transport import RoutedTransport
from zk.store import Create, Delete, GetData, Store
from zk.znodes import ControllerZNode

CLIENT: Final = Address("client", 0)


def bounce_registration(store: Store, broker_id: int) -> None:
    """Delete a broker's znode and create it again at once, owned by ``store``'s session."""
    path = f"/brokers/ids/{broker_id}"
    data = store.read([GetData(path)])[0].data
    store.write([[Delete(path)], [Create(path, data, ephemeral=True)]])


class OperatorClient:
    """Asks the controller, as a client of its own."""

    def __init__(self, transport: RoutedTransport, store: Store) -> None:
        self._transport = transport
        self._store = store
        self._asked = 0
        self._answers: list[Message] = []
        transport.register(CLIENT, self._answers.append)

    def ask(
        self,
        request: Request,
        broker_id: int | None,
        run_until: Callable[[Callable[[], bool], float], bool],
    ) -> Response:
        """Send a request to a broker, or (None) to the controller. Raises RequestTimedOut if
        there is no answer, KlammError if there is no controller."""
        if broker_id is None:
            destination = self._controller()
        else:
            destination = Address("broker", broker_id)
        self._asked += 1
        self._answers.clear()
        self._transport.send(Message(CLIENT, destination, self._asked, request))
        if not run_until(lambda: bool(self._answers), STEP_TIMEOUT_MS):
            raise RequestTimedOut(f"{destination.role} {destination.id} does not answer")
        body = self._answers[0].body
        assert isinstance(body, Response), "only answers come to a client"
        return body

    def _controller(self) -> Address:
        data = self._store.read([GetData(ControllerZNode.path)])[0].data
        controller_id = ControllerZNode.decode(data)
        if controller_id is None:
            raise KlammError("there is no controller to ask")
        return Address("controller", controller_id)
