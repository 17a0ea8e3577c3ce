"""The stand-in image for hosts that cannot reach the official one. Debian's archive and the engine are fakes."""

import fcntl
import io
import os
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdal_mcp.runtime.image import Image
from sandbox.errors import ImageMissing
from scripts import standin

STATUS = b"Package: gdal-data\nVersion: 9.9\n\nPackage: gdal-bin\nStatus: ok\nVersion: 3.13.3+dfsg-2\nDescription: x\n y: z\n\n"
TOO_OLD = STATUS.replace(b"3.13.3", b"3.10.3")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of built archives, for this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gdal-mcp/standin"


class ImportingClient:
    """Replaces the engine for the only call that a build makes."""

    def __init__(self, answer: str = "") -> None:
        self.api = self
        self.answer = answer
        self.imported: list[tuple[str, list[str]]] = []

    def import_image(self, source: str, repository: str, tag: str, changes: list[str]) -> str:
        assert Path(source).is_file()
        self.imported.append((f"{repository}:{tag}", changes))
        return self.answer


def bootstrap_with(monkeypatch: pytest.MonkeyPatch, statuses: dict[str, bytes | str]) -> None:
    """For each suite, the contents of its dpkg status, or the reason why it cannot be fetched."""

    def bootstrap(_program: str, suite: str, archive: Path, _report: object, *, parquet: bool) -> str | None:
        status = statuses.get(f"{suite} parquet" if parquet else suite, statuses[suite])
        if isinstance(status, str):
            return status
        with tarfile.open(archive, "w") as tar:
            entry = tarfile.TarInfo("./var/lib/dpkg/status")
            entry.size = len(status)
            tar.addfile(entry, io.BytesIO(status))
        return None

    monkeypatch.setattr(standin, "_mmdebstrap", lambda _: "mmdebstrap")
    monkeypatch.setattr(standin, "_bootstrap", bootstrap)


def test_parquet_driver_that_cannot_be_built_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky parquet": "no compiler", "forky": STATUS})
    lines: list[str] = []
    assert standin.build(ImportingClient(), lines.append) == "gdal-mcp-standin:3.13.3"
    assert any("no compiler" in line for line in lines)


def test_it_says_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky": STATUS})
    client = ImportingClient()
    assert standin.build(client, print) == "gdal-mcp-standin:3.13.3"
    ((name, changes),) = client.imported
    assert name == "gdal-mcp-standin:3.13.3"
    assert 'LABEL io.gdal-mcp.standin="true"' in changes
    assert 'LABEL io.gdal-mcp.gdal-version="3.13.3"' in changes


def test_unusable_suite_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    for first in ("no route", TOO_OLD, b"Package: other\nVersion: 1\n\n"):
        bootstrap_with(monkeypatch, {"forky": first, "sid": STATUS})
        client = ImportingClient()
        standin.build(client, print)
        assert [name for name, _ in client.imported] == ["gdal-mcp-standin:3.13.3"]


def test_no_usable_suite_is_an_error_importing_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky": "no route", "sid": TOO_OLD})
    client = ImportingClient()
    with pytest.raises(ImageMissing):
        standin.build(client, print)
    assert client.imported == []


def test_an_import_that_fails_halfway_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap_with(monkeypatch, {"forky": STATUS})
    with pytest.raises(ImageMissing):
        standin.build(ImportingClient('{"status":"x"}\r\n{"error":"no space left on device"}'), print)


