"""Outputs are resources: they are listed and read in bounded parts, and give access to no other file."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.e2e.mcp.talk import Person, Place, Talk, inside

pytestmark = pytest.mark.engine

DATA = ("rgb.tif", "float.tif")
CHUNK = 4096
SECRET = b"canary of a file that no call published"


@pytest.fixture(scope="module")
def reader(own: Place) -> Iterator[Talk]:
    """A server that reads 4 KiB at a time and needs no approval."""
    command = own.command("--approval", "never", "--read-chunk", str(CHUNK))
    with inside(command, person=Person()) as talk:
        yield talk


@pytest.fixture(scope="module")
def known(reader: Talk) -> dict[str, Any]:
    """The result of a call whose output no test changes."""
    return reader.done("gdal_translate", src_dataset="rgb.tif", dst_dataset="known.tif")


def publish(talk: Talk, name: str, source: str = "rgb.tif") -> str:
    return talk.done("gdal_translate", src_dataset=source, dst_dataset=name)["output_uri"]


def read(talk: Talk, uri: str) -> tuple[dict[str, Any] | None, bytes]:
    """The description of a part and the part itself; a short resource has no description."""
    contents = talk.ask("read_resource", uri).contents
    if len(contents) == 1 and hasattr(contents[0], "text"):
        return json.loads(contents[0].text), b""
    descriptions = [json.loads(part.text) for part in contents[:-1]]
    last = contents[-1]
    data = base64.b64decode(last.blob) if hasattr(last, "blob") else last.text.encode()
    return (descriptions[0] if descriptions else None), data


def listed(talk: Talk) -> dict[str, Any]:
    """All pages of the list."""
    resources, cursor = {}, None
    while True:
        page = talk.ask("list_resources", cursor=cursor, cache_mode="bypass")
        resources |= {str(resource.uri): resource for resource in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return resources


def record(talk: Talk, call_id: str) -> dict[str, Any]:
    description, _ = read(talk, f"gdal://calls/{call_id}")
    assert description is not None
    return description


def refused(talk: Talk, uri: str) -> int:
    with pytest.raises(MCPError) as caught:
        talk.ask("read_resource", uri)
    assert SECRET.decode() not in str(caught.value.error)
    return caught.value.error.code


def test_output_is_listed_with_its_known_facts(reader: Talk, own: Place):
    result = reader.done("gdal_translate", src_dataset="rgb.tif", dst_dataset="listed é~'#?.tif")
    resource = listed(reader)[result["output_uri"]]
    path = own.path("listed é~'#?.tif")
    assert (resource.name, resource.size) == (path.name, path.stat().st_size)
    assert resource.mime_type.startswith("image/tiff")
    assert resource.meta["io.gdal-mcp/call"] == result["receipt"]["call_id"]
    assert resource.meta["io.gdal-mcp/sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(reader, result["output_uri"])[1] == path.read_bytes()[:CHUNK]


def test_a_long_output_is_read_in_parts(reader: Talk, own: Place):
    uri = publish(reader, "long.tif", "float.tif")
    path = own.path("long.tif")
    content = path.read_bytes()
    assert len(content) > 2 * CHUNK
    with path.open("ab") as file:
        file.truncate(64 << 20)  # like an output of 64 MiB; most of it is a hole
    description, first = read(reader, uri)
    assert description is not None
    assert (description["size"], description["offset"], description["length"]) == (64 << 20, 0, CHUNK)
    assert first == content[:CHUNK]
    description, second = read(reader, description["next"])
    assert description["offset"] == CHUNK
    assert first + second == content[: 2 * CHUNK]
    description, last = read(reader, f"{uri}?offset={(64 << 20) - 10}&length=50")
    assert (description["next"], last) == (None, b"\0" * 10)
    assert read(reader, f"{uri}?offset={1 << 40}&length=1")[1] == b""


def test_text_is_read_in_parts_between_characters(reader: Talk, own: Place):
    own.path("names.csv").write_text("name\n" + "Zürich – Genève\n" * 1000, encoding="utf-8")
    for name in ("names.geojson", "names-copy.csv"):
        result = reader.done("vector_convert", input="names.csv", output=name)
        uri, parts = result["resource_uri"], []
        following = uri
        while following:
            description, part = reader.ask("read_resource", following).contents
            assert part.text
            parts.append(part.text)
            following = json.loads(description.text)["next"]
        assert len(parts) > 2
        assert "".join(parts).encode() == own.path(name).read_bytes()
    # half of a character is returned as bytes, and so is a raster
    [*_, part] = reader.ask("read_resource", f"{uri}?offset=7&length=3").contents
    assert base64.b64decode(part.blob) == own.path("names-copy.csv").read_bytes()[7:10]
    short = reader.done("query_to_file", inputs=["names.csv"], sql="SELECT 1 AS n", output="one.json")
    [content] = reader.ask("read_resource", short["resource_uri"]).contents
    assert json.loads(content.text) == json.loads(own.path("one.json").read_text())


def test_lockdown_serves_no_file_content_as_text(own: Place):
    own.path("words.csv").write_text("name\nsay nothing\n")
    with inside(own.command("--approval", "never", "--lockdown"), person=Person()) as talk:
        result = talk.done("vector_convert", input="words.csv", output="words.geojson")
        [only] = talk.ask("read_resource", result["resource_uri"]).contents
        assert base64.b64decode(only.blob) == own.path("words.geojson").read_bytes()


def test_invalid_range_is_an_invalid_parameter(reader: Talk, known: dict[str, Any]):
    for query in (
        "offset=-1", "offset=x", "length=0", "offset=9223372036854775807", "offset=9223372036854775808",
        "page=2", "offset=1&offset",
    ):  # fmt: skip
        assert refused(reader, f"{known['output_uri']}?{query}") == -32602


@pytest.mark.claim("outputs.listed-only")
def test_unpublished_file_is_unreadable_by_any_spelling(reader, known, own, grounds):
    published = known["output_uri"]
    secret = own.path("secret.txt")
    secret.write_bytes(SECRET)
    outside = grounds / "outside-resources.txt"
    outside.write_bytes(SECRET)
    base = published.rpartition("/")[0]
    uris = [secret.as_uri(), outside.as_uri(), "file:///etc/passwd", "file:///proc/self/environ", f"{base}/../state/audit.jsonl",
            f"{base}/%2e%2e/state/audit.jsonl", f"{base}/.gdal-mcp/lock", f"{published}/../secret.txt", f"{published}%00",
            base, "gdal://calls/none", "gdal://calls/../x", "gdal://calls/", "gdal://calls/../results/x/result",
            f"gdal://calls/{0:016x}/result", f"gdal://calls/{0:016x}/audit", "gdal://calls/none/result?offset=x", "http://192.0.2.1/", "secret.txt", str(secret), ""]  # fmt: skip
    assert {refused(reader, uri) for uri in uris} <= {-32602}


@pytest.mark.claim("outputs.listed-only")
def test_link_replacing_an_output_is_not_followed(reader: Talk, own: Place, grounds: Path):
    name = "swapped.tif"
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


def test_the_record_of_a_call_is_a_resource(reader: Talk, known: dict[str, Any]):
    receipt = known["receipt"]
    recorded = record(reader, receipt["call_id"])
    full_receipt = recorded["receipt"]
    assert (recorded["tool"], recorded["outcome"], recorded["plan"]) == (
        "gdal_translate",
        "OK",
        full_receipt["plan_digest"],
    )
    assert recorded["argv"] == full_receipt["argv"]
    assert full_receipt["argv"][0] == "gdal_translate"
    assert full_receipt["limits"]["wall_seconds"] > 0
    assert (recorded["image"], recorded["image_digest"]) == (
        full_receipt["image"],
        full_receipt["image_digest"],
    )
    assert recorded["image_digest"].startswith(receipt["image_digest"])
    assert {"plan", "run", "publish", "create", "start"} <= full_receipt["seconds"].keys()
    assert {**full_receipt, **receipt, "image_digest": ..., "seconds": ...}.keys() == full_receipt.keys()
    [output], [source] = recorded["files"], recorded["materials"]
    assert [Path(row["path"]).name for row in (output, source)] == ["known.tif", "rgb.tif"]
    for row in (output, source):
        data = Path(row["path"]).read_bytes()
        assert (row["sha256"], row["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert recorded["approval"] == receipt["approval"]


def test_a_call_that_failed_has_a_record(reader: Talk):
    for tool, arguments in (
        ("info", {"path": "missing.tif"}),
        ("gdal_translate", {"src_dataset": "rgb.tif", "dst_dataset": "x.tif", "bands": ["x"]}),
        ("gdal_translate", {"src_dataset": "rgb.tif", "dst_dataset": "../../x.tif"}),
    ):
        error = reader.failed(tool, **arguments)
        recorded = record(reader, error["call_id"])
        assert (recorded["tool"], recorded["outcome"]) == (tool, error["code"])
        canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
        assert recorded["arguments_sha256"] == hashlib.sha256(canonical.encode()).hexdigest()
        # a refused text may contain a password, so only its digest is stored
        assert recorded["arguments"] == {}
        assert (recorded["files"], recorded["outputs"]) == ([], [])
        assert recorded["finished"]


def test_long_result_is_cut_and_readable_in_parts(own: Place):
    names = {f"NAME_{number:05}": "é" * 20 for number in range(300)}
    rows = "".join(f'<MDI key="{key}">{value}</MDI>' for key, value in names.items())
    long = own.path("long-metadata.tif")
    long.write_bytes(own.path("rgb.tif").read_bytes())
    own.path("long-metadata.tif.aux.xml").write_text(f"<PAMDataset><Metadata>{rows}</Metadata></PAMDataset>")
    with inside(own.command("--read-chunk", str(CHUNK), "--result-size", "6KiB")) as talk:
        answer = talk.call("info", path="long-metadata.tif", format="json")
        content = answer.structured_content
        assert len(answer.content[0].text.encode()) <= 6 << 10
        assert content["size"] == [40, 30]
        [link] = [block for block in answer.content if block.type == "resource_link"]
        assert (
            str(link.uri)
            == content["full_result"]["uri"]
            == f"gdal://calls/{content['receipt']['call_id']}/result"
        )
        data, uri = b"", str(link.uri)
        while uri:
            part, some = read(talk, uri)
            data, uri = data + some, part["next"]
        assert len(data) == link.size == content["full_result"]["bytes"]
        complete = json.loads(data)
        assert complete["receipt"]["call_id"] == content["receipt"]["call_id"]
        assert names.items() <= complete["untrusted"]["report"]["metadata"][""].items()
        short = talk.done("info", path="rgb.tif", format="text")
        assert "full_result" not in short
        refused(talk, f"gdal://calls/{short['receipt']['call_id']}/result")


def test_folder_output_is_described_without_serving_its_files(reader, own, oracle):
    name = "folder.zarr"
    result = reader.done("convert", input="rgb.tif", output=name, output_format="Zarr")
    assert own.path(name).is_dir()
    description, _ = read(reader, result["resource_uri"])
    assert description["folder"] == str(own.path(name))
    assert oracle.checksums(own.path(name)) == oracle.checksums(own.path("rgb.tif"))
    inner = next(path for path in own.path(name).rglob("*") if path.is_file())
    refused(reader, inner.as_uri())
