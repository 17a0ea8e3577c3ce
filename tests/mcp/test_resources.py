"""Outputs are resources: listed, read in bounded parts, never a way to any other file."""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.pipes import piped
from tests.mcp.talk import ERAS, Person, Place, Talk, talking
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

CHUNK = 4096
SECRET = b"canary of a file that no call published"


@pytest.fixture(scope="module")
def own(grounds: Path, place: Place) -> Place:
    made = Place.made(grounds / "resources")
    for name in ("rgb.tif", "float.tif"):
        made.path(name).write_bytes(place.path(name).read_bytes())
    return made


@pytest.fixture(scope="module", params=ERAS)
def reader(request: pytest.FixtureRequest, own: Place, grounds: Path) -> Iterator[Talk]:
    """A server that reads 4 KiB at a time and asks nobody."""
    command = own.command("--approval", "never", "--read-chunk", str(CHUNK))
    with talking(command, grounds / "resources.log", era=request.param, person=Person()) as made:
        yield made


def publish(talk: Talk, name: str, source: str = "rgb.tif") -> str:
    return talk.done("gdal_translate", src_dataset=source, dst_dataset=name)["output_uri"]


def read(talk: Talk, uri: str) -> tuple[dict[str, Any] | None, bytes]:
    """What is said of a part and the part itself; a short resource comes without words."""
    contents = talk.ask("read_resource", uri).contents
    told = [json.loads(one.text) for one in contents if hasattr(one, "text")]
    blobs = [base64.b64decode(one.blob) for one in contents if hasattr(one, "blob")]
    return (told[0] if told else None), (blobs[0] if blobs else b"")


