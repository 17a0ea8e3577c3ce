"""Remote data that names other places, and redirects to places that nobody approved: judged by the requests."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.mcp.talk import Person, Place
from tests.e2e.mcp.test_deciding import program
from tests.e2e.remote.origin import Origin, to
from tests.e2e.vsihost.conftest import Serve
from tests.security.attacks.listener import Listener, listening

pytestmark = [pytest.mark.engine]

VRT = """<VRTDataset rasterXSize="9" rasterYSize="9"><VRTRasterBand dataType="UInt16" band="1"><SimpleSource>
<SourceFilename relativeToVRT="0">{}</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"""
GROUP = {"zarr_format": 2}
ARRAY = {**GROUP, "shape": [4, 4], "chunks": [4, 4], "dtype": "|u1", "order": "C", "fill_value": 0}
ARRAY |= {"compressor": None, "filters": None}
ARRAY_3 = {
    "zarr_format": 3, "node_type": "array", "shape": [4, 4], "data_type": "uint8", "fill_value": 0,
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes"}],
}  # fmt: skip


@pytest.fixture
def bait() -> Iterator[Listener]:
    """A listener of this machine that must get no connection."""
    with listening() as listener:
        yield listener
    assert listener.total == 0


def places(origin: Origin, port: int) -> list[str]:
    """Places that hostile data names: the listener, files, and data under another key, on another host or of another
    call.
    """
    listener, private = f"http://127.0.0.1:{port}/x.tif", origin.url("/ok/private.tif")
    return f"""{listener} /vsicurl/{listener} /vsicurl/{private} /vsis3/bucket/x.tif file:///etc/passwd /etc/passwd
        /proc/self/environ /vsihost/2/private.tif ../private.tif {private} {private.replace("data.test", "other.test")}
        https://169.254.169.254/x""".split()


def zarrs(there: str) -> Iterator[tuple[str, dict[str, Any]]]:
    keys = rf"{there} a/{there} ../{there} ..%5c..%5cprivate.tif ..\..\private.tif ../private.tif"
    for key in keys.split():
        metadata = {".zgroup": GROUP, "a/.zarray": ARRAY, f"{key}/.zarray": ARRAY, f"{key}/.zattrs": {}}
        yield ".zmetadata", {"zarr_consolidated_format": 1, "metadata": metadata}
        inner = {"kind": "inline", "must_understand": False, "metadata": {"a": ARRAY_3, key: ARRAY_3}}
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        yield "zarr.json", {**group, "consolidated_metadata": inner}


def listing(*hosts: str) -> str:
    """Settings that permit reading these."""
    rows = (f'at = "{host}"\nnetworks = ["127.0.0.0/8"]\n' for host in hosts)
    return "".join(f"[[remote.source]]\n{row}" for row in rows)


@pytest.mark.nightly
@pytest.mark.claim("remote.only-what-was-named")
def test_data_naming_other_places_requests_none_of_them(serve, origin, place, bait):
    """These include another key of the origin, and another host that may be read."""
    listed = listing(f"data.test:{origin.port}", f"other.test:{origin.port}")
    talk = serve("--approval", "never", remote=listed)
    origin.files["private.tif"] = origin.files["beside.tif"]

    def meets(address: str, **files: Any) -> None:
        """Checks that a call that reads the data requests only that data."""
        origin.files.update({name: text.encode() for name, text in files.items()})
        origin.asked.clear()
        talk.call("gdal_read", algorithm="raster info", arguments={"input": address, "checksum": True})
        assert {request.host for request in origin.asked} == {f"data.test:{origin.port}"}, address
        assert not [path for path in origin.paths() if not path.startswith("/ok/evil")], (address, files)
        assert not [path for path in origin.paths() if "private" in path or "%" in path], (address, files)

    for there in places(origin, bait.port):
        meets(origin.url("/ok/evil.vrt"), **{"evil.vrt": VRT.format(there)})
        algorithm = {"type": "gdal_streamed_alg", "command_line": f"gdal raster pipeline read {there} ! edit"}
        meets(origin.url("/ok/evil.gdalg.json"), **{"evil.gdalg.json": json.dumps(algorithm)})
        refs = {".zgroup": json.dumps(GROUP), "a/.zarray": json.dumps(ARRAY), "a/0.0": [there, 0, 16]}
        meets(origin.url("/ok/evil.json"), **{"evil.json": json.dumps({"version": 1, "refs": refs})})
    for name, metadata in [member for there in places(origin, bait.port)[:1] for member in zarrs(there)]:
        meets(origin.url("/ok/evil.zarr"), **{f"evil.zarr/{name}": json.dumps(metadata)})
        del origin.files[f"evil.zarr/{name}"]


