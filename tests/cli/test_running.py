"""cli/running.py: nothing keeps a signal from ending the process."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from klamm.cli.interrupted import print_interrupted
from klamm.cli.running import ending_signals_raise, own_log, stopped_by_signals, work_folder
from klamm.cluster.errors import EnvironmentProblem, Interrupted

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_that_a_library_swallowed_still_ends_the_block(
    number: signal.Signals, code: int
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as end, ending_signals_raise():
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), number)
        raise ConnectionError("as a library calls it")
    assert end.value.code == code
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_that_arrives_in_a_finalizer_ends_the_block_soon(
    number: signal.Signals, code: int
) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(number)

    before, waited = sys.unraisablehook, False
    with pytest.raises(SystemExit) as end, ending_signals_raise():
        Finalized()
        waited = not threading.Event().wait(10)
    assert (end.value.code, waited) == (code, False)
    assert sys.unraisablehook is before


def test_another_error_of_a_finalizer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finalized:
        def __del__(self) -> None:
            raise ValueError("of a library")

    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: reported.append(str(one.exc_value)))
    with ending_signals_raise():
        Finalized()
    assert reported == ["of a library"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_code_that_is_about_to_wait(number: signal.Signals) -> None:
    ends = pytest.raises(Interrupted) if number == signal.SIGINT else contextlib.nullcontext()
    with ends, stopped_by_signals("stopped") as stop:
        # Event.wait holds this lock whenever it does not sleep.
        with vars(stop)["_cond"]:
            signal.raise_signal(number)
        assert stop.wait(10)
    assert "signals" not in {thread.name for thread in threading.enumerate()}


def test_an_interrupted_command_may_have_been_carried_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_interrupted("stopped", hint="look", exit_code=143, as_json=True)
    out, err = capsys.readouterr()
    assert (out, json.loads(err)) == (
        "",
        {
            "error": {
                "error": "Interrupted",
                "code": None,
                "message": "stopped",
                "hint": "look",
                "definite": False,
                "retriable": False,
            },
            "exit_code": 143,
        },
    )
    print_interrupted("stopped", hint="look", as_json=False)
    assert capsys.readouterr() == ("", "stopped\nhint: look\n")


def test_what_libraries_warn_of_is_in_klamms_own_log(tmp_path: Path) -> None:
    with own_log(tmp_path):
        logging.getLogger("of.a.library").warning("look")
    logging.getLogger("of.a.library").warning("too late")
    (line,) = (tmp_path / "klamm.log").read_text().splitlines()
    assert line.endswith("look")


def test_a_file_is_no_work_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wanted = pytest.raises(EnvironmentProblem, match="file cannot be used: Not a directory")
    with wanted, work_folder(tmp_path / "file", "p"):
        pass
