"""The pytest plugin in a project outside the checkout: fixtures, drill files, reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.sample_project import FAILURES, write_project

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "klamm.lab.python.pytest_plugin")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The sample project; pytest loads only the plugin that PLUGIN names."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    write_project(pytester.path)
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.run(sys.executable, "-m", "pytest", *PLUGIN, *words)


def test_fixtures_and_drill_files_find_bugs_and_report_how_to_repeat_them(
    project: pytest.Pytester,
) -> None:
    (project.path / "drills/invalid.drill.yaml").write_text("drill: x\nsteps: []\nabuot: x\n")
    tests = ("test_before.py", "test_orders.py", "drills")
    done = run(project, *tests, "--klamm-seed", "7", "--continue-on-collection-errors")
    done.assert_outcomes(passed=2, failed=2, errors=1)
    done.stdout.fnmatch_lines(
        [
            "*invalid.drill.yaml:3:1: unknown word in a drill 'abuot'",
            "hint: did you mean about?*",
        ]
    )
    done.stdout.fnmatch_lines(FAILURES)
    done.stdout.fnmatch_lines(
        [
            "*drill wrong-expectation*",
            "expected leader: {t-0: 2}, seen {t-0: 0}",
            "wrong-expectation (seed 7): *",
            "*fails.drill.yaml:6:14: expected leader: {t-0: 2}",
            "*seen {t-0: 0}",
            "*t-0: unavailable * s, under-replicated * s",
            "seed: 7",
            "replay: klamm drill run *fails.drill.yaml --seed 7",
            "FAILED *fails.drill.yaml::wrong-expectation - expected leader: *",
        ]
    )
    (journal,) = (line.removeprefix("journal: ") for line in done.outlines if "journal: " in line)
    assert '"kind":"topic_created"' in Path(journal).read_text(encoding="utf-8")
    pages = [line.removeprefix("page: ") for line in done.outlines if line.startswith("page: ")]
    shown = [Path(page).read_text(encoding="utf-8") for page in pages]
    expected = (
        ("Expected leader: {t-0: 2}", "seed 7", "--seed 7"),
        (
            "test_orders.py::test_an_order_is_stored_once failed",
            "<dd>AssertionError: ",
            "simulated, seed 7",
            "--klamm-seed 7",
            ">pause: 2<",
        ),
    )
    for page, texts in zip(sorted(shown, key=len), expected, strict=True):
        assert [text for text in texts if text not in page] == []


def test_the_seed_of_the_command_line_goes_before_the_markers(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_seed="""
        import pytest

        @pytest.mark.klamm(seed=5)
        def test_a_failure_shows_its_seed(klamm_simulation):
            assert False
        """
    )
    replay = "replay: pytest test_seed.py::test_a_failure_shows_its_seed --klamm-seed"
    for seed in (0, 2**70):
        done = run(project, "test_seed.py", "--klamm-seed", str(seed))
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines([f"seed: {seed}", f"{replay} {seed}"])


def test_an_invalid_marker_is_an_error_without_the_source_of_the_plugin(
    project: pytest.Pytester,
) -> None:
    messages = {
        "brokers=-1": "cluster: brokers must be from 1 to 100, not*",
        "3": "options need names, for example brokers=3",
        "data_dir='x'": "data_dir is one of pytest's temporary directories, see --basetemp",
    }
    tests = (
        f"@pytest.mark.klamm({options})\ndef test_{number}(klamm_simulation): pass\n"
        for number, options in enumerate(messages)
    )
    project.makepyfile(test_marker="import pytest\n" + "".join(tests))
    done = run(project, "test_marker.py")
    done.assert_outcomes(errors=len(messages))
    done.stdout.fnmatch_lines([f"@pytest.mark.klamm: {text}" for text in messages.values()])
    done.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_a_drill_file_without_a_zookeeper_server_fails_with_a_hint_and_no_traceback(
    project: pytest.Pytester,
) -> None:
    project.makeconftest("import sys; sys.modules['pyspark'] = None")
    (project.path / "real.drill.yaml").write_text(
        "drill: real\nabout: x\ncluster: {zookeeper_servers: 3}\n"
        "steps:\n  - kill_zookeeper: leader\n"
    )
    done = run(project, "real.drill.yaml")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*pyspark*", "hint: pip install 'klamm[[]zookeeper]'*"])
    assert len(done.outlines) < 30


def test_the_reports_of_both_clusters_of_a_test_and_of_similar_names_have_different_pages(
    project: pytest.Pytester, chroot: str
) -> None:
    project.makeconftest(
        f"""
        import pytest

        @pytest.fixture(scope="session")
        def klamm_zookeeper():
            return "{chroot}"
        """
    )
    project.makepyfile(
        test_both="""
        def test_a_test_that_passes_has_no_page(klamm_simulation, klamm_cluster):
            pass

        def test_ü(klamm_simulation, klamm_cluster):
            assert False

        def test_ö(klamm_simulation):
            assert False
        """
    )
    done = run(project, "test_both.py", "--klamm-seed", "7")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "seed: 7",
            "replay: pytest *test_ü* --klamm-seed 7",
            "journal: *",
            "page: *",
            "replay: pytest *test_ü*",
            "journal: *",
            "page: *",
            "seed: 7",
        ]
    )
    pages = [line.removeprefix("page: ") for line in done.outlines if line.startswith("page: ")]
    assert len(pages) == len(set(pages)) == 3
    worlds = ["simulated, seed 7" in Path(page).read_text(encoding="utf-8") for page in pages]
    assert worlds == [True, False, True]


@pytest.mark.parametrize(
    "fixture", ["klamm_simulation", pytest.param("klamm_cluster", marks=pytest.mark.slow)]
)
def test_a_failure_in_the_teardown_of_a_fixture_has_its_own_page(
    fixture: str, project: pytest.Pytester, chroot: str
) -> None:
    project.makepyfile(
        test_teardown=f"""
        import gc
        import pytest
        from klamm.lab.python.cluster import ScriptedCluster

        @pytest.fixture(scope="session")
        def klamm_zookeeper():
            return "{chroot}"

        @pytest.fixture
        def checked({fixture}):
            yield {fixture}
            {fixture}.pause(2)
            raise RuntimeError("not clean")

        def test_the_test_and_its_fixture_fail(checked):
            checked.pause(1)
            raise RuntimeError("not right")

        def test_nothing_is_kept_of_an_earlier_test():
            gc.collect()
            assert not [one for one in gc.get_objects() if isinstance(one, ScriptedCluster)]
        """
    )
    done = run(project, "test_teardown.py")
    done.assert_outcomes(passed=1, failed=1, errors=1)
    pages = [line.removeprefix("page: ") for line in done.outlines if line.startswith("page: ")]
    teardown, test = (Path(page).read_text(encoding="utf-8") for page in pages)
    assert "<dd>RuntimeError: not clean</dd>" in teardown and ">pause: 2<" in teardown
    assert "<dd>RuntimeError: not right</dd>" in test and ">pause: 2<" not in test


@pytest.mark.slow
def test_a_test_runs_on_a_real_zookeeper(project: pytest.Pytester) -> None:
    run(project, "test_real.py").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        ("-5", "-5 is not a whole number from 0 on"),
        ("9" * 5000, "a seed has more than 100 digits"),
    ],
)
def test_an_invalid_seed_is_refused_in_one_line(
    project: pytest.Pytester, seed: str, message: str
) -> None:
    done = run(project, "test_before.py", "--klamm-seed", seed)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*argument --klamm-seed: {message}"])
