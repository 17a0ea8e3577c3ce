"""Which image is used, what is refused, and how one is brought here. The engine is a fake behind the real SDK."""

import io
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from hypothesis import given
from hypothesis import strategies as st
from socket_engine import SocketEngine, socket_engine

from gdal_mcp.host import image as images
from gdal_mcp.host import pulling as registry_pull
from gdal_mcp.host import standin
from gdal_mcp.host.image import (
    OFFICIAL,
    Image,
    ImageUnsuitable,
    ensure,
    parse_version,
    resolve,
    version_warning,
)
from gdal_mcp.host.pulling import Progress, PullFailed
from sandbox.engines.discovery import connect
from sandbox.errors import EngineUnavailable, ImageMissing

ID = "sha256:" + "1" * 64
DIGEST = "sha256:" + "d" * 64


def body(
    version: str | None = "3.13.3", label: str = "org.opencontainers.image.version", **more: object
) -> dict:
    labels = {label: version} if version else None
    return {
        "Id": ID,
        "RepoDigests": [],
        "Config": {"Labels": labels, "Env": ["PATH=/bin", "LD_PRELOAD=x"]},
        **more,
    }


def standin_body(version: str) -> dict:
    made = body(version, standin.VERSION_LABEL)
    made["Config"]["Labels"][standin.LABEL] = "true"
    return made


@pytest.fixture
def engine() -> Iterator[SocketEngine]:
    # a socket's path has at most 107 bytes, which pytest's folders may exceed
    with tempfile.TemporaryDirectory(prefix="e") as folder, socket_engine(Path(folder) / "e.sock") as made:
        yield made


@pytest.fixture
def client(engine: SocketEngine) -> Iterator[docker.DockerClient]:
    connected = connect(f"unix://{engine.server_address}")
    engine.requests.clear()
    yield connected
    connected.close()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, engine: SocketEngine) -> list[str]:
    """The stand-ins that were built; building one takes a minute and the network."""
    names: list[str] = []

    def build(_client: docker.DockerClient, _report: object, _oldest: tuple[int, int]) -> str:
        names.append("gdal-mcp-standin:3.13.3")
        engine.images[names[-1]] = standin_body("3.13.3")
        return names[-1]

    monkeypatch.setattr(standin, "build", build)
    return names


def silent(_line: str) -> None:
    pass


def test_the_official_image_is_preferred(engine: SocketEngine, client: docker.DockerClient) -> None:
    engine.images = {
        "gdal-mcp-standin:3.14.0": standin_body("3.14.0"),
        OFFICIAL: body(RepoDigests=[f"elsewhere/gdal@{ID}", f"ghcr.io/osgeo/gdal@{DIGEST}"]),
    }
    assert resolve(client) == Image(OFFICIAL, ID, DIGEST, "3.13.3", False, ("LD_PRELOAD", "PATH"))


def test_the_newest_standin_is_next(engine: SocketEngine, client: docker.DockerClient) -> None:
    for version in ("3.9.9", "3.13.3", "3.12.10"):
        engine.images[f"gdal-mcp-standin:{version}"] = standin_body(version)
    found = resolve(client)
    assert (found.reference, found.standin, found.digest) == ("gdal-mcp-standin:3.13.3", True, ID)


@pytest.mark.claim("supply.image-named")
def test_an_image_can_be_named_by_its_digest(engine: SocketEngine, client: docker.DockerClient) -> None:
    pinned = f"ghcr.io/osgeo/gdal@{DIGEST}"
    engine.images = {OFFICIAL: body(Id=f"sha256:{'9' * 64}"), pinned: body(RepoDigests=[pinned])}
    found = resolve(client, pinned)
    assert (found.reference, found.id, found.digest) == (pinned, ID, DIGEST)


@pytest.mark.claim("sandbox.image-by-content")
def test_resolving_asks_the_engine_twice_at_most(engine: SocketEngine, client: docker.DockerClient) -> None:
    engine.images["gdal-mcp-standin:3.13.3"] = standin_body("3.13.3")
    resolve(client)
    assert len(engine.requests) <= 2


@pytest.mark.claim("supply.image-named")
@pytest.mark.parametrize(
    "name", ["not-gdal-mcp-standin:3.13.3", "gdal-mcp-standin:latest", "evil/gdal-mcp-standin:3.13.3"]
)
def test_a_name_that_only_resembles_a_standin_is_not_used(
    engine: SocketEngine, client: docker.DockerClient, name: str
) -> None:
    engine.images[name] = standin_body("3.13.3")
    with pytest.raises(ImageMissing):
        resolve(client)


