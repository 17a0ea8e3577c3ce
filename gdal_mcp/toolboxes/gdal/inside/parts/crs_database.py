"""PROJ's database in the image. All CRSs are in one temporary table, whose row ids identify them here."""

import itertools
import os
import re
import sqlite3
from difflib import get_close_matches
from functools import cache

from osgeo import osr

from gdal_mcp.toolboxes.gdal.inside.parts.crs_words import common, size, words_of
from gdal_mcp.toolboxes.gdal.inside.parts.extents import reference
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet

# properties of maps, and patterns for the names of the projection methods that have them
METHODS = {
    "web": "pseudo.mercator|mercator.auxiliary.sphere",
    "equal-area": "equal.(?:area|earth)|albers|mollweide|sinusoidal|eckert.(?:ii|iv|vi)$|bonne|behrmann|hammer|goode|quartic|craster",
    "equidistant": "equidistant|plate.carree",
    "conformal": "(?<!near.)conformal|mercator|(?<!gall.)stereographic|krovak|new zealand map grid|orthomorphic",
}
PROJECTION = re.compile(r'PROJECTION\["([^"]+)"')  # for the WKT that some CRSs have instead of a conversion
WGS_84 = ("EPSG", "6326")  # the datum's code
# fractions of an area: what an operation must cover at least, and what counts as all of it
MOST, ALL = 0.5, 0.9
SHORT, SIMILAR = 5, 0.84  # minimum length of a corrected word, and minimum similarity
SET_UP = """
pragma temp_store = memory;
create temp table crs as
with axes(auth_name, code, unit, orientation) as materialized (
    select a.coordinate_system_auth_name, a.coordinate_system_code, u.name, a.orientation from axis a
    join unit_of_measure u on u.auth_name = a.uom_auth_name and u.code = a.uom_code where a.coordinate_system_order = 1
)
select v.table_name, v.auth_name, v.code, v.name, v.type kind, v.deprecated, c.name conversion,
    coalesce(m.name, p.text_definition) method, unit, orientation, coalesce(d.name, e.name) datum,
    coalesce(d.auth_name, e.auth_name) datum_auth_name, coalesce(d.code, e.code) datum_code, d.ensemble_accuracy,
    coalesce(d.anchor_epoch, substr(coalesce(d.publication_date, e.publication_date), 1, 4), 0) + 0 year
from crs_view v
left join projected_crs p on v.type = 'projected' and p.auth_name = v.auth_name and p.code = v.code
left join conversion_table c on c.auth_name = p.conversion_auth_name and c.code = p.conversion_code
left join conversion_method m on m.auth_name = c.method_auth_name and m.code = c.method_code
left join geodetic_crs g on v.table_name in ('projected_crs', 'geodetic_crs')
    and g.auth_name = coalesce(p.geodetic_crs_auth_name, v.auth_name) and g.code = coalesce(p.geodetic_crs_code, v.code)
left join geodetic_datum d on d.auth_name = g.datum_auth_name and d.code = g.datum_code
left join vertical_crs h on v.type = 'vertical' and h.auth_name = v.auth_name and h.code = v.code
left join vertical_datum e on e.auth_name = h.datum_auth_name and e.code = h.datum_code
left join axes u
    on u.auth_name = coalesce(p.coordinate_system_auth_name, h.coordinate_system_auth_name, g.coordinate_system_auth_name)
    and u.code = coalesce(p.coordinate_system_code, h.coordinate_system_code, g.coordinate_system_code)
where v.table_name in ('projected_crs', 'geodetic_crs', 'vertical_crs', 'compound_crs')
    and m.name is not 'Transverse Mercator Zoned Grid System' -- PROJ does not have it
;
create index temp.crs_key on crs(table_name, auth_name, code);
create temp table word(pattern);
create temp table area(auth_name text, code integer_or_text, fit, primary key (auth_name, code)) without rowid;
create temp table chosen(id integer primary key);
"""
# names of CRSs, of their datums and of their projections, with the weight of a word in them
TEXTS = """
select * from (
    select rowid, name text, 1.0 weight from crs
    union all select c.rowid, alt_name, 0.95 from alias_name a join crs c using (table_name, auth_name, code)
    union all select rowid, datum, 0.8 from crs
    union all select rowid, conversion || ' ' || method, 0.8 from crs
) where exists (select 1 from word where text like pattern)"""
EXTENTS = """
select auth_name, code, name, description, west_lon, south_lat, east_lon, north_lat from extent
where not deprecated and west_lon is not null and auth_name in ('EPSG', 'ESRI')"""
# `cross join` makes SQLite read the tables in this order
USED = """
select c.rowid, max(fit) from usage u
cross join area a on a.auth_name = u.extent_auth_name and a.code = u.extent_code
cross join crs c on c.table_name = u.object_table_name and c.auth_name = u.object_auth_name and c.code = u.object_code
group by 1"""
USAGES = """
select c.rowid, e.name, s.scope, west_lon, south_lat, east_lon, north_lat
from chosen cross join crs c on c.rowid = id
join usage u on u.object_table_name = c.table_name and u.object_auth_name = c.auth_name and u.object_code = c.code
join extent e on e.auth_name = u.extent_auth_name and e.code = u.extent_code
join scope s on s.auth_name = u.scope_auth_name and s.code = u.scope_code where west_lon is not null"""
COMPOUNDS = """
select c.rowid, count(*) from (
    select 'projected_crs' table_name, horiz_crs_auth_name auth_name, horiz_crs_code code from compound_crs
    union all select 'vertical_crs', vertical_crs_auth_name, vertical_crs_code from compound_crs
) cross join crs c using (table_name, auth_name, code) group by 1"""
SUCCESSORS = """
select r.rowid, r.auth_name || ':' || r.code from crs c
join deprecation d on c.table_name = d.table_name and c.auth_name = d.deprecated_auth_name and c.code = d.deprecated_code
join crs r on r.table_name = d.table_name and r.auth_name = d.replacement_auth_name and r.code = d.replacement_code
where c.rowid = ?"""
GEOGRAPHIC = """
select auth_name, code from geodetic_crs where datum_auth_name = ? and datum_code = ? and type = 'geographic 2D'
order by deprecated, auth_name <> 'EPSG' limit 1"""
OPERATIONS = """
select o.auth_name, o.accuracy, g.grid_name, n.proj_grid_name, n.old_proj_grid_name,
    west_lon, south_lat, east_lon, north_lat
from coordinate_operation_view o
join usage u on u.object_table_name = o.table_name and u.object_auth_name = o.auth_name and u.object_code = o.code
join extent e on e.auth_name = u.extent_auth_name and e.code = u.extent_code
left join grid_transformation g on g.auth_name = o.auth_name and g.code = o.code and o.table_name = 'grid_transformation'
left join grid_alternatives n on n.original_grid_name = g.grid_name
where o.source_crs_auth_name = ? and o.source_crs_code = ? and o.target_crs_auth_name = ? and o.target_crs_code = ?
and not o.deprecated and o.accuracy is not null and o.table_name <> 'concatenated_operation'"""


