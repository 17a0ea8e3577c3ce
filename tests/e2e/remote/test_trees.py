"""Trees: only the files that Zarr's metadata names; a chunk that cannot be read is not an empty chunk."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from gdal_mcp.errors import ToolError
from gdal_mcp.remote.trees import index_of_names, index_of_zarr
from sandbox.questions import Status
from tests.e2e.remote.conftest import Make, Opened
from tests.e2e.remote.origin import Origin
from tests.waiting import until

CHUNK = bytes(range(256)) * 400
VERSION_2 = {
    "zarr_consolidated_format": 1,
    "metadata": {
        # names that must not be requested from a server
        **{
            key: {}
            for key in (
                *("..%5cleak/.zgroup", "..\\leak/.zgroup", "a//leak/.zgroup", "../leak/.zgroup"),
                *("..;/leak/.zgroup", "a/..;x/leak/.zgroup"),
            )
        },
        **{key: {"shape": [9], "chunks": [1]} for key in ("..%2fleak/.zarray", "..\\leak/.zarray")},
        ".zgroup": {"zarr_format": 2},
        "a/.zarray": {"shape": [10, 20], "chunks": [4, 10], "zarr_format": 2},
        "a/.zattrs": {},
        "g/b/.zarray": {"shape": [10], "chunks": [5], "dimension_separator": "/"},
    },
}
VERSION_3 = {
    "zarr_format": 3,
    "node_type": "group",
    "consolidated_metadata": {
        "metadata": {
            "a": {
                "node_type": "array",
                "shape": [10, 20],
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 10]}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            }
        }
    },
}


def test_initial_reads_are_prefetched(server: Origin, make: Make, opened: Opened):
    arrays = {"x/.zarray": {"shape": [7], "chunks": [7]}, "a/.zarray": {"shape": [9], "chunks": [3]}}
    put(server, {"metadata": {".zgroup": {}, **arrays}}, "x/0")
    call = opened(make(), server.url("/ok/t.zarr"))
    until(lambda: {"/ok/t.zarr/.zgroup", "/ok/t.zarr/x/0"} <= set(server.paths()))
    assert call.read((0, 10), name=f"{call.name}/x/0").body == CHUNK[:10]
    assert len(server.asked) == 3


def put(server: Origin, version: dict[str, Any], *chunks: str) -> None:
    name = ".zmetadata" if "metadata" in version else "zarr.json"
    server.files[f"t.zarr/{name}"] = json.dumps(version).encode()
    server.files |= {f"t.zarr/{chunk}": CHUNK for chunk in chunks}


@pytest.mark.claim("remote.known-names-only")
def test_only_chunks_inside_the_grid_are_requested(server, make, opened):
    for version, there, absent in ((VERSION_2, "a/0.1", "a/2.1"), (VERSION_3, "a/c/0/1", "a/c/2/1")):
        put(server, version, there)
        call = opened(make(), server.url("/ok/t.zarr"))
        name = call.name
        assert name == "1/t.zarr"
        assert call.read((1000, 5000), name=f"{name}/{there}").body == CHUNK[1000:6000]
        assert call.look(f"{name}/{absent}").status is Status.ENOENT  # inside the grid, but never written
        assert server.paths()[-1] == f"/ok/t.zarr/{absent}"
        if version is VERSION_2:
            until(lambda: "/ok/t.zarr/.zgroup" in server.paths())  # requested in advance
        before = len(server.asked)
        for below in (
            "a/3.0", "a/0.2", "a/0.1.0", "a/00.1", "a/-1.0", "a/0.1?leak=1", "a/c/3/0", "a/c/0", "a/c/0/1/2", "leak",
            "b/0", "../x.tif", "a/../../x.tif", "a/.zarray/leak", "a/\u0661.1", "a/0.1/", "//", "a//0.1",
            "..%5cleak/.zgroup", "..\\leak/.zgroup", "a//leak/.zgroup", "../leak/.zgroup", "..%2fleak/0", "..\\leak/0",
        ):  # fmt: skip
            assert call.look(f"{name}/{below}").status is Status.ENOENT, below
            assert call.read((0, 1), name=f"{name}/{below}").status is not Status.OK, below
            call.reading.failure = None
        assert len(server.asked) == before
        call.reading.close()
        server.files.clear()


def test_folders_and_lists_come_from_the_metadata(server: Origin, make: Make, opened: Opened):
    put(server, VERSION_2)
    call = opened(make(), server.url("/ok/t.zarr/"))
    assert call.list(call.name).body.split() == [b".zgroup", b".zmetadata", b"a", b"g"]
    assert call.look(f"{call.name}/g/b").body[:1] == b"\x02"
    assert call.look(f"{call.name}/g/b/1").status is Status.ENOENT
    assert call.look(f"{call.name}/.zmetadata").status is Status.OK
    assert server.paths().count("/ok/t.zarr/.zmetadata") == 1  # its content is stored after the first request


@pytest.mark.claim("remote.failed-read-fails-the-call")
def test_unreadable_chunk_fails_the_call(server: Origin, make: Make, opened: Opened):
    put(server, VERSION_2, "a/0.0")
    for path, failing in (("a/0.0", "cut"), ("a/0.0", "500"), ("a/0.0", "403"), ("a/.zarray", "ok")):
        server.special[f"/ok/t.zarr/{path}"] = lambda handler, mode=failing: handler.behave(
            mode,
            server.files.get(f"t.zarr/{path}"),  # noqa: B023 - called in this turn
        )
        call = opened(make(), server.url("/ok/t.zarr"))
        assert call.look(f"{call.name}/{path}").status is Status.EIO, (path, failing)
        assert call.reading.failure
        server.special.clear()


def test_remote_tree_without_consolidated_metadata_is_refused(server, make, opened):
    with pytest.raises(ToolError) as caught:
        opened(make(), server.url("/ok/t.zarr"))
    assert "consolidated" in caught.value.message
    infinite = b'{"metadata": {"a/.zarray": {"shape": [Infinity], "chunks": [1]}}}'
    unknown = b'{"metadata": {"a/.zarray": {"shape": [1], "chunks": [1], "dimension_separator": ""}}}'
    arrays = (unknown, unknown.replace(b'""', b"7"), infinite, infinite.replace(b"[1]", b"[0]"))
    for broken in (*arrays, b"[", b"{}", b'{"metadata": 7}', b"[" * 100_000):
        server.files["t.zarr/.zmetadata"] = broken
        with pytest.raises(ToolError):
            opened(make(), server.url("/ok/t.zarr"))


def test_deeply_nested_name_uses_memory_of_its_length():
    name = f"{'a/' * 8000}.zgroup"
    tracemalloc.start()
    keys = index_of_zarr(".zmetadata", json.dumps({"metadata": {name: {}, "g/b/.zgroup": {}}}).encode())
    assert keys is not None
    assert (keys.presence(name), keys.presence("g/b"), keys.presence("a")) == ("listed", "folder", "folder")
    assert tracemalloc.get_traced_memory()[1] < 100 * len(name)
    tracemalloc.stop()


def peak(work: Callable[[], Any]) -> int:
    """The largest number of bytes that it takes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.claim("remote.answers-bounded")
