"""A Docker engine for the container tests: the running one, or a private one that is stopped again.

A private engine needs root. It runs in a separate network namespace and mount namespace, without
iptables: it reaches only its own containers, and changes nothing outside. Missing programs are
installed by apt (the engine) or unpacked into the cache folder (compose v2).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
COMPOSE_SUITE = "trixie"
"""The first Debian whose package docker-compose is version 2."""
_ENGINE_COMMANDS = ("docker", "dockerd", "ip", "nsenter", "setpriv", "unshare")
_ENGINE_PACKAGES = ("docker.io", "iproute2", "util-linux")
_CGROUPS = Path("/sys/fs/cgroup")
_never = threading.Event()


class NoEngine(Exception):
    """No engine is available on this machine, for the given reason."""


class Failed(Exception):
    """A command of the harness failed unexpectedly."""


def cache_folder() -> Path:
    """Where engine data, wheels and logs stay between runs: private to this user."""
    base = os.environ.get("XDG_CACHE_HOME")
    parent = Path(base) / "klamm" if base else Path(tempfile.gettempdir())
    folder = parent / f"klamm-containers-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Failed(f"{folder} belongs to another user: remove it or set XDG_CACHE_HOME")
    folder.chmod(0o700)
    return folder


class Shell:
    """Runs commands; what they print goes into a log file."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._start_s = time.monotonic()
        log.write_bytes(b"")

    def say(self, line: str) -> None:
        """Print a progress line. A reader who has gone must not stop what the line announces."""
        with contextlib.suppress(BrokenPipeError):
            print(f"== {line} ({time.monotonic() - self._start_s:.0f} s)", flush=True)

    def ok(
        self,
        *command: str | Path,
        timeout_s: float = 300.0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> bool:
        """Run a command to its end; True if it succeeded."""
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=timeout_s,
                    env=env,
                    cwd=cwd,
                    check=False,
                )
            except FileNotFoundError:
                log.write(b"no such command\n")
                return False
            except subprocess.TimeoutExpired:
                log.write(f"killed after {timeout_s:g} s\n".encode())
                return False
        return done.returncode == 0

    def last_line(self) -> str:
        """The last line that a command printed."""
        lines = self.log.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


