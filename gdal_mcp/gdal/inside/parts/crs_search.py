"""Finds coordinate reference systems by code, name or area of use in the image's own PROJ database."""

import re

from osgeo import osr

from gdal_mcp.gdal.inside.parts.reporting import plain, print_json

MOST = 50
MAX_TEXT = 300  # characters of an area's description
TYPES = {
    osr.OSR_CRS_TYPE_GEOGRAPHIC_2D: "geographic 2D",
    osr.OSR_CRS_TYPE_GEOGRAPHIC_3D: "geographic 3D",
    osr.OSR_CRS_TYPE_GEOCENTRIC: "geocentric",
    osr.OSR_CRS_TYPE_PROJECTED: "projected",
    osr.OSR_CRS_TYPE_VERTICAL: "vertical",
    osr.OSR_CRS_TYPE_COMPOUND: "compound",
}
CODE = re.compile(r"(?:([a-z][a-z0-9_]*)\s*:\s*([a-z0-9_.]+)|(?:epsg\s*)?([0-9]{4,9}))", re.ASCII)
WORD = re.compile(r"[^\W\d_]+|\d+")
# what people say, in the database's words
SPOKEN = (
    (r"\b(web|google|spherical|pseudo)[ -]*mercator\b", "wgs 84 pseudo mercator"),
    (r"\b(lat\w*[ /,-]*lon\w*|lon\w*[ /,-]*lat\w*|gps)\b", "wgs 84"),
    (r"\butm\s*(?:zone\s*)?(\d+)\s*n\w*", r"utm zone \1 n"),
    (r"\butm\s*(?:zone\s*)?(\d+)\s*s\w*", r"utm zone \1 s"),
    (r"\bnztm\b", "new zealand transverse mercator"),
    (r"\bswiss\b", "switzerland"),
    (r"\bdutch\b", "netherlands"),
    (r"\bfrench\b", "france"),
    (r"\bgerman\b", "germany"),
    (r"\baustrian\b", "austria"),
    (r"\bitalian\b", "italy"),
    (r"\bspanish\b", "spain"),
)
# where several fit equally, the one that most data is in comes first
WELL_KNOWN = frozenset(
    "EPSG:4326 EPSG:3857 EPSG:4258 EPSG:4269 EPSG:3035 EPSG:2154 EPSG:27700 EPSG:25832 EPSG:2056 EPSG:28992 EPSG:31370 EPSG:2193 "
    "EPSG:3413 EPSG:3031 EPSG:5070 EPSG:6933 EPSG:3006 EPSG:3067 EPSG:5514 EPSG:31287 EPSG:3395 EPSG:3979 EPSG:7844 EPSG:3577 "
    "EPSG:8857 ESRI:54030 ESRI:54009 EPSG:29903 EPSG:2180 EPSG:5041 EPSG:5042 EPSG:4979 EPSG:4978".split()
)
# by how much a kind comes before another when the words fit both
KIND_MERIT = {"projected": 3, "geographic 2D": 3, "compound": -3, "geographic 3D": -2, "geocentric": -3}
EXACT, WELL, IN_NAME, IN_AREA, STARTS_NAME, STARTS_AREA = 100, 12, 10, 6, 5, 3
WGS_84, DEPRECATED, ELSEWHERE = 8, 30, 15
LONG, WORLD = 40, 120  # words of an area; some of the whole world name every country, which is no place


def run_find_crs(job, _report):
    """Prints a list, best first: code, name, type, area and its box in degrees, whether it is deprecated."""
    limit = min(int(job["limit"]), MOST)
    rows = []
    for info in found(job["query"], osr.GetCRSInfoListFromDatabase(None))[:limit]:
        box = (info.west_lon_degree, info.south_lat_degree, info.east_lon_degree, info.north_lat_degree)
        box = map(plain, box) if info.bbox_valid else (None,) * 4
        rows.append(
            {
                "code": f"{info.auth_name}:{info.code}",
                "name": info.name[:MAX_TEXT],
                "type": TYPES.get(info.type, "other"),
                "area": (info.area_name or "")[:MAX_TEXT],
                **dict(zip(("west", "south", "east", "north"), box, strict=True)),
                "deprecated": bool(info.deprecated),
            }
        )
    print_json(rows)
    return True


def found(query, infos):
    text = query.lower().strip()
    if match := CODE.fullmatch(text):
        authority, code, number = match.groups()
        wanted = code or number  # a number may come without its authority; a word is more likely to be a name
        same = [
            info
            for info in infos
            if info.code.lower() == wanted and authority in (None, info.auth_name.lower())
        ]
        if same:
            return sorted(same, key=lambda info: (info.auth_name != "EPSG", info.auth_name))
    for pattern, replacement in SPOKEN:
        text = re.sub(pattern, replacement, text)
    words = WORD.findall(text)
    scored = [(fitting, merit, info) for info in infos for fitting, merit in [score(words, info)] if fitting]
    most = max((fitting for fitting, _, _ in scored), default=0)
    best = [(merit, info) for fitting, merit, info in scored if fitting == most]

    def rank(one):
        merit, info = one
        return -merit, info.auth_name, (0, int(info.code), "") if info.code.isdigit() else (1, 0, info.code)

    return [info for _, info in sorted(best, key=rank)]


def score(wanted, info):
    """How many of the words fit, one that is only begun a little less, and the merit among those that fit as many."""
    texts = info.name.lower(), (info.area_name or "").lower()
    if not any(word in text for word in wanted for text in texts):
        return 0, 0
    name, area = map(WORD.findall, texts)
    area = area if len(area) < WORLD else ["world"]
    points = [fit(word, name, area) for word in wanted]
    fitting = sum(1.0 if one >= IN_AREA else 0.9 for one in points if one)
    if not fitting:
        return 0, 0
    merit = sum(points) - 0.3 * max(0, len(name) - len(wanted)) - 0.05 * min(len(area), LONG)
    merit += EXACT if name == wanted else 0
    merit += KIND_MERIT.get(TYPES.get(info.type), -1) + (2 if info.auth_name == "EPSG" else 0)
    merit += WELL if f"{info.auth_name}:{info.code}" in WELL_KNOWN else 0
    merit += WGS_84 if name[:2] == ["wgs", "84"] else 0
    merit -= DEPRECATED if info.deprecated else 0
    body = (info.celestial_body_name or "Earth").lower()
    merit -= ELSEWHERE if body not in ("earth", *wanted) else 0
    return fitting, merit


def fit(word, name, area):
    if word in name:
        return IN_NAME
    if word in area:
        return IN_AREA
    if len(word) < 3 or word.isdigit():  # the start of a number or of a short word says nothing
        return 0
    if any(one.startswith(word) for one in name):
        return STARTS_NAME
    return STARTS_AREA if any(one.startswith(word) for one in area) else 0
