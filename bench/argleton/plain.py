"""The adapter of a caller in a hurry: it sends the first statement that comes to mind, and checks nothing.

It reads no description of the data first, and takes the result of its one obvious call. But it believes the server:
if a call is refused, or the answer says that something is or may be wrong, it stops and refuses too.
"""

import atexit
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from argleton.model import Outcome, Probe

from bench.argleton.session import Refused, Reply, Session

# code of an output that is the same as its input: the values are those of the input, and correct
UNCHANGED: Final = frozenset({"identical_to_input"})


def stem(path: str) -> str:
    return path.partition(".")[0]


def named(argument: str) -> str:
    """The value of `name=value`."""
    return argument.partition("=")[2]


class Adapter:
    name = "gdal-mcp (plain)"
    handled: ClassVar[frozenset[str]] = (
        frozenset()
    )  # codes of checks that the calls already take into account

    @cached_property
    def session(self) -> Session:
        session = Session()
        atexit.register(session.close)
        return session

    def run(self, probe: Probe, workdir: Path) -> Outcome:
        operation: Callable[..., Any] | None = getattr(self, probe.operation, None)
        if operation is None:
            return Outcome(unsupported=True)
        folder = self.session.copied(workdir)
        try:
            return Outcome(answer=operation(folder, *probe.arguments))
        except Refused as refusal:
            return Outcome(refusal=str(refusal))

    def call(self, tool: str, /, **arguments: Any) -> Reply:
        """Makes a call. Raises Refused if the server refuses it or warns about its result."""
        reply = self.session.call(tool, **arguments)
        warnings = [text for code, text in reply.checks.items() if code not in self.handled | UNCHANGED]
        if warnings:
            raise Refused(" ".join(warnings))
        return reply

    def query(self, folder: str, sql: str, *files: str) -> Any:
        """The only value that a statement returns."""
        return self.call("query", inputs=[f"{folder}/{file}" for file in files], sql=sql).value

    def write(self, algorithm: str, **arguments: Any) -> str:
        """Returns the output, so that the next call can read it."""
        self.call("gdal_write", algorithm=algorithm, arguments=arguments)
        return str(arguments["output"])

    def mean(self, path: str) -> float:
        reply = self.call("gdal_read", algorithm="raster info", arguments={"input": path, "stats": True})
        return float(reply.answer["bands"][0]["mean"])

    # ---- areas and lengths ----

    def planar_area_m2(self, folder: str, file: str) -> Any:
        return self.query(folder, f"SELECT sum(ST_Area(geom)) FROM {stem(file)}", file)

    ground_area_m2 = planar_area_m2
    buildable_area_m2 = planar_area_m2
    net_plot_area_m2 = planar_area_m2
    total_ground_area_m2 = planar_area_m2
    field_area_m2 = planar_area_m2

    def pipe_length_m(self, folder: str, file: str) -> Any:
        return self.query(folder, f"SELECT sum(ST_Length(geom)) FROM {stem(file)}", file)

    pipe_length_total_m = pipe_length_m

    def parcel_area_m2(self, folder: str, file: str) -> Any:
        table = stem(file)
        reply = self.call("query", inputs=[f"{folder}/{file}"], sql=f"SELECT * FROM {table}", limit=1)
        _, first, second = reply.report["columns"]
        ring = f"MakeLine(MakePoint({first}, {second}, 4326))"
        return self.query(folder, f"SELECT ST_Area(ST_MakePolygon({ring}), 1) FROM {table}", file)

    def workable_area_m2(self, folder: str, concession: str, reserve: str) -> Any:
        sql = (
            "SELECT coalesce(sum(ST_Area(ST_Difference(b.geom, a.geom))), 0) "
            f"FROM {stem(concession)} a, {stem(reserve)} b"
        )
        return self.query(folder, sql, concession, reserve)

    def flooded_farmland_m2(self, folder: str, fields: str, flood: str) -> Any:
        sql = (
            f"SELECT sum(ST_Area(a.geom)) FROM {stem(fields)} a "
            f"JOIN {stem(flood)} b ON ST_Intersects(a.geom, b.geom)"
        )
        return self.query(folder, sql, fields, flood)

    # ---- counts and places ----

    def points_in_polygon_count(self, folder: str, points: str, zone: str) -> Any:
        sql = f"SELECT count(*) FROM {stem(points)} a JOIN {stem(zone)} b ON ST_Within(a.geom, b.geom)"
        return self.query(folder, sql, points, zone)

    wells_in_districts = points_in_polygon_count

    def feature_count(self, folder: str, file: str, _layer: str) -> Any:
        return self.query(folder, f"SELECT count(*) FROM {stem(file)}", file)

    def count_within_distance(self, folder: str, file: str, target: str, distance: str) -> Any:
        table = stem(file)
        sql = (
            f"SELECT count(*) FROM {table} a, {table} b WHERE a.well_id = '{named(target)}' "
            f"AND b.well_id <> a.well_id AND ST_Distance(a.geom, b.geom) <= {named(distance)}"
        )
        return self.query(folder, sql, file)

    def district_of_parcel(self, folder: str, parcel: str, districts: str) -> Any:
        sql = (
            f"SELECT b.district FROM {stem(parcel)} a "
            f"JOIN {stem(districts)} b ON ST_Within(ST_Centroid(a.geom), b.geom)"
        )
        return self.query(folder, sql, parcel, districts)

    def ships_in_zone(self, folder: str, zone: str, ships: str) -> Any:
        info = self.call("vector_info", input=f"{folder}/{zone}")
        west, south, east, north = info.answer["layers"][0]["geometryFields"][0]["extent"]
        sql = (
            f"SELECT count(*) FROM {stem(ships)} WHERE longitude BETWEEN {west} AND {east} "
            f"AND latitude BETWEEN {south} AND {north}"
        )
        return self.query(folder, sql, ships)

    def wgs84_latitude(self, folder: str, file: str) -> Any:
        return self.query(folder, f"SELECT ST_Y(ST_Transform(geom, 4326)) FROM {stem(file)}", file)

    def thiessen_value_mm(self, folder: str, gauges: str, site: str, field: str) -> Any:
        sql = (
            f"SELECT a.{field} FROM {stem(gauges)} a, {stem(site)} b "
            "ORDER BY ST_Distance(a.geom, b.geom) LIMIT 1"
        )
        return self.query(folder, sql, gauges, site)

    # ---- tables ----

    def latitude_decimal(self, folder: str, file: str, station: str) -> Any:
        table, where = stem(file), f"WHERE station_id = '{named(station)}'"
        path = f"{folder}/{file}"
        columns = self.call("vector_info", input=path).report["layers"][0]["fields"]
        value = "latitude" if "latitude" in columns else "lat_deg + lat_min / 60 + lat_sec / 3600"
        return self.query(folder, f"SELECT {value} FROM {table} {where}", file)

    def area_unemployment_rate_pct(self, folder: str, file: str) -> Any:
        return self.query(folder, f"SELECT avg(unemployment_rate_pct) FROM {stem(file)}", file)

    def total_population(self, folder: str, municipalities: str, population: str) -> Any:
        sql = (
            f"SELECT sum(b.population) FROM {stem(municipalities)} a "
            f"JOIN {stem(population)} b ON a.istat_code = b.istat_code"
        )
        return self.query(folder, sql, municipalities, population)

    def sheet_area_m2(self, folder: str, parcels: str, owners: str) -> Any:
        sql = (
            f"SELECT sum(a.area_m2) FROM {stem(parcels)} a JOIN {stem(owners)} b ON a.parcel_id = b.parcel_id"
        )
        return self.query(folder, sql, parcels, owners)

    # ---- rasters ----

    def raster_mean(self, folder: str, file: str) -> float:
        return self.mean(f"{folder}/{file}")

    def raster_ground_area_m2(self, folder: str, file: str) -> float:
        info = self.call("info", path=f"{folder}/{file}").answer
        west, south, east, north = info["extent"]
        return float((east - west) * (north - south))

    def mean_slope_degrees(self, folder: str, file: str) -> float:
        return self.mean(self.write("raster slope", input=f"{folder}/{file}", output=f"{folder}/slope.tif"))

    def ndvi_mean(self, folder: str, file: str, red: str, near_infrared: str) -> float:
        red, near = f"A[{named(red)}]", f"A[{named(near_infrared)}]"
        index = self.write(
            "raster calc",
            input=[f"A={folder}/{file}"],
            output=f"{folder}/index.tif",
            calc=[f"({near} - {red}) / ({near} + {red})"],
            output_data_type="Float64",
        )
        return self.mean(index)

    def class_area_m2(self, folder: str, file: str, resolution: str, class_: str) -> float:
        return self.resampled_area(folder, file, float(named(resolution)), named(class_), "bilinear")

    def resampled_area(self, folder: str, file: str, size: float, value: str, resampling: str) -> float:
        """The area of the cells of one value on a grid of that cell size."""
        grid = self.write(
            "raster reproject",
            input=f"{folder}/{file}",
            output=f"{folder}/grid.tif",
            resolution=[size, size],
            resampling=resampling,
        )
        return float(self.cells(folder, grid, f"WHERE band_1 = {value}", "count(*)") * size * size)

    def lowest_cell_easting(self, folder: str, file: str) -> Any:
        return self.cells(folder, f"{folder}/{file}", "ORDER BY band_1 LIMIT 1", "ST_X(geom)")

    def cells(self, folder: str, raster: str, clause: str, value: str) -> Any:
        """A value of the cells of a raster, each of which is a point."""
        points = {"input": raster, "output": f"{folder}/cells.gpkg", "geometry_type": "point"}
        self.write("raster as-features", **points)
        return self.query(folder, f"SELECT {value} FROM cells {clause}", "cells.gpkg")