def listed(talk: Talk) -> dict[str, Any]:
    """All pages of the list."""
    found, cursor = {}, None
    while True:
        page = talk.ask("list_resources", cursor=cursor, cache_mode="bypass")
        found |= {str(one.uri): one for one in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return found


def refused(talk: Talk, uri: str) -> int:
    with pytest.raises(MCPError) as caught:
        talk.ask("read_resource", uri)
    assert SECRET.decode() not in str(caught.value.error)
    return caught.value.error.code


def test_an_output_is_listed_with_what_is_known_of_it(reader: Talk, own: Place):
    result = reader.done(
        "gdal_translate", src_dataset="rgb.tif", dst_dataset=f"listed {reader.modern} é~'#?.tif"
    )
    one = listed(reader)[result["output_uri"]]
    path = own.path(f"listed {reader.modern} é~'#?.tif")
    assert (one.name, one.size) == (path.name, path.stat().st_size)
    assert one.mime_type.startswith("image/tiff")
    assert one.meta["io.gdal-mcp/call"] == result["receipt"]["call_id"]
    assert one.meta["io.gdal-mcp/sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(reader, result["output_uri"])[1] == path.read_bytes()[:CHUNK]


def test_a_long_output_is_read_in_parts(reader: Talk, own: Place):
    uri = publish(reader, f"long-{reader.modern}.tif", "float.tif")
    path = own.path(f"long-{reader.modern}.tif")
    whole = path.read_bytes()
    assert len(whole) > 2 * CHUNK
    with path.open("ab") as file:
        file.truncate(64 << 20)  # as an output of 64 MiB, most of it a hole
    told, first = read(reader, uri)
    assert told is not None
    assert (told["size"], told["offset"], told["length"]) == (64 << 20, 0, CHUNK)
    assert first == whole[:CHUNK]
    told, second = read(reader, told["next"])
    assert told["offset"] == CHUNK
    assert first + second == whole[: 2 * CHUNK]
    told, last = read(reader, f"{uri}?offset={(64 << 20) - 10}&length=50")
    assert (told["next"], last) == (None, b"\0" * 10)
    assert read(reader, f"{uri}?offset={1 << 40}&length=1")[1] == b""


@pytest.mark.parametrize(
    "query", ["offset=-1", "offset=x", "length=0", "offset=9223372036854775808", "page=2", "offset=1&offset"]
)
def test_a_range_that_is_none_is_an_invalid_parameter(reader: Talk, query: str):
    uri = publish(reader, f"range-{reader.modern}.tif")
    assert refused(reader, f"{uri}?{query}") == -32602


def test_what_no_call_published_is_not_read_by_any_spelling(reader: Talk, own: Place, grounds: Path):
    published = publish(reader, f"known-{reader.modern}.tif")
    secret = own.path("secret.txt")
    secret.write_bytes(SECRET)
    outside = grounds / "outside-resources.txt"
    outside.write_bytes(SECRET)
    base = published.rpartition("/")[0]
    uris = [secret.as_uri(), outside.as_uri(), "file:///etc/passwd", "file:///proc/self/environ", f"{base}/../state/audit.jsonl",
            f"{base}/%2e%2e/state/audit.jsonl", f"{base}/.gdal-mcp/lock", f"{published}/../secret.txt", f"{published}%00",
            base, "gdal://calls/none", "gdal://calls/../x", "http://192.0.2.1/", "secret.txt", str(secret), ""]  # fmt: skip
    codes = {refused(reader, uri) for uri in uris}
    assert codes <= ({-32602} if reader.modern else {-32002, -32602})


def test_a_link_that_took_the_place_of_an_output_is_not_followed(reader: Talk, own: Place, grounds: Path):
    name = f"swapped-{reader.modern}.tif"
    uri = publish(reader, name)
    inside, outside = own.path("inside.txt"), grounds / "outside-swapped.txt"
    for target in (inside, outside):
        target.write_bytes(SECRET)
        own.path(name).unlink()
        own.path(name).symlink_to(target)
        refused(reader, uri)
    own.path(name).unlink()
    os.mkfifo(own.path(name))
    refused(reader, uri)


def test_an_output_that_is_gone_is_not_found(reader: Talk, own: Place):
    name = f"gone-{reader.modern}.tif"
    uri = publish(reader, name)
    own.path(name).unlink()
    assert refused(reader, uri) == (-32602 if reader.modern else -32002)


def test_the_record_of_a_call_is_a_resource(reader: Talk):
    receipt = reader.done("gdal_translate", src_dataset="rgb.tif", dst_dataset=f"record-{reader.modern}.tif")[
        "receipt"
    ]
    told, _ = read(reader, f"gdal://calls/{receipt['call_id']}")
    assert (told["tool"], told["outcome"], told["plan"]) == ("gdal_translate", "OK", receipt["plan_digest"])
    assert told["argv"] == receipt["argv"]
    assert told["receipt"]["limits"] == receipt["limits"]
    assert [Path(row["path"]).name for row in told["receipt"]["outputs"]] == [f"record-{reader.modern}.tif"]


def test_templates_name_the_ways_to_read(reader: Talk):
    templates = [one.uri_template for one in reader.ask("list_resource_templates").resource_templates]
    assert any("offset" in one for one in templates)
    assert any(one.startswith("gdal://calls/") for one in templates)


def test_a_cursor_of_nobody_is_an_invalid_parameter(reader: Talk):
    with pytest.raises(MCPError) as caught:
        reader.ask("list_resources", cursor="'; DROP TABLE artifacts")
    assert caught.value.error.code == -32602


def test_resources_survive_a_restart(make_place: Callable[..., Place], grounds: Path):
    place = make_place("rgb.tif")
    seen = []
    for _ in range(2):
        with piped(place.command("--approval", "never"), grounds / "restart.log") as pipes:
            pipes.hello()
            if not seen:
                pipes.call("gdal_translate", {"src_dataset": "rgb.tif", "dst_dataset": "kept.tif"})
            uri = place.path("kept.tif").as_uri()
            rows = pipes.ask("resources/list")["result"]["resources"]
            [content] = pipes.ask("resources/read", {"uri": uri})["result"]["contents"]
            seen.append((rows, base64.b64decode(content["blob"])))
    assert seen[0] == seen[1]
    assert [row["uri"] for row in seen[0][0]] == [uri]
    assert seen[0][1] == place.path("kept.tif").read_bytes()


def test_an_output_that_is_a_folder_is_described_and_its_files_are_not_handed_out(
    reader: Talk, own: Place, oracle: Oracle
):
    name = f"folder-{reader.modern}.zarr"
    result = reader.done("convert", input="rgb.tif", output=name, output_format="Zarr")
    assert own.path(name).is_dir()
    told, _ = read(reader, result["resource_uri"])
    assert told["folder"] == str(own.path(name))
    assert oracle.checksums(own.path(name)) == oracle.checksums(own.path("rgb.tif"))
    inner = next(path for path in own.path(name).rglob("*") if path.is_file())
    refused(reader, inner.as_uri())
