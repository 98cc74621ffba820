"""A new fault, by the steps in CONTRIBUTING.md: in drills, over HTTP and on the command line."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from msgspec import Meta
from typer.testing import CliRunner

from docs.library_methods import methods
from klamm.cli.action_commands import sends
from klamm.cli.client import ServerClient
from klamm.cli.command_loading import command_group
from klamm.cli.server_options import Answered
from klamm.cluster.errors import UsageError
from klamm.cluster.integers import INT32_MAX
from klamm.lab.actions.action import Action, ActionTarget, BrokerAction
from klamm.lab.actions.network_actions import NetworkAction
from klamm.lab.actions.table import ACTIONS, kind_of
from klamm.lab.language.language import parse_drill
from klamm.lab.language.schema import drill_schema
from klamm.lab.run.drill_run import Outcome
from klamm.server import api
from klamm.server.cluster_server import ClusterServer
from tests.api_server import ApiServer
from tests.server_configs import server_config
from tests.sim.drills import run_drill

DRILL = """
drill: stumbles
about: a fault of this test
cluster: {brokers: 3, topics: {t: [[1, 2]]}}
steps:
  - stumble: {broker: leader of t-0, times: 2}
    until: {isr: {t-0: [1, 2]}}
"""


class Stumble(BrokerAction, frozen=True):
    """Step 1: freeze a broker for a moment, `times` times.

    The command does not show this."""

    PATH = "/brokers/{id}/stumble"

    times: Annotated[int, Meta(ge=1, description="Number of `times`.")]

    def __post_init__(self) -> None:
        if self.times == 13:
            raise ValueError("'times' must not be 13")

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        for _ in range(self.times):
            target.cluster.pause(broker_id)
            target.cluster.resume(broker_id)


class Shake(NetworkAction, frozen=True):
    """Shake the network."""

    PATH = "/network/shake"

    def act(self, target: Any) -> None:
        target.cluster.transport.heal()


app = command_group("a group of this test", "")


@sends(app, Stumble, "broker")
def stumble(client: ServerClient, action: Stumble) -> Answered:
    """Step 3: send it."""
    return client.act(action), f"broker {action.broker} stumbled {action.times} times"


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table with one row more, for who reads it."""
    row = kind_of(Stumble, "stumble: {broker: 1, times: 2}")
    monkeypatch.setitem(ACTIONS, "stumble", row)  # type: ignore[arg-type]
    routes = (api.action_route("stumble", Stumble), api.action_route("shake", Shake))
    monkeypatch.setattr(api, "ROUTES", (*api.ROUTES, *routes))


@pytest.mark.usefixtures("grown")
def test_a_drill_may_use_the_new_fault() -> None:
    drill = parse_drill(DRILL, "d.yaml")
    verdict = run_drill(drill)
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())


@pytest.mark.usefixtures("grown")
def test_the_schema_and_the_python_library_have_it() -> None:
    words = drill_schema()["$defs"]["step"]["anyOf"][1]["properties"]
    assert words["stumble"]["required"] == ["broker", "times"]
    assert words["stumble"]["properties"]["times"] == {
        "description": "Number of `times`.",
        "type": "integer",
        "minimum": 1,
        "maximum": INT32_MAX,
    }
    assert "def stumble(\n        self,\n        *,\n        broker: int | str,\n" in methods()


@pytest.mark.usefixtures("grown")
def test_the_http_api_and_the_command_line_have_the_new_fault(chroot: str) -> None:
    operation = api.api_document()["paths"]["/brokers/{id}/stumble"]["post"]
    assert operation["summary"] == (
        "Step 1: freeze a broker for a moment, `times` times. The command does not show this. "
        "`times`: Number of `times`."
    )
    shaken = api.api_document()["paths"]["/network/shake"]["post"]["responses"]["200"]
    assert "NetworkFaults" in str(shaken)
    with ClusterServer(server_config(brokers=2, zookeeper=chroot)) as server:
        served = ApiServer(server)
        try:
            where = f"--server=127.0.0.1:{served.port}"
            said = CliRunner().invoke(app, ["stumble", "1", "--times", "2", where])
            assert (said.exit_code, said.stdout) == (0, "broker 1 stumbled 2 times\n")
            status, answer = served.request("POST", "/brokers/1/stumble", b'{"times": 0}')
            assert (status, answer["error"]["message"]) == (
                400,
                "malformed request: Expected `int` >= 1 - at `$.times`",
            )
            shaken = served.request("POST", "/network/shake", b"{}")
            assert shaken == (200, {"isolated": [], "faults": []})
            status, answer = served.request("POST", "/brokers/7/stumble", b'{"times": 1}')
            assert (status, answer["error"]["message"]) == (404, "broker 7 does not exist")
        finally:
            served.close()


def test_the_command_has_the_texts_the_limits_and_the_checks_of_the_fault() -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(app, ["stumble", *words], prog_name="klamm")

    texts, _, options = run("--help").stdout.partition("Options:")
    assert texts.split("\n\n") == [
        "Usage: klamm stumble [OPTIONS] N",
        "  Step 1: freeze a broker for a moment, --times times.",
        "  Step 3: send it.",
        "Arguments:\n  N  Id of a broker.  [required]",
        "",
    ]
    own = " ".join(options.split("--server")[0].split())
    assert own == "--times COUNT Number of --times. [>= 1; required]"
    assert run("1", "--times", "0").exit_code == 2
    refused = run("1", "--times", "13", "--server=h:1").exception
    assert isinstance(refused, UsageError)
    assert refused.message == "--times must not be 13"
    assert refused.hint == "klamm stumble --help lists its options"


class Other(Action, frozen=True):
    """An action on something else."""


def test_an_action_on_neither_a_broker_nor_the_network_needs_a_row_for_its_answer() -> None:
    with pytest.raises(TypeError, match="Other is no action on a broker or the network"):
        api.action_route("other", Other)