def test_folders_above_many_files_use_no_memory():
    """Each of these names has 31 folders that no other name has."""
    names = ["/".join(f"{row:x}{level:x}" for level in range(32)) + "/.zgroup" for row in range(4000)]
    text = json.dumps({"metadata": dict.fromkeys(names, 0)}).encode()

    def check_keys() -> None:
        keys = index_of_zarr(".zmetadata", text)
        assert keys is not None
        assert keys.presence("0" * 2 + "/01") == "folder"
        assert len(keys.list_dir("")) == 4001
        assert [keys.list_dir(name.rpartition("/")[0]) for name in names[:9]] == [(".zgroup",)] * 9

    assert peak(check_keys) < 15 * len(text)


@pytest.mark.claim("remote.answers-bounded")
@pytest.mark.parametrize("row", ['{"":0}', "[]", '""', "0", "{}"])
def test_metadata_of_too_many_values_is_refused_unparsed(row, server, make, opened):
    rows = ",".join([row] * ((8 << 20) // (len(row) + 1)))
    server.files["t.zarr/.zmetadata"] = f'{{"metadata": {{".zgroup": [{rows}]}}}}'.encode()

    def refused() -> None:
        with pytest.raises(ToolError):
            opened(make(), server.url("/ok/t.zarr"))

    # in addition to the answer itself: requests, their parts and the joined text
    assert peak(refused) < 100 << 20


def test_folder_names_are_found_despite_sorting_neighbours():
    names = ("a", "a!", "a-b", "a/b", "a/b/c", "a0", "a//x", "b\u00e4/x", "b\u00e4", "z/\U0001f5fa/1", "/")
    keys = index_of_names(names)
    for folder in ("", "a", "a/b", "b\u00e4", "z", "z/\U0001f5fa", "none", "a-b"):
        prefix = f"{folder}/" if folder else ""
        below = {name[len(prefix) :].partition("/")[0] for name in names if name.startswith(prefix)} - {""}
        assert set(keys.list_dir(folder)) == below
    assert [keys.presence(name) for name in ("a", "a/", "z", "z/x", "b")] == [
        "listed",
        "folder",
        "folder",
        "none",
        "none",
    ]
