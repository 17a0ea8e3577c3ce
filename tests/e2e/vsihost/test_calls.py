"""Calls that name addresses, from a client to a real origin and back: what is read, by whom, and what people see of
it.
"""

import json
import os
import shutil
import socket
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.cli.replay import replay_call
from gdal_mcp.records.audit_verification import verify
from gdal_mcp.server.app import running
from tests.e2e.mcp.talk import Person, Place, beside, settings_for
from tests.e2e.mcp.test_deciding import program
from tests.e2e.remote.origin import Origin
from tests.e2e.vsihost.conftest import Command, Serve, stalling
from tests.waiting import until

pytestmark = [pytest.mark.engine]
SECRET = "s3cr3t-signature"  # searched for everywhere

NAMES_ZARR = """<VRTDataset rasterXSize="2000" rasterYSize="2000"><VRTRasterBand dataType="UInt16" band="1"><SimpleSource>
<SourceFilename relativeToVRT="1">d.zarr</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"""


def test_every_kind_of_tool_takes_an_address(serve, origin, data, place, subtests):
    talk = serve("--approval", "never")
    (place.workspace / "a.tif").write_bytes((data / "a.tif").read_bytes())
    (place.workspace / "b.gpkg").write_bytes((data / "b.gpkg").read_bytes())
    at = origin.url("/ok/")
    sql = "SELECT count(*) AS n, max(name) AS m FROM {alias}"
    clip = {"bbox": [450000, 3740000, 452000, 3742000]}

    def calls(root: str, out: str) -> dict[str, tuple[str, dict[str, Any]]]:
        return {
            "info": ("info", {"path": f"{root}a.tif"}),
            "preview": ("preview", {"path": f"{root}a.tif", "max_size": 64}),
            "convert": ("convert", {"input": f"{root}a.tif", "output": f"{out}.png"}),
            "reproject": ("reproject", {"input": f"{root}a.tif", "output": f"{out}-3857.tif", "dst_crs": "EPSG:3857"}),
            "read": ("gdal_read", {"algorithm": "raster info", "arguments": {"input": f"{root}a.tif", "checksum": True}}),
            "write": ("gdal_write", {"algorithm": "raster clip", "arguments": {"input": f"{root}a.tif", "output": f"{out}-clip.tif", **clip}}),
            "query": ("query", {"inputs": {"p": f"{root}b.gpkg"}, "sql": sql.format(alias="p")}),
            "pipeline": ("pipeline", {"steps": f"read {root}a.tif ! hillshade ! write {out}-shade.tif"}),
            "nested": ("pipeline", {"steps": [
                {"step": "mosaic", "arguments": {"input": {"steps": [{"step": "read", "arguments": {"input": f"{root}a.tif"}}]}}},
                {"step": "write", "arguments": {"output": f"{out}-nested.tif"}},
            ]}),
        }  # fmt: skip

    def facts(result: dict[str, Any]) -> str:
        left_out = ("receipt", "output", "resource_uri", "next")
        compared = {key: value for key, value in result.items() if key not in left_out}
        return json.dumps(compared).replace(at, "").replace("there", "here")

    here, there = calls("", "here"), calls(at, "there")
    for name, (tool, arguments) in there.items():
        with subtests.test(name):
            remote, local = talk.done(tool, **arguments), talk.done(tool, **here[name][1])
            assert facts(remote) == facts(local)
            assert remote["receipt"]["network"] == "none"
            [row] = remote["receipt"]["remote"]
            assert (row["host"], row["read_by"]) == (origin.url("").rstrip("/"), "server")
            assert "remote" not in local["receipt"]
    members = talk.done(
        "gdal_read", algorithm="vector info", arguments={"input": f"/vsizip/{at}c.zip/inner/b.fgb"}
    )
    assert "20000" in json.dumps(members)


def test_container_sees_no_address_people_no_internal_name(serve: Serve, origin: Origin):
    talk = serve("--approval", "never")
    address = origin.url("/ok/a.tif")
    result = talk.done("info", path=address, format="json")
    assert address in json.dumps(result)
    assert "/vsihost/" not in json.dumps({key: value for key, value in result.items() if key != "receipt"})
    argv = talk.record(result)["receipt"]["argv"]
    assert address not in json.dumps(argv)
    assert "/vsihost/1/a.tif" in argv
    # names a file beside it, which does not belong to it
    failed = talk.failed("info", path=origin.url("/ok/e.vrt"), format="json")
    assert "/vsihost/" not in json.dumps(failed)


