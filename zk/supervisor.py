"""Supervisor that runs one command and kills it when standard input ends.

This ensures that the command dies with the parent process: when the parent dies, even by kill -9,
the system closes its end of the pipe, whereas signal handlers and exit hooks may not run. This file
is run as a script, by path, and must not import klamm. SIGUSR1 freezes the command, SIGUSR2 resumes
it, and SIGTERM is passed on to it. The supervisor itself must never be frozen, because it could not
kill the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run ``command`` until it exits or standard input ends, and return its exit status."""
    # The child inherits the descriptors: a lock must live as long as either process.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)
    signal.signal(signal.SIGUSR1, lambda *_: child.send_signal(signal.SIGSTOP))
    signal.signal(signal.SIGUSR2, lambda *_: child.send_signal(signal.SIGCONT))
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    threading.Thread(target=_kill_at_end_of_input, args=(child,), daemon=True).start()
    return child.wait()


def _kill_at_end_of_input(child: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1):
        pass
    child.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
