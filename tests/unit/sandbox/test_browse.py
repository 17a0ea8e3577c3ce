"""A walk lists everything in a folder, in one order, and follows no link out of it."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from staging_kit import write

from sandbox.browse import EntryKind, Folder, FolderEntry, LinkTarget, SkipReason, opened
from sandbox.errors import PathRefused
from sandbox.workspace import RESERVED, Identity, Workspace, Workspaces


def walk(folder: Folder) -> Iterator[tuple[FolderEntry, bool]]:
    """Entries of a folder and below, each with True if it is a folder that was not entered."""
    for name in folder.names:
        entry = folder.look(name)
        if entry is None or entry.kind is not EntryKind.FOLDER:
            yield from [(entry, False)] if entry else []
            continue
        with folder.enter(name) as inner:
            if inner is not SkipReason.GONE:
                yield entry, inner is SkipReason.CLOSED
            if isinstance(inner, Folder):
                yield from walk(inner)


def everything(root: Path, at: str = "", **bounds: int) -> list[tuple[FolderEntry, bool]]:
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    with opened(workspaces, workspaces.input(str(root / at)), **bounds) as folder:
        return list(walk(folder))


def all_entries(root: Path) -> list[FolderEntry]:
    return [entry for entry, _ in everything(root)]


def paths(root: Path, at: str = "", **bounds: int) -> list[str]:
    return [str(entry.relative) for entry, _ in everything(root, at, **bounds)]


def test_entries_are_listed_in_byte_order(root):
    write(root, {"b/2": b"", "b/1/x": b"", "a": b"", "b-": b"", "é": b"", "c/": b""})
    assert paths(root) == ["a", "b", "b/1", "b/1/x", "b/2", "b-", "c", "é"]
    assert paths(root, "b") == ["b/1", "b/1/x", "b/2"]


def test_a_file_is_told_as_it_is(root):
    write(root, {"a.tif": b"12345"})
    (entry,) = all_entries(root)
    status = (root / "a.tif").stat()
    assert (entry.kind, entry.identity.size, entry.identity.mtime_ns) == (
        EntryKind.FILE,
        5,
        status.st_mtime_ns,
    )
    assert entry.located.path == root / "a.tif"
    assert entry.located.identity == Identity.of(status)


def test_link_is_listed_with_target_and_not_entered(root, tmp_path):
    write(root, {"real/inner/x.tif": b"1"})
    write(tmp_path, {"outside/secret.tif": b"2"})
    for name, target in {
        "in": "real", "out": "../outside", "out-file": str(tmp_path / "outside/secret.tif"),
        "gone": "nothing", "gone-out": "../nothing", "self": "self", "chain": "out/../workspace/real",
        "ours": RESERVED,
    }.items():  # fmt: skip
        (root / name).symlink_to(target)
    write(root, {f"{RESERVED}/undo/x": b""})
    links = {entry.name: entry.leads for entry in all_entries(root) if entry.kind is EntryKind.LINK}
    assert links == {
        "in": LinkTarget.INSIDE, "out": LinkTarget.OUTSIDE, "out-file": LinkTarget.OUTSIDE, "gone": LinkTarget.NOWHERE,
        "gone-out": LinkTarget.OUTSIDE, "self": LinkTarget.OUTSIDE, "chain": LinkTarget.OUTSIDE, "ours": LinkTarget.OUTSIDE,
    }  # fmt: skip
    assert not any(path.startswith(("in/", "out/", "chain/")) for path in paths(root))


def test_server_folder_is_hidden_but_namesakes_are_not(root):
    write(root, {f"{RESERVED}/undo/call/0": b"", "sub/.gdal-mcp/x": b"", "x": b""})
    assert paths(root) == ["sub", "sub/.gdal-mcp", "sub/.gdal-mcp/x", "x"]


def test_a_folder_below_the_depth_is_told_closed(root):
    write(root, {"a/b/c": b"", "d": b""})
    rows = [(str(entry.relative), closed) for entry, closed in everything(root, depth=1)]
    assert rows == [("a", True), ("d", False)]
    assert paths(root, depth=2) == ["a", "a/b", "d"]


def test_however_deep_folders_are_the_walk_ends(root):
    folder = os.open(root, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    entries = everything(root, depth=10_000)
    assert len(entries) < 100
    assert [closed for _, closed in entries] == [False] * (len(entries) - 1) + [True]


def test_folder_with_too_many_names_is_incomplete(root):
    write(root, {f"{folder}/{name}": b"" for folder in "ab" for name in "1234"})
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    expected = {1: [False], 3: [True, False, False], 9: [True, True, False], 10: [True] * 3}
    for limit, complete in expected.items():
        with opened(workspaces, workspaces.input(str(root)), limit=limit) as folder:
            completeness, names = [folder.complete], len(folder.names)
            for name in ("a", "b")[: len(complete) - 1]:
                with folder.enter(name) as inner:
                    assert isinstance(inner, Folder)
                    completeness, names = [*completeness, inner.complete], names + len(inner.names)
        assert (completeness, names) == (complete, limit)


def test_names_that_are_no_text_are_told_escaped(root):
    with open(os.fsencode(root) + b"/\xff\xfe.tif", "wb"):
        pass
    (entry,) = all_entries(root)
    assert entry.shown == "\\xff\\xfe.tif"
    assert os.fsencode(entry.relative) == b"\xff\xfe.tif"
    entry.shown.encode()


def test_pipes_are_told_and_not_opened(root):
    os.mkfifo(root / "pipe")
    (entry,) = all_entries(root)
    assert entry.kind is EntryKind.OTHER


def test_a_file_is_no_folder_to_walk(root):
    write(root, {"a": b""})
    with pytest.raises(PathRefused):
        paths(root, "a")


def test_entry_that_vanishes_or_becomes_link_is_skipped(root, tmp_path):
    write(root, {"a/x": b"", "b/x": b"", "c/x": b""})
    write(tmp_path, {"outside/secret": b""})
    workspaces = Workspaces((Workspace.at(root, writable=True),))
    visited = []
    with opened(workspaces, workspaces.input(str(root))) as folder:
        for entry, _ in walk(folder):
            if entry.name == "a":
                (root / "b/x").unlink()
                (root / "b").rmdir()
                (root / "c").rename(tmp_path / "c")
                (root / "c").symlink_to("../outside")
            visited.append(str(entry.relative))
    assert visited == ["a", "a/x", "c"]


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=20)


@given(st.lists(NAMES.filter(lambda name: name not in (".", "..")), max_size=8, unique=True))
def test_repeated_walks_agree_without_duplicates(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("walk")
    for number, name in enumerate(names):
        if len(name.encode()) <= 255:
            (root / name).mkdir() if number % 2 else (root / name).write_bytes(b"")
    first = all_entries(root)
    assert first == all_entries(root)
    relatives = [entry.relative for entry in first]
    assert len(set(relatives)) == len(relatives)
    assert {str(path) for path in relatives} == {
        path.name for path in root.iterdir() if path.name.casefold() != RESERVED
    }
    assert relatives == sorted(
        relatives, key=lambda path: [os.fsencode(part) for part in PurePosixPath(path).parts]
    )
