"""Exploration of all states of a small cluster: complete, repeatable, sound, and able to fail."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shlex
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cli.drill_explore import EXAMPLES
from klamm.cli.main import main
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import NO_QUIRKS, parse_quirks
from klamm.cluster.requests import StopReplicaRequest
from klamm.controller.channel_manager import InFlight
from klamm.controller.events import IsrChangeNotification
from klamm.drills.expander import Chunk, Expander
from klamm.drills.exploration import Exploration, SearchSpace, parse_scope
from klamm.drills.exploring import Explored, explore, make_steps
from klamm.runtime.simulated.checkpoint import Checkpoint
from klamm.runtime.simulated.state_digest import StateText

DELETION = SearchSpace(2, 1, ((0,),), ("delete",), NO_QUIRKS)
RESTART = SearchSpace(2, 2, ((0, 1),), ("kill 1", "start 1"), NO_QUIRKS)


def last(scope: SearchSpace, jobs: int = 1, max_states: int | None = None) -> Explored:
    """Explore a scope and return the result."""
    *_, result = explore(scope, jobs, max_states)
    return result


def counts(result: Explored) -> tuple[int, int, int, bool]:
    return result.states, result.transitions, result.depth, result.is_complete


def test_an_action_can_be_taken_once_and_while_its_broker_is_alive_or_dead() -> None:
    actions = ("kill 1", "start 1", "expire 1", "shutdown 1", "delete")
    state = Exploration(SearchSpace(2, 1, ((0,),), actions, NO_QUIRKS))

    def possible() -> list[str]:
        return [text for text in state.choices if text in actions]

    assert possible() == ["kill 1", "expire 1", "shutdown 1", "delete"]
    state.take(state.choices.index("kill 1"))
    assert "the session of dead broker 1 expires" in state.choices
    assert possible() == ["start 1", "delete"]
    state.take(state.choices.index("start 1"))
    assert possible() == ["expire 1", "shutdown 1", "delete"]
    state.take(state.choices.index("shutdown 1"))
    assert "broker-1 runs" in state.choices
    assert possible() == ["expire 1", "delete"]


def test_a_tiny_scope_has_these_states() -> None:
    result = last(DELETION)
    assert result.violation is None
    assert counts(result) == (54, 81, 16, True)


def test_the_counts_depend_on_the_scope_only() -> None:
    """Another hash seed and several processes give the same counts."""
    code = (
        "from tests.sim.test_explore import *\n"
        "if __name__ == '__main__': print(counts(last(DELETION)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str(counts(last(DELETION)))
    assert counts(last(DELETION, jobs=2)) == counts(last(DELETION))


def test_workers_end_with_the_process_that_explores() -> None:
    """Also if it is killed. They have its output, which ends when the last of them has ended."""
    code = (
        "from tests.sim.test_explore import *\n"
        "if __name__ == '__main__':\n"
        "    for progress in explore(RESTART, 2): print(progress.states, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        while int(run.stdout.readline()) < 20:
            pass
        run.kill()
        run.communicate(timeout=60)


def copied(saved: bytes) -> Exploration:
    """Return an independent copy of a pickled state, without the texts that it keeps."""
    state: Exploration = pickle.loads(saved)  # noqa: S301
    state._texts = StateText()
    return state


@pytest.mark.parametrize("scope", [DELETION, RESTART])
def test_states_with_equal_digests_have_equal_successors(scope: SearchSpace) -> None:
    """What the digest leaves out changes nothing that follows."""
    successors: dict[bytes, list[bytes]] = {}
    queue = deque([pickle.dumps(Exploration(scope))])
    compared = 0
    while compared < 100:
        saved = queue.popleft()
        state = copied(saved)
        after = []
        for choice in range(len(state.choices)):
            following = copied(saved)
            following.take(choice)
            after.append(following.digest())
            queue.append(pickle.dumps(following))
        compared += state.digest() in successors
        assert successors.setdefault(state.digest(), after) == after


def test_a_reset_state_has_the_successors_of_a_copy() -> None:
    """Steps that kill and start a broker are undone as well; kept texts are not stale."""
    state = Exploration(RESTART)
    first, checkpoint = state.digest(), state.checkpoint()
    checkpoints = [checkpoint]
    for number in range(40):
        saved = pickle.dumps(state)
        digest, choices = state.digest(), state.choices
        for choice in range(len(choices)):
            copy = copied(saved)
            copy.take(choice)
            state.take(choice)
            assert state.text() == copy.text()
            following = state.checkpoint(checkpoint)
            checkpoint.reset()
            assert (state.digest(), state.choices) == (digest, choices)
            following.reset()
            assert (state.text(), state.choices) == (copy.text(), copy.choices)
            checkpoint.reset()
        state.take(number % len(choices))
        checkpoint = state.checkpoint(checkpoint)
        checkpoints.append(checkpoint)
    assert not state._actions
    checkpoints[0].reset()
    assert state.digest() == first


def test_a_state_that_another_worker_found_is_reached_by_its_path() -> None:
    finder, other = Expander(RESTART), Expander(RESTART)
    path = b""
    after: Sequence[object] = (None,)
    while after:
        chunk = Chunk(0, (0,), (path,))
        (after,) = finder(chunk)
        if len(path) % 5 == 4:
            assert other(chunk) == [after]
        if after:
            path += bytes((len(path) % len(after),))
    assert len(path) > 20


def test_an_object_that_cannot_be_reset_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be reset"):
        Checkpoint([itertools.count()])
    with pytest.raises(TypeError, match="cannot be reset"):
        local = 1
        Checkpoint([lambda: local])


class Thing:
    """An object whose attributes a checkpoint keeps."""


def test_a_checkpoint_resets_what_was_added_and_follows_what_was_renamed() -> None:
    thing, named = Thing(), {"x": 1}
    thing.__dict__.update(old=1, named=named)
    checkpoint = Checkpoint([thing])
    thing.__dict__["new"] = 2
    del named["x"]
    named["y"] = 1  # the same value
    following = checkpoint.following()
    checkpoint.reset()
    assert thing.__dict__ == {"old": 1, "named": {"x": 1}}
    following.reset()
    assert thing.__dict__ == {"old": 1, "named": {"y": 1}, "new": 2}


PARTS = ("context", "metadata_cache", "leaderships", "failovers", "watch", "session", "timer")


@pytest.mark.parametrize("part", (*PARTS, "due time", "in flight", "queued", "candidate"))
def test_states_that_differ_in_one_part_have_different_digests(part: str) -> None:
    """Nothing else differs: the part itself is in the digest, not only what follows from it."""
    state = Exploration(RESTART)
    node = state._world.nodes[0].node
    assert node.controller is not None
    context, cache = node.controller.context, node.broker.metadata_cache
    before = state.digest()
    request = StopReplicaRequest(0, 0, 0, ())
    server, events = state._world.server, node.controller.events
    channel = node.controller.channels._channels[1]
    match part:
        case "context":
            context.epoch += 1
        case "metadata_cache":
            cache.controller_id = 1
        case "leaderships":
            context.leaderships.clear()
        case "failovers":
            state._world.candidacy.failed_failovers += 1
        case "watch":
            server.watches.watch_data("/nowhere", server.session_states()[0][0])
        case "session":
            server._sessions[server.session_states()[0][0]].expired = True
        case "timer":
            events._timers.append((1.0, 99, IsrChangeNotification(), 0))
        case "due time":
            assert node.broker.controlled_shutdown._due_ms is None
            node.broker.controlled_shutdown._due_ms = 1.0
        case "in flight":
            channel.in_flight = None if channel.in_flight else InFlight(request, 0, 0, 0.0)
        case "queued":
            channel.queue.append((request, 0, 0.0))
        case "candidate":
            node.controller.is_candidate = not node.controller.is_candidate
    state._texts = StateText()
    assert state.digest() != before


SHUTDOWN = SearchSpace(2, 1, ((0, 1),), ("shutdown 1",), NO_QUIRKS)
TWO_DEATHS = SearchSpace(3, 1, ((1,),), ("kill 1", "kill 2"), NO_QUIRKS)


@pytest.mark.parametrize(
    "scope, quirk, violated, steps",
    [
        (SHUTDOWN, "stop_replica_before_the_epoch_bump", "shutdown-stops-followers", 4),
        (TWO_DEATHS, "KAFKA-13225", "brokers-know-live-brokers", 6),
    ],
)
def test_a_known_bug_of_kafka_is_found(
    scope: SearchSpace, quirk: str, violated: str, steps: int
) -> None:
    with_quirk = msgspec.structs.replace(scope, quirks=parse_quirks((quirk,)))
    result = last(with_quirk)
    assert result.violation is not None
    assert (result.violation.name, len(result.path)) == (violated, steps)
    *_, (_, state) = make_steps(with_quirk, result.path)
    assert state.violation() == result.violation
    without = last(scope)
    assert without.is_complete and without.violation is None


def test_idle_brokers_must_agree_with_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MetadataCache, "update", lambda *_: None)
    violation = last(DELETION).violation
    assert violation is not None
    assert violation.name == "brokers-and-controller-agree"


@pytest.mark.parametrize("states", [1, 2, 5, 8])
def test_too_many_states_are_inconclusive(states: int) -> None:
    """Exploring stops at exactly this number of states, also in the middle of a level."""
    result = last(DELETION, max_states=states)
    assert not result.is_complete and result.violation is None
    assert result.states == states


@pytest.mark.parametrize(
    "replicas, action, problem",
    [
        (["0"], "explode 1", "'explode 1' is not an action"),
        (["0"], "kill", "'kill' has 0 arguments, expected 1"),
        (["0"], "kill 7", "kill 7: there is no broker '7'"),
        (["0,0"], "delete", "names a broker twice"),
        (["0", "1"], "reassign 1", "'reassign 1' has 1 arguments, expected 2"),
        (["0"], "kill 0,1", "names more than one broker"),
    ],
)
def test_an_invalid_scope_is_refused(replicas: list[str], action: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_scope(2, 1, replicas, [action], NO_QUIRKS)


@pytest.fixture
def klamm(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `klamm drill explore` with these words: its exit code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        return main(["drill", "explore", "--jobs", "1", *words]), *capsys.readouterr()

    return run


def test_the_command_prints_the_counts(klamm: Any) -> None:
    words = ("--candidates", "1", "--replicas", "0", "--action", "delete")
    code, out, _ = klamm(*words)
    assert code == 0
    assert out.startswith("54 states, 81 transitions, depth 16 (")
    assert out.endswith(": complete\n")
    code, out, _ = klamm(*words, "--json", "--max-states", "5")
    assert code == 12
    answer = json.loads(out)
    assert (answer["complete"], answer["violation"], answer["exit_code"]) == (False, None, 12)
    _, out, _ = klamm(*words, "--max-states", "5")
    assert out.endswith("; inconclusive: stopped at --max-states 5\n")


def test_a_violation_is_printed_with_its_path_and_replayed(klamm: Any) -> None:
    words = ("--candidates", "1", "--action", "shutdown 1")
    quirks = ("--quirks", "stop_replica_before_the_epoch_bump")
    code, out, _ = klamm(*words, *quirks)
    assert code == 10
    assert "shutdown-stops-followers: t-0: broker 1 may shut down" in out
    assert "  3. ControlledShutdownRequest from broker-1 reaches controller-0\n" in out
    assert out.rstrip().endswith("--path 0.0.0.0")
    code, again, _ = klamm(*words, *quirks, "--path", "0.0.0.0")
    assert code == 10
    assert again.splitlines()[-1] == out.splitlines()[1]
    code, out, _ = klamm(*words, "--path", "0.0.0.0", "--json")
    assert (code, json.loads(out)["violation"]) == (0, None)


def test_replayed_choices_are_told_as_json(klamm: Any) -> None:
    quirk = ("--quirks", "stop_replica_before_the_epoch_bump")
    words = ("--candidates", "1", "--action", "shutdown 1", *quirk, "--json")
    code, out, _ = klamm(*words, "--path", "0.0.0.0")
    answer = json.loads(out)
    assert (code, answer["exit_code"], answer["violation"]["name"]) == (
        10,
        10,
        "shutdown-stops-followers",
    )
    assert len(answer["steps"]) == 4
    assert answer["steps"][2] == "ControlledShutdownRequest from broker-1 reaches controller-0"
    code, out, _ = klamm(*words)
    found = json.loads(out)
    assert (code, found["exit_code"], found["complete"]) == (10, 10, False)
    assert found["violation"].items() >= {**answer["violation"], "steps": answer["steps"]}.items()
    assert (found["depth"], found["states"]) == (4, 5)
    assert found["violation"]["repeat"] == (
        "klamm drill explore --brokers 2 --candidates 1 --replicas 0,1 --action 'shutdown 1' "
        "--quirks C7 --path 0.0.0.0"
    )


def test_the_printed_line_repeats_a_violation_in_another_process(klamm: Any) -> None:
    words = ("--brokers", "3", "--candidates", "1", "--replicas", "1")
    actions = ("--action", "kill 1", "--action", "kill 2")
    code, out, _ = klamm(*words, *actions, "--quirks", "KAFKA-13225")
    assert code == 10
    violation, *steps, line = out.splitlines()[1:]
    assert violation.startswith("brokers-know-live-brokers: ")
    command = shlex.split(line.removeprefix("repeat it with: "))
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    repeated = subprocess.run(
        [sys.executable, "-m", *command], env=environment, capture_output=True, text=True
    )
    assert repeated.returncode == 10
    assert repeated.stdout.splitlines() == [*(step.strip() for step in steps), violation]


def test_the_path_of_the_help_text_exists(klamm: Any) -> None:
    (line,) = (line for line in EXAMPLES.splitlines() if "--path" in line)
    code, out, _ = klamm(*shlex.split(line)[3:])
    assert (code, out.splitlines()[0]) == (0, "1. kill 1")


@pytest.mark.parametrize(
    "words, problem",
    [
        (["--path", "x"], "--path x is not a list of choices"),
        (["--path=-1"], "--path -1 is not a list of choices"),
        (
            ["--path", "0.2"],  # 1 is the last choice
            "path 0.2: step 2 cannot be 2\nhint: choices after step 1: 0 = the session",
        ),
        (["--action", "explode"], "'explode' is not an action"),
        (["--action", "start 1"], "'start 1' never happens: no action ends broker 1"),
        (["--action", "kill 0", "--action", "start 1"], "hint: add --action 'kill 1'"),
    ],
)
def test_a_wrong_option_is_refused(klamm: Any, words: list[str], problem: str) -> None:
    code, _, errors = klamm(*words)
    assert code == 2
    assert problem in errors


def test_ctrl_c_prints_the_counts_so_far() -> None:
    words = ["-m", "klamm", "drill", "explore", "--jobs", "1"]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        assert "waiting for all states to be explored" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert process.returncode == 130
    assert " transitions, depth " in out
    assert errors == "Interrupted\n"
