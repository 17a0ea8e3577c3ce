"""A dataset is copied into staging completely, unchanged since the plan, and within the limits, or not at all."""

import os

import pytest
from staging_kit import CALL, USER, area_at, place, tree, write

from sandbox.errors import SandboxError, StagingFailed
from sandbox.idmap import Views
from sandbox.outputs import copying
from sandbox.owner import Owner
from sandbox.template import Limits

# modes that exclude the container's user: from root's files if this runs as root, otherwise from the user's own
CLOSED_FILE, CLOSED_FOLDER = (0o600, 0o700) if os.geteuid() == 0 else (0, 0)
SMALL = Limits(staging_bytes=1_000_000, staging_files=20, file_bytes=600_000)


def test_copy_has_contents_holes_and_user_ownership(workspace):
    area = area_at(workspace)
    with (workspace / "dem.tif").open("wb") as file:
        file.write(b"head")
        file.seek(50_000_000)
        file.write(b"tail")
    with area.open(CALL, USER) as staging:
        staging.copy_in(place(area, "dem.tif"), "copy.tif")
        copy = staging.path / "copy.tif"
        assert copy.read_bytes() == (workspace / "dem.tif").read_bytes()
        assert copy.stat().st_blocks * 512 < 1_000_000
        assert copy.stat().st_uid == USER[0]
        copy.write_bytes(b"changed")
    assert (workspace / "dem.tif").stat().st_size == 50_000_004


def test_folder_is_copied_with_all_contents(workspace):
    contents = {"zarr.json": b"{}", "a/b/c/0": b"0", "a/b/d": b"1", "a/e/f": b"2", "z": b"3"}
    write(workspace / "cube.zarr", contents)
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        staging.copy_in(place(area, "cube.zarr"), "out.zarr")
        assert tree(staging.path / "out.zarr") == contents
        assert {path.stat().st_uid for path in (staging.path / "out.zarr").rglob("*")} == {USER[0]}


def test_copy_keeps_modification_time_for_sync(workspace):
    write(workspace, {"dem.tif": b"1", "maps/a/b.tif": b"2"})
    for name in ("dem.tif", "maps/a/b.tif"):
        os.utime(workspace / name, ns=(1, 1_000_000_000_123_456_789))
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        staging.copy_in(place(area, "dem.tif"), "dem.tif")
        staging.copy_in(place(area, "maps"), "maps")
        for name in ("dem.tif", "maps/a/b.tif"):
            assert (staging.path / name).stat().st_mtime_ns == 1_000_000_000_123_456_789


def test_what_changed_since_the_plan_is_not_copied(workspace):
    write(workspace, {"dem.tif": b"old"})
    area = area_at(workspace)
    planned = place(area, "dem.tif")
    (workspace / "dem.tif").write_bytes(b"another")
    with area.open(CALL, USER) as staging:
        with pytest.raises(StagingFailed):
            staging.copy_in(planned, "dem.tif")
        assert list(staging.path.iterdir()) == []


@pytest.mark.parametrize("what", ["link", "pipe", "too large", "too many"])
def test_partly_uncopyable_folder_is_not_copied(workspace, what):
    folder = workspace / "cube.zarr"
    write(folder, {"0": b"0", "big": b"x" * (900_000 if what == "too large" else 1)})
    if what == "link":
        (folder / "link").symlink_to("/etc/passwd")
    elif what == "pipe":
        os.mkfifo(folder / "pipe")
    elif what == "too many":
        write(folder, {f"{number}": b"" for number in range(30)})
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        with pytest.raises(StagingFailed):
            staging.copy_in(place(area, "cube.zarr"), "cube.zarr", SMALL)
        assert list(staging.path.iterdir()) == []


@pytest.mark.parametrize("parts", [0, 2])
def test_copy_stops_when_call_ends_or_disk_fills(workspace, monkeypatch, parts):
    def no_cloning(*_):
        raise OSError

    def check_cancelled():
        checks.append(None)
        if len(checks) > parts:
            raise InterruptedCall

    checks = []
    monkeypatch.setattr(copying.fcntl, "ioctl", no_cloning)
    write(workspace, {"dem.tif": bytes(5 << 20), "cube.zarr/0": b"0" * (5 << 20)})
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        for name in ("dem.tif", "cube.zarr"):
            checks.clear()
            with pytest.raises(InterruptedCall):
                staging.copy_in(place(area, name), name, check_cancelled=check_cancelled)
            assert len(checks) == parts + 1
        monkeypatch.setattr(copying, "is_nearly_full", lambda _disk: len(checks) > parts)
        checks.clear()
        with pytest.raises(StagingFailed):
            staging.copy_in(place(area, "dem.tif"), "dem.tif", check_cancelled=lambda: checks.append(None))
        assert list(staging.path.iterdir()) == []


class InterruptedCall(Exception):
    pass


def test_copy_never_overwrites_or_leaves_the_folder(workspace):
    write(workspace, {"a.tif": b"a", "b.tif": b"b"})
    area = area_at(workspace)
    with area.open(CALL, USER) as staging:
        staging.copy_in(place(area, "a.tif"), "x.tif")
        for name in ("x.tif", "../x.tif", "/x.tif", "..", "", "new\nline"):
            with pytest.raises(StagingFailed):
                staging.copy_in(place(area, "b.tif"), name)
        assert tree(staging.path) == {"x.tif": b"a"}
        assert [path.name for path in staging.path.parent.iterdir() if path.name.endswith("tif")] == []


@pytest.mark.claim("files.copies-only-what-the-user-may-read")
@pytest.mark.parametrize(
    ("named", "closed", "mode"),
    [
        ("dem.tif", "dem.tif", CLOSED_FILE), ("maps/dem.tif", "maps", CLOSED_FOLDER),
        ("maps/in/dem.tif", "maps", CLOSED_FOLDER), ("cube.zarr", "cube.zarr", CLOSED_FOLDER),
        ("cube.zarr", "cube.zarr/a", CLOSED_FOLDER), ("cube.zarr", "cube.zarr/a/0", CLOSED_FILE),
    ],
)  # fmt: skip
def test_root_copies_nothing_the_user_may_not_read(workspace, named, closed, mode):
    write(workspace, {"dem.tif": b"1", "maps/dem.tif": b"1", "maps/in/dem.tif": b"1", "cube.zarr/a/0": b"1"})
    area = area_at(workspace)
    planned = place(area, named)
    (workspace / closed).chmod(mode)
    with area.open(CALL, USER) as staging:
        with pytest.raises(SandboxError):
            staging.copy_in(planned, "copy")
        assert list(staging.path.iterdir()) == []
    (workspace / closed).chmod(0o755)


def test_shown_part_of_closed_workspace_is_copied(workspace, tmp_path):
    """A view shows root's own files to the user of calls, like a mount in a container."""
    write(workspace, {"dem.tif": b"1", "cube.zarr/a/0": b"2"})
    (workspace / "dem.tif").chmod(0o600)
    (workspace / "cube.zarr").chmod(0o700)
    workspace.chmod(0o700)
    owner = Owner(tmp_path / "servers")
    views = Views(tmp_path / "views", owner)
    area = area_at(workspace)
    try:
        with area.open(CALL, USER) as staging:
            for name in ("dem.tif", "cube.zarr"):
                staging.copy_in(place(area, name), name, visible_at=views.source(workspace, USER))
            assert tree(staging.path) == {"dem.tif": b"1", "cube.zarr/a/0": b"2"}
    finally:
        views.close()
        owner.close()
