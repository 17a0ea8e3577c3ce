"""Which engine is used; an engine that a person named is never replaced by another."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from socket_engine import VERSION, socket_engine

from sandbox.engines import discovery
from sandbox.engines.discovery import EngineRefused, connect, discover, endpoints
from sandbox.engines.opening import open_engine
from sandbox.errors import EngineUnavailable


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder without any engine; a short path, because a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="e") as folder:
        for name in list(os.environ):
            if name.startswith("DOCKER_"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{folder}/run")
        monkeypatch.setattr(discovery, "DOCKER_SOCKET", f"{folder}/docker.sock")
        monkeypatch.setattr(discovery, "PODMAN_SOCKET", f"{folder}/podman.sock")
        yield Path(folder)


def make_context(home: Path, name: str, engine: dict) -> Path:
    place = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker/contexts/meta" / place
    meta.mkdir(parents=True)
    content = {"Name": name, "Metadata": {}, "Endpoints": {"docker": engine}}
    (meta / "meta.json").write_text(json.dumps(content))
    return home / ".docker/contexts/tls" / place / "docker"


def choose_context(home: Path, name: str) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


@pytest.mark.parametrize(
    "place",
    """
        docker.sock run/docker.sock .docker/run/docker.sock .docker/desktop/docker.sock
        .colima/default/docker.sock .orbstack/run/docker.sock .rd/docker.sock run/podman/podman.sock
        podman.sock .config/colima/default/docker.sock .lima/docker/sock/docker.sock
        .local/share/containers/podman/machine/podman.sock
    """.split(),
)
def test_an_engine_at_a_known_socket_is_found(home: Path, place: str) -> None:
    with socket_engine(home / place):
        endpoint, client = discover()
        assert endpoint.address == f"unix://{home / place}"
        assert client.version() == VERSION
        client.close()


def test_docker_comes_before_podman(home: Path) -> None:
    with socket_engine(home / "run/podman/podman.sock") as podman, socket_engine(home / "docker.sock"):
        assert discover()[0].address == f"unix://{home}/docker.sock"
        assert podman.requests == []


def test_a_dead_socket_is_passed_over(home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(home / "docker.sock"))
    with socket_engine(home / "podman.sock"):
        assert discover()[0].address == f"unix://{home}/podman.sock"


def test_no_engine_names_every_place_that_was_tried(home: Path) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        connect()
    assert not isinstance(caught.value, EngineRefused)
    for place in endpoints(None, os.environ):
        assert place.address in str(caught.value)


@pytest.mark.parametrize("how", ["address", "DOCKER_HOST", "DOCKER_CONTEXT", "currentContext"])
def test_silent_named_engine_is_never_replaced(home, monkeypatch, how):
    silent = f"unix://{home}/silent.sock"
    make_context(home, "mine", {"Host": silent})
    if how == "DOCKER_HOST":
        monkeypatch.setenv("DOCKER_HOST", silent)
    elif how == "DOCKER_CONTEXT":
        monkeypatch.setenv("DOCKER_CONTEXT", "mine")
    elif how == "currentContext":
        choose_context(home, "mine")
    with socket_engine(home / "docker.sock") as other:
        with pytest.raises(EngineRefused):
            connect(silent if how == "address" else None)
        assert other.requests == []


def test_what_is_more_explicit_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_context(home, "first", {"Host": "unix:///first"})
    make_context(home, "second", {"Host": "unix:///second"})
    choose_context(home, "second")
    assert [place.address for place in endpoints(None, os.environ)] == ["unix:///second"]
    monkeypatch.setenv("DOCKER_CONTEXT", "first")
    assert [place.address for place in endpoints(None, os.environ)] == ["unix:///first"]
    monkeypatch.setenv("DOCKER_HOST", "unix:///host")
    assert [place.address for place in endpoints(None, os.environ)] == ["unix:///host"]
    assert [place.address for place in endpoints("/run/mine.sock", os.environ)] == ["unix:///run/mine.sock"]


def test_the_default_context_means_looking_around(home: Path) -> None:
    for chosen in ("default", ""):
        choose_context(home, chosen)
        assert len(endpoints(None, os.environ)) > 1


def test_broken_configuration_is_an_error(home: Path) -> None:
    choose_context(home, "x")
    with socket_engine(home / "docker.sock") as other:
        for config in ("{", "[]", "7"):
            (home / ".docker/config.json").write_text(config)
            with pytest.raises(EngineRefused):
                connect()
        assert other.requests == []


def test_context_without_engine_is_an_error(home: Path) -> None:
    choose_context(home, "mine")
    with socket_engine(home / "docker.sock"):
        with pytest.raises(EngineRefused):
            connect()
        make_context(home, "mine", {})
        (meta,) = (home / ".docker/contexts/meta").glob("*/meta.json")
        for text in ("{}", "{", '{"Endpoints": {"docker": {}}}', '{"Endpoints": []}', "[]"):
            meta.write_text(text)
            with pytest.raises(EngineRefused):
                connect()


@pytest.mark.claim("engine.weak-refused")
def test_engine_with_certificates_is_remote(home, monkeypatch):
    make_context(home, "far", {"Host": "tcp://engine.test:2376"}).mkdir(parents=True)
    choose_context(home, "far")
    with pytest.raises(EngineRefused):
        endpoints(None, os.environ)
    for name in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        environment = {"HOME": str(home), name: "1", "DOCKER_HOST": "tcp://engine.test:2376"}
        with pytest.raises(EngineRefused):
            endpoints(None, environment)
        assert endpoints(None, {**environment, "DOCKER_HOST": "unix:///here"})[0].address == "unix:///here"


def test_an_address_that_cannot_serve_is_an_error(home: Path) -> None:
    for address in ("ssh://me@engine.test", "https://engine.test", "foo://x", "tcp://", "tcp://127.0.0.1:1"):
        with pytest.raises(EngineRefused):
            connect(address)


def test_forbidden_socket_differs_from_absent_one(home, monkeypatch):
    class Refused(socket.socket):
        def connect(self, path: str) -> None:
            if path.endswith("/docker.sock"):
                raise PermissionError(13, "Permission denied")
            raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(socket, "socket", Refused)  # file permissions do not stop root, who may run the tests
    with pytest.raises(EngineRefused):
        connect()


def test_client_keeps_the_requested_timeout(home: Path) -> None:
    with socket_engine(home / "docker.sock"):
        client = connect(timeout=123)
        assert client.api.timeout == 123
        client.close()


def test_command_prints_address_and_signals_silent_named_engine(home: Path) -> None:
    address = f"unix://{home}/docker.sock"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}

    def printed_address() -> tuple[int, str]:
        # an engine is named, because other sockets cannot be hidden from another process; the set-up script relies on
        # it too
        environment = {**inherited, "HOME": str(home), "DOCKER_HOST": address}
        command = [sys.executable, "-m", "scripts.find_engine", "--daemon"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    with socket_engine(home / "docker.sock"):
        assert printed_address() == (0, f"{address}\n")
    assert printed_address() == (2, "")


def test_engine_is_opened_by_address_of_known_kind(home: Path) -> None:
    here = f"{home}/docker.sock"
    with socket_engine(home / "docker.sock"):
        for address in ("docker:", f"docker:unix://{here}", here):
            with closing(open_engine(address)) as engine:
                info = engine.info()
                assert (info.name, info.architecture, info.same_kernel) == ("Docker", "x86_64", False)
                assert engine.images.find("absent") is None
        for address in ("podman:", f"podman:unix://{here}"):
            with pytest.raises(EngineUnavailable):
                open_engine(address)
