"""The recorded scenarios with tools that speak to brokers only.

The recordings of tests/data/scenarios take most steps through ZooKeeper. Here each tool has
``--bootstrap-server`` instead. tests/data/bootstrap_scenarios has what brokers of Kafka 2.8.2 did
then: after each step the ZooKeeper tree, the output of the tool, and which awaited conditions came
true.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.drivers.kafka_driver import KafkaDriver
from klamm.lab.recordings.diff import masked
from klamm.lab.recordings.recorded import recorded_spec
from klamm.lab.recordings.rows import Json
from klamm.world.kafka.cluster import KafkaCluster
from tests.scenarios import Tools, read_scenario, run_recorded

_DATA = Path(__file__).parent / "data" / "bootstrap_scenarios"


def through_brokers(name: str) -> Json:
    """Return a recorded scenario whose tools speak to brokers, with what Kafka did, if known."""
    scenario = read_scenario(name)
    path = _DATA / f"{name}.json"
    seen = json.loads(path.read_text()) if path.exists() else [{}] * len(scenario["steps"])
    for recorded, one in zip(scenario["steps"], seen, strict=True):
        for part in (recorded, *recorded.get("with_previous_steps", ())):
            _redirect(part["step"])
        recorded.update(one)
    # Kafka's requests and transitions are in its logs, which were not recorded.
    scenario["ignore"] = [*scenario["ignore"], "transitions", "requests"]
    return scenario


def _redirect(step: Json) -> None:
    """Let the tool of a step speak to brokers.

    kafka-topics then alters no configs; kafka-configs does.
    """
    args = step.get("args", [])
    if args[:2] != ["--zookeeper", "{zk}"]:
        return
    args[:2] = ["--bootstrap-server", "{bootstrap}"]
    is_of_configs = {"--config", "--delete-config"}.intersection(args)
    if "--alter" in args and is_of_configs:
        step["cls"] = "ConfigCommand"
        step["args"] = ["--add-config" if arg == "--config" else arg for arg in args]


def record_kafka(
    name: str, connect_string: str, folder: Path, tools_at: Callable[[Sequence[int]], Tools]
) -> None:
    """Run a scenario on brokers of Kafka 2.8.2, and write down what they did.

    ``tools_at`` returns what runs the tools, for the ports of the brokers.
    """
    scenario = through_brokers(name)
    recorded = recorded_spec(scenario, NO_QUIRKS)
    cluster = KafkaCluster(recorded, connect_string, folder, has_klamm=False)
    spec = cluster.spec
    tools = tools_at([one.end_points[0].port for one in map(spec.broker_info, spec.broker_ids)])
    try:
        records = run_recorded(scenario, KafkaDriver(cluster), tools)
    finally:
        cluster.close()
    rows = []
    for record in records:
        row = {"tree": record.tree, "until_met": record.until_met}
        if record.tool is not None:
            texts = (record.tool.stdout, record.tool.stderr)
            stdout, stderr = (masked(text.rstrip("\n")) for text in texts)
            row["tool"] = {"stdout": stdout, "stderr": stderr, "rc": record.tool.exit_code}
        rows.append(row)
    _DATA.mkdir(exist_ok=True)
    (_DATA / f"{name}.json").write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
