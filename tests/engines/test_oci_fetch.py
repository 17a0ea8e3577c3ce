"""An image is fetched from a registry by its digest, layer by layer, or not at all, with the real skopeo and umoci."""

import gzip
import hashlib
import io
import json
import os
import socket
import tarfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox.engines.images import DockerImages
from sandbox.engines.oci.fetching import _from_registry, archive_of, fetch
from sandbox.engines.oci.store import ImageStore
from sandbox.errors import PullFailed
from tests.engines.kit import not_tried
from tests.serving import Handler, serving

pytestmark = pytest.mark.engine
TYPE = "application/vnd.oci.image"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(**files: str) -> bytes:
    """A tar archive; a name with the prefix `wh_` removes the file from the layers below."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in files.items():
            row = tarfile.TarInfo(name.replace("wh_", ".wh."))
            row.size, row.mode, row.uid = len(text), 0o4755, 7
            tar.addfile(row, io.BytesIO(text.encode()))
    return packed.getvalue()


class Registry:
    """Answers a client's GET requests for one image of two layers."""

    def __init__(self) -> None:
        layers = [layer(kept="one", gone="two"), layer(wh_gone="", more="three")]
        packed = [gzip.compress(data) for data in layers]
        settings = {"Labels": {"version": "3.13.3"}, "Env": ["SECRET=1"]}
        rootfs = {"type": "layers", "diff_ids": [digest_of(data) for data in layers]}
        config = json.dumps(
            {"architecture": "amd64", "os": "linux", "config": settings, "rootfs": rootfs}
        ).encode()

        def described(kind: str, data: bytes) -> dict[str, object]:
            return {"mediaType": f"{TYPE}.{kind}", "digest": digest_of(data), "size": len(data)}

        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{TYPE}.manifest.v1+json",
            "config": described("config.v1+json", config),
            "layers": [described("layer.v1.tar+gzip", blob) for blob in packed],
        }
        self.manifest, self.config = json.dumps(manifest).encode(), config
        self.blobs = {digest_of(blob): blob for blob in (self.manifest, config, *packed)}
        self.layers = [digest_of(blob) for blob in packed]

    def answer(self, path: str) -> tuple[str, bytes] | None:
        if path == "/v2/":
            return "application/json", b"{}"
        kind, name = path.split("/")[-2:]
        if kind == "manifests":
            manifest = self.manifest if name in ("1", digest_of(self.manifest)) else self.blobs.get(name)
            return (f"{TYPE}.manifest.v1+json", manifest) if manifest else None
        if kind == "blobs" and name in self.blobs:
            return "application/octet-stream", self.blobs[name]
        return None


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Registry, str]]:
    """A registry on loopback, and the reference of its image."""
    if os.geteuid() != 0:
        not_tried("the engine without a daemon", "only root can unpack an image")
    upstream = Registry()

    class Blobs(Handler):
        def respond(self) -> None:
            response = upstream.answer(self.path)
            kind, data = response or ("text/plain", b"")
            named = {"Content_Type": kind, "Docker_Content_Digest": digest_of(data)}
            self.answer(200 if response else 404, data, **named)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Blobs)
    place = f"127.0.0.1:{server.server_port}"
    settings = tmp_path / ".config/containers/registries.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[[registry]]\nlocation = "{place}"\ninsecure = true\n')
    monkeypatch.setenv("HOME", str(tmp_path))  # the folder where skopeo looks for it
    with serving(server):
        yield upstream, f"{place}/gdal:1"


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    (tmp_path / "store/images").mkdir(parents=True)
    return ImageStore(tmp_path / "store", fetch)


def test_image_is_fetched_by_digest_and_unpacked_layerwise(registry, store) -> None:
    upstream, reference = registry
    store.pull(reference, lambda _line: None)
    image = store.find(reference)
    assert (image.id, image.digest) == (digest_of(upstream.config), digest_of(upstream.manifest))
    assert image.labels == {"version": "3.13.3"}
    root = store.rootfs(image.id)
    files = {path.name: path.read_text() for path in root.iterdir() if path.is_file()}
    assert files == {"kept": "one", "more": "three"}
    status = (root / "kept").stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (7, 0o755)


def test_image_named_by_digest_comes_from_mirror(registry, store) -> None:
    upstream, reference = registry
    pinned = f"{reference.removesuffix(':1')}@{digest_of(upstream.manifest)}"
    store.pull(pinned, lambda _line: None)
    image = store.find(pinned)
    assert (image.id, image.digest) == (digest_of(upstream.config), digest_of(upstream.manifest))


def test_fetched_image_is_copied_to_docker_without_registry(registry, store, client) -> None:
    """The content id stays the same, also when the image is copied back into another store."""
    upstream, reference = registry
    store.pull(reference, lambda _line: None)
    upstream.blobs.clear()
    upstream.manifest = b""
    images, lines = DockerImages(client.api, partial(archive_of, store)), []
    try:
        images.pull(reference, lines.append)
        image = images.find(reference)
        assert (image.id, image.labels) == (store.find(reference).id, {"version": "3.13.3"})
        assert len(lines) == 1
    finally:
        client.images.remove(reference, force=True)
    assert os.listdir(store.folder) == [image.id.replace(":", "-")]


def test_image_that_cannot_be_copied_comes_from_registry(registry, store, client) -> None:
    reference = "127.0.0.1:1/gdal:1"  # an address where nothing listens
    images = DockerImages(client.api, partial(archive_of, store))
    with pytest.raises(PullFailed):
        images.pull(reference, lambda _line: None)
    store.pull(registry[1], lambda _line: None)
    layout = store.layout(registry[1])[1]
    (layout / "index.json").write_text("{}")
    lines: list[str] = []
    with pytest.raises(PullFailed):
        DockerImages(client.api, lambda _: archive_of(store, registry[1])).pull(reference, lines.append)
    assert lines


@pytest.mark.claim("supply.image-fetched-by-digest")
def test_layer_with_another_digest_is_refused(registry, store) -> None:
    upstream, reference = registry
    upstream.blobs[upstream.layers[1]] = gzip.compress(layer(kept="evil", more="three"))
    with pytest.raises(PullFailed):
        store.pull(reference, lambda _line: None)
    assert store.names(reference.rpartition(":")[0]) == ()
    assert os.listdir(store.folder) == []


def test_image_missing_from_the_registry_is_reported(registry, store) -> None:
    for wrong in (registry[1].replace(":1", ":2"), "127.0.0.1:1/gdal:1"):
        with pytest.raises(PullFailed):
            store.pull(wrong, lambda _line: None)


def test_unreachable_registry_runs_and_stores_nothing(store, monkeypatch) -> None:
    ran: list[object] = []
    monkeypatch.setattr("subprocess.run", lambda *words, **_: ran.append(words))
    monkeypatch.setattr("shutil.which", lambda _: None)  # skopeo would have to be installed
    with closing(socket.socket()) as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(PullFailed):
            _from_registry(store, f"{place}/gdal:1", lambda _line: None)
    assert ran == []
