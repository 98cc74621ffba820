"""Times one job of the controller, from the action to the last thing that came of it.

It looks from outside only: at what the brokers answered, what ZooKeeper stamped on the state
znodes, and /proc. It must not know one job from another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.kafka.controller_log import election_times_s
from bench.kafka.cpu import host_cpu_s, process_cpu_s, resident_mb, thread_cpu_s
from bench.kafka.peer import Peer
from bench.kafka.scenarios import Partition
from bench.kafka.zookeeper import Gone, State
from klamm.cluster.errors import EnvironmentProblem

SAMPLE_INTERVAL_S = 0.2
REST_BEFORE_S = 1.0
QUIET_S = 2.0
# A controller that does nothing still has timers.
QUIET_CPU_SHARE = 0.2
LIMIT_S = 600.0
# ZooKeeper stamps whole milliseconds.
STAMP_SLACK_S = 0.05
MIN_THREAD_CPU_S = 0.05
MAX_BAD_SHOWN = 3
# Not every product's requests have a size.
_COUNTS = ("requests", "partitions", "bytes")

Stats = dict[str, Any]
States = Mapping[Partition, State | None]


class Started(NamedTuple):
    """An action was sent; ``answered_at_s`` if it has an answer that somebody waits for."""

    at_s: float
    answered_at_s: float | None = None
    details: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Job:
    """What to do and how to know that it is done and right.

    ``is_sent``: all requests that must go out have been answered. ``gone``: the znode that asks for
    the job; the controller removes it. ``is_right``: whether a partition is as it must be; None
    when the states are not worth a look. ``n``: partitions touched, else the states written.
    ``catch_up_held``: replicas wait outside the ISR, so pending AlterIsr are no sign of work.
    """

    step: str
    act: Callable[[], Started]
    is_sent: Callable[[Stats], bool] = lambda stats: True
    gone: Gone | None = None
    is_right: Callable[[Partition, State], bool] | None = None
    n: int | None = None
    catch_up_held: bool = False


class _Sample(NamedTuple):
    at_s: float
    cpu_s: dict[str, float]
    threads_cpu_s: dict[str, float]


@dataclass(slots=True)
class _Watched:
    """What was seen from the action to the quiet after it."""

    samples: list[_Sample]
    stats: Stats = field(default_factory=dict)
    timed_out: bool = False

    @property
    def last_answer_s(self) -> float:
        return max(float(count["last"]) for count in self.stats["requests"].values())


def measure(peer: Peer, job: Job) -> dict[str, Any]:
    """Do a job and return its figures (README.md names them)."""
    time.sleep(REST_BEFORE_S)
    peer.brokers.ask("reset")
    log = peer.controller.controller_log
    offset = log.stat().st_size
    before = peer.client.counters()
    watched = _Watched([_sample(peer)])
    started = job.act()
    if job.gone is not None:
        job.gone.arm()
    _watch(peer, job, started, watched)
    after = peer.client.counters()
    result = _identity(peer, job, started)
    states = peer.client.read_states(peer.partitions) if job.is_right else {}
    ends = _ends(job, started, watched, states, result)
    if not ends:
        raise EnvironmentProblem(f"{job.step}: nothing came of it", hint=f"see {log}")
    n = result.get("states_written", 0) if job.n is None else job.n
    wall_s = max(ends) - started.at_s
    result |= {"n": n, "wall_s": round(wall_s, 3), "per_s": round(n / wall_s, 1)}
    result |= _cpu(watched.samples, max(ends))
    result |= {
        "zookeeper_packets": int(_grown("zk_packets_received", before, after)),
        "zookeeper_fsyncs": int(_grown("zk_cnt_fsynctime", before, after)),
        "zookeeper_fsync_ms": int(_grown("zk_sum_fsynctime", before, after)),
        "requests": {
            api: {name: count[name] for name in _COUNTS if name in count}
            for api, count in watched.stats["requests"].items()
            if count["requests"]
        },
        "errors": watched.stats["errors"],
        "timed_out": watched.timed_out,
        "resident_controller_mb": resident_mb(peer.controller.pid),
    }
    if "store" in watched.stats:
        result["store"] = watched.stats["store"]
    result |= election_times_s(log, offset, started.at_s)
    return result | dict(started.details) | peer.applied()


def _watch(peer: Peer, job: Job, started: Started, watched: _Watched) -> None:
    zxid, moved_at_s = peer.client.zxid(), time.time()
    while True:
        time.sleep(SAMPLE_INTERVAL_S)
        watched.samples.append(_sample(peer))
        watched.stats = peer.brokers.ask("stats")
        now_s = time.time()
        new_zxid = peer.client.zxid()
        if new_zxid != zxid:
            zxid, moved_at_s = new_zxid, now_s
        done = job.is_sent(watched.stats) and (job.gone is None or job.gone.at_s is not None)
        settled = job.catch_up_held or watched.stats["pending_isr"] == 0
        quiet = now_s - max(moved_at_s, watched.last_answer_s, started.at_s) > QUIET_S
        if done and settled and quiet and _is_idle(watched.samples):
            return
        if now_s - started.at_s > LIMIT_S:
            watched.timed_out = True
            return


def _is_idle(samples: Sequence[_Sample]) -> bool:
    last = samples[-1]
    early = [sample for sample in samples if sample.at_s <= last.at_s - QUIET_S]
    if not early:
        return False
    used_s = _controller_cpu_s(last) - _controller_cpu_s(early[-1])
    return used_s < QUIET_CPU_SHARE * (last.at_s - early[-1].at_s)


def _controller_cpu_s(sample: _Sample) -> float:
    """CPU seconds without klamm's brokers, which keep asking followers that do not fetch."""
    return sample.cpu_s["controller"] - sample.threads_cpu_s.get("brokers", 0.0)


