"""Trees of links, folders and unusual names, and any path into them: an opened file is inside, by inode, or the path
is refused.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import ToolError
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from sandbox.errors import PathRefused
from sandbox.workspace import RESERVED, Workspace, WorkspacePath, Workspaces, open_file, open_folder
from tests.fuzz.kit import outcome, tries

pytestmark = pytest.mark.claim("paths.inside")
NAMES = ("a", "b", "c", "d.tif", ".gdal-mcp", ".GDAL-MCP", "x y", "-o", "é", "a:b", "{b}")
MADE = st.sampled_from(NAMES)
WHERE = st.lists(MADE, max_size=3).map("/".join)
TARGETS = st.sampled_from(
    (
        "a", "b", "..", "../..", "../secret", "a/..", "a/../..", "./a", "/etc", "/etc/passwd", "/proc/self/root", "/dev/null", ".gdal-mcp",
        "{outside}", "{outside}/secret", "{root}", "{root}/a", "{root}/b/../a", "{other}", "{other}/a", "{alias}/a", "c/d.tif", "", ".", "a//b",
    )
)  # fmt: skip
KINDS = st.sampled_from(("file", "file", "folder", "folder", "link", "link", "link", "pipe"))
TREES = st.lists(st.tuples(KINDS, WHERE, TARGETS), max_size=14)
PARTS = MADE | st.sampled_from(("..", ".", "", "secret", "...", "~", "%2e%2e", "..\u2215"))
STARTS = st.sampled_from(
    (
        "", "", "", "{root}/", "{alias}/", "{other}/", "/", "//", "file://{root}/", "file:///",
        "{outside}/", "{root}/../", "FILE:{root}/",
    )
)  # fmt: skip
ASKED = st.tuples(
    STARTS, st.lists(PARTS, max_size=6).map("/".join), st.sampled_from(("", "", "/", "/.", "\0"))
).map("".join)


@dataclass(frozen=True)
class Tree:
    """Two workspaces, another name for the first, and files next to them that must never be touched."""

    base: Path

    @property
    def places(self) -> dict[str, str]:
        return {name: str(self.base / name) for name in ("root", "other", "outside", "alias")}

    def path(self, text: str) -> str:
        for name, place in self.places.items():
            text = text.replace(f"{{{name}}}", place)
        return text

    @property
    def workspaces(self) -> Workspaces:
        other = Workspace.at(self.base / "other", writable=False)
        return Workspaces((Workspace.at(self.base / "alias", writable=True), other))


@contextlib.contextmanager
def tree(rows: list[tuple[str, str, str]]) -> Iterator[Tree]:
    with tempfile.TemporaryDirectory() as folder:
        new_tree = Tree(Path(folder).resolve())
        for name in ("root", "other", "outside"):
            (new_tree.base / name).mkdir()
        (new_tree.base / "alias").symlink_to("root")
        for place in ("outside/secret", "secret", "other/a"):
            (new_tree.base / place).write_text("secret")
        for kind, where, target in rows:
            with contextlib.suppress(OSError):  # the name exists, or is below a file
                put(new_tree, kind, new_tree.base / "root" / where, target)
        yield new_tree


def put(new_tree: Tree, kind: str, place: Path, target: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        place.touch(exist_ok=False)
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(new_tree.path(target))


def inodes(root: Path) -> set[tuple[int, int]]:
    """Everything below a folder that may be opened, by inode: links are not followed, reserved folders are omitted."""
    identities = {(root.stat().st_dev, root.stat().st_ino)}
    for folder, names, files in os.walk(root):
        if Path(folder) == root:
            names[:] = [name for name in names if name.casefold() != RESERVED]
        for name in (*names, *files):
            status = os.lstat(os.path.join(folder, name))
            if Path(folder) != root or name.casefold() != RESERVED:
                identities.add((status.st_dev, status.st_ino))
    return identities


def opened(located: WorkspacePath) -> os.stat_result:
    """The file that the server gets when it opens the place, as in every later use."""
    if located.is_folder:
        with open_folder(located.workspace, located.relative) as folder:
            return os.fstat(folder)
    with open_file(located) as file:
        return os.fstat(file)


@tries(90)
@given(TREES, st.lists(ASKED, min_size=1, max_size=6))
def test_readable_path_is_inside_as_the_kernel_resolves(rows, texts):
    with tree(rows) as new_tree:
        workspaces, allowed = (
            new_tree.workspaces,
            inodes(new_tree.base / "root") | inodes(new_tree.base / "other"),
        )
        for text in map(new_tree.path, texts):
            location = outcome(workspaces.input, text, refused=PathRefused)
            if isinstance(location, WorkspacePath):
                status = opened(location)
                assert (status.st_dev, status.st_ino) in allowed
                assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
                is_uri = text.lower().startswith("file:")
                plain = text[len("file:") :].replace("//", "/", 1) if is_uri else text
                if "%" not in plain:
                    kernel = os.stat(new_tree.base / "root" / plain)
                    assert (kernel.st_dev, kernel.st_ino) == (status.st_dev, status.st_ino)
                assert os.path.realpath(location.path) == str(location.path)


def lexical(new_tree: Tree, text: str) -> str | None:
    """The place where the kernel would make a file of this name; None if a folder on the way does not exist."""
    folder, name = os.path.split(new_tree.base / "root" / text)
    with contextlib.suppress(OSError):
        return os.path.join(os.path.realpath(folder, strict=True), name)
    return None


@tries(70)
@given(TREES, st.lists(ASKED, min_size=1, max_size=6))
def test_writable_path_is_new_or_plain_and_inside(rows, texts):
    with tree(rows) as new_tree:
        root = new_tree.base / "root"
        paths = Paths(new_tree.workspaces, "outputs", "0123456789abcdef")
        for text in map(new_tree.path, texts):
            output = outcome(
                lambda name: paths.output(name, inputs=(), overwrite=True), text, refused=ToolError
            )
            if isinstance(output, type):
                continue
            target = output.target.path
            assert target.is_relative_to(root)
            assert target != root
            assert target.relative_to(root).parts[0].casefold() != RESERVED
            assert os.path.realpath(target.parent) == str(target.parent)
            assert not target.is_symlink()
            if not text.lower().startswith("file:") and not text.endswith(("/", "/.", "..")):
                assert lexical(new_tree, text) == str(target)
            for replaced in output.replaces:
                assert (replaced.path.lstat().st_dev, replaced.path.lstat().st_ino) in inodes(root)


@tries(30)
@given(TREES, ASKED)
def test_walkable_folder_leads_nowhere_else(rows: list[tuple[str, str, str]], text: str):
    with tree(rows) as new_tree:
        allowed = inodes(new_tree.base / "root") | inodes(new_tree.base / "other")
        paths = Paths(new_tree.workspaces, "outputs", "0123456789abcdef")
        location = outcome(paths.tree, new_tree.path(text), refused=ToolError)
        if not isinstance(location, WorkspacePath) or not location.is_folder:
            return
        for folder, names, files in os.walk(location.path, followlinks=True):
            if Path(folder) in (new_tree.base / "root", new_tree.base / "other"):
                names[:] = [name for name in names if name.casefold() != RESERVED]
                files[:] = [name for name in files if name.casefold() != RESERVED]
            for name in (*names, *files):
                with contextlib.suppress(FileNotFoundError):  # a link to a missing file
                    status = os.stat(os.path.join(folder, name))
                    assert (status.st_dev, status.st_ino) in allowed