@pytest.mark.claim("remote.off-by-default")
def test_remote_reading_needs_a_setting_that_refusal_names(serve: Serve, origin: Origin):
    talk = serve(remote="")
    error = talk.failed("info", path=origin.url("/ok/a.tif"))
    assert error["code"] == "NETWORK_BLOCKED"
    assert f"--remote data.test:{origin.port}" in error["suggestion"]
    for text in ("/vsicurl/https://data.test/a.tif", "/vsis3/bucket/a.tif", "ftp://data.test/a.tif"):
        assert talk.failed("info", path=text)["code"] in ("NETWORK_BLOCKED", "PATH_NOT_ALLOWED")
    assert origin.asked == []


def test_address_is_never_an_output_or_gdal_option(serve: Serve, origin: Origin, place: Place):
    talk = serve("--approval", "never")
    at = origin.url("/ok/")
    (place.workspace / "t.geojson").write_text('{"type":"FeatureCollection","features":[]}')
    for tool, arguments in (
        ("convert", {"input": f"{at}a.tif", "output": f"{at}new.tif"}),
        ("convert", {"input": "t.geojson", "output": f"{at}new.gpkg"}),
        ("convert", {"input": f"{at}a.tif", "output": "a.vrt"}),
        ("gdal_write", {"algorithm": "vsi copy", "arguments": {"source": "t.geojson", "destination": f"{at}t"}}),
        ("gdal_write", {"algorithm": "vsi delete", "arguments": {"filename": f"{at}a.tif"}}),
        ("gdal_write", {"algorithm": "dataset copy", "arguments": {"source": f"{at}a.tif", "destination": "b.tif"}}),
        ("gdal_write", {"algorithm": "raster edit", "arguments": {"dataset": f"{at}a.tif", "metadata": ["a=b"]}}),
        ("list_workspace", {"path": at}),
        ("info", {"path": f"/vsicurl/{at}a.tif"}),
        ("info", {"path": "/vsihost/1/a.tif"}),
    ):  # fmt: skip
        talk.failed(tool, **arguments)
    assert origin.asked == []
    assert sorted(path.name for path in place.workspace.iterdir() if path.name[0] != ".") == ["t.geojson"]


@pytest.mark.claim("remote.failed-read-fails-the-call")
def test_failed_read_fails_the_call_and_publishes_nothing(serve, origin, place, subtests):
    talk = serve("--approval", "never")
    chunk = next(name for name in origin.files if name.startswith("d.zarr/") and name.endswith("3.3"))
    origin.special[f"/ok/{chunk}"] = lambda handler: handler.answer(500)
    # other wrong answers are in tests/e2e/remote/test_attacks.py
    for address in ("/changing/a.tif", "/cut/a.tif", "/ok/d.zarr"):
        with subtests.test(address):
            error = talk.failed("convert", input=origin.url(address), output="never.tif")
            assert error["code"] == "REMOTE_ERROR"
            assert not (place.workspace / "never.tif").exists()
    talk.done("info", path=origin.url("/429twice/a.tif"))  # requested again, as the origin demands


def test_damaged_chunk_fails_the_call_without_hanging(serve, origin, place, data):
    """A local Zarr, one that the server reads, and one that is named only by data that the server reads."""
    shutil.copytree(data / "d.zarr", place.workspace / "d.zarr")
    [chunk] = (place.workspace / "d.zarr").rglob("3.3")
    chunk.write_bytes(b"no chunk")
    origin.files[f"d.zarr/{chunk.relative_to(place.workspace / 'd.zarr')}"] = b"no chunk"
    with zipfile.ZipFile(place.workspace / "in.zip", "w") as archive:
        archive.writestr("names.vrt", NAMES_ZARR)
        for file in (place.workspace / "d.zarr").rglob("*"):
            archive.write(file, file.relative_to(place.workspace))
    origin.files["in.zip"] = (place.workspace / "in.zip").read_bytes()
    talk = serve("--approval", "never", "--timeout-seconds", "30")
    for path in ("d.zarr", origin.url("/ok/d.zarr"), f"/vsizip/{{{origin.url('/ok/in.zip')}}}/names.vrt"):
        assert talk.failed("convert", input=path, output="never.tif")["code"] == "GDAL_ERROR"


