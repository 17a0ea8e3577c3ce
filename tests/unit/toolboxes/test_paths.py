"""The meaning of a path text in a call: a file, or an error on which the caller can act."""

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths, Source, family
from gdal_mcp.toolboxes.gdal.datasets.trees import TREE_LINKS
from sandbox.workspace import Workspace, Workspaces


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    for name in (
        "in.tif", "out.tif", "out.tif.aux.xml", "out.tfw", "a b.tif", "PG:host=x.tif", "roads.shp",
        "roads.dbf",
    ):  # fmt: skip
        (folder / name).write_bytes(b"x")
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def paths(root: Path) -> Paths:
    return Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef")


def refused(paths: Paths, ask: str, *arguments: object, **named: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        getattr(paths, ask)(*arguments, **named)
    assert caught.value.stage is Stage.RESOLVE
    assert caught.value.suggestion
    return caught.value


def refusal(paths: Paths, text: str, *, writing: bool = False, ask: str = "input") -> ToolError:
    return refused(paths, "output", text, inputs=(), overwrite=True) if writing else refused(paths, ask, text)


def invalid(paths: Paths, target: str, *inputs: Source, overwrite: bool = True, **named: object) -> None:
    """Asserts that this output is refused as an argument to be corrected."""
    failure = refused(paths, "output", target, inputs=inputs, overwrite=overwrite, **named)
    assert failure.code is Code.INVALID_ARGUMENT


def test_workspace_file_is_found_by_any_odd_name(paths: Paths, root: Path):
    for text in ["in.tif", "./in.tif", "folder/../in.tif", "PG:host=x.tif", "a b.tif", "folder"]:
        assert paths.input(text).path == Path(os.path.normpath(root / text))


def test_path_outside_error_names_the_folders_of_the_caller(tmp_path: Path, root: Path):
    other = tmp_path / "other"
    (other / "ann").mkdir(parents=True)
    narrowed = replace(Workspace.at(other, writable=False), shown=(PurePosixPath("ann"),))
    both = Paths(Workspaces((Workspace.at(root, writable=True), narrowed)), "outputs", "0123456789abcdef")
    suggestion = refusal(both, "/etc/passwd").suggestion
    assert str(root) in suggestion
    assert f"{other}/ann (read-only)" in suggestion
    assert f"{other}," not in suggestion


def test_a_missing_output_folder_has_its_own_advice(paths: Paths):
    read, written = refusal(paths, "absent/a.tif"), refusal(paths, "absent/a.tif", writing=True)
    assert read.code is written.code is Code.NOT_FOUND
    assert read.suggestion != written.suggestion


@pytest.mark.claim("paths.inside")
def test_other_text_is_answered_by_its_apparent_meaning(paths: Paths):
    for text, code in [
        ("absent.tif", Code.NOT_FOUND), ("folder/absent.tif", Code.NOT_FOUND),
        ("../x.tif", Code.PATH_NOT_ALLOWED), ("/etc/passwd", Code.PATH_NOT_ALLOWED),
        ("", Code.PATH_NOT_ALLOWED), ("a\0b", Code.PATH_NOT_ALLOWED),
        (".gdal-mcp/undo", Code.PATH_NOT_ALLOWED), ("/vsizip/in.zip/a.tif", Code.PATH_NOT_ALLOWED),
        ("/vsimem/x", Code.PATH_NOT_ALLOWED), ("vrt://in.tif", Code.PATH_NOT_ALLOWED),
        ("file:///etc/passwd", Code.PATH_NOT_ALLOWED), ("file://host/share/in.tif", Code.PATH_NOT_ALLOWED),
        ("<VRTDataset/>", Code.PATH_NOT_ALLOWED), ('{"type":"Point"}', Code.PATH_NOT_ALLOWED),
        ("NETCDF:in.tif:v", Code.PATH_NOT_ALLOWED),
        ("/vsicurl/https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ("/vsicurl_streaming/https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ("/vsis3/bucket/a.tif", Code.NETWORK_BLOCKED), ("https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ("PG:dbname=x", Code.NETWORK_BLOCKED), ("WMS:http://example.org", Code.NETWORK_BLOCKED),
        ("postgresql://db/x", Code.NETWORK_BLOCKED),
    ]:  # fmt: skip
        assert refusal(paths, text).code is code


@pytest.fixture
def filled(root: Path) -> Path:
    """Archives and files with many parts, some in folders whose names look like archives."""
    for name in "a.zip d.zip/real.zip d.zip/in a.kmz two.tif v.nc v{.zip q:x.tif v.nc.aux.xml".split():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "v.zarr").mkdir()
    (root / "l:1.nc").symlink_to("v.nc")
    return root


def test_dataset_inside_an_archive_or_file_is_found(paths: Paths, filled: Path):
    for text, place, name in [
        ("in.tif", "in.tif", "{ws}/in.tif"),
        ("PG:host=x.tif", "PG:host=x.tif", "{ws}/PG:host=x.tif"),
        ("folder", "folder", "{ws}/folder"),
        ("v.zarr", "v.zarr", "{ws}/v.zarr"),
        ("GTIFF_DIR:1:two.tif", "two.tif", "GTIFF_DIR:1:{ws}/two.tif"),
        ("GTIFF_DIR:1:{ws}/folder/../two.tif", "two.tif", "GTIFF_DIR:1:{ws}/two.tif"),
        ('NETCDF:"v.nc":one', "v.nc", 'NETCDF:"{ws}/v.nc":one'),
        ('NETCDF:"q:x.tif":one', "q:x.tif", 'NETCDF:"{ws}/q:x.tif":one'),
        ('NETCDF:"l:1.nc":one', "v.nc", 'NETCDF:"{ws}/v.nc":one'),  # GDAL receives the target of the link
        ('ZARR:"v.zarr":/one', "v.zarr", 'ZARR:"{ws}/v.zarr":/one'),
        ("/vsizip/a.zip", "a.zip", "/vsizip/[{ws}/a.zip]"),
        ("/vsizip/a.zip/", "a.zip", "/vsizip/[{ws}/a.zip]"),
        ("/vsizip/a.kmz/doc.kml", "a.kmz", "/vsizip/[{ws}/a.kmz]/doc.kml"),
        ("/vsizip/{ws}/a.zip//b/c.tif", "a.zip", "/vsizip/[{ws}/a.zip]/b/c.tif"),
        ("/vsizip/[a.zip]/b.zip", "a.zip", "/vsizip/[{ws}/a.zip]/b.zip"),
        ("/vsizip/d.zip/real.zip/d.zip/in", "d.zip/real.zip", "/vsizip/[{ws}/d.zip/real.zip]/d.zip/in"),
        ("/vsitar/{ws}/d.zip/in/x", "d.zip/in", "/vsitar/[{ws}/d.zip/in]/x"),
        ("GTIFF_DIR:1:/vsizip/a.zip/two.tif", "a.zip", "GTIFF_DIR:1:/vsizip/[{ws}/a.zip]/two.tif"),
        ('ZARR:"/vsizip/a.zip/v.zarr":/one', "a.zip", 'ZARR:"/vsizip/[{ws}/a.zip]/v.zarr":/one'),
        ("/vsigzip/{ws}/in.tif", "in.tif", "/vsigzip/{ws}/in.tif"),
    ]:
        source, expected = (
            template.replace("{ws}", str(filled)).translate({91: "{", 93: "}"}) for template in (text, name)
        )
        dataset = paths.source(source)
        assert (dataset.located.path, dataset.name) == (filled / place, expected)
        assert dataset.is_plain == (expected == str(filled / place))


@pytest.mark.claim("names.files-only")
def test_dataset_outside_workspaces_is_refused_in_any_notation(paths, filled, tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    (filled / "out.lnk").symlink_to(tmp_path / "secret")
    for text, code in [
        ("absent.tif", Code.NOT_FOUND), ("GTIFF_DIR:1:absent.tif", Code.NOT_FOUND),
        ("/vsizip/absent.zip/a.tif", Code.NOT_FOUND), ("/vsizip/d.zip/absent.zip/a.tif", Code.NOT_FOUND),
        ("/vsizip/[absent.zip]/a.tif", Code.NOT_FOUND), ("/vsizip/d.zip", Code.PATH_NOT_ALLOWED),
        ("/vsizip/[d.zip]/in", Code.PATH_NOT_ALLOWED), ("/vsizip//etc/passwd", Code.PATH_NOT_ALLOWED),
        ("/vsigzip//etc/passwd", Code.PATH_NOT_ALLOWED), ('NETCDF:"/etc/passwd":v', Code.PATH_NOT_ALLOWED),
        ('NETCDF:"../x.nc":v', Code.PATH_NOT_ALLOWED),
        ("NETCDF:/etc/passwd:/ws/v.nc", Code.PATH_NOT_ALLOWED),
        ("GTIFF_DIR:1:.gdal-mcp/undo", Code.PATH_NOT_ALLOWED),
        ("/vsizip/[v{.zip]/a", Code.PATH_NOT_ALLOWED), ("GTIFF_DIR:1:q:x.tif", Code.PATH_NOT_ALLOWED),
        ('NETCDF:"folder":v', Code.PATH_NOT_ALLOWED), ('ZARR:"v.nc":/a', Code.PATH_NOT_ALLOWED),
        ("GTIFF_DIR:1:out.lnk", Code.PATH_NOT_ALLOWED), ("/vsizip/out.lnk/a", Code.PATH_NOT_ALLOWED),
        ("/vsicurl/https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ('NETCDF:"/vsis3/b/a.nc":v', Code.NETWORK_BLOCKED), ("vrt://in.tif", Code.PATH_NOT_ALLOWED),
    ]:  # fmt: skip
        assert refusal(paths, text.translate({91: "{", 93: "}"}), ask="source").code is code


def test_plain_path_arguments_accept_no_other_notation(paths: Paths, filled: Path):
    for text in ('NETCDF:"v.nc":one', "/vsizip/a.zip/b", "/vsigzip/in.tif"):
        assert refusal(paths, text).code is Code.PATH_NOT_ALLOWED
    assert refusal(paths, "in.tif", ask="folder").code is Code.PATH_NOT_ALLOWED
    assert paths.folder("folder").is_folder


def test_input_family_is_file_and_companions_or_archive(paths, filled):
    (filled / "a.zip.aux.xml").write_bytes(b"x")
    (filled / "vsi").mkdir()
    for name in ("x.tif", "x.tfw"):
        (filled / "vsi" / name).write_bytes(b"x")
    assert family(paths.source('NETCDF:"v.nc":one')) == (filled / "v.nc", filled / "v.nc.aux.xml")
    assert family(paths.source("/vsizip/a.zip/b.tif")) == (filled / "a.zip",)
    assert family(paths.source("vsi/x.tif")) == (filled / "vsi/x.tif", filled / "vsi/x.tfw")
    assert family(paths.input("v.zarr")) == (filled / "v.zarr",)


@pytest.mark.claim("paths.links-stay-inside")
def test_links_lead_nowhere_outside_and_outputs_avoid_them(paths, root, tmp_path):
    (tmp_path / "secret.tif").write_bytes(b"x")
    (root / "out_link.tif").symlink_to(tmp_path / "secret.tif")
    (root / "in_link.tif").symlink_to("in.tif")
    assert refusal(paths, "out_link.tif").code is Code.PATH_NOT_ALLOWED
    assert paths.input("in_link.tif").path == root / "in.tif"
    for name in ("out_link.tif", "in_link.tif"):
        assert refusal(paths, name, writing=True).code is Code.PATH_NOT_ALLOWED


def test_an_output_is_only_ever_a_plain_path(paths: Paths):
    for text, code in [
        ("https://example.org/a.tif", Code.NETWORK_BLOCKED), ("/vsimem/a.tif", Code.PATH_NOT_ALLOWED),
        ("/vsizip/a.zip/b.tif", Code.PATH_NOT_ALLOWED), ("/vsistdout/", Code.PATH_NOT_ALLOWED),
        ("absent/a.tif", Code.NOT_FOUND), ("GTIFF_DIR:1:in.tif", Code.PATH_NOT_ALLOWED),
        ("PG:dbname=x", Code.PATH_NOT_ALLOWED), ("http:x.tif", Code.PATH_NOT_ALLOWED), ("NETCDF:a.nc:v", Code.PATH_NOT_ALLOWED),
    ]:  # fmt: skip
        assert refusal(paths, text, writing=True).code is code, text
    for plain in ("2024-01-01T12:30.tif", "a:b.tif"):
        assert paths.output(plain, inputs=(), overwrite=True).target.name == plain


def test_replaced_output_includes_companions_and_orphans(paths: Paths, root: Path):
    (root / "lost.tif.aux.xml").write_bytes(b"x")
    output = paths.output("out.tif", inputs=(), overwrite=True)
    assert [path.name for path in output.replaces] == ["out.tif", "out.tfw", "out.tif.aux.xml"]
    assert not output.update
    assert paths.output("out.tif", inputs=(), overwrite=False, update=True).update
    output = paths.output("lost.tif", inputs=(), overwrite=False, update=True)
    assert [path.name for path in output.replaces] == ["lost.tif.aux.xml"]
    assert not output.update


def test_what_two_datasets_share_is_named_apart(paths: Paths, root: Path):
    for name in ("roads.csv", "roads.prj"):
        (root / name).write_bytes(b"x")
    output = paths.output("roads.shp", inputs=(), overwrite=True)
    assert [path.name for path in output.replaces] == ["roads.shp", "roads.dbf"]
    assert [path.name for path in output.shared] == ["roads.prj"]


@pytest.mark.claim("outputs.inputs-kept")
def test_without_overwrite_what_is_there_stays(paths: Paths, root: Path):
    (root / "lost.tif.aux.xml").write_bytes(b"x")
    for name in ["out.tif", "lost.tif"]:
        invalid(paths, name, overwrite=False)


@pytest.mark.claim("outputs.inputs-kept")
def test_output_never_takes_the_place_of_input_files(paths: Paths, filled: Path):
    for source, target in [
        ("in.tif", "in.tif"), ("roads.shp", "roads.dbf"), ("roads.dbf", "roads.shp"), ("out.tfw", "out.tif"),
        ("/vsizip/a.zip/b.tif", "a.zip"), ('NETCDF:"v.nc":one', "v.nc"), ('NETCDF:"v.nc":one', "v.nc.aux.xml"),
        ('ZARR:"v.zarr":/a', "v.zarr"),
    ]:  # fmt: skip
        invalid(paths, target, paths.source(source), update=True)


def test_companion_link_is_refused_without_internal_error(paths: Paths, root: Path, tmp_path: Path):
    (root / "out.tif.ovr").symlink_to(tmp_path / "elsewhere")
    assert refusal(paths, "out.tif", writing=True).code is Code.PATH_NOT_ALLOWED
    (root / "in.tif.ovr").symlink_to(tmp_path / "elsewhere")
    assert paths.output("new.tif", inputs=(paths.input("in.tif"),), overwrite=True).replaces == ()


def test_name_too_long_for_companions_still_works(paths: Paths, root: Path):
    for ending in (".tif", ".shp"):
        name = "n" * (255 - len(ending)) + ending
        assert paths.output(name, inputs=(), overwrite=False).shared == ()
        (root / name).write_bytes(b"x")
        over = paths.output(name, inputs=(paths.input("in.tif"),), overwrite=True)
        assert [path.name for path in over.replaces] == [name]
        assert family(paths.source(name)) == (root / name,)


def test_server_made_name_is_plain_and_in_outputs(paths: Paths, root: Path):
    for stem in ["dem", "a b", "../../x", "-rf", ".hidden", "", "é" * 300, "x\u202ey", "a" * 300]:
        output = paths.new_output(stem, ".tif")
        name = output.target.name
        assert output.target.path.parent == root / "outputs"
        assert name.isascii()
        assert name[0] not in "-."
        assert len(name) <= 255
        assert name.endswith("_6789abcdef.tif")
        assert (output.server_named, output.replaces) == (True, ())


def test_new_output_uses_first_writable_workspace_or_none(root: Path, tmp_path: Path):
    second = tmp_path / "second"
    second.mkdir()
    closed, open_one = Workspace.at(root, writable=False), Workspace.at(second, writable=True)
    both = Paths(Workspaces((closed, open_one)), "outputs", "0123456789abcdef")
    assert both.new_output("x", ".tif").target.path.parent == second / "outputs"
    none = Paths(Workspaces((closed,)), "outputs", "0123456789abcdef")
    assert refusal(none, "x.tif", writing=True).code is Code.PATH_NOT_ALLOWED
    assert refused(none, "new_output", "x", ".tif").code is Code.PATH_NOT_ALLOWED


def test_folder_is_replaced_completely_and_new_replaces_nothing(paths: Paths, root: Path):
    (root / "tiles").mkdir()
    (root / "tiles" / "0.png").write_bytes(b"x")
    (root / "tiles.aux.xml").write_bytes(b"x")
    output = paths.output("tiles", inputs=(), overwrite=True, kind="folder")
    assert ([located.path for located in output.replaces], output.shared, output.update) == (
        [root / "tiles"],
        (),
        False,
    )
    assert paths.output("tiles", inputs=(), overwrite=False, update=True, kind="folder").update
    (root / "new.aux.xml").write_bytes(b"x")
    new = paths.output("new", inputs=(), overwrite=False, kind="folder")
    assert (new.kind, new.replaces, new.target.identity) == ("folder", (), None)
    invalid(paths, "tiles", overwrite=False, kind="folder")


def test_files_and_folders_never_replace_each_other(paths: Paths):
    for name, kind in [("in.tif", "folder"), ("folder", "file"), ("folder", "table"), ("folder", "array")]:
        invalid(paths, name, kind=kind)


def test_folder_containing_an_input_is_not_replaced(paths: Paths, root: Path):
    (root / "folder" / "deep").mkdir()
    (root / "folder" / "deep" / "a.tif").write_bytes(b"x")
    (root / "folderly").mkdir()
    for kind in ["folder", "dataset"]:
        source = paths.input("folder/deep/a.tif")
        invalid(paths, "folder", source, kind=kind)
        assert paths.output("folderly", inputs=(source,), overwrite=True, kind=kind).replaces


def test_output_beside_inputs_of_walked_folder_is_allowed(paths: Paths, root: Path):
    tree = paths.tree("folder")
    assert paths.output("folder/index.gpkg", inputs=(tree,), overwrite=False).replaces == ()


@pytest.fixture
def tree(root: Path) -> Path:
    """A folder of the workspace with files, folders and a link to a file inside it."""
    folder = root / "tree"
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("x.tif", "a/y.tif", "a/b/z.tif"):
        (folder / name).write_bytes(b"x")
    (folder / "a" / "in.lnk").symlink_to(root / "in.tif")
    return folder


def test_folder_with_links_inside_workspaces_may_be_walked(paths: Paths, root: Path, tree: Path):
    (tree / "more").symlink_to("../folder")
    (tree / "again").symlink_to("more")
    (tree / "nothing").symlink_to("absent")
    assert paths.tree("tree") == paths.input("tree")
    assert paths.tree("in.tif").path == root / "in.tif"


@pytest.mark.claim("paths.walked-folders")
def test_folder_with_any_link_outside_is_refused(paths, root, tree):
    (tree / "a" / "more").symlink_to(root / "folder")  # also behind a link that stays inside
    for place in (tree / "a" / "b" / "out.lnk", root / "folder" / "out.lnk"):
        for target in "/etc /etc/passwd /proc/self/environ ../../../.. ../../../.gdal-mcp /absent".split():
            place.symlink_to(target)
            failure = refusal(paths, "tree", ask="tree")
            assert failure.code is Code.PATH_NOT_ALLOWED
            assert "out.lnk" in failure.message
            place.unlink()


@pytest.mark.claim("paths.walked-folders")
def test_circular_link_is_refused_by_name(paths, tree, monkeypatch):
    monkeypatch.setattr(
        "gdal_mcp.toolboxes.gdal.datasets.trees.TREE_LINKS", 10**6
    )  # the circle itself is detected, not its length
    link = tree / "a" / "round.lnk"
    for target in (".", "..", "../..", "../../tree", "../../tree/a/../a", "../../beside"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        if target == "../../beside":
            (tree.parent / "beside").mkdir()
            (tree.parent / "beside" / "round.lnk").symlink_to("../tree")
        assert "round.lnk" in refusal(paths, "tree", ask="tree").message


def test_folders_that_link_on_and_on_are_bounded(paths: Paths, root: Path):
    for number in range(TREE_LINKS + 2):
        (root / f"f{number}").mkdir()
        (root / f"f{number}" / "on").symlink_to(f"../f{number + 1}")
    (root / f"f{TREE_LINKS + 2}").mkdir()
    assert refusal(paths, "f0", ask="tree").code is Code.PATH_NOT_ALLOWED
    assert paths.tree("f3").is_folder


@pytest.mark.claim("paths.walked-folders")
def test_a_folder_of_multiplying_links_is_refused(paths, root, monkeypatch):
    monkeypatch.setattr("gdal_mcp.toolboxes.gdal.datasets.trees.TREE_ENTRIES", 2_000)
    for number in range(5):
        (root / f"f{number}").mkdir()
        for link in range(6):
            (root / f"f{number}" / f"on{link}").symlink_to(f"../f{number + 1}")
    (root / "f5").mkdir()
    assert refusal(paths, "f0", ask="tree").code is Code.PATH_NOT_ALLOWED


def test_folder_too_deep_to_examine_is_refused(paths: Paths, tree: Path):
    (tree / "/".join(["deep"] * 80)).mkdir(parents=True)
    assert refusal(paths, "tree", ask="tree").code is Code.PATH_NOT_ALLOWED


@pytest.mark.claim("paths.plain-files-only")
def test_pipe_or_socket_in_a_folder_is_named(paths: Paths, tree: Path):
    os.mkfifo(tree / "a" / "pipe")
    assert "pipe" in refusal(paths, "tree", ask="tree").message


@pytest.mark.claim("paths.reserved-unreachable")
def test_walked_workspace_excludes_the_server_folder(paths: Paths, root: Path):
    (root / ".gdal-mcp" / "undo").mkdir(parents=True)
    (root / ".gdal-mcp" / "undo" / "old.lnk").symlink_to("/etc")
    assert paths.tree(".").path == root


def test_workspace_path_with_gdal_meaning_is_refused():
    for root in ("/vsimem", "/vsicurl/https:", "/VSIzip/x"):
        with pytest.raises(ToolError) as caught:
            Paths(Workspaces((Workspace(Path(root), writable=True),)), "outputs", "0123456789abcdef")
        assert caught.value.code is Code.PATH_NOT_ALLOWED
