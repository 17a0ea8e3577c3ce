"""A separate Docker engine with its own data, socket and folders, which tests may stop, kill, starve and restart.

It needs root, or `sudo` without a password, and `dockerd`; without them the tests that use it fail.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker

from sandbox.engines.discovery import connect
from sandbox.errors import EngineUnavailable
from tests.waiting import until

_START_SECONDS = 60.0


def engine_answers(address: str, seconds: float = 5) -> bool:
    try:
        connect(address, timeout=seconds).close()
    except EngineUnavailable:
        return False
    return True


class PrivateEngine:
    """One dockerd.

    `runtimes` are additional runtimes by name, as in its configuration file. `shows` maps paths that only this engine
    sees to folders of the host, like an engine on a separate machine.
    """

    def __init__(
        self,
        folder: Path,
        runtimes: Mapping[str, Mapping[str, object]] | None = None,
        shows: Mapping[Path, Path] | None = None,
    ) -> None:
        self._shows = dict(shows or {})
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.address = f"unix://{self.socket}"
        self.log = folder / "dockerd.log"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "daemon.json").write_text(json.dumps({"runtimes": dict(runtimes or {})}))

    def start(self) -> None:
        """Starts dockerd and returns when it answers."""
        self._end_helper()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_root(), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(lambda: self.answers() or self._ended, _START_SECONDS)
        assert not self._ended, f"the private engine did not start:\n{self.log.read_text()[-2000:]}"

    def _command(self) -> list[str]:
        name = self.folder.name
        binds = [f'mount --bind "{source}" "{place}";' for place, source in self._shows.items()]
        # in a separate network namespace, because an engine without a bridge removes that of the host's engine
        private_mounts = ["--mount", "sh", "-ec", " ".join([*binds, 'exec "$@"']), "sh"]
        return [
            *("unshare", "--net", *(private_mounts if binds else [])),
            "dockerd",
            f"--config-file={self.folder / 'daemon.json'}",
            f"--host={self.address}",
            f"--group={os.getegid()}",
            f"--data-root={self.folder / 'data'}",
            f"--exec-root={self.folder / 'exec'}",
            f"--pidfile={self.folder / 'docker.pid'}",
            f"--containerd-namespace={name}",
            f"--containerd-plugins-namespace={name}-plugins",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
        ]

    @property
    def inside(self) -> list[str]:
        """A command prefix that runs a command where this engine sees its files."""
        pid = (self.folder / "docker.pid").read_text().strip()
        return [*_as_root(), "nsenter", f"--mount=/proc/{pid}/ns/mnt"]

    @property
    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def answers(self) -> bool:
        return engine_answers(self.address)

    def client(self, seconds: float = 60.0) -> contextlib.closing[docker.DockerClient]:
        return contextlib.closing(docker.DockerClient(base_url=self.address, timeout=seconds))

    def load(self, source: docker.DockerClient, reference: str) -> None:
        """Copies an image from another engine, with its name."""
        with self.client(seconds=300) as client:
            client.images.load(source.images.get(reference).save(chunk_size=1 << 20, named=reference))

    def stop(self) -> None:
        """Stops dockerd as an administrator would; its containers end with it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills dockerd as the kernel would; its containers keep running."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        pid = (self.folder / "docker.pid").read_text().strip() if _as_root() else str(process.pid)
        subprocess.run([*_as_root(), "kill", f"-{number}", pid], check=False)
        process.wait(_START_SECONDS)

    def _end_helper(self) -> None:
        """Ends the containerd of a dockerd that was killed.

        It dies with dockerd, but until it is reaped, its process id looks alive.
        """
        noted = self.folder / "exec/containerd/containerd.pid"
        with contextlib.suppress(OSError, ValueError):
            pid = int(noted.read_text())
            if str(self.folder) in Path(f"/proc/{pid}/cmdline").read_text():
                subprocess.run([*_as_root(), "kill", "-9", str(pid)], check=False)
                until(lambda: not Path(f"/proc/{pid}/cmdline").read_text())
        subprocess.run([*_as_root(), "rm", "-f", str(noted)], check=False)

    def _end_shims(self) -> None:
        """Ends the shims that hold the containers of a dockerd that was killed.

        They outlive dockerd and are recognized by the engine's own containerd namespace.
        """
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if f"-namespace\0{self.folder.name}\0".encode() in file.read_bytes():
                    subprocess.run([*_as_root(), "kill", "-9", file.parent.name], check=False)

    def remove(self) -> None:
        """Ends the engine and everything that it started, and removes its folders."""
        with contextlib.suppress(docker.errors.DockerException, OSError), self.client(seconds=20) as client:
            for container in client.containers.list(all=True, ignore_removed=True):
                with contextlib.suppress(docker.errors.APIError):
                    container.remove(force=True)
        self.stop()
        self._end_helper()
        self._end_shims()
        for point in _mounts_below(self.folder):
            subprocess.run([*_as_root(), "umount", "--lazy", point], check=False)
        if _as_root():
            subprocess.run([*_as_root(), "rm", "-rf", str(self.folder)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def private_engine(
    runtimes: Mapping[str, Mapping[str, object]] | None = None, shows: Mapping[Path, Path] | None = None
) -> Iterator[PrivateEngine]:
    """A started engine, removed at the end.

    Its folder has a short name, because the path of a socket may have at most 107 bytes.
    """
    if shutil.which("dockerd") is None:
        raise AssertionError("these tests start an engine of their own. Install Docker's daemon, dockerd.")
    folder = Path(tempfile.gettempdir()) / f"gme-{secrets.token_hex(4)}"
    # its name is also that of a namespace, in which `_` may be neither last nor next to another sign
    folder.mkdir(mode=0o700)
    engine = PrivateEngine(folder, runtimes, shows)
    try:
        engine.start()
        yield engine
    finally:
        engine.remove()


def _as_root() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


def _mounts_below(folder: Path) -> list[str]:
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if Path(point).is_relative_to(folder)), reverse=True)
