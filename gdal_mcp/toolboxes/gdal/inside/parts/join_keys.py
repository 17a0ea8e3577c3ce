"""Finds keys of a LEFT JOIN that the other table has only in another spelling, so that their rows get NULLs."""

import unicodedata
from collections import Counter

from osgeo import ogr

from gdal_mcp.toolboxes.gdal.inside.parts.joins import columns_of

MOST_KEYS = 20_000  # different keys of a table


def alike_keys(counting):
    """Reports keys without a match that differ from a key of the other table only in case, spaces or Unicode form."""
    failed = counting.failed
    joined = [item for item in counting.items if item["joined"] == "LEFT"]
    counting.failed = any(item["keys"] and not item["pairs"] for item in joined)  # of a NATURAL JOIN
    named = [(item, key_columns(counting, item, pair)) for item in joined for pair in item["pairs"]]
    counts = [len(misspelled(counting, item, *texts)) for item, texts in named if texts]
    if counting.failed:
        yield {"code": "checks_skipped", "skipped": ["keys_alike"]}
    if any(counts):
        yield {"code": "keys_alike", "count": max(counts)}
    counting.failed = failed


def key_columns(counting, item, pair):
    """The two columns of a comparison as SQL: that of an earlier table, and that of the joined table.

    None if they are not texts of these two tables; the check fails if it is not known of which tables they are.
    """
    aliases = {other["name"]: other["alias"] for other in counting.items}
    texts = {}
    for table, name in pair:
        owners = counting.owners_of([[table, name]])
        if owners and columns_of(counting.layer_of(owners[0])).get(name) != ogr.OFTString:
            return None
        texts[table or (owners[0]["name"] if owners else "")] = name
    counting.failed |= not texts.keys() <= aliases.keys()
    others = [table for table in texts if table != item["name"]]
    if counting.failed or len(texts) != 2 or len(others) != 1:
        return None
    return [f'{aliases[table]}."{texts[table]}"' for table in (*others, item["name"])]


def misspelled(counting, item, left, right):
    """The keys of `left` without a match for which the joined table has one key in another spelling."""
    alone = counting.rows(condition=f"{left} IS NOT NULL AND {right} IS NULL")
    keys = counting.texts(left, alone, MOST_KEYS)
    others = counting.texts(right, item["text"], MOST_KEYS) if keys else ()
    # if the other table itself distinguishes two spellings, none of them is plainly the same key
    spellings = Counter(map(folded, others))
    return [key for key in keys if key not in others and spellings[folded(key)] == 1]


def folded(text):
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).strip()
