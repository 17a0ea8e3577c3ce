"""Which image is used or refused, and how one is pulled. The engine is a fake behind the real SDK."""

import itertools
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.runtime.image import STANDIN_LABEL, Image, ImageUnsuitable, ensure, resolve
from gdal_mcp.runtime.nested import program
from gdal_mcp.toolboxes.gdal.image import GDAL_IMAGE, VERSION_LABEL, parse_version, version_warning
from sandbox.engines.discovery import connect
from sandbox.engines.images import DockerImages, follow, split
from sandbox.errors import EngineUnavailable, ImageMissing, PullFailed
from tests.unit.sandbox.engines.socket_engine import SocketEngine, socket_engine

ID = "sha256:" + "1" * 64
DIGEST = "sha256:" + "d" * 64
OFFICIAL = GDAL_IMAGE.images["full"]
SMALL = GDAL_IMAGE.images["small"]
STANDIN = "gdal-mcp-standin:3.13.3"


def body(version: str | None = "3.13.3", label: str = "org.opencontainers.image.version", **more: object):
    labels = {label: version} if version else None
    config = {"Labels": labels, "Env": ["PATH=/bin", "LD_PRELOAD=x"]}
    return {"Id": ID, "RepoDigests": [], "Config": config, **more}


def standin_body(version: str) -> dict:
    image = body(version, VERSION_LABEL)
    image["Config"]["Labels"][STANDIN_LABEL] = "true"
    return image


@pytest.fixture
def engine() -> Iterator[SocketEngine]:
    # a socket's path has at most 107 bytes, which pytest's folders may exceed
    with tempfile.TemporaryDirectory(prefix="e") as folder, socket_engine(Path(folder) / "e.sock") as server:
        yield server


@pytest.fixture
def images(engine: SocketEngine) -> Iterator[DockerImages]:
    connected = connect(f"unix://{engine.server_address}")
    engine.requests.clear()
    yield DockerImages(connected.api)
    connected.close()


def silent(_line: str) -> None:
    pass


def pull_requested(engine: SocketEngine) -> bool:
    return any("create" in request or "distribution" in request for request in engine.requests)


@pytest.mark.claim("sandbox.image-by-content")
def test_official_image_is_preferred_then_newest_standin(engine, images):
    for version in ("3.9.9", "3.13.3", "3.12.10"):
        engine.images[f"gdal-mcp-standin:{version}"] = standin_body(version)
    image = resolve(images, GDAL_IMAGE)
    assert (image.reference, image.standin, image.digest) == (STANDIN, True, ID)
    assert len(engine.requests) <= 2
    engine.images[SMALL] = body()
    assert resolve(images, GDAL_IMAGE).reference == SMALL
    engine.images[OFFICIAL] = body(RepoDigests=[f"elsewhere/gdal@{ID}", f"ghcr.io/osgeo/gdal@{DIGEST}"])
    assert resolve(images, GDAL_IMAGE) == Image(OFFICIAL, ID, DIGEST, "3.13.3", False)
    assert resolve(images, GDAL_IMAGE, "small").reference == SMALL


@pytest.mark.claim("supply.image-named")
def test_an_image_can_be_named_by_its_digest(engine: SocketEngine, images: DockerImages) -> None:
    pinned = f"ghcr.io/osgeo/gdal@{DIGEST}"
    engine.images = {OFFICIAL: body(Id=f"sha256:{'9' * 64}"), pinned: body(RepoDigests=[pinned])}
    image = resolve(images, GDAL_IMAGE, pinned)
    assert (image.reference, image.id, image.digest) == (pinned, ID, DIGEST)


