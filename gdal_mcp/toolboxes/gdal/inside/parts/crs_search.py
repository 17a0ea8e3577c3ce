"""Finds coordinate reference systems by meaning in the PROJ database of the image.

A question (`crs_words`) has names, a place, and requested properties, kinds and units. For each of them, every CRS
has a fit from 0 to 1. The CRSs with the largest sums are ranked again, and the usual ones come first, by authority,
scope and datum in the database. The weights were tuned with the questions under `tuned` in
tests/data/crs_questions.toml.
"""

import itertools
import math
import re
from collections import Counter, defaultdict

from gdal_mcp.toolboxes.gdal.inside.parts.crs_database import (
    COMPOUNDS,
    EXTENTS,
    GEOGRAPHIC,
    METHODS,
    SUCCESSORS,
    WGS_84,
    Database,
    property_of,
    unit_of,
)
from gdal_mcp.toolboxes.gdal.inside.parts.crs_words import (
    SOFT,
    UNITS,
    CrsQuery,
    common,
    fit_in,
    folded,
    part_in,
    size,
    words_of,
)
from gdal_mcp.toolboxes.gdal.inside.parts.datasets import facts_and_names, opened
from gdal_mcp.toolboxes.gdal.inside.parts.extents import halves
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import print_json, quiet
from gdal_mcp.toolboxes.gdal.inside.parts.survey import antimeridian_bbox

BY_CODE = (
    "select rowid from crs where code like ? and auth_name like ? order by auth_name <> 'EPSG', auth_name"
)
LIMIT = 50
CLOSELY = 250
CODE = re.compile(
    r"(?:([a-z][a-z0-9_]*)\s*:\s*([a-z0-9_.]+)|(?:(epsg|esri|ogc|ign[fc])\s*)?([0-9]{4,9}))",
    re.ASCII | re.IGNORECASE,
)
# weights, relative to 1 for a word in a name: the place, its name in the CRS's name, a meaning, a word in SOFT
PLACE, IN_NAME, MEANING, SOFT_WORD = 2.5, 0.2, 2.0, 0.3
# fit of an area inside the place, if the question has more words: an area named after the place, another area
ZONE, FOREIGN_ZONE = 0.5, 0.4
SMALL_FIT = 0.02  # areas of use with a smaller fit are ignored
ANY_ZONE = 0.5  # weight of the word zone in the name of a zone with another number
UNNAMED = -1.0  # penalty for a CRS that has no word of the question except the place
OUTSIDE = -1.5  # penalty for a CRS whose area of use does not contain the place
OWN_NAME = 0.9  # texts with at least this weight are names of the CRS itself
# bonus if the question equals the whole name, or all words after its last slash
FULL_NAME, LAST_PART = 3.0, 1.0
POOR = 0.4  # fraction of the best sum; CRSs with a smaller sum are omitted
# exponents of the penalty for a wide area of use: for a named place; for a box, which most areas exceed by far
TIGHT_PLACE, TIGHT_BOX = 0.5, 0.015
POINT = 1e-4  # degrees by which a requested box is enlarged on each side
# words that ask for a national grid, their weight, and names of areas of use that are not exactly one country
NATIONAL, NATION = frozenset({"national", "official"}), 0.8
# words that ask for the datum of a place, and are not in a datum's name
DATUM_OF = NATIONAL | {"of", "for", "in"}
NO_GRID = -1.0  # penalty for a CRS that is no grid, if a national one is asked for
AXES = ([], ["east", "north"])  # endings of whole names, for the usual order of axes
PARTIAL = re.compile(
    r"\d|\b(?:world|europe|africa|asia|america|oceania|ocean|zones?|between|equi7)\b", re.IGNORECASE
)
# fit of an equidistant CRS for distances in one place; a conformal CRS of that place has 1
WORLD_DISTANCES = 0.8
# weights of how usual a CRS is
AUTHORITIES = {"EPSG": 0.0, "OGC": -0.3, "ESRI": -0.3}  # -0.8 for all others
OFF_EARTH = -3.0  # penalty for CRSs of the moon and of Mars
KINDS = {"projected": 0.3, "geographic 2D": 0.0, "geographic 3D": -0.6}
DEPRECATED, YOUNG, MODERN = -2.0, -0.7, 0.3
YOUNG_CODES = range(
    9000, 20000
)  # EPSG assigns codes in order; these are from 2019 on, and hardly any data uses them yet
SATELLITES = 1986  # the first year of datums surveyed with satellites
COMMON_SCOPE = "topographic|cadastre|spatial referencing|engineering survey"
SUITING_SCOPES = {"equal-area": "statistic|area", "web": "web", "conformal": "conformal|navigation|nautical"}
NAMED_SO = {"equal-area": "equal.area|laea", "conformal": "conformal|lcc", "equidistant": "equidistant"}
KINDS_BY_MEANING = {
    "vertical": {"vertical": 1.0, "compound": 0.6},
    "datum": {"geographic 2D": 0.5, "vertical": 0.5},
    **{kind: {kind: 1.0} for kind in ("geographic 2D", "geographic 3D", "geocentric")},
}
REPEATED = 0.2  # penalty for each better CRS with the same projection


