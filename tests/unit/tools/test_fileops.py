"""Copying, renaming and deleting affects all files of the named dataset, and no others.

A plan is carried out here as a call does it: copies to staging, publication, renames, removals. GDAL's own work in
the container is simulated where it matters.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.plan import Draft, Effect, Plan
from gdal_mcp.toolboxes.gdal.datasets.operations import (
    ALWAYS_ASKED,
    FILE_OPERATIONS,
    plan_operation,
)
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from sandbox.errors import StagingFailed
from sandbox.outputs.store import Publication
from sandbox.template import Limits
from sandbox.workspace import RESERVED, Workspace, Workspaces
from tests.unit.sandbox.staging_kit import CALL, USER, area_at, tree, write

ROADS = {
    "roads.shp": b"shp", "roads.shx": b"shx", "roads.dbf": b"dbf", "roads.prj": b"prj",
    "roads.shp.xml": b"xml",
}  # fmt: skip
DATA = {
    **ROADS, "dem.tif": b"tif", "dem.tif.aux.xml": b"aux", "dem.tfw": b"tfw",
    "dem.txt": b"somebody's notes",
    "mosaic.vrt": b"<VRTDataset><SourceFilename relativeToVRT='1'>dem.tif</SourceFilename></VRTDataset>",
    "cube.zarr/zarr.json": b"{}", "cube.zarr/c/0": b"0", "base.gdb/a00000001.gdbtable": b"1",
    "maps/old.tif": b"old", "maps/old.tif.ovr": b"stale",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    write(folder, DATA)
    return folder


@pytest.fixture
def readable(tmp_path: Path) -> Path:
    folder = tmp_path / "readable"
    folder.mkdir()
    write(folder, {"theirs.tif": b"theirs", "tree/x": b"x"})
    return folder


def planned(root: Path, operation: str, *others: Workspace, **arguments: str | list[str] | bool) -> Draft:
    values: dict[str, tuple[str, ...]] = {}
    for name, value in arguments.items():
        texts = ["true"] if value is True else [value] if isinstance(value, str) else value
        values[name.replace("_", "-")] = tuple(texts)
    spaces = Workspaces((Workspace.at(root, writable=True), *others))
    return plan_operation(operation, values, Paths(spaces, "outputs", CALL))


def carry_out(root: Path, work: Draft, call_id: str = CALL) -> None:
    """Does what a call does after its container has ended."""
    with area_at(root).open(call_id, USER) as staging:
        for copy in work.files.copies:
            staging.copy_in(copy.source, copy.target.name)
        targets = {output.target.name: output.target for output in work.outputs}
        publications = [Publication(staged.name, targets[staged.name]) for staged in staging.collect()]
        gone = (*(old for output in work.outputs for old in output.replaces), *work.files.removes)
        staging.publish(call_id, publications, gone, work.files.transfers, work.files.listings)


def done(root: Path, operation: str, **arguments: str | list[str] | bool) -> dict[str, bytes]:
    """The workspace after an operation; an undo must restore the original."""
    before = tree(root)
    done.calls += 1
    call_id = f"call-{done.calls:04}"
    carry_out(root, planned(root, operation, **arguments), call_id)
    after = tree(root)
    area_at(root).undo(call_id)
    assert tree(root) == before
    return after


done.calls = 0


def without(*names: str) -> dict[str, bytes]:
    """The original files except those whose names begin with these."""
    return {path: data for path, data in DATA.items() if not path.startswith(names)}


def refusal(root: Path, operation: str, *others: Workspace, **arguments: str | list[str] | bool) -> Code:
    with pytest.raises(ToolError) as raised:
        planned(root, operation, *others, **arguments)
    return raised.value.code


# --- datasets: deleting


@pytest.mark.claim("outputs.own-files-only")
def test_dataset_is_deleted_with_only_its_own_files(root):
    for names, goes in [
        (["mosaic.vrt"], ["mosaic.vrt"]), (["cube.zarr"], ["cube.zarr/"]), (["base.gdb/"], ["base.gdb/"]),
        (["roads.shp", "dem.tif", "dem.tif"], ["roads.", "dem.tif", "dem.tfw"]),
    ]:  # fmt: skip
        assert done(root, "dataset delete", filename=names) == without(*goes)


def test_gdal_must_know_what_is_deleted(root):
    work = planned(root, "dataset delete", filename=["dem.tif", "dem.txt"])
    tif, txt = str(root / "dem.tif"), str(root / "dem.txt")
    known = [{"name": tif, "driver": "GTiff"}, {"name": txt, "driver": "CSV"}]
    work.printed.verify(known)
    planned(root, "dataset delete", filename="dem.tif", format="GTiff").printed.verify(known)
    with pytest.raises(ToolError):
        planned(root, "dataset delete", filename=["dem.tif", "dem.txt"], format="GTiff").printed.verify(known)
    for report in (known[:1], [known[0], {"name": txt, "driver": None}], [], None, {"name": txt}, ["x"]):
        with pytest.raises(ToolError):
            work.printed.verify(report)
    assert {word.partition("=")[2] for word in work.command.options if word.startswith("--filename=")} == {
        tif,
        txt,
    }


# --- datasets: renaming


def test_shapefile_is_renamed_with_all_its_files(root):
    after = done(root, "dataset rename", source="roads.shp", destination="maps/lines.shp")
    moved = {f"maps/lines{name.removeprefix('roads')}": data for name, data in ROADS.items()}
    assert after == {**without("roads."), **moved}


def test_whole_name_suffix_follows_the_new_name(root):
    after = done(root, "dataset rename", source="dem.tif", destination="a.b.TIF")
    renamed = {"a.b.TIF": b"tif", "a.b.TIF.aux.xml": b"aux", "a.b.tfw": b"tfw"}
    assert after == {**without("dem.tif", "dem.tfw"), **renamed}


def test_folder_is_renamed_or_moved_into_another(root):
    cube = {"zarr.json": b"{}", "c/0": b"0"}
    after = done(root, "dataset rename", source="cube.zarr", destination="c2.zarr")
    left = without("cube.zarr")
    assert after == {**left, **{f"c2.zarr/{name}": data for name, data in cube.items()}}
    after = done(root, "dataset rename", source="cube.zarr", destination="maps")
    assert after == {**left, **{f"maps/cube.zarr/{name}": data for name, data in cube.items()}}


def test_folder_replaces_another_only_on_request(root):
    write(root, {"c2.zarr/old": b"old"})
    for operation, left in (("dataset rename", without("cube.zarr")), ("dataset copy", DATA)):
        arguments = {"source": "cube.zarr", "destination": "c2.zarr"}
        assert refusal(root, operation, **arguments) is Code.INVALID_ARGUMENT
        after = done(root, operation, overwrite=True, **arguments)
        assert after == {**left, "c2.zarr/zarr.json": b"{}", "c2.zarr/c/0": b"0"}


def test_existing_dataset_is_replaced_completely_and_on_request(root):
    for operation in ["dataset rename", "dataset copy"]:
        arguments = {"source": "dem.tif", "destination": "maps/old.tif"}
        assert refusal(root, operation, **arguments) is Code.INVALID_ARGUMENT
        after = done(root, operation, overwrite=True, **arguments)
        new = {"maps/old.tif": b"tif", "maps/old.tif.aux.xml": b"aux", "maps/old.tfw": b"tfw"}
        left = without("maps/") if operation == "dataset copy" else without("maps/", "dem.tif", "dem.tfw")
        assert after == {**left, **new}


def test_orphaned_files_are_not_adopted_by_new_dataset(root):
    for operation in ["dataset rename", "dataset copy"]:
        write(root, {"gone.dbf": b"stale"})
        arguments = {"source": "roads.shp", "destination": "gone.shp"}
        assert refusal(root, operation, **arguments) is Code.INVALID_ARGUMENT
        assert done(root, operation, overwrite=True, **arguments)["gone.dbf"] == b"dbf"


def test_file_of_uncertain_owner_is_never_overwritten(root):
    write(root, {"x.shp": b"1", "x.shx": b"1", "x.prj": b"of which?", "x.asc": b"1"})
    arguments = {"source": "roads.shp", "destination": "x.shp"}
    for operation in ("dataset rename", "dataset copy"):
        assert refusal(root, operation, overwrite=True, **arguments) is Code.INVALID_ARGUMENT


# --- datasets: copying


def test_copy_has_every_file_and_keeps_the_original(root):
    after = done(root, "dataset copy", source="roads.shp", destination="lines.shp")
    assert after == {**DATA, **{f"lines{name.removeprefix('roads')}": data for name, data in ROADS.items()}}
    after = done(root, "dataset copy", source="cube.zarr", destination="c2.zarr")
    assert after == {**DATA, "c2.zarr/zarr.json": b"{}", "c2.zarr/c/0": b"0"}
    write(root, {"a.gpkg": b"db", "a.gpkg-wal": b"log"})
    assert done(root, "dataset copy", source="a.gpkg", destination="b.gpkg")["b.gpkg-wal"] == b"log"


@pytest.mark.claim("outputs.own-files-only")
def test_renamed_or_copied_vrt_leaves_its_sources_alone(root):
    for operation, left in (("dataset rename", without("mosaic.vrt")), ("dataset copy", DATA)):
        after = done(root, operation, source="mosaic.vrt", destination="m.vrt")
        assert after == {**left, "m.vrt": DATA["mosaic.vrt"]}


def test_dataset_is_copied_from_a_read_only_workspace(root, readable):
    other = Workspace.at(readable, writable=False)
    work = planned(root, "dataset copy", other, source=str(readable / "theirs.tif"), destination="mine.tif")
    carry_out(root, work)
    assert (root / "mine.tif").read_bytes() == b"theirs"


# --- files


def test_file_or_empty_folder_is_deleted_without_recursion(root):
    assert done(root, "vsi delete", filename="roads.dbf") == without("roads.dbf")
    (root / "empty").mkdir()
    carry_out(root, planned(root, "vsi delete", filename="empty"))
    assert not (root / "empty").exists()
    area_at(root).undo(CALL)
    assert (root / "empty").is_dir()
    assert done(root, "vsi delete", filename="maps", recursive=True) == without("maps/")


def test_a_file_or_folder_is_moved(root):
    after = done(root, "vsi move", source="dem.txt", destination="notes.md")
    assert after == {**without("dem.txt"), "notes.md": DATA["dem.txt"]}
    assert done(root, "vsi move", source="maps", destination="cube.zarr")["cube.zarr/maps/old.tif"] == b"old"


@pytest.mark.claim("outputs.gdal-writes-staging-only")
def test_a_copy_by_gdal_goes_to_staging_only(root):
    work = planned(root, "vsi copy", source="maps", destination="maps2", recursive=True)
    assert work.command.options == (
        "vsi", "copy", "--recursive", f"--source={root}/maps", "--destination=/staging/maps2",
    )  # fmt: skip
    assert (work.files.transfers, work.files.removes) == ((), ())


@pytest.mark.claim("outputs.gdal-writes-staging-only")
def test_sync_works_on_a_copy_of_its_destination(root):
    for source, destination, named, target, update in [
        ("maps", "new", "maps", "new", False),  # GDAL creates new/maps from it
        ("maps", "cube.zarr/maps", "maps", "cube.zarr/maps", False),
        ("maps/", "new", "maps/", "new", False),
        ("maps", "cube.zarr", "maps/", "cube.zarr/maps", False),
        ("maps/", "cube.zarr", "maps/", "cube.zarr", True),
        ("dem.tif", "maps", "dem.tif", "maps/dem.tif", False),
        ("dem.tif", "maps/old.tif", "dem.tif", "maps/old.tif", True),
    ]:
        work = planned(
            root, "vsi sync", source=source, destination=destination, recursive=True, strategy="overwrite"
        )
        (output,) = work.outputs
        assert (output.target.path, output.update) == (root / target, update)
        assert f"--source={root}/{named}" in work.command.options
        assert f"--destination=/staging/{output.target.name}" in work.command.options
        assert set(work.command.options) >= {"--recursive", "--strategy=overwrite"}


def test_folder_changed_during_sync_is_not_replaced(root):
    work = planned(root, "vsi sync", source="maps/", destination="cube.zarr", recursive=True)
    (root / "cube.zarr/c/0").write_bytes(b"edited")
    with area_at(root).open(CALL, USER) as staging:
        staging.copy_in(work.outputs[0].target, "cube.zarr")
        staging.collect()
        with pytest.raises(StagingFailed):
            staging.publish(
                CALL, [Publication("cube.zarr", work.outputs[0].target)], listings=work.files.listings
            )
    assert (root / "cube.zarr/c/0").read_bytes() == b"edited"


# --- files that are never touched


def test_absent_file_is_neither_renamed_nor_deleted(root):
    for operation, name in TOUCHING.items():
        assert refusal(root, operation, **{name: "gone.tif", "destination": "new.tif"}) is Code.NOT_FOUND


TOUCHING: Mapping[str, str] = {
    **dict.fromkeys(("dataset delete", "vsi delete"), "filename"),
    **dict.fromkeys(("dataset rename", "vsi move"), "source"),
}

BOTH, MOVING, WALKING = ("dataset rename", "dataset copy"), ("vsi move", "vsi copy"), ("vsi copy", "vsi sync")
INTO_ITSELF = [
    {"source": "cube.zarr", "destination": f"cube.zarr/{name}", "recursive": True}
    for name in ("c", "new.zarr")
]
REFUSED: list[tuple[str, tuple[str, ...], list[dict[str, Any]]]] = [
    ("a part of a dataset is none", ("dataset delete", "dataset rename"),
     [{"filename": [name], "source": name, "destination": f"x{name}"} for name in ("roads.dbf", "roads.shx", "dem.tif.aux.xml", "dem.tfw")]),
    ("a folder of files is no dataset, even if GDAL says so", ("dataset delete", "dataset copy"),
     [{"filename": ["maps"], "source": "maps", "destination": "maps2"}]),
    ("a VRT is not taken from its sources", BOTH, [{"source": "mosaic.vrt", "destination": "maps/m.vrt"}]),
    ("an extension stays, because the format does", BOTH,
     [{"source": source, "destination": target} for source, target in
      (("dem.tif", "dem.png"), ("dem.tif", "dem"), ("roads.shp", "roads.dbf"), ("cube.zarr", "cube"), ("cube.zarr", "c.gdb"))]),
    ("a dataset that might be torn apart stays", BOTH,
     [{"source": "er.ers", "destination": "b.ers"}, {"source": "i.img", "destination": "b.img"}]),
    ("what exists is never moved or copied over", MOVING, [{"source": "dem.tif", "destination": "roads.shp"}, {"source": "dem.txt", "destination": "full"}]),
    ("a folder needs to be meant", ("vsi delete", "vsi copy"), [{"filename": "maps", "source": "maps", "destination": "maps2"}]),
    ("nothing goes into itself", (*MOVING, *BOTH, "vsi sync"), INTO_ITSELF),
    ("a name that GDAL would split is not looked at", ("dataset delete",), [{"filename": ["a.tif,roads.shp"]}]),
    ("nothing is named", tuple(sorted(FILE_OPERATIONS)), [{}]),
]  # fmt: skip


def test_what_would_part_or_lose_something_is_refused(root, subtests):
    write(root, dict.fromkeys(("er.ers", "er", "i.img", "i.ige", "full/dem.txt", "a.tif,roads.shp"), b""))
    for name, operations, calls in REFUSED:
        with subtests.test(name):
            for operation in operations:
                for call in calls:
                    takes = {"filename"} if "delete" in operation else {"source", "destination", "recursive"}
                    arguments = {key: value for key, value in call.items() if key in takes}
                    assert refusal(root, operation, **arguments) is Code.INVALID_ARGUMENT


def test_moves_stay_within_workspaces_and_copies_exclude_them(root, readable):
    other = Workspace.at(readable, writable=True)
    for operation in ("dataset rename", "vsi move"):
        arguments = {"source": "dem.tif", "destination": str(readable / "dem.tif")}
        assert refusal(root, operation, other, **arguments) is Code.INVALID_ARGUMENT
    for operation in WALKING:
        arguments = {"source": str(root), "destination": "new"}
        assert refusal(root, operation, recursive=True, **arguments) is Code.PATH_NOT_ALLOWED


@pytest.mark.claim("outputs.own-files-only")
def test_workspaces_server_folder_and_outside_are_never_touched(root, readable):
    for operation in TOUCHING:
        for what in ["", ".", RESERVED, f"{RESERVED}/undo", "..", "../readable/theirs.tif", "/etc/passwd"]:
            area_at(root).prepare()
            arguments = {TOUCHING[operation]: str(root / what)}
            destination = {"destination": "new"} if TOUCHING[operation] == "source" else {}
            assert refusal(root, operation, **arguments, **destination) in (
                Code.PATH_NOT_ALLOWED,
                Code.NOT_FOUND,
            )


@pytest.mark.claim("outputs.read-only-workspaces")
def test_a_read_only_workspace_is_never_touched(root, readable):
    for operation in TOUCHING:
        other = Workspace.at(readable, writable=False)
        arguments = {TOUCHING[operation]: str(readable / "theirs.tif")}
        destination = {"destination": "new.tif"} if TOUCHING[operation] == "source" else {}
        assert refusal(root, operation, other, **arguments, **destination) is Code.PATH_NOT_ALLOWED


@pytest.mark.claim("outputs.own-files-only")
def test_a_link_is_not_what_it_leads_to(root):
    (root / "link.tif").symlink_to("dem.tif")
    (root / "link.zarr").symlink_to("cube.zarr")
    for operation in TOUCHING:
        for name in ("link.tif", "link.zarr"):
            destination = (
                {"destination": f"new{Path(name).suffix}"} if TOUCHING[operation] == "source" else {}
            )
            assert (
                refusal(root, operation, **{TOUCHING[operation]: name}, **destination)
                is Code.PATH_NOT_ALLOWED
            )


def test_folder_with_a_link_outside_is_not_copied(root):
    (root / "maps/out").symlink_to("/etc")
    for operation in WALKING:
        arguments = {"source": "maps", "destination": "maps2", "recursive": True}
        assert refusal(root, operation, **arguments) is Code.PATH_NOT_ALLOWED


def test_a_name_that_is_no_path_is_refused(root):
    for operation in sorted(FILE_OPERATIONS):
        for name in ["/vsicurl/http://x/y.tif", "PG:dbname=x", "/vsimem/x.tif", "<VRTDataset/>"]:
            arguments = {"source": name, "destination": "new.tif", "filename": name}
            assert refusal(root, operation, **arguments) in (Code.NETWORK_BLOCKED, Code.PATH_NOT_ALLOWED)
            if not name.startswith("PG:"):  # a file may have such a name
                arguments = {"source": "dem.tif", "destination": name, "filename": name}
                assert refusal(root, operation, **arguments) in (Code.NETWORK_BLOCKED, Code.PATH_NOT_ALLOWED)


# --- questions to a person


@pytest.mark.claim("approval.losses-always-asked")
def test_operations_removing_file_names_always_ask():
    assert {"dataset delete", "dataset rename", "vsi delete", "vsi move", "vsi sync"} == ALWAYS_ASKED


def test_approval_covers_deep_contents_of_a_folder(root):
    for operation in ["vsi delete", "vsi move"]:

        def digest(operation: str = operation) -> str:
            arguments = {"filename": "maps", "source": "maps", "destination": "new"}
            work = planned(root, operation, recursive=True, **arguments)
            plan = Plan(CALL, "t", "p", work, Limits(), "sha256:0", "", (), {})
            assert plan.effect is Effect.DESTROY
            return plan.digest

        write(root, {"maps/deep/one.tif": b"1"})
        before = digest()
        assert digest() == before
        (root / "maps/deep/one.tif").write_bytes(b"22")
        changed = digest()
        write(root, {f"maps/deep/{operation}.tif": b""})
        assert len({before, changed, digest()}) == 3
