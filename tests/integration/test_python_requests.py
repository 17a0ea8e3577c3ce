"""Requests that no algorithm serves: GeoParquet, JSON documents, graphs.

Each is one `run_python`, compared with a value from plain Python.
"""

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import hypot
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from gdal_mcp.server.app import App
from gdal_mcp.toolboxes.python.tool import PYTHON_IMAGE
from tests.python import called, serving

pytestmark = [pytest.mark.engine, pytest.mark.nightly]

DRAWN = Random(8)
# streets of a town with 8 x 8 crossings, some of which are missing; shops next to them, some of which are listed twice
CROSSINGS = {
    (x, y): (x * 100 + DRAWN.randrange(30), y * 100 + DRAWN.randrange(30)) for x in range(8) for y in range(8)
}
STREETS = [
    (crossing, other)
    for crossing in CROSSINGS
    for other in ((crossing[0] + 1, crossing[1]), (crossing[0], crossing[1] + 1))
    if other in CROSSINGS and DRAWN.random() < 0.8
]
SHOPS = [
    {"id": n, "x": DRAWN.randrange(800), "y": DRAWN.randrange(800), "kind": DRAWN.choice(["baker", "bank", "bar"]),
     "address": f"{DRAWN.randrange(1, 90)}  Main St.", "open": json.dumps(DRAWN.sample(["mo", "tu", "we"], 2))}
    for n in range(60)
]  # fmt: skip
SHOPS += [{**shop, "id": shop["id"] + 100} for shop in SHOPS[:7]]


def length(start: tuple[int, int], end: tuple[int, int]) -> float:
    (a, b), (c, d) = CROSSINGS[start], CROSSINGS[end]
    return hypot(a - c, b - d)


def distances(start: tuple[int, int]) -> dict[tuple[int, int], float]:
    """Distances to every reachable crossing, by Dijkstra's algorithm."""
    ways = defaultdict(list)
    for crossing, other in STREETS:
        ways[crossing].append(other)
        ways[other].append(crossing)
    reached: dict[tuple[int, int], float] = {}
    queue = [(0.0, start)]
    while queue:
        far, at = heappop(queue)
        if at not in reached:
            reached[at] = far
            for other in ways[at]:
                heappush(queue, (far + length(at, other), other))
    return reached


def places(shops: list[dict[str, Any]]) -> set[tuple[int, int, str]]:
    return {(shop["x"], shop["y"], shop["kind"]) for shop in shops}


FAR = distances((0, 0))
COUNTS = Counter("we"[shop["x"] >= 400] + "sn"[shop["y"] >= 400] for shop in SHOPS)  # by district
FRAME = """
import json
import geopandas, pandas
from gdal_mcp_job import inputs, outputs, arguments, result
shops = pandas.read_csv(inputs["shops.csv"])
shops = geopandas.GeoDataFrame(shops, geometry=geopandas.points_from_xy(shops.x, shops.y), crs=25832)
"""
GRAPH = """
import networkx
from shapely.geometry import shape
from gdal_mcp_job import inputs, result
import json
streets = networkx.Graph()
for one in json.load(open(inputs["streets.geojson"]))["features"]:
    line = shape(one["geometry"])
    streets.add_edge(line.coords[0], line.coords[-1], weight=line.length)
"""
DISTRICTS = """
from shapely.geometry import box
names = {"ws": (0, 0), "es": (400, 0), "wn": (0, 400), "en": (400, 400)}
districts = geopandas.GeoDataFrame({"name": list(names)}, geometry=[box(x, y, x + 399.5, y + 399.5) for x, y in names.values()], crs=25832)
joined = shops.sjoin(districts)
"""


class Asked(NamedTuple):
    words: str
    code: str
    expected: Any  # expected `result`
    inputs: tuple[str, ...] = ("shops.csv",)
    outputs: tuple[str, ...] = ()
    read: Callable[[Path], Any] | None = None  # expected content of the first output