@pytest.mark.nightly
@pytest.mark.claim("remote.only-what-was-named")
def test_item_leads_to_nothing_unreadable(serve: Serve, origin: Origin, bait: Listener):
    talk = serve("--approval", "never", remote=listing(f"data.test:{origin.port}/ok/"))
    origin.files["private/x.tif"] = origin.files["a.tif"]
    there = [
        *places(origin, bait.port),
        origin.url("/private/x.tif"),
        "../private/x.tif",
        "%2e%2e/private/x.tif",
    ]
    there = [href for href in there if href not in (origin.url("/ok/private.tif"), "../private.tif")]
    assets = {f"a{number}": {"href": href} for number, href in enumerate(there)} | {"good": {"href": "a.tif"}}
    origin.files["item.json"] = json.dumps({"assets": assets}).encode()
    for name in assets:
        result = talk.call("info", path=f"stac+{origin.url('/ok/item.json')}#{name}")
        assert result.is_error is (name != "good"), assets[name]
    assert set(origin.paths()) == {"/ok/item.json", "/ok/a.tif"}


@pytest.mark.claim("remote.redirects-checked", "remote.grants-by-folder")
def test_a_redirect_leads_only_to_what_was_approved(serve: Serve, origin: Origin, place: Place):
    """Without approval, the listed hosts may be read; a person's approval is for the hosts that were shown."""
    listed = listing(f"data.test:{origin.port}", f"other.test:{origin.port}")
    moved, beside = origin.url("/ok/moved.tif"), origin.url("/ok/beside.tif")
    origin.special["/ok/moved.tif"] = to(origin.url("/ok/a.tif", "other.test"))
    origin.special["/ok/beside.tif"] = to(origin.url("/elsewhere/a.tif"))
    origin.special["/elsewhere/a.tif"] = lambda handler: handler.mode_ok(origin.files["a.tif"])

    def hosts() -> set[str]:
        return {request.host.partition(":")[0] for request in origin.asked}

    person = Person()
    asks = serve("--approval", "always", remote=listed, person=person)
    error = asks.failed("info", path=moved)
    assert "--reads" in json.dumps(error)
    assert len(person.asked) == 1
    assert hosts() == {"data.test"}
    asks.done("info", path=beside)  # on the host that was shown
    rows = serve("--approval", "never", remote=listed).done("info", path=moved)["receipt"]["remote"]
    both = [origin.url("", host) for host in ("data.test", "other.test")]
    assert [(row["host"], row["requests"]) for row in rows] == [(url, 1) for url in both]
    assert hosts() == {"data.test", "other.test"}

    def grant(*reads: str) -> None:
        words = [word for prefix in reads for word in ("--reads", prefix)]
        assert program(place, "grants", "new", "convert", str(place.workspace), *words).code == 0

    ours, other = f"data.test:{origin.port}/ok/", f"https://other.test:{origin.port}/"
    silent = serve(remote=listed, person=Person(action="decline"))
    grant(ours)
    for address in (moved, beside):
        assert "--reads" in json.dumps(silent.failed("convert", input=address, output="out.tif"))
    grant(ours, other)
    silent.done("convert", input=moved, output="out.tif")
    assert not silent.person.asked
