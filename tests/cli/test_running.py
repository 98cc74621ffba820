"""cli/running.py: nothing keeps a signal from ending the process."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from klamm.cli.running import ending_signals_raise

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
