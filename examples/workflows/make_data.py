"""Writes the small data sets that the workflows of this folder work on: `python make_data.py FOLDER`.

Only the standard library is needed. Rasters are ESRI ASCII grids with a .prj file, vectors GeoJSON or CSV. All coordinates are in
UTM zone 33N (EPSG:32633) unless the name of a file says otherwise. The same bytes are written each time.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

WEST, NORTH, CELL, SIDE = 500_000, 5_200_960, 30, 32  # metres; rows and columns
NODATA = -9999
Cell = Callable[[int, int], float]


def utm(zone: int) -> str:
    """The WKT of UTM on WGS 84, northern hemisphere."""
    return (
        f'PROJCS["WGS 84 / UTM zone {zone}N",GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],'
        'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],'
        f'PARAMETER["latitude_of_origin",0],PARAMETER["central_meridian",{zone * 6 - 183}],PARAMETER["scale_factor",0.9996],'
        'PARAMETER["false_easting",500000],PARAMETER["false_northing",0],UNIT["metre",1],'
        f'AUTHORITY["EPSG","{32600 + zone}"]]'
    )


def write_grid(path: Path, cell: Cell, *, zone: int = 33, west: float = WEST, digits: int = 0) -> None:
    """A raster of SIDE x SIDE cells; `cell` takes row and column."""
    head = f"ncols {SIDE}\nnrows {SIDE}\nxllcorner {west}\nyllcorner {NORTH - SIDE * CELL}\ncellsize {CELL}\nNODATA_value {NODATA}\n"
    rows = (" ".join(f"{cell(row, column):.{digits}f}" for column in range(SIDE)) for row in range(SIDE))
    path.write_text(head + "\n".join(rows) + "\n", encoding="ascii")
    path.with_suffix(".prj").write_text(utm(zone), encoding="ascii")


def box(column: float, row: float, width: float, height: float) -> list[list[list[float]]]:
    """A polygon in cells from the upper left corner of the grid, as coordinates in metres."""
    x0, y0 = WEST + column * CELL, NORTH - row * CELL
    x1, y1 = x0 + width * CELL, y0 - height * CELL
    return [[[x0, y0], [x0, y1], [x1, y1], [x1, y0], [x0, y0]]]


def write_features(
    path: Path, kind: str, rows: Iterable[tuple[dict[str, object], Sequence[object]]], epsg: int = 32633
) -> None:
    features = [
        {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}
        for properties, coordinates in rows
    ]
    crs = {"type": "name", "properties": {"name": f"urn:ogc:def:crs:EPSG::{epsg}"}}
    path.write_text(
        json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}), encoding="ascii"
    )


def height(row: int, column: int) -> float:
    """A valley that runs from north to south, between 300 and about 420 metres."""
    return 300 + 0.5 * (column - 16) ** 2 + 2 * math.sin(row / 3)


def write_terrain(folder: Path) -> None:
    write_grid(folder / "dem.asc", height, digits=2)
    write_features(
        folder / "parcels.geojson",
        "Polygon",
        (
            (
                {"parcel": f"P{n}", "district": "west" if n % 4 < 2 else "east"},
                box(n % 4 * 8, n // 4 * 8, 8, 8),
            )
            for n in range(16)
        ),
    )
    districts = (({"district": name}, box(column, 0, 16, 32)) for name, column in (("west", 0), ("east", 16)))
    write_features(folder / "districts.geojson", "Polygon", districts)


def write_scenes(folder: Path) -> None:
    """Two scenes of scaled reflectances, in which the north-east turns from forest to bare ground; clouds are 1."""
    for year, is_cleared in (("2023", False), ("2024", True)):
        bare = lambda row, column, cleared=is_cleared: cleared and row < 10 and column > 20  # noqa: E731
        write_grid(folder / f"red_{year}.asc", lambda r, c, bare=bare: 1800 if bare(r, c) else 400)
        write_grid(folder / f"nir_{year}.asc", lambda r, c, bare=bare: 2200 if bare(r, c) else 3600)
        corner = 4 if is_cleared else 2
        write_grid(
            folder / f"cloud_{year}.asc", lambda r, c, corner=corner: float(r >= SIDE - corner and c < corner)
        )


def write_cadastre(folder: Path) -> None:
    """Six plots: one twice, one that crosses itself, two that overlap by one cell."""
    bow = [
        [[WEST, NORTH], [WEST + 120, NORTH - 120], [WEST + 120, NORTH], [WEST, NORTH - 120], [WEST, NORTH]]
    ]
    plots = [bow, box(4, 0, 4, 4), box(8, 0, 4, 4), box(8, 0, 4, 4), box(12, 0, 5, 4), box(16, 0, 4, 4)]
    write_features(
        folder / "cadastre.geojson", "Polygon", (({"plot": n}, plot) for n, plot in enumerate(plots))
    )


def write_clinics(folder: Path) -> None:
    places = ((5, 5), (26, 8))
    write_features(
        folder / "clinics.geojson",
        "Point",
        (({"clinic": n}, [WEST + c * CELL, NORTH - r * CELL]) for n, (c, r) in enumerate(places)),
    )
    write_grid(folder / "population.asc", lambda _row, column: 10 if column < 16 else 4)


def write_tiles(folder: Path) -> None:
    """Two tiles that meet on the 12th degree of longitude, where zone 32 ends."""
    write_grid(folder / "tile_zone33.asc", lambda row, _column: 200 + row, west=271_000)
    write_grid(folder / "tile_zone32.asc", lambda row, _column: 100 + row, zone=32, west=728_000)


def write_addresses(folder: Path) -> None:
    """Longitude, latitude and euros, in both districts; one address has no place."""
    rows = [
        "name,lon,lat,amount",
        *(f"A{n},{15.001 + n % 2 * 0.0075:.4f},{46.9605 - n * 0.0005:.4f},{(n + 1) * 10}" for n in range(10)),
        "B,,,5",
    ]
    (folder / "addresses.csv").write_text("\n".join(rows) + "\n", encoding="ascii")


def write_land_cover(folder: Path) -> None:
    """Classes: 1 water, 2 forest, 3 town."""
    write_grid(
        folder / "land_cover.asc", lambda row, column: 1 if 14 <= column <= 17 else 2 if row < 20 else 3
    )


def write_imagery(folder: Path) -> None:
    write_grid(folder / "imagery.asc", lambda row, column: 40 + (row * 7 + column * 11) % 180)
    write_features(
        folder / "labels.geojson",
        "Polygon",
        (({"class": "roof"}, box(c, r, 3, 3)) for c, r in ((4, 4), (12, 18), (24, 9))),
    )


def write_all(folder: Path) -> None:
    for write in (
        write_terrain,
        write_scenes,
        write_cadastre,
        write_clinics,
        write_tiles,
        write_addresses,
        write_land_cover,
        write_imagery,
    ):
        write(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    write_all(Path(sys.argv[1]))
