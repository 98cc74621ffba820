"""ASGI endpoint of one API path: reads the request, runs the handler, sends the response.

A handler that waits for the cluster is a coroutine: it needs no thread, and is cancelled when its
client disconnects. Other handlers run on threads. A few threads are reserved for reads, so that
`klamm status` gets a response while any number of changes are waiting.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from klamm.server.answers import environment_problem, json_answer
from klamm.server.bodies import NoFields
from klamm.server.openapi import ApiRoute
from klamm.server.request_bodies import RequestBodies, decode, decode_query

LOOKING_THREADS: Final = 4
OTHER_THREADS: Final = 64
_BAD_REQUEST: Final = 400


class Endpoints:
    """Creates the endpoints of one application, which share threads and limits."""

    def __init__(self) -> None:
        self._bodies = RequestBodies()
        self._looking = CapacityLimiter(LOOKING_THREADS)
        self._others = CapacityLimiter(OTHER_THREADS)

    def endpoint(self, route: ApiRoute, server: object) -> Callable[[Request], Awaitable[Response]]:
        """Return the ASGI endpoint that runs a route's handler.

        The arguments of the handler are the server, the request, and the decoded body or query
        (None if the route has neither). Unknown fields and query parameters are refused, even if
        the route has no body and no query.
        """
        handler = partial(route.handler, server)
        limiter = self._looking if route.only_looks else self._others

        async def endpoint(request: Request) -> Response:
            try:
                query = decode_query(request.query_params, route.query or NoFields)
                async with self._bodies.read(request) as body:
                    fields = await decode(body, route.body or NoFields)
                    wanted = fields if route.body else query if route.query else None
                    if inspect.iscoroutinefunction(handler):
                        answer = await _unless_disconnected(request, handler(request, wanted))
                    else:
                        answer = await anyio.to_thread.run_sync(
                            partial(handler, request, wanted), limiter=limiter
                        )
            except ClientDisconnect:
                # The client has disconnected: the response is never sent.
                return Response(status_code=_BAD_REQUEST)
            except OSError as error:
                raise environment_problem(error) from error
            return answer if isinstance(answer, Response) else json_answer(200, answer)

        return endpoint


async def _unless_disconnected(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of ``work``.

    If the client disconnects first, ``work`` is cancelled and ClientDisconnect raised.
    """
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
