"""The places of the workspaces that a call's container sees if it sees only what the call names. No engine is needed."""

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Command, Draft
from gdal_mcp.toolboxes.gdal.datasets.scope import MAX_PLACES, places
from gdal_mcp.toolboxes.gdal.datasets.sidecars import REPLACED
from sandbox.errors import IsolationRefused, PathRefused, PathReplaced
from sandbox.mounted import check_sources, check_traversable, refuse_replaced
from sandbox.template import Limits, Mount, SandboxTemplate, host_source
from sandbox.workspace import Workspace, Workspaces


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def lay(root: Path, names: Iterable[str]) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_bytes(b"")


def visible_places(root: Path, *names: str, looked_at: tuple[str, ...] = ()) -> set[str]:
    """The places that a call with these names sees, relative to the workspace."""
    spaces = Workspaces((Workspace.at(root, writable=True),))
    inputs, others = (tuple(spaces.input(str(root / name)) for name in some) for some in (names, looked_at))
    visible = places(Draft(Command("gdal", ()), inputs, looked_at=others))
    assert all(place.identity is not None for place in visible)  # so that the container can be asked for each
    return {str(place.relative) for place in visible}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_named_files_and_companions_are_visible_once(root: Path, subtests: pytest.Subtests):
    for there, named, expected in (
        (["x.tif", "y.tif", "x.csv", "x.vrt"], ["x.tif"], {"x.tif"}),
        (
            ["x.tif", "x.tif.aux.xml", "x.TFW", "x.wld", "x.tif.ovr"],
            ["x.tif"],
            {"x.tif", "x.tif.aux.xml", "x.TFW", "x.wld", "x.tif.ovr"},
        ),
        (["x.shp", "x.dbf", "x.prj", "x.asc"], ["x.asc"], {"x.asc", "x.prj"}),
        (["x.shp", "x.dbf", "x.prj", "x.asc"], ["x.shp"], {"x.shp", "x.dbf", "x.prj"}),
        (["x.vrt", "x.tif", "x.csv", "x.json", "x"], ["x.vrt"], {"x.vrt"}),
        (["x.ers", "x", "xy"], ["x.ers"], {"x.ers", "x"}),
        (["a/x.tif", "a/y.tif", "b.tif"], ["a", "a/x.tif", "b.tif"], {"a", "b.tif"}),
        (["a/x.tif", "ab/x.tif"], ["a", "ab/x.tif"], {"a", "ab/x.tif"}),
        (["a.gdb/1.gdbtable", "a.gdb/2.gdbtable", "b"], ["a.gdb/1.gdbtable"], {"a.gdb"}),
        (["a.zarr/b/.zarray", "a.zarr/c/.zarray"], ["a.zarr/b/.zarray"], {"a.zarr"}),
        (["grid/hdr.adf", "grid/w001001.adf", "other/x"], ["grid/w001001.adf"], {"grid"}),
        (["hdr.adf", "secret.csv"], ["hdr.adf"], {"hdr.adf"}),
        (["x.tif", "y.tif"], ["."], {"."}),
    ):
        with subtests.test(there=there, named=named, expected=expected):
            folder = Path(tempfile.mkdtemp(dir=root))
            lay(folder, there)
            assert visible_places(folder, *named) == expected


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_everything_belonging_to_a_dataset_is_visible(root: Path, subtests: pytest.Subtests):
    for main in REPLACED:
        with subtests.test(main=main):
            own = {f"x{ending}" for ending in REPLACED[main]}
            folder = Path(tempfile.mkdtemp(dir=root))
            lay(folder, [f"x{main}", *own, f"y{main}", "x.unrelated"])
            assert visible_places(folder, f"x{main}") == {f"x{main}", *own}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_examined_files_are_visible_too(root: Path):
    lay(root, ["x.tif", "folder/a", "other"])
    assert visible_places(root, "x.tif", looked_at=("folder",)) == {"x.tif", "folder"}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_link_beside_a_dataset_is_not_included(root: Path):
    lay(root, ["x.tif", "secret.csv"])
    (root / "x.tif.aux.xml").symlink_to(root / "secret.csv")
    (root / "x.tfw").symlink_to("/etc/passwd")
    os.mkfifo(root / "x.wld")
    assert visible_places(root, "x.tif") == {"x.tif"}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_named_link_shows_its_target(root: Path):
    lay(root, ["inner/x.tif", "inner/x.tfw"])
    (root / "link.tif").symlink_to(root / "inner" / "x.tif")
    assert visible_places(root, "link.tif") == {"inner/x.tif", "inner/x.tfw"}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
