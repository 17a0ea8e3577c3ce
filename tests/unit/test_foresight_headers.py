"""Headers of honest files are read; those of hostile ones cost a few reads and are nothing."""

import os
import random
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.gdal.preflight.cache import HeaderCache
from gdal_mcp.gdal.preflight.described import header_of_description
from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.headers import read_header, window
from gdal_mcp.gdal.preflight.headers.geokeys import read_keys
from sandbox.workspace import Located, Workspace, Workspaces

SHORT, LONG, DOUBLE, LONG8, ASCII = 3, 4, 12, 16, 2
SIZES = {SHORT: ("H", 2), LONG: ("I", 4), DOUBLE: ("d", 8), LONG8: ("Q", 8), ASCII: ("s", 1)}
UTM = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32611)
DEGREES = (1, 1, 0, 2, 1024, 0, 1, 2, 2048, 0, 1, 4326)
BASIC = {
    256: (SHORT, (60,)),
    257: (SHORT, (50,)),
    258: (SHORT, (16,)),
    259: (SHORT, (1,)),
    339: (SHORT, (2,)),
}


def tiff(tags: dict, order: str = "<", *, big: bool = False) -> bytes:
    """A TIFF of these tags (type and values, or type, values and a number of values that is a lie) without a picture."""
    head, count, offset, room = (16, "Q", "Q", 8) if big else (8, "H", "I", 4)
    start = head
    body_at = start + struct.calcsize(f"={count}") + len(tags) * (4 + 2 * room) + room
    entries, body = b"", b""
    for tag, (kind, values, *lie) in sorted(tags.items()):
        letter, size = SIZES[kind]
        data = values if kind == ASCII else struct.pack(f"{order}{len(values)}{letter}", *values)
        number = lie[0] if lie else len(data) // size
        entries += struct.pack(f"{order}HH{offset}", tag, kind, number)
        if len(data) <= room:
            entries += data.ljust(room, b"\0")
        else:
            entries += struct.pack(f"{order}{offset}", body_at + len(body))
            body += data
    mark = b"II" if order == "<" else b"MM"
    first = struct.pack(f"{order}HHHQ", 43, 8, 0, start) if big else struct.pack(f"{order}HI", 42, start)
    table = struct.pack(f"{order}{count}", len(tags)) + entries + b"\0" * room
    return mark + first + table + body


def located(folder: Path, data: bytes, name: str = "file.tif") -> Located:
    (folder / name).write_bytes(data)
    return Workspaces((Workspace.at(folder, writable=False),)).input(str(folder / name))


def read(folder: Path, data: bytes, name: str = "file.tif") -> Header | None:
    return read_header(located(folder, data, name))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_every_kind_of_tiff_is_read(tmp_path: Path, order: str, big: bool):
    tags = BASIC | {
        33550: (DOUBLE, (60.0, 60.0, 0.0)),
        33922: (DOUBLE, (0.0, 0.0, 0.0, 440000.0, 3751000.0, 0.0)),
        34735: (SHORT, UTM),
        42113: (ASCII, b"-999\0"),
    }
    header = read(tmp_path, tiff(tags, order, big=big))
    assert header is not None
    assert (header.width, header.height, header.bands, header.data_type) == (60, 50, 1, "Int16")
    assert header.extent == (440000.0, 3748000.0, 443600.0, 3751000.0)
    assert (header.crs, header.degrees, header.nodata) == ("EPSG:32611", False, -999.0)
    assert header.pixel_size == (60.0, 60.0)
    assert header.raw_bytes == 60 * 50 * 2


@pytest.mark.parametrize(
    ("kind", "bits", "name"),
    [
        (1, 8, "Byte"), (1, 1, "Byte"), (1, 12, "UInt16"), (1, 32, "UInt32"), (1, 64, "UInt64"), (2, 8, "Int8"),
        (2, 16, "Int16"), (3, 16, "Float16"), (3, 32, "Float32"), (3, 64, "Float64"), (5, 32, "CInt16"),
        (6, 128, "CFloat64"), (4, 8, "Byte"), (3, 7, ""),
    ],
)  # fmt: skip
def test_types_have_gdals_names(tmp_path: Path, kind: int, bits: int, name: str):
    header = read(tmp_path, tiff(BASIC | {258: (SHORT, (bits,)), 339: (SHORT, (kind,))}))
    assert header is not None
    assert header.data_type == name


def test_a_point_raster_lies_half_a_pixel_further_out(tmp_path: Path):
    keys = (*UTM[:8], 1025, 0, 1, 2, *UTM[12:])
    tags = BASIC | {33550: (DOUBLE, (10.0, 10.0, 0.0)), 33922: (DOUBLE, (0.0,) * 6), 34735: (SHORT, keys)}
    header = read(tmp_path, tiff(tags))
    assert header is not None
    assert header.extent == (-5.0, -495.0, 595.0, 5.0)


