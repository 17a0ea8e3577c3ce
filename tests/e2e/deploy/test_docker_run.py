"""The server in a container over stdio, as clients start it: `docker run -i` with only the socket and the workspace."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from gdal_mcp.runtime.image import Image
from gdal_mcp.testing.samples import write_samples
from tests.e2e.deploy.proxy_kit import engine_socket
from tests.e2e.deploy.server_image import TAG
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import ERAS
from tests.engines.kit import not_tried
from tests.private_engine import PrivateEngine, private_engine
from tests.waiting import until

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

OWNER = (1234, 1235)  # neither root nor the user of the tests
SHARE = Path("/tmp/gdal-mcp-desktop")
CONFINED = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]


@pytest.fixture(scope="module", autouse=True)
def _root() -> None:
    if os.geteuid() != 0:
        not_tried("the image over stdio", "folders of other users are made by root")


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    return filled(tmp_path / "maps", OWNER)


def filled(folder: Path, owner: tuple[int, int], mode: int = 0o755) -> Path:
    folder.mkdir()
    write_samples(folder)
    for path in (*folder.iterdir(), folder):
        os.chown(path, *owner)
    folder.chmod(mode)
    return folder


class Server:
    """The arguments with which `docker run` starts a server; `name` is the name of its container."""

    def __init__(self, built: str, image: Image, maps: Path, socket: Path) -> None:
        self.image, self.name = image, f"gdal-mcp-run-{uuid.uuid4().hex[:8]}"
        self._built, self._maps, self._socket = built, maps, socket
        self.option = "--workspace"

    def command(self, *options: str, inside: str = "", words: tuple[str, ...] = ("serve",)) -> list[str]:
        place = inside or str(self._maps)
        arguments = [f"--env=GDAL_MCP_IMAGE={self.image.id}", f"--volume={self._maps}:{place}"]
        arguments += [f"--volume={self._socket}:/var/run/docker.sock", "--name", self.name]
        run = ["docker", "--host", f"unix://{self._socket}", "run", "-i", "--rm"]
        run += [] if any(option.startswith("--publish") for option in options) else ["--network=none"]
        return [*run, *arguments, *options, self._built, *words, self.option, place]

    @contextmanager
    def talk(self, log: Path, *options: str, era: str = ERAS[0], inside: str = "") -> Iterator[Pipes]:
        passed = {name: value for name, value in os.environ.items() if name == "HOME"}
        with piped(self.command(*options, inside=inside), log, era=era, env=passed) as pipes:
            pipes.hello()
            yield pipes

    def runs(self, *options: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        command = self.command(*options, words=words)
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def server(client: docker.DockerClient, built: str, image: Image, maps: Path) -> Server:
    return Server(built, image, maps, engine_socket(client))


def converted(pipes: Pipes, name: str) -> str:
    """The output path of a call that must succeed."""
    result = pipes.call("convert", {"input": "dem.tif", "output": name})["structuredContent"]
    assert "output" in result, result
    return str(result["output"])


@pytest.mark.claim("engine.root-given-up")
def test_it_needs_no_other_option(server: Server, maps: Path, tmp_path: Path, client: docker.DockerClient):
    with server.talk(tmp_path / "log", "--env=GDAL_MCP_APPROVAL=never") as pipes:
        converted(pipes, "copy.tif")
        container = client.containers.get(server.name)
        lines = container.exec_run(["cat", "/proc/1/status"]).output.decode().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        assert json.loads(container.exec_run(["gdal-mcp", "approve", "--json"]).output) == []
    assert status["Uid"].split() == [str(OWNER[0])] * 4
    assert (status["CapEff"].strip("0"), status["CapPrm"].strip("0"), status["NoNewPrivs"]) == ("", "", "1")
    written = (maps / "copy.tif").stat()
    assert (written.st_uid, written.st_gid) == OWNER
    until(lambda: not client.containers.list(all=True, filters={"name": server.name}, ignore_removed=True))


def test_confined_it_takes_the_options_that_it_names(server: Server, maps: Path, tmp_path: Path):
    refused = server.runs(*CONFINED, words=("serve",))
    assert refused.returncode != 0
    named = refused.stderr.partition("docker run: ")[2].split()
    volume = f"{server.name}-state"
    named = [word.replace("gdal-mcp:", f"{volume}:") for word in named]
    try:
        with server.talk(tmp_path / "log", *CONFINED, *named, "--env=GDAL_MCP_APPROVAL=never") as pipes:
            converted(pipes, "b.tif")
        assert (maps / "b.tif").stat().st_uid == OWNER[0]
        # the records are there for the next server, which starts as root
        ended = server.runs(f"--volume={volume}:/var/lib/gdal-mcp", words=("audit", "tail"))
        assert "b.tif" in ended.stdout, ended.stderr
    finally:
        subprocess.run(["docker", "volume", "rm", volume], check=False, capture_output=True)


@pytest.mark.parametrize("mode", [0o755, 0o777], ids=["roots-own", "everybodys"])
def test_a_workspace_of_root_is_served(server, maps, tmp_path, mode, image, built, client):
    own = filled(tmp_path / "roots", (0, 0), mode)
    serving = Server(built, image, own, engine_socket(client))
    with serving.talk(tmp_path / "log", "--env=GDAL_MCP_APPROVAL=never") as pipes:
        converted(pipes, "c.tif")
    assert (own / "c.tif").stat().st_uid == (0 if mode == 0o755 else 10001)


def test_containerised_server_without_socket_names_what_is_missing(server: Server, tmp_path: Path):
    command = [word for word in server.command() if not word.endswith(":/var/run/docker.sock")]
    with piped(command, tmp_path / "log") as pipes:
        assert pipes.hello()["serverInfo"]
        error = pipes.call("info", {"path": "dem.tif"})["structuredContent"]["error"]
    assert error["code"] == "ENGINE_UNAVAILABLE"
    assert "/var/run/docker.sock" in error["message"]


@pytest.fixture
def network(server: Server, client: docker.DockerClient) -> Iterator[str]:
    """A separate network, because an engine need not have the default one."""
    created = client.networks.create(server.name)
    yield server.name
    created.remove()


def test_the_console_is_offered_where_its_port_leads(server: Server, network: str, tmp_path: Path, client):
    for port, offered in (("127.0.0.1::8000", True), ("0.0.0.0::8000", False)):
        options = (f"--publish={port}", f"--network={network}", "--env=GDAL_MCP_CONSOLE=on")
        with server.talk(tmp_path / "log", *options) as pipes:
            pipes.call("info", {"path": "dem.tif"})
            container = client.containers.get(server.name)
            output = container.exec_run(["gdal-mcp", "console"], stderr=False).output.decode()
            published = container.attrs["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"]
            assert output.startswith(f"http://127.0.0.1:{published}/") == offered


# --- an engine in a separate machine ---


@pytest.fixture(scope="module")
def desktop(client: docker.DockerClient, built: str, image: Image) -> Iterator[tuple[PrivateEngine, Path]]:
    """An engine that alone sees `maps` below SHARE, and this host's name of that folder."""
    shutil.rmtree(SHARE, ignore_errors=True)
    (SHARE / "c" / "maps").mkdir(parents=True)
    maps = filled(SHARE / "maps", OWNER)
    try:
        with private_engine(shows={SHARE / "c" / "maps": maps}) as engine:
            for reference in (TAG, image.reference):
                engine.load(client, reference)
            yield engine, maps
    finally:
        shutil.rmtree(SHARE, ignore_errors=True)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("inside", ["/maps", str(SHARE / "c" / "maps")], ids=["windows", "macos"])
