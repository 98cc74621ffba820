"""What `klamm up` and `klamm controller run` have in common: parts that are opened and closed."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Self

from klamm.server.closing import Closing


class OpenedParts(ABC):
    """The parts of a running cluster or controller, from ``open`` to ``close``.

    ``_open`` opens them and adds to ``_stack`` what closes them, in reverse order.
    """

    def __init__(self) -> None:
        self.closing = Closing()
        self._stack = contextlib.ExitStack()

    @abstractmethod
    def _open(self) -> None: ...

    def open(self) -> None:
        """Open all parts. If that fails, close those that were opened and raise the error."""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the waits of all requests, then close all parts; idempotent."""
        self.closing.set()
        self._stack.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
