"""The grid of map tiles, against the formulas of its definition and at its edges."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.records.artifacts import Fingerprint
from gdal_mcp.server.http.tile_grid import MAX_ZOOM, SIDE, Place, bounds_of, finest_zoom, places_of, touches
from gdal_mcp.server.http.tiles import TileCache, TileSource


@st.composite
def places(draw: Callable[..., int]) -> Place:
    zoom = draw(st.integers(0, MAX_ZOOM))
    column, row = (draw(st.integers(0, (1 << zoom) - 1)) for _ in range(2))
    return Place(zoom, column, row)


@given(places())
def test_tiles_lie_in_blocks_within_the_grid(place: Place) -> None:
    block = places_of(place.block)
    assert place in block
    assert len(set(block)) == len(block) <= SIDE**2
    assert all(max(tile.x, tile.y) < 1 << tile.zoom for tile in block)


@given(places(), st.floats(-170, 170), st.floats(-80, 80))
def test_exactly_the_tiles_above_a_point_touch_it(place: Place, west: float, south: float) -> None:
    box = (west, south, west + 1e-9, south + 1e-9)
    world = Place(0, 0, 0)
    assert touches(world, box)
    below = [Place(place.zoom + 1, 2 * place.x + x, 2 * place.y + y) for x in (0, 1) for y in (0, 1)]
    assert touches(place, box) == any(touches(tile, box) for tile in below)


def test_box_across_antimeridian_is_on_both_sides() -> None:
    box = (170.0, -20.0, -170.0, 20.0)
    assert [touches(Place(2, x, 1), box) for x in range(4)] == [True, False, False, True]
    assert bounds_of([box]) == (-180.0, -20.0, 180.0, 20.0)


@pytest.mark.parametrize(
    ("columns", "degrees", "zoom"),
    [(256, 360.0, 0), (512, 360.0, 1), (256, 11.25, 5), (1, 0.0, MAX_ZOOM), (1, 5e-324, MAX_ZOOM)],
)
def test_finest_zoom_matches_the_raster_pixel_size(columns: int, degrees: float, zoom: int) -> None:
    assert finest_zoom(columns, degrees) == zoom


@pytest.mark.claim("http.tiles-bounded")
def test_cache_never_exceeds_its_byte_limit() -> None:
    cache, content = TileCache(most=100_000), ("ann", 1, "0" * 64, None)
    for number in range(50):
        cache.put(content, Place(9, number, 0), bytes(9_000))
    cached = [number for number in range(50) if cache.get(content, Place(9, number, 0)) is not None]
    assert cached == list(range(41, 50))
    cache.put(content, Place(9, 49, 0), bytes(98_000))
    assert cache.get(content, Place(9, 49, 0)) == bytes(98_000)
    assert cache.get(content, Place(9, 48, 0)) is None
    assert cache.get(("bob", *content[1:]), Place(9, 49, 0)) is None


@pytest.mark.claim("http.tiles-bounded")
def test_the_memory_of_many_empty_tiles_counts() -> None:
    cache = TileCache(most=1 << 20)
    tracemalloc.start()
    for number in range(5_000):
        content = TileSource("ann", number, f"{number:064}", Fingerprint(1, number, 1, 1, 1))
        cache.put(content, Place(20, number, number), number.to_bytes(80, "big"))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 2 << 20