def test_folders_of_another_machine_are_found(desktop, built, image, tmp_path, era, inside):
    engine, maps = desktop
    server = Server(built, image, SHARE / "c" / "maps", engine.socket)
    with server.talk(tmp_path / "log", "--env=GDAL_MCP_APPROVAL=never", era=era, inside=inside) as pipes:
        name = f"{uuid.uuid4().hex}.tif"
        assert converted(pipes, name) == f"{inside}/{name}"
    assert (maps / name).stat().st_uid == OWNER[0]


@pytest.fixture
def shared(desktop: tuple[PrivateEngine, Path]) -> Iterator[Callable[[Path], None]]:
    """Mounts a folder through FUSE where the engine sees the maps, each time with another device number."""
    engine, place, running = desktop[0], SHARE / "c" / "maps", []

    def points() -> int:
        table = subprocess.run(
            [*engine.inside, "cat", "/proc/self/mountinfo"], capture_output=True, check=True
        )
        return table.stdout.count(f" {place} ".encode())

    def mount(folder: Path) -> None:
        before = points()
        running.append(
            subprocess.Popen([*engine.inside, "bindfs", "-f", "-o", "nonempty", str(folder), str(place)])
        )
        until(lambda: points() > before)

    yield mount
    for process in reversed(running):
        subprocess.run([*engine.inside, "umount", "--lazy", str(place)], check=True)
        process.wait(30)


@pytest.mark.parametrize("option", ["--workspace", "--workspace-ro"])
def test_share_without_device_numbers_is_identified_by_names(desktop, shared, built, image, tmp_path, option):
    """The calls' containers have another mount than the server, as on Docker Desktop, and only the correct one is
    accepted.
    """
    engine, maps = desktop
    server = Server(built, image, SHARE / "c" / "maps", engine.socket)
    server.option = option
    shared(maps)
    with server.talk(tmp_path / "log", inside="/maps") as pipes:
        shared(filled(tmp_path / "other", OWNER))
        (tmp_path / "other" / "more.txt").touch()
        refused = pipes.call("info", {"path": "dem.tif"})["structuredContent"]["error"]
        assert "/maps" in refused["message"], refused
        assert refused["code"] == "ENGINE_UNAVAILABLE"
        shared(maps)
        assert "size" in pipes.call("info", {"path": "dem.tif"})["structuredContent"]
