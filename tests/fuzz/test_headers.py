"""Files that lie about themselves: a header is read or is none, by a few small reads and little memory, whatever the bytes."""

import os
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.headers import _SIGNATURES, read_header
from gdal_mcp.gdal.preflight.headers.window import MAX_BYTES, MAX_READS, MAX_SIDE
from sandbox.workspace import Workspace, Workspaces
from tests.fuzz.kit import tries
from tests.quick import quick

pytestmark = pytest.mark.claim("content.host-reads-headers")
MEMORY = 4 << 20  # bytes; what is read is 64 KiB, and numbers of Python take some times that

NUMBERS = st.sampled_from(
    (0, 1, 2, 3, 8, 16, 255, 256, 512, 1024, 4326, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1)
) | st.integers(0, 2**32 - 1)
TAGS = st.sampled_from(
    (256, 257, 258, 259, 277, 278, 322, 323, 339, 33550, 33922, 34264, 34735, 42113, 0, 65535)
)
KINDS = st.sampled_from((1, 2, 3, 4, 12, 16, 0, 5, 13, 65535))


@dataclass
class Files:
    """One file after another, under the same name, with what may lie beside it."""

    root: Path
    reads: list[int] = field(default_factory=list)

    def header(self, data: bytes, beside: dict[str, bytes]) -> Header | None:
        for one in self.root.iterdir():
            one.unlink()
        for name, text in {"a.shp": data, **beside}.items():
            (self.root / name).write_bytes(text)
        located = Workspaces((Workspace.at(self.root, writable=False),)).input("a.shp")
        self.reads.clear()
        tracemalloc.start()
        try:
            with quick():
                found = read_header(located)
            assert tracemalloc.get_traced_memory()[1] < MEMORY
        finally:
            tracemalloc.stop()
        files = 1 + len(beside)
        assert sum(self.reads) <= MAX_BYTES * files
        assert len(self.reads) <= MAX_READS * files
        return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    made = Files(tmp_path_factory.mktemp("headers"))
    whole = os.pread

    def counted(file: int, length: int, offset: int) -> bytes:
        made.reads.append(length)
        return whole(file, length, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", counted)
        yield made


def check(header: Header | None, size: int) -> None:
    """What later reckoning relies on: whole numbers of a possible size, and no number that is none."""
    if header is None:
        return
    assert header.disk_bytes == size
    if header.kind == "raster":
        assert 1 <= header.width <= MAX_SIDE
        assert 1 <= header.height <= MAX_SIDE
        assert 1 <= header.bands <= 65_535
        assert header.block is None or min(header.block) > 0
    assert header.extent is None or (
        header.extent[0] <= header.extent[2] and header.extent[1] <= header.extent[3]
    )
    assert header.pixel_size is None or min(header.pixel_size) > 0
    assert header.raw_bytes >= 0
    assert header.features is None or 0 <= header.features <= 2**32


@st.composite
def tiffs(draw: st.DrawFn) -> bytes:
    """A TIFF or BigTIFF with tags of any kind, number and place; what they point to may be anything or nowhere."""
    order, big = draw(st.sampled_from("<>")), draw(st.booleans())
    layout = f"{order}HH{'QQ' if big else 'II'}"
    rows = draw(st.lists(st.tuples(TAGS, KINDS, NUMBERS, NUMBERS), max_size=12))
    good = [(256, 3, 1, 64), (257, 3, 1, 32)]
    start = 16 if draw(st.integers(0, 9)) != 9 else draw(NUMBERS)
    mark = b"II" if order == "<" else b"MM"
    head = struct.pack(f"{order}HHHQ", 43, 8, 0, start) if big else struct.pack(f"{order}HI", 42, start)
    count = len(rows) + 2 if draw(st.integers(0, 9)) != 9 else draw(st.integers(0, 65535))
    packed = b"".join(struct.pack(layout, *row) for row in (*good, *rows))
    table = struct.pack(order + ("Q" if big else "H"), count) + packed
    return (mark + head).ljust(16, b"\0") + table + draw(st.binary(max_size=120))


@st.composite
def jpegs(draw: st.DrawFn) -> bytes:
    """Segments of any kind and length, and perhaps a frame."""
    segment = st.builds(
        lambda marker, length, data: b"\xff" + bytes([marker]) + struct.pack(">H", length) + data,
        st.integers(0, 255), st.sampled_from((0, 1, 2, 3, 10, 65535)), st.binary(max_size=12),
    )  # fmt: skip
    fill = st.just(b"\xff") | st.just(b"\xff" * 70) | st.just(b"\xff\xd0" * 70)
    frame = st.builds(
        lambda h, w, n: b"\xff\xc0" + struct.pack(">HBHHB", 17, 8, h, w, n),
        st.integers(0, 65535),
        st.integers(0, 65535),
        st.sampled_from((3, 1, 4, 0, 255)),
    )
    parts = draw(st.lists(segment | fill, max_size=8)) if draw(st.booleans()) else []
    return b"\xff\xd8\xff\xe0\0\4ab" + b"".join(parts) + draw(frame)


PNGS = st.builds(
    lambda w, h, depth, color, rest: b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">IIBB", w, h, depth, color) + rest,
    NUMBERS, NUMBERS, st.sampled_from((8, 16, 1, 17)), st.sampled_from((0, 2, 3, 6, 5)), st.binary(max_size=20),
)  # fmt: skip
DOUBLES = st.floats(width=64)
SHAPES = st.builds(
    lambda version, shape, corners, rest: b"\0\0\x27\x0a" + bytes(24) + struct.pack("<II4d", version, shape, *corners) + bytes(32) + rest,
    st.sampled_from((1000, 0)), NUMBERS, st.tuples(DOUBLES, DOUBLES, DOUBLES, DOUBLES), st.binary(max_size=20),
)  # fmt: skip
TABLES = st.builds(
    lambda rows, start, width, rest: struct.pack("<IIHH", 3, rows, start, width) + rest,
    NUMBERS,
    st.integers(0, 65535),
    st.integers(0, 65535),
    st.binary(max_size=300),
)
PROJECTIONS = st.sampled_from(
    (
        b'PROJCS["x",AUTHORITY["EPSG","32633"]]',
        b'GEOGCS["' + b"(" * 5000,
        b'AUTHORITY["EPSG","' * 300,
        b"\xff",
        b"]" * 4096,
    )
)
RANDOM = st.builds(
    lambda sign, rest: sign + rest, st.sampled_from(sorted(_SIGNATURES)), st.binary(max_size=300)
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """One of the above with some bytes changed, or cut short."""
    whole = bytearray(draw(tiffs() | tiffs() | jpegs() | PNGS | SHAPES | RANDOM))
    for _ in range(draw(st.integers(0, 4))):
        whole[draw(st.integers(4, max(4, len(whole) - 1))) % len(whole)] = draw(
            st.sampled_from((0, 1, 127, 128, 255))
        )
    return bytes(whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 4)) == 4 else whole)


@tries(80)
@given(
    damaged(),
    st.fixed_dictionaries(
        {}, optional={"a.dbf": TABLES | RANDOM, "a.prj": PROJECTIONS | st.binary(max_size=60)}
    ),
)
def test_any_file_has_a_possible_header_or_none(files: Files, data: bytes, beside: dict[str, bytes]):
    check(files.header(data, beside), len(data))


@pytest.mark.parametrize(
    ("maker", "driver"), [(tiffs(), "GTiff"), (jpegs(), "JPEG"), (PNGS, "PNG"), (SHAPES, "ESRI Shapefile")]
)
def test_the_makers_make_files_that_are_read(files: Files, maker: st.SearchStrategy[bytes], driver: str):
    """Else the property would hold of nothing."""
    found: list[Any] = []

    @tries(40, derandomize=True)
    @given(maker)
    def look(data: bytes) -> None:
        header = files.header(data, {})
        found.append(header.driver if header else None)

    look()
    assert driver in found