def run_find_crs(job, _report):
    """Prints the matching CRSs, best first, and the words of the question that match no CRS and no place."""
    database, query = Database(), job.get("query") or ""
    box, datum = job.get("bbox"), WGS_84
    if job["inputs"]:
        box, datum = of_dataset(job["inputs"][0], database)
    search, corrected = Search(database, query, box, datum), {}
    exact = by_code(database, query)
    if not exact and (unknown := search.unknown()) and (corrected := database.similar(unknown)):
        search = Search(database, correct(query, corrected), box, datum)
    official = job.get("official", {})
    named = [] if exact else [*search.official(official), *search.official_datum(official)]
    ids = exact or list(dict.fromkeys([*named, *search.best()]))
    ids = ids[: min(int(job["limit"]), LIMIT)]
    chosen = database.chosen(ids)
    matches = [search.row(row_id, *chosen[row_id]) for row_id in ids]
    unknown = [] if exact else search.unknown()
    print_json({"matches": matches, "unknown_words": unknown, "corrected_words": corrected})
    return True


def correct(query, corrected):
    """The question with its misspelled words replaced."""
    return re.sub(r"[^\W\d_]+", lambda word: corrected.get(folded(word[0]), word[0]), query)


def of_dataset(path, database):
    """The box of a dataset in WGS 84, and its datum. Raises RuntimeError if it is not georeferenced."""
    with quiet() as errors:
        dataset = opened(path, errors)
        facts = facts_and_names(path, dataset)[0] if dataset is not None else {}
    placed = [description for description in (facts, *facts.get("layers", ())) if description.get("wgs84")]
    if not placed:
        raise RuntimeError(f"where {path} lies on the earth is not known: it has no CRS or no extent")
    boxes = [half for description in placed for half in halves(description["wgs84"])]
    west, south, east, north = zip(*boxes, strict=True)
    across = antimeridian_bbox(list(zip(west, east, strict=True))) or (min(west), max(east))
    codes = [description["crs"]["code"] for description in placed if description["crs"]["code"]]
    ids = by_code(database, codes[0])[:1] if codes else []
    datums = [datum_of(crs) for crs, _ in database.chosen(ids).values()]
    return (across[0], min(south), across[1], max(north)), *(datums or [WGS_84])


def datum_of(crs):
    return crs["datum_auth_name"], str(crs["datum_code"])


def by_code(database, text):
    """The row ids of a code and its replacements; empty if the text is not a code.

    EPSG comes first for a number without an authority.
    """
    match = CODE.fullmatch(text.strip())
    if match is None:
        return []
    authority, code, other, number = match.groups()
    ids = [row[0] for row in database.rows(BY_CODE, code or number, authority or other or "%")]
    return ids + [row[0] for row_id in ids for row in database.rows(SUCCESSORS, row_id)]


