"""What worked on other servers that hand files to GDAL, once each. `docs/peers.toml` says what it did there."""

import contextlib
import os
import tomllib
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from tests.attacks.conftest import Attacked
from tests.attacks.leaks import code, discreet, leaked
from tests.attacks.listener import Listener
from tests.mcp.attack_calls import Call, read, write
from tests.mcp.attack_files import started_calls
from tests.mcp.pipes import piped
from tests.mcp.talk import Talk
from tests.web.hosted import bearer, hosting

pytestmark = pytest.mark.engine

Web = Callable[[str], tuple[int, bytes]]


@pytest.fixture
def web(attacked: Attacked, grounds: Path) -> Iterator[Web]:
    """Asks a server over HTTP on the same world for a path as it is; a careful client would tidy it up first."""
    with hosting(attacked.place, grounds / "peer-http.log") as hosted:
        token = hosted.token("peer")

        def ask(path: str) -> tuple[int, bytes]:
            with contextlib.closing(HTTPConnection(hosted.host, timeout=60)) as connection:
                connection.request("GET", path, headers=bearer(token))
                answer = connection.getresponse()
                return answer.status, answer.read()

        yield ask


def refused(attacked: Attacked, *calls: Call) -> None:
    """All of them, before a container is started."""
    for tool, arguments in calls:
        error = attacked.talk.failed(tool, **arguments)
        assert error["stage"] in ("lookup", "validate", "resolve"), error
        assert error["call_id"] not in started_calls(attacked.place)


def brings_nothing(attacked: Attacked, *calls: Call) -> None:
    """All of them are tried, and neither an answer nor an output holds the bait."""
    for tool, arguments in calls:
        end = attacked.talk.call(tool, **arguments)
        assert code(end) in ("OK", "GDAL_ERROR")
        assert discreet(end)
    for path in attacked.place.workspace.glob("peer-*"):
        assert not leaked(path.read_bytes())


@pytest.mark.nightly
@pytest.mark.claim("names.files-only")
def test_a_virtual_raster_written_out_as_a_path_is_refused(attacked: Attacked, listener: Listener):
    before = listener.total
    inside = attacked.place.path("ok.tif")
    texts = [
        f"<VRTDataset rasterXSize='20' rasterYSize='20'><VRTRasterBand dataType='Byte' band='1'><SimpleSource><SourceFilename>{name}</SourceFilename></SimpleSource></VRTRasterBand></VRTDataset>"
        for name in (
            attacked.ground.outside / "secret.tif",
            f"/vsicurl/{listener.url('127.0.0.1', 'peer')}",
            inside,
        )
    ]
    spelt = [spelling + text for text in texts for spelling in ("", " ", "\ufeff", "./", "file:")]
    refused(
        attacked,
        *(("info", {"path": text}) for text in spelt),
        *(("convert", {"input": text, "output": "peer.tif"}) for text in spelt),
    )
    assert listener.total == before


@pytest.mark.claim("content.reads-nothing-outside")
def test_a_description_in_the_workspace_that_names_a_file_outside_brings_nothing(attacked: Attacked):
    brings_nothing(
        attacked,
        ("convert", {"input": "vrt_abs.vrt", "output": "peer-1.bil"}),
        ("vector_convert", {"input": "ogr_abs.vrt", "output": "peer-2.csv"}),
        ("vector_convert", {"input": "read.gdalg.json", "output": "peer-3.csv"}),
        ("convert", {"input": "wms_file.xml", "output": "peer-4.bil"}),
    )


@pytest.mark.claim("network.no-request-leaves")
def test_a_description_in_the_workspace_that_names_an_address_asks_nothing_of_it(
    attacked: Attacked, listener: Listener
):
    before = listener.total
    names = ("net-vrt.vrt", "net-ogr.vrt", "net-wms.xml", "net-gdalg.gdalg.json")
    under_way = [attacked.talk.start("info", path=name) for name in names]
    assert {code(call.result(timeout=300)) for call in under_way} <= {"OK", "GDAL_ERROR"}
    assert listener.total == before


@pytest.mark.claim("content.reads-nothing-outside")
def test_a_description_under_the_name_of_a_picture_brings_nothing(attacked: Attacked):
    brings_nothing(
        attacked,
        ("convert", {"input": "vrt_innocent.tif", "output": "peer-5.bil"}),
        ("vector_convert", {"input": "ogr_csv.geojson", "output": "peer-6.csv"}),
    )