def _identity(peer: Peer, job: Job, started: Started) -> dict[str, Any]:
    return {
        "product": peer.product,
        "step": job.step,
        "started_at_s": round(started.at_s, 4),
        "at": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started.at_s)),
        "partitions": peer.options.partitions,
        "partitions_per_topic": peer.options.partitions_per_topic,
        "brokers": peer.options.brokers,
        "cluster_partitions": len(peer.partitions),
        "load_1_min": round(os.getloadavg()[0], 2),
    }


def _ends(
    job: Job, started: Started, watched: _Watched, states: States, result: dict[str, Any]
) -> list[float]:
    """The last times of each kind, which also go into the result."""
    ends = {}
    if watched.last_answer_s:
        ends["last_request_s"] = watched.last_answer_s
    if job.gone is not None and job.gone.at_s is not None:
        ends["gone_s"] = job.gone.at_s
    if started.answered_at_s is not None:
        ends["answer_s"] = started.answered_at_s
    if job.is_right is not None:
        since_s = started.at_s - STAMP_SLACK_S
        stamps = [state.written_at_s for state in states.values() if state is not None]
        written = [stamp for stamp in stamps if stamp >= since_s]
        result["states_written"] = len(written)
        if written:
            ends["last_state_s"] = max(written)
        bad = [
            f"{partition.topic}-{partition.partition}: {state and state.value}"
            for partition, state in states.items()
            if state is None or not job.is_right(partition, state)
        ]
        result |= {"verified": not bad, "bad": bad[:MAX_BAD_SHOWN]}
    result |= {name: round(at_s - started.at_s, 3) for name, at_s in ends.items()}
    return list(ends.values())


def _sample(peer: Peer) -> _Sample:
    cpu_s = {name: process_cpu_s(pid) for name, pid in peer.pids().items()}
    cpu_s |= {"bench": sum(os.times()[:2]), "host": host_cpu_s()}
    return _Sample(time.time(), cpu_s, thread_cpu_s(peer.controller.pid))


def _cpu(samples: Sequence[_Sample], end_s: float) -> dict[str, Any]:
    """CPU seconds from before the action to the first sample after the end."""
    first = samples[0]
    last = next((sample for sample in samples[1:] if sample.at_s >= end_s), samples[-1])
    used = {name: last.cpu_s[name] - first.cpu_s[name] for name in last.cpu_s}
    others = used.pop("host") - sum(used.values())
    threads = {
        name: value - first.threads_cpu_s.get(name, 0.0)
        for name, value in last.threads_cpu_s.items()
    }
    return {
        **{f"cpu_{name}_s": round(value, 3) for name, value in used.items()},
        "cpu_others_s": round(max(0.0, others), 2),
        "cpu_window_s": round(last.at_s - first.at_s, 2),
        "cpu_threads_s": {
            name: round(value, 2) for name, value in threads.items() if value >= MIN_THREAD_CPU_S
        },
    }


def _grown(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    return after.get(name, 0.0) - before.get(name, 0.0)
