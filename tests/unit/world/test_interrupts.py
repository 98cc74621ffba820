"""Ctrl-C in sections that it must not interrupt, in worker processes, and in temporary folders."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
from itertools import count
from pathlib import Path

import pytest

from klamm.interrupts import interrupts_deferred, starting_workers, temporary_folder

pytestmark = pytest.mark.usefixtures("usual_handler")

INTERRUPTS_ITSELF = "import signal; signal.raise_signal(signal.SIGINT); print('not interrupted')"


@pytest.fixture
def usual_handler() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_the_section() -> None:
    done = False
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        interrupt()
        done = True
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_another_termination_signal_waits_for_the_end_too(number: signal.Signals) -> None:
    received: list[int] = []
    before = signal.signal(number, lambda number, _: received.append(number))
    try:
        with interrupts_deferred():
            signal.raise_signal(number)
            assert received == []
        assert received == [number]
    finally:
        signal.signal(number, before)


def test_an_interrupt_is_not_lost_if_the_section_fails() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        interrupt()
        raise ValueError("the interrupted process tree ends")


def test_an_interrupt_that_another_thread_receives_waits_too() -> None:
    begun, done = threading.Event(), False

    def interrupt_then() -> None:
        begun.wait()
        interrupt()

    thread = threading.Thread(target=interrupt_then)
    thread.start()
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        begun.set()
        thread.join()
        done = True
    assert done


def test_without_an_interrupt_nothing_is_raised_and_a_later_one_is_not_deferred() -> None:
    with interrupts_deferred():
        pass
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_a_thread_that_gets_no_signals_defers_none() -> None:
    found: list[object] = []

    def look() -> None:
        with interrupts_deferred():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_a_worker_ignores_interrupts_from_its_first_moment() -> None:
    command = [sys.executable, "-c", INTERRUPTS_ITSELF]
    with starting_workers():
        worker = subprocess.run(command, capture_output=True, text=True)
    assert (worker.stdout, worker.stderr) == ("not interrupted\n", "")


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
def test_no_interrupt_leaves_a_temporary_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    moment = next(moment for moment in count() if not is_interrupted_at(moment, tmp_path))
    assert moment > 50


def is_interrupted_at(moment: int, place: Path) -> bool:
    """Press Ctrl-C at the given call of a function while a temporary folder is made and removed.

    Return False if there are fewer calls."""
    calls = count()

    def count_calls(*_: object) -> None:
        if next(calls) == moment:
            interrupt()

    try:
        sys.setprofile(count_calls)
        with temporary_folder("klamm-") as folder:
            assert list(place.iterdir()) == [folder]
        sys.setprofile(None)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        assert list(place.iterdir()) == []
    return False
