"""The images of the container tests: pulled if possible, otherwise stand-ins.

klamm's own image is always built by the project's Dockerfile. Where the base image is a stand-in,
its build has no network: pip on this machine collects the wheels, and the build installs those.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests.containers.engine import Engine, Failed, Shell
from tests.containers.stand_ins import WHEELS, has_label, python_image, zookeeper_image

ROOT = Path(__file__).parents[2]
ZOOKEEPER = "zookeeper:3.9"
PYTHON = "python:3.11-slim"
KLAMM = "klamm-test"
STAND_IN_PREFIX = "klamm-stand-in/"
PULL_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 600.0
_INPUTS_LABEL = "klamm.inputs"


@dataclass(frozen=True, slots=True)
class Images:
    """Names of images to run."""

    zookeeper: str
    klamm: str

    def environ(self) -> dict[str, str]:
        """The environment variables for docker-compose.yml."""
        return {"KLAMM_ZOOKEEPER_IMAGE": self.zookeeper, "KLAMM_IMAGE": self.klamm}


def make_images(engine: Engine, cache: Path, shell: Shell) -> Images:
    """Pull or build missing images. Raises Failed."""
    zookeeper = ZOOKEEPER
    if not _have(ZOOKEEPER, engine, shell):
        zookeeper = STAND_IN_PREFIX + ZOOKEEPER
        zookeeper_image(zookeeper, shell)
    if _have(PYTHON, engine, shell):
        _build_klamm(["--build-arg", f"PYTHON_IMAGE={PYTHON}"], shell)
    else:
        python = STAND_IN_PREFIX + PYTHON
        python_image(python, _collect_wheels(cache, shell), shell)
        offline = {"PYTHON_IMAGE": python, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
        arguments = [word for item in offline.items() for word in ("--build-arg", "=".join(item))]
        _build_klamm(["--network=none", *arguments], shell)
    return Images(zookeeper, KLAMM)


def _have(image: str, engine: Engine, shell: Shell) -> bool:
    """True if ``image`` exists, or could be pulled within the time limit."""
    if shell.ok("docker", "image", "inspect", image):
        return True
    if not engine.has_network:
        return False
    shell.say(f"pulling {image}")
    if shell.ok("docker", "pull", image, timeout_s=PULL_TIMEOUT_S):
        return True
    shell.say(f"{image} cannot be pulled: {shell.last_line()}")
    return False


def _collect_wheels(cache: Path, shell: Shell) -> Path:
    """A folder with the wheels of everything that klamm depends on, kept in the cache."""
    file = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, extras = file["project"], file["project"]["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["zookeeper"], *extras["replay"]]
    wanted += file["build-system"]["requires"]
    constraints = ROOT / "constraints.txt"
    digest = _digest([sys.version, *wanted, constraints.read_text()])
    folder = cache / f"wheels-{digest}"
    if folder.exists():
        return folder
    shell.say("collecting the wheels of klamm's dependencies")
    for other in cache.glob("wheels-*"):
        shutil.rmtree(other)
    draft = cache / "wheels-draft"
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--constraint", constraints)
    if not shell.ok(*pip, "--wheel-dir", draft, *wanted, timeout_s=BUILD_TIMEOUT_S):
        raise Failed(f"pip could not collect the wheels: {shell.last_line()}")
    return draft.rename(folder)


def _build_klamm(options: list[str], shell: Shell) -> None:
    """Build klamm's image, unless it was built from the same files."""
    files = list(_context_files())
    inputs = [f"{name} {path.stat().st_mode} {_file_digest(path)}" for name, path in files]
    digest = _digest([*options, *inputs])
    if has_label(KLAMM, _INPUTS_LABEL, digest):
        return
    shell.say("building klamm's image with the project's Dockerfile")
    options = [*options, "--tag", KLAMM, "--label", f"{_INPUTS_LABEL}={digest}"]
    with (
        shell.log.open("ab") as log,
        subprocess.Popen(
            ["docker", "build", *options, "-"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # The classic builder needs no plugin. The Dockerfile works with both.
            env={**os.environ, "DOCKER_BUILDKIT": "0"},
        ) as build,
    ):
        assert build.stdin is not None
        try:
            with tarfile.open(fileobj=build.stdin, mode="w|") as context:
                for name, path in files:
                    _add(context, name, path)
            build.stdin.close()
        except BrokenPipeError:
            build.kill()
        if build.wait(BUILD_TIMEOUT_S) != 0:
            raise Failed(f"the Dockerfile does not build: {shell.last_line()}")
    # The image that had the tag before.
    shell.ok("docker", "image", "prune", "--force")


def _context_files() -> Iterator[tuple[str, Path]]:
    """(name in the context, file) of what .dockerignore leaves."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    ignored = [line for line in lines if line and not line.startswith("#")]
    everywhere = [line.removeprefix("**/") for line in ignored if line.startswith("**/")]
    for folder, folders, names in os.walk(ROOT):
        relative = Path(folder).relative_to(ROOT)
        patterns = ignored + everywhere if relative == Path() else everywhere
        kept = [name for name in folders if not any(fnmatch(name, each) for each in patterns)]
        folders[:] = sorted(kept)
        for name in sorted(names):
            if not any(fnmatch(name, each) for each in patterns):
                yield (relative / name).as_posix(), Path(folder) / name


def _add(context: tarfile.TarFile, name: str, path: Path) -> None:
    """Add a file without owner and time, so that they do not change the digest."""
    entry = tarfile.TarInfo(name)
    entry.size = path.stat().st_size
    entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        context.addfile(entry, file)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
