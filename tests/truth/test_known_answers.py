"""Every case with a known answer, through the server; a case that is left out has its reason."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from tests.e2e.mcp.talk import Person, Place, Talk, talking
from tests.oracle.container import Oracle
from tests.traps.kit import call
from tests.truth.conftest import DATA, TRUTH

pytestmark = pytest.mark.engine

# the classic programs have the parameters of their tools, not a command line: case -> equivalent call
SAMPLES = ",".join(f'"{{data}}/sample{number}.tif"' for number in (1, 2, 3, 4))
EXPRESSED: Mapping[str, str] = {
    "c01_gdalinfo_checksum": "raster info input={data}/byte.tif checksum=true output-format=text",
    "c04_gdalinfo_rat": "gdalinfo dataset={data}/int.img",
    "c05_translate": "gdal_translate src_dataset={data}/byte.tif dst_dataset={out}/o.tif",
    "c06_translate_bands": 'gdal_translate src_dataset={data}/rgbsmall.tif dst_dataset={out}/o.tif bands=["3","2","1"]',
    "c07_translate_expand": "raster color-map input={data}/bug407.gif output={out}/o.tif",
    # t_srs is required here; the raster's own CRS has the same effect as no CRS
    "c11_warp": 'gdalwarp src_datasets=["{data}/byte.tif"] dst_dataset={out}/o.tif t_srs=EPSG:26711',
    "c15_warp_dstalpha": "raster reproject input={data}/rgbsmall.tif output={out}/o.tif add-alpha=true",
    "c17_buildvrt_separate": f"gdalbuildvrt src_datasets=[{SAMPLES}] dst_vrt={{out}}/m.vrt separate=true",
    "c19_merge": f"gdal_merge src_datasets=[{SAMPLES}] dst_dataset={{out}}/m.tif",
    "c23_polygonize_8": "raster polygonize input={data}/byte.tif output={out}/out.geojson connect-diagonal-pixels=true",
}

OPTION = "the tool has no parameter for the option that the case is about"
NOT_EXPRESSED: Mapping[str, str] = {
    "c14_warp_crop": f"{OPTION}: -cutline",
    "c21_merge_init": f"{OPTION}: -init",
    "c22_polygonize_nomask": f"{OPTION}: -nomask",
}
CASES = {row["id"]: row for row in map(json.loads, TRUTH.read_text().splitlines())}
MADE = [name for name in CASES if name not in NOT_EXPRESSED]


@pytest.fixture(scope="module")
def place(grounds: Path) -> Place:
    new_place = Place.made(grounds / "truth")
    shutil.copytree(DATA, grounds / "truth" / "data")
    (grounds / "truth" / "data").chmod(0o755)
    return new_place


@pytest.fixture(scope="module")
def talk(place: Place, grounds: Path) -> Iterator[Talk]:
    data = str(grounds / "truth" / "data")
    command = place.command("--workspace-ro", data, "--no-preview")
    with talking(command, grounds / "truth.log", person=Person()) as new_talk:
        yield new_talk


@pytest.mark.parametrize("case", MADE)
def test_a_known_answer_is_given(case: str, talk: Talk, place: Place, grounds: Path, oracle: Oracle) -> None:
    row = CASES[case]
    out = place.path(case)
    out.mkdir()
    folders = {"data": grounds / "truth" / "data", "out": out}
    for command in row.get("setup", ()):
        staged = oracle.folder(case)
        oracle.must(*_placed(command, {**folders, "out": staged}))
        shutil.copytree(staged, out, dirs_exist_ok=True)
    if case in EXPRESSED:
        tool, arguments = call(EXPRESSED[case])
    else:
        tool, arguments = "gdal_write", {"algorithm": _algorithm(row["tool"]), "arguments": row["args"]}
    result = talk.call(tool, **_placed(arguments, folders))
    content = result.structured_content
    failed = result.is_error or bool(content.get("return_code"))
    assert failed == bool(row["expected"].get("exit", 0)), content
    _check(row["expected"], content, folders, oracle)


def test_every_case_is_made_or_has_its_reason() -> None:
    assert {*EXPRESSED, *NOT_EXPRESSED} == {name for name, row in CASES.items() if "argv" in row["args"]}
    assert not set(EXPRESSED) & set(NOT_EXPRESSED)


def _algorithm(tool: str) -> str:
    plain = {path.replace(" ", "_").replace("-", "_"): path for path in packaged().algorithms}
    return plain[tool.removeprefix("gdal_")]


def _placed(value: Any, folders: Mapping[str, Path]) -> Any:
    if isinstance(value, str):
        return value.replace("{data}", str(folders["data"])).replace("{out}", str(folders["out"]))
    if isinstance(value, list):
        return [_placed(part, folders) for part in value]
    if isinstance(value, dict):
        return {name: _placed(part, folders) for name, part in value.items()}
    return value


def _check(
    expected: Mapping[str, Any], content: Mapping[str, Any], folders: Mapping[str, Path], oracle: Oracle
) -> None:
    out = folders["out"]
    untrusted = content.get("untrusted", {})
    report = untrusted.get("report")
    text = untrusted.get("text", json.dumps(report))
    checks = {
        "exit": lambda _: None,
        "stdout_contains": lambda texts: [_holds(text, part) for part in texts],
        "stdout_equals": lambda complete: _is(untrusted.get("text", ""), complete),
        "stderr_contains": lambda texts: [_holds(json.dumps(content["error"]), part) for part in texts],
        "stdout_json": lambda pairs: [_is(_at(report, path), value) for path, value in pairs.items()],
        "raster": lambda about: _check_raster(about, out, oracle),
        "raster2": lambda about: _check_raster(about, out, oracle),
        "vector": lambda about: _check_vector(about, out, oracle),
        "files": lambda names: [_is((out / name).exists(), True) for name in names],
        "no_files": lambda names: [_is((out / name).exists(), False) for name in names],
        "same_mdim": lambda pair: _is(*(_mdim(oracle, _placed(name, folders)) for name in pair)),
        "mdim_block": lambda about: _check_block(about, out, oracle),
        "then": lambda about: _check_then(about, folders, oracle),
    }
    for kind, about in expected.items():
        checks[kind](about)


def _holds(text: str, part: str) -> None:
    assert part in text


def _is(actual: Any, expected: Any) -> None:
    assert actual == expected


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = len(value) if step == "#" else value[int(step)] if isinstance(value, list) else value[step]
    return value


def _mdim(oracle: Oracle, path: str) -> Any:
    return json.loads(oracle.must("gdal", "mdim", "info", "--detailed", f"--input={path}"))


def _check_block(about: list[Any], out: Path, oracle: Oracle) -> None:
    name, array, block = about
    assert _mdim(oracle, str(out / name))["arrays"][array]["block_size"] == block


def _check_then(about: list[Any], folders: Mapping[str, Path], oracle: Oracle) -> None:
    command, texts = about
    printed = oracle.must(*_placed(command, folders))
    for text in texts:
        assert text in printed


def _check_raster(expected: Mapping[str, Any], out: Path, oracle: Oracle) -> None:
    report = json.loads(oracle.must("gdalinfo", "-json", "-checksum", str(out / expected["file"])))
    sums = [band["checksum"] for band in report["bands"]]
    facts = {
        "file": expected["file"], "tol": expected.get("tol"), "checksum1": sums[0], "size": report["size"],
        "bands": len(sums), "block": report["bands"][0]["block"], "dtype": report["bands"][0]["type"],
        "epsg": str(report.get("stac", {}).get("proj:epsg")),
        "image_structure": report["metadata"].get("IMAGE_STRUCTURE", {}),
    }  # fmt: skip
    for name, value in expected.items():
        if name == "checksums":
            assert len(sums) == len(value)
            near = expected.get("tol", 0)
            assert all(abs(actual - wanted) <= near for actual, wanted in zip(sums, value, strict=True))
        elif name == "image_structure":
            assert value.items() <= facts[name].items()
        else:
            assert facts[name] == value, name


def _check_vector(expected: Mapping[str, Any], out: Path, oracle: Oracle) -> None:
    layers = oracle.vector(out / expected["file"])["layers"]
    layer = next(layer for layer in layers if layer["name"] == expected.get("layer", layer["name"]))
    features, fields = layer["features"], [field["name"] for field in layer["fields"]]
    geometry = layer["geometryFields"][0] if layer["geometryFields"] else {}
    code = geometry.get("coordinateSystem", {}).get("projjson", {}).get("id", {}).get("code")
    facts = {
        "file": expected["file"], "layer": layer["name"], "count": layer["featureCount"],
        "fields": fields, "nfields": len(fields), "epsg": str(code),
    }  # fmt: skip
    for name, value in expected.items():
        if name == "field_values":
            assert [feature["properties"][value[0]] for feature in features] == value[1]
        elif name == "first":
            assert value.items() <= features[0]["properties"].items()
        elif name in ("wkt", "wkt_norm"):
            _check_geometry(value, out / expected["file"], oracle)
        else:
            assert facts[name] == value, name


def _check_geometry(wkt: str, path: Path, oracle: Oracle) -> None:
    """Asserts that the first geometry is the same set of points."""
    program = (
        "import sys; from osgeo import ogr; made = ogr.Open(sys.argv[1]); layer = made.GetLayer(0);"
        "feature = layer.GetNextFeature(); found = feature.GetGeometryRef(); asked = ogr.CreateGeometryFromWkt(sys.argv[2]);"
        "print(found.Equals(asked) or found.SymDifference(asked).Area() < 1e-6 * asked.Area())"
    )
    assert oracle.python(program, str(path), wkt).strip() in ("True", "1")