def test_without_the_right_to_install_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    monkeypatch.setattr(standin.shutil, "which", {"apt-get": "/usr/bin/apt-get"}.get)
    monkeypatch.setattr(standin.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(standin, "_run", lambda *arguments: ran.append(arguments))
    with pytest.raises(ImageMissing):
        standin.build(ImportingClient(), print)
    assert ran == []


@pytest.mark.claim("supply.image-named")
def test_standin_does_not_replace_an_image_someone_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDAL_MCP_IMAGE", "mine/gdal:3.13.3")
    monkeypatch.setattr(standin, "build", lambda *_: pytest.fail("it was built"))
    assert standin.main() == 1


def test_debians_version_becomes_gdals() -> None:
    for package, version in (("1:3.14.0~beta1+dfsg-1~exp1", "3.14.0"), ("3.12.0-1", "3.12.0"), ("", "0.0")):
        assert standin.upstream_version(package) == version


def test_setup_building_a_standin_ends_with_image_used(monkeypatch: pytest.MonkeyPatch):
    built: list[object] = []
    monkeypatch.delenv("GDAL_MCP_IMAGE", raising=False)
    monkeypatch.setattr(standin, "_target", lambda _address: "the engine")
    monkeypatch.setattr(standin, "build", lambda target, _each: built.append(target))
    images = SimpleNamespace(images=None)
    monkeypatch.setattr("scripts.pull.open_engine", lambda _address: images)
    used = Image("gdal-mcp-standin:3.13.3", "sha256:1", "sha256:1", "3.13.3", standin=True)
    monkeypatch.setattr("scripts.pull.ensure", lambda *_: used)

    assert standin.main() == 0
    assert built == ["the engine"]


@pytest.mark.parametrize(("exit_status", "builds"), [(0, 0), (1, 1)])
def test_concurrent_build_is_awaited_and_not_repeated(monkeypatch, exit_status, builds):
    monkeypatch.delenv("GDAL_MCP_IMAGE", raising=False)
    started: list[str] = []
    flock = fcntl.flock
    with Path(standin.__file__).open() as held:
        flock(held, fcntl.LOCK_EX)

        def until_it_is_free(file, kind):
            if kind == fcntl.LOCK_EX:
                assert not started
                held.close()
            flock(file, kind)

        monkeypatch.setattr(standin.fcntl, "flock", until_it_is_free)
        monkeypatch.setattr(standin, "_target", lambda _: None)
        monkeypatch.setattr(standin, "build", lambda *_: started.append("build"))
        monkeypatch.setattr(standin.pull, "main", lambda: exit_status)
        assert standin.main() == exit_status
    assert len(started) == builds


def test_built_image_is_imported_into_the_next_engine(monkeypatch, cache):
    assert standin.import_kept(ImportingClient(), print) is None
    bootstrap_with(monkeypatch, {"forky": STATUS})
    standin.build(ImportingClient(), print)
    (archive,) = cache.iterdir()
    assert (archive.stat().st_mode & 0o777, cache.stat().st_mode & 0o777) == (0o600, 0o700)
    second = ImportingClient()
    assert standin.import_kept(second, print) == "gdal-mcp-standin:3.13.3"
    assert [name for name, _ in second.imported] == ["gdal-mcp-standin:3.13.3"]


@pytest.mark.parametrize("change", ["old", "recipe", "writable"])
def test_old_different_or_untrusted_build_is_not_imported(monkeypatch, cache, change):
    bootstrap_with(monkeypatch, {"forky": STATUS})
    standin.build(ImportingClient(), print)
    (archive,) = cache.iterdir()
    if change == "old":
        os.utime(archive, (0, 0))
    elif change == "recipe":
        monkeypatch.setattr(standin, "_recipe", lambda: "another")
    else:
        cache.chmod(0o777)
    assert standin.import_kept(ImportingClient(), print) is None


def test_standin_without_its_parquet_driver_is_built_again(monkeypatch, cache):
    bootstrap_with(monkeypatch, {"forky parquet": "no compiler", "forky": STATUS})
    standin.build(ImportingClient(), print)
    assert standin.import_kept(ImportingClient(), print) is None


def test_setup_prints_one_line_per_long_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SETUP_STARTED", raising=False)
    lines = [
        "I: automatically chosen mode: root",
        "Get:1 x",
        "I: installing remaining packages inside the chroot...",
    ]
    for line in lines:
        standin._report_step(line, standin.pull.progress)
    (printed,) = capsys.readouterr().out.splitlines()
    assert printed.startswith("[0:0")
