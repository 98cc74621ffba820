"""``python -m bench.fuzz_http``: valid and invalid requests to every operation of the HTTP API.

Requests to a cluster on a real ZooKeeper are drawn from the schemas of its OpenAPI document, then
corrupted: wrong types, numbers that are too large, invalid UTF-8, deep nesting, truncated bodies.
No request may be answered with 500 or lose its connection. From time to time stopped and isolated
brokers and a stopped ZooKeeper are brought back.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import resource
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
from klamm.world.cluster_spec import BROKERS_FOLDER, ClusterSpec
from klamm.zk.waiting import wait_until
from tests.api_server import ApiServer

MAX_BROKERS: Final = 6
HEAL_EVERY: Final = 150
HEALED_WITHIN_S: Final = 60.0
API_TIMEOUT_S: Final = 0.5
LIMITS: Final = PartitionLimits(per_request=60, cluster=300)
"""Small numbers, so that topics do not pile up: the cost of requests is measured."""
_MAX_WAIT_MS: Final = 50
_IDS: Final = 20
_NAMES: Final = (
    *("fuzz-a", "fuzz-b", "fuzz-c", "fuzz-a", "fuzz-b", "", ".", "..", "a/b", "\0", "x" * 300, "ü"),
    *("0", "1", "<default>", "brokers", "topics", "retention.ms", "log.cleaner.threads", "1000"),
    *("d0", "/tmp", "earliest", "gzip", "none"),
)
_INTEGERS: Final = (-1, 0, 1, 2, 3, 2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30)
_JUNK_BODIES: Final = (
    *(b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"topics":["\xff"]}', rb'{"topics":["\ud800"]}'),
    b'{"timeout_ms":NaN,"topics":[]}',
    b'{"x":' + b"[" * 50_000,
    b'{"topics":[' + b'"",' * 3_100_000,
    b'{"topics":["' + b"x" * 2_000_000 + b'"]}',
)
_TOPICS: Final = (
    b'{"topics":[{"name":"fuzz-a","num_partitions":3},{"name":"fuzz-b","num_partitions":3}],'
    b'"timeout_ms":5000}'
)
_SAFE: Final = string.ascii_letters + string.digits + "-._"
_ANY: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none() | st.booleans() | st.sampled_from((*_INTEGERS, *_NAMES, 0.5)) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
"""Any JSON value, including values that no operation accepts."""


class Drawn(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes = b""


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
        words: dict[str, dict[str, st.SearchStrategy[str]]] = {"path": {}, "query": {}}
        for parameter in operation["parameters"]:
            word = st.sampled_from((*_NAMES, *map(str, _INTEGERS), "9" * 500, "\x7f", "a b", "²"))
            word |= self._value(parameter["schema"]).map(str)
            if parameter["in"] == "path":
                word = (word | st.integers(0, _IDS).map(str)).filter(bool)
            words[parameter["in"]][parameter["name"]] = word.map(lambda one: quote(one, safe=_SAFE))
        body: st.SearchStrategy[bytes] = st.just(b"")
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            good = self._value(schema).map(msgspec.json.encode)
            cut = st.builds(lambda whole, size: whole[:size], good, st.integers(0, 40))
            # By number: Hypothesis writes out what it samples from.
            junk = st.integers(0, len(_JUNK_BODIES) - 1).map(_JUNK_BODIES.__getitem__)
            body = st.one_of(good, good, good, good, cut, _ANY.map(msgspec.json.encode), junk)
        return st.builds(
            lambda names, query, content: Drawn(
                method,
                f"{path.format_map(names)}?{'&'.join(map('='.join, query.items()))}",
                content,
            ),
            st.fixed_dictionaries(words["path"]),
            st.fixed_dictionaries({}, optional=words["query"]),
            body,
        )

    def _value(self, schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Any]:
        """Values of a schema, and now and then one of another kind."""
        good = self._good(schema, name)
        return st.integers(0, 19).flatmap(lambda one: _ANY if one == 0 else good)

    def _good(self, schema: Mapping[str, Any], name: str) -> st.SearchStrategy[Any]:
        match schema:
            case {"$ref": reference}:
                return self._good(self._schemas[reference.rpartition("/")[2]], name)
            case {"anyOf": kinds}:
                return st.one_of([self._good(one, name) for one in kinds])
            case {"enum": words}:
                return st.sampled_from(words)
            case {"type": "object", "properties": properties}:
                values = {key: self._value(one, key) for key, one in properties.items()}
                required = {key: values.pop(key) for key in schema.get("required", ())}
                return st.fixed_dictionaries(required, optional=values)
            case {"type": "object", "additionalProperties": values}:
                keys = st.sampled_from(_NAMES) | st.integers(-1, 9).map(str)
                return st.dictionaries(keys, self._value(values), max_size=3)
            case {"type": "array"}:
                return st.lists(self._value(schema.get("items", {}), name), max_size=4)
            case {"type": "integer"}:
                return _integer(schema, name)
            case {"type": "string"}:
                return st.sampled_from(_NAMES) | st.text(max_size=30)
            case {"type": "boolean"}:
                return st.booleans()
            case {"type": "null"}:
                return st.none()
        return _ANY


def _integer(schema: Mapping[str, Any], name: str) -> st.SearchStrategy[int]:
    if name in ("timeout_ms", "wait_ms"):
        # Long waits would only slow the fuzzer down.
        return st.integers(-1, _MAX_WAIT_MS)
    least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63)
    near = [one for one in _INTEGERS if least <= one <= most]
    small = st.integers(max(least, -1), min(most, 60))
    return st.one_of(small, small, st.sampled_from([least, most, *near]))


class Fuzz:
    """Sends requests to a cluster, and counts the answers by status."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.by_status: Counter[int] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")

    def run(self, requests: int, seed_number: int) -> None:
        """Send a number of requests. Raises AssertionError at the first wrong answer."""
        drawn = Requests(self._answer(Drawn("GET", "/openapi.json"))).drawn()

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
            self._send(one)

        send()

    def _send(self, drawn: Drawn) -> None:
        if drawn.method == "POST" and drawn.path == "/brokers?" and self._has_many_brokers():
            return
        if self.by_status.total() % HEAL_EVERY == 0:
            self._heal()
        begun_s = time.monotonic()
        status, answer = self._api.request(*drawn)
        what = f"{drawn.method} {drawn.path[:200]} {drawn.body[:500]!r}"
        self.slowest = max(self.slowest, (time.monotonic() - begun_s, what))
        self.by_status[status] += 1
        assert status != http.client.INTERNAL_SERVER_ERROR, f"{what}: {answer}"
        assert status == http.client.OK or answer["error"]["message"], f"{what}: {answer}"

    def _answer(self, request: Drawn) -> Any:
        status, answer = self._api.request(*request)
        assert status == http.client.OK, answer
        return answer

    def _has_many_brokers(self) -> bool:
        return len(self._answer(Drawn("GET", "/status"))["brokers"]) >= MAX_BROKERS

    def _heal(self) -> None:
        """Restart ZooKeeper and all brokers, heal the network, and start with new topics."""
        for path in ("/zookeeper/1/start", "/zookeeper/1/resume", "/disks/heal", "/network/heal"):
            self._api.request("POST", path)
        for broker in self._answer(Drawn("GET", "/status"))["brokers"]:
            action = {"running": None, "paused": "resume"}.get(broker["state"], "start")
            if action is not None:
                self._api.request("POST", f"/brokers/{broker['id']}/{action}")
        status, names = self._api.request("GET", "/topics")
        if status == http.client.OK:
            self._api.request("POST", "/topics/delete", msgspec.json.encode(names))
        self._api.request("POST", "/topics", _TOPICS)

    def check_alive(self) -> None:
        """Check that the cluster answers, elects another controller, and creates a topic."""
        self._heal()
        move = Drawn("POST", "/controller/move")
        assert wait_until(lambda: self._api.request(*move)[0] == http.client.OK, HEALED_WITHIN_S)
        topic = b'{"topics":[{"name":"after","num_partitions":3}],"timeout_ms":30000}'
        self._answer(Drawn("POST", "/topics", topic))


