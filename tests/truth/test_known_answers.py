"""Every case with a known answer that these tools can express, through the server; the others with the reason why not."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle
from tests.truth.conftest import DATA, TRUTH

pytestmark = pytest.mark.engine

# case -> tool and arguments; paths in `{out}` are in the writable workspace, others in the read-only one
EXPRESSED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "c04_gdalinfo_rat": ("gdalinfo", {"dataset": "{data}/int.img"}),
    "c05_translate": ("gdal_translate", {"src_dataset": "{data}/byte.tif", "dst_dataset": "{out}/o.tif"}),
    "c06_translate_bands": (
        "gdal_translate",
        {"src_dataset": "{data}/rgbsmall.tif", "dst_dataset": "{out}/o.tif", "bands": ["3", "2", "1"]},
    ),
    # t_srs is required here; the raster's own CRS asks for what no CRS does
    "c11_warp": (
        "gdalwarp",
        {"src_datasets": ["{data}/byte.tif"], "dst_dataset": "{out}/o.tif", "t_srs": "EPSG:26711"},
    ),
    "c17_buildvrt_separate": (
        "gdalbuildvrt",
        {
            "src_datasets": [f"{{data}}/sample{n}.tif" for n in (1, 2, 3, 4)],
            "dst_vrt": "{out}/m.vrt",
            "separate": True,
        },
    ),
    "c19_merge": (
        "gdal_merge",
        {"src_datasets": [f"{{data}}/sample{n}.tif" for n in (1, 2, 3, 4)], "dst_dataset": "{out}/m.tif"},
    ),
    "r02_info_json": ("info", {"path": "{data}/utmsmall.tif"}),
    "r04_convert_tiled": (
        "convert",
        {"input": "{data}/utmsmall.tif", "output": "{out}/o.tif", "creation_options": ["TILED=YES"]},
    ),
    "r05_convert_exists_error": (
        "convert",
        {"input": "{data}/utmsmall.tif", "output": "{out}/o.tif", "overwrite": False},
    ),
    "r11_reproject": (
        "reproject",
        {
            "input": "{data}/byte.tif",
            "output": "{out}/o.tif",
            "src_crs": "EPSG:32611",
            "dst_crs": "EPSG:4326",
            "creation_options": {"COMPRESS": "LZW"},
        },
    ),
}

OPTION = "the tool has no parameter for the option that the case is about"
NOT_EXPRESSED: Mapping[str, str] = {
    "c01_gdalinfo_checksum": f"{OPTION}: -checksum",
    "c07_translate_expand": f"{OPTION}: -expand",
    "c14_warp_crop": f"{OPTION}: -cutline",
    "c15_warp_dstalpha": f"{OPTION}: -dstalpha",
    "c21_merge_init": f"{OPTION}: -init",
    "c22_polygonize_nomask": f"{OPTION}: -nomask",
    "c23_polygonize_8": f"{OPTION}: -8",
    "r01_info_checksum": f"{OPTION}: --min-max, --checksum",
    "v01_info_limit": f"{OPTION}: --limit",
    "v02_info_sql": "SQL is not offered",
    "v03_convert_append": "appending is not the caller's to ask for",
}
TOOLS = (
    "gdalinfo",
    "gdal_translate",
    "gdalwarp",
    "gdalbuildvrt",
    "gdal_rasterize",
    "gdal2xyz",
    "gdal_merge",
    "gdal_polygonize",
)
ALGORITHMS = (
    "gdal_raster_info",
    "gdal_vector_info",
    "gdal_raster_convert",
    "gdal_vector_convert",
    "gdal_raster_reproject",
)

CASES = {row["id"]: row for row in map(json.loads, TRUTH.read_text().splitlines())}


@pytest.fixture(scope="module")
def place(grounds: Path) -> Place:
    made = Place.made(grounds / "truth")
    shutil.copytree(DATA, grounds / "truth" / "data")
    (grounds / "truth" / "data").chmod(0o755)
    return made


@pytest.fixture(scope="module")
def talk(place: Place, grounds: Path) -> Iterator[Talk]:
    command = place.command("--workspace-ro", str(grounds / "truth" / "data"))
    with talking(command, grounds / "truth.log", person=Person()) as made:
        yield made


@pytest.mark.parametrize("case", EXPRESSED)
def test_a_known_answer_is_given(case: str, talk: Talk, place: Place, grounds: Path, oracle: Oracle) -> None:
    row, (tool, arguments) = CASES[case], EXPRESSED[case]
    out = place.path(case)
    out.mkdir()
    folders = {"data": grounds / "truth" / "data", "out": out}
    for command in row.get("setup", ()):
        staged = oracle.folder(case)
        oracle.must(*(word.format(data=folders["data"], out=staged) for word in command))
        shutil.copytree(staged, out, dirs_exist_ok=True)
    result = talk.call(tool, **_placed(arguments, folders))
    assert result.is_error == bool(row["expected"].get("exit", 0)), result.structured_content
    _check(row["expected"], result.structured_content, out, oracle)


def test_every_case_of_these_tools_is_expressed_or_has_its_reason() -> None:
    ours = {name for name, row in CASES.items() if row["tool"] in (*TOOLS, *ALGORITHMS)}
    assert ours == {*EXPRESSED, *NOT_EXPRESSED}
    assert not set(EXPRESSED) & set(NOT_EXPRESSED)


def _placed(value: Any, folders: Mapping[str, Path]) -> Any:
    if isinstance(value, str):
        return value.format(**folders)
    if isinstance(value, list):
        return [_placed(one, folders) for one in value]
    if isinstance(value, dict):
        return {name: _placed(one, folders) for name, one in value.items()}
    return value


def _check(expected: Mapping[str, Any], found: Mapping[str, Any], out: Path, oracle: Oracle) -> None:
    known = {"exit", "stderr_contains", "stdout_contains", "stdout_json", "raster", "vector"}
    assert set(expected) <= known, "a kind of answer that is not checked here"
    for text in expected.get("stdout_contains", ()):
        assert text in found["report"]
    for text in expected.get("stderr_contains", ()):
        assert text in json.dumps(found["error"])
    for path, value in expected.get("stdout_json", {}).items():
        assert _at(found, path) == value
    if "raster" in expected:
        _check_raster(expected["raster"], out, oracle)
    if "vector" in expected:
        _check_vector(expected["vector"], out, oracle)


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = len(value) if step == "#" else value[int(step)] if isinstance(value, list) else value[step]
    return value


def _check_raster(expected: Mapping[str, Any], out: Path, oracle: Oracle) -> None:
    known = {"file", "checksums", "checksum1", "size", "bands", "block", "image_structure"}
    assert set(expected) <= known, "a kind of answer that is not checked here"
    path = out / expected["file"]
    found = json.loads(oracle.must("gdalinfo", "-json", "-checksum", str(path)))
    sums = [band["checksum"] for band in found["bands"]]
    assert sums == expected.get("checksums", sums)
    assert sums[0] == expected.get("checksum1", sums[0])
    assert found["size"] == expected.get("size", found["size"])
    assert len(sums) == expected.get("bands", len(sums))
    assert found["bands"][0]["block"] == expected.get("block", found["bands"][0]["block"])
    structure = found["metadata"].get("IMAGE_STRUCTURE", {})
    for name, value in expected.get("image_structure", {}).items():
        assert structure[name] == value


def _check_vector(expected: Mapping[str, Any], out: Path, oracle: Oracle) -> None:
    assert set(expected) <= {"file", "count", "field_values"}, "a kind of answer that is not checked here"
    layer = oracle.vector(out / expected["file"])["layers"][0]
    assert layer["featureCount"] == expected["count"]
    if "field_values" in expected:
        name, values = expected["field_values"]
        assert [feature["properties"][name] for feature in layer["features"]] == values