@pytest.mark.claim("content.reads-nothing-outside")
def test_a_sidecar_that_names_an_overview_outside_brings_nothing(attacked: Attacked):
    """A smaller picture is made from an overview where there is one."""
    brings_nothing(
        attacked,
        *(
            write("raster resize", input=f"aux-{which}.tif", output=f"peer-{which}.bil", size=["10", "10"])
            for which in ("abs", "up")
        ),
    )


@pytest.mark.claim("args.total-roles")
def test_a_path_argument_beside_the_input_is_checked_like_it(attacked: Attacked):
    for outside in (
        "../outside/secret.tif",
        str(attacked.ground.outside / "secret.tif"),
        "ln_abs.tif",
        "/vsicurl/http://192.0.2.1/x.tif",
    ):
        refused(
            attacked,
            ("gdal_polygonize", {"src_dataset": "ok.tif", "mask": outside}),
            ("gdalwarp", {"src_datasets": ["ok.tif"], "t_srs": "EPSG:4326", "cutline": outside}),
            write("raster fill-nodata", input="dem.tif", mask=outside, output="peer.tif"),
            write("raster clip", input="ok.tif", like=outside, output="peer.tif"),
            write("raster color-map", input="dem.tif", color_map=outside, output="peer.tif"),
            write("raster tile", input="ok.tif", mapml_template=outside, output="peer"),
            read("raster compare", input="ok.tif", reference=outside),
        )


@pytest.mark.claim("outputs.listed-only")
def test_a_resource_is_no_way_around_the_check_of_paths(attacked: Attacked):
    place, outside = attacked.place, attacked.ground.outside
    base = place.workspace.as_uri()
    for uri in (
        (outside / "secret.txt").as_uri(), place.path("ok.tif").as_uri(), place.path("ln_abs.tif").as_uri(), f"{base}/../outside/secret.txt",
        f"{base}/%2e%2e/outside/secret.txt", f"{base}/ln_dir/secret.txt", f"{base}/.gdal-mcp/lock", "file:///etc/passwd", "gdal://calls/../../secret.txt",
    ):  # fmt: skip
        with pytest.raises(MCPError) as caught:
            attacked.talk.ask("read_resource", uri)
        assert not leaked(str(caught.value.error).encode())


@pytest.mark.claim("paths.inside")
def test_two_dots_lead_to_the_same_place_for_the_check_and_for_gdal(attacked: Attacked, grounds: Path):
    """A server whose own folder is elsewhere: what is relative is relative to the workspace, for everybody."""
    (grounds / "ok.tif").write_bytes(
        (attacked.ground.outside / "secret.tif").read_bytes()
    )  # where the server was started
    end = attacked.talk.call("convert", input="sub/../ok.tif", output="peer-7.bil")
    assert code(end) == "OK"
    assert not leaked(attacked.place.path("peer-7.bil").read_bytes())
    refused(
        attacked,
        ("info", {"path": "../ok.tif"}),
        ("info", {"path": "sub/../../ok.tif"}),
        ("convert", {"input": "ok.tif", "output": "sub/../../peer.tif"}),
    )
    (grounds / "ok.tif").unlink()


@pytest.mark.nightly
@pytest.mark.claim("http.files")
def test_an_address_of_a_file_over_http_leads_to_outputs_alone(web: Web):
    for path in (
        "/files/../secret.txt", "/files/%2e%2e/secret.txt", "/files/..%2fsecret.txt", "/files//etc/passwd", "/files/ok.tif", "/../outside/secret.txt",
        "/outputs/../../outside/secret.txt", "/files/%252e%252e/secret.txt", "/files/ok.tif/../../../outside/secret.txt", "/console/../outside/secret.txt",
    ):  # fmt: skip
        status, body = web(path)
        assert status in (400, 401, 403, 404, 405), path
        assert not leaked(body)


