"""Argleton (https://github.com/argleton/argleton, Apache-2.0): questions whose wrong answer looks right, asked of this server.

`python -m bench.argleton` installs the suite from PyPI into an environment of its own and runs it with the two adapters. An
adapter composes tools of the server, as the suite asks for: it knows operations, not probes, and calculates nothing that a
tool calculates.
"""
