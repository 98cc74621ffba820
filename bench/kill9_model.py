"""Model of acknowledged topics and configs, and random requests that change them.

A requested change without an acknowledgement may have been applied or not. A change that was
acknowledged must be there after any kill.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.live_cluster import NO_ANSWER, Api
from klamm.zk.waiting import wait_until

MAX_TOPICS = 8
MISSING_TIMEOUT_S = 20.0
PAUSE_S = 0.05
RETENTION = "retention.ms"


@dataclass
class Model:
    """``topics``: partition counts of acknowledged topics. ``unsure``: topics of requests without
    an answer; their state is read after the restart. ``retention``: the last acknowledged config,
    by topic."""

    topics: dict[str, int] = field(default_factory=dict)
    retention: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    unsure_configs: set[str] = field(default_factory=set)
    compared: int = 0
    number: int = 0

    def what_is_missing(self, api: Api) -> list[str]:
        """Compare with a restarted cluster, and adopt the state of unsure topics."""
        missing: list[str] = []

        def is_there() -> bool:
            nonlocal missing
            missing = self._differences(api)
            return not missing

        wait_until(is_there, MISSING_TIMEOUT_S)
        self._learn(api)
        return missing

    def _differences(self, api: Api) -> list[str]:
        found = self._found(api)
        if found is None:
            return ["the topics are not told"]
        wrong = [
            f"topic {name} is there, its deletion was acknowledged"
            for name in sorted(found.keys() - self.topics.keys() - self.unsure)
        ]
        for name, count in sorted(self.topics.items()):
            if name in self.unsure:
                continue
            self.compared += 1
            if found.get(name) != count:
                wrong.append(f"topic {name} has {found.get(name)} partitions, not {count}")
        for name, value in sorted(self.retention.items()):
            if name not in self.topics or name in self.unsure | self.unsure_configs:
                continue
            self.compared += 1
            have = self._retention(api, name)
            if have != value:
                wrong.append(f"{RETENTION} of {name} is {have}, {value} was acknowledged")
        return wrong

    def _learn(self, api: Api) -> None:
        found = self._found(api) or {}
        for name in self.unsure:
            if name in found:
                self.topics[name] = found[name]
            else:
                self.topics.pop(name, None)
                self.retention.pop(name, None)
        for name in self.unsure_configs:
            have = self._retention(api, name)
            if have is None:
                self.retention.pop(name, None)
            else:
                self.retention[name] = have
        self.unsure.clear()
        self.unsure_configs.clear()

    @staticmethod
    def _found(api: Api) -> dict[str, int] | None:
        listed = api.get("/topics")
        if not listed.is_ok:
            return None
        if not listed.body["topics"]:
            return {}
        described = api.post("/topics/describe", {"topics": listed.body["topics"]})
        if not described.is_ok:
            return None
        return {one["topic"]: len(one["partitions"]) for one in described.body["topics"]}

    @staticmethod
    def _retention(api: Api, name: str) -> str | None:
        entities = [{"type": "topics", "name": name}]
        answer = api.post("/configs/overrides", {"entities": entities})
        if not answer.is_ok or not answer.body["entities"]:
            return None
        value: str | None = answer.body["entities"][0]["configs"].get(RETENTION)
        return value


class Operations:
    """Changes topics, configs and assignments on a thread until it is closed."""

    def __init__(
        self, api: Api, model: Model, seed: float, load_topics: Sequence[str], brokers: int
    ) -> None:
        self._api, self._model, self._load_topics = api, model, load_topics
        self._brokers = brokers
        self._random = random.Random(seed)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operations", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; a pending request gets no answer."""
        self._closed.set()
        self._thread.join(60.0)

    def _run(self) -> None:
        acts = [self._create, self._delete, self._add_partitions, self._configure, self._reassign]
        while not self._closed.wait(PAUSE_S):
            self._random.choice(acts)()

    def _own(self) -> list[str]:
        model = self._model
        return sorted(model.topics.keys() - set(self._load_topics) - model.unsure)

    def _create(self) -> None:
        model = self._model
        if len(model.topics) >= MAX_TOPICS:
            return
        model.number += 1
        name, count = f"made-{model.number}", self._random.randint(1, 3)
        model.unsure.add(name)
        topic = {"name": name, "num_partitions": count, "replication_factor": 2}
        answer = self._api.post("/topics", {"topics": [topic], "timeout_ms": 20_000})
        if answer.is_ok and not any(one["code"] != "NONE" for one in answer.body["topics"]):
            model.topics[name] = count
            model.unsure.discard(name)

    def _delete(self) -> None:
        own = self._own()
        if len(own) < MAX_TOPICS // 2:
            return
        name = self._random.choice(own)
        self._model.unsure.add(name)
        answer = self._api.post("/topics/delete", {"topics": [name], "timeout_ms": 20_000})
        if answer.is_ok and not answer.body["failures"]:
            self._model.topics.pop(name, None)
            self._model.retention.pop(name, None)
            self._model.unsure.discard(name)

    def _add_partitions(self) -> None:
        own = self._own()
        if not own:
            return
        name = self._random.choice(own)
        count = self._model.topics[name] + 1
        self._model.unsure.add(name)
        body = {"topics": {name: {"total_count": count}}, "timeout_ms": 20_000}
        answer = self._api.post("/topics/partitions", body)
        if answer.is_ok and name not in answer.body["failures"]:
            self._model.topics[name] = count
            self._model.unsure.discard(name)
        elif answer.is_ok:
            self._model.unsure.discard(name)  # refused: as it was

    def _configure(self) -> None:
        own = [*self._own(), *self._load_topics]
        name = self._random.choice(own)
        if name in self._model.unsure_configs:
            return
        value = str(self._random.randint(10**8, 10**9))
        self._model.unsure_configs.add(name)
        body = {"entities": [{"type": "topics", "name": name, "configs": {RETENTION: value}}]}
        answer = self._api.post("/configs", body)
        if answer.is_ok:
            self._model.retention[name] = value
        if answer.status != NO_ANSWER and answer.status < 500:
            self._model.unsure_configs.discard(name)

    def _reassign(self) -> None:
        topic = self._random.choice(self._load_topics)
        described = self._api.get(f"/topics/{topic}")
        if not described.is_ok:
            return
        wanted = {
            "topic": topic,
            "partition": self._random.choice(described.body["partitions"])["partition"],
            "replicas": self._random.sample(range(self._brokers), self._random.randint(2, 3)),
        }
        self._api.post("/reassignments", {"reassignments": [wanted], "timeout_ms": 5_000})
