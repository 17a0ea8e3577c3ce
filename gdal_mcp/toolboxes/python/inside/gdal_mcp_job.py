"""What a call gave to its code. `from gdal_mcp_job import inputs, outputs, arguments, progress, result`"""

inputs = {}  # path as the call named it -> path to read
outputs = {}  # name as the call declared it -> path to write
arguments = {}  # the call's own values


def progress(fraction, message=""):
    """Reports progress, 0 to 1."""


def result(value):
    """Returns a value as JSON."""
