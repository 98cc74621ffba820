"""Calls a function on a Spark cluster's executors, for inputs that are made one after the other.

Each executor core has a thread in this process, which runs small jobs: an RDD of a few inputs in
one partition. So results arrive while later inputs are still made, and the inputs may be endless.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext

from klamm.cluster.errors import KlammError
from klamm.replay.spark import SMALL_ROWS, spark_session
from klamm.replay.spark_errors import interrupt_behind

T = TypeVar("T")
R = TypeVar("R")

_BATCH: Final = 4
"""Inputs of one job: the driver needs some 20 ms for each job."""


class TaskFailed(KlammError):
    """An executor's Python process ended, or the function raised an error there."""


def run_on_executors(
    function: Callable[[T], R], inputs: Iterable[T], master: str, memory_mb: int
) -> Iterator[tuple[T, R | TaskFailed]]:
    """Call ``function`` for each input on a cluster; yield inputs and results when ready.

    ``function``, inputs and results are pickled. Raises as ``spark_session`` does.
    """
    with spark_session(memory_mb=memory_mb, master=master, rows=SMALL_ROWS) as session:
        yield from _Calls(session.sparkContext, function, inputs).results()


class _Calls(Generic[T, R]):
    """The calls of one function, made by a thread for each core of the cluster."""

    def __init__(
        self, context: SparkContext, function: Callable[[T], R], inputs: Iterable[T]
    ) -> None:
        self._context = context
        self._function = function
        self._inputs = iter(inputs)
        self._lock = threading.Lock()
        self._results: queue.Queue[list[tuple[T, R | TaskFailed]] | BaseException | None]
        self._results = queue.Queue()
        self._is_over = False

    def results(self) -> Iterator[tuple[T, R | TaskFailed]]:
        """Yield inputs and results. If the caller stops early, the running jobs are cancelled."""
        threads = [
            InheritableThread(target=self._work, daemon=True)
            for _ in range(self._context.defaultParallelism)
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                found = self._results.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    running -= 1
                else:
                    yield from found
        finally:
            self._is_over = True
            if running:
                self._context.cancelAllJobs()

    def _work(self) -> None:
        try:
            while batch := self._next_batch():
                self._results.put(self._run(batch))
        except Exception as error:
            self._results.put(error)
        else:
            self._results.put(None)

    def _next_batch(self) -> list[T]:
        with self._lock:
            return [] if self._is_over else list(islice(self._inputs, _BATCH))

    def _run(self, batch: list[T]) -> list[tuple[T, R | TaskFailed]]:
        """Run a job for these inputs. If it fails, run each input as a separate job."""
        try:
            rdd = self._context.parallelize(batch, 1)
            return list(zip(batch, rdd.map(self._function).collect(), strict=True))
        except Py4JError as error:
            if self._is_over or interrupt_behind(error) is not None:
                raise
            if len(batch) > 1:
                return [pair for item in batch for pair in self._run([item])]
            return [(batch[0], TaskFailed(f"its process ended: {_first_line(error)}"))]


def _first_line(error: Py4JError) -> str:
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by:")]
    return (causes or str(error).splitlines() or [type(error).__name__])[-1].strip()
