"""Supervisor that runs one command and kills it when standard input ends.

So the command dies with the parent process: a parent that dies, even by kill -9, closes its end of
the pipe, which no signal handler or exit hook could guarantee. This file is run as a script, by
path, and must not import klamm. SIGUSR1 freezes the command, SIGUSR2 lets it continue; the
supervisor itself must not be frozen, or it could not kill the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run ``command`` until it ends or standard input ends; return its exit status."""
    # The child inherits the descriptors: a lock must live as long as either process.
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
