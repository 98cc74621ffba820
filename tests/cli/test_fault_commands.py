"""What klamm disk and klamm network ask of a server's API, and what they print."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from klamm.cli.main import main
from tests.scripted_api import BROKER, STATUS, scripted_api

NO_FAULTS: Final[dict[str, Any]] = {"isolated": [], "faults": []}
FAULT: Final[dict[str, Any]] = {"isolated": [], "faults": ["a", "b"]}
SLOW: Final = {"broker": 1, "log_dir": "d0", "kind": "slow", "bytes_per_s": 500}
FULL: Final = {"kind": "enospc", "journal": True}
DISKS: Final = {"disk_faults": [SLOW, FULL]}
FAULTS: Final = "a\nb"
DISK_FAULTS: Final = "broker 1, log directory d0: slow, 500 bytes/s\njournal: enospc"


def links(between: Sequence[Sequence[object]] = (), **more: object) -> dict[str, Any]:
    """The body of a fault of links."""
    return {"from": [], "to": [], "between": list(between), "only": None, **more}


@pytest.mark.parametrize(
    ("words", "request_", "body"),
    [
        (
            "disk fail --broker 1 --log-dir d0 --kind fsync --after-bytes 7 --times 2",
            "POST /disks/fail",
            {
                **{"kind": "fsync", "broker": 1, "log_dir": "d0", "journal": False},
                **{"after_bytes": 7, "times": 2},
            },
        ),
        (
            "disk fail --journal --kind eio",
            "POST /disks/fail",
            {
                **{"kind": "eio", "broker": None, "log_dir": None, "journal": True},
                **{"after_bytes": 0, "times": None},
            },
        ),
        (
            "disk slow --broker 1 --bytes-per-s 500 --log-dir d0",
            "POST /disks/slow",
            {"broker": 1, "bytes_per_s": 500, "log_dir": "d0"},
        ),
        (
            "network cut 0 1,2 others",
            "POST /network/cut",
            links([[0], [1, 2], ["others"]]),
        ),
        (
            "network cut --one-way 1 2 --only control",
            "POST /network/cut",
            links(**{"from": [1], "to": [2], "only": "control"}),
        ),
        (
            "network clog 0 1 --only records",
            "POST /network/clog",
            links([[0], [1]], only="records"),
        ),
        (
            "network clog --one-way 0 1",
            "POST /network/clog",
            links(**{"from": [0], "to": [1]}),
        ),
        (
            "network delay --ms 20 0 1 --only control",
            "POST /network/delay",
            links([[0], [1]], ms=20, only="control"),
        ),
        (
            "network delay --ms 20 --one-way 0 1",
            "POST /network/delay",
            links(**{"from": [0], "to": [1], "ms": 20}),
        ),
        (
            "network degrade --loss 0.1 --repetition 0.2 --reordering 0.3",
            "POST /network/degrade",
            links(loss=0.1, repetition=0.2, reordering=0.3),
        ),
        (
            "network degrade --loss 0.5 --one-way 0 1 --only control",
            "POST /network/degrade",
            links(
                **{"from": [0], "to": [1], "only": "control"},
                **{"loss": 0.5, "repetition": 0.0, "reordering": 0.0},
            ),
        ),
        (
            "network fail-requests --api Fetch --client-id c --broker 2 --error NOT_COORDINATOR "
            "--times 3",
            "POST /network/fail-requests",
            {
                **{"api": "Fetch", "client": "c", "broker": 2, "error": "NOT_COORDINATOR"},
                **{"drop": False, "cut": False, "delay_ms": None, "times": 3},
            },
        ),
        *(
            (
                f"network fail-requests {option}",
                "POST /network/fail-requests",
                {
                    **{"api": None, "client": None, "broker": None, "error": None},
                    **{"drop": False, "cut": False, "delay_ms": None, "times": None},
                    **body,
                },
            )
            for option, body in (
                ("--drop", {"drop": True}),
                ("--cut", {"cut": True}),
                ("--delay-ms 9", {"delay_ms": 9}),
            )
        ),
    ],
)
def test_a_fault_command_sends_one_request_and_prints_the_faults(
    words: str, request_: str, body: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answer, printed = (DISKS, DISK_FAULTS) if words.startswith("disk") else (FAULT, FAULTS)
    with scripted_api({request_: answer}) as api:
        assert main([*words.split(), "--server", api.address]) == 0
        assert main([*words.split(), "--server", api.address, "--json"]) == 0
    assert api.asked == [(request_, body)] * 2
    out, err = capsys.readouterr()
    assert out.startswith(f"{printed}\n") and err == ""
    assert msgspec.json.decode(out.removeprefix(printed)) == answer


def status(**more: object) -> dict[str, Any]:
    return {**STATUS, **more}


def brokers(*states: str, reason: str | None = None) -> list[dict[str, Any]]:
    return [{**BROKER, "id": n, "state": state, "reason": reason} for n, state in enumerate(states)]


@pytest.mark.parametrize(
    ("before", "isolated", "states", "printed", "reconnected"),
    [
        ([], [2], ["running"] * 3, "broker 2 is isolated", []),
        ([], [0, 2], ["running"] * 3, "brokers 0, 2 are isolated", []),
        ([1], [2], ["running"] * 3, "broker 2 is isolated; broker 1 is reconnected", [1]),
        (
            [0, 1, 2],
            [2],
            ["running"] * 4,
            "broker 2 is isolated; brokers 0, 1 are reconnected",
            [0, 1],
        ),
        ([], [0], ["paused", "stopping"], "broker 0 is isolated", []),
        ([], [0], ["running", "starting"], "broker 0 is isolated", []),
        (
            [],
            [1],
            ["running", "killed", "running"],
            "broker 1 is isolated, but no running broker is cut off from another; "
            "not running: broker 1",
            [],
        ),
        (
            [],
            [0],
            ["running", "killed", "stopped"],
            "broker 0 is isolated, but no running broker is cut off from another; "
            "not running: brokers 1, 2",
            [],
        ),
    ],
)
def test_brokers_are_isolated(
    before: list[int],
    isolated: list[int],
    states: list[str],
    printed: str,
    reconnected: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = {
        "GET /status": status(isolated_brokers=before, brokers=brokers(*states)),
        "POST /network": {"isolated": isolated, "faults": []},
    }
    words = ["network", "isolate", *map(str, isolated)]
    with scripted_api(script) as api:
        assert main([*words, "--server", api.address]) == 0
        assert main([*words, "--server", api.address, "--json"]) == 0
    assert ("POST /network", {"isolated": isolated}) in api.asked
    text, _, values = capsys.readouterr().out.partition("\n")
    assert text == printed
    assert msgspec.json.decode(values) == {
        **{"isolated": isolated, "faults": []},
        "reconnected": reconnected,
    }


@pytest.mark.parametrize(
    ("isolated", "faults", "printed"),
    [
        ([], [], "the network has no faults\n"),
        ([1], [], "broker 1 is no longer isolated\n"),
        ([0, 2], ["cut: a"], "brokers 0, 2 are no longer isolated\nended: cut: a\n"),
    ],
)
def test_healing_the_network_says_which_faults_ended(
    isolated: list[int], faults: list[str], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = {
        "GET /status": status(isolated_brokers=isolated, network_faults=faults),
        "POST /network/heal": NO_FAULTS,
    }
    with scripted_api(script) as api:
        assert main(["network", "heal", "--server", api.address]) == 0
    assert api.asked == [(request, None) for request in script]
    assert capsys.readouterr() == (printed, "")


def test_healed_disks(capsys: pytest.CaptureFixture[str]) -> None:
    halted = [*brokers("running"), *brokers("running", "failed", reason="lost its disk")[1:]]
    script = {
        "GET /status": [
            status(disk_faults=[SLOW, FULL]),
            status(failed_log_dirs=[{"broker": 0, "log_dir": "d1"}], brokers=halted),
            status(),
        ],
        "POST /disks/heal": {"disk_faults": []},
    }
    with scripted_api(script) as api:
        assert main(["disk", "heal", "--server", api.address]) == 0
        assert capsys.readouterr().out == (
            "healed: broker 1, log directory d0: slow, 500 bytes/s\n"
            "healed: journal: enospc\n"
            "log directory d1 of broker 0 stays offline until the broker is restarted\n"
            "broker 1 is still failed: klamm broker start 1\n"
        )
        assert main(["disk", "heal", "--server", api.address]) == 0
    assert capsys.readouterr().out == "there were no disk faults\n"
    assert [request for request, _ in api.asked[:3]] == [
        *("GET /status", "POST /disks/heal", "GET /status"),
    ]


DOES_NOTHING = "error: one of --loss, --repetition and --reordering must be greater than 0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("network cut --one-way 0 1 2", "error: --one-way requires two groups\n"),
        ("network cut --one-way 0", "error: --one-way requires two groups\n"),
        (
            "network fail-requests --api Fetch",
            "error: give one of --error, --drop, --cut and --delay-ms\n",
        ),
        ("network fail-requests --drop --client-id ''", "error: the client id is empty\n"),
        ("network degrade", DOES_NOTHING),
        ("network degrade --loss 0 0 1", DOES_NOTHING),
        (
            "network fail-requests --drop --cut",
            "error: give one of --error, --drop, --cut and --delay-ms\n",
        ),
        ("network cut 0", "error: give at least two groups\nhint: as in 0 others\n"),
        ("network degrade --loss 1 0,1", "error: give at least two groups\n"),
        ("broker add 99999999999999", "error: Invalid value for '[N]': must be between"),
        ("disk fail --kind eio --log-dir d0", "error: --log-dir requires --broker\n"),
        ("disk fail --kind eio", "error: give either --broker or --journal\n"),
        (
            "disk fail --kind eio --journal --broker 1",
            "error: give either --broker or --journal\n"
            "hint: klamm disk fail --help lists its options\n",
        ),
        (
            "network cut 0 zookeeper --only records",
            "error: --only does not apply to links with zookeeper\n",
        ),
    ],
)
def test_options_that_do_not_go_together(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_api({}) as api:
        assert main([*shlex.split(words), "--server", api.address]) == 2
    assert capsys.readouterr().err.startswith(said)
