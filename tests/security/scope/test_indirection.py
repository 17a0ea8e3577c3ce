"""A file that refers to another file of the same workspace: with `mount_scope = inputs`, the other file cannot be
read.
"""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import mcp_types as t
import pytest

from tests.e2e.mcp.talk import Talk
from tests.security.scope.conftest import Inside, Twins
from tests.security.scope.traps import BAIT, CALLS, TRAPS

pytestmark = pytest.mark.engine


# all that can be read from each dataset, as one text: the pixels of bands and overviews, the rows of layers
READ_ALL = """
from osgeo import gdal
gdal.UseExceptions()
def read(name):
    opened = gdal.OpenEx(os.path.join(job["top"], name))
    bands = [opened.GetRasterBand(number + 1) for number in range(opened.RasterCount)]
    bands += [band.GetOverview(number) for band in bands for number in range(band.GetOverviewCount())]
    layers = [opened.GetLayer(number) for number in range(opened.GetLayerCount())]
    rows = [row.ExportToJson() for layer in layers for row in layer]
    return b"".join([*(bytes(band.ReadRaster()) for band in bands), *(row.encode() for row in rows)]).decode("latin-1")
found = {}
for name in job["names"]:
    try:
        found[name] = read(name)
    except Exception as error:
        found[name] = "not read: " + str(error)
return {"code": 0, "found": found}
"""


def read_by(inside: Inside, *, full: bool) -> dict[str, str]:
    """For each trap, what a container of such a call can read from it, with the complete environment of calls."""
    return inside.sees(READ_ALL, *TRAPS, full=full, top=str(inside.workspace))["found"]


def shown(talk: Talk) -> dict[str, bytes]:
    """For each call, its answer and its published files, which are then removed."""
    under_way = {key: talk.start(tool, **arguments) for key, (tool, arguments) in CALLS.items()}
    return {key: _all_of(call) for key, call in under_way.items()}


def _all_of(call: "Future[t.CallToolResult]") -> bytes:
    answer = call.result(timeout=300)
    content: dict[str, Any] = answer.structured_content
    files = [Path(row["path"]) for row in content.get("outputs", [])]
    published = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    return b"\n".join([answer.model_dump_json().encode(), *published])


@pytest.fixture(scope="module")
def narrow(twins: Twins) -> dict[str, bytes]:
    return shown(twins.narrow)


@pytest.mark.claim("content.scope-inputs-pulls-in-nothing")
def test_no_reference_reaches_an_unnamed_file(inside: Inside):
    texts = read_by(inside, full=False)
    assert set(texts) == set(TRAPS)
    assert [name for name, text in texts.items() if BAIT.decode() in text] == []


@pytest.mark.claim("content.scope-inputs-pulls-in-nothing")
def test_every_reference_works_with_the_whole_workspace_visible(inside: Inside):
    """Otherwise the test above would pass for a reason other than the setting."""
    assert [name for name, text in read_by(inside, full=True).items() if BAIT.decode() not in text] == []


@pytest.mark.claim("content.scope-inputs-pulls-in-nothing")
def test_calls_reveal_nothing_of_an_unnamed_file(narrow: dict[str, bytes], twins: Twins):
    assert [key for key, everything in narrow.items() if BAIT in everything] == []
    assert BAIT not in twins.narrow_log.read_bytes()
    assert [key for key, everything in shown(twins.wide).items() if BAIT not in everything] == []


@pytest.mark.claim("content.scope-inputs-pulls-in-nothing")
def test_missing_file_message_names_the_setting(narrow: dict[str, bytes]):
    """GDAL names the file that it does not find; only the server knows why it is missing."""
    failed = [key for key, everything in narrow.items() if b"GDAL_ERROR" in everything]
    assert set(CALLS) - set(failed) == {"an overview"}  # without its overview a raster has its own pixels
    assert [key for key in failed if b"--mount-scope" not in narrow[key]] == []
