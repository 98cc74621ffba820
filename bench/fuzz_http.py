"""Fuzzes every operation of the HTTP API's OpenAPI document on a real cluster.

    python -m bench.fuzz_http --minutes 10

Requests are drawn from the document's schemas, then corrupted: wrong types, numbers that are too
large, invalid UTF-8, deep nesting, truncated bodies. No request may be answered with 500 or lose
its connection. From time to time stopped and isolated brokers are brought back.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import re
import string
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from klamm.cluster.partition_limits import PartitionLimits
from klamm.server.admin_channel import admin_of
from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig

BROKERS: Final = 3
MAX_BROKERS: Final = 6
HEAL_EVERY: Final = 150
TIMEOUT_S: Final = 90.0
API_TIMEOUT_S: Final = 0.5
LIMITS: Final = PartitionLimits(per_request=60, cluster=300)
"""Small numbers, so that topics do not pile up: the cost of requests is measured."""
_MAX_WAIT_MS: Final = 50
_NAMES: Final = (
    *("fuzz-a", "fuzz-b", "fuzz-c", "fuzz-a", "fuzz-b", "", ".", "..", "a/b", "\0", "x" * 300, "ü"),
    *("0", "1", "<default>", "brokers", "topics", "retention.ms", "log.cleaner.threads", "1000"),
    *("d0", "/tmp", "earliest", "gzip", "none"),
)
_INTEGERS: Final = (-1, 0, 1, 2, 3, 2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30)
_JUNK_BODIES: Final = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"topics":["\xff"]}',
    rb'{"topics":["\ud800"]}',
    b'{"timeout_ms":NaN,"topics":[]}',
    b'{"x":' + b"[" * 50_000,
    b'{"topics":[' + b'"",' * 3_100_000,
    b'{"topics":["' + b"x" * 2_000_000 + b'"]}',
)

_TOPICS: Final = msgspec.json.encode(
    {
        "topics": [
            {"name": name, "num_partitions": 3, "replication_factor": 2}
            for name in ("fuzz-a", "fuzz-b")
        ],
        "timeout_ms": 5_000,
    }
)
_CLIENT: Final = re.compile(r"^/(producers|consumers)/([0-5])/")
_SAFE: Final = string.ascii_letters + string.digits + "-._"


class Drawn(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes


def _values() -> st.SearchStrategy[Any]:
    """Any JSON value, including values that no operation accepts."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(_INTEGERS),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(_NAMES),
        st.text(max_size=20),
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=5,
    )