def test_a_matrix_may_turn_the_raster(tmp_path: Path):
    matrix = (0.0, 2.0, 0.0, 100.0, 3.0, 0.0, 0.0, 200.0, *(0.0,) * 8)
    header = read(tmp_path, tiff(BASIC | {34264: (DOUBLE, matrix)}))
    assert header is not None
    assert header.extent == (100.0, 200.0, 200.0, 380.0)


def test_many_tie_points_are_no_extent(tmp_path: Path):
    tags = BASIC | {33550: (DOUBLE, (1.0, 1.0, 0.0)), 33922: (DOUBLE, (0.0,) * 12)}
    header = read(tmp_path, tiff(tags))
    assert header is not None
    assert header.extent is None


def test_a_crs_that_is_spelled_out_is_one_without_a_code():
    keys = read_keys((1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32767))
    assert (keys.code, keys.has_crs, keys.degrees) == (None, True, False)
    assert read_keys(DEGREES).degrees is True
    assert read_keys((1, 1, 0, 2, 1024, 0, 1, 1, 3072, 34736, 1, 5000)).code is None  # its value is elsewhere
    assert read_keys((1, 1, 0, 3, *DEGREES[4:], 2054, 0, 1, 9105)).degrees is False  # grads


@pytest.mark.parametrize(
    "tags",
    [
        BASIC | {256: (SHORT, (0,))},
        BASIC | {256: (LONG, (0xFFFFFFFF,))},
        BASIC | {277: (LONG, (0,))},
        BASIC | {277: (LONG, (100_000,))},
        {257: (SHORT, (5,))},
        BASIC | {34735: (SHORT, UTM, 0xFFFFFFF0)},  # more values than the file has bytes
        BASIC | {33550: (DOUBLE, (1.0, 1.0, 0.0), 0xFFFFFFFF)},
    ],
)
def test_a_directory_that_cannot_be_is_no_header(tmp_path: Path, tags: dict):
    assert read(tmp_path, tiff(tags)) is None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e300])
@pytest.mark.parametrize("tag", [256, 258, 259, 277, 278, 322, 339, 34735, 42113])
def test_fractions_in_the_place_of_counts_are_not_believed(tmp_path: Path, tag: int, number: float):
    header = read(
        tmp_path, tiff(BASIC | {322: (SHORT, (16,)), 323: (SHORT, (16,)), tag: (DOUBLE, (number,) * 8)})
    )
    assert header is None or tag != 256


def test_a_directory_without_end_is_not_read(tmp_path: Path):
    many = {40_000 + tag: (SHORT, (1,)) for tag in range(600)}
    assert read(tmp_path, tiff(BASIC | many)) is None
    assert read(tmp_path, tiff(BASIC | dict(list(many.items())[:100]))) is not None


def test_a_picture_with_thousands_of_control_points_is_read(tmp_path: Path):
    points = {33922: (DOUBLE, (1.0,) * 7000), 33550: (DOUBLE, (1.0,) * 7000)}
    header = read(tmp_path, tiff(BASIC | points))
    assert header is not None
    assert (header.width, header.extent) == (60, None)


def test_a_file_of_long_lists_gets_its_share_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    amounts: list[int] = []
    honest = os.pread
    monkeypatch.setattr(
        window.os, "pread", lambda file, length, at: (amounts.append(length), honest(file, length, at))[1]
    )
    tags = dict.fromkeys((256, 257, 258, 259, 277, 278, 322, 323, 339, 34735), (LONG8, (1,) * 2000))
    assert read(tmp_path, tiff(tags, big=True)) is None
    assert sum(amounts) <= window.MAX_BYTES


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e308])
def test_coordinates_that_are_no_numbers_are_no_extent(tmp_path: Path, number: float):
    tags = BASIC | {33550: (DOUBLE, (number, 1.0, 0.0)), 33922: (DOUBLE, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))}
    header = read(tmp_path, tiff(tags))
    assert header is not None
    assert header.extent is None


@pytest.mark.claim("content.host-reads-headers")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"II*\0",
        b"II*\0\xff\xff\xff\xff",
        b"II*\0\4\0\0\0",  # the directory lies in the header
        b"II*\0\x08\0\0\0\xff\xff" + b"\0" * 70,
        b"II+\0\x08\0\0\0" + b"\xff" * 8,
        b"II+\0\x07\0\0\0\x10\0\0\0\0\0\0\0" + b"\0" * 64,
        b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0" + b"\xff" * 64,
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG" + b"\0" * 100,
        b"\xff\xd8\xff\xe0\0\0" + b"\xff" * 100,
        b"\xff\xd8\xff\xe0\0\1" + b"\0" * 100,
        b"\xff\xd8\xff\xdb" + b"\0\2\xff\xdb" * 1000,
        b"\xff\xd8" + b"\xff" * 70_000,
        b"\0\0\x27\x0a" + b"\0" * 96,
        b"SQLite format 3\0",
        b"\x89HDF\r\n\x1a\n",
        b"CDF\1",
    ],
)
def test_what_is_damaged_or_not_ours_has_no_header(tmp_path: Path, data: bytes):
    assert read(tmp_path, data) is None


