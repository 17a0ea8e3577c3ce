"""kill -9 of the client, the server or the engine during a call: after the next start, nothing of the call is left.

The kills are distributed over the duration of a call. `docs/engines.md` has the table that the test prints at its
end.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from sandbox.engines.docker import DockerEngine
from sandbox.engines.oci.container import _kill_runtimes
from sandbox.engines.podman import PodmanEngine
from tests.e2e.mcp.talk import Place
from tests.engines.kit import podman_service
from tests.oci_store import oci_engine
from tests.private_engine import PrivateEngine, private_engine
from tests.security.faults.kit import prepared_place
from tests.security.faults.orphans import Host, Tally, kill_calls, row

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.engine,
    pytest.mark.timeout(3600),
    pytest.mark.claim("faults.server-killed-at-any-step", "sandbox.leftovers"),
]

KILLS = {"docker": 8, "crun": 6, "runc": 6, "podman": 6}  # kills of each victim
VICTIMS = ("client", "server", "engine")


TABLE: dict[tuple[str, str], Tally] = {}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return prepared_place(tmp_path_factory.mktemp("orphans"))


@pytest.fixture(scope="module")
def hosts(client: docker.DockerClient, image: Image) -> Iterator[dict[str, Host]]:
    with (
        private_engine() as private,
        private.client() as own,
        podman_service() as podman,
        contextlib.closing(podman.client()) as of_podman,
    ):
        private.load(client, image.reference)
        podman.load(client, image.reference)
        store = oci_engine(client, image)
        address = store.info().address

        def kill_daemon(_host: Host, _owners: set[str]) -> None:
            private.kill()

        def kill_service(_host: Host, _owners: set[str]) -> None:
            podman.end(signal.SIGKILL)

        def revive_service() -> None:
            if not podman.answers():
                podman.start()

        def kill_runtime(host: Host, owners: set[str]) -> None:
            """Kills the running runtime and the container's first process: without a daemon, the runtime is the
            engine.
            """
            for container in host.containers(owners):
                _kill_runtimes(container)
                if process := host.engine.container(container).process():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)

        named = ("--image", image.reference, "--approval", "never")
        yield {
            "docker": Host(
                ("--engine", private.address, *named), DockerEngine(own), kill_daemon, lambda: revive(private)
            ),
            "podman": Host(
                ("--engine", f"podman:{podman.address}", *named),
                PodmanEngine(of_podman),
                kill_service,
                revive_service,
            ),
            **{
                name: Host(
                    ("--engine", address, *named), store, kill_runtime, environment={"GDAL_MCP_RUNTIME": name}
                )
                for name in ("crun", "runc")
            },
        }


def revive(private: PrivateEngine) -> None:
    if not private.answers():
        private.start()


@pytest.mark.parametrize(("name", "victim"), [(name, victim) for name in KILLS for victim in VICTIMS])
def test_kill_during_a_call_leaves_nothing_after_restart(
    hosts: dict[str, Host], place: Place, tmp_path: Path, name: str, victim: str
) -> None:
    TABLE[name, victim] = kill_calls(place, hosts[name], victim, KILLS[name], tmp_path / "log")
    print(*(row(*key, tally) for key, tally in TABLE.items()), sep="\n")
