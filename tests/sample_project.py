"""A small project that uses klamm's pytest plugin, and whose own code has a bug.

Its packages have the names of packages inside klamm. tests/integration/test_pytest_plugin.py runs
it with the checkout, and tests/cli/test_install.py with a wheel.
"""

from __future__ import annotations

from pathlib import Path

FILES = {
    "cluster/__init__.py": "OWNER = 'the project'\n",
    "server/__init__.py": "",
    "server/orders.py": """
def place_order(send, order):
    for _ in range(5):
        try:
            return send("orders-0", order, timeout_ms=1_000)
        except Exception:
            continue
    raise RuntimeError("the order was not placed")
""",
    "test_orders.py": """
import pytest
from server.orders import place_order

@pytest.mark.klamm(brokers=3)
def test_an_order_is_stored_once(klamm_simulation):
    klamm_simulation.create_topic("orders", replicas=[[0, 1, 2]])
    klamm_simulation.pause(2)
    place_order(klamm_simulation.send, b"order 17")
    assert [record.value for record in klamm_simulation.consume("orders-0")] == [b"order 17"]
""",
    "test_before.py": """
import sys

IMPORTED = {name for name in sys.modules if name.partition(".")[0] == "klamm"}

def test_klamm_is_not_imported_before_its_use():
    assert IMPORTED <= {"klamm", "klamm.lab", "klamm.lab.python", "klamm.lab.python.pytest_plugin"}
""",
    "test_real.py": """
import pytest

@pytest.mark.klamm(brokers=2)
def test_a_leader_is_elected(klamm_cluster):
    klamm_cluster.create_topic("orders", replicas=[[0, 1]])
    klamm_cluster.kill("leader of orders-0")
    klamm_cluster.until(leader={"orders-0": 1})
""",
    "drills/passes.drill.yaml": """
drill: follower-loss
about: A follower dies.
cluster: {topics: {t: [[0, 1, 2]]}}
steps:
  - kill: 1
    until: {isr: {t-0: [0, 2]}}
""",
    "drills/fails.drill.yaml": """
drill: wrong-expectation
about: A drill that expects the wrong leader.
cluster: {topics: {t: [[0, 1, 2]]}}
steps:
  - kill: 0
    expect: {leader: {t-0: 2}}
""",
}
FAILURES = (
    "E *AssertionError: assert *order 17*, *order 17*",
    "*- klamm -*",
    "seed: 7",
    "replay: pytest test_orders.py::test_an_order_is_stored_once --klamm-seed 7",
    "journal: *journal.jsonl",
)
"""Lines of pytest's output about the test that finds the bug."""


def write_project(folder: Path) -> None:
    """Write the project into an empty folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.lstrip(), encoding="utf-8")
