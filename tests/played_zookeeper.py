"""An ensemble whose servers are played: each only answers four-letter words, on a real port."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Self

import pytest

from klamm.zk.embedded import NOT_SERVING, EmbeddedZooKeeper
from klamm.zk.ensemble import SINGLE_SERVER, EmbeddedEnsemble

GARBAGE = "?"
"""A role of a server whose answers make no sense."""


class _Answers(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answer: Callable[[], str]) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Word)


class _Word(socketserver.BaseRequestHandler):
    server: _Answers

    def handle(self) -> None:
        if self.request.recv(4) == b"srvr":
            self.request.sendall(self.server.answer().encode())


class PlayedServer(EmbeddedZooKeeper):
    """A server with this role, "" if it has no quorum; ``calls`` are what was done to it."""

    def __init__(self, data_dir: Path, port: int, role: str) -> None:
        super().__init__(data_dir, port)
        self.role = role
        self.calls: list[str] = []
        self.starts: list[Callable[[], None]] = []
        """What the next starts do before they succeed; they may fail."""
        self._runs, self._is_crashed = True, False

    @property
    def is_running(self) -> bool:
        return self._runs

    @property
    def has_crashed(self) -> bool:
        return self._is_crashed

    def answer(self) -> str:
        if self.role == GARBAGE:
            return "not a word"
        return f"Zookeeper version: 3\nMode: {self.role}\n" if self.role else f"{NOT_SERVING}\n"

    def start(self) -> Self:
        self.calls.append("start")
        if self.starts:
            self.starts.pop(0)()
        self._runs, self._is_crashed = True, False
        return self

    def kill(self) -> None:
        self.calls.append("kill")
        self._runs = self._is_crashed = self.is_paused = False

    def crash(self) -> None:
        self.calls.append("crash")
        self._runs, self._is_crashed = False, True

    def pause(self) -> None:
        self.calls.append("pause")
        self.is_paused = True

    def resume(self) -> None:
        self.calls.append("resume")
        self.is_paused = False


def _answer(servers: dict[int, PlayedServer], server_id: int) -> str:
    return servers[server_id].answer()


@contextmanager
def played_ensemble(
    folder: Path, roles: Sequence[str]
) -> Iterator[tuple[EmbeddedEnsemble, dict[int, PlayedServer]]]:
    """An ensemble of running servers with these roles, from server 1 on."""
    ensemble = EmbeddedEnsemble(folder, len(roles))
    servers: dict[int, PlayedServer] = {}
    with ExitStack() as stack:
        for id_, role in enumerate(roles, 1):
            answers = stack.enter_context(_Answers(partial(_answer, servers, id_)))
            thread = threading.Thread(target=answers.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(answers.shutdown)
            servers[id_] = PlayedServer(folder / str(id_), answers.server_address[1], role)
        ensemble.servers.update(servers)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # The rows hold methods of the base class.
        played = {word: row._replace(do=methodcaller(word)) for word, row in SINGLE_SERVER.items()}
        patch.setattr("klamm.zk.ensemble.SINGLE_SERVER", played)
        yield ensemble, servers