@pytest.mark.claim("remote.shown-by-host")
def test_person_and_validation_see_each_host(serve: Serve, origin: Origin):
    person = Person()
    talk = serve(person=person)
    address = origin.url("/ok/a.tif") + f"?X-Amz-Signature={SECRET}"
    shown = talk.done("validate_call", tool="convert", arguments={"input": address, "output": "out.tif"})
    size = len(origin.files["a.tif"])
    [row] = shown["remote"]
    assert (row["host"], row["bytes"]) == (origin.url("").rstrip("/"), size)
    talk.done("convert", input=address, output="out.tif")
    [question] = person.asked
    shown = question.partition("Reads over the network, by the server, not the container")[2]
    host, file = shown.splitlines()[:2]
    assert origin.url("").rstrip("/") in host
    assert "/ok/a.tif" in file
    assert SECRET not in question


@pytest.mark.claim("remote.grants-by-folder")
def test_grant_covers_only_its_folder_of_a_host(serve, origin, place):
    person = Person(action="decline")
    talk = serve(person=person)
    grant = ("grants", "new", "convert", str(place.workspace), "--reads")
    for wrong in ("*.test", "data.test/a?b=c", "data.test/../", "data.test#x", "ftp://data.test"):
        assert program(place, *grant, wrong).code, wrong
    granted = program(place, *grant, f"data.test:{origin.port}/ok")
    assert granted.code == 0, granted.stderr
    talk.done("convert", input=origin.url("/ok/beside.tif"), output="out.tif")
    assert person.asked == []
    item = f"stac+{origin.url('/ok/item.json')}#data"  # whose asset may be anywhere
    beside, okay = origin.url("/ok/beside.tif"), origin.url("/okay/beside.tif")
    origin.files["item.json"] = json.dumps({"assets": {"data": {"href": okay}}}).encode()
    for address in (item, okay):
        assert talk.failed("convert", input=address, output="other.tif")["code"] == "DENIED"
    assert len(person.asked) == 2
    for address, code in (
        ("https://data.test/ok/a.tif", "NETWORK_BLOCKED"),  # another port
        (origin.url("/okay/missing.tif"), "NOT_FOUND"),  # nobody is asked about what is not there
    ):
        assert talk.failed("convert", input=address, output="other.tif")["code"] == code
    assert len(person.asked) == 2
    settings = ("--config", str(place.state.parent / "settings.toml"))
    for address, covered in ((beside, True), (okay, False), (item, False)):
        call = json.dumps({"input": address, "output": "third.tif"})
        check = program(place, "policy", "check", "convert", call, *settings)
        assert bool(json.loads(check.stdout)["grant"]) is covered, address


@pytest.mark.claim("remote.no-secret-kept")
def test_address_secret_is_never_stored_or_shown(serve, origin, place):
    talk = serve("--approval", "never")
    address = origin.url("/ok/a.tif") + f"?X-Amz-Signature={SECRET}"
    done = talk.done("convert", input=address, output="out.tif")
    record = talk.record(done)
    failed = talk.failed("convert", input=address.replace("/ok/", "/403/"), output="other.tif")
    assert any(SECRET in request.path for request in origin.asked)  # it was used
    assert SECRET not in json.dumps([done, record, failed])
    for path in place.state.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    materials = [row for event in place.audited for row in event.get("materials", ())]
    [row] = [material for material in materials if "remote" in material]
    assert row["remote"]["validator"] == "etag"
    assert row["remote"]["ranges"]
    assert verify(place.state / "audit.jsonl").ok


def test_a_replay_says_first_that_remote_data_changed(serve: Serve, origin: Origin, place: Place, capsys):
    done = serve("--approval", "never").done("info", path=origin.url("/ok/a.tif"))
    command = place.command("--config", str(place.state.parent / "settings.toml"))
    with running(settings_for(command)) as app:
        for etag, changed in ((origin.etags.get("/ok/a.tif"), []), ('"another"', ["remote"])):
            if changed:
                origin.etags.update({"/ok/a.tif": etag, "a.tif": etag})
            replay_call(app, done["receipt"]["call_id"], as_json=True)
            output = capsys.readouterr().out
            report = json.loads(output[output.index("{\n") :])
            assert [row["what"] for row in report["changed"]] == changed