@pytest.mark.claim("supply.image-named")
def test_a_named_image_that_is_absent_is_not_replaced(
    engine: SocketEngine, client: docker.DockerClient
) -> None:
    engine.images = {OFFICIAL: body(), "gdal-mcp-standin:3.13.3": standin_body("3.13.3")}
    with pytest.raises(ImageMissing):
        resolve(client, "mine/gdal:3.13.3")


def test_without_any_image_none_is_made_up(engine: SocketEngine, client: docker.DockerClient) -> None:
    with pytest.raises(ImageMissing):
        resolve(client)
    assert not [request for request in engine.requests if "create" in request]


@pytest.mark.claim("supply.image-named")
def test_a_name_alone_does_not_make_an_image_a_standin(
    engine: SocketEngine, client: docker.DockerClient
) -> None:
    engine.images["mine/gdal:3.13.3"] = body()
    assert resolve(client, "mine/gdal:3.13.3").standin is False


def test_an_id_without_its_algorithm_gets_it(engine: SocketEngine, client: docker.DockerClient) -> None:
    engine.images["x:3.13.3"] = body() | {"Id": "1" * 64}  # as Podman says it
    assert resolve(client, "x:3.13.3").id == ID


@pytest.mark.claim("supply.old-gdal")
@pytest.mark.parametrize("version", ["3.10.3", "3.9.0"])
def test_a_version_too_old_is_refused(
    engine: SocketEngine, client: docker.DockerClient, version: str
) -> None:
    engine.images["mine/gdal:now"] = body(version)
    with pytest.raises(ImageUnsuitable):
        resolve(client, "mine/gdal:now")


@pytest.mark.parametrize("version", ["24.04", "", None, "master"])
def test_an_unknown_version_is_left_to_a_container_to_tell(
    engine: SocketEngine, client: docker.DockerClient, version: str | None
) -> None:
    engine.images["mine/gdal:now"] = body(version)
    assert resolve(client, "mine/gdal:now").gdal_version == ""


@pytest.mark.claim("supply.old-gdal")
@pytest.mark.parametrize(
    ("version", "warned"),
    [
        ("3.11.0", True),
        ("3.13.1", True),
        ("3.13", True),
        ("3.13.2", False),
        ("3.14.0", False),
        ("4.0.0", False),
    ],
)
def test_versions_with_published_vulnerabilities_are_warned_of(version: str, warned: bool) -> None:
    assert (version_warning(Image("x", ID, ID, version, False, ())) is not None) is warned


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.13.3", "3.13.3"),
        ("v3.13.3", "3.13.3"),
        ("ubuntu-small-3.13.3", "3.13.3"),
        ("3.13.3RC1", "3.13.3"),
        ("3.14.0dev-1234abc", "3.14.0"),
        ("alpine-normal-v3.12", "3.12"),
        ("24.04", None),
        ("22.04.3", None),
        ("13.3.3", None),
        ("03ef2c6682683a2806ceb9900c0934298f3e6f98", None),
        ("latest", None),
    ],
)
def test_the_version_is_read_from_labels_and_tags_as_they_are_written(text: str, version: str | None) -> None:
    assert parse_version({"org.opencontainers.image.version": text}, "x") == version
    assert parse_version({}, f"localhost:5000/gdal:{text}") == version


def test_our_own_label_says_more_than_the_others() -> None:
    labels = {"org.opencontainers.image.version": "3.10.0", standin.VERSION_LABEL: "3.13.3"}
    assert parse_version(labels, "x:3.9.0") == "3.13.3"


def test_a_port_is_not_a_version() -> None:
    assert parse_version({}, "registry.test:3.13/gdal") is None


@given(st.tuples(st.integers(3, 9), st.integers(0, 99), st.integers(0, 99)))
def test_every_release_number_survives_a_tag(parts: tuple[int, int, int]) -> None:
    version = ".".join(map(str, parts))
    assert parse_version({}, f"ghcr.io/osgeo/gdal:alpine-small-{version}") == version


def test_ensure_pulls_nothing_when_the_image_is_here(
    engine: SocketEngine, client: docker.DockerClient
) -> None:
    engine.images[OFFICIAL] = body()
    ensure(client, None, silent)
    assert not [request for request in engine.requests if "create" in request or "distribution" in request]