class Search:
    """Ranks the CRSs that fit a question, optionally for a box.

    Accuracies are those of the transformation to `datum`.
    """

    def __init__(self, database, query, box, datum):
        self.database, self.datum, self.question = database, datum, CrsQuery(query)
        extents = database.rows(EXTENTS)
        self.place_boxes = self.question.find_place(extents)
        self.box = None
        if box:  # enlarged, because a point has no size
            west, south, east, north = box
            self.box = west - POINT, max(south - POINT, -90.0), east + POINT, min(north + POINT, 90.0)
        self.named, self.bonus = self._names()
        if not (box or self.place_boxes):
            self.place_boxes = self.question.find_mentioned(extents, self.unknown())
        self.boxes = [self.box] if box else self.place_boxes
        fits = ((*extent[:2], self.area_fit(extent["name"], extent[4:])) for extent in extents)
        # by CRS, the fit of its area of use; `anywhere` is the fit of all others
        self.areas = database.used([row for row in fits if row[2] > SMALL_FIT])
        self.anywhere = 0.0 if self.boxes else 0.75
        self.fits = {meaning: self._fits_of(meaning) for meaning in self.question.meanings}
        self.chosen = {}

    @property
    def distinguishing_words(self):
        return [word for word in self.question.words if word not in {*SOFT, *self.question.place}]

    def area_fit(self, name, area):
        """The fit of an area of use to the box and the named place; without either, larger areas fit better."""
        fits = [fit_in(area, self.box, TIGHT_BOX)] if self.box else []
        if self.place_boxes:
            zone = ZONE if set(self.question.place) <= set(words_of(name)) else FOREIGN_ZONE
            zone *= bool(self.distinguishing_words)
            fits.append(
                max(
                    max(fit_in(area, box, TIGHT_PLACE), zone * part_in(area, box)) for box in self.place_boxes
                )
            )
        return sum(fits) / len(fits) if fits else 1 + 0.06 * math.log10(size(area) / 720 + 1e-4)

    def _names(self):
        """The fit of each word by CRS, and the bonus by CRS for a question that is its name or the end of it."""
        words, idle = self.question.words, SOFT.union(self.question.place, ["zone"])
        telling = [word for word in words if word.isalpha() and len(word) > 1 and word not in idle] or words
        fits, bonus = defaultdict(dict), Counter()
        for row_id, text, weight in self.database.texts(telling):
            tokens = words_of(text)
            for word in words:
                # the beginning of a word counts half; that of a number or a short word does not count
                begins = len(word) > 2 and word.isalpha() and any(token.startswith(word) for token in tokens)
                fit = (
                    weight * (1.0 if word in tokens else 0.5 * begins) * (SOFT_WORD if word in SOFT else 1.0)
                )
                if word == "zone" and self.question.zone not in " ".join(tokens):
                    fit *= ANY_ZONE
                fits[row_id][word] = max(fits[row_id].get(word, 0.0), fit)
            if weight < OWN_NAME:
                continue
            placeless = [word for word in words if word not in self.question.place]
            own = [[*named, *axes] for named in (words, placeless) for axes in AXES]
            if tokens in (self.question.exact, *own):
                bonus[row_id] = FULL_NAME
            elif len(self.question.exact) > 1 and words_of(text.rpartition(" / ")[2]) == self.question.exact:
                bonus[row_id] = max(bonus[row_id], LAST_PART)
        return fits, bonus

    def _fits_of(self, meaning):
        """The fit to one requested property, kind or unit, by CRS."""
        if kinds := KINDS_BY_MEANING.get(meaning):
            rows = self.database.rows("select rowid, kind from crs")
            return {row_id: kinds[kind] for row_id, kind in rows if kind in kinds}
        if meaning in METHODS:
            rows = self.database.rows("select rowid, method from crs where method is not null")
            fits = {meaning: 1.0}
            if meaning == "equidistant" and self.boxes and "equidistant" not in self.question.exact:
                fits = {"conformal": 1.0, "equidistant": WORLD_DISTANCES}
            properties = ((row_id, property_of(method)) for row_id, method in rows)
            return {row_id: fits[kind] for row_id, kind in properties if kind in fits}
        rows = self.database.rows("select rowid from crs where unit like ?", UNITS[meaning])
        return {row_id: 1.0 for (row_id,) in rows}

    def unknown(self):
        matched = {word for fits in self.named.values() for word, fit in fits.items() if fit}
        known = matched.union(self.question.place, SOFT)
        return [word for word in self.question.words if word not in known]

    def fit(self, row_id):
        named, place = self.named.get(row_id, {}), self.question.place
        names = sum(fit for word, fit in named.items() if word not in place)
        in_name = bool(place) and all(named.get(word, 0.0) == 1.0 for word in place)
        meaning_fit = sum(fits.get(row_id, 0.0) for fits in self.fits.values())
        area = PLACE * self.areas.get(row_id, self.anywhere) + IN_NAME * in_name
        name_bonus = self.bonus[row_id] * all(row_id in fits for fits in self.fits.values())
        unnamed = UNNAMED * (
            bool(place and self.distinguishing_words)
            and not any(word in named for word in self.distinguishing_words)
        )
        outside = OUTSIDE * (bool(self.boxes) and row_id not in self.areas)
        return names + name_bonus + MEANING * meaning_fit + area + unnamed + outside

    def best(self):
        """The row ids of the matching CRSs, best first.

        A unit is not enough for a match, because half of all CRSs have it.
        """
        if (
            not self.boxes
            and self.distinguishing_words
            and not self.named
            and set(self.question.meanings) <= UNITS.keys()
        ):
            return []
        fitting = {*self.named, *(self.areas if self.boxes else ())}.union(*self.fits.values())
        fits = {row_id: self.fit(row_id) for row_id in fitting}
        least = POOR * max(fits.values(), default=0.0)
        close = sorted((row_id for row_id in fits if fits[row_id] >= least), key=fits.get, reverse=True)[
            :CLOSELY
        ]
        self.chosen = self.database.chosen(close)
        parts = dict(map(tuple, self.database.rows(COMPOUNDS)))
        scores = {
            row_id: fits[row_id] + self.usual(row_id) + 0.1 * math.log10(1 + parts.get(row_id, 0))
            for row_id in close
        }
        return self.varied(sorted(close, key=lambda row_id: (-scores[row_id], row_id)), scores)

    def official(self, codes):
        """The row ids of the CRSs that a country uses officially, if the question asks only for these.

        `codes` has them by country, where the database does not show them, as for zones of UTM.
        """
        question = self.question
        asked = NATIONAL & set(question.exact) and not self.distinguishing_words
        plain = set(question.meanings) <= {"metre"}
        named = codes.get(question.country, ()) if asked and plain and self.box is None else ()
        return [row_id for code in named for row_id in by_code(self.database, code)[:1]]

    def official_datum(self, codes):
        """The row ids of the CRS of a country's datum and of its official grid, if the question asks only for its datum.

        The database does not say which datum is official; that of the official grid is.
        """
        question, database = self.question, self.database
        of_country = question.country and DATUM_OF & set(question.exact) and not self.distinguishing_words
        if not of_country or question.meanings != ["datum"] or self.box is not None:
            return []
        grids = Search(database, f"official {question.country}", None, self.datum)
        [*ids] = grids.official(codes)[:1] or filter(grids.is_national_grid, grids.best())
        for row_id, (crs, _) in database.chosen(ids[:1]).items():
            rows = database.rows(GEOGRAPHIC, *datum_of(crs))
            return [*(by_code(database, f"{row[0]}:{row[1]}")[0] for row in rows), row_id]
        geographic = (row_id for row_id in self.best() if self.chosen[row_id][0]["kind"] == "geographic 2D")
        return list(itertools.islice(geographic, 1))

    def is_national_grid(self, row_id):
        crs, usages = self.chosen[row_id]
        return crs["auth_name"] == "EPSG" and is_national(crs, usages)

    def varied(self, ranked, scores):
        """Reorders CRSs: each moves down a little for every better CRS with the same projection."""
        earlier, repeated = Counter(), {}
        for row_id in ranked:
            projection = self.chosen[row_id][0]["conversion"] or row_id
            repeated[row_id] = REPEATED * earlier[projection]
            earlier[projection] += 1
        return sorted(ranked, key=lambda row_id: (repeated[row_id] - scores[row_id], row_id))

    def usual(self, row_id):
        """A score for how usual a CRS is for the question."""
        crs, usages = self.chosen[row_id]
        meanings, scopes = self.question.meanings, " ".join(scope for _, scope, _ in usages)
        merit = AUTHORITIES.get(crs["auth_name"], -0.8) + DEPRECATED * crs["deprecated"]
        merit += YOUNG * (crs["auth_name"] == "EPSG" and crs["code"] in YOUNG_CODES)
        merit += (0.3 if self.boxes else 0.1) * holds(COMMON_SCOPE, scopes)
        # of two CRSs that differ only in the axis order, programs use the one with easting first
        merit -= 0.1 * (crs["orientation"] == "north")
        if NATIONAL & set(self.question.exact):
            grid = 0 if crs["kind"] == "projected" or meanings else NO_GRID
            merit += NATION * (1 if is_national(crs, usages) else -1) + grid
            merit += NATION * ("national grid" in crs["name"].lower())
        merit += sum(0.3 * holds(SUITING_SCOPES.get(meaning, "^$"), scopes) for meaning in meanings)
        merit += sum(0.5 * holds(NAMED_SO.get(meaning, "^$"), crs["name"]) for meaning in meanings)
        if not any(meaning in KINDS_BY_MEANING for meaning in meanings):
            merit += KINDS.get(crs["kind"], -1.5)
        if crs["kind"] == "vertical":
            merit += max(crs["year"] - 1900, 0) * 0.003
        elif crs["kind"] != "compound":
            # accuracy of the transformation to a datum; up to five metres, it is that of the datums themselves
            metres = self.accuracy(crs, usages)
            merit += (
                -0.2 if metres is None else 0.1 if metres == 0 else -0.25 * math.log10(max(metres / 5, 1))
            )
            merit += MODERN * bool(self.boxes and (crs["ensemble_accuracy"] or crs["year"] >= SATELLITES))
        name = words_of(crs["name"])
        merit += OFF_EARTH * (crs["auth_name"] == "IAU_2015" and name[0] not in self.question.words)
        others = [word for word in name if word not in self.question.words]
        return merit - 0.04 * min(len(others), 8)

    def accuracy(self, crs, usages):
        """The accuracy in metres, in the requested box or else in the area of use; None if unknown."""
        boxes = [self.box] if self.box else [box for _, _, box in usages]
        if not boxes or crs["kind"] in ("vertical", "compound"):
            return None
        return self.database.accuracy(datum_of(crs), self.datum, max(boxes, key=size))

    def row(self, row_id, crs, usages):
        area, _, box = max(usages, key=self.shared, default=(None, "", None))
        named = self.named.get(row_id, {})
        matched = [word for word in self.question.words if named.get(word)]
        matched += ["area of use"] * bool(self.boxes and row_id in self.areas)
        row = {
            "code": f"{crs['auth_name']}:{crs['code']}",
            "name": crs["name"],
            "kind": crs["kind"],
            "property": property_of(crs["method"]),
            "area": area,
            "bbox": box,
            "unit": unit_of(crs),
            "accuracy_m": self.accuracy(crs, usages),
            "matched": matched + [meaning for meaning, fits in self.fits.items() if row_id in fits],
            "deprecated": bool(crs["deprecated"]),
            "replaced_by": [code for _, code in self.database.rows(SUCCESSORS, row_id)],
        }
        return {
            key: value for key, value in row.items() if value or (key == "accuracy_m" and value is not None)
        }

    def shared(self, usage):
        """The fit of an area of use: the size of its part that covers the place; without a place, its own size."""
        return sum(common(usage[2], box) for box in self.boxes) if self.boxes else size(usage[2])


def is_national(crs, usages):
    """True if a projected CRS is for a whole country, not for a zone of a global grid or a part of a country."""
    names = [area for area, _, _ in usages]
    covers_country = any(not PARTIAL.search(name) for name in names)
    return crs["kind"] == "projected" and covers_country and "utm zone" not in crs["name"].lower()


def holds(pattern, text):
    return bool(re.search(pattern, text, re.IGNORECASE))
