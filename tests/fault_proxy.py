"""A TCP proxy on loopback before a ZooKeeper server, that breaks connections to order.

It knows where an answer of ZooKeeper begins and ends, so that a given one can
be lost; it changes nothing in what it lets through, and never speaks for the server. Each direction
of a connection has a thread; every method may be called from any other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from io import BufferedReader
from typing import Final, Self

HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 256 * 1024
_CONNECT_TIMEOUT_S: Final = 5.0
_FRAME_HEAD: Final = struct.Struct("!ii")
# xids of what the server sends without being asked: watch events, and answers to pings.
_NOT_REPLIES: Final = (-1, -2)


class FaultProxy:
    """``with FaultProxy(server_port) as proxy``: connect to ``proxy.address`` instead.

    A connection is *cut* when both of its sides are closed; a client may connect again at once,
    unless the proxy is ``down``.
    """

    def __init__(self, server_port: int, server_host: str = HOST) -> None:
        self._server = (server_host, server_port)
        self._changed = threading.Condition()
        self._pairs: set[_Pair] = set()
        self._threads: list[threading.Thread] = []
        self._down = False
        self._swallows = False
        self._swallowed: list[socket.socket] = []
        self._paused = False
        self._replies_before_loss: int | None = None
        self._bytes_before_loss: int | None = None
        self._lost = threading.Event()
        self._first_swallowed = threading.Event()
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self._closed = False
        self._accepting = self._spawn(self._accept)

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"{HOST}:{self.port}"

    def cut(self) -> None:
        """Cut every connection."""
        with self._changed:
            for pair in self._pairs:
                pair.cut()
            self._pairs.clear()
            self._changed.notify_all()

    def down(self) -> None:
        """Cut every connection, and each new one too, until ``up``."""
        with self._changed:
            self._down = True
            self.cut()

    def black_hole(self) -> threading.Event:
        """Cut every connection, and accept new ones without ever answering, until ``up``; those
        stay dead after it. Returns an event that is set when one was accepted."""
        with self._changed:
            self._swallows, self._first_swallowed = True, threading.Event()
            self.cut()
            return self._first_swallowed

    def up(self) -> None:
        """Accept connections again."""
        with self._changed:
            self._down = self._swallows = False

    def pause(self) -> None:
        """Let nothing through, either way, until ``resume``; connections stay open."""
        with self._changed:
            self._paused = True

    def resume(self) -> None:
        """Go on where ``pause`` stopped: nothing was lost."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def lose_reply(self, replies_before: int = 0) -> threading.Event:
        """Let ``replies_before`` answers through, then cut instead of delivering the next.

        The server has done what it answers. Watch events and answers to pings do not count.
        Returns an event that is set when it has happened.
        """
        with self._changed:
            self._replies_before_loss = replies_before
            self._lost = threading.Event()
            return self._lost

    def lose_reply_after_bytes(self, byte_count: int) -> threading.Event:
        """Cut once ``byte_count`` more bytes went to a client, in the middle of an answer or not.

        Returns an event that is set when it has happened.
        """
        with self._changed:
            self._bytes_before_loss = byte_count
            self._lost = threading.Event()
            return self._lost

    def close(self) -> None:
        """Cut everything, and free it. May be called twice."""
        with self._changed:
            self._closed = True
            self.down()
        with contextlib.suppress(OSError):
            # A plain close would leave the thread in accept.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for client in self._swallowed:
            client.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(
            target=work, args=arguments, name="klamm-fault-proxy", daemon=True
        )
        thread.start()
        return thread

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._swallows:
                    self._swallowed.append(client)
                    self._first_swallowed.set()
                    continue
            try:
                server = socket.create_connection(self._server, _CONNECT_TIMEOUT_S)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = _Pair(client, server)
            with self._changed:
                if self._down:
                    pair.cut()
                else:
                    self._pairs.add(pair)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                self._threads.append(self._spawn(self._carry_requests, pair))
                self._threads.append(self._spawn(self._carry_replies, pair))

    def _carry_requests(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            while data := pair.client.recv(_CHUNK_BYTES):
                if not self._may_pass(pair):
                    break
                pair.server.sendall(data)
        self._end(pair)

    def _carry_replies(self, pair: _Pair) -> None:
        lost = False
        with contextlib.suppress(OSError), pair.server.makefile("rb") as replies:
            is_reply = False  # the first frame answers the handshake
            while not lost and (frame := _read_frame(replies)) and self._may_pass(pair):
                keep = self._bytes_to_keep(frame, is_reply)
                pair.client.sendall(frame[:keep])
                lost = keep < len(frame)
                is_reply = True
        self._end(pair)
        if lost:
            self._lost.set()

    def _may_pass(self, pair: _Pair) -> bool:
        """Wait for the end of a pause. False if the connection was cut."""
        with self._changed:
            self._changed.wait_for(lambda: not self._paused or pair not in self._pairs)
            return pair in self._pairs

    def _bytes_to_keep(self, frame: bytes, is_reply: bool) -> int:
        with self._changed:
            if is_reply and _FRAME_HEAD.unpack_from(frame)[1] not in _NOT_REPLIES:
                if self._replies_before_loss == 0:
                    self._replies_before_loss = None
                    return 0
                if self._replies_before_loss is not None:
                    self._replies_before_loss -= 1
            if self._bytes_before_loss is not None:
                keep = min(len(frame), self._bytes_before_loss)
                self._bytes_before_loss -= keep
                if keep < len(frame):
                    self._bytes_before_loss = None
                return keep
            return len(frame)

    def _end(self, pair: _Pair) -> None:
        """One direction is at its end: so is the connection."""
        with self._changed:
            self._pairs.discard(pair)
            pair.cut()
            pair.carriers -= 1
            if pair.carriers == 0:
                pair.close()
            self._changed.notify_all()


class _Pair:
    """The two sockets of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.carriers = 2
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cut(self) -> None:
        """End both connections; whoever waits for their data wakes up."""
        for each in (self.client, self.server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free both sockets."""
        self.client.close()
        self.server.close()


def _read_frame(replies: BufferedReader) -> bytes:
    """The next frame, length and all; empty at the end of the stream."""
    head = replies.read(_FRAME_HEAD.size)
    if len(head) < _FRAME_HEAD.size:
        return b""
    length, _ = _FRAME_HEAD.unpack(head)
    return head + replies.read(length - 4)
