"""Random actions on a running cluster, each by one request of the HTTP API.

Drawn from one seeded generator. The possible actions depend on the state of the cluster, so a seed
repeats the draws but not the run. Records of the load topics must survive all actions: unclean
elections and deletions are only for the other topics, and a broker loses its unflushed data only
while every other replica is in its ISR.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from bench.chaos_checker import Checker
from bench.chaos_judge import Disturbance, what_is_not_converged
from bench.live_cluster import NO_ANSWER, Answer, Up
from klamm.lab.actions.action import ENDED
from klamm.server.broker_operations import FAILED_TO_START, NOT_STARTED
from klamm.zk.waiting import wait_until

THROTTLE = "leader.replication.throttled.rate"
LOG_DIRS = ("d0", "d1")
CHURN = "churn-"
MAX_CHURN_TOPICS = 6
AT_ONCE = 3
ZOOKEEPER_KILL_EVERY_S = 45.0
"""klamm up gives up on a ZooKeeper that ends four times, each within 30 s of its start."""
QUIET_TIMEOUT_S = 30.0
DUPLICATE = re.compile(r"Duplicate log directories for (\S+) are found")
RUNNING = ("running",)
REPAIRS = {"resume": ("paused",), "start": (*ENDED, FAILED_TO_START, NOT_STARTED)}
"""Actions that help a broker, and its states in which they are possible; all others impair it."""


class Entry(NamedTuple):
    """One action and its relative frequency."""

    name: str
    weight: int
    act: Callable[[], str | None]


class Chaos:
    """Draws and runs actions until it is closed. ``log``: one line per finished action.

    ``refused`` counts answers of 4xx and 503/504 by action: during chaos they are expected.
    """

    def __init__(
        self,
        up: Up,
        checker: Checker,
        seed: int,
        brokers: int,
        load_topics: list[str],
        session_timeout_s: float,
        on_action: Callable[[str], None],
    ) -> None:
        assert up.api is not None
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.disturbances: list[Disturbance] = []
        self._up, self._api, self._checker = up, up.api, checker
        self._random = random.Random(seed)
        self._brokers = tuple(range(brokers))
        self._load_topics = load_topics
        self._session_s = session_timeout_s
        self._on_action = on_action
        self._busy: set[int] = set()
        self._paused: dict[int, float] = {}
        self._failed_dirs: set[int] = set()
        self._last_failed_dir: dict[int, str] = {}
        self._isolated: tuple[int, ...] = ()
        self._churn_number = 0
        self._last_zookeeper_kill_s = -ZOOKEEPER_KILL_EVERY_S
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._quiet = threading.Event()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="chaos")
        self._running: set[Future[None]] = set()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def start(self) -> None:
        """Start drawing actions."""
        self._thread.start()

    def close(self) -> None:
        """Stop; returns when all running actions have ended."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown()

    # -- drawing

    def _entries(self) -> list[Entry]:
        return [
            Entry("kill", 6, partial(self._on_broker, "kill")),
            Entry("start", 14, partial(self._on_broker, "start")),
            Entry("stop", 4, partial(self._on_broker, "stop")),
            Entry("pause", 5, partial(self._on_broker, "pause")),
            Entry("resume", 8, partial(self._on_broker, "resume")),
            Entry("power off", 2, self._power_off),
            Entry("move controller", 4, self._move_controller),
            Entry("isolate", 3, self._isolate),
            Entry("heal", 4, self._heal),
            Entry("create topic", 5, self._create_topic),
            Entry("delete topic", 4, self._delete_topic),
            Entry("add partitions", 3, self._add_partitions),
            Entry("reassign", 8, self._reassign),
            Entry("cancel reassignment", 3, self._cancel),
            Entry("preferred election", 4, self._elect_preferred),
            Entry("unclean election", 2, self._elect_unclean),
            Entry("topic config", 3, self._topic_config),
            Entry("broker config", 2, self._broker_config),
            Entry("fail log dir", 2, self._fail_log_dir),
            Entry("pause ZooKeeper", 2, self._pause_zookeeper),
            Entry("kill ZooKeeper", 2, self._kill_zookeeper),
        ]

    def _run(self) -> None:
        entries = self._entries()
        weights = [entry.weight for entry in entries]
        while not self._closed.wait(self._random.uniform(0.2, 1.6)):
            entry = self._random.choices(entries, weights)[0]
            self._running = {one for one in self._running if not one.done()}
            if len(self._running) < AT_ONCE and not self._quiet.is_set():
                self._running.add(self._pool.submit(self._do, entry))

    def _do(self, entry: Entry) -> None:
        try:
            text = entry.act()
        except Exception as error:
            text = f"{entry.name}: the harness failed: {error!r}"
            self._checker.judge.report("the harness failed", f"{entry.name}: {error!r}")
        if text is not None:
            self.done[entry.name] += 1
            self._on_action(f"{entry.name}: {text}")

    def _answered(self, name: str, answer: Answer) -> str:
        if answer.is_ok:
            return ""
        self.refused[name] += 1
        status = "no answer" if answer.status == NO_ANSWER else str(answer.status)
        return f" -> {status} {answer.message}"

    # -- brokers

    def states(self) -> dict[int, str]:
        """Return the brokers' states from /status; empty without an answer."""
        answer = self._api.get("/status", 20.0)
        if not answer.is_ok:
            return {}
        return {one["id"]: one["state"] for one in answer.body["brokers"]}

    def _take(self, wanted: Collection[str], *, impairs: bool) -> int | None:
        """Draw a broker in a wanted state that no other action uses; None if there is none.

        With ``impairs`` at most half of all brokers are down or paused afterwards.
        """
        states = self.states()
        with self._lock:
            well = sum(
                state == "running" and id_ not in self._busy for id_, state in states.items()
            )
            if impairs and well <= (len(self._brokers) + 1) // 2:
                return None
            idle = sorted(states.keys() - self._busy)
            fit = [id_ for id_ in idle if states[id_] in wanted]
            if not fit:
                return None
            broker = self._random.choice(fit)
            self._busy.add(broker)
            return broker

    def _on_broker(self, name: str) -> str | None:
        if (broker := self._take(REPAIRS.get(name, RUNNING), impairs=name not in REPAIRS)) is None:
            return None
        try:
            return f"broker {broker}{self._answered(name, self._post(name, broker))}"
        finally:
            with self._lock:
                self._busy.discard(broker)

    def _post(self, name: str, broker: int) -> Answer:
        begun_s = time.monotonic()
        answer = self._api.post(f"/brokers/{broker}/{name}")
        if answer.is_ok:
            self._note(name, broker, begun_s)
        else:
            self._remove_stale_log(broker, answer)
        return answer

    def _remove_stale_log(self, broker: int, answer: Answer) -> None:
        """If a partition has two logs, remove that in the directory that failed, as Kafka advises.

        It left the broker while the directory was offline, and came back to the other one.
        """
        duplicate = DUPLICATE.search(answer.message)
        failed = self._last_failed_dir.get(broker)
        if duplicate and failed:
            shutil.rmtree(self._up.data_dir / "brokers" / str(broker) / failed / duplicate[1])
            self._on_action(f"removed by hand: {failed}/{duplicate[1]} of broker {broker}")

    def _note(self, name: str, broker: int, begun_s: float) -> None:
        with self._lock:
            if name == "pause":
                self._paused[broker] = begun_s
            elif broker in self._paused:
                at_s = self._paused.pop(broker)
                self.disturbances.append(Disturbance("paused", broker, at_s, time.monotonic()))
            if name == "start":
                self._failed_dirs.discard(broker)
            if name in ("kill", "stop"):
                self.disturbances.append(Disturbance(name, broker, begun_s, time.monotonic()))

    def open_disturbances(self) -> list[Disturbance]:
        """Return all disturbances; open ones end now."""
        with self._lock:
            now_s = time.monotonic()
            lasting = [Disturbance("paused", id_, at, now_s) for id_, at in self._paused.items()]
            return [*self.disturbances, *lasting]

    def _power_off(self) -> str | None:
        """Power off a broker, only while the cluster is healthy, and wait until it is again.

        An active controller stays off until the next one has read that it is gone: otherwise no
        controller knows that its records are missing, and Kafka 2.8.2 loses them, too.
        """
        states = self.states()
        all_run = states and all(state == "running" for state in states.values())
        if not all_run or self._isolated or self._failed_dirs or self._quiet.is_set():
            return None
        self._quiet.set()
        try:
            others = [one for one in self._running if not one.done()]
            if len(others) > 1 or not self._is_whole():
                return None
            broker = self._random.choice(self._brokers)
            answer = self._api.post(f"/brokers/{broker}/power-off")
            if not answer.is_ok:
                return f"broker {broker}{self._answered('power off', answer)}"
            self._note("kill", broker, time.monotonic())
            if not wait_until(lambda: self._is_known_to_be_gone(broker), QUIET_TIMEOUT_S):
                return f"broker {broker}, not noticed by a controller"
            self._api.post(f"/brokers/{broker}/start")
            is_back = wait_until(self._is_whole, QUIET_TIMEOUT_S)
            return f"broker {broker}, {'back' if is_back else 'not back'} in every ISR"
        finally:
            self._quiet.clear()

    def _is_known_to_be_gone(self, broker: int) -> bool:
        """Whether there is a controller, other than this broker's, that does not count on it."""
        status = self._api.get("/status")
        controller = status.body["controller"] if status.is_ok else None
        return bool(
            controller
            and controller["is_active"]
            and controller["controller_id"] != broker
            and controller["live_brokers"]  # none while it is still reading
            and str(broker) not in controller["live_brokers"]
        )

    def _is_whole(self) -> bool:
        """Whether every replica of the load topics is in its ISR."""
        sweep = self._checker.sweep()
        if sweep is None:
            return False
        load = {name: t for name, t in sweep.topics_before.items() if name in self._load_topics}
        return not what_is_not_converged(sweep._replace(topics_before=load), self._brokers)

    def _fail_log_dir(self) -> str | None:
        broker = self._take(RUNNING, impairs=True)
        if broker is None:
            return None
        try:
            if broker in self._failed_dirs:
                return None
            path = self._random.choice(LOG_DIRS)
            answer = self._api.post(f"/brokers/{broker}/fail-log-dir", {"log_dir": path})
            if answer.is_ok:
                self._failed_dirs.add(broker)
                self._last_failed_dir[broker] = path
            return f"{path} of broker {broker}{self._answered('fail log dir', answer)}"
        finally:
            with self._lock:
                self._busy.discard(broker)

    # -- controller, network, ZooKeeper

    def _move_controller(self) -> str:
        answer = self._api.post("/controller/move")
        if not answer.is_ok:
            return f"moved{self._answered('move controller', answer)}"
        return f"{answer.body['from']['id']} to {answer.body['to']['id']}"

    def _isolate(self) -> str:
        self._isolated = tuple(sorted(self._random.sample(self._brokers, 1)))
        answer = self._api.post("/network", {"isolated": self._isolated})
        return f"{list(self._isolated)}{self._answered('isolate', answer)}"

    def _heal(self) -> str | None:
        if not self._isolated:
            return None
        answer = self._api.post("/network", {"isolated": []})
        self._isolated = ()
        return f"no broker is isolated{self._answered('heal', answer)}"

    def _pause_zookeeper(self) -> str | None:
        pids = self._up.zookeeper_pids()
        if not pids:
            return None
        pid = self._random.choice(pids)
        for_s = self._random.uniform(0.3, 1.4 * self._session_s)
        begun_s = time.monotonic()
        try:
            os.kill(pid, signal.SIGSTOP)
            self._closed.wait(for_s)
        finally:
            with contextlib.suppress(ProcessLookupError):  # killed by another action meanwhile
                os.kill(pid, signal.SIGCONT)
        self._disturb_all("ZooKeeper paused", begun_s)
        return f"for {for_s:.1f} s"

    def _kill_zookeeper(self) -> str | None:
        pids = self._up.zookeeper_pids()
        begun_s = time.monotonic()
        if not pids or begun_s - self._last_zookeeper_kill_s < ZOOKEEPER_KILL_EVERY_S:
            return None
        self._last_zookeeper_kill_s = begun_s
        pid = self._random.choice(pids)
        os.kill(pid, signal.SIGKILL)
        is_back = wait_until(lambda: len({*self._up.zookeeper_pids()} - {pid}) >= len(pids), 30.0)
        self._disturb_all("ZooKeeper killed", begun_s)
        return f"its process {pid}{'' if is_back else ', and it did not come back'}"

    def _disturb_all(self, what: str, begun_s: float) -> None:
        with self._lock:
            self.disturbances.append(Disturbance(what, None, begun_s, time.monotonic()))

    # -- topics

    def _churn_topics(self) -> list[str]:
        answer = self._api.get("/topics")
        found = answer.body["topics"] if answer.is_ok else []
        return [name for name in found if name.startswith(CHURN)]

    def _churn_topic(self) -> str | None:
        topics = self._churn_topics()
        return self._random.choice(topics) if topics else None

    def _create_topic(self) -> str | None:
        if len(self._churn_topics()) >= MAX_CHURN_TOPICS:
            return None
        self._churn_number += 1
        name = f"{CHURN}{self._churn_number}"
        topic = {
            "name": name,
            "num_partitions": self._random.randint(1, 6),
            "replication_factor": self._random.randint(1, 3),
        }
        answer = self._api.post("/topics", {"topics": [topic], "timeout_ms": 10_000})
        return f"{name}{self._answered('create topic', answer)}"

    def _delete_topic(self) -> str | None:
        name = self._churn_topic()
        if name is None:
            return None
        answer = self._api.post("/topics/delete", {"topics": [name], "timeout_ms": 10_000})
        return f"{name}{self._answered('delete topic', answer)}"

    def _add_partitions(self) -> str | None:
        name = self._churn_topic()
        if name is None:
            return None
        described = self._api.get(f"/topics/{name}")
        if not described.is_ok:
            return None
        count = len(described.body["partitions"]) + self._random.randint(1, 2)
        body = {"topics": {name: {"total_count": count}}, "timeout_ms": 5_000}
        answer = self._api.post("/topics/partitions", body)
        return f"{name} to {count}{self._answered('add partitions', answer)}"

    def _partition(self) -> dict[str, Any] | None:
        """A partition of any topic, as /topics/NAME describes it."""
        names = [*self._load_topics, *self._churn_topics()]
        described = self._api.get(f"/topics/{self._random.choice(names)}")
        if not described.is_ok or not described.body["partitions"]:
            return None
        found: dict[str, Any] = self._random.choice(described.body["partitions"])
        return found

    def _reassign(self) -> str | None:
        partition = self._partition()
        if partition is None:
            return None
        count = len(partition["replicas"])
        if partition["topic"] in self._load_topics:
            count = 3
        wanted = {
            "topic": partition["topic"],
            "partition": partition["partition"],
            "replicas": self._random.sample(self._brokers, min(count, len(self._brokers))),
        }
        answer = self._api.post("/reassignments", {"reassignments": [wanted], "timeout_ms": 5_000})
        where = f"{wanted['topic']}-{wanted['partition']} to {wanted['replicas']}"
        return f"{where}{self._answered('reassign', answer)}"

    def _cancel(self) -> str | None:
        listed = self._api.post("/reassignments/list")
        if not listed.is_ok or not listed.body["reassignments"]:
            return None
        one = self._random.choice(listed.body["reassignments"])
        wanted = {"topic": one["topic"], "partition": one["partition"], "replicas": None}
        answer = self._api.post("/reassignments", {"reassignments": [wanted], "timeout_ms": 5_000})
        where = f"{one['topic']}-{one['partition']}"
        return f"{where}{self._answered('cancel reassignment', answer)}"

    def _elect_preferred(self) -> str:
        answer = self._api.post("/elections", {"election_type": "PREFERRED", "timeout_ms": 5_000})
        return f"all{self._answered('preferred election', answer)}"

    def _elect_unclean(self) -> str | None:
        """For every partition without a leader that may lose records."""
        leaderless = []
        for name in self._churn_topics():
            described = self._api.get(f"/topics/{name}")
            if described.is_ok:
                leaderless += [
                    {"topic": name, "partition": one["partition"]}
                    for one in described.body["partitions"]
                    if one["leader"] is None
                ]
        if not leaderless:
            return None
        body = {"election_type": "UNCLEAN", "partitions": leaderless, "timeout_ms": 5_000}
        answer = self._api.post("/elections", body)
        return f"{len(leaderless)} partitions{self._answered('unclean election', answer)}"

    # -- configs

    def _topic_config(self) -> str | None:
        name = self._churn_topic()
        if name is None:
            return None
        configs = {
            "retention.ms": str(self._random.randint(10**6, 10**9)),
            "unclean.leader.election.enable": self._random.choice(("true", "false")),
        }
        chosen = self._random.choice(sorted(configs))
        value = self._random.choice((configs[chosen], None))
        return self._configure("topic config", "topics", name, {chosen: value})

    def _broker_config(self) -> str:
        name = self._random.choice(["<default>", *map(str, self._brokers)])
        value = self._random.choice((str(self._random.randint(10**8, 10**9)), None))
        return self._configure("broker config", "brokers", name, {THROTTLE: value})

    def _configure(self, action: str, kind: str, name: str, configs: dict[str, str | None]) -> str:
        body = {"entities": [{"type": kind, "name": name, "configs": configs}]}
        answer = self._api.post("/configs", body)
        return f"{kind} {name} {configs}{self._answered(action, answer)}"

    # -- healing everything

    def heal_all(self, timeout_s: float) -> list[str]:
        """Heal and restart everything; return the steps that failed."""
        deadline_s = time.monotonic() + timeout_s
        wrong: list[str] = []
        while time.monotonic() < deadline_s:
            if not self._api.post("/network", {"isolated": []}).is_ok:
                wrong = ["/network is not answered"]
                continue
            states = self.states()
            wrong = [f"broker {id_} is {s}" for id_, s in states.items() if s != "running"]
            wrong += [f"broker {id_} has a failed directory" for id_ in self._failed_dirs]
            if states and not wrong:
                return []
            for id_, state in states.items():
                self._heal_broker(id_, state)
        return wrong or ["/status is not answered"]

    def _heal_broker(self, broker: int, state: str) -> None:
        if state == "paused":
            self._post("resume", broker)
        elif state == "running" and broker in self._failed_dirs:
            self._api.post(f"/brokers/{broker}/stop")
        elif state in REPAIRS["start"]:
            self._post("start", broker)
