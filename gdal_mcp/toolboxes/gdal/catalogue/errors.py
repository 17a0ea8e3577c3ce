"""Exceptions of the catalogue.

ArgumentRefused        a client's argument may not be passed to GDAL
└── UnknownArgument    the algorithm has no such argument
CatalogueBroken        the packaged data and the hand-written rules do not match; nothing is served
"""

from gdal_mcp.errors import Code, Stage, ToolError


class ArgumentRefused(ToolError):
    """An argument may not be passed to GDAL.

    `code` is INVALID_ARGUMENT by default, and NETWORK_BLOCKED if the argument refers to the network.
    """

    def __init__(self, message: str, suggestion: str = "", *, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(code, Stage.VALIDATE, message, suggestion)


class UnknownArgument(ArgumentRefused):
    """The algorithm has no argument of this name."""


class CatalogueBroken(Exception):
    """The data and the rules do not match: for example an argument without a role, or a patch without its fault."""