def peak_rss_mib() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def served(data_dir: Path, zookeeper: str | None = None, *, segments: bool) -> Iterator[Fuzz]:
    """A cluster on a real socket, in this process."""
    cluster = ClusterSpec(
        broker_ids=(0, 1, 2),
        session_timeout_ms=2_000,
        segments=BROKERS_FOLDER if segments else None,
        partition_limits=LIMITS,
    )
    config = ServerConfig(cluster=cluster, zookeeper=zookeeper, data_dir=data_dir)
    with ClusterServer(config) as server:
        # Otherwise a request to a broker that is down takes a minute.
        server.admin = admin_of(server.cluster, server.closing, API_TIMEOUT_S)
        with contextlib.closing(ApiServer(server)) as api:
            yield Fuzz(api)


def main() -> None:
    """Fuzz for some minutes and print the results. Exit 1 if an answer was wrong."""
    # kazoo's threads use the shared generator while requests are drawn.
    warnings.simplefilter("ignore", HypothesisWarning)
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_http", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--segments", action="store_true")
    wanted = parser.parse_args()
    ends_s, rounds, failures = time.monotonic() + 60 * wanted.minutes, wanted.seed, 0
    with (
        tempfile.TemporaryDirectory(prefix="klamm-fuzz-http-") as folder,
        served(Path(folder), segments=wanted.segments) as fuzz,
    ):
        while time.monotonic() < ends_s:
            try:
                fuzz.run(200, rounds)
            except AssertionError as error:
                failures += 1
                print(f"seed {rounds}: {str(error)[:2000]}", flush=True)
            rounds += 1
            print(f"{fuzz.by_status.total()} requests, peak {peak_rss_mib():.0f} MiB", flush=True)
        fuzz.check_alive()
        print(f"answers by status: {dict(sorted(fuzz.by_status.items()))}")
        print(f"the slowest took {fuzz.slowest[0]:.1f} s: {fuzz.slowest[1][:300]}")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