def output(*command: str | Path) -> str:
    """Return the output of a command; empty if it fails or does not exist."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


@contextlib.contextmanager
def docker_engine(cache: Path, shell: Shell) -> Iterator[Engine]:
    """The running engine, or a private one inside the block. Raises NoEngine."""
    if shutil.which("docker") and shell.ok("docker", "version", timeout_s=20):
        shell.say("using the running Docker engine")
        _require_compose(cache, shell)
        yield Engine()
        return
    if os.geteuid() != 0:
        raise NoEngine("no Docker engine runs, and starting one needs root")
    _install_engine(shell)
    with _locked(cache / "lock", shell):
        engine = PrivateEngine(cache, shell)
        try:
            engine.start()
            _require_compose(cache, shell)
            yield engine
        finally:
            engine.stop()


class Engine:
    """The engine that ``docker`` uses by default."""

    has_network = True

    def command(self, *command: str | Path) -> list[str]:
        """``command`` as it must be run to reach the published ports of containers."""
        return [str(word) for word in command]


class PrivateEngine(Engine):
    """An engine of our own; only these tests have containers in it."""

    has_network = False

    def __init__(self, cache: Path, shell: Shell) -> None:
        self._folder = cache / "engine"
        self._shell = shell
        self._process: subprocess.Popen[bytes] | None = None
        self._namespace = ""
        self._cgroup = f"klamm-containers-{os.getpid()}"

    def command(self, *command: str | Path) -> list[str]:
        """``command`` in the engine's network namespace."""
        assert self._process is not None
        namespace = f"--net=/proc/{self._process.pid}/ns/net"
        return ["nsenter", namespace, "--", *map(str, command)]

    def start(self) -> None:
        """Start the engine and wait for it. Raises NoEngine where the kernel does not allow one."""
        self._shell.say("starting a Docker engine in a separate network namespace")
        if not self._shell.ok(*_IN_NAMESPACES, "ip link set lo up && mount -t tmpfs none /mnt"):
            raise NoEngine(f"root cannot create namespaces here: {self._shell.last_line()}")
        self._folder.mkdir(exist_ok=True)
        os.environ["DOCKER_HOST"] = f"unix://{self._folder / 'docker.sock'}"
        pid_file = self._folder / "docker.pid"
        pid_file.unlink(missing_ok=True)
        config = self._folder / "daemon.json"
        config.write_text("{}\n")
        log_path = self._folder / "engine.log"
        options = [
            *(f"--config-file={config}", f"--host={os.environ['DOCKER_HOST']}"),
            *(f"--pidfile={pid_file}", f"--data-root={self._folder / 'data'}"),
            *(f"--exec-root={self._folder / 'run'}", f"--cgroup-parent=/{self._cgroup}"),
            *("--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false"),
            "--log-level=warn",
        ]
        # No program forks on the way to dockerd, so the pid is the engine's; and the engine ends
        # with this process even if that is killed.
        script = 'ip link set lo up && exec setpriv --pdeathsig TERM dockerd "$@"'
        with log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*_IN_NAMESPACES, script, "dockerd", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if not _wait(lambda: bool(output("docker", "version")), START_TIMEOUT_S, self._process):
            said = " / ".join(log_path.read_text(errors="replace").splitlines()[-3:])
            raise NoEngine(f"the Docker engine does not start here: {said or 'no output'}")
        self._namespace = os.readlink(f"/proc/{self._process.pid}/ns/net")
        self._remove_everything()

    def stop(self) -> None:
        """Stop the engine and everything in it. Images stay in the cache folder."""
        process, self._process = self._process, None
        if process is None:
            return
        self._shell.say("stopping the engine")
        if process.poll() is None and self._namespace:
            self._remove_everything()
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in (*self._pids_in_namespace(), *self._pids_in_cgroups()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _wait(lambda: not (self._pids_in_namespace() or self._pids_in_cgroups()), STOP_TIMEOUT_S)
        for folder in sorted(self._cgroup_folders(), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _remove_everything(self) -> None:
        for listed, remove in (
            ("ps --all --quiet", "rm --force --volumes"),
            ("network ls --quiet --filter type=custom", "network rm"),
            ("volume ls --quiet", "volume rm"),
        ):
            names = output("docker", *listed.split()).split()
            if names:
                self._shell.ok("docker", *remove.split(), *names)

    def _pids_in_namespace(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns" / "net") == self._namespace:
                    found.append(int(process.name))
        return found

    def _pids_in_cgroups(self) -> list[int]:
        found = []
        for folder in self._cgroup_folders():
            with contextlib.suppress(OSError):
                found += [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
        return found

    def _cgroup_folders(self) -> list[Path]:
        """Ours and all below it, in every hierarchy: version 1 has several."""
        ours = [_CGROUPS / self._cgroup, *_CGROUPS.glob(f"*/{self._cgroup}")]
        return [folder for top in ours for folder in (top, *top.rglob("*")) if folder.is_dir()]


_IN_NAMESPACES = ("unshare", "--net", "--mount", "--propagation=private", "bash", "-c")


def _install_engine(shell: Shell) -> None:
    if all(map(shutil.which, _ENGINE_COMMANDS)):
        return
    if shutil.which("apt-get") is None:
        raise NoEngine("no Docker engine is installed, and there is no apt-get to install one")
    shell.say("installing Docker's engine with apt-get")
    # Packages must not start services: RUNLEVEL=1 prevents it.
    install = ("install", "--yes", "--no-install-recommends")
    _apt(shell, "update")
    _apt(shell, *install, *_ENGINE_PACKAGES)
    if shutil.which("docker") is None:
        _apt(shell, *install, "docker-cli")
    missing = [command for command in _ENGINE_COMMANDS if shutil.which(command) is None]
    if missing:
        raise NoEngine(f"apt-get brought no {', '.join(missing)}: {shell.last_line()}")


def _require_compose(cache: Path, shell: Shell) -> None:
    """Find compose v2, or unpack it from a later Debian. Raises NoEngine."""
    if shell.ok("docker", "compose", "version"):
        return
    plugin = cache / "cli" / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise NoEngine("docker compose (version 2) is not installed")
        shell.say("unpacking compose v2")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _unpack_compose(Path(folder), plugin, shell)
    os.environ["DOCKER_CONFIG"] = str(cache / "cli")
    if not shell.ok("docker", "compose", "version"):
        plugin.unlink()
        raise NoEngine(f"compose v2 does not run: {shell.last_line()}")


def _unpack_compose(folder: Path, plugin: Path, shell: Shell) -> None:
    """Unpack the package of a later Debian, from the mirror that apt uses here."""
    wanted = ("Created-By: Packages", "Label: Debian")
    uris = output("apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted).split()
    mirror = next((uri for uri in uris if "security" not in uri), None)
    if mirror is None:
        raise NoEngine("docker compose is missing, and apt has no Debian source to take it from")
    source = folder / "later.sources"
    source.write_text(
        f"Types: deb\nURIs: {mirror}\nSuites: {COMPOSE_SUITE}\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = [
        f"Dir::State::lists={folder / 'lists'}",
        f"Dir::Cache={folder / 'cache'}",
        f"Dir::Etc::sourcelist={source}",
        "Dir::Etc::sourceparts=/nonexistent",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "Acquire::Languages=none",
        "APT::Sandbox::User=root",
    ]
    private = [word for option in options for word in ("-o", option)]
    _apt(shell, *private, "update")
    _apt(shell, *private, "download", "docker-compose", cwd=folder)
    package = next(folder.glob("docker-compose_*.deb"), None)
    if package is None or not shell.ok("dpkg", "-x", package, folder / "unpacked"):
        raise NoEngine(f"compose v2 is not available: {shell.last_line()}")
    programs = (folder / "unpacked").rglob("docker-compose")
    program = next(path for path in programs if path.is_file() and os.access(path, os.X_OK))
    plugin.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(program, plugin)


def _apt(shell: Shell, *arguments: str, cwd: Path | None = None) -> None:
    """apt-get, which waits for the locks of others."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ("apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *arguments)

    def is_done() -> bool:
        return shell.ok(*command, timeout_s=600, env=environ, cwd=cwd) or (
            "Could not get lock" not in shell.log.read_text(errors="replace")[-2000:]
        )

    _wait(is_done, 120, interval_s=5.0)


@contextlib.contextmanager
def _locked(path: Path, shell: Shell) -> Iterator[None]:
    """One private engine at a time in a cache folder."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            shell.say("waiting for another run of the container tests")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _wait(
    condition: Callable[[], bool],
    timeout_s: float,
    process: subprocess.Popen[bytes] | None = None,
    interval_s: float = 0.1,
) -> bool:
    """True once ``condition`` holds; False after ``timeout_s``, or if ``process`` has ended."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s or (process is not None and process.poll() is not None):
            return False
        _never.wait(interval_s)
    return True