@pytest.mark.parametrize("reference", [None, "mine/gdal:3.12.0"])
def test_ensure_pulls_what_is_missing(
    engine: SocketEngine, client: docker.DockerClient, built: list[str], reference: str | None
) -> None:
    wanted = reference or OFFICIAL
    engine.registry[wanted] = body("3.12.0")
    assert ensure(client, reference, silent).reference == wanted
    assert built == []


def test_ensure_pulls_where_the_registry_cannot_be_asked_first(
    engine: SocketEngine, client: docker.DockerClient, built: list[str]
) -> None:
    engine.reach_status = 404  # as Podman answers
    engine.registry[OFFICIAL] = body()
    assert ensure(client, None, silent).reference == OFFICIAL


def test_a_registry_out_of_reach_leads_to_a_standin(
    engine: SocketEngine, client: docker.DockerClient, built: list[str]
) -> None:
    engine.reach_status = 500
    said: list[str] = []
    assert ensure(client, None, said.append).standin
    assert any("the registry's own words" in line for line in said)
    assert "/images/create" not in engine.requests


def test_an_image_the_registry_does_not_have_leads_to_a_standin(
    client: docker.DockerClient, built: list[str]
) -> None:
    assert ensure(client, None, silent).standin


@pytest.mark.claim("supply.image-named")
@pytest.mark.parametrize("status", [200, 500])
def test_a_named_image_is_never_replaced_by_a_standin(
    engine: SocketEngine, client: docker.DockerClient, built: list[str], status: int
) -> None:
    engine.reach_status = status
    with pytest.raises(ImageMissing):
        ensure(client, OFFICIAL, silent)
    assert built == []


def test_ensure_does_not_replace_an_image_that_is_unsuitable(
    engine: SocketEngine, client: docker.DockerClient, built: list[str]
) -> None:
    engine.images[OFFICIAL] = body("3.10.0")
    with pytest.raises(ImageUnsuitable):
        ensure(client, None, silent)
    assert built == []
    assert "/images/create" not in engine.requests


def test_asking_the_registry_leaves_the_clients_timeout_alone(
    engine: SocketEngine, client: docker.DockerClient
) -> None:
    before = client.api.timeout
    engine.reach_status = 500
    with pytest.raises(PullFailed):
        registry_pull.pull(client, OFFICIAL, silent)
    assert client.api.timeout == before


@pytest.mark.parametrize("reference", [None, OFFICIAL])
@pytest.mark.parametrize("way", ["answers nonsense", "hangs up"])
def test_an_engine_in_trouble_is_not_a_missing_image(
    engine: SocketEngine, client: docker.DockerClient, reference: str | None, way: str
) -> None:
    engine.images[OFFICIAL] = body()
    engine.trouble = way
    with pytest.raises(EngineUnavailable):
        resolve(client, reference)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def loading(layer: str, current: int) -> dict:
    return {
        "status": "Downloading",
        "id": layer,
        "progressDetail": {"current": current, "total": 100_000_000},
    }


def test_progress_is_summed_over_layers_and_not_said_too_often() -> None:
    clock = Clock()
    progress = Progress(clock)
    assert progress.update(loading("a", 10_000_000)) is None
    clock.now = 6
    line = progress.update(loading("b", 20_000_000))
    assert line is not None
    assert "30 of 200 MB" in line
    clock.now = 7
    assert progress.update(loading("b", 30_000_000)) is None


def test_retries_without_a_byte_end_the_pull() -> None:
    clock = Clock()
    progress = Progress(clock)
    clock.now = 59
    progress.update({"status": "Retrying in 4 seconds", "id": "a"})
    clock.now = 61
    with pytest.raises(PullFailed):
        progress.update({"status": "Retrying in 2 seconds", "id": "a"})


def test_the_same_bytes_again_are_no_progress() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.update(loading("a", 5))
    clock.now = 61
    with pytest.raises(PullFailed):
        progress.update(loading("a", 5))


def test_a_slow_pull_that_moves_goes_on() -> None:
    clock = Clock()
    progress = Progress(clock)
    for step in range(1, 20):
        clock.now = step * 50.0
        progress.update(loading("a", step))


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("ghcr.io/osgeo/gdal:ubuntu-small-3.13.3", ("ghcr.io/osgeo/gdal", "ubuntu-small-3.13.3")),
        ("gdal", ("gdal", "latest")),
        ("localhost:5000/gdal", ("localhost:5000/gdal", "latest")),
        ("localhost:5000/gdal:1", ("localhost:5000/gdal", "1")),
        (f"a/b@{DIGEST}", ("a/b", DIGEST)),
        (f"localhost:5000/b:1@{DIGEST}", ("localhost:5000/b", DIGEST)),
    ],
)
def test_a_reference_is_split_as_docker_does(reference: str, parts: tuple[str, str]) -> None:
    assert registry_pull.split(reference) == parts


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("3.13.3+dfsg-2", "3.13.3"),
        ("1:3.14.0~beta1+dfsg-1~exp1", "3.14.0"),
        ("3.12.0-1", "3.12.0"),
        ("", "0.0"),
    ],
)
def test_debians_version_becomes_gdals(package: str, version: str) -> None:
    assert standin.upstream_version(package) == version


