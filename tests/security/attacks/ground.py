"""The folder tree that attacks run in: a workspace full of traps, and a folder outside it that contains the bait."""

import gzip
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.mcp.attack_files import lay_all
from tests.e2e.mcp.hostile_files import CANARY, OGR_VRT
from tests.e2e.mcp.talk import Place
from tests.oracle.container import Oracle
from tests.security.attacks import traps_raster, traps_vector
from tests.security.attacks.binary import PROGRAM, databases, tiffs
from tests.security.attacks.listener import Listener, addresses
from tests.security.attacks.native import library

OVERVIEW = (
    "<PAMDataset><Metadata domain='OVERVIEWS'><MDI key='OVERVIEW_FILE'>{}</MDI></Metadata></PAMDataset>"
)
BAIT = (CANARY * 20)[:400]  # as many bytes as the pixels of the small rasters


@dataclass(frozen=True)
class Ground:
    """The places of the traps and of the files that they name."""

    place: Place
    outside: Path

    def text(self, template: str, url: str = "", host: str = "", port: int = 0) -> str:
        """A trap's text with the paths and names of this folder tree."""
        marks = {"OUT": self.outside, "WS": self.place.workspace, "URL": url, "HOST": host, "PORT": port}
        for mark, value in marks.items():
            template = template.replace(f"@{mark}@", str(value))
        return template


def lay_ground(place: Place, oracle: Oracle, data: Path) -> Ground:
    """Creates all files that name other files, and the files that they name."""
    ground = Ground(place, lay_all(place, oracle, data))
    _bait(ground.outside)
    for name, text in {**traps_raster.FILES, **traps_vector.FILES}.items():
        place.path(name).write_text(ground.text(text))
    for name, entries in traps_vector.WORKBOOKS.items():
        _workbook(place.path(name), {entry: ground.text(text) for entry, text in entries.items()})
    _write_gdal_files(ground, oracle)
    databases(place.workspace, ground.outside, data / "zones.gpkg")
    tiffs(place.workspace)
    _libraries(ground)
    _folders(ground)
    return ground


def lay_network(ground: Ground, listener: Listener) -> list[str]:
    """Creates all files that name an address and returns their names; the addresses of this host are divided among
    them.
    """
    hosts = addresses()
    for number, (name, text) in enumerate({**traps_raster.URLS, **traps_vector.URLS}.items()):
        host = hosts[number % len(hosts)]
        url = listener.url(host, trap(name))
        ground.place.path(name).write_text(ground.text(text, url, host, listener.port))
    for host in hosts:  # the simplest of them, once for each address
        name = f"net-at-{host.replace('.', '-').replace(':', 'c')}.vrt"
        url = listener.url(host, trap(name))
        ground.place.path(name).write_text(ground.text(traps_raster.URLS["net-vrt.vrt"], url))
    return sorted(path.name for path in ground.place.workspace.glob("net*"))


def trap(name: str) -> str:
    """The name by which the requests of a file are recognised."""
    return name.replace(".", "-")


def _bait(outside: Path) -> None:
    tif = (outside / "secret.tif").read_bytes()
    for name, content in {
        "secret.bin": BAIT,
        "secret.gsb": BAIT,
        "secret.tif.gz": gzip.compress(tif),
        "secret.kml": f"<kml><Document><Placemark><name>{CANARY.decode()}</name></Placemark></Document></kml>".encode(),
        "secret.gml": b"<x>" + CANARY + b"</x>",
    }.items():
        (outside / name).write_bytes(content)
    with zipfile.ZipFile(outside / "secret.zip", "w") as archive:
        archive.writestr("secret.tif", tif)


def _workbook(path: Path, entries: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            archive.writestr(name, text)


def _write_gdal_files(ground: Ground, oracle: Oracle) -> None:
    """Creates files in formats that GDAL and HDF5 write better than these tests could."""
    trap_folder = oracle.folder("binary-traps")
    oracle.python(PROGRAM, str(trap_folder), str(ground.outside), CANARY.decode())
    for path in trap_folder.iterdir():
        folder = ground.outside if path.name.startswith("secret") else ground.place.workspace
        (folder / path.name).write_bytes(path.read_bytes())
    honest = ground.place.path("ok.tif").read_bytes()
    for name, text in {
        "aux-abs.tif.aux.xml": OVERVIEW.format("@OUT@/secret-small.tif"),
        "aux-up.tif.aux.xml": OVERVIEW.format(":::BASE:::/../outside/secret-small.tif"),
        "beside-ovr.tif.ovr": traps_raster.FILES["as-tif.tif"],
        "beside-msk.tif.msk": traps_raster.FILES["as-tif.tif"],
    }.items():
        ground.place.path(name).write_text(ground.text(text))
        ground.place.path(name.partition(".tif")[0] + ".tif").write_bytes(honest)


def _libraries(ground: Ground) -> None:
    ground.place.path("canary.so").write_bytes(library())
    ground.place.path("canary.so").chmod(0o755)
    texts = {name: OGR_VRT.format(layer="x", name=source) for name, source in LIBRARIES.items()}
    options = "<OpenOptions><OOI key='ADBC_DRIVER'>@WS@/canary.so</OOI></OpenOptions><SrcDataSource>"
    texts["so-adbc.vrt"] = OGR_VRT.format(layer="x", name="ADBC:x").replace("<SrcDataSource>", options)
    for name, text in texts.items():
        ground.place.path(name).write_text(ground.text(text))


LIBRARIES = {
    "so-odbc.vrt": "ODBC:DRIVER=@WS@/canary.so;",
    "so-odbc.geojson": "ODBC:DRIVER=@WS@/canary.so;",
    "so-odbc.tif": "ODBC:DRIVER=@WS@/canary.so;DBQ=x",
    "so-mssql.vrt": "MSSQL:DRIVER=@WS@/canary.so;",
    "so-mssql.gml": "MSSQL:server=x;DRIVER=@WS@/canary.so;",
    "so-pgeo.vrt": "PGEO:DRIVER=@WS@/canary.so;",
    "so-sqlite.vrt": "SQLITE:@WS@/loads.sqlite",
}

ARRAY = {"dtype": "|u1", "compressor": None, "fill_value": 0, "order": "C", "filters": None, "zarr_format": 2}


def _folders(ground: Ground) -> None:
    """Creates datasets that are folders with links in them; the folders themselves are harmless."""
    zarr = ground.place.path("linked.zarr")
    (zarr / "a").mkdir(parents=True)
    (zarr / ".zgroup").write_text('{"zarr_format":2}')
    (zarr / "a" / ".zarray").write_text(json.dumps({**ARRAY, "shape": [20, 20], "chunks": [20, 20]}))
    (zarr / "a" / "0.0").symlink_to(ground.outside / "secret.bin")
    table = ground.place.path("linked-table")
    table.mkdir()
    (table / "secret.csv").symlink_to(ground.outside / "secret.csv")
    (table / "plain.csv").write_text("id,name\n1,a\n")
    os.link(ground.outside / "secret.txt", ground.outside / "linked.txt")