REQUESTS = (
    Asked("Write the shops as GeoParquet.", FRAME + "shops.to_parquet(outputs['shops.parquet'])\nresult(len(shops))",
          len(SHOPS), outputs=("shops.parquet",)),
    Asked("How many bakers are in this GeoParquet, and in which CRS?",
          "import geopandas\nfrom gdal_mcp_job import *\nread = geopandas.read_parquet(inputs['shops.parquet'])\nresult([int((read.kind == 'baker').sum()), read.crs.to_epsg()])",
          [sum(shop["kind"] == "baker" for shop in SHOPS), 25832], ("shops.parquet",)),
    Asked("Banks of the GeoParquet as a GeoPackage.",
          "import geopandas\nfrom gdal_mcp_job import *\nread = geopandas.read_parquet(inputs['shops.parquet'])\nread[read.kind == 'bank'].to_file(outputs['banks.gpkg'])\nresult(geopandas.read_file(outputs['banks.gpkg']).id.tolist())",
          [shop["id"] for shop in SHOPS if shop["kind"] == "bank"], ("shops.parquet",), ("banks.gpkg",)),
    Asked("Shops per district as GeoParquet.", FRAME + DISTRICTS + "districts['n'] = districts.name.map(joined.groupby('name').size())\ndistricts.to_parquet(outputs['per.parquet'])\nresult(dict(zip(districts.name, districts.n)))",
          dict(COUNTS), outputs=("per.parquet",)),
    Asked("Add the counts to the shops, both GeoParquet.",
          "import geopandas\nfrom gdal_mcp_job import *\na, b = (geopandas.read_parquet(inputs[n]) for n in ('shops.parquet', 'per.parquet'))\nc = a.sjoin(b)\nc.to_parquet(outputs['both.parquet'])\nresult(int(c.n.sum()))",
          sum(count**2 for count in COUNTS.values()), ("shops.parquet", "per.parquet"), ("both.parquet",)),
    Asked("The western bars as JSON records.", FRAME + "result(shops[(shops.kind == 'bar') & (shops.x < 400)][['id', 'x']].to_dict('records'))",
          [{"id": shop["id"], "x": shop["x"]} for shop in SHOPS if shop["kind"] == "bar" and shop["x"] < 400]),
    Asked("Ids of all shops, a file that is a JSON array.", FRAME + "json.dump(shops.id.tolist(), open(outputs['ids.json'], 'w'))",
          [shop["id"] for shop in SHOPS], outputs=("ids.json",), read=lambda path: json.loads(path.read_text())),
    Asked("One JSON object a line.", FRAME + "shops[['id', 'kind']].to_json(outputs['all.jsonl'], orient='records', lines=True)",
          [{"id": shop["id"], "kind": shop["kind"]} for shop in SHOPS], outputs=("all.jsonl",),
          read=lambda path: [json.loads(line) for line in path.read_text().splitlines()]),
    Asked("Without doubles, as GeoJSON that says how many were dropped.", FRAME + "kept = shops.drop_duplicates(['x', 'y', 'kind'])\nmade = json.loads(kept.to_crs(4326).to_json())\nmade['dropped_count'] = len(shops) - len(kept)\njson.dump(made, open(outputs['clean.geojson'], 'w'))",
          [len(places(SHOPS)), len(SHOPS) - len(places(SHOPS))], outputs=("clean.geojson",),
          read=lambda path: [len(json.loads(path.read_text())["features"]), json.loads(path.read_text())["dropped_count"]]),
    Asked("Addresses with one space and `Street` in full.", FRAME + "result(shops.address.str.replace(r'\\s+', ' ', regex=True).str.replace(r'\\bSt\\.$', 'Street', regex=True).tolist())",
          [re.sub(r"\bSt\.$", "Street", " ".join(shop["address"].split())) for shop in SHOPS]),
    Asked("How many are open each day, of a column that holds JSON?", FRAME + "result(shops.open.map(json.loads).explode().value_counts().to_dict())",
          dict(Counter(day for shop in SHOPS for day in json.loads(shop["open"])))),
    Asked("The way along the streets to the far corner, in metres.", GRAPH + f"result(round(networkx.shortest_path_length(streets, {tuple(map(float, CROSSINGS[0, 0]))}, {tuple(map(float, CROSSINGS[7, 7]))}, 'weight'), 6))",
          round(FAR[7, 7], 6), ("streets.geojson",)),
    Asked("How many crossings are within 500 m on foot?", GRAPH + f"result(len(networkx.single_source_dijkstra_path_length(streets, {tuple(map(float, CROSSINGS[0, 0]))}, 500, 'weight')))",
          sum(far <= 500 for far in FAR.values()), ("streets.geojson",)),
    Asked("How large is the part of the network that hangs together there?", GRAPH + f"result(len(networkx.node_connected_component(streets, {tuple(map(float, CROSSINGS[0, 0]))})))",
          len(FAR), ("streets.geojson",)),
    Asked("Which CRS is for equal areas in Europe, and which is JGD2011 zone IX?",
          "from pyproj import CRS\nfrom pyproj.database import query_crs_info\nfrom gdal_mcp_job import result\nnames = {int(one.code): one.name for one in query_crs_info('EPSG')}\nresult([next(code for code, name in names.items() if 'LAEA Europe' in name and 'ETRS89' in name), next(code for code, name in names.items() if 'JGD2011' in name and name.endswith('CS IX'))])",
          [3035, 6677], ()),
)  # fmt: skip


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    with serving(tmp_path_factory.mktemp("requests"), PYTHON_IMAGE.spec) as new_app:
        root = new_app.workspaces.items[0].root
        with (root / "shops.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, SHOPS[0])
            table.writeheader()
            table.writerows(SHOPS)
        features = [
            {"type": "Feature", "properties": {}, "geometry": {"type": "LineString", "coordinates": [CROSSINGS[crossing], CROSSINGS[other]]}}
            for crossing, other in STREETS
        ]  # fmt: skip
        (root / "streets.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        yield new_app


def test_each_request_is_answered_correctly_by_one_call(app: App, subtests):
    root = app.workspaces.items[0].root
    for request in REQUESTS:
        with subtests.test(request.words):
            reply = called(app, request.code, inputs=list(request.inputs), outputs=list(request.outputs))
            assert reply.error is None, reply.result
            result = (
                request.read(root / request.outputs[0])
                if request.read
                else reply.result["untrusted"]["result"]
            )
            assert result == request.expected
            assert all((root / name).stat().st_size for name in request.outputs)
