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
    with inside(command, person=Person()) as made:
        yield made


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
    told = [json.loads(one.text) for one in contents[:-1]]
    last = contents[-1]
    data = base64.b64decode(last.blob) if hasattr(last, "blob") else last.text.encode()
    return (told[0] if told else None), data


def listed(talk: Talk) -> dict[str, Any]:
    """All pages of the list."""
    found, cursor = {}, None
    while True:
        page = talk.ask("list_resources", cursor=cursor, cache_mode="bypass")
        found |= {str(one.uri): one for one in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return found


def record(talk: Talk, call_id: str) -> dict[str, Any]:
    told, _ = read(talk, f"gdal://calls/{call_id}")
    assert told is not None
    return told


def refused(talk: Talk, uri: str) -> int:
    with pytest.raises(MCPError) as caught:
        talk.ask("read_resource", uri)
    assert SECRET.decode() not in str(caught.value.error)
    return caught.value.error.code


def test_output_is_listed_with_its_known_facts(reader: Talk, own: Place):
    result = reader.done("gdal_translate", src_dataset="rgb.tif", dst_dataset="listed é~'#?.tif")
    one = listed(reader)[result["output_uri"]]
    path = own.path("listed é~'#?.tif")
    assert (one.name, one.size) == (path.name, path.stat().st_size)
    assert one.mime_type.startswith("image/tiff")
    assert one.meta["io.gdal-mcp/call"] == result["receipt"]["call_id"]
    assert one.meta["io.gdal-mcp/sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(reader, result["output_uri"])[1] == path.read_bytes()[:CHUNK]


def test_a_long_output_is_read_in_parts(reader: Talk, own: Place):
    uri = publish(reader, "long.tif", "float.tif")
    path = own.path("long.tif")
    whole = path.read_bytes()
    assert len(whole) > 2 * CHUNK
    with path.open("ab") as file:
        file.truncate(64 << 20)  # like an output of 64 MiB; most of it is a hole
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


def test_text_is_read_in_parts_between_characters(reader: Talk, own: Place):
    own.path("names.csv").write_text("name\n" + "Zürich – Genève\n" * 1000, encoding="utf-8")
    for name in ("names.geojson", "names-copy.csv"):
        made = reader.done("vector_convert", input="names.csv", output=name)
        uri, parts = made["resource_uri"], []
        following = uri
        while following:
            told, part = reader.ask("read_resource", following).contents
            assert part.text
            parts.append(part.text)
            following = json.loads(told.text)["next"]
        assert len(parts) > 2
        assert "".join(parts).encode() == own.path(name).read_bytes()
    # half of a character is returned as bytes, and so is a raster
    [*_, part] = reader.ask("read_resource", f"{uri}?offset=7&length=3").contents
    assert base64.b64decode(part.blob) == own.path("names-copy.csv").read_bytes()[7:10]
    short = reader.done("query_to_file", inputs=["names.csv"], sql="SELECT 1 AS n", output="one.json")
    [whole] = reader.ask("read_resource", short["resource_uri"]).contents
    assert json.loads(whole.text) == json.loads(own.path("one.json").read_text())


def test_lockdown_serves_no_file_content_as_text(own: Place):
    own.path("words.csv").write_text("name\nsay nothing\n")
    with inside(own.command("--approval", "never", "--lockdown"), person=Person()) as talk:
        made = talk.done("vector_convert", input="words.csv", output="words.geojson")
        [only] = talk.ask("read_resource", made["resource_uri"]).contents
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
    told = record(reader, receipt["call_id"])
    whole = told["receipt"]
    assert (told["tool"], told["outcome"], told["plan"]) == ("gdal_translate", "OK", whole["plan_digest"])
    assert told["argv"] == whole["argv"]
    assert whole["argv"][0] == "gdal_translate"
    assert whole["limits"]["wall_seconds"] > 0
    assert (told["image"], told["image_digest"]) == (whole["image"], whole["image_digest"])
    assert told["image_digest"].startswith(receipt["image_digest"])
    assert {"plan", "run", "publish", "create", "start"} <= whole["seconds"].keys()
    assert {**whole, **receipt, "image_digest": ..., "seconds": ...}.keys() == whole.keys()
    [made], [source] = told["files"], told["materials"]
    assert [Path(row["path"]).name for row in (made, source)] == ["known.tif", "rgb.tif"]
    for row in (made, source):
        data = Path(row["path"]).read_bytes()
        assert (row["sha256"], row["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert told["approval"] == receipt["approval"]


def test_a_call_that_failed_has_a_record(reader: Talk):
    for tool, arguments in (
        ("info", {"path": "missing.tif"}),
        ("gdal_translate", {"src_dataset": "rgb.tif", "dst_dataset": "x.tif", "bands": ["x"]}),
        ("gdal_translate", {"src_dataset": "rgb.tif", "dst_dataset": "../../x.tif"}),
    ):
        error = reader.failed(tool, **arguments)
        told = record(reader, error["call_id"])
        assert (told["tool"], told["outcome"]) == (tool, error["code"])
        canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
        assert told["arguments_sha256"] == hashlib.sha256(canonical.encode()).hexdigest()
        assert told["arguments"] == {}  # a refused text may contain a password, so only its digest is stored
        assert (told["files"], told["outputs"]) == ([], [])
        assert told["finished"]


def test_long_result_is_cut_and_readable_in_parts(own: Place):
    names = {f"NAME_{number:05}": "é" * 20 for number in range(300)}
    rows = "".join(f'<MDI key="{key}">{value}</MDI>' for key, value in names.items())
    long = own.path("long-metadata.tif")
    long.write_bytes(own.path("rgb.tif").read_bytes())
    own.path("long-metadata.tif.aux.xml").write_text(f"<PAMDataset><Metadata>{rows}</Metadata></PAMDataset>")
    with inside(own.command("--read-chunk", str(CHUNK), "--result-size", "6KiB")) as talk:
        answer = talk.call("info", path="long-metadata.tif", format="json")
        told = answer.structured_content
        assert len(answer.content[0].text.encode()) <= 6 << 10
        assert told["size"] == [40, 30]
        [link] = [one for one in answer.content if one.type == "resource_link"]
        assert (
            str(link.uri) == told["full_result"]["uri"] == f"gdal://calls/{told['receipt']['call_id']}/result"
        )
        data, uri = b"", str(link.uri)
        while uri:
            part, some = read(talk, uri)
            data, uri = data + some, part["next"]
        assert len(data) == link.size == told["full_result"]["bytes"]
        whole = json.loads(data)
        assert whole["receipt"]["call_id"] == told["receipt"]["call_id"]
        assert names.items() <= whole["untrusted"]["report"]["metadata"][""].items()
        short = talk.done("info", path="rgb.tif", format="text")
        assert "full_result" not in short
        refused(talk, f"gdal://calls/{short['receipt']['call_id']}/result")


def test_folder_output_is_described_without_serving_its_files(reader, own, oracle):
    name = "folder.zarr"
    result = reader.done("convert", input="rgb.tif", output=name, output_format="Zarr")
    assert own.path(name).is_dir()
    told, _ = read(reader, result["resource_uri"])
    assert told["folder"] == str(own.path(name))
    assert oracle.checksums(own.path(name)) == oracle.checksums(own.path("rgb.tif"))
    inner = next(path for path in own.path(name).rglob("*") if path.is_file())
    refused(reader, inner.as_uri())
