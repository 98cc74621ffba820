"""`klamm reassign-partitions` on a real server: klamm's own flags and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from tests.cli.test_reassign_against_kafka import plan, registration

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def where(chroot: str, zookeeper_client: KazooClient) -> list[str]:
    """The tool's arguments on a chroot with three brokers and a topic."""
    root = chroot[chroot.index("/") :]
    for broker_id in range(3):
        path = f"{root}/brokers/ids/{broker_id}"
        zookeeper_client.create(path, registration(broker_id), makepath=True)
    topic = b'{"version":3,"partitions":{"0":[0,1]}}'
    zookeeper_client.create(f"{root}/brokers/topics/t", topic, makepath=True)
    return ["reassign-partitions", "--zookeeper", chroot]


def written(folder: Path, name: str, content: object) -> str:
    (folder / name).write_text(json.dumps(content))
    return str(folder / name)


def test_generate_with_a_seed_execute_and_verify(
    where: list[str], tmp_path: Path, capsys: Capture
) -> None:
    topics = written(tmp_path, "topics", {"topics": [{"topic": "t"}]})
    generate = [*where, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "0,2"]
    plans = []
    for seed in ("--seed=5", "--seed=5"):
        assert main([*generate, seed, "--json"]) == 0
        plans.append(json.loads(capsys.readouterr().out)["proposed"])
    assert plans[0] == plans[1]
    file = ["--reassignment-json-file", written(tmp_path, "plan", plans[0])]
    assert main([*where, "--execute", *file, "--yes"]) == 0
    assert "Successfully started partition reassignment for t-0\n" in capsys.readouterr().out
    assert main([*where, "--verify", *file, "--yes"]) == 0
    assert "is still in progress" in capsys.readouterr().out
    assert main([*where, "--verify", *file, "--yes", "--json"]) == 12
    report = json.loads(capsys.readouterr().out)
    assert report["state"] == "in_progress"
    assert main([*where, "--execute", *file, "--yes", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["message"].startswith("Cannot execute")


def test_without_standard_input_the_answer_is_no(
    where: list[str], tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path, "plan", plan(("t", 0, [1, 2])))
    assert main([*where, "--execute", "--reassignment-json-file", file]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "hint: --yes writes without asking" in printed.err


def test_an_error_in_the_plan_names_its_file(
    where: list[str], tmp_path: Path, capsys: Capture
) -> None:
    for content, error in (("{", "AdminOperationException"), ("[]", "JsonMappingException")):
        file = tmp_path / "plan.json"
        file.write_text(content)
        assert main([*where, "--execute", "--yes", "--reassignment-json-file", str(file)]) == 1
        printed = capsys.readouterr()
        assert error in printed.out
        assert printed.err == f"hint: the error is in {file}\n"


@pytest.mark.parametrize(
    ("args", "said", "exit_code"),
    [
        (["--seed", "x"], "error: --seed x is not a whole number from 0 on", 2),
        (["--seed", "9" * 5_000], "error: --seed 999", 2),
        (["--seed", "-1"], "error: --seed -1 is not a whole number from 0 on", 2),
        (["--seed"], "error: --seed requires a value", 2),
        (["--list", "--bootstrap-server", "h/1"], "error: 'h/1' is not the address of a klamm", 2),
        (["--list", "--bootstrap-server", "127.0.0.1:1"], "error: no klamm server responds at", 1),
    ],
)
def test_bad_input_is_one_line(args: list[str], said: str, exit_code: int, capsys: Capture) -> None:
    assert main(["reassign-partitions", *args]) == exit_code
    assert capsys.readouterr().err.startswith(said)


def test_help_names_klamms_own_flags(capsys: Capture) -> None:
    assert main(["reassign-partitions", "--help"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("This tool helps to move topic partitions between replicas.\n")
    assert "--restore-throttles FILE" in printed
