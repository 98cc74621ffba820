"""Runs one command and kills it when standard input ends: so a child dies with its parent.

It is run as a script, by path, and imports nothing of klamm. A parent that dies, even by kill -9,
closes its end of the pipe, which no signal handler or exit hook could promise. It must never read
the pipe for anything else. SIGUSR1 freezes the command, SIGUSR2 lets it continue: this process
itself must not be frozen, or it could not end the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run ``command`` to its end, or to the end of standard input. Returns its exit status."""
    # The child gets what this process was handed: a lock must live as long as either of them.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    signal.signal(signal.SIGUSR1, lambda *_: child.send_signal(signal.SIGSTOP))
    signal.signal(signal.SIGUSR2, lambda *_: child.send_signal(signal.SIGCONT))
    threading.Thread(target=_kill_at_end_of_input, args=(child,), daemon=True).start()
    return child.wait()


def _kill_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1):
        pass
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
