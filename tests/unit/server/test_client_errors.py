"""What a command's HTTP client knows of the outcome of a request that failed."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from klamm.cli.client import ServerClient, ServerUnavailable, answered_error
from klamm.cli.errors import MAY_BE_DONE, MAY_BE_REPEATED, run
from klamm.cluster.errors import KlammError, RequestTimedOut, StoreError


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        ("StoreError", None, StoreError),
        ("RequestTimedOut", "REQUEST_TIMED_OUT", RequestTimedOut),
        ("Gateway Timeout", None, KlammError),
    ],
)
@pytest.mark.parametrize(("definite", "retriable"), [(True, False), (False, True)])
def test_an_answered_error_keeps_its_facts(
    error: str, code: str | None, kind: type[KlammError], definite: bool, retriable: bool
) -> None:
    facts = {"definite": definite, "retriable": retriable}
    body = {"error": error, "code": code, "message": "m", "hint": "h", **facts}
    found = answered_error(json.dumps({"error": body}).encode())
    assert type(found) is kind
    assert (found.definite, found.retriable, found.hint) == (definite, retriable, "h")


def test_a_request_without_an_answer_may_have_been_carried_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ServerUnavailable) as raised:
            ServerClient(f"127.0.0.1:{server.getsockname()[1]}").post("/topics", {})
        thread.join()
    assert not raised.value.definite


def test_a_request_that_was_not_sent_was_not_carried_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ServerUnavailable) as raised:
        ServerClient(f"127.0.0.1:{port}").post("/topics", {})
    assert raised.value.definite


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (StoreError("no answer", definite=False), MAY_BE_DONE),
        (StoreError("no answer", definite=False, hint="look"), "look"),
        (StoreError("no answer", definite=False, retriable=True), MAY_BE_DONE),
        (StoreError("refused", retriable=True), MAY_BE_REPEATED),
        (StoreError("refused"), None),
    ],
)
def test_a_command_hints_at_changes_that_may_have_been_made(
    capsys: pytest.CaptureFixture[str], error: StoreError, hint: str | None
) -> None:
    def fail() -> int:
        raise error

    assert run(fail) == 1
    expected = f"error: {error.message}\n" + (f"hint: {hint}\n" if hint else "")
    assert capsys.readouterr().err == expected
