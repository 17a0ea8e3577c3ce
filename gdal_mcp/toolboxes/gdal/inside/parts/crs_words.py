"""Parses a question for a CRS into the terms of PROJ's database: meanings, names and a place.

The tables contain everyday words and technical terms. None maps a question to a code.
"""

import math
import re
import unicodedata
from collections import defaultdict

from gdal_mcp.toolboxes.gdal.inside.parts.extents import halves

WORD = re.compile(r"[^\W\d_]+|\d+")
# patterns of everyday terms, and the database's terms for them
SPOKEN = (
    (r"\b(?:web|google|spherical|pseudo)[ -]*mercator\b", "wgs 84 pseudo mercator"),
    (r"\bgps\b", "wgs 84"),
    (r"\butm\s*(?:zone\s*)?(\d+)\s*n\w*", r"utm zone \1 n"),
    (r"\butm\s*(?:zone\s*)?(\d+)\s*s\w*", r"utm zone \1 s"),
    (r"\bnztm\b", "new zealand transverse mercator"),
    (r"\bgauss[ -]*boaga\b", "monte mario italy zone"),
    (r"\bstate plane\b|\bspcs\s*(?:83|27)?\b", "spcs"),
    (r"\b(?:whole|entire) (?:world|earth|globe|planet)\b|\bglobal(?:ly)?\b|\bworldwide\b", "world"),
    (r"\b(?:contiguous|conterminous|continental) (?:united states|us|usa)\b|\blower 48\b", "conus"),
    (r"\b(?:mean )?sea level\b", "msl height"),
    (r"\b(?:north pole|arctic ocean)\b", "arctic north"),
    (r"\b(?:south pole|southern ocean|antarctic)\b", "antarctica"),
)
# patterns of properties, kinds and units; matches are removed from the text, so longer patterns come first
MEANINGS = (
    (r"\b(?:ellipsoidal|ellipsoid) heights?\b|\b3 ?d\b", "geographic 3D"),
    (r"\bgeocentric\b|\becef\b|\bearth[ -]cent(?:er|re)d[\w -]*", "geocentric"),
    (r"\blat\w*(?: ?[/,-] ?| and | )?lon\w*|\blon\w*(?: ?[/,-] ?| and | )?lat\w*", "geographic 2D"),
    (r"\bgeographic(?:al)?\b|\bdegrees\b|\bunprojected\b", "geographic 2D"),
    (r"\bequal[ -]?areas?\b|\bequivalent\b|\bareas\b|\barea of\b|\bdensit\w+|\bchoropleth\w*", "equal-area"),
    (
        r"\b(?:measur|comput|calculat|compar|preserv)\w* (?:the )?(?:areas?|surfaces?)\b|\btrue area\b",
        "equal-area",
    ),
    (r"\bconformal\b|\borthomorphic\b|\bangles?\b|\bshapes?\b|\bnavigat\w+|\bbearings?\b", "conformal"),
    (r"\bequidistant\b|\bdistances?\b", "equidistant"),
    (r"\bweb\b|\b(?:slippy|xyz) (?:maps?|tiles?)\b|\bmap tiles?\b|\bopenstreetmap\b|\bosm\b", "web"),
    (r"\bheights?\b|\belevations?\b(?! model)|\bvertical\b|\bgeoid\b|\bdepths?\b", "vertical"),
    (
        r"\b(?:(?:geodetic|horizontal|reference) )*(?:datums?|reference frames?)\b",
        "datum",
    ),
    (
        r"\bft-?us\b|\b(?:us|american)[ -]*(?:survey[ -]*)?(?:feet|foot|ft)\b|\bsurvey f(?:ee|oo)t\b",
        "US survey foot",
    ),
    (r"\binternational f(?:ee|oo)t\b", "international foot"),
    (r"\bfeet\b|\bfoot\b|\bft\b", "foot"),
    (r"\bgrads?\b|\bgons\b|\bin gon\b", "grad"),
    *((rf"\b{unit}s?\b", unit) for unit in ("link", "chain", "yard")),
    (r"\bmet(?:re|er)s?\b", "metre"),
)
# names of units in the database, as SQL LIKE patterns
UNITS = {
    "US survey foot": "US survey foot",
    "international foot": "foot",
    **{unit: f"%{unit}%" for unit in ("foot", "grad", "link", "chain", "yard", "metre")},
}
# ignored words; words in SOFT are part of many names, so their weight is low
IDLE = frozenset(
    """a an and at between by charts code coordinate coordinates crs epsg for from in is map mapping maps measure measuring my of on
    or over projected projection reference srid srs system systems the to use used what which with""".split()
)
SOFT = frozenset("grid national official topographic cadastral survey surveying country".split())
# adjectives and other names of places, and EPSG's names for the places
PLACES = dict(
    pair.split("=")
    for pair in """america=usa|american=usa|us=usa|britain=uk|british=uk|great britain=uk|dutch=netherlands|holland=netherlands|french=france
|swiss=switzerland|spanish=spain|swedish=sweden|danish=denmark|finnish=finland|polish=poland|turkish=turkey|greek=greece|irish=ireland
|portuguese=portugal|norwegian=norway|belgian=belgium|icelandic=iceland|czech republic=czechia|czech=czechia|chinese=china|japanese=japan|welsh=wales
|scottish=scotland|russia=russian federation|russian=russian federation|hungarian=hungary|italian=italy|german=germany|european=europe
|arctic=north of 60 n|bavaria=bayern|hesse=hessen|thuringia=thuringen""".replace("\n", "").split("|")
)
# a word at the end of a part of an area's name that only limits the place
ENDING = re.compile(r" (?:onshore|offshore|mainland)$")
# parts of an area's name that are not places, and parts that only limit a place
GENERAL = re.compile(r"(?:(?:onshore|offshore|mainland|and|by country|including eez) ?)+")
LIMITS = re.compile(r"\d|\bzones?\b|\b(?:east|west|north|south) of\b|^(?:east|west|north|south|central|\w)$")
POLAR = "north of 60 n"
LONG = 3  # letters; words that are not longer are not searched for in descriptions of areas
PART = 2  # the rank of a name that is the beginning of a longer one


