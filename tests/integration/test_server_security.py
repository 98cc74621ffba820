"""server/security.py: which requests reach the API at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse

from klamm.cli.main import main
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.server.config import ServerConfig, is_loopback
from klamm.server.security import Gatekeeper, host_name, read_or_create_token
from tests.asgi import AsgiClient
from tests.server_configs import server_config

TOKEN = "s3cret"


def client(config: ServerConfig) -> AsgiClient:
    """What calls an application behind the gate of ``config``."""
    gate = Gatekeeper(PlainTextResponse("in"), config.host_names(), config.token)
    return AsgiClient(gate)


LOOPBACK = server_config(brokers=1)
EXPOSED = server_config(
    brokers=1, host="0.0.0.0", token=TOKEN, allowed_hosts=("klamm.example", "10.0.0.7")
)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8282", 200),
        ("LocalHost:1", 200),
        ("127.0.0.1:8282", 200),
        ("[::1]:8282", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil.example:8282", 403),
        ("127.0.0.2", 403),
        ("0.0.0.0", 403),
        ("klamm.example", 403),
        ("localhost:port", 403),
        ("localhost/", 403),
        ("user@localhost", 403),
        ("evil.example\\@localhost", 403),
        ("", 403),
    ],
)
def test_on_loopback_only_loopback_hosts_are_served(host: str, status: int) -> None:
    response = client(LOOPBACK).get("/", headers={"Host": host})
    assert response.status_code == status
    if status != 200:
        assert response.json()["error"]["message"] == f"unexpected Host header: {host}"


def test_two_host_headers_are_refused() -> None:
    headers = [("Host", "localhost"), ("Host", "localhost")]
    assert client(LOOPBACK).get("/", headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8282", 200),
        ("http://localhost", 403),
        ("http://evil.example", 403),
        ("https://localhost.evil.example:8282", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_a_request_from_a_page_of_another_origin_is_refused(origin: str, status: int) -> None:
    headers = {"Host": "localhost:8282", "Origin": origin}
    assert client(LOOPBACK).post("/", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (None, 401),
        ("Bearer", 401),
        ("Bearer wrong", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer ünicode", 401),
    ],
)
def test_only_the_right_bearer_token_is_served(authorization: str | None, status: int) -> None:
    headers = {"Host": "klamm.example"}
    if authorization is not None:
        headers["Authorization"] = authorization
    response = client(EXPOSED).get("/", headers=headers)
    assert response.status_code == status
    assert ("www-authenticate" in response.headers) == (status == 401)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("klamm.example", 200),
        ("10.0.0.7:8282", 200),
        ("localhost", 200),
        ("other.example", 403),
        ("0.0.0.0", 403),
    ],
)
def test_only_allowed_hosts_are_served(host: str, status: int) -> None:
    headers = {"Host": host, "Authorization": f"Bearer {TOKEN}"}
    assert client(EXPOSED).get("/", headers=headers).status_code == status


def test_a_host_that_is_listened_on_is_allowed() -> None:
    config = server_config(brokers=1, host="192.0.2.1", token=TOKEN)
    assert "192.0.2.1" in config.host_names()


@pytest.mark.parametrize(
    ("token", "allowed_hosts", "message"),
    [(None, ("a",), "a token is required"), (TOKEN, (), "requires --allowed-host")],
)
def test_a_server_on_all_addresses_requires_a_token_and_allowed_hosts(
    token: str | None, allowed_hosts: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        server_config(brokers=1, host="::", token=token, allowed_hosts=allowed_hosts)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example", False),
    ],
)
def test_loopback_hosts_are_recognized(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_host_names_of_headers() -> None:
    assert host_name("[2001:db8::1]:80") == "2001:db8::1"
    assert host_name("A.example:80") == "a.example"
    assert host_name("[::1") is None


def test_a_missing_token_file_is_created_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_or_create_token(path)
    assert len(token) >= 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_or_create_token(path) == token


def test_a_token_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    assert read_or_create_token(path) == "s3cret"


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff\xfe", "tökén".encode()])
def test_a_token_file_must_hold_a_token(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="token is not one line of printable ASCII"):
        read_or_create_token(path)


def test_a_token_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "token"
    with pytest.raises(EnvironmentProblem, match=r"missing/token cannot be read or written: No "):
        read_or_create_token(path)


def test_the_token_is_given_in_one_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--token", TOKEN, "--token-file", str(tmp_path / "token")]
    assert main(["up", "--brokers", "1", "--data-dir", str(tmp_path), *both]) == 2
    assert "give either --token (KLAMM_TOKEN) or --token-file" in capsys.readouterr().err
