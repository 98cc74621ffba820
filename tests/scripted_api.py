"""A server that answers as a test says, for what commands ask of klamm's API and print.

Its answers have the types of the API, and it accepts only requests that the API accepts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from klamm.cluster.errors import KlammError
from klamm.tools.command_result import ErrorAnswer, describe_error
from tests.asgi import Response, assert_is_described, route_of

Script = Mapping[str, Any]
"""Answers to requests such as "POST /brokers/1/kill": a value, a KlammError, or a list of them, of
which each request takes the next. The connection breaks where the answer is None."""

BROKER: Final[dict[str, Any]] = {
    **{"id": 0, "rack": None, "state": "running", "reason": None, "live": True},
    **{"is_candidate": True, "is_controller": False, "broker_epoch": 5, "clock_skew_ms": 0},
    **{"partitions": 3, "leaders": 2, "under_replicated": 1, "offline": 0},
}
CONTROLLER: Final[dict[str, Any]] = {
    **{"controller_id": 1, "is_active": True, "active_controller_id": 1, "epoch": 4},
    **{"epoch_zk_version": 4, "state": "IDLE", "event_queue_size": 2, "requests_waiting": {}},
    **{"live_brokers": {}, "shutting_down_brokers": [], "topics": 1},
    **{"partitions": {"OnlinePartition": 3}, "replicas": {}, "offline_partitions": 1},
    **{"preferred_replica_imbalance": 0, "topics_to_be_deleted": [], "deletions": []},
    **{"partitions_being_reassigned": 0, "reassignments": [], "malformed": {}},
}
STATUS: Final[dict[str, Any]] = {
    **{"cluster_id": "c", "run_id": "r", "session_timeout_ms": 6000, "controller": None},
    "zookeeper": {
        **{"connect": "zk:1", "state": "CONNECTED", "is_stale": False, "embedded": True},
        **{"malformed": {}, "servers": []},
    },
    "journal": {"is_writable": True, "failure": None, "failed_for_ms": 0},
    "failovers": {"failed": 0, "failure": None, "pause_ms": 0},
    **{"other_active_controllers": [], "brokers": [], "dead_leaders": []},
    **{"partitions_without_live_leader": None, "failed_log_dirs": [], "isolated_brokers": []},
    **{"network_faults": [], "disk_faults": [], "malformed_configs": {}, "errors": []},
    **{"bootstrap_servers": [], "security_protocol": None, "klamm_version": "1", "url": "u"},
    **{"data_dir": "d", "uptime_ms": 1},
}
"""GET /status of a cluster without brokers, one of its brokers, and its controller."""


class ScriptedApi:
    """``asked``: the requests so far, with the values of their bodies."""

    def __init__(self, script: Script) -> None:
        self.address = ""
        self.asked: list[tuple[str, Any]] = []
        self._answers = {
            request: [*answer] if isinstance(answer, list) else [answer]
            for request, answer in script.items()
        }
        for request, answers in self._answers.items():
            method, path = _without_query(request)
            assert route_of(method, path) is not None, request
            for answer in answers:
                if answer is not None and not isinstance(answer, KlammError):
                    assert_is_described(
                        method, path, Response(200, {}, msgspec.json.encode(answer))
                    )

    def answer_to(self, request: str, content: bytes) -> tuple[int, bytes] | None:
        """Status and body of the next answer."""
        route = route_of(*_without_query(request))
        answers = self._answers.get(request)
        if route is None or answers is None:
            return 501, b"not in the script"
        if content:
            msgspec.json.decode(content, type=route.body)
        self.asked.append((request, msgspec.json.decode(content) if content else None))
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            return None
        if isinstance(answer, KlammError):
            return 409, msgspec.json.encode(ErrorAnswer(describe_error(answer)))
        return 200, msgspec.json.encode(answer)


def _without_query(request: str) -> tuple[str, str]:
    method, _, path = request.partition(" ")
    return method, path.partition("?")[0]


@contextmanager
def scripted_api(script: Script) -> Iterator[ScriptedApi]:
    """Serve a script."""
    api = ScriptedApi(script)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = api.answer_to(f"{self.command} {self.path}", content)
            if answer is not None:
                self.send_response(answer[0])
                self.send_header("Content-Length", str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1])

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        api.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
