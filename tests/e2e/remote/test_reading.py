"""The data that a call gets from remote sources, and the records of it."""

import hashlib
import json
import os
import threading

import pytest

from gdal_mcp.errors import Code, ToolError
from sandbox.questions import Status
from tests.e2e.remote.conftest import DATA, Make, Opened
from tests.e2e.remote.origin import Handler, Origin
from tests.waiting import until

BLOCK = 64 << 10


def test_ranges_are_ordered_and_neighbours_share_a_request(server: Origin, make: Make, opened: Opened):
    call = opened(make(), server.url("/ok/x.tif"))
    looked = call.look()
    assert looked.status is Status.OK
    assert looked.body[:17] == b"\x01" + len(DATA).to_bytes(8, "big") + bytes(8)
    assert looked.body[17:] == DATA[:BLOCK]
    assert len(server.asked) == 1
    wanted = ((2_000_000, 100), (700_000, 80_000), (len(DATA) - 5, 5), (750_000, 10), (0, 7))
    got = call.read(*wanted)
    assert got.status is Status.OK
    assert got.body == b"".join(DATA[start : start + size] for start, size in wanted)
    assert len(server.asked) == 4
    assert call.reading.failure is None


def test_the_record_tells_blocks_digest_requests_and_bytes(server: Origin, make: Make, opened: Opened):
    call = opened(make(), server.url("/ok/x.tif"))
    call.look()
    call.read((100_000, 10), (70_000, 5), (1_000_000, 1))
    (row,) = call.reading.record()
    assert row.address == row.final == f"https://data.test:{server.port}/ok/x.tif"
    assert (row.length, row.etag, row.validator) == (len(DATA), '"v1"', "etag")
    assert row.ranges == ((0, 2 * BLOCK), (15 * BLOCK, BLOCK))
    total = hashlib.sha256()
    for start, size in row.ranges:
        total.update(f"{start} {size}\n".encode())
        for at in range(start, start + size, BLOCK):
            total.update(hashlib.sha256(DATA[at : at + BLOCK]).digest())
    assert row.sha256 == total.hexdigest()
    assert row.requests == len(server.asked)
    assert row.bytes == server.sent == 3 * BLOCK


def test_second_look_revalidates_without_reading_again(server, make, opened):
    gateway = make()
    for _ in range(2):
        call = opened(gateway, server.url("/ok/x.tif"))
        assert call.read((0, 1_000_000)).body == DATA[:1_000_000]
    first = server.sent
    (row,) = call.reading.record()
    assert (row.requests, row.bytes) == (1, 0)
    assert row.cached_bytes == 16 * BLOCK
    assert server.asked[-1].headers["if-none-match"] == '"v1"'
    server.etags["x.tif"], server.files["x.tif"] = '"v2"', bytes(2_000_000)
    call = opened(gateway, server.url("/ok/x.tif"))
    assert call.read((0, 1_000_000)).body == bytes(1_000_000)
    assert server.sent > first


@pytest.mark.claim("remote.principals-apart")
def test_one_principal_never_reads_what_another_one_read(server: Origin, make: Make, opened: Opened):
    gateway = make()
    opened(gateway, server.url("/ok/x.tif"), who="local:ann").read((0, 1_000_000))
    before = server.sent
    call = opened(gateway, server.url("/ok/x.tif"), who="local:bob")
    assert call.read((0, 1_000_000)).body == DATA[:1_000_000]
    assert server.sent == 2 * before
    assert "if-none-match" not in server.asked[-1].headers
    assert call.reading.record()[0].cached_bytes == 0


def test_hidden_parameters_keep_cached_files_apart(server: Origin, make: Make, opened: Opened):
    """Such a server may give both variants the same ETag."""
    bodies = {"a": b"a" * 1000, "b": b"b" * 1000}

    def chosen(handler: Handler) -> None:
        handler.mode_ok(bodies[handler.path[-1]])

    server.special["/ok/get"] = chosen
    gateway = make()
    for name, body in bodies.items():
        assert opened(gateway, server.url(f"/ok/get?key={name}")).read((0, 1000)).body == body


def test_weakly_validated_file_is_not_cached(server, make, opened):
    gateway = make()
    server.etags["x.tif"] = 'W/"v1"'
    for _ in range(2):
        call = opened(gateway, server.url("/ok/x.tif"))
        call.read((0, 1_000_000))
        (row,) = call.reading.record()
        assert (row.validator, row.cached_bytes) == ("weak etag", 0)
    assert "if-match" not in {name for request in server.asked for name in request.headers}


