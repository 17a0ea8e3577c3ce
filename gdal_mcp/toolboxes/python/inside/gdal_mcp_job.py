"""The data of a call, for its code: `from gdal_mcp_job import inputs, outputs, arguments, progress, result`"""

inputs = {}  # path in the call -> path to read
outputs = {}  # name in the call -> path to write
arguments = {}  # the call's own values


def progress(fraction, message=""):
    """Reports progress, 0 to 1."""


def result(value):
    """Returns a value as JSON."""
