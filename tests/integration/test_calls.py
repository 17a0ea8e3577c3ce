"""Calls through the whole pipeline, in this process, to a real container: their answers and records."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from gdal_mcp.calls.entitlements import EntitlementResolver, Entitlements
from gdal_mcp.records.audit import tail
from gdal_mcp.records.provenance import Materials
from gdal_mcp.server.app import App, running
from gdal_mcp.settings import load_settings
from sandbox.errors import StagingFailed
from sandbox.pool.lease import Lease
from tests.calling import called

pytestmark = pytest.mark.engine
_FLOATS = {256: 2, 257: 2, 258: 32, 259: 1, 262: 1, 273: 134, 277: 1, 278: 2, 279: 16, 339: 3}


def floats(*pixels: float) -> bytes:
    """A TIFF file with two by two of these pixels."""
    rows = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in _FLOATS.items())
    head = b"II*\0\x08\0\0\0" + struct.pack("<H", len(_FLOATS))
    return head + rows + bytes(4) + struct.pack("<4f", *pixels)


INF, NAN = float("inf"), float("nan")
NOWHERE = """<VRTDataset rasterXSize="2" rasterYSize="2"><GeoTransform>inf, 1, 0, nan, 0, -1</GeoTransform>
<VRTRasterBand dataType="Float32" band="1"><NoDataValue>nan</NoDataValue></VRTRasterBand></VRTDataset>"""
EVERYWHERE = """<OGRVRTDataSource><OGRVRTLayer name="p"><SrcDataSource relativeToVRT="1">p.csv</SrcDataSource>
<GeometryType>wkbPoint</GeometryType><ExtentXMin>-INF</ExtentXMin><ExtentYMin>NaN</ExtentYMin><ExtentXMax>INF</ExtentXMax>
<ExtentYMax>INF</ExtentYMax></OGRVRTLayer></OGRVRTDataSource>"""
FILES = {
    "floats.tif": floats(INF, 1, 2, -INF), "nowhere.vrt": NOWHERE.encode(), "p.csv": b"id\n1\n",
    "everywhere.vrt": EVERYWHERE.encode(),
}  # fmt: skip


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    root = tmp_path_factory.mktemp("calls")
    workspace = root / "ws"
    workspace.mkdir()
    for folder in (workspace, *workspace.parents[:4]):
        folder.chmod(folder.stat().st_mode | 0o055)
    for name, data in FILES.items():
        (workspace / name).write_bytes(data)
    settings = load_settings(
        workspaces=[str(workspace)], state_dir=str(root / "state"), approval="never", pool_max=0
    )
    with running(settings) as new_app:
        yield new_app


def workspace(app: App) -> Path:
    return app.workspaces.items[0].root


def test_numbers_outside_json_are_given_as_text(app: App):
    endless = {"Infinity", "-Infinity", "NaN"}
    for path, kind, options, expected in (
        ("nowhere.vrt", "raster", {}, {"Infinity", "NaN"}),  # the geotransform
        ("floats.tif", "raster", {"stats": True, "min-max": True}, endless),
        ("everywhere.vrt", "vector", {}, endless),  # the extent
    ):
        arguments = {"input": path, "output-format": "json", **options}
        reply = called(app, "gdal_read", {"algorithm": f"{kind} info", "arguments": arguments})
        assert reply.error is None
        assert expected <= set(_texts(reply.result["untrusted"]["report"])), path


def test_a_raster_that_lies_nowhere_is_described(app: App):
    reply = called(app, "info", {"path": "nowhere.vrt"})
    assert reply.error is None
    assert reply.result["size"] == [2, 2]


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


@dataclass(frozen=True)
class _Faulty(EntitlementResolver):
    """A `convert` that publishes as usual and then fails to build its result."""

    def of(self, principal: str) -> Entitlements:
        reach = super().of(principal)
        tools = reach.surface.callable
        faulty = MappingProxyType({**tools, "convert": replace(tools["convert"], present=_fail)})
        return replace(reach, surface=replace(reach.surface, callable=faulty))


def _fail(*_: object, **__: object) -> Any:
    raise KeyError("a fault of ours")


def _behind(real: Callable[..., Any], error: Exception) -> Callable[..., None]:
    """The same, followed by an error if nothing else failed."""

    def failing(lease: Lease, kind: object, *rest: object) -> None:
        real(lease, kind, *rest)
        if kind is None:
            raise error

    return failing


BEHIND = {"clean-up": KeyError("a fault of ours"), "sandbox": StagingFailed("not removed.")}
OUTCOMES = {"result": "INTERNAL", "record": "OK", "clean-up": "INTERNAL", "sandbox": "OK"}


@pytest.mark.claim("audit.published-is-recorded")
@pytest.mark.parametrize("place", OUTCOMES)
def test_published_files_are_recorded_whatever_fails_later(app, monkeypatch, place):
    name, pipeline, reaches = f"{place}.tif", app.pipeline, app.entitlements
    if place == "result":
        pipeline = replace(pipeline, entitlements=_Faulty(reaches.full, reaches.policy, reaches.toolboxes))
    elif place == "record":
        monkeypatch.setattr(Materials, "result", _fail)
    else:
        monkeypatch.setattr(Lease, "__exit__", _behind(Lease.__exit__, BEHIND[place]))
    reply = called(pipeline, "convert", {"input": "floats.tif", "output": name})
    target = workspace(app) / name
    assert target.is_file()
    [event] = [entry.event for entry in tail(app.settings.state_dir / "audit.jsonl", 1)]
    assert (event["type"], event["call"]) == ("call.finished", reply.call_id)
    assert (event["outcome"], [row["path"] for row in event["outputs"]]) == (OUTCOMES[place], [str(target)])
    call = app.registry.call(reply.call_id)
    assert call is not None
    assert (call.outcome, [row["path"] for row in call.files]) == (OUTCOMES[place], [str(target)])
    assert app.registry.artifact(target.as_uri()) is not None
    assert all(record.finished is not None for record in app.registry.search().items)
    assert (reply.error.code if reply.error else "OK") == OUTCOMES[place]