STATUS = b"Package: gdal-data\nVersion: 9.9\n\nPackage: gdal-bin\nStatus: ok\nVersion: 3.13.3+dfsg-2\nDescription: x\n y: z\n\n"


def write_root(archive: Path, status: bytes) -> None:
    with tarfile.open(archive, "w") as tar:
        entry = tarfile.TarInfo("./var/lib/dpkg/status")
        entry.size = len(status)
        tar.addfile(entry, io.BytesIO(status))


class ImportingClient:
    """Stands for the engine at the one call that building makes."""

    def __init__(self, answer: str = "") -> None:
        self.api = self
        self.answer = answer
        self.imported: list[tuple[str, list[str]]] = []

    def import_image(self, source: str, repository: str, tag: str, changes: list[str]) -> str:
        assert Path(source).is_file()
        self.imported.append((f"{repository}:{tag}", changes))
        return self.answer


def bootstrap_with(monkeypatch: pytest.MonkeyPatch, statuses: dict[str, bytes | str]) -> None:
    """Per suite: what its dpkg status holds, or why it cannot be fetched."""

    def bootstrap(_program: str, suite: str, archive: Path, _report: object) -> str | None:
        found = statuses[suite]
        if isinstance(found, str):
            return found
        write_root(archive, found)
        return None

    monkeypatch.setattr(standin, "_mmdebstrap", lambda _: "mmdebstrap")
    monkeypatch.setattr(standin, "_bootstrap", bootstrap)


def test_a_standin_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky": STATUS})
    client = ImportingClient()
    assert standin.build(client, silent, images.OLDEST) == "gdal-mcp-standin:3.13.3"
    ((name, changes),) = client.imported
    assert name == "gdal-mcp-standin:3.13.3"
    assert 'LABEL io.gdal-mcp.standin="true"' in changes
    assert 'LABEL io.gdal-mcp.gdal-version="3.13.3"' in changes


@pytest.mark.parametrize(
    "first", ["no route", STATUS.replace(b"3.13.3", b"3.10.3"), b"Package: other\nVersion: 1\n\n"]
)
def test_a_suite_that_does_not_serve_gives_way_to_the_next(
    monkeypatch: pytest.MonkeyPatch, first: bytes | str
) -> None:
    bootstrap_with(monkeypatch, {"forky": first, "sid": STATUS})
    client = ImportingClient()
    standin.build(client, silent, images.OLDEST)
    assert [name for name, _ in client.imported] == ["gdal-mcp-standin:3.13.3"]


def test_no_suite_that_serves_is_an_error_and_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky": "no route", "sid": STATUS.replace(b"3.13.3", b"3.10.3")})
    client = ImportingClient()
    with pytest.raises(ImageMissing):
        standin.build(client, silent, images.OLDEST)
    assert client.imported == []


def test_an_import_that_fails_halfway_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky": STATUS})
    with pytest.raises(ImageMissing):
        standin.build(
            ImportingClient('{"status":"x"}\r\n{"error":"no space left on device"}'), silent, images.OLDEST
        )


def test_without_the_right_to_install_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    monkeypatch.setattr(
        standin.shutil, "which", lambda name: None if name == "mmdebstrap" else f"/usr/bin/{name}"
    )
    monkeypatch.setattr(standin.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(standin, "_run", lambda *given: ran.append(given))
    with pytest.raises(ImageMissing):
        standin.build(ImportingClient(), silent, images.OLDEST)
    assert ran == []


def test_what_a_program_says_last_is_the_reason_it_failed() -> None:
    seen: list[str] = []
    assert standin._run(("sh", "-c", "echo out; echo err >&2; exit 3"), seen.append) == "out / err"
    assert seen == ["out", "err"]
    assert (
        standin._run(("sh", "-c", "cat; echo fine"), silent) is None
    )  # with nothing to read, it does not wait
