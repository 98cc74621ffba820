"""docs/three-lives.md and docs/controller.md name functions in the order of their calls."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.hunting import HuntOptions, run_seed
from klamm.lab.language.language import parse_drill
from klamm.lab.run.runner import ScenarioRunner
from tests.serving import klamm_up
from tests.sim.worlds import create_topic, three_brokers

ROOT = Path(__file__).parents[3]
CONTROLLER = (ROOT / "docs" / "controller.md").read_text(encoding="utf-8")
LIVES = (ROOT / "docs" / "three-lives.md").read_text(encoding="utf-8")
PAGE = CONTROLLER + LIVES
HUNT_SEED = 7


class Name(NamedTuple):
    """A function as the page names it."""

    file: str
    function: str


WALK = CONTROLLER.split(": six files\n")[1].split("\n### Related functions")[0]
_, RECORD, REASSIGNMENT, HUNT = re.split(r"\n## A .*\n", LIVES)
RUN, JUDGE = HUNT.split("\n### The judge")
COMMAND, REST = REASSIGNMENT.split("\n### The server")
_, AFTERWARDS = REST.split("\n### The controller")
AFTERWARDS, OTHERS = AFTERWARDS.split("\n### What the walk leaves out")
NAME = re.compile(r"`([\w/]+\.py):\s+([\w.]+)`")
NAMES = [Name(*found) for found in NAME.findall(PAGE)]
STEPS, RECORD_STEPS, COMMAND_STEPS, CONTROLLER_STEPS, RUN_STEPS, JUDGE_STEPS = (
    [Name(*found) for found in NAME.findall(part)]
    for part in (WALK, RECORD, COMMAND, AFTERWARDS, RUN, JUDGE)
)


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Functions of a module, and methods as Class.method."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")


def test_six_files_are_opened_in_order() -> None:
    headings = re.findall(r"^### (\d)\. .*: `([\w/]+\.py)`$", WALK, re.M)
    assert [number for number, _ in headings] == list("123456")
    opened = [file for _, file in headings]
    assert len(set(opened)) == 6
    assert list(dict.fromkeys(step.file for step in STEPS)) == opened


@pytest.mark.parametrize("name", NAMES, ids=": ".join)
def test_the_function_exists(name: Name) -> None:
    tree = ast.parse((ROOT / name.file).read_text(encoding="utf-8"))
    assert name.function in set(functions(tree.body))


def test_no_name_is_written_another_way() -> None:
    spans = re.findall(r"`([^`]*\.py[^`]*)`", re.sub(r"(?ms)^```.*?^```$", "", PAGE))
    found = [" ".join(span.split()) for span in spans if ":" in span]
    assert found == [": ".join(name) for name in NAMES]


@cache
def name_of(code: CodeType) -> Name | None:
    """The name of a function, or None if it is not the project's."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or path.is_relative_to(ROOT / ".venv"):
        return None
    return Name(path.relative_to(ROOT).as_posix(), code.co_qualname)


