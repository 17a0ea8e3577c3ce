"""Normal calls give the same answers, published bytes and files whether they see the whole workspace or only what
they name.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.mcp.talk import Talk
from tests.security.scope.beside import OWN, RASTERS, VECTORS
from tests.security.scope.conftest import Inside, Twins
from tests.security.scope.traps import Call

pytestmark = pytest.mark.engine


def write(algorithm: str, **arguments: Any) -> Call:
    return "gdal_write", {"algorithm": algorithm, "arguments": arguments}


# `{}` is replaced by the name of each server: companions, folders, several inputs, changes in place
CALLS: Final[dict[str, Call]] = {
    "described": ("info", {"path": "stats.tif"}),
    "pictured": ("preview", {"path": "world.png"}),
    "listed": ("list_workspace", {"path": "folder"}),
    "planned": ("validate_call", {"tool": "info", "arguments": {"path": "zones.gpkg"}}),
    "joined": write("vector concat", input=VECTORS, output="{}-rows.geojson", mode="single", output_crs="EPSG:4326"),
    "changed": write("raster edit", dataset="{}.tif", nodata="7"),
    "virtual": ("gdalbuildvrt", {"src_datasets": ["west.tif", "east.tif"], "dst_vrt": "{}.vrt"}),
    "warped": ("gdalwarp", {"src_datasets": RASTERS, "t_srs": "EPSG:32612", "dst_dataset": "{}-warped.tif"}),
    "steps": ("pipeline", {"steps": "read whole.gdb ! buffer --distance 10 ! write {}-buffered.geojson"}),
}  # fmt: skip


def comparable(value: Any, name: str) -> Any:
    """The same answer without the parts that differ from call to call, and with one name for the files of each
    server.
    """
    if isinstance(value, Mapping):
        return {key: comparable(part, name) for key, part in value.items() if key not in _OWN}
    if isinstance(value, list):
        return [comparable(part, name) for part in value]
    return value.replace(name, "{}") if isinstance(value, str) else value


_OWN: Final = frozenset(
    {"receipt", "mounts", "argv", "estimate", "modified", "call_id", "undo_id", "undo"}
) | {
    *("before", "after")  # a container that sees only the inputs does not see the file that is replaced
}


def done(talk: Talk, name: str, calls: Mapping[str, Call]) -> dict[str, Any]:
    """The answer of each call, and the digests of the published files by name; all calls run at once."""
    under_way = {key: talk.start(tool, **_named(arguments, name)) for key, (tool, arguments) in calls.items()}
    answers = {}
    for key, call in under_way.items():
        answer = call.result(timeout=300)
        assert not answer.is_error, (key, answer.structured_content)
        content = answer.structured_content
        answers[key] = {**comparable(content, name), "published": _digests(content, name)}
    return answers


def _named(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(part, name) for key, part in value.items()}
    if isinstance(value, list):
        return [_named(part, name) for part in value]
    return value.replace("{}", name) if isinstance(value, str) else value


def _digests(content: Mapping[str, Any], name: str) -> dict[str, str]:
    files = filter(Path.is_file, (Path(row["path"]) for row in content.get("outputs", [])))
    return {path.name.replace(name, "{}"): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_calls_answer_and_publish_the_same(twins: Twins):
    assert done(twins.wide, "twin-a", CALLS) == done(twins.narrow, "twin-b", CALLS)


LISTED = """
from osgeo import gdal
gdal.UseExceptions()
opened = ((name, gdal.OpenEx(os.path.join(job["top"], name))) for name in job["names"])
return {"code": 0, "files": {name: [os.path.basename(one) for one in dataset.GetFileList()] for name, dataset in opened}}
"""


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_dataset_finds_its_companion_files(inside: Inside):
    narrow, wide = (
        inside.sees(LISTED, *OWN, full=full, top=str(inside.workspace))["files"] for full in (False, True)
    )
    assert [name for name, own in OWN.items() if not set(own) <= set(narrow[name])] == []
    assert narrow == wide


@pytest.mark.claim("sandbox.scope-inputs-mounts")
def test_visible_files_are_announced_before_the_call(twins: Twins):
    validation = twins.narrow.done("validate_call", tool="info", arguments={"path": "over.tif"})
    assert validation["mounts"] == [f"{twins.place.path(name)}:ro" for name in ("over.tif", "over.tif.ovr")]
