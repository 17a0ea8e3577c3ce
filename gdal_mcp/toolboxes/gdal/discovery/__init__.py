"""Helps to find what to call: search, descriptions with worked examples, and formats.

Pure, except that it reads this package's own data:

    data/vocabulary.toml  by hand: words that people use and GDAL does not
    data/titles.toml      by hand: names of tools of other programs, by algorithm
    data/examples.toml    by hand: worked calls of every algorithm, and related algorithms
    data/effects.toml     by hand: algorithms that remove files, or update them
    data/prompts.toml     by hand: the texts of the prompts, and their arguments
    data/crs.toml         by hand: the most common CRS codes, for completion
    data/cities.toml      by hand and from IANA: where cities are
    data/sql.toml         by hand: rules, functions by purpose and examples for SQL
    data/functions.toml   every SQL function in GDAL's container

Nothing here decides about a call. Calls found here are checked, resolved and approved like any other.
"""

from functools import partial

from gdal_mcp.toolboxes.gdal import data_of

read = partial(data_of, __name__)
