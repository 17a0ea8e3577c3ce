"""The layers of several files as tables of one virtual dataset."""

import json
import os
from html import escape
from itertools import islice

from osgeo import gdal, ogr

from gdal_mcp.toolboxes.gdal.inside.parts.beside import HIDE_STORED_COUNTS, in_wal_mode, pending, stale_counts
from gdal_mcp.toolboxes.gdal.inside.parts.reporting import quiet
from gdal_mcp.toolboxes.gdal.inside.parts.tables import fields, layers_of

FIRST_ROWS = 1000  # rows of a CSV that are searched for booleans
DATABASES = ("GPKG", "SQLite")


SOURCE = "source of "  # prefix of the name under which a table is read from its file


class Tables:
    """The layers of all files as tables of one dataset.

    The only layer of a file is named ALIAS, one of several layers ALIAS_LAYER. A layer's own name also works if it is
    unique.
    """

    def __init__(self, files):
        self._sources, self._texts, own = {}, {}, {}
        for alias, path in files:
            options = open_options(path)
            dataset = gdal.OpenEx(path, gdal.OF_VECTOR | gdal.OF_VERBOSE_ERROR, open_options=options)
            if dataset is None:
                raise RuntimeError(f"{os.path.basename(path)} has no readable layers")
            layers = layers_of(dataset)
            for layer in layers:
                name, source = layer.GetName(), source_xml(path, layer, options)
                self._texts[source] = matched_by_gdal(dataset, layer)
                self._add(alias if len(layers) == 1 else f"{alias}_{name}", source)
                own.setdefault(name.lower(), []).append((name, source))
        for same_named in own.values():
            if len(same_named) == 1:
                self._add(*same_named[0])
        named = [(called, xml) for name, xml in self._sources.values() for called in (name, SOURCE + name)]
        layers = "".join(f'<OGRVRTLayer name="{escape(called)}">{xml}' for called, xml in named)
        self.dataset = gdal.OpenEx(f"<OGRVRTDataSource>{layers}</OGRVRTDataSource>", gdal.OF_VECTOR)
        if self.dataset is None:
            raise RuntimeError("the layers of these files cannot be combined into one dataset")
        # if GDAL opened it during a statement, it would open the database for writing, which fails on read-only files
        for layer in layers_of(self.dataset) if any(in_wal_mode(path) for _, path in files) else ():
            layer.GetLayerDefn()

    def _add(self, name, source):
        self._sources.setdefault(name.lower(), (name, source))

    def read_first(self, outline, *, rows):
        """The tables of a WITH clause, with the rowid if `rows`; "" if SQLite can read the layers directly.

        If a table is read twice, every table is read once, into memory. If texts are compared, SQLite gets all rows,
        because GDAL ignores upper and lower case in `=` and not in LIKE, and SQLite does the opposite. A statement
        that the host could not parse may read any table, so all tables are included.
        """
        reads = outline["reads"] if outline is not None else dict.fromkeys(self._sources, 2)
        own = set(outline["own_tables"]) if outline is not None else set()
        names = [name for name in self._sources if name in reads]
        twice = sum(reads[name] for name in names) > 1 or any(reads.get(name, 0) > 1 for name in own)
        matched = outline is not None and any(
            not self._texts[self._sources[name][1]].isdisjoint(outline["matched"]) for name in names
        )
        if own & set(names) or not (names and (twice or matched)):
            return ""
        # SQLite passes no conditions on to a subquery with a LIMIT, and reads it row by row
        how, end = ("MATERIALIZED ", "") if twice else ("", " LIMIT -1")
        ids = "rowid AS rowid, " if rows else ""
        named = (self._sources[name][0].replace('"', '""') for name in names)
        tables = (f'"{name}" AS {how}(SELECT {ids}* FROM "{SOURCE}{name}"{end})' for name in named)  # noqa: S608 - names of layers
        return ", ".join(tables)


def matched_by_gdal(dataset, layer):
    """The lower-case names of the text columns whose conditions GDAL evaluates itself; empty for databases."""
    if dataset.GetDriver().ShortName in DATABASES:
        return set()
    texts = (field for field in fields(layer.GetLayerDefn()) if field.GetType() == ogr.OFTString)
    return {field.GetName().lower() for field in texts}


def open_options(path):
    options = csv_open_options(path) if path.lower().endswith((".csv", ".tsv")) else []
    if in_wal_mode(path) and not pending(path):
        options.append("IMMUTABLE=YES")
    if stale_counts(path):
        options.append(f"PRELUDE_STATEMENTS={HIDE_STORED_COUNTS}")
    return options


def csv_open_options(path):
    """Open options that detect the types of a CSV's columns; numbers with leading zeros stay text.

    GDAL also reads Y, N, T, F, on and off as booleans. Columns with these values stay text, because N can mean north.
    """
    options = [
        "AUTODETECT_TYPE=YES",
        "AUTODETECT_SIZE_LIMIT=0",
    ]  # types are detected from all rows, not only from the first megabyte
    with quiet():
        detected, plain = (gdal.OpenEx(path, gdal.OF_VECTOR, open_options=how) for how in (options, []))
        if detected is None or plain is None:
            return options
        layer, named = plain.GetLayer(0), fields(detected.GetLayer(0).GetLayerDefn())
        switches = {
            i: field.GetName() for i, field in enumerate(named) if field.GetSubType() == ogr.OFSTBoolean
        }
        words = {i: set() for i in switches}
        for feature in islice(layer, FIRST_ROWS if switches else 0):
            for i, distinct in words.items():
                distinct.add(feature.GetFieldAsString(i).strip().lower())
    texts = [name for i, name in switches.items() if not words[i] <= {"true", "false", ""}]
    if not texts:
        return options
    columns = [{"name": name, "type": "String", "subType": "None"} for name in texts]
    return [*options, f"OGR_SCHEMA={json.dumps({'layers': [{'name': layer.GetName(), 'fields': columns}]})}"]


def source_xml(path, layer, options):
    """A layer's VRT XML after its opening tag. The geometry column of every table is called geom."""
    pairs = (option.split("=", 1) for option in options)
    opening = "".join(f'<OOI key="{key}">{escape(value, quote=False)}</OOI>' for key, value in pairs)
    types = f"<OpenOptions>{opening}</OpenOptions>" if options else ""
    geometry = '<GeometryField name="geom"/>' if layer.GetLayerDefn().GetGeomFieldCount() == 1 else ""
    place = f'<SrcDataSource shared="1">{escape(path, quote=False)}</SrcDataSource>{types}'
    return f"{place}<SrcLayer>{escape(layer.GetName(), quote=False)}</SrcLayer>{geometry}</OGRVRTLayer>"