@pytest.mark.claim("remote.bounded")
def test_version_with_very_long_name_is_not_cached(server: Origin, make: Make, opened: Opened):
    """Thousands of such names would need more memory than the files need on disk."""
    server.etags["x.tif"] = f'"{"v" * 4000}"'
    gateway = make()
    for _ in range(2):
        call = opened(gateway, server.url("/ok/x.tif"))
        assert call.read((0, 1000)).body == DATA[:1000]
        assert call.reading.record()[0].cached_bytes == 0
        call.reading.close()
    assert len(gateway._cache._copies) == 0
    assert gateway._cache.stored == 0


def test_copies_stay_within_their_bound(server: Origin, make: Make, opened: Opened):
    server.files |= {f"{number}": DATA for number in range(4)}
    gateway = make(cache=5_000_000)
    for number in range(4):
        call = opened(gateway, server.url(f"/ok/{number}"))
        assert call.read((0, len(DATA))).body == DATA
        call.reading.close()
        assert gateway._cache.stored <= 5_000_000
    before = server.sent
    assert opened(gateway, server.url("/ok/3")).read((0, len(DATA))).body == DATA
    assert server.sent == before  # the newest is stored, the oldest is not
    assert opened(gateway, server.url("/ok/0")).read((0, len(DATA))).body == DATA
    assert server.sent > before


@pytest.mark.claim("remote.one-descriptor")
def test_a_tree_of_many_files_takes_no_descriptors(server: Origin, make: Make, opened: Opened):
    """Each file has a strong ETag, so its copy stays for the next call."""
    metadata = {"metadata": {"a/.zarray": {"shape": [300], "chunks": [1]}}}
    server.files["t.zarr/.zmetadata"] = json.dumps(metadata).encode()
    server.files |= {f"t.zarr/a/{number}": b"%d" % number * 1000 for number in range(300)}
    gateway = make()
    call = opened(gateway, server.url("/ok/t.zarr"))
    before = len(os.listdir("/proc/self/fd"))
    for number in range(300):
        chunk = call.read((0, 1000), name=f"{call.name}/a/{number}")
        assert chunk.body == (b"%d" % number * 1000)[:1000]
    assert len(os.listdir("/proc/self/fd")) < before + 20
    call.reading.close()
    sent = server.sent
    again = opened(gateway, server.url("/ok/t.zarr"))
    for number in range(300):
        assert again.read((0, 9), name=f"{again.name}/a/{number}").body == (b"%d" % number * 9)[:9]
    assert server.sent == sent  # all of them were stored


@pytest.mark.claim("remote.bounded")
def test_reused_cache_blocks_reveal_nothing_of_previous_files(server, make, opened):
    """Shorter files replace longer ones, whose bytes still follow them in the copy."""
    gateway = make(cache=4 * BLOCK)
    for name, body in (("long", b"a" * 4 * BLOCK), ("short", b"b" * 10), ("middle", b"c" * (BLOCK + 5))) * 2:
        server.files[name] = body
        call = opened(gateway, server.url(f"/ok/{name}"))
        assert call.read((0, len(body))).body == body
        call.reading.close()
        assert gateway._cache.stored <= 4 * BLOCK
    with os.fdopen(os.dup(gateway._cache._opened().fileno())) as file:
        assert os.fstat(file.fileno()).st_size <= 4 * BLOCK


@pytest.mark.claim("remote.bounded")
def test_empty_files_are_not_kept_without_end(server, make, opened, monkeypatch):
    monkeypatch.setattr("gdal_mcp.remote.copies.MAX_COPIES", 5)
    gateway = make()
    for number in range(20):
        server.files[f"{number}"] = b"x"
        opened(gateway, server.url(f"/ok/{number}")).reading.close()
        assert len(gateway._cache._copies) <= 5


def test_block_changed_on_disk_is_never_served(server: Origin, make: Make, opened: Opened):
    gateway = make()
    opened(gateway, server.url("/ok/x.tif")).read((0, 100))
    os.pwrite(gateway._cache._opened().fileno(), b"other", 50)
    again = opened(gateway, server.url("/ok/x.tif"))
    assert again.read((0, 100)).status is Status.EIO


