"""A STAC API with a catalogue file: landing page and item search with POST, in pages."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.remote.origin import Handler, Origin

CATALOGUE = Path(__file__).with_name("catalogue.json")


def serve(server: Origin, size: int = 2) -> None:
    items = json.loads(CATALOGUE.read_text())["features"]
    for item in items:
        for asset in item["assets"].values():
            asset["href"] = asset["href"].replace("https://data.test/", server.url("/"))

    def search(handler: Handler) -> None:
        query = json.loads(server.asked[-1].body)
        matches = [item for item in items if fits(item, query)]
        start = int(query.get("token", 0))
        page = {"type": "FeatureCollection", "features": matches[start : start + size], "links": []}
        if start + size < len(matches):
            body = {"token": str(start + size)}
            following = {"rel": "next", "href": server.url("/stac/search"), "method": "POST"}
            page["links"] = [{**following, "body": body, "merge": True}]
        handler.answer(200, json.dumps(page).encode(), Content_Type="application/geo+json")

    server.special["/stac/search"] = search


def fits(item: dict[str, Any], search_body: dict[str, Any]) -> bool:
    west, south, east, north = search_body.get("bbox") or (-180, -90, 180, 90)
    box = item["bbox"]
    inside = box[0] <= east and box[2] >= west and box[1] <= north and box[3] >= south
    start, _, end = search_body.get("datetime", "../..").partition("/")
    moment = item["properties"]["datetime"]
    in_time = (start == ".." or start <= moment) and (end == ".." or moment <= end)
    rules = search_body.get("query") or {}
    cloudless = all(item["properties"].get(key, 0) < rule["lt"] for key, rule in rules.items())
    wanted = item["collection"] in search_body.get("collections", [item["collection"]])
    return inside and in_time and cloudless and wanted