def stacks_during(action: Callable[[], object]) -> list[list[Name]]:
    """The stack at every call of a function of the project during an action, innermost first."""
    stacks: list[list[Name]] = []

    def on_event(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or name_of(frame.f_code) is None:
            return
        at: FrameType | None = frame
        stack: list[Name] = []
        while at is not None:
            if (name := name_of(at.f_code)) is not None:
                stack.append(name)
            at = at.f_back
        stacks.append(stack)

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        action()
    finally:
        sys.setprofile(before)
    return stacks


def calls_during(action: Callable[[], object]) -> Iterator[Name]:
    """Every call of a function of the project during an action, in order."""
    return iter([stack[0] for stack in stacks_during(action)])


def assert_in_order(steps: Sequence[Name], calls: Iterator[Name]) -> None:
    for step in steps:
        assert step in calls, f"{': '.join(step)} is not called after the step before it"


def test_a_creation_walks_this_way() -> None:
    world = three_brokers()

    def create() -> None:
        create_topic(world, "t", {0: (0, 1)})
        world.run_for(1_000)

    assert_in_order(STEPS, calls_during(create))


@pytest.mark.parametrize("walk", [REASSIGNMENT, HUNT], ids=["reassignment", "hunt"])
def test_a_walk_names_fourteen_files(walk: str) -> None:
    files = {file for file, _ in NAME.findall(walk)}
    assert len(files | set(re.findall(r"`(lab/checks/\w+\.py)`", walk))) == 14


def test_the_walk_of_a_hunt_seed_returns_to_no_package_that_it_has_left() -> None:
    # The judge is called back by the world, through its interface for observers.
    packages = [step.file.split("/")[0] for step in RUN_STEPS]
    visited = [package for package, _ in itertools.groupby(packages)]
    assert visited == ["cli", "lab", "world"]


def test_the_walk_of_a_reassignment_returns_only_where_an_interface_or_a_message_leads() -> None:
    packages = [file.split("/")[0] for file, _ in NAME.findall(REASSIGNMENT)]
    entered = {packages[0]}
    returns = []
    for before, package in itertools.pairwise(packages):
        if package != before and package in entered:
            returns.append((before, package))
        entered.add(package)
    assert returns == [
        ("admin", "server"),  # AdminChannel
        ("statemachines", "controller"),  # the call is over
        ("zk", "controller"),
        ("controller", "zk"),  # the second write
        ("zk", "controller"),
        ("brokers", "controller"),  # AlterIsr
    ]


def test_a_hunt_seed_walks_this_way() -> None:
    _, *in_worker = RUN_STEPS
    walk = [*in_worker, JUDGE_STEPS[0]]
    assert_in_order(walk, calls_during(lambda: run_seed(HUNT_SEED, HuntOptions())))


def test_a_record_walks_this_way() -> None:
    drill = parse_drill(
        "drill: walk\nabout: x\ncluster: {segments: true, topics: {t: [[0, 1]]}}\n"
        "steps:\n  - produce: {t-0: 1}\n    until: {consumed: {t-0: 1}}\n",
        "walk",
    )
    runner = ScenarioRunner(SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0)))
    *before, step = drill.steps
    for one in before:
        runner.run_step(one)
    assert_in_order(RECORD_STEPS, calls_during(lambda: runner.run_step(step)))


def test_the_controllers_half_of_a_reassignment_walks_this_way() -> None:
    drill = parse_drill(
        "drill: walk\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\n"
        "steps:\n  - reassign: {t-0: [2, 1]}\n    until: {reassigning: []}\n",
        "walk",
    )
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0))
    runner = ScenarioRunner(driver)
    *before, step = drill.steps
    for one in before:
        runner.run_step(one)
    stacks = stacks_during(lambda: runner.run_step(step))
    assert_in_order(CONTROLLER_STEPS, iter([stack[0] for stack in stacks]))

    # The page says which other files are on the stacks of these functions, except the simulator's.
    steps, on_stacks, called = iter(CONTROLLER_STEPS), set(), set()
    wanted: Name | None = next(steps)
    is_sent = False
    for stack in stacks:
        is_sent |= stack[0] == CONTROLLER_STEPS[-2]
        if wanted != CONTROLLER_STEPS[0] and not is_sent:
            called.add(stack[0].file)
        if stack[0] == wanted:
            on_stacks |= {name.file for name in stack}
            wanted = next(steps, None)
    outside = re.compile(r"tests|lab/|world/simulated/|world/actors\.py")
    on_stacks -= {name.file for name in CONTROLLER_STEPS}
    assert {file for file in on_stacks if not outside.match(file)} == {
        file
        for file in re.findall(r"`([\w/]+\.py)`", OTHERS)
        if re.match("world|brokers|controller/(event_manager|on_alter_isr)", file)
    }
    ours = [file for file in called if file.startswith(("controller/", "statemachines/"))]
    found = re.search(r"functions of (\d+) files", OTHERS.replace("\n", " "))
    assert found is not None and int(found[1]) == len(ours), sorted(ours)


@pytest.mark.slow
def test_the_commands_half_of_a_reassignment_walks_this_way(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}')
    with klamm_up(tmp_path, "--brokers", "2") as up:
        server = ("--bootstrap-server", up.url.removeprefix("http://"))
        up.ok("topics", *server, "--create", "--topic", "t", "--replica-assignment", "0")
        words = (*server, "--execute", "--reassignment-json-file", str(plan))
        assert_in_order(COMMAND_STEPS, calls_during(lambda: up.ok("reassign-partitions", *words)))
