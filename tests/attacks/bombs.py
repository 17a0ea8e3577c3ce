"""Small files that stand for far more than their bytes: drawings within drawings, columns that are computed."""

import contextlib
import sqlite3
from pathlib import Path

_DXF = "0\nSECTION\n2\nHEADER\n9\n$ACADVER\n1\nAC1015\n0\nENDSEC\n0\nSECTION\n2\nTABLES\n0\nENDSEC\n0\nSECTION\n2\nBLOCKS\n{blocks}0\nENDSEC\n0\nSECTION\n2\nENTITIES\n{first}0\nENDSEC\n0\nEOF\n"
# a view, as the writer of a column that is computed would compute it too
_COMPUTED = "CREATE VIEW computed AS SELECT a, printf('%.*c', 900000000, 'x') AS b FROM plain"


def lay_bombs(folder: Path) -> list[str]:
    """Puts them into a folder and tells their names; each costs its reader more than any limit of these tests."""
    texts = {"bomb-blocks.dxf": _blocks(), "bomb-bands.vrt": _bands()}
    for name, text in texts.items():
        (folder / name).write_text(text)
    with contextlib.closing(sqlite3.connect(folder / "bomb-computed.sqlite")) as db, db:
        db.execute("CREATE TABLE plain (a TEXT)")
        db.execute("INSERT INTO plain VALUES ('q')")
        db.execute(_COMPUTED)
    return [*texts, "bomb-computed.sqlite"]


def _insert(name: str) -> str:
    return f"0\nINSERT\n2\n{name}\n10\n0\n20\n0\n"


def _blocks() -> str:
    """Each drawing holds the next ten times, 24 deep."""
    held = [*(_insert(f"B{number + 1}") * 10 for number in range(24)), "0\nPOINT\n10\n1\n20\n1\n"]
    blocks = "".join(f"0\nBLOCK\n2\nB{n}\n10\n0\n20\n0\n{inner}0\nENDBLK\n" for n, inner in enumerate(held))
    return _DXF.format(blocks=blocks, first=_insert("B0"))


def _bands() -> str:
    bands = "".join(f'<VRTRasterBand dataType="Byte" band="{number}"/>' for number in range(1, 40_001))
    return f'<VRTDataset rasterXSize="20" rasterYSize="20">{bands}</VRTDataset>'