@given(
    st.text(st.sampled_from("x.tifaxmlovrwTF-_"), min_size=1, max_size=14).filter(
        lambda name: name.strip(".")
    )
)
def test_name_without_the_dataset_stem_is_not_visible(tmp_path_factory, name):
    root = tmp_path_factory.mktemp("any")
    lay(root, {"x.tif", name})
    extra = visible_places(root, "x.tif") - {"x.tif"}
    assert extra <= {name}
    assert all(path.startswith("x") for path in extra)


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_too_many_files_are_refused_before_anything_runs(root: Path):
    names = [f"{number}.tif" for number in range(MAX_PLACES + 1)]
    lay(root, names)
    assert len(visible_places(root, *names[:-1])) == MAX_PLACES
    with pytest.raises(ToolError) as caught:
        visible_places(root, *names)
    assert caught.value.code is Code.INVALID_ARGUMENT


STRANGER = (12345, 12345)


@pytest.mark.claim("sandbox.scope-inputs-closed-folders")
@pytest.mark.parametrize("closed", ["", "a", "a/b"])
def test_closed_folder_stays_closed_beside_mounted_file(root, closed):
    lay(root, ["a/b/x.tif"])
    for folder in ("", "a", "a/b"):
        (root / folder).chmod(0o711)
    located = Workspaces((Workspace.at(root, writable=True),)).input(str(root / "a/b/x.tif"))
    check_traversable(root, located, STRANGER)
    (root / closed).chmod(0o700)
    with pytest.raises(PathRefused):
        check_traversable(root, located, STRANGER)
    (root / closed).chmod(0o711)


@pytest.mark.claim("sandbox.scope-inputs-closed-folders")
def test_replacement_folder_does_not_open_a_closed_one(root: Path):
    """The check is made on the way to the file itself, so an open folder with another file cannot replace it."""
    lay(root, ["a/x.tif", "open/x.tif"])
    for folder in ("", "a", "open"):
        (root / folder).chmod(0o755)
    located = Workspaces((Workspace.at(root, writable=True),)).input(str(root / "a/x.tif"))
    (root / "a").rename(root / "old")
    (root / "open").rename(root / "a")
    with pytest.raises(PathReplaced):
        check_traversable(root, located, STRANGER)


def template(root: Path) -> SandboxTemplate:
    status = (root / "x.tif").stat()
    mounts = (
        Mount(host_source(root / "x.tif"), PurePosixPath(root / "x.tif"), identity=(status.st_dev, status.st_ino)),
        Mount(host_source(root / "any"), PurePosixPath("/any")),
    )  # fmt: skip
    return SandboxTemplate("sha256:0", ("x",), (1000, 1000), Limits(), mounts)


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
def test_only_the_very_file_is_taken_for_it(root: Path, subtests: pytest.Subtests):
    for change in (
        {"identity": None}, {"identity": [1, 1]}, {"identity": "x"}, {"identity": []}, {"target": "/else"},
        {},
    ):  # fmt: skip
        with subtests.test(change=change):
            lay(root, ["x.tif", "any"])
            sandbox_template = template(root)
            row = {"target": str(root / "x.tif"), "identity": list(sandbox_template.mounts[0].identity or ())}
            refuse_replaced(
                sandbox_template, {"mounts": [row, {"target": "/any", "identity": None}]}, same_kernel=True
            )
            with pytest.raises(PathReplaced):
                refuse_replaced(
                    sandbox_template, {"mounts": [{**row, **change}] if change else []}, same_kernel=True
                )


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
def test_file_is_not_identified_by_foreign_kernel_numbers(root: Path):
    lay(root, ["x.tif", "any"])
    sandbox_template = template(root)
    row = {"target": str(root / "x.tif"), "identity": list(sandbox_template.mounts[0].identity or ())}
    with pytest.raises(IsolationRefused):
        refuse_replaced(sandbox_template, {"mounts": [row]}, same_kernel=False)
    # a whole workspace is not such a file
    refuse_replaced(replace(sandbox_template, mounts=sandbox_template.mounts[1:]), {}, same_kernel=False)


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
def test_facts_of_another_shape_are_a_difference(root: Path, subtests: pytest.Subtests):
    for facts in ({}, {"mounts": None}, {"mounts": [None, "x", {"identity": [1]}]}, {"mounts": {"x": 1}}):
        with subtests.test(facts=facts):
            lay(root, ["x.tif", "any"])
            with pytest.raises(PathReplaced):
                refuse_replaced(template(root), facts, same_kernel=True)


@pytest.mark.claim("files.mounted-file-is-the-one-looked-up")
def test_engine_is_blamed_unless_an_examined_path_vanished(root: Path):
    lay(root, ["x.tif"])
    sandbox_template = template(root)  # the other mount is missing, but it was not looked up by itself
    check_sources(sandbox_template)
    (root / "x.tif").rename(root / "y.tif")
    (root / "x.tif").symlink_to(root / "y.tif")
    with pytest.raises(PathReplaced):
        check_sources(sandbox_template)
