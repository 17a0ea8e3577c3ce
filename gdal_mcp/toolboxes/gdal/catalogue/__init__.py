"""What GDAL accepts, and which part of it clients may use.

Pure: nothing here opens a file, a socket or a process, with three exceptions. `load` reads this package's data,
`store` reads and writes the data of other images, and `capture` and `probing`, which the server never imports, run
programs in an image.

    data/gdal-3.13.json   captured from GDAL: algorithms, pipeline steps, arguments, drivers and options
    data/roles.toml       by hand: the role of every argument, with its reason
    data/patches.toml     by hand: corrections where GDAL describes its own arguments wrongly, with the reason
    data/names.toml       by hand: dataset names that are not plain paths, and file systems that are refused
    data/options.toml     by hand: text options of drivers that may be set, their values, and the reason
    data/formats.toml     by hand: formats that are never written, with the reason

For a newer GDAL, `gdal-mcp catalogue build --image REFERENCE --output
gdal_mcp/toolboxes/gdal/catalogue/data/gdal-3.13.json` regenerates the data and lists every argument that has no role
yet. The catalogue does not load until each has one.
"""
