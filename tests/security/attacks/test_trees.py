"""Folders of another user that are listed, walked and written to: loops, pipes, links that appear and disappear."""

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.hostile_files import CANARY
from tests.security.attacks.conftest import Attacked
from tests.security.attacks.leaks import code, discreet, leaked
from tests.security.attacks.table import read, write

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def tree(attacked: Attacked) -> Path:
    """A folder with everything that could make a walk fail."""
    root = attacked.place.path("tree")
    root.mkdir()
    for name in ("loop", "deep"):
        (root / name).mkdir()
    (root / "loop" / "again").symlink_to("..")
    (root / "out").symlink_to(attacked.ground.outside)
    (root / "root").symlink_to("/")
    (root / "dangling").symlink_to("nowhere")
    os.mkfifo(root / "pipe.tif")
    (root / os.fsdecode(b"\xff\xfe\x80.tif")).write_bytes(b"x")
    hidden = ("\u202egnp.tif", "\u200b.tif", "tag\U000e0041.tif", "ok.tif\u2028forged")
    for name in (*hidden, "a\nb.tif", "\x1b[2J.tif", '{"rows":[]}'):
        (root / name).write_bytes(b"x")
    folder = root / "deep"
    for _ in range(60):
        folder /= "d"
        folder.mkdir()
    _socket(root / "socket.tif")
    return root


def _socket(path: Path) -> None:
    place = os.getcwd()
    os.chdir(path.parent)  # its address has no room for a long path
    try:
        with socket.socket(socket.AF_UNIX) as unix_socket:
            unix_socket.bind(path.name)
    finally:
        os.chdir(place)


@pytest.mark.claim("paths.listing-follows-no-link")
def test_looping_oddly_named_tree_is_listed_within_itself(attacked: Attacked, tree: Path):
    answer = attacked.talk.call("list_workspace", path="tree", recursive=True, limit=500)
    assert code(answer) in ("OK", "INVALID_ARGUMENT")
    listing = attacked.talk.done("list_workspace", path="tree", limit=500)
    names = [row.get("path", row.get("name")) for row in listing.get("entries", listing.get("rows", []))]
    assert names
    text = str(listing)
    assert discreet(answer)
    assert "secret" not in text
    assert not any(sign in text for sign in ("\u202e", "\x1b", "\u200b", "\U000e0041", "\u2028"))


@pytest.mark.claim("paths.listing-is-bounded")
def test_overfull_folder_is_listed_in_pages_as_incomplete(attacked: Attacked):
    many = attacked.place.path("many")
    many.mkdir()
    for number in range(3000):
        os.mknod(many / f"{number}.tif")
    answer = attacked.talk.call("list_workspace", path="many", limit=20)
    assert code(answer) == "OK"
    assert len(answer.structured_content["entries"]) == 20
    assert answer.structured_content["next_cursor"]
    for path in many.iterdir():
        path.unlink()


@pytest.mark.claim("paths.plain-files-only")
def test_pipe_or_socket_is_refused_everywhere(attacked: Attacked, tree: Path):
    names = ("tree/pipe.tif", "tree/socket.tif")
    calls = [
        *(read("raster info", input=name) for name in names),
        *(write("raster convert", input="ok.tif", output=name, overwrite=True) for name in names),
        write("vsi copy", source="tree/pipe.tif", destination="x.tif"),
        write("raster index", input=["tree"], recursive=True, output="x.gpkg"),
        write("vsi sozip create", input=["tree"], recursive=True, output="x.zip"),
    ]
    ends = [attacked.talk.call(tool, **arguments) for tool, arguments in calls]
    assert {code(end) for end in ends} <= {"PATH_NOT_ALLOWED", "INVALID_ARGUMENT"}
    assert all(end.structured_content["error"]["stage"] in ("validate", "resolve") for end in ends)


@pytest.mark.claim("files.nothing-outside-changes")
def test_hard_linked_file_is_changed_only_here(attacked: Attacked):
    """A hard link cannot be told apart from the file, so writing here must not change the other name's contents."""
    place, outside = attacked.place, attacked.ground.outside
    honest = place.path("ok.tif").read_bytes()
    for name in ("over", "edited", "burnt", "deleted"):
        (outside / f"{name}-there.tif").write_bytes(honest)
        os.link(outside / f"{name}-there.tif", place.path(f"{name}-here.tif"))
    calls = [
        write("raster convert", input="dem.tif", output="over-here.tif", overwrite=True),
        write("raster edit", dataset="edited-here.tif", nodata="7"),
        write("raster overview add", input="burnt-here.tif", levels=[2]),
        write("dataset delete", filename=["deleted-here.tif"]),
    ]
    ends = [attacked.talk.call(tool, **arguments) for tool, arguments in calls]
    assert [code(end) for end in ends] == ["OK"] * 4
    there = sorted(outside.glob("*-there.tif"))
    assert [path.read_bytes() == honest for path in there] == [True] * 4
    assert place.path("over-here.tif").read_bytes() != honest
    assert not place.path("deleted-here.tif").exists()
    for path in [*there, *place.workspace.glob("*-here.tif*")]:
        path.unlink()


@contextlib.contextmanager
def swapping(path: Path, honest: bytes, bait: Path) -> Iterator[None]:
    """Switches the name between a file and a link to the bait, as fast as possible, until the block ends."""
    ended = threading.Event()
    file, link = path.with_name(f"{path.name}.file"), path.with_name(f"{path.name}.link")

    def run() -> None:
        for turn in itertools.count():
            if ended.is_set():
                return
            if turn % 2:
                file.write_bytes(honest)
                file.replace(path)
            else:
                link.symlink_to(bait)
                link.replace(path)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)
        for entry in (file, link, path):
            entry.unlink(missing_ok=True)


@pytest.mark.claim("paths.races-lost")
def test_name_turning_into_a_link_leads_nowhere(attacked: Attacked):
    place, outside = attacked.place, attacked.ground.outside
    honest = place.path("ok.tif").read_bytes()
    (outside / "target.tif").write_bytes(CANARY)
    with (
        swapping(place.path("swap-in.tif"), honest, outside / "secret.tif"),
        swapping(place.path("swap-out.tif"), honest, outside / "target.tif"),
    ):
        outputs = [f"swapped-{number}.bil" for number in range(4)]
        calls = [write("raster convert", input="swap-in.tif", output=output) for output in outputs]
        calls += [write("raster convert", input="ok.tif", output="swap-out.tif", overwrite=True)] * 4
        under_way = [attacked.talk.start(tool, **arguments) for tool, arguments in calls]
        ends = [call.result(timeout=300) for call in under_way]
    assert all(discreet(end) for end in ends)
    assert [path.name for path in place.workspace.glob("swapped-*") if leaked(path.read_bytes())] == []
    assert (outside / "target.tif").read_bytes() == CANARY
    (outside / "target.tif").unlink()
