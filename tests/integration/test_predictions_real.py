"""The predicted layer of a call equals the one that GDAL then creates: fields, type of geometry and CRS, or it is
unknown.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.toolboxes.gdal.preflight.contradictions import contradictions
from gdal_mcp.toolboxes.gdal.preflight.description import crs_to_describe
from gdal_mcp.toolboxes.gdal.preflight.facts import DatasetFacts, facts_of
from gdal_mcp.toolboxes.gdal.preflight.layers import dimensions, family
from gdal_mcp.toolboxes.gdal.preflight.service import Preflight
from gdal_mcp.tools.common import DraftContext
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import known_tools, preflight, surface
from tests.integration.worker_kit import Box
from tests.integration.workflow_kit import make_ground, serving
from tests.oracle.container import Oracle

pytestmark = [pytest.mark.engine, pytest.mark.nightly]


def query(sql: str, *inputs: str, end: str = "gpkg") -> tuple[str, dict[str, Any], str]:
    return "query_to_file", {"inputs": list(inputs or ("parcels.geojson",)), "sql": sql}, end


def on(tool: str, source: str, end: str = "gpkg", **more: Any) -> tuple[str, dict[str, Any], str]:
    return tool, {"input": source, **more}, end


CALLS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "star": query("SELECT * FROM parcels"),
    "some": query("SELECT parcel AS plot, geom FROM parcels WHERE district = 'west'"),
    "moved": query("SELECT parcel, ST_Transform(geom, 4326) AS geom FROM parcels"),
    "near": query("SELECT clinic, ST_Buffer(geom, 50) AS area FROM clinics", "clinics.geojson"),
    "unnamed": query("SELECT parcel, upper(district), geom FROM (SELECT * FROM parcels)"),
    "centre": query("SELECT p.parcel, ST_Centroid(p.geom) AS geom FROM parcels p"),
    "points": query(
        "SELECT name, MakePoint(CAST(lon AS REAL), CAST(lat AS REAL), 4326) AS geom FROM addresses WHERE lon <> ''",
        "addresses.csv",
    ),
    "sums": query("SELECT district, count(*) AS plots, sum(ST_Area(geom)) AS area FROM parcels GROUP BY 1"),
    "united": query("SELECT district, ST_Union(geom) AS geom FROM parcels GROUP BY district"),
    "joined": query(
        "SELECT p.*, d.district AS inside FROM parcels p JOIN districts d ON ST_Within(p.geom, d.geom)",
        "parcels.geojson",
        "districts.geojson",
    ),
    "either": query("SELECT parcel AS id, geom FROM parcels UNION ALL SELECT 'x', geom FROM parcels"),
    "chosen": query("SELECT parcel, CASE WHEN district = 'west' THEN geom END AS geom FROM parcels"),
    "table": query("SELECT parcel, district FROM parcels", end="csv"),
    "json": query("SELECT parcel, ST_Transform(geom, 4326) AS geom FROM parcels", end="geojson"),
    "ring": query("SELECT parcel, ST_ExteriorRing(geom) AS geom FROM parcels"),
    "cte": query("WITH w AS (SELECT * FROM parcels) SELECT w.parcel, w.geom FROM w"),
    "buffer": on("vector_buffer", "clinics.geojson", distance=10),
    "hull": on("vector_convex_hull", "parcels.geojson"),
    "select": on("vector_select", "parcels.geojson", fields=["parcel"]),
    "drawn": on("vector_select", "parcels.geojson", fields=["parcel", "_ogr_geometry_"]),
    "without": on("vector_select", "parcels.geojson", fields=["parcel"], exclude=True),
    "combine": on("vector_combine", "parcels.geojson", group_by=["district"]),
    "filter": on("vector_filter", "parcels.geojson", where="district = 'west'"),
    "valid": on("vector_make_valid", "cadastre.geojson"),
    "degrees": on("vector_reproject", "parcels.geojson", "geojson", dst_crs="EPSG:4326"),
    "outline": on("raster_footprint", "dem.asc", no_location_field=True),
    "moved_outline": on("raster_footprint", "dem.asc", output_crs="EPSG:4326", no_location_field=True),
    "placed": on("vector_make_point", "wells.csv", x="lon", y="lat", output_crs="EPSG:4326"),
    "nowhere": on("vector_make_point", "wells.csv", x="lon", y="lat"),
    "high": on("vector_make_point", "wells.csv", x="lon", y="lat", z="id", m="lat", output_crs="EPSG:4326"),
    "slopes": on("vector_make_valid", "roofs.geojson"),
    "flat": on("vector_set_geom_type", "roofs.geojson", dim="XY"),
    "parts": on("vector_set_geom_type", "roofs.geojson", geometry_type="MULTIPOLYGONZM"),
    "roofs": on("convert", "roofs.geojson"),
    "any_type": on("vector_set_geom_type", "roofs.geojson", geometry_type="GEOMETRY"),
    "one_layer": ("vector_concat", {"input": ["parcels.geojson", "districts.geojson"], "mode": "single"}, "gpkg"),
    "twice": ("vector_concat", {"input": ["parcels.geojson", "parcels.geojson"], "output_crs": "EPSG:4326"}, "geojson"),
    "shared": (
        "vector_concat",
        {"input": ["parcels.geojson", "districts.geojson"], "mode": "single", "output_layer": "all", "field_strategy": "intersection",
         "source_layer_field_name": "from"},
        "gpkg",
    ),
    "blank": (
        "vector_create",
        {"output_layer": "new", "geometry_type": "POINTZ", "crs": "EPSG:32633", "field": ["name:String", "size:Real"]},
        "gpkg",
    ),
    "sheets": ("raster_index", {"input": ["dem.asc", "land_cover.asc"]}, "gpkg"),
    "heights": on("raster_contour", "dem.asc", interval=10, **{"3d": True}),
    "cut": on(
        "vector_layer_algebra", "parcels.geojson", operation="intersection", method="districts.geojson"
    ),
    "lines": on("raster_contour", "dem.asc", interval=10, elevation_name="m"),
    "bands": on("raster_contour", "dem.asc", interval=10, polygonize=True, min_name="low", max_name="high"),
    "classes": on("raster_polygonize", "land_cover.asc", attribute_name="class"),
    "stats": on(
        "raster_zonal_stats", "dem.asc", zones="parcels.geojson", stat=["mean"], include_field=["parcel"]
    ),
    "shapes": on(
        "raster_zonal_stats", "dem.asc", zones="parcels.geojson", stat=["max"], include_field=["ALL"], include_geom=True
    ),
}  # fmt: skip


RASTERS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "copied": on("convert", "dem.asc", "tif"),
    "cog": on("convert", "imagery.asc", "tif", output_format="COG"),
    "photo": on("raster_select", "imagery.asc", "tif", band=["1"]),
    "degrees": on("reproject", "dem.asc", "tif", dst_crs="EPSG:4326"),
    "filled": on("raster_reproject", "dem.asc", "tif", output_crs="EPSG:3857", output_nodata="-1"),
    "alpha": on("raster_nodata_to_alpha", "land_cover.asc", "tif"),
    "part": on("raster_clip", "dem.asc", "tif", like="parcels.geojson", allow_bbox_outside_source=True),
    "burned": on("vector_rasterize", "parcels.geojson", "tif", burn=[1], size=[20, 20]),
    "smaller": on("raster_resize", "dem.asc", "tif", size=["50%", "50%"]),
    "whole": on("raster_set_type", "dem.asc", "tif", output_data_type="Int32"),
    "bytes": on("raster_set_type", "dem.asc", "tif", output_data_type="Byte"),
    "scaled": on("raster_scale", "dem.asc", "tif", output_data_type="UInt16"),
    "unscaled": on("raster_unscale", "dem.asc", "tif"),
    "doubled": ("raster_calc", {"input": ["A=dem.asc"], "calc": ["A*2"]}, "tif"),
    "whole_double": ("raster_calc", {"input": ["A=land_cover.asc"], "calc": ["A*2"], "output_data_type": "Int32"}, "tif"),
    "shade": on("raster_hillshade", "dem.asc", "tif"),
    "slope": on("raster_slope", "dem.asc", "tif"),
    "aspect": on("raster_aspect", "dem.asc", "tif"),
    "rough": on("raster_roughness", "dem.asc", "tif"),
    "tpi": on("raster_tpi", "dem.asc", "tif"),
    "tri": on("raster_tri", "dem.asc", "tif"),
    "near": on("raster_proximity", "land_cover.asc", "tif"),
    "sieved": on("raster_sieve", "land_cover.asc", "tif", size_threshold=2),
    "holes": on("raster_fill_nodata", "dem.asc", "tif"),
    "classes": on("raster_reclassify", "land_cover.asc", "tif", mapping="1=10;DEFAULT=0"),
    "mean": on("raster_neighbors", "dem.asc", "tif", kernel=["edge1"]),
    "seen": on("raster_viewshed", "dem.asc", "tif", position=[500500, 5500500]),
    "stacked": ("raster_stack", {"input": ["dem.asc", "land_cover.asc"]}, "tif"),
    "mosaic": ("raster_mosaic", {"input": ["tile_zone33.asc", "tile_zone33.asc"]}, "tif"),
}  # fmt: skip


@pytest.fixture(scope="module")
def ground(oracle: Oracle) -> Path:
    folder = make_ground(oracle.folder("predictions"))
    (folder / "wells.csv").write_text("id,lon,lat\n1,15.0,46.9\n2,15.1,47.0\n", encoding="ascii")
    roof = [[500000, 5500000, 1], [500010, 5500000, 2], [500010, 5500010, 3], [500000, 5500000, 1]]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
    feature = {"type": "Feature", "properties": {"id": 7, "kind": "tiles"}, "geometry": {"type": "Polygon", "coordinates": [roof]}}  # fmt: skip
    layer = {"type": "FeatureCollection", "name": "roofs", "crs": crs, "features": [feature]}
    (folder / "roofs.geojson").write_text(json.dumps(layer), encoding="ascii")
    return folder


def document(calls: Mapping[str, tuple[str, dict[str, Any], str]] = CALLS) -> dict[str, Any]:
    steps = [
        {"id": name, "tool": tool, "arguments": {**arguments, "output": f"{name}.{end}"}}
        for name, (tool, arguments, end) in calls.items()
    ]
    outputs = {name: {"from": f"${{steps.{name}}}", "to": f"single/{name}.{end}"} for name, (*_, end) in calls.items()}  # fmt: skip
    return {"workflow": 1, "name": "all", "steps": steps, "outputs": outputs}


def described(oracle: Oracle, paths: list[Path], crs: tuple[str, ...] = ()) -> list[DatasetFacts]:
    (done,) = Box(oracle).run({"program": "describe", "inputs": list(map(str, paths)), "crs": crs})
    rows = [facts_of(row, path.stat().st_size) for path, row in zip(paths, done.parsed, strict=True)]
    assert None not in rows
    return [row for row in rows if row is not None]


def drafts(ground: Path, calls: Mapping[str, tuple[str, dict[str, Any], str]] = CALLS) -> dict[str, Draft]:
    settings = Settings(workspaces=[ground], state_dir=ground.parent / "drafts")
    paths = Paths(
        Workspaces((Workspace.at(ground, writable=True),)), "outputs", "0123456789abcdef", as_new=True
    )
    desk = DraftContext(paths, settings, surface(settings), preflight(settings), packaged())
    planned = {}
    for name, (tool, arguments, end) in calls.items():
        draft = known_tools()[tool].draft({**arguments, "output": f"{name}.{end}"}, desk)
        assert isinstance(draft, Draft)
        planned[name] = draft
    return planned


def learned(oracle: Oracle, planned: Mapping[str, Draft]) -> Preflight:
    """A preflight that has descriptions of all inputs of these calls."""
    known = preflight(Settings())
    crs = tuple(dict.fromkeys(text for draft in planned.values() for text in crs_to_describe(draft)))
    inputs = list(dict.fromkeys(source for draft in planned.values() for source in draft.inputs))
    for located, facts in zip(
        inputs, described(oracle, [source.path for source in inputs], crs), strict=True
    ):
        known.known.put(located, facts)
    return known


def test_predicted_fields_geometry_and_crs_match_the_layer(ground: Path, oracle: Oracle):
    planned = drafts(ground)
    known = learned(oracle, planned)
    with serving(ground, "--toolsets", "core,raster,vector", "--approval", "never") as client:
        for few in (dict(list(CALLS.items())[:25]), dict(list(CALLS.items())[25:])):
            client.call("workflow_run", workflow=document(few))
    paths = [ground / "single" / f"{name}.{end}" for name, (*_, end) in CALLS.items()]
    wrong: dict[str, Any] = {}
    unknown: dict[str, list[str]] = {}
    # GDAL does not report the number of features of a CSV unless it reads the whole file
    for name, actual in zip(CALLS, described(oracle, paths), strict=True):
        predicted = known.predicted(planned[name])
        assert predicted is not None, name
        facts = {
            "fields": (predicted.schema and predicted.schema.fields, actual.schema and actual.schema.fields),
            "geometry": (
                predicted.geometry and (family(predicted.geometry) or predicted.geometry),
                family(actual.geometry) or actual.geometry,
            ),
            "dimensions": (dimensions(predicted.geometry), dimensions(actual.geometry)),
            "crs": (predicted.crs, actual.crs),
            "has_crs": (predicted.has_crs, actual.has_crs),
            "degrees": (predicted.degrees if predicted.has_crs else None, actual.degrees),
            "features": (predicted.features, actual.features),
            "extent": (predicted.extent and [round(number, 3) for number in predicted.extent], actual.extent and [round(number, 3) for number in actual.extent]),
        }  # fmt: skip
        wrong |= {
            f"{name} {key}": pair
            for key, pair in facts.items()
            if pair[0] not in (None, "")
            and pair[0] != pair[1]
            and not (key == "features" and pair[1] is None)
        }
        unknown[name] = [key for key in ("fields", "geometry", "has_crs") if facts[key][0] in (None, "")]
    assert wrong == {}
    assert {name for name, lacks in unknown.items() if lacks} == {
        "united",
        "chosen",
        "hull",
        "unnamed",
        "cut",
        "any_type",
        "roofs",
        "slopes",
        "flat",
        "parts",
    }


def test_predicted_bands_types_and_nodata_match_the_raster(ground: Path, oracle: Oracle):
    planned = drafts(ground, RASTERS)
    known = learned(oracle, planned)
    with serving(ground, "--toolsets", "core,raster,vector", "--approval", "never") as client:
        client.call("workflow_run", workflow=document(RASTERS))
    paths = [ground / "single" / f"{name}.{end}" for name, (*_, end) in RASTERS.items()]
    wrong: dict[str, Any] = {}
    for name, actual in zip(RASTERS, described(oracle, paths), strict=True):
        predicted = known.predicted(planned[name])
        assert predicted is not None, name
        if differences := contradictions(predicted, actual):
            wrong[name] = differences
    assert wrong == {}


def test_prediction_without_container_description_is_unknown(ground: Path):
    blank = replace(preflight(Settings()))
    planned = drafts(ground)
    for name in ("star", "some", "table", "buffer", "classes"):
        predicted = blank.predicted(planned[name])
        assert predicted is None or (predicted.schema is None and predicted.has_crs is None), name
