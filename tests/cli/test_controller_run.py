"""`klamm controller run`: its options, what it prints and how it ends; its controller is played."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from klamm.cli import controller
from klamm.cli.main import main
from klamm.cluster.errors import KlammError
from klamm.cluster.types import EndPoint
from klamm.server import controller_server
from klamm.server.controller_server import ControllerServerConfig, KnownController
from klamm.server.kafka_cluster import OwnReplicas

REQUIRED = ("--zookeeper", "zk:1/k", "--listener", "h:9099", "--yes")


@pytest.fixture
def checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., ControllerServerConfig]:
    """The configuration that options make."""
    monkeypatch.setenv("KLAMM_DATA_DIR", str(tmp_path))
    seen: list[ControllerServerConfig] = []
    monkeypatch.setattr(controller, "_run", seen.append)

    def checked(*options: str) -> ControllerServerConfig:
        assert main(["controller", "run", *REQUIRED, *options]) == 0
        return seen.pop()

    return checked


def configured(folder: Path, **changes: Any) -> ControllerServerConfig:
    given: dict[str, Any] = {
        "zookeeper": "zk:1/k",
        "listeners": (EndPoint("h", 9099),),
        "broker_id": 1000,
        "data_dir": folder / "controller-1000",
        "session_timeout_ms": 6000,
    }
    return ControllerServerConfig(**{**given, **changes})


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ("", {}),
        ("--rack r", {"rack": "r"}),
        ("--take-over", {"takes_over": True}),
        ("--data-dir d", {"data_dir": Path("d")}),
        ("--session-timeout-ms 9000", {"session_timeout_ms": 9000}),
        (
            "--listener OTHER://g:1",
            {"listeners": (EndPoint("h", 9099), EndPoint("g", 1, "OTHER"))},
        ),
        ("--config num.partitions=4", {"config": {"num.partitions": "4"}}),
    ],
)
def test_each_option_has_its_place(
    checked: Callable[..., ControllerServerConfig],
    tmp_path: Path,
    options: str,
    changes: dict[str, Any],
) -> None:
    assert checked(*options.split()) == configured(tmp_path, **changes)


def test_the_id_names_the_directory(
    checked: Callable[..., ControllerServerConfig], tmp_path: Path
) -> None:
    folder = tmp_path / "controller-7"
    assert checked("--id", "7") == configured(tmp_path, broker_id=7, data_dir=folder)


class PlayedController:
    """Shows one controller after the other; then a signal comes, or a thread fails."""

    def __init__(self, config: ControllerServerConfig, *known: KnownController | None) -> None:
        self.config = config
        self.known = [*known]
        self.replicas: list[OwnReplicas] = []
        self.at_end: Callable[[], None] = lambda: signal.raise_signal(signal.SIGTERM)

    def known_controller(self) -> KnownController | None:
        if len(self.known) == 1:
            self.at_end()
            return self.known[0]
        return self.known.pop(0)

    def own_replicas(self) -> list[OwnReplicas]:
        return self.replicas


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Runs a played controller, after which ``successor`` is elected; the exit code."""
    monkeypatch.setattr(controller, "_POLL_S", 0.001)

    def run(
        played: PlayedController,
        successor: KnownController | None = None,
        failure: KlammError | None = None,
    ) -> int:
        @contextmanager
        def server(_: object, stop: object, fail: Callable[..., None]) -> Iterator[Any]:
            if failure is not None:
                played.at_end = lambda: fail(failure)
            yield played

        monkeypatch.setattr(controller_server, "ControllerServer", server)
        monkeypatch.setattr(controller_server, "await_successor", lambda _: successor)
        return main(["controller", "run", *REQUIRED, "--data-dir", str(tmp_path)])

    return run


def begun(folder: Path) -> str:
    return f"controller 1000 is registered, listening on h:9099; journal and logs: {folder}\n"


def test_every_change_of_the_controller_is_printed(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafkas, own = KnownController(2, 7), KnownController(1000, 8)
    config = configured(tmp_path, data_dir=tmp_path)
    played = PlayedController(config, None, kafkas, kafkas, None, kafkas, own, own)
    assert run(played, successor=KnownController(1, 9)) == 0
    assert capsys.readouterr() == (
        begun(tmp_path) + "broker 2 (a Kafka broker) is the controller, epoch 7\n"
        "broker 1000 (this process) is the controller, epoch 8\n"
        "broker 1 is the controller now, epoch 9\n",
        "",
    )


@pytest.mark.parametrize("own", [True, False])
def test_the_end_of_a_controller_without_a_successor(
    own: bool, run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = KnownController(1000 if own else 2, 8)
    run(PlayedController(configured(tmp_path, data_dir=tmp_path), known))
    *_, last = capsys.readouterr().out.splitlines()
    assert (last == "no broker became the controller") is own


def test_ctrl_c_ends_it_with_130(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = PlayedController(configured(tmp_path, data_dir=tmp_path), None)
    played.at_end = lambda: signal.raise_signal(signal.SIGINT)
    assert run(played) == 130
    assert capsys.readouterr().err == "klamm controller run was interrupted\n"


def test_a_failure_ends_the_controller_with_one_line(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = PlayedController(configured(tmp_path, data_dir=tmp_path), KnownController(1000, 8))
    assert run(played, failure=KlammError("the journal is gone")) == 1
    out, err = capsys.readouterr()
    assert "is the controller now" not in out and "no broker became" not in out
    assert err == "error: the journal is gone\n"


def test_replicas_on_the_controller_are_warned_of(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = PlayedController(configured(tmp_path, data_dir=tmp_path), None, None)
    played.replicas = [OwnReplicas("t", 1, 2, 0)]
    run(played)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert [line.partition(": ")[2].partition(":")[0] for line in said] == [
        "broker 1000 is this controller, which stores nothing",
        "broker 1000 ends, and stored nothing",
    ]