@pytest.mark.claim("supply.image-named")
def test_image_is_pulled_by_digest_from_named_mirror(engine: SocketEngine, images: DockerImages) -> None:
    mirrored = f"mirror.test:5000/osgeo/gdal@{DIGEST}"
    engine.images[OFFICIAL] = body(Id=f"sha256:{'9' * 64}", RepoDigests=[f"ghcr.io/osgeo/gdal@{DIGEST}"])
    engine.registry[mirrored] = body(RepoDigests=[mirrored])
    image = ensure(images, GDAL_IMAGE, mirrored, silent)
    assert pull_requested(engine)
    assert (image.reference, image.id, image.digest) == (mirrored, ID, DIGEST)


def test_untagged_image_means_latest_even_behind_a_port() -> None:
    for name in ("gdal", "ghcr.io/osgeo/gdal", "registry:5000/gdal"):
        assert split(name) == (name, "latest")
    assert split("registry:5000/gdal:3.13") == ("registry:5000/gdal", "3.13")


@pytest.mark.claim("supply.image-named")
def test_name_resembling_a_standin_is_not_used(engine: SocketEngine, images: DockerImages) -> None:
    for name in ("not-gdal-mcp-standin:3.13.3", "gdal-mcp-standin:latest", "evil/gdal-mcp-standin:3.13.3"):
        engine.images[name] = standin_body("3.13.3")
    with pytest.raises(ImageMissing):
        resolve(images, GDAL_IMAGE)
    assert not pull_requested(engine)


@pytest.mark.claim("supply.image-named")
def test_named_image_is_never_replaced(engine: SocketEngine, images: DockerImages) -> None:
    engine.images = {OFFICIAL: body(), STANDIN: standin_body("3.13.3")}
    with pytest.raises(ImageMissing):
        resolve(images, GDAL_IMAGE, "mine/gdal:3.13.3")
    for engine.reach_status in (200, 500):
        with pytest.raises(ImageMissing):
            ensure(images, GDAL_IMAGE, "mine/gdal:3.13.3", silent)


def test_suggested_command_fetches_the_missing_named_image(engine, images):
    engine.images[OFFICIAL] = body()
    with pytest.raises(ImageMissing) as missing:
        resolve(images, GDAL_IMAGE, "small")
    suggested = [shlex.split(command) for command in re.findall("`([^`]+)`", str(missing.value))]
    assert ["docker", "pull", SMALL] in suggested
    [setup] = [words[len(program()) :] for words in suggested if words[: len(program())] == list(program())]
    options = build_parser().parse_args(setup)
    assert setup[0] == "setup"
    assert options.image == "small"


@pytest.mark.claim("supply.image-named")
def test_unlabelled_image_is_ordinary_and_id_gets_algorithm(engine, images):
    engine.images["mine/gdal:3.13.3"] = body() | {"Id": "1" * 64}  # in Podman's format
    image = resolve(images, GDAL_IMAGE, "mine/gdal:3.13.3")
    assert (image.standin, image.id) == (False, ID)


@pytest.mark.claim("supply.old-gdal")
def test_old_version_is_refused_and_unknown_one_tested(engine, images):
    for version in ("3.10.3", "3.9.0"):
        engine.images["mine/gdal:now"] = body(version)
        with pytest.raises(ImageUnsuitable):
            resolve(images, GDAL_IMAGE, "mine/gdal:now")
    for version in ("24.04", "", None, "master"):
        engine.images["mine/gdal:now"] = body(version)
        assert resolve(images, GDAL_IMAGE, "mine/gdal:now").version == ""


@pytest.mark.claim("supply.old-gdal")
def test_versions_with_published_vulnerabilities_are_warned_of() -> None:
    for version in ("3.11.0", "3.13.1", "3.13"):
        assert version_warning("x", version), version
    for version in ("3.13.2", "3.14.0", "4.0.0"):
        assert version_warning("x", version) is None, version