class Requests:
    """Strategies for the requests of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas: Mapping[str, Any] = document["components"]["schemas"]
        self.operations = [
            (method.upper(), path, operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
        ]

    def drawn(self) -> st.SearchStrategy[Drawn]:
        """Requests to any operation, most of them valid."""
        return st.one_of([self._operation(*one) for one in self.operations])

    def _operation(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> st.SearchStrategy[Drawn]:
        parameters = operation["parameters"]
        in_path = {p["name"]: self._in_path(p) for p in parameters if p["in"] == "path"}
        in_query = {p["name"]: self._word(p["schema"]) for p in parameters if p["in"] == "query"}
        body: st.SearchStrategy[bytes] = st.just(b"")
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            good = self._value(schema).map(msgspec.json.encode)
            cut = st.tuples(good, st.integers(0, 40)).map(lambda one: one[0][: one[1]])
            # By number: Hypothesis writes out what it samples from.
            junk = st.integers(0, len(_JUNK_BODIES) - 1).map(_JUNK_BODIES.__getitem__)
            body = st.one_of(good, good, good, good, cut, _values().map(msgspec.json.encode), junk)
        return st.builds(
            lambda names, query, content: Drawn(
                method, path.format_map(names) + _query_of(query), content
            ),
            st.fixed_dictionaries(in_path),
            st.fixed_dictionaries({}, optional=in_query),
            body,
        )

    def _in_path(self, parameter: Mapping[str, Any]) -> st.SearchStrategy[str]:
        words = self._word(parameter["schema"]).filter(bool)
        if parameter["name"] == "id":
            words = st.one_of(st.integers(0, MAX_BROKERS - 1).map(str), words)
        return words.map(lambda word: quote(word, safe=""))

    def _word(self, schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
        return st.one_of(
            self._value(schema).map(str),
            st.sampled_from((*_NAMES, *map(str, _INTEGERS), "9" * 500, "\x7f", "a b", "²")),
        )

    def _value(self, schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Any]:
        """Values of a schema, and now and then one of another kind."""
        good = self._good(schema, name)
        return st.integers(0, 19).flatmap(lambda one: _values() if one == 0 else good)

    def _good(self, schema: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            return self._good(self._schemas[schema["$ref"].rpartition("/")[2]], name)
        if "anyOf" in schema:
            return st.one_of([self._good(one, name) for one in schema["anyOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return st.lists(self._value(schema.get("items", {}), name), max_size=4)
        if kind == "integer":
            return _integer(schema, name)
        if kind == "string":
            return st.one_of(st.sampled_from(_NAMES), st.text(max_size=30))
        if kind == "boolean":
            return st.booleans()
        return st.none() if kind == "null" else _values()

    def _object(self, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", ())
        values = {key: self._value(one, key) for key, one in properties.items()}
        if "additionalProperties" in schema and not properties:
            keys = st.one_of(st.sampled_from(_NAMES), st.integers(-1, 9).map(str))
            return st.dictionaries(keys, self._value(schema["additionalProperties"]), max_size=3)
        return st.fixed_dictionaries(
            {key: values[key] for key in required},
            optional={key: one for key, one in values.items() if key not in required},
        )


def _integer(schema: Mapping[str, Any], name: str) -> st.SearchStrategy[int]:
    if name in ("timeout_ms", "wait_ms"):
        # Long waits would only slow the fuzzer down.
        return st.integers(-1, _MAX_WAIT_MS)
    least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63)
    near = [one for one in _INTEGERS if least <= one <= most]
    small = st.integers(max(least, -1), min(most, 60))
    return st.one_of(small, small, st.sampled_from([least, most, *near]))


def _query_of(query: Mapping[str, str]) -> str:
    words = "&".join(f"{name}={quote(word, safe=_SAFE)}" for name, word in query.items())
    return f"?{words}" if words else ""


class Fuzz:
    """Sends requests to a cluster, counts the answers and keeps the forbidden ones."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sent = 0
        self._clients: dict[str, list[int]] = {"producers": [], "consumers": []}
        self.by_status: Counter[int] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")
        self.failures: list[str] = []

    def document(self) -> Any:
        """The server's OpenAPI document."""
        return msgspec.json.decode(self.request(Drawn("GET", "/openapi.json", b""))[1])

    def send(self, drawn: Drawn) -> None:
        """Send a request and judge its answer. Raises AssertionError."""
        if drawn.method == "POST" and drawn.path == "/brokers" and self._has_many_brokers():
            return
        self._sent += 1
        if self._sent % HEAL_EVERY == 0:
            self.heal()
        drawn = drawn._replace(path=_CLIENT.sub(self._with_a_client, drawn.path))
        begun_s = time.monotonic()
        status, content = self.request(drawn)
        took_s = time.monotonic() - begun_s
        what = f"{drawn.method} {drawn.path[:200]} {drawn.body[:500]!r}"
        self.slowest = max(self.slowest, (took_s, what))
        self.by_status[status] += 1
        if status == http.client.INTERNAL_SERVER_ERROR:
            self.failures.append(f"{what}: {content.decode()}")
        assert status != http.client.INTERNAL_SERVER_ERROR, f"{what}: {content.decode()}"
        if status >= http.client.BAD_REQUEST:
            assert msgspec.json.decode(content)["error"]["message"], f"{what}: {content.decode()}"
        elif (opened := drawn.path[1:]) in self._clients:
            self._clients[opened].append(msgspec.json.decode(content)["id"])

    def _with_a_client(self, found: re.Match[str]) -> str:
        """Insert the number of a recent producer or consumer into a path."""
        known = self._clients[found[1]][-int(found[2]) - 1 :]
        return f"/{found[1]}/{known[0] if known else found[2]}/"

    def request(self, drawn: Drawn) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            connection.request(drawn.method, drawn.path, drawn.body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def heal(self) -> None:
        """Restart all brokers, heal the network, and start with new topics."""
        self.request(Drawn("POST", "/network", b'{"isolated":[]}'))
        status = msgspec.json.decode(self.request(Drawn("GET", "/status", b""))[1])
        for broker in status["brokers"]:
            action = {"running": None, "paused": "resume"}.get(broker["state"], "start")
            if action is not None:
                self.request(Drawn("POST", f"/brokers/{broker['id']}/{action}", b""))
        names, body = self.request(Drawn("GET", "/topics", b""))
        if names == http.client.OK:
            self.request(Drawn("POST", "/topics/delete", body))
        self.request(Drawn("POST", "/topics", _TOPICS))

    def check_alive(self) -> None:
        """Check that the cluster answers, elects another controller, and creates a topic."""
        self.heal()
        for path, body in (
            ("/controller/move", b""),
            ("/topics", b'{"topics":[{"name":"after","num_partitions":3}],"timeout_ms":30000}'),
        ):
            status, content = self.request(Drawn("POST", path, body))
            assert status == http.client.OK, f"{path}: {content.decode()}"
        assert self.request(Drawn("GET", "/status", b""))[0] == http.client.OK

    def _has_many_brokers(self) -> bool:
        content = self.request(Drawn("GET", "/status", b""))[1]
        return len(msgspec.json.decode(content)["brokers"]) >= MAX_BROKERS


def run(fuzz: Fuzz, requests: int, seed_number: int) -> None:
    """Send a number of requests. Raises AssertionError at the first wrong answer."""
    drawn = Requests(fuzz.document()).drawn()

    @seed(seed_number)
    @settings(
        max_examples=requests,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn)
    def send(one: Drawn) -> None:
        fuzz.send(one)

    send()


def peak_rss_mib() -> float:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def config_at(zookeeper: str | None, data_dir: Path | None, *, has_segments: bool) -> ServerConfig:
    """The cluster that is fuzzed."""
    return ServerConfig(
        brokers=BROKERS,
        zookeeper=zookeeper,
        data_dir=data_dir,
        session_timeout_ms=2_000,
        has_segments=has_segments,
        partition_limits=LIMITS,
    )


@contextmanager
def served(config: ServerConfig) -> Iterator[Fuzz]:
    """A cluster on a real socket, in this process."""
    # The bench uses helpers of the tests, which are next to it.
    from tests.api_server import ApiServer

    with ClusterServer(config) as server:
        # Otherwise a request to a broker that is down takes a minute.
        server.admin = admin_of(server.cluster, server.closing, API_TIMEOUT_S)
        api = ApiServer(server)
        try:
            yield Fuzz(api.port)
        finally:
            api.close()


def main() -> None:
    """Fuzz for some minutes and print the results."""
    # kazoo's threads use the shared generator while requests are drawn.
    warnings.simplefilter("ignore", HypothesisWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--segments", action="store_true")
    wanted = parser.parse_args()
    ends_s = time.monotonic() + 60 * wanted.minutes
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = config_at(None, folder, has_segments=wanted.segments)
        fuzz = stack.enter_context(served(config))
        rounds, before_mib = wanted.seed, peak_rss_mib()
        while time.monotonic() < ends_s:
            try:
                run(fuzz, 200, rounds)
            except AssertionError as error:
                print(f"seed {rounds}: {str(error)[:2000]}", flush=True)
            rounds += 1
            print(f"{fuzz.by_status.total()} requests, {peak_rss_mib():.0f} MiB", flush=True)
        fuzz.check_alive()
        print(f"answers by status: {dict(sorted(fuzz.by_status.items()))}")
        print(f"answers of 500: {fuzz.by_status[500]}; slowest {fuzz.slowest[0]:.1f} s")
        print(f"the slowest: {fuzz.slowest[1][:300]}")
        print(f"peak RSS {peak_rss_mib():.0f} MiB, {before_mib:.0f} MiB at the beginning")
    raise SystemExit(1 if fuzz.failures else 0)


if __name__ == "__main__":
    main()