def folded(text):
    """The text in lower case and without accents, for comparisons."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def words_of(text):
    return WORD.findall(folded(text))


class CrsQuery:
    """A parsed question for a CRS.

    `exact` has all words of the question, `words` those to look for in names, and `meanings` the requested
    properties, kinds and units.
    """

    def __init__(self, query):
        text = folded(query)
        self.exact, self.meanings = WORD.findall(text), []
        for pattern, replacement in SPOKEN:
            text = re.sub(pattern, replacement, text)
        for pattern, meaning in MEANINGS:
            text, count = re.subn(pattern, " ", text)
            if count and meaning not in self.meanings:
                self.meanings.append(meaning)
        self.zone = (re.search(r"\bzone \d+\b", text) or [""])[0]
        self.words = [word for word in WORD.findall(text) if word not in IDLE]
        self.place = []  # the words that name the place
        self.country = ""  # the name of the place in the database, if the words are the name of an area

    def find_place(self, extents):
        """Sets `place` to the longest run of words that names a place, and returns the boxes of that place.

        The list is empty if no words name a place. `extents` are rows of the database.
        """
        count = len(self.words)
        runs = [self.words[i : i + n] for n in range(count, 0, -1) for i in range(count - n + 1)]
        spelt = [(name, run) for run in runs for name in spellings(" ".join(run))]
        telling = {max(name.split(), key=len) for name, _ in spelt}
        ranked = defaultdict(list)
        for extent in extents:
            text = f"{extent['name']} {extent['description']}".lower()
            if any(word in text for word in telling):
                for rank, name in names_of(extent["name"], extent["description"]):
                    ranked[name].append((rank, extent[4:]))
        for name, run in spelt:
            if name in ranked:
                self.place, self.country = run, name
                return best_boxes(ranked[name])
        return []

    def find_mentioned(self, extents, unknown):
        """Sets `place` to the first of these words that descriptions of areas contain, as the name of a state.

        Returns the boxes of these areas.
        """
        for word in (word for word in unknown if len(word) > LONG):
            pattern = re.compile(rf"\b{re.escape(PLACES.get(word, word))}\b")
            boxes = [extent[4:] for extent in extents if pattern.search(folded(extent["description"]))]
            if boxes:
                self.place = [word]
                return boxes
        return []


def best_boxes(ranked):
    """The boxes of the most certain names.

    For names of rank PART, only the large boxes are used, and boxes around the whole earth only if there are no
    others.
    """
    least = min(rank for rank, _ in ranked)
    boxes = [box for rank, box in ranked if rank == least]
    if least == PART:
        boxes = [box for box in boxes if (box[2] - box[0]) % 360] or boxes
        largest = max(map(size, boxes))
        boxes = [box for box in boxes if size(box) > largest / 3]
    return boxes


def spellings(name):
    """Yields possible spellings of a place in EPSG: Italy for `italian`, Australia for `australian`."""
    yield PLACES.get(name, name)
    if name.endswith("an") and len(name) > 5:
        yield from (name[:-1], name[:-2], name[:-3] + "a", name[:-3])


def names_of(name, description):
    """(rank, name) of each place in an area's name; rank 0 is the most certain."""
    parts = [" ".join(words_of(part)) for part in name.split(" - ")]
    own = [ENDING.sub("", part) for part in parts if not GENERAL.fullmatch(part)]
    ranks = [0] if len(own) == 1 else [PART] * (len(own) - 1) + [1]
    if len(parts) == 1:
        head = re.split(r" - |[.:;]", description)[0]
        heads = re.sub(r"\(.*?\)", "", head), *re.findall(r"\((.*?)\)", head)
        own += [" ".join(words_of(text)) for text in heads]
        ranks = [0] * len(own)
    ranked = zip(ranks, own, strict=False)
    return [(rank, part) for rank, part in ranked if part == POLAR or not LIMITS.search(part)]


# boxes are west, south, east and north in degrees; west > east if a box crosses the antimeridian


def size(box):
    """The size of a box on the earth; 720 for the whole earth."""
    west, south, east, north = box
    return (east - west if east >= west else east - west + 360) * (height(north) - height(south))


def height(latitude):
    return math.sin(math.radians(latitude))


def common(box, other):
    """The size of the intersection of two boxes."""
    south, north = max(box[1], other[1]), min(box[3], other[3])
    if south >= north:
        return 0.0
    widths = (min(a[2], b[2]) - max(a[0], b[0]) for a in halves(box) for b in halves(other))
    return sum(width for width in widths if width > 0) * (height(north) - height(south))


def fit_in(area, box, tight):
    """The fit of an area of use to a box: 1 if they are equal, less if it does not cover the box or is wider."""
    both = common(area, box)
    return both / size(box) * (both / size(area)) ** tight if both else 0.0


def part_in(area, box):
    """The fraction of the smaller of two boxes that lies in the other one."""
    return common(area, box) / min(size(area), size(box))
