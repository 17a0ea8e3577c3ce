"""Engines that only the tests use, and the bench for each of them."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import docker
import pytest

from sandbox.engine import Engine
from sandbox.engines import docker as docker_module
from sandbox.engines.docker import DockerEngine
from sandbox.template import Limits
from tests.engines.bench import LIMITS, Bench
from tests.private_engine import engine_answers
from tests.waiting import until

_ANSWER_SECONDS = 60.0


@contextlib.contextmanager
def bench_on(
    engine: Engine,
    image: str,
    gone: Callable[[], Engine],
    runtime: str = "",
    limits: Limits = LIMITS,
    **changes: Any,
) -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="gme-bench-"))
    folder.chmod(0o755)
    bench = Bench(engine, image, folder, runtime, gone, limits, **changes)
    try:
        yield bench
        assert bench.ours() == {}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unanswered(kind: type[DockerEngine] = DockerEngine) -> DockerEngine:
    """An engine at an address where nothing listens, as after its daemon ended."""
    engine = kind(docker.DockerClient(base_url="unix:///nonexistent/engine.sock", version="1.41"))
    engine.removal_seconds = 0.0  # no engine will answer later either
    return engine


def weaken_docker(monkeypatch: pytest.MonkeyPatch, change: Callable[..., object]) -> None:
    """Makes Docker's engine apply `change(body, host)` to each request and hide the change from inspection."""
    real = docker_module.create_body

    def body(*arguments: Any) -> dict[str, Any]:
        request = real(*arguments)
        change(request, request["HostConfig"])
        return request

    monkeypatch.setattr(docker_module, "create_body", body)
    monkeypatch.setattr(docker_module, "differences", lambda _requested, _inspected, **_: ())


def not_tried(engine: str, reason: str) -> NoReturn:
    """Skips a test that this system or this user cannot run; a missing installation fails instead. pytest lists it at
    the end of the run.
    """
    pytest.skip(f"{engine} is NOT TRIED HERE: {reason}")


class PodmanService:
    """A separate Podman with its own images, containers and socket; the machine's own Podman is not touched.

    `user` is the user that it runs as. A user other than root gets 65536 additional ids, in a separate mount
    namespace.
    """

    def __init__(self, folder: Path, user: int = 0) -> None:
        self.folder, self._user = folder, user
        self.address = f"unix://{folder / 'podman.sock'}"
        self.log = folder / "log"
        places = (f"--{name}={folder / name}" for name in ("root", "runroot", "tmpdir"))
        # the only cgroup manager and the only event log that do not need systemd
        self.command = ["podman", *places, "--cgroup-manager=cgroupfs", "--events-backend=file"]
        if user:
            self.command = [*self._as_user(), *self.command]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the service and waits until it answers."""
        with self.log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [*self.command, "system", "service", "--time=0", self.address],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,  # a folder that every user may enter
                start_new_session=True,  # without root, Podman starts itself once more as another process
            )
        until(lambda: self.answers() or process.poll() is not None, _ANSWER_SECONDS)
        assert process.poll() is None, self.log.read_text()[-2000:]

    def end(self, number: int = signal.SIGTERM) -> None:
        """Sends a signal to the service and waits for its end; its containers keep running."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, number)
            process.wait(_ANSWER_SECONDS)
            until(lambda: not self.answers())

    def _as_user(self) -> list[str]:
        """A command prefix that runs a program as the user, with an id file mounted over /etc/subuid and /etc/subgid.

        The kernel gives a user additional ids only from these two files.
        """
        for name in ("home", "run"):
            (self.folder / name).mkdir(mode=0o700)
        for folder in (self.folder, self.folder / "home", self.folder / "run"):
            os.chown(folder, self._user, self._user)
        ids = self.folder / "ids"
        ids.write_text(f"{pwd.getpwuid(self._user).pw_name}:300000:65536\n")
        script = 'mount --bind $0 /etc/subuid && mount --bind $0 /etc/subgid && exec "$@"'
        become = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"]
        own = [f"HOME={self.folder}/home", f"XDG_RUNTIME_DIR={self.folder}/run", f"PATH={os.environ['PATH']}"]
        return ["unshare", "--mount", "sh", "-c", script, str(ids), *become, "env", "-i", *own]

    def load(self, source: docker.DockerClient, reference: str) -> None:
        with subprocess.Popen([*self.command, "load", "--quiet"], stdin=subprocess.PIPE) as loading:
            assert loading.stdin is not None
            for piece in source.images.get(reference).save(chunk_size=1 << 20, named=reference):
                loading.stdin.write(piece)
        assert loading.returncode == 0

    def answers(self) -> bool:
        return engine_answers(self.address, 60)

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.address, timeout=60)


@contextlib.contextmanager
def podman_service(user: int = 0) -> Iterator[PodmanService]:
    if shutil.which("podman") is None:
        raise AssertionError("Podman is not here. `make engines` installs it where it may.")
    if os.geteuid() != 0:
        not_tried("Podman", "only root can start one of root's, or one of another user's")
    folder = Path(tempfile.mkdtemp(prefix="gme-podman-"))
    folder.chmod(0o755)
    service = PodmanService(folder, user)
    try:
        service.start()
        yield service
    finally:
        service.end()
        subprocess.run([*service.command, "rm", "--all", "--force"], check=False, capture_output=True)
        mounted = str(service.folder / "root/overlay")
        subprocess.run(["umount", "--lazy", mounted], check=False, capture_output=True)
        shutil.rmtree(service.folder, ignore_errors=True)
