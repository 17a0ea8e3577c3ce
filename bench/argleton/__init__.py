"""Argleton (https://github.com/argleton/argleton, Apache-2.0): questions to this server whose wrong answers look
right.

`python -m bench.argleton` installs the suite from PyPI into a separate environment and runs it with the two adapters.
An adapter combines tools of the server, as the suite requires: it knows operations, not probes, and calculates
nothing that a tool calculates.
"""