def test_container_killed_while_reading_ends_its_requests(serve, origin, place, containers):
    """Its reads wait for an origin that does not answer; no part of the call continues."""
    talk = serve("--approval", "never")
    stalled = stalling(origin)
    call = talk.start(
        "gdal_read", algorithm="raster info", arguments={"input": origin.url("/ok/a.tif"), "checksum": True}
    )
    assert stalled.wait(60)
    containers.kill(place.owners)
    result = call.result(timeout=60)
    assert result.is_error
    assert result.structured_content["error"]["code"] == "ENGINE_UNAVAILABLE"


def test_call_cancelled_during_lookup_sends_no_request(serve, origin, place, monkeypatch, containers):
    looking, go_on = threading.Event(), threading.Event()
    lookup = socket.getaddrinfo

    def slow(*arguments: Any, **named: Any) -> Any:
        looking.set()
        go_on.wait(120)
        return lookup(*arguments, **named)

    talk = serve("--approval", "never")
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    call = talk.start("convert", input=origin.url("/ok/a.tif"), output="out.tif")
    assert looking.wait(60)
    call.cancel()
    until(lambda: [event for event in place.audited if event["type"] == "call.finished"])
    [ended] = [event for event in place.audited if event["type"] == "call.finished"]
    assert ended["outcome"] == "CANCELLED"
    assert containers.none_of(place.owners)
    go_on.set()
    talk.done("info", path=origin.url("/ok/beside.tif"))
    assert {request.path for request in origin.asked} == {"/ok/beside.tif"}
    assert not (place.workspace / "out.tif").exists()


def test_a_container_that_waited_reads_for_a_call(command: Command, origin: Origin):
    settings = settings_for(command("--approval", "never"), {"GDAL_MCP_POOL_MAX": "2"})
    with running(settings) as app, beside(app) as talk:
        app.hosting.keep_warm()
        until(lambda: app.hosting.ready().pool.figures().waiting == 2)
        receipt = talk.done("info", path=origin.url("/ok/a.tif"))["receipt"]
    assert receipt["pool"] == "warm"
    assert receipt["remote"][0]["requests"] == 1


@pytest.mark.nightly
def test_augmentation_takes_addresses_as_other_tools_do(serve: Serve, origin: Origin, place: Place):
    talk = serve("--approval", "never", "--toolboxes", "gdal,augment")
    address = origin.url("/ok/a.tif")
    for tool, arguments in (
        ("augment_image", {"image": address, "prompt": "flip horizontally"}),
        ("make_chips", {"input": address, "output": "chips", "size": 64, "prompt": "flip vertically"}),
    ):
        result = talk.done(tool, **arguments)
        assert result["receipt"]["remote"][0]["read_by"] == "server"
        assert result.get("success", True) is True
    assert list((place.workspace / "chips").glob("*/images/*.tif"))


@pytest.mark.nightly  # nine thousand requests
@pytest.mark.claim("remote.one-descriptor", "resources.server-goes-on")
def test_nine_thousand_chunks_use_few_descriptors_blocking_nobody(
    serve: Serve, origin: Origin, data: Path, place: Place
):
    array = {"zarr_format": 2, "shape": [900, 1000], "chunks": [10, 10], "dtype": "|u1", "order": "C"}
    array |= {"compressor": None, "filters": None, "fill_value": 0}
    metadata = {".zgroup": {"zarr_format": 2}, "a/.zarray": array, "a/.zattrs": {}}
    origin.files["n.zarr/.zmetadata"] = json.dumps(
        {"zarr_consolidated_format": 1, "metadata": metadata}
    ).encode()
    origin.files |= {f"n.zarr/{name}": json.dumps(value).encode() for name, value in metadata.items()}
    origin.files |= {
        f"n.zarr/a/{y}.{x}": bytes([1 + (x + y) % 200]) * 100 for y in range(90) for x in range(100)
    }
    (place.workspace / "a.tif").write_bytes((data / "a.tif").read_bytes())
    talk = serve("--approval", "never", "--timeout-seconds", "900", "--no-preview", "--concurrent", "2")
    before = len(os.listdir("/proc/self/fd"))
    reading = talk.start("convert", input=origin.url("/ok/n.zarr"), output="n.tif")
    most = 0
    while not reading.done():
        assert talk.done("info", path="a.tif")
        most = max(most, len(os.listdir("/proc/self/fd")))
    result = reading.result()
    assert not result.is_error, result.structured_content
    assert sum("/n.zarr/a/" in path for path in origin.paths()) >= 9000
    assert most < before + 150
    assert talk.done("convert", input="a.tif", output="local.tif")
    until(lambda: len(os.listdir("/proc/self/fd")) < before + 60)
    assert place.staged == []