@pytest.mark.claim("content.host-reads-headers")
@given(st.data())
def test_no_bytes_make_it_raise(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    tags = BASIC | {33550: (DOUBLE, (1.0, 1.0, 0.0)), 33922: (DOUBLE, (0.0,) * 6), 34735: (SHORT, UTM)}
    whole = bytearray(
        data.draw(st.sampled_from([tiff(tags), tiff(tags, ">", big=True), png(3, 4, 2), jpeg(5, 6)]))
    )
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    kept = bytes(whole[: data.draw(st.integers(4, len(whole)))])
    header = read(tmp_path_factory.mktemp("fuzz"), kept)
    assert header is None or (header.width >= 1 and header.height >= 1 and 1 <= header.bands <= 65_535)


@pytest.mark.claim("content.host-reads-headers")
@pytest.mark.parametrize("start", [b"II*\0", b"MM\0+", b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xff"])
def test_reading_is_bounded_whatever_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes
):
    noise = random.Random(7)
    amounts: list[int] = []
    honest = os.pread

    def counted(file: int, length: int, offset: int) -> bytes:
        amounts.append(length)
        return honest(file, length, offset)

    monkeypatch.setattr(window.os, "pread", counted)
    for _ in range(200):
        amounts.clear()
        read(tmp_path, start + noise.randbytes(noise.choice([20, 200, 100_000])))
        assert len(amounts) <= window.MAX_READS
        assert sum(amounts) <= window.MAX_BYTES


def png(width: int, height: int, color: int, depth: int = 8) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunk = b"IHDR" + head
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))


def jpeg(width: int, height: int, bands: int = 3, before: bytes = b"") -> bytes:
    frame = struct.pack(">BBHBHHB", 0xFF, 0xC0, 8 + 3 * bands, 8, height, width, bands)
    return b"\xff\xd8" + b"\xff\xe0\0\x10JFIF" + b"\0" * 10 + before + frame + b"\0" * 20


@pytest.mark.parametrize(
    ("color", "depth", "bands", "kind"),
    [(0, 8, 1, "Byte"), (2, 8, 3, "Byte"), (3, 4, 1, "Byte"), (4, 8, 2, "Byte"), (6, 16, 4, "UInt16")],
)
def test_png(tmp_path: Path, color: int, depth: int, bands: int, kind: str):
    header = read(tmp_path, png(300, 200, color, depth))
    assert header is not None
    assert (header.driver, header.width, header.height) == ("PNG", 300, 200)
    assert (header.bands, header.data_type) == (bands, kind)


def test_a_jpeg_is_read_behind_profiles_and_fill_bytes(tmp_path: Path):
    profile = b"\xff\xe2\xff\xfe" + b"\xff\xc0" * 32_766  # what looks like frames inside of a segment is none
    header = read(tmp_path, jpeg(640, 480, 3, profile + b"\xff\xff"))
    assert header is not None
    assert (header.width, header.height, header.bands) == (640, 480, 3)


def shapefile(
    folder: Path, *, rows: int, prj: bytes = b"", shape: int = 5, row_bytes: int | None = None
) -> Located:
    (folder / "a.dbf").write_bytes(
        struct.pack("<IIHH", 3, rows, 33, 1) + b"\0" * 21 + b" " * (rows if row_bytes is None else row_bytes)
    )
    if prj:
        (folder / "a.prj").write_bytes(prj)
    head = struct.pack(">I5II", 9994, 0, 0, 0, 0, 0, 100) + struct.pack(
        "<II4d", 1000, shape, 1.0, 2.0, 3.0, 4.0
    )
    return located(folder, head.ljust(100, b"\0") + b"\0" * 8, "a.shp")


def test_a_shapefile_is_read_with_its_companions(tmp_path: Path):
    header = read_header(shapefile(tmp_path, rows=7, prj=b'GEOGCS["x",AUTHORITY["EPSG","4326"]]\n', shape=13))
    assert header is not None
    assert (header.features, header.geometry, header.extent) == (7, "Line String Z", (1.0, 2.0, 3.0, 4.0))
    assert (header.crs, header.degrees, header.has_crs) == ("EPSG:4326", True, True)