def test_partially_written_block_is_read_again(server, make, opened, monkeypatch):
    original = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda file, data, offset: original(file, data[: len(data) // 2], offset)
    )
    gateway = make()
    for _ in range(2):
        call = opened(gateway, server.url("/ok/x.tif"))
        assert call.read((0, len(DATA))).body == DATA
        assert call.reading.record()[0].cached_bytes == 0
        call.reading.close()


@pytest.mark.claim("remote.known-names-only")
def test_sidecars_are_those_of_the_format_or_named(server, make, opened):
    server.files |= {"a.shp": b"shp", "a.dbf": b"dbf", "a.shx": b"shx", "x.tif.ovr": b"ovr"}
    call = opened(make(), server.url("/ok/a.shp"), server.url("/ok/x.tif#with=ovr,tfw"))
    assert call.look("1/a.dbf").body[17:] == b"dbf"
    assert call.look("1/a.prj").status is Status.ENOENT
    assert call.list("1").body.split() == [b"a.shx", b"a.dbf", b"a.shp"]
    assert call.read((0, 3), name="2/x.tif.ovr").body == b"ovr"
    assert call.look("2/x.tfw").status is Status.ENOENT
    before = len(server.asked)
    for name in ("1/b.shp", "1/a.qix", "2/x.tif.aux.xml", "3/x.tif", "1/../2/x.tif", "x.tif", "1/a.dbf/"):
        assert call.look(name).status is Status.ENOENT, name
    assert len(server.asked) == before
    assert call.reading.failure is None
    shp, tif = call.reading.record()
    assert (shp.files, tif.files) == (1, 1)


def test_an_empty_file_is_a_file(server: Origin, make: Make, opened: Opened):
    call = opened(make(), server.url("/ok/empty"))
    assert call.look().body == b"\x01" + bytes(16)
    assert call.reading.failure is None


def test_missing_remote_file_is_reported_before_running(server: Origin, make: Make, opened: Opened):
    with pytest.raises(ToolError) as caught:
        opened(make(), server.url("/ok/x.tif"), server.url("/ok/gone.tif"))
    assert caught.value.code is Code.NOT_FOUND


@pytest.mark.claim("remote.bounded")
def test_limits_of_call_and_day_end_a_call(server: Origin, make: Make, opened: Opened):
    bounds = {"bytes_a_call": 200_000, "requests_a_call": 2, "bytes_a_day": 200_000, "requests_a_day": 2}
    for limits in ({name: value} for name, value in bounds.items()):
        gateway = make(**limits)
        call = opened(gateway, server.url("/ok/x.tif"), who=f"local:{limits}")
        for start in range(0, 3_000_000, 500_000):
            call.read((start, 10))
        assert call.reading.failure is not None, limits
        assert call.reading.record()[0].bytes <= 200_000, limits
        call.reading.close()
        if "bytes_a_day" in limits or "requests_a_day" in limits:
            with pytest.raises(ToolError):  # it is on disk, so a new gateway knows it too
                opened(make(**limits), server.url("/ok/x.tif"), who=f"local:{limits}").read((0, 3_000_000))
        opened(make(**limits), server.url("/ok/x.tif"), who=f"local:not {limits}").reading.close()


@pytest.mark.claim("remote.bounded")
def test_a_call_that_ends_leaves_no_request_behind(server: Origin, make: Make, opened: Opened):
    server.files["big"] = DATA
    call = opened(make(), server.url("/ok/big"))
    server.special["/ok/big"] = lambda handler: handler.mode_stalling(DATA)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(call.read((1_000_000, 10))))
    asking.start()
    until(lambda: len(server.asked) == 2, 20)
    call.reading.close()
    asking.join(20)
    assert not asking.is_alive()
    assert answers[0].status is Status.EIO


@pytest.mark.claim("remote.bounded")
def test_slow_reads_of_one_principal_leave_room(server: Origin, make: Make, opened: Opened):
    """Nine calls of one principal would have more simultaneous requests than the server makes in total."""

    def stalling(handler: Handler) -> None:
        (handler.mode_ok if handler.range(1)[0] == 0 else handler.mode_stalling)(DATA)

    server.special["/ok/slow"] = stalling
    gateway, most = make(), 32
    calls = [opened(gateway, server.url("/ok/slow"), who="local:eve", seconds=60) for _ in range(9)]
    far = [((number + 1) * 5 * BLOCK, 10) for number in range(8)]
    reads = [threading.Thread(target=call.read, args=far, daemon=True) for call in calls]
    for thread in reads:
        thread.start()

    def stalled() -> int:
        return sum("bytes=0-" not in request.headers.get("range", "") for request in server.asked)

    until(lambda: stalled() >= most)
    for who in ("local:ann", "local:bob", "local:cid"):
        assert opened(gateway, server.url("/ok/x.tif"), who=who).read((0, 100)).body == DATA[:100]
    eve = [
        request
        for request in server.asked
        if request.path == "/ok/slow" and "bytes=0-" not in request.headers["range"]
    ]
    assert len(eve) == most
    for call in calls:
        call.reading.close()
    for thread in reads:
        thread.join(30)
