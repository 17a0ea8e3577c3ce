"""The files that attacks use: hostile files, and archives, links and datasets that refer to others."""

import io
import re
import tarfile
import zipfile
from pathlib import Path

from tests.e2e.mcp.hostile_files import CANARY, SOURCE, VRT, Ground, endless_view, lay
from tests.e2e.mcp.talk import Place
from tests.oracle.container import Oracle

EARLY = frozenset({"lookup", "validate", "resolve", "policy"})  # stages before anything runs
TYPED = frozenset(
    {"INVALID_ARGUMENT", "PATH_NOT_ALLOWED", "NETWORK_BLOCKED", "NOT_FOUND", "DENIED", "DISK_LIMIT", "MEMORY_LIMIT", "TIMEOUT"}
)  # fmt: skip
HOST = b"root:x:0:0"  # the first line of a /etc/passwd
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ff]"
)


def lay_all(place: Place, oracle: Oracle, data: Path) -> Path:
    """Fills a workspace with valid data and traps, and returns the folder outside it."""
    outside = place.workspace.parent / "outside"
    lay(Ground(place.workspace, outside), oracle, data)
    ws = place.workspace
    for name in ("dem.tif", "rgb.tif", "float.tif", "places.geojson"):
        (ws / name).write_bytes((data / name).read_bytes())
    endless_view(ws / "endless.gpkg", data / "zones.gpkg")
    (ws / "ok.vrt").write_text(VRT.format(more="", kind="", band=SOURCE.format(relative=1, name="ok.tif")))
    (ws / "victim.csv").write_text("id,name\n1,a\n")
    (ws / "inputs.txt").write_text("../outside/secret.tif\n/etc/passwd\n")
    _links_in_folders(ws, outside)
    _archives(ws)
    return outside


def _links_in_folders(ws: Path, outside: Path) -> None:
    """Folders with links through which an operation on a whole tree could leave the workspace."""
    (outside / "victim").mkdir()
    (outside / "victim" / "keep.txt").write_bytes(CANARY)
    for folder, target in {"symdir": Path("/"), "circle": Path("..")}.items():
        (ws / folder).mkdir()
        (ws / folder / "own.txt").write_text("own")
        (ws / folder / "link").symlink_to(target)


def _archives(ws: Path) -> None:
    honest = (ws / "ok.tif").read_bytes()
    with zipfile.ZipFile(ws / "ok.zip", "w") as archive:
        archive.writestr("ok.tif", honest)
        archive.writestr("folder/in.tif", honest)
    with zipfile.ZipFile(ws / "slip.zip", "w") as archive:
        archive.writestr("../PWNED.tif", honest)
        archive.writestr("../../outside/secret.tif", honest)
        archive.writestr("/etc/PWNED.tif", honest)
    with zipfile.ZipFile(ws / "nested.zip", "w") as archive:
        archive.writestr("ok.zip", (ws / "ok.zip").read_bytes())
    with tarfile.open(ws / "links.tar", "w") as archive:
        link = tarfile.TarInfo("secret.tif")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        plain = tarfile.TarInfo("ok.tif")
        plain.size = len(honest)
        archive.addfile(plain, io.BytesIO(honest))


def everything(folder: Path) -> dict[str, bytes | str]:
    """Names, contents and targets below a folder, without following a link or waiting on a pipe."""
    contents: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            contents[str(path)] = str(path.readlink())
        elif path.is_file():
            contents[str(path)] = path.read_bytes()
        else:
            contents[str(path)] = ""
    return contents


def started_calls(place: Place) -> set[str]:
    """The calls with a command that were recorded as started, which is done before the container exists."""
    return {event["call"] for event in place.audited if event["type"] == "call.started" and "object" in event}