NAMES = """
select name from crs union select alt_name from alias_name union select name from extent
union select substr(description, 1, 200) from extent"""


class Database:
    """A read-only connection to PROJ's database. Raises LookupError if the image has none."""

    def __init__(self):
        path = installed("proj.db")
        if path is None:
            raise LookupError("this image has no proj.db")
        # immutable: SQLite takes no locks and looks for no journal
        self._connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        self._connection.row_factory = sqlite3.Row
        self._connection.executescript(SET_UP)
        self.operations = cache(self.operations)

    def rows(self, statement, *values):
        return self._connection.execute(statement, values).fetchall()

    def texts(self, words):
        """(row id, text, weight) of each name that contains one of the words."""
        self._connection.execute("delete from word")
        self._connection.executemany("insert into word values ('%' || ? || '%')", [(word,) for word in words])
        return self.rows(TEXTS)

    def used(self, fits):
        """The best fit of each CRS's areas of use, by row id.

        `fits` are tuples of an extent's authority and code, and its fit.
        """
        self._connection.execute("delete from area")
        self._connection.executemany("insert into area values (?, ?, ?)", fits)
        return dict(map(tuple, self.rows(USED)))

    def chosen(self, ids):
        """The rows of CRSs by row id, each with its usages: (area, scope, box)."""
        self._connection.execute("delete from chosen")
        self._connection.executemany("insert into chosen values (?)", [(row_id,) for row_id in ids])
        rows = self.rows("select id, crs.* from chosen join crs on crs.rowid = id")
        by_id = {row["id"]: (row, []) for row in rows}
        for row_id, area, scope, *box in self.rows(USAGES):
            by_id[row_id][1].append((area, scope, tuple(box)))
        return by_id

    def similar(self, words):
        """The most similar word in the names of CRSs and places, by misspelled word.

        The first letter is assumed to be correct.
        """
        known = {word for (name,) in self.rows(NAMES) for word in words_of(name)}
        corrections = {}
        for word in words:
            if len(word) >= SHORT and word.isalpha() and word not in known:
                candidates = [
                    known_word
                    for known_word in known
                    if known_word[0] == word[0] and abs(len(known_word) - len(word)) <= 2
                ]
                corrections.update(
                    (word, match)
                    for match in get_close_matches(word, sorted(candidates), n=1, cutoff=SIMILAR)
                )
        return corrections

    def accuracy(self, datum, other, box):
        """The accuracy in metres of the best transformation for most of an area; None if there is none.

        Transformations that need a missing grid are ignored.
        """
        if datum == other:
            return 0.0
        known = self.operations(datum, other)
        shares = ((min(common(area, box) / size(box), ALL), -metres) for metres, area in known)
        share, metres = max(shares, default=(0.0, 0.0))
        if share >= MOST:
            return -metres
        if WGS_84 in (datum, other):
            return None
        ways = self.accuracy(datum, WGS_84, box), self.accuracy(WGS_84, other, box)
        return None if None in ways else sum(ways)

    def operations(self, datum, other):
        """(accuracy in metres, box) of each operation between two datums that needs no missing grid."""
        ends = itertools.product(self.rows(GEOGRAPHIC, *datum), self.rows(GEOGRAPHIC, *other))
        ways = (way for first, second in ends for way in ((*first, *second), (*second, *first)))
        known = [tuple(row) for way in ways for row in self.rows(OPERATIONS, *way)]
        there = [row for row in known if row[2] is None or any(map(installed, filter(None, row[2:5])))]
        preferred = [row for row in there if row[0] == "EPSG"]  # like PROJ
        return [(row[1], row[5:]) for row in preferred or there]


@cache
def installed(name):
    """The path of one of PROJ's files, or None."""
    paths = (os.path.join(folder, name) for folder in osr.GetPROJSearchPaths())
    return next(filter(os.path.isfile, paths), None)


@cache
def property_of(method):
    """The property of a projection, by a method's name or the WKT of a CRS; None if it has none."""
    if method and "[" in method:
        method = (PROJECTION.search(method) or ("", ""))[1]
    return next(
        (name for name, pattern in METHODS.items() if re.search(pattern, method or "", re.IGNORECASE)), None
    )


def unit_of(crs):
    """The unit of a CRS, from PROJ's table of axes.

    For a projected CRS that is defined by a text, this table has the unit of its base CRS, so the unit is read from
    the CRS itself.
    """
    unit = (crs["unit"] or "").partition(" (")[0]
    if crs["kind"] != "projected" or not unit.startswith("degree"):
        return unit
    with quiet():
        parsed = reference(f"{crs['auth_name']}:{crs['code']}")
    return parsed.GetLinearUnitsName() if parsed is not None else ""
