"""cli/client.py: where a command looks for klamm, and what it makes of the answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import create_server, gaierror

import msgspec
import pytest

from klamm.cli.client import (
    SERVER_VARIABLE,
    ServerClient,
    ServerUnavailable,
    _reason,
    answered_error,
    find_server,
)
from klamm.cli.journal import FileSource, ServerSource, journal_source
from klamm.cluster.errors import (
    EnvironmentProblem,
    InvalidReplicationFactor,
    KlammError,
    Refused,
    UsageError,
    ZooKeeperUnavailable,
)
from klamm.server.data_dir import DataDir, ServerAddress
from tests.scripted_api import scripted_api


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory in which this process serves, with a token."""
    held = DataDir(tmp_path)
    held.open()
    held.write_address(ServerAddress("http://127.0.0.1:1000", os.getpid(), "from-file"))
    yield tmp_path
    held.close()


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, Sequence[str]]]:
    """A server with one answer: its address, and the Authorization headers that it got."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def test_an_empty_server_option_is_refused(tmp_path: Path) -> None:
    variable = {SERVER_VARIABLE: ""}
    with pytest.raises(UsageError, match="'' is not the address of a klamm server"):
        find_server("", tmp_path, variable)
    with pytest.raises(EnvironmentProblem, match="no running klamm found"):
        find_server(None, tmp_path, variable)


def test_the_flag_goes_before_the_variable_and_the_file(data_dir: Path) -> None:
    environ = {"KLAMM_SERVER": "variable:2", "KLAMM_DATA_DIR": str(data_dir)}
    assert find_server("flag:3", None, environ).url == "http://flag:3"
    assert find_server(None, None, environ).url == "http://variable:2"
    assert find_server(None, data_dir, environ).url == "http://127.0.0.1:1000"
    assert find_server(None, None, {"KLAMM_DATA_DIR": str(data_dir)}).url == "http://127.0.0.1:1000"


def test_a_data_directory_on_the_command_line_goes_before_the_variable(data_dir: Path) -> None:
    environ = {"KLAMM_SERVER": "127.0.0.1:1"}
    (data_dir / "journal.jsonl").touch()
    assert isinstance(journal_source(None, data_dir, environ), FileSource)
    assert isinstance(journal_source(None, None, environ), ServerSource)
    empty = data_dir / "empty"
    with pytest.raises(EnvironmentProblem, match=f"--server is not given, and {empty}"):
        find_server(None, empty, environ)


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        (None, {}, "Bearer from-file"),
        (None, {"KLAMM_TOKEN": "mine"}, "Bearer mine"),
        ("same", {}, "Bearer from-file"),
        ("localhost", {}, "Bearer from-file"),
        ("same", {"KLAMM_TOKEN": "mine"}, "Bearer mine"),
        ("other", {}, ""),
    ],
)
def test_a_token_goes_only_to_its_server(
    tmp_path: Path, server: str | None, environ: dict[str, str], expected: str
) -> None:
    with answering(200, b"{}") as (address, seen), answering(200, b"{}") as (other, seen_other):
        held = DataDir(tmp_path)
        held.open()
        held.write_address(ServerAddress(f"http://{address}", os.getpid(), "from-file"))
        by_name = address.replace("127.0.0.1", "localhost")
        named = {"same": address, "localhost": by_name, "other": other, None: None}[server]
        find_server(named, tmp_path, environ).get("/status")
        held.close()
    assert [*seen, *seen_other] == [expected]


def test_a_server_that_has_ended_is_distinguished_from_none(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"--server .* KLAMM_SERVER .*server\.json"):
        find_server(None, None, {"KLAMM_DATA_DIR": str(tmp_path)})
    held = DataDir(tmp_path)
    held.open()
    held.write_address(ServerAddress("http://127.0.0.1:1", 2**22 + 1))
    with pytest.raises(ServerUnavailable, match="has ended"):
        find_server(None, tmp_path, {})
    held.close()


def test_a_klamm_without_an_address_has_no_api_yet(tmp_path: Path) -> None:
    held = DataDir(tmp_path)
    held.open()
    with pytest.raises(EnvironmentProblem) as refused:
        find_server(None, tmp_path, {})
    held.close()
    assert refused.value.message == (
        f"the klamm that runs in {tmp_path} has no HTTP API: klamm up opens it when its cluster is "
        "up, and klamm controller run has none"
    )
    assert f"read {tmp_path / 'journal.jsonl'}" in (refused.value.hint or "")
    with pytest.raises(EnvironmentProblem, match="no running klamm found"):
        find_server(None, tmp_path, {})


def test_a_server_that_ends_between_two_requests() -> None:
    with scripted_api({"GET /topics": [{"topics": []}, None]}) as api:
        client = ServerClient(api.address)
        assert client.get("/topics") == {"topics": []}
        with pytest.raises(ServerUnavailable, match="has ended: Remote end closed") as broken:
            client.get("/topics")
    with pytest.raises(ServerUnavailable, match="has ended: Connection refused") as refused:
        client.get("/topics")
    # Only a request that was sent may have been carried out.
    assert (broken.value.definite, refused.value.definite) == (False, True)
    assert broken.value.retriable and refused.value.retriable
    assert refused.value.hint == "klamm up --brokers 3 starts a cluster"


def test_a_port_that_breaks_the_first_connection_is_no_klamm() -> None:
    with (
        scripted_api({"GET /topics": None}) as api,
        pytest.raises(ServerUnavailable, match="is not a klamm server") as broken,
    ):
        ServerClient(api.address).get("/topics")
    assert not broken.value.definite
    assert "the HTTP address that klamm up prints" in (broken.value.hint or "")


def test_a_server_that_does_not_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.cli.client.TIMEOUT_S", 0.05)
    with create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=r"did not respond within 0\.05 s") as late:
            ServerClient(address).get("/topics")
    assert not late.value.definite


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (gaierror(-2, "Name or service not known"), "unknown host"),
        (TimeoutError("timed out"), "timed out"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (ValueError(), "ValueError"),
        (ValueError("a"), "a"),
    ],
)
def test_the_reason_of_a_failed_connection_has_no_error_number(
    error: Exception, reason: str
) -> None:
    assert _reason(error) == reason


def described(error: str, **facts: object) -> bytes:
    """Return the answer of a server that describes an error."""
    plain = {"code": None, "message": "m", "hint": None, "definite": True, "retriable": False}
    return msgspec.json.encode({"error": {"error": error, **plain, **facts}})


@pytest.mark.parametrize("facts", [{"hint": "h"}, {"definite": False}, {"retriable": True}])
def test_what_is_known_of_an_error_comes_with_it(facts: dict[str, object]) -> None:
    error = answered_error(described("Refused", **facts))
    plain = {"hint": None, "definite": True, "retriable": False}
    assert {name: getattr(error, name) for name in plain} == {**plain, **facts}


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("https://h", "https://h:443"),
        ("localhost", "http://localhost:8282"),
        ("http://h", "http://h:8282"),
        ("[::1]", "http://[::1]:8282"),
        ("[::1]:5", "http://[::1]:5"),
        ("h:1,g:2", "http://h:1"),
    ],
)
def test_the_address_of_a_server_may_have_several_forms(given: str, url: str) -> None:
    assert ServerClient(given).url == url


@pytest.mark.parametrize(
    "given", ["", "h:x", "h:99999", "ftp://h:1", "http://h:1/status", ":1", "h i", "h i:1"]
)
def test_a_text_that_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a klamm server"):
        ServerClient(given)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (described("UsageError"), UsageError, "m"),
        (described("Refused"), Refused, "m"),
        (described("ZooKeeperUnavailable"), ZooKeeperUnavailable, "m"),
        (described("NoSuchThing"), KlammError, "m"),
        (described("Errors"), KlammError, "m"),
        (described("x", code="INVALID_REPLICATION_FACTOR"), InvalidReplicationFactor, "m"),
        (b"<html>", ServerUnavailable, "is not a klamm server"),
        (b'{"error":{"message":"m"}}', ServerUnavailable, "is not a klamm server"),
    ],
)
def test_errors_come_back_as_they_were(body: bytes, kind: type[KlammError], message: str) -> None:
    with (
        answering(400, body) as (address, _),
        pytest.raises(KlammError, match=message) as raised,
    ):
        ServerClient(address).get("/status")
    assert type(raised.value) is kind
