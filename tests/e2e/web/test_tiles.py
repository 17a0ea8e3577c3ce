"""Map tiles of outputs: the correct pixels at the correct place, only for users who may read the file."""

import base64
import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdal_mcp.policy.identity import ADMIN, READ
from gdal_mcp.policy.tokens import TokenStore
from tests.e2e.mcp.talk import Place
from tests.e2e.web.files_kit import Sender, undo
from tests.e2e.web.hosted import Hosted, hosting
from tests.integration.worker_kit import PIXELS
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine
ZOOM, X, Y = 5, 16, 10
TILE = 40075016.685578488 / (1 << ZOOM)  # metres
NORTH = 20037508.342789244 - Y * TILE
QUADRANTS = ((0, 100), (200, 255))


@pytest.fixture(scope="module")
def stranger(http_server: Hosted, bob: str) -> Iterator[Sender]:
    with Sender(http_server, bob) as sender:
        yield sender


def grid(folder: Path, name: str, turned: bool = False) -> str:
    """An ASCII grid that covers exactly one tile, each quadrant with one value."""
    rows = [[QUADRANTS[(y // 128) ^ turned][x // 128] for x in range(256)] for y in range(256)]
    head = f"ncols 256\nnrows 256\nxllcorner 0\nyllcorner {NORTH - TILE!r}\ncellsize {TILE / 256!r}\n"
    (folder / name).write_text(head + "\n".join(" ".join(map(str, row)) for row in rows))
    return name


def published(sender: Sender, source: str, output: str, kind: str = "UInt8") -> str:
    """The address of a new raster's tiles."""
    steps = f"read {source} ! edit --crs EPSG:3857 ! set-type --output-data-type {kind} ! write {output} --overwrite"
    with sender.hosted.talking(sender.token) as talk:
        done = talk.done("pipeline", steps=steps)
    return f"/tiles/{done['receipt']['call_id']}/{output}"


@pytest.fixture(scope="module")
def quarters(sender: Sender) -> str:
    return published(sender, grid(sender.hosted.place.workspace, "quarters.asc"), "quarters.tif")


def pixels(oracle: Oracle, data: bytes) -> tuple[int, int, list[bytes]]:
    path = oracle.folder("tiles") / "tile.png"
    path.write_bytes(data)
    [[width, height, bands]] = json.loads(oracle.python(PIXELS, str(path)))
    return width, height, list(map(base64.b64decode, bands))


@pytest.mark.parametrize("kind", ["UInt8", "Float32"])
def test_a_tile_shows_each_value_where_it_is(sender: Sender, oracle: Oracle, kind: str) -> None:
    source = grid(sender.hosted.place.workspace, f"placed_{kind}.asc")
    tiles = published(sender, source, f"placed_{kind}.tif", kind)
    reply = sender.ask("GET", f"{tiles}/{ZOOM}/{X}/{Y}.png")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "image/png")
    width, height, (gray, alpha) = pixels(oracle, reply.content)
    assert (width, height) == (256, 256)
    assert set(alpha) == {255}
    values = [[gray[y * 256 + x] for x in (60, 190)] for y in (60, 190)]
    assert values == [list(row) for row in QUADRANTS]


def test_a_coarser_tile_is_transparent_beyond_the_raster(
    sender: Sender, oracle: Oracle, quarters: str
) -> None:
    reply = sender.ask("GET", f"{quarters}/{ZOOM - 1}/{X // 2}/{Y // 2}.png")
    _, _, bands = pixels(oracle, reply.content)
    alpha = [[bands[-1][y * 256 + x] for x in (60, 190)] for y in (60, 190)]
    assert alpha == [[255, 0], [0, 0]]


def test_tile_outside_the_raster_is_empty_and_undrawn(sender: Sender, quarters: str) -> None:
    before = len(sender.hosted.place.audited)
    for place in (f"{ZOOM}/{X + 1}/{Y}", f"{ZOOM}/{X}/{Y - 1}", "24/0/0"):
        reply = sender.ask("GET", f"{quarters}/{place}.png")
        assert (reply.status_code, reply.content) == (204, b"")
    assert len(sender.hosted.place.audited) == before


def test_tile_is_drawn_once_and_revalidated_by_tag(sender: Sender, quarters: str) -> None:
    first = sender.ask("GET", f"{quarters}/{ZOOM}/{X}/{Y}.png")
    before = len(sender.hosted.place.audited)
    again = sender.ask("GET", f"{quarters}/{ZOOM}/{X}/{Y}.png")
    assert again.content == first.content
    same = sender.ask(
        "GET", f"{quarters}/{ZOOM}/{X}/{Y}.png", headers={"If-None-Match": first.headers["etag"]}
    )
    assert (same.status_code, same.content) == (304, b"")
    assert "private" in first.headers["cache-control"]
    assert len(sender.hosted.place.audited) == before


def test_the_document_names_the_tiles_and_their_bounds(sender: Sender, quarters: str) -> None:
    document = sender.ask("GET", quarters).json()
    assert document["tilejson"] == "3.0.0"
    assert document["bounds"] == pytest.approx([0, 48.92, 11.25, 55.78], abs=0.01)
    assert document["maxzoom"] == ZOOM
    [template] = document["tiles"]
    address = template.format(z=ZOOM, x=X, y=Y).removeprefix(sender.hosted.base)
    assert sender.ask("GET", address).status_code == 200


@pytest.mark.claim("http.tiles")
def test_nobody_gets_tiles_of_another_ones_file(sender: Sender, stranger: Sender, quarters: str) -> None:
    call = quarters.split("/")[2]
    assert (
        sender.ask("GET", f"{quarters}/{ZOOM}/{X}/{Y}.png").status_code == 200
    )  # so that it is in the cache
    for path in (quarters, f"{quarters}/{ZOOM}/{X}/{Y}.png"):
        refused = stranger.ask("GET", path)
        absent = stranger.ask("GET", path.replace(call, "0123456789abcdef"))
        assert (refused.status_code, refused.content) == (404, absent.content)
        with Sender(sender.hosted) as anybody:
            assert anybody.ask("GET", path).status_code == 401
    with Sender(sender.hosted, sender.hosted.token("tiles-admin", READ, ADMIN)) as admin:
        assert admin.ask("GET", f"{quarters}/{ZOOM}/{X}/{Y}.png").status_code == 200


@pytest.mark.claim("http.tiles")
def test_revoked_token_gets_no_tile_of_its_file(sender: Sender) -> None:
    hosted = sender.hosted
    with Sender(hosted, hosted.token("tiles-leaver")) as leaver:
        tiles = published(leaver, grid(hosted.place.workspace, "leaver.asc"), "leaver.tif")
        assert leaver.ask("GET", f"{tiles}/{ZOOM}/{X}/{Y}.png").status_code == 200
        TokenStore(hosted.place.state / "tokens.sqlite").revoke("tiles-leaver")
        assert leaver.ask("GET", f"{tiles}/{ZOOM}/{X}/{Y}.png").status_code == 401


@pytest.mark.claim("http.tiles")
def test_replaced_changed_or_undone_output_hides_old_tiles(sender: Sender) -> None:
    place = sender.hosted.place
    tile = f"{ZOOM}/{X}/{Y}.png"
    first = published(sender, grid(place.workspace, "old.asc"), "turned.tif")
    old = sender.ask("GET", f"{first}/{tile}")
    second = published(sender, grid(place.workspace, "new.asc", turned=True), "turned.tif")
    assert sender.ask("GET", f"{first}/{tile}").status_code == 410
    new = sender.ask("GET", f"{second}/{tile}")
    assert (old.status_code, new.status_code) == (200, 200)
    assert new.content != old.content
    path = place.path("turned.tif")
    path.write_bytes(path.read_bytes() + b"x")
    assert sender.ask("GET", f"{second}/{tile}").status_code == 410
    third = published(sender, "old.asc", "turned.tif")
    assert sender.ask("GET", f"{third}/{tile}").status_code == 200
    undo(place, third)
    assert sender.ask("GET", f"{third}/{tile}").status_code == 410


@pytest.mark.claim("http.tiles")
def test_link_in_place_of_output_is_not_drawn(sender: Sender) -> None:
    place = sender.hosted.place
    tiles = published(sender, grid(place.workspace, "linked.asc"), "linked.tif")
    path = place.path("linked.tif")
    outside = place.workspace.parent / "outside.tif"
    path.rename(outside)
    path.symlink_to(outside)
    assert sender.ask("GET", f"{tiles}/{ZOOM}/{X}/{Y}.png").status_code in (404, 410)


def test_what_is_no_tile_is_not_found(sender: Sender, quarters: str) -> None:
    places = (
        "25/0/0",
        "0/1/0",
        "5/32/0",
        "5/-1/0",
        "05/1/1",
        "5/1e1/0",
        f"5/{'9' * 5000}/0",
        "५/0/0",
        "1.5/0/0",
    )
    for place in places:
        assert sender.ask("GET", f"{quarters}/{place}.png").status_code == 404, place
    raw = (
        f"{quarters}/5/..%2f..%2f/1.png",
        "/tiles/../../etc/passwd/0/0/0.png",
        "/tiles/%2e%2e/x.tif/0/0/0.png",
    )
    for path in raw:
        connection = http.client.HTTPConnection(sender.hosted.host, timeout=30)
        connection.request("GET", path, headers={"Authorization": f"Bearer {sender.token}"})
        assert connection.getresponse().status == 404, path
        connection.close()


def test_vectors_and_ungeoreferenced_rasters_have_no_tiles(sender: Sender) -> None:
    with sender.hosted.talking(sender.token) as talk:
        done = talk.done("convert", input="zones.gpkg", output="tiles_zones.gpkg")
    path = f"/tiles/{done['receipt']['call_id']}/tiles_zones.gpkg"
    assert [sender.ask("GET", address).status_code for address in (path, f"{path}/0/0/0.png")] == [404, 404]


@pytest.mark.claim("http.tiles-bounded")
def test_flood_of_tiles_is_refused_while_server_answers(sender: Sender, stranger: Sender) -> None:
    source = grid(sender.hosted.place.workspace, "flood.asc")
    tiles = published(sender, source, "flood.tif")
    first = (X << 10, Y << 10)
    wanted = [f"{tiles}/{ZOOM + 10}/{first[0] + 2 * n}/{first[1]}.png" for n in range(200)]

    def ask(path: str) -> int:
        with Sender(sender.hosted, sender.token) as client:
            return client.ask("GET", path).status_code

    with ThreadPoolExecutor(60) as many:
        flood = [many.submit(ask, path) for path in wanted]
        with stranger.hosted.talking(stranger.token) as talk:
            assert talk.done("info", path="dem.tif")
        statuses = [future.result() for future in flood]
    assert set(statuses) == {200, 429}


@pytest.mark.claim("http.tiles")
@pytest.mark.parametrize("decision", ["require", "deny", "lockdown"])
def test_server_without_unasked_pictures_serves_no_tile(make_place, grounds: Path, decision: str) -> None:
    place: Place = make_place()
    policy = grounds / f"tiles-{decision}.toml"
    policy.write_text(f'[[rule]]\ntools = ["preview"]\ndecision = "{decision}"\n')
    how = ("--lockdown",) if decision == "lockdown" else ("--policy", str(policy))
    options = ("--approval", "never", "--tiles", *how)
    with (
        hosting(place, grounds / f"tiles-{decision}.log", *options) as hosted,
        Sender(hosted, hosted.token("ann")) as ann,
    ):
        tiles = published(ann, grid(place.workspace, "asked.asc"), "asked.tif")
        assert ann.ask("GET", f"{tiles}/{ZOOM}/{X}/{Y}.png").status_code == 403


def test_tiles_are_served_only_when_enabled(make_place, grounds: Path) -> None:
    place: Place = make_place()
    with (
        hosting(place, grounds / "no-tiles.log", "--approval", "never") as hosted,
        Sender(hosted, hosted.token("ann")) as ann,
    ):
        tiles = published(ann, grid(place.workspace, "none.asc"), "none.tif")
        assert ann.ask("GET", f"{tiles}/{ZOOM}/{X}/{Y}.png").status_code == 404
