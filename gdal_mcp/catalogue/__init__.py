"""What GDAL can be told, and what of it a client may say.

Pure: nothing here opens a file, a socket or a process, except for the reading of this package's own data
(`load`) and the developer's command that makes it (`capture`, which nothing imports).

    data/gdal-3.13.json   generated from a GDAL: algorithms with every argument, drivers with every option
    data/roles.toml       by hand: the role of every argument, with its reason
    data/options.toml     by hand: which text options of drivers may be set, and to what, with the reason
    data/formats.toml     by hand: formats that are never written, with the reason

Adding an algorithm means naming it in `capture.ALGORITHMS`, generating the data again and giving its arguments
their roles; the catalogue does not load until each has one.
"""