def test_the_code_of_a_part_is_not_that_of_the_whole(tmp_path: Path):
    text = b'PROJCS["x",GEOGCS["y",AUTHORITY["EPSG","4326"]],UNIT["metre",1]]'
    header = read_header(shapefile(tmp_path, rows=1, prj=text))
    assert header is not None
    assert (header.crs, header.degrees) == (None, False)


def test_a_table_that_claims_more_rows_than_it_has_is_not_believed(tmp_path: Path):
    header = read_header(shapefile(tmp_path, rows=4_000_000_000, row_bytes=100))
    assert header is not None
    assert header.features is None
    assert header.has_crs is False


def test_a_companion_behind_a_link_is_not_read(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.prj").write_bytes(b'GEOGCS["x",AUTHORITY["EPSG","4326"]]')
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "a.prj").symlink_to(outside / "secret.prj")
    header = read_header(shapefile(inside, rows=1))
    assert header is not None
    assert header.crs is None


def test_a_pipe_or_link_in_the_files_place_is_not_read(tmp_path: Path):
    found = located(tmp_path, tiff(BASIC))
    (tmp_path / "file.tif").rename(tmp_path / "other.tif")
    (tmp_path / "file.tif").symlink_to(tmp_path / "other.tif")
    assert read_header(found) is None
    (tmp_path / "file.tif").unlink()
    os.mkfifo(tmp_path / "file.tif")
    assert read_header(found) is None


def test_a_folder_has_no_header(tmp_path: Path):
    (tmp_path / "x.gdb").mkdir()
    assert read_header(Workspaces((Workspace.at(tmp_path, writable=False),)).input("x.gdb")) is None


FACTS = {
    "driver": "netCDF",
    "size": [20, 10],
    "band_count": 2,
    "bands": [{"type": "Float32", "nodata": "nan"}],
    "crs": {"code": "EPSG:4326"},
    "extent": [0, 1, 2, 3],
}
LAYER = {
    "geometry": "Point",
    "features": 5,
    "crs": {"code": "EPSG:32611", "degrees": False},
    "extent": [0, 0, 1, 1],
}


def test_what_a_container_said_is_a_header():
    header = header_of_description(FACTS, 99)
    assert header is not None
    assert (header.driver, header.width, header.bands, header.data_type) == ("netCDF", 20, 2, "Float32")
    assert (header.crs, header.degrees, header.extent, header.disk_bytes) == (
        "EPSG:4326",
        True,
        (0, 1, 2, 3),
        99,
    )
    assert header.nodata != header.nodata


def test_layers_are_one_dataset_where_they_lie_in_one_crs():
    more = LAYER | {"features": 3, "extent": [5, 5, 6, 7]}
    header = header_of_description({"driver": "GPKG", "layers": [LAYER, more]})
    assert header is not None
    assert (header.features, header.extent, header.crs) == (8, (0, 0, 6, 7), "EPSG:32611")
    apart = header_of_description(
        {"driver": "GPKG", "layers": [LAYER, more | {"crs": {"code": "EPSG:4326"}}]}
    )
    assert apart is not None
    assert (apart.features, apart.extent, apart.crs) == (8, None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": [20, -1]},
        {"size": [20]},
        {"size": "big"},
        {"size": [True, True]},
        {"size": [2**40, 1]},
        {"driver": 7},
        {"driver": "x\n"},
    ],
)
def test_a_description_that_is_none_has_no_header(wrong: dict):
    assert header_of_description(FACTS | wrong) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"bands": "x"},
        {"bands": [5]},
        {"crs": 5},
        {"crs": {"code": ["EPSG"]}},
        {"extent": [0, 1, "nan", 3]},
        {"extent": [5, 1, 2, 3]},
        {"compression": {}},
        {"block_size": [0, 0]},
    ],
)
def test_odd_parts_of_a_description_are_left_out(odd: dict):
    header = header_of_description(FACTS | odd)
    assert header is not None
    name = next(iter(odd)).replace("bands", "data_type").replace("block_size", "block")
    assert not getattr(header, name)


def test_the_cache_keeps_what_was_asked_for_last(tmp_path: Path):
    asked: list[str] = []

    def reader(one: Located) -> Header:
        asked.append(one.name)
        return Header("GTiff", "raster")

    cache = HeaderCache(size=2, read=reader)
    a, b, c = (located(tmp_path, b"x", name) for name in "abc")
    for one in (a, b, a, c, a, b):
        assert cache.get(one) is not None
    assert asked == ["a", "b", "c", "b"]


def test_the_cache_forgets_a_file_that_was_changed(tmp_path: Path):
    cache = HeaderCache(read=lambda _one: None)
    first = located(tmp_path, b"x")
    cache.put(first, Header("netCDF", "raster"))
    assert cache.get(first) == Header("netCDF", "raster")
    assert cache.get(located(tmp_path, b"other")) is None
