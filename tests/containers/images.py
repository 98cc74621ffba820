"""The images of the container tests: pulled if possible, otherwise stand-ins.

klamm's own image is always built by the project's Dockerfile. Where the base image is a stand-in,
its build has no network: pip on this machine collects the wheels, and the build installs those.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from docker.errors import BuildError
from docker.utils import exclude_paths
from testcontainers.core.docker_client import DockerClient

from tests.containers.engine import Engine, Failed, Shell
from tests.containers.stand_ins import LABEL, WHEELS, has_label, python_image, zookeeper_image

ROOT = Path(__file__).parents[2]
ZOOKEEPER = "zookeeper:3.9"
PYTHON = "python:3.11-slim"
KLAMM = "klamm-test"
STAND_IN_PREFIX = "klamm-stand-in/"
PULL_TIMEOUT_S = 120.0
BUILD_TIMEOUT_S = 600


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
        _build_klamm(shell, PYTHON_IMAGE=PYTHON)
    else:
        python = STAND_IN_PREFIX + PYTHON
        python_image(python, _collect_wheels(cache, shell), shell)
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": WHEELS}
        _build_klamm(shell, network="none", PYTHON_IMAGE=python, **offline)
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


def _build_klamm(shell: Shell, network: str | None = None, **arguments: str) -> None:
    """Build klamm's image, unless it was built from the same files. Raises Failed."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    ignored = [line for line in lines if line and not line.startswith("#")]
    names = sorted(exclude_paths(str(ROOT), ignored))
    files = [(name, path) for name in names if (path := ROOT / name).is_file()]
    inputs = [f"{name} {path.stat().st_mode} {_file_digest(path)}" for name, path in files]
    digest = _digest([*arguments.values(), *inputs])
    if has_label(KLAMM, digest):
        return
    shell.say("building klamm's image with the project's Dockerfile")
    images = DockerClient().client.images
    try:
        images.build(
            path=str(ROOT),
            tag=KLAMM,
            labels={LABEL: digest},
            buildargs=arguments,
            network_mode=network,
            rm=True,
            timeout=BUILD_TIMEOUT_S,
        )
    except BuildError as error:
        with shell.log.open("a") as log:
            log.writelines(line.get("stream", "") for line in error.build_log)
        raise Failed(f"the Dockerfile does not build: {error}") from error
    # The image that had the tag before.
    images.prune({"label": LABEL})


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
