"""What a path text of a call becomes: a place, or an answer that the caller can act on."""

import os
from pathlib import Path

import pytest

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.paths import Paths
from sandbox.workspace import Workspace, Workspaces


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    for name in (
        "in.tif",
        "out.tif",
        "out.tif.aux.xml",
        "out.tfw",
        "a b.tif",
        "PG:host=x.tif",
        "roads.shp",
        "roads.dbf",
    ):
        (made / name).write_bytes(b"x")
    (made / "folder").mkdir()
    return made


@pytest.fixture
def paths(root: Path) -> Paths:
    return Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef")


def refusal(paths: Paths, text: str, *, writing: bool = False) -> ToolError:
    with pytest.raises(ToolError) as caught:
        if writing:
            paths.output(text, inputs=(), overwrite=True)
        else:
            paths.input(text)
    assert caught.value.stage is Stage.RESOLVE
    assert caught.value.suggestion
    return caught.value


@pytest.mark.parametrize(
    "text", ["in.tif", "./in.tif", "folder/../in.tif", "PG:host=x.tif", "a b.tif", "folder"]
)
def test_a_file_of_the_workspace_is_found_by_its_name_whatever_it_looks_like(
    paths: Paths, root: Path, text: str
):
    assert paths.input(text).path == Path(os.path.normpath(root / text))


def test_absolute_paths_and_uris_name_the_same_file(paths: Paths, root: Path):
    assert (
        paths.input(str(root / "a b.tif"))
        == paths.input((root / "a b.tif").as_uri())
        == paths.input("a b.tif")
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("absent.tif", Code.NOT_FOUND),
        ("folder/absent.tif", Code.NOT_FOUND),
        ("../x.tif", Code.PATH_NOT_ALLOWED),
        ("/etc/passwd", Code.PATH_NOT_ALLOWED),
        ("", Code.PATH_NOT_ALLOWED),
        ("a\0b", Code.PATH_NOT_ALLOWED),
        (".gdal-mcp/undo", Code.PATH_NOT_ALLOWED),
        ("/vsizip/in.zip/a.tif", Code.PATH_NOT_ALLOWED),
        ("/vsimem/x", Code.PATH_NOT_ALLOWED),
        ("vrt://in.tif", Code.PATH_NOT_ALLOWED),
        ("file:///etc/passwd", Code.PATH_NOT_ALLOWED),
        ("file://host/share/in.tif", Code.PATH_NOT_ALLOWED),
        ("<VRTDataset/>", Code.PATH_NOT_ALLOWED),
        ('{"type":"Point"}', Code.PATH_NOT_ALLOWED),
        ("NETCDF:in.tif:v", Code.PATH_NOT_ALLOWED),
        ("/vsicurl/https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ("/vsicurl_streaming/https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ("/vsis3/bucket/a.tif", Code.NETWORK_BLOCKED),
        ("https://example.org/a.tif", Code.NETWORK_BLOCKED),
        ("PG:dbname=x", Code.NETWORK_BLOCKED),
        ("WMS:http://example.org", Code.NETWORK_BLOCKED),
        ("postgresql://db/x", Code.NETWORK_BLOCKED),
    ],
)
def test_any_other_text_is_answered_by_what_it_seems_to_mean(paths: Paths, text: str, code: Code):
    assert refusal(paths, text).code is code


def test_a_uri_of_a_file_that_is_not_there_is_not_found(paths: Paths, root: Path):
    assert refusal(paths, (root / "absent.tif").as_uri()).code is Code.NOT_FOUND


def test_a_link_leads_nowhere_outside_and_no_output_goes_through_one(
    paths: Paths, root: Path, tmp_path: Path
):
    (tmp_path / "secret.tif").write_bytes(b"x")
    (root / "out_link.tif").symlink_to(tmp_path / "secret.tif")
    (root / "in_link.tif").symlink_to("in.tif")
    assert refusal(paths, "out_link.tif").code is Code.PATH_NOT_ALLOWED
    assert paths.input("in_link.tif").path == root / "in.tif"
    for name in ("out_link.tif", "in_link.tif"):
        assert refusal(paths, name, writing=True).code is Code.PATH_NOT_ALLOWED


