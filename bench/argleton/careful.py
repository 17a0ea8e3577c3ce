"""The adapter of a caller who knows the tools: it reads what the server reports of the data, and writes statements
that fit it.
"""

from typing import Any, ClassVar

from bench.argleton import plain
from bench.argleton.plain import named, stem

VALID = "ST_MakeValid(geom)"


class Adapter(plain.Adapter):
    name = "gdal-mcp (careful)"
    # results are multiplied by the unit's length in metres
    handled: ClassVar[frozenset[str]] = frozenset({"units_not_metres"})

    def crs(self, folder: str, file: str) -> dict[str, Any]:
        """The CRS of the first layer, as `vector_info` reports it."""
        (field, *_) = self.call("vector_info", input=f"{folder}/{file}").answer["layers"][0]["geometryFields"]
        crs: dict[str, Any] = field["coordinateSystem"]
        return crs

    def metres(self, folder: str, file: str) -> float:
        """The length in metres of the unit of a projected CRS."""
        return float(self.crs(folder, file).get("unit_metres", 1.0))

    # ---- areas and lengths ----

    def planar_area_m2(self, folder: str, file: str) -> Any:
        unit = self.metres(folder, file)
        return self.query(folder, f"SELECT sum(ST_Area({VALID})) * {unit} * {unit} FROM {stem(file)}", file)

    buildable_area_m2 = planar_area_m2
    net_plot_area_m2 = planar_area_m2

    def total_ground_area_m2(self, folder: str, file: str) -> Any:
        return self.query(folder, f"SELECT ST_Area(ST_Union({VALID})) FROM {stem(file)}", file)

    def ground_area_m2(self, folder: str, file: str) -> Any:
        """On the ellipsoid."""
        sql = f"SELECT sum(ST_Area(ST_Transform({VALID}, 4326), 1)) FROM {stem(file)}"
        return self.query(folder, sql, file)

    field_area_m2 = ground_area_m2

    def pipe_length_m(self, folder: str, file: str) -> Any:
        return self.query(folder, f"SELECT sum(ST_3DLength(geom)) FROM {stem(file)}", file)

    def pipe_length_total_m(self, folder: str, file: str) -> Any:
        sql = f"SELECT sum(ST_Length(geom)) FROM {stem(file)} WHERE ST_Dimension(geom) = 1"
        return self.query(folder, sql, file)

    def parcel_area_m2(self, folder: str, file: str) -> Any:
        ring = "MakeLine(MakePoint(longitude, latitude, 4326))"
        return self.query(folder, f"SELECT ST_Area(ST_MakePolygon({ring}), 1) FROM {stem(file)}", file)

    def workable_area_m2(self, folder: str, concession: str, reserve: str) -> Any:
        sql = (
            "SELECT coalesce(sum(ST_Area(ST_Difference(a.geom, b.geom))), 0) "
            f"FROM {stem(concession)} a, {stem(reserve)} b"
        )
        return self.query(folder, sql, concession, reserve)

    def flooded_farmland_m2(self, folder: str, fields: str, flood: str) -> Any:
        sql = (
            f"SELECT sum(ST_Area(ST_Intersection(a.geom, b.geom))) FROM {stem(fields)} a "
            f"JOIN {stem(flood)} b ON ST_Intersects(a.geom, b.geom)"
        )
        return self.query(folder, sql, fields, flood)

    # ---- counts and places ----

    def points_in_polygon_count(self, folder: str, points: str, zone: str) -> Any:
        code = self.crs(folder, zone)["code"].partition(":")[2]
        sql = (
            f"SELECT count(*) FROM {stem(points)} a WHERE EXISTS (SELECT 1 FROM {stem(zone)} b "
            f"WHERE ST_Intersects(ST_Transform(a.geom, {code}), b.geom))"
        )
        return self.query(folder, sql, points, zone)

    wells_in_districts = points_in_polygon_count

    def feature_count(self, folder: str, file: str, layer: str) -> Any:
        info = self.call("vector_info", input=f"{folder}/{file}")
        names = [row["name"] for row in info.report["layers"]]
        return info.answer["layers"][names.index(named(layer))]["featureCount"]

    def count_within_distance(self, folder: str, file: str, target: str, distance: str) -> Any:
        table = stem(file)
        sql = (
            f"SELECT count(*) FROM {table} a, {table} b WHERE a.well_id = '{named(target)}' AND b.well_id <> a.well_id "
            f"AND ST_Distance(ST_Transform(a.geom, 4326), ST_Transform(b.geom, 4326), 1) <= {named(distance)}"
        )
        return self.query(folder, sql, file)

    def district_of_parcel(self, folder: str, parcel: str, districts: str) -> Any:
        sql = (
            f"SELECT b.district FROM {stem(parcel)} a "
            f"JOIN {stem(districts)} b ON ST_Within(ST_PointOnSurface(a.geom), b.geom)"
        )
        return self.query(folder, sql, parcel, districts)

    def ships_in_zone(self, folder: str, zone: str, ships: str) -> Any:
        sql = (
            f"SELECT count(*) FROM {stem(ships)} a, {stem(zone)} b "
            "WHERE ST_Intersects(MakePoint(a.longitude, a.latitude, 4326), b.geom)"
        )
        return self.query(folder, sql, ships, zone)

    # ---- tables ----

    def latitude_decimal(self, folder: str, file: str, station: str) -> Any:
        info = self.call("vector_info", input=f"{folder}/{file}")
        parts = "CASE lat_hem WHEN 'S' THEN -1 ELSE 1 END * (lat_deg + lat_min / 60.0 + lat_sec / 3600.0)"
        value = "latitude" if "latitude" in info.report["layers"][0]["fields"] else parts
        sql = f"SELECT {value} FROM {stem(file)} WHERE station_id = '{named(station)}'"
        return self.query(folder, sql, file)

    def area_unemployment_rate_pct(self, folder: str, file: str) -> Any:
        sql = f"SELECT sum(unemployment_rate_pct * labour_force) / sum(labour_force) FROM {stem(file)}"
        return self.query(folder, sql, file)

    def sheet_area_m2(self, folder: str, parcels: str, owners: str) -> Any:
        return self.query(folder, f"SELECT sum(area_m2) FROM {stem(parcels)}", parcels, owners)

    # ---- rasters ----

    def ndvi_mean(self, folder: str, file: str, red: str, near_infrared: str) -> float:
        path = f"{folder}/unscaled.tif"
        self.write("raster unscale", input=f"{folder}/{file}", output=path, output_data_type="Float64")
        return super().ndvi_mean(folder, "unscaled.tif", red, near_infrared)

    def class_area_m2(self, folder: str, file: str, resolution: str, class_: str) -> float:
        return self.resampled_area(folder, file, float(named(resolution)), named(class_), "nearest")

    def raster_ground_area_m2(self, folder: str, file: str) -> float:
        """The area by the raster's own tags, as the question requires."""
        arguments = {"input": f"{folder}/{file}", "open_option": {"GEOREF_SOURCES": "INTERNAL"}}
        info = self.call("gdal_read", algorithm="raster info", arguments=arguments)
        west, south, east, north = info.answer["extent"]
        return float((east - west) * (north - south))
