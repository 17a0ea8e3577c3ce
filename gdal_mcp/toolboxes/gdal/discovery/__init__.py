"""Finding what to call: search, descriptions with worked examples, formats. Pure but for reading this package's own data.

    data/vocabulary.toml  by hand: what people say and GDAL does not
    data/examples.toml    by hand: worked calls of every algorithm, and what goes with it
    data/effects.toml     by hand: algorithms that take files away
    data/prompts.toml     by hand: the texts of the prompts, and their arguments
    data/crs.toml         by hand: codes that people type most, for completions

Nothing here decides on a call. What is found is checked, resolved and approved like any other call.
"""

from functools import partial

from gdal_mcp.toolboxes.gdal import data_of

read = partial(data_of, __name__)
