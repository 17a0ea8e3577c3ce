"""What GDAL takes, and which part of it a client may use.

Pure: nothing here opens a file, a socket or a process, except for the reading of this package's own data (`load`),
of what was stored for another GDAL (`store`), and the asking of an image (`capture`), which the server never imports.

    data/gdal-3.13.json   generated from a GDAL: algorithms and pipeline steps with every argument, drivers with every option
    data/roles.toml       by hand: the role of every argument, with its reason
    data/patches.toml     by hand: where GDAL describes its own arguments wrongly, with the reason
    data/names.toml       by hand: the names of datasets that may stand for a path
    data/options.toml     by hand: which text options of drivers may be set, and to what, with the reason
    data/formats.toml     by hand: formats that are never written, with the reason

For a newer GDAL: `gdal-mcp catalogue build --image REFERENCE --output gdal_mcp/toolboxes/gdal/catalogue/data/gdal-3.13.json` writes the data
again and lists every argument that has no role yet; the catalogue does not load until each has one.
"""
