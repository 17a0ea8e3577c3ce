"""Values that pass every check of the catalogue, for tests of every algorithm."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from gdal_mcp.toolboxes.gdal.catalogue.binding import Bound, render
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, Algorithm, Argument, Role
from gdal_mcp.toolboxes.gdal.catalogue.schema import offered

# Values that pass, by the check of the argument; the test of the table fails if a check is missing here.
FITTING: Mapping[str, list[Any]] = {
    "array-option": ["SHOW_ALL=YES", {"SHOW_ALL": True}], "band": ["1", 2, "mask", "mask:2"],
    "by-band": ["2.5", 3, "1=2.5"], "calc": ["A+B*2", "(A > 3 && B < 1) ? A : sqrt(B)", "A[1]/2"],
    "color": ["black"], "color-interpretation": ["red", "1=alpha"], "crs": ["EPSG:4326", "ESRI:102001"],
    "crs-or-none": ["EPSG:4326", "none", "null"], "fetch-metadata": ["TIFFTAG_DATETIME,taken,DateTime"],
    "field": ["population", "GDP/capita (€)", "_ogr_geometry_"],
    "field-definition": ["name:String(40)", "area:Real(10,2)", "n:Integer"],
    "file-pattern": ["part_%05d", "{LAYER_NAME}_{FIELD_VALUE}_%d"],
    "gcp": ["0,0,440720,3751320", "1.5,2,3,4,-5"],
    "geometry": ["POLYGON ((0 0,1 0,1 1,0 0))", '{"type":"Point","coordinates":[1,2]}'],
    "kernel": ["edge1", "[[0,1,0],[1,2,1],[0,1,0]]"], "label": ["DE", "Survey, 2024"],
    "layer": ["poly", "group/layer", "roads (2024)"], "letters": ["_", "/:"], "level": ["MIN", "100", 12.5],
    "mapping": ["[1,3]=10;(3,7]=20;9=30;NO_DATA=0;DEFAULT=NO_DATA"], "media-type": ["image/tiff"],
    "metadata": ["SOURCE=survey of 2024", {"UNIT": "m/s", "N": 3}],
    "metadata-name": ["AREA_OR_POINT", "xml:XMP"], "multidim": ["/group/temp", "name=temp", "lat(2)"],
    "name-filter": ["*.tif", "tile_??.png"], "new-layer": ["roads (2024)"], "nodata": ["nan", -9999, "0"],
    "page-text": ["Elevation 2024"], "page-url": ["https://example.org/tiles/"], "percentage": ["50%", 512],
    "pixel-function-argument": ["k=2", {"k": 2.5}], "point-count": ["100", "unlimited", 7],
    "position-crs": ["pixel", "EPSG:4326"], "resolution": ["10,10", "highest"],
    "size": ["10%", "100MB", 32768], "sql": ["SELECT * FROM poly WHERE a > 1"],
    "sql-dialect": ["SQLITE", "OGRSQL"], "template": ["{DS_BASENAME}_{LAYER_NAME}"],
    "threads": ["ALL_CPUS", 2, "3"], "transform-option": ["METHOD=RPC"],
    "tuples": ["(255,255,255),(0,0,0)"], "warp-option": ["INIT_DEST=NO_DATA"],
    "where": ["population > 1000 AND name LIKE 'A%'"], "word": ["MultiPolygon", "Integer"],
}  # fmt: skip
BY_DRIVER: Mapping[str, Mapping[str, list[Any]]] = {
    "creation-option": {
        "GTiff": ["COMPRESS=LZW", {"TILED": True, "ZLEVEL": 6}],
        "GPKG": ["VERSION=1.3"],
        "netCDF": ["COMPRESS=DEFLATE"],
    },
    "layer-option": {"GPKG": ["FID=id", {"SPATIAL_INDEX": False}]},
    "output-open-option": {"GPKG": ["LIST_ALL_TABLES=YES"]},
    "open-option": {
        "GTiff": ["NUM_THREADS=2"],
        "GPKG": ["LIST_ALL_TABLES=YES"],
        "netCDF": ["HONOUR_VALID_RANGE=YES"],
    },
}
BY_CONTEXT = {"choice", "input-format", "output-format", "pipeline", *BY_DRIVER}
DRIVERS = {"vector": "GPKG", "multidim_raster": "netCDF"}
PLACES = {
    "named": ["A=in.tif", "in.tif"],
    "band": ["in.tif,band=2", "in.tif"],
    "document": ["schema.json", '{"layers":[]}'],
}


def placed(bound: Bound) -> tuple[str, ...]:
    """The rendered words, with every path in one folder."""
    return render(bound.resolve(lambda _argument, text: f"/ws/{text}"))


def kind_of(algorithm: Algorithm, name: str) -> str | None:
    argument = algorithm.long_names.get(name)
    if argument is not None and argument.dataset_kinds:
        return argument.dataset_kinds[0]
    return {"mdim": "multidim_raster"}.get(algorithm.path.split(" ")[0], algorithm.kind)


def fitting(algorithm: Algorithm, argument: Argument) -> st.SearchStrategy[Any]:
    """Valid JSON values of one argument; none if its validity depends on other arguments."""
    if argument.role in PATH_ROLES:
        single = st.sampled_from(places(algorithm, argument))
    elif argument.element_type == "boolean":
        return st.booleans()
    elif argument.element_type in ("integer", "real"):
        single = numbers(argument)
    elif argument.rule.check in ("choice", "output-format") and argument.choices:
        single = st.sampled_from(argument.choices)
    else:
        single = st.sampled_from(texts(algorithm, argument))
    if not argument.is_list or argument.max_count == 1:
        return single
    least = max(1, argument.min_count)
    most = min(argument.max_count or least + 2, least + 2)
    plain = single.filter(lambda value: not isinstance(value, dict))
    lists = st.lists(plain, min_size=least, max_size=most)
    return lists | single.filter(lambda value: isinstance(value, dict))


def texts(algorithm: Algorithm, argument: Argument) -> list[Any]:
    check = argument.rule.check
    source, target = (DRIVERS.get(kind_of(algorithm, name) or "", "GTiff") for name in ("input", "output"))
    if check in BY_DRIVER:
        return BY_DRIVER[check][source if check == "open-option" else target]
    if check in ("input-format", "output-format"):
        return [source if check == "input-format" else target.lower()]
    return FITTING[check]


def places(algorithm: Algorithm, argument: Argument) -> list[str]:
    endings = {"vector": ".gpkg", "multidim_raster": ".nc"}
    kinds = argument.dataset_kinds
    plain = [f"{argument.name}{endings.get(kinds[0] if kinds else '', '.tif')}", "folder/with blank.tif"]
    return PLACES.get(argument.rule.form, plain)


def numbers(argument: Argument) -> st.SearchStrategy[Any]:
    low, high = argument.minimum, argument.maximum
    if argument.choices:
        return st.sampled_from([int(choice) for choice in argument.choices])
    if argument.element_type == "integer":
        least = -1000 if low is None else int(low) + (not argument.min_included)
        most = max(least, 1000 if high is None else int(high) - (not argument.max_included))
        return st.integers(least, most) | st.integers(least, most).map(float)
    return st.floats(
        -1e6 if low is None else low,
        max(1e6, low or 0) if high is None else high,
        exclude_min=low is not None and not argument.min_included,
        exclude_max=high is not None and not argument.max_included,
    )


@st.composite
def calls(draw: st.DrawFn, algorithm: Algorithm) -> dict[str, Any]:
    """Arguments that are valid together: the required ones, and some of the others."""
    possible = usable(algorithm)
    needed = [argument for argument in possible if argument.required]
    needed += [algorithm.long_names[draw(st.sampled_from(group))] for group in algorithm.one_of]
    others = [argument for argument in possible if argument not in needed]
    picked = (
        draw(st.lists(st.sampled_from(others), max_size=6, unique_by=lambda argument: argument.name))
        if others
        else []
    )
    chosen: dict[str, Argument] = {}
    for argument in (*needed, *picked):
        with_others = {
            argument.name,
            *argument.depends_on,
            *algorithm.companions(argument, "dependency_group"),
        }
        rivals = {
            rival
            for name in with_others
            for rival in algorithm.companions(algorithm.long_names[name], "exclusion_group")
        }
        if not rivals & set(chosen):
            chosen |= {name: algorithm.long_names[name] for name in with_others}
    if any(argument.rule.check in BY_DRIVER for argument in chosen.values()):
        formats = [algorithm.long_names.get(name) for name in ("input-format", "output-format")]
        chosen |= {
            argument.name: argument
            for argument in formats
            if argument is not None and not argument.hidden and not argument.choices
        }
    call = {name: draw(fitting(algorithm, argument)) for name, argument in chosen.items()}
    if call.get("dialect") == "builtin":
        call["calc"] = ["mean"]
    if any(argument.role in (Role.OUTPUT, Role.UPDATE) for argument in chosen.values()):
        return call
    return {name: value for name, value in call.items() if chosen[name].rule.mode != "update"}


def usable(algorithm: Algorithm) -> list[Argument]:
    """The arguments without options for an output that no argument names."""
    named = "output-format" in algorithm.long_names or any(
        argument.role in (Role.OUTPUT, Role.UPDATE) for argument in algorithm.arguments
    )
    about_output = set(BY_DRIVER) - {"open-option"}
    return [argument for argument in offered(algorithm) if named or argument.rule.check not in about_output]


def sample(argument: Argument) -> Any:
    if argument.element_type in ("integer", "real"):
        low = 1 if argument.minimum is None else int(argument.minimum) + 1
        return [low] * max(1, argument.min_count) if argument.is_list else low
    if argument.choices:
        return argument.choices[0]
    return (FITTING.get(argument.rule.check) or ["x"])[0]


def minimal(algorithm: Algorithm) -> dict[str, Any]:
    needed = {argument.name: sample(argument) for argument in algorithm.arguments if argument.required}
    for group in algorithm.one_of:
        if not set(group) & set(needed):
            needed[group[0]] = sample(algorithm.long_names[group[0]])
    return needed