def test_version_is_read_from_labels_and_tags() -> None:
    written = {
        "3.13.3": "3.13.3", "v3.13.3": "3.13.3", "ubuntu-small-3.13.3": "3.13.3", "3.13.3RC1": "3.13.3",
        "3.14.0dev-1234abc": "3.14.0", "alpine-normal-v3.12": "3.12", "24.04": "", "22.04.3": "",
        "13.3.3": "", "03ef2c6682683a2806ceb9900c0934298f3e6f98": "", "latest": "",
    }  # fmt: skip
    for text, version in written.items():
        assert parse_version({"org.opencontainers.image.version": text}, "x") == version, text
        assert parse_version({}, f"localhost:5000/gdal:{text}") == version, text
    labels = {"org.opencontainers.image.version": "3.10.0", VERSION_LABEL: "3.13.3"}
    assert parse_version(labels, "x:3.9.0") == "3.13.3"  # our own label takes precedence over the others
    assert parse_version({}, "registry.test:3.13/gdal") == ""  # this is a port


def test_ensure_pulls_what_is_missing_and_only_that(engine: SocketEngine, images: DockerImages) -> None:
    for reference, wanted in ((None, OFFICIAL), ("mine/gdal:3.12.0", "mine/gdal:3.12.0")):
        engine.registry[wanted] = body("3.12.0")
        assert ensure(images, GDAL_IMAGE, reference, silent).reference == wanted
        assert pull_requested(engine)
        engine.requests.clear()
        ensure(images, GDAL_IMAGE, reference, silent)
        assert not pull_requested(engine)


def test_ensure_pulls_without_asking_the_registry_first(engine, images):
    engine.reach_status = 404  # as Podman answers
    engine.registry[OFFICIAL] = body()
    assert ensure(images, GDAL_IMAGE, None, silent).reference == OFFICIAL


def test_unreachable_registry_is_reported_before_engine_retries(engine, images):
    before = images._api.timeout
    engine.reach_status = 500
    with pytest.raises(ImageMissing, match="the registry's own words"):
        ensure(images, GDAL_IMAGE, None, silent)
    assert "/images/create" not in engine.requests
    assert images._api.timeout == before


def test_ensure_does_not_replace_an_unsuitable_image(engine, images):
    engine.images[OFFICIAL] = body("3.10.0")
    with pytest.raises(ImageUnsuitable):
        ensure(images, GDAL_IMAGE, None, silent)
    assert not pull_requested(engine)


def test_engine_trouble_is_not_a_missing_image(engine: SocketEngine, images: DockerImages) -> None:
    engine.images[OFFICIAL] = body()
    for engine.trouble in ("answers nonsense", "hangs up"):
        for reference in (None, OFFICIAL):
            with pytest.raises(EngineUnavailable):
                resolve(images, GDAL_IMAGE, reference)


def loading(layer: str, current: int) -> dict:
    detail = {"current": current, "total": 100_000_000}
    return {"status": "Downloading", "id": layer, "progressDetail": detail}


def test_a_pull_reports_progress_and_the_engines_error() -> None:
    arrived = {"status": "Pull complete", "id": "a"}
    pulling = {"status": "Pulling fs layer", "id": "c"}
    events = [pulling, loading("a", 10_000_000), loading("b", 20_000_000), arrived]
    for step, expected in ((0.0, ["10 of 100 MB"]), (6.0, ["10 of 100 MB", "30 of 200 MB", "120 of 200 MB"])):
        lines: list[str] = []
        times = itertools.count(0.0, step)  # between two reads of the clock
        follow(events, lines.append, lambda times=times: next(times))
        progress = [line.partition(" of 1 ")[0].partition(" of 2 ")[0] for line in lines]
        assert progress == [*expected, "120 of 200 MB"]  # the final result
    with pytest.raises(PullFailed):
        follow([loading("a", 5), {"error": "no space"}, arrived], lines.append)


def test_endlessly_retried_pull_ends() -> None:
    hours, attempts = itertools.count(0.0, 3600.0), itertools.count()
    events = ({"status": f"Retrying in 5 seconds: {number}", "id": "a"} for number in attempts)
    with pytest.raises(PullFailed):
        follow(itertools.islice(events, 100), print, lambda: next(hours))
    assert next(attempts) < 100