@pytest.mark.claim("args.options-allow-listed")
def test_a_creation_option_that_changes_driver_size_or_place_is_refused(attacked: Attacked):
    options = (
        "DRIVER=VRT",
        "-of=VRT",
        "QUALITY=90 -outsize 300000 300000",
        "WIDTH=300000",
        "SIZE=300000",
        "@/etc/passwd",
        "COMPRESS=LZW --config=x",
        "NUM_THREADS=100000",
    )
    refused(
        attacked,
        *(
            write("raster convert", input="ok.tif", output="peer.tif", creation_option=[option])
            for option in options
        ),
    )
    refused(
        attacked,
        *(
            (
                "convert",
                {
                    "input": "ok.tif",
                    "output": "peer.tif",
                    "creation_options": {option.partition("=")[0]: option.partition("=")[2]},
                },
            )
            for option in options
        ),
    )


@pytest.mark.claim("resources.certain-excess-refused")
def test_a_picture_of_300000_by_300000_is_not_begun(attacked: Attacked):
    for tool, arguments in (
        write("raster create", size=[300_000, 300_000], output="peer-big.tif"),
        write("raster resize", input="dem.tif", size=["300000", "300000"], output="peer-big.tif"),
        (
            "gdal_rasterize",
            {
                "src_vector": "zones.gpkg",
                "burn_value": 1,
                "width": 300_000,
                "height": 300_000,
                "dst_raster": "peer-big.tif",
            },
        ),
    ):
        assert attacked.talk.failed(tool, **arguments)["code"] in (
            "DISK_LIMIT",
            "MEMORY_LIMIT",
            "TIMEOUT",
            "INVALID_ARGUMENT",
        )
    assert not attacked.place.path("peer-big.tif").exists()


@pytest.mark.nightly
@pytest.mark.claim("resources.server-goes-on")
def test_a_picture_that_takes_all_memory_does_not_take_the_server(attacked: Attacked, hurried: Talk):
    under_way = hurried.start(
        "gdal_read", algorithm="raster info", arguments={"input": "vrt-busy.vrt", "checksum": True}
    )
    assert hurried.ask("list_tools").tools  # answered while it runs, or the next line could not hold
    assert not under_way.done()
    assert code(under_way.result(timeout=120)) in ("TIMEOUT", "MEMORY_LIMIT")


@pytest.mark.claim("paths.nothing-by-default")
def test_a_server_without_a_workspace_allows_nothing(attacked: Attacked, grounds: Path):
    """Nothing is allowed because nothing was said. It may not even start."""
    command = attacked.place.command()
    place = command.index("--workspace")
    bare = command[:place] + command[place + 2 :]
    bare[bare.index("--state-dir") + 1] = str(grounds / "bare-state")
    with piped(bare, grounds / "bare.log") as pipes:
        pipes.send(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        )
        answered = pipes.receive()
        if answered is None:
            assert pipes.end() != 0
            return
        pipes.notify("notifications/initialized")
        said = pipes.call("info", {"path": str(attacked.place.path("ok.tif"))})
        assert said.get("isError") or "protocol_error" in said


@pytest.mark.claim("outputs.inputs-kept")
def test_an_input_is_never_overwritten_without_a_word(attacked: Attacked):
    before = attacked.place.path("ok.tif").read_bytes()
    place = attacked.place
    os.link(place.path("ok.tif"), place.path("same-file.tif"))
    refused(
        attacked,
        ("convert", {"input": "ok.tif", "output": "ok.tif"}),
        ("convert", {"input": "dem.tif", "output": "ok.tif", "overwrite": False}),
        ("gdalwarp", {"src_datasets": ["ok.tif"], "dst_dataset": "ok.tif", "t_srs": "EPSG:4326"}),
        write("raster convert", input="ok.tif", output="sub/../ok.tif", overwrite=True),
        write("raster convert", input="ln_inside.tif", output="ok.tif", overwrite=True),
    )
    assert place.path("ok.tif").read_bytes() == before
    place.path("same-file.tif").unlink()


def test_each_row_of_the_table_of_peers_is_held_up_by_its_test():
    rows = tomllib.loads(Path("docs/peers.toml").read_text(encoding="utf-8"))["attack"]
    for row in rows:
        marks = globals()[row["test"]].pytestmark
        assert row["claim"] in {argument for mark in marks if mark.name == "claim" for argument in mark.args}
    held = {
        name for name, value in globals().items() if name.startswith("test_") and hasattr(value, "pytestmark")
    }
    assert {row["test"] for row in rows} == held