def test_a_new_output_replaces_nothing(paths: Paths):
    made = paths.output("new.tif", inputs=(), overwrite=True)
    assert (made.replaces, made.update, made.server_named) == ((), False, False)


def test_an_existing_output_is_replaced_with_all_that_belongs_to_it(paths: Paths):
    made = paths.output("out.tif", inputs=(), overwrite=True)
    assert [one.name for one in made.replaces] == ["out.tif", "out.tfw", "out.tif.aux.xml"]
    assert not made.update
    assert paths.output("out.tif", inputs=(), overwrite=False, update=True).update


def test_orphans_are_replaced_as_well_but_not_updated(paths: Paths, root: Path):
    (root / "lost.tif.aux.xml").write_bytes(b"x")
    made = paths.output("lost.tif", inputs=(), overwrite=False, update=True)
    assert [one.name for one in made.replaces] == ["lost.tif.aux.xml"]
    assert not made.update


def test_what_two_datasets_share_is_named_apart(paths: Paths, root: Path):
    for name in ("roads.csv", "roads.prj"):
        (root / name).write_bytes(b"x")
    made = paths.output("roads.shp", inputs=(), overwrite=True)
    assert [one.name for one in made.replaces] == ["roads.shp", "roads.dbf"]
    assert [one.name for one in made.shared] == ["roads.prj"]


@pytest.mark.parametrize("name", ["out.tif", "lost.tif"])
def test_without_overwrite_what_is_there_stays(paths: Paths, root: Path, name: str):
    (root / "lost.tif.aux.xml").write_bytes(b"x")
    with pytest.raises(ToolError) as caught:
        paths.output(name, inputs=(), overwrite=False)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("source", "target"),
    [("in.tif", "in.tif"), ("roads.shp", "roads.dbf"), ("roads.dbf", "roads.shp"), ("out.tfw", "out.tif")],
)
def test_an_output_never_takes_an_inputs_place_or_that_of_its_files(paths: Paths, source: str, target: str):
    with pytest.raises(ToolError) as caught:
        paths.output(target, inputs=(paths.input(source),), overwrite=True, update=True)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_companion_that_is_a_link_is_a_refusal_and_not_a_fault(paths: Paths, root: Path, tmp_path: Path):
    (root / "out.tif.ovr").symlink_to(tmp_path / "elsewhere")
    assert refusal(paths, "out.tif", writing=True).code is Code.PATH_NOT_ALLOWED
    (root / "in.tif.ovr").symlink_to(tmp_path / "elsewhere")
    assert paths.output("new.tif", inputs=(paths.input("in.tif"),), overwrite=True).replaces == ()


@pytest.mark.parametrize(
    "stem", ["dem", "a b", "../../x", "-rf", ".hidden", "", "é" * 300, "x\u202ey", "a" * 300]
)
def test_a_name_of_the_servers_own_is_plain_short_and_in_the_outputs_folder(
    paths: Paths, root: Path, stem: str
):
    made = paths.new_output(stem, ".tif")
    name = made.target.name
    assert made.target.path.parent == root / "outputs"
    assert name.isascii()
    assert name[0] not in "-."
    assert len(name) <= 255
    assert name.endswith("_6789abcdef.tif")
    assert (made.server_named, made.replaces) == (True, ())


def test_read_only_workspaces_have_no_place_for_outputs(root: Path):
    paths = Paths(Workspaces((Workspace.at(root, writable=False),)), "outputs", "0123456789abcdef")
    assert refusal(paths, "x.tif", writing=True).code is Code.PATH_NOT_ALLOWED
    with pytest.raises(ToolError) as caught:
        paths.new_output("x", ".tif")
    assert caught.value.code is Code.PATH_NOT_ALLOWED


def test_a_new_output_goes_to_the_first_workspace_that_is_writable(root: Path, tmp_path: Path):
    second = tmp_path / "second"
    second.mkdir()
    spaces = Workspaces((Workspace.at(root, writable=False), Workspace.at(second, writable=True)))
    assert (
        Paths(spaces, "outputs", "0123456789abcdef").new_output("x", ".tif").target.path.parent
        == second / "outputs"
    )
