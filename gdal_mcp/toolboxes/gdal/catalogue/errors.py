"""The catalogue's failures.

ArgumentRefused        a client's argument may not be passed to GDAL
└── UnknownArgument    the algorithm has no such argument
CatalogueBroken        the packaged data and the hand-written rules do not fit together; nothing is served
"""

from gdal_mcp.errors import Code, Stage, ToolError


class ArgumentRefused(ToolError):
    """An argument that is not passed on. `code` is INVALID_ARGUMENT, or NETWORK_BLOCKED where it names the network."""

    def __init__(self, message: str, suggestion: str = "", *, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(code, Stage.VALIDATE, message, suggestion)


class UnknownArgument(ArgumentRefused):
    """The algorithm has no argument of that name."""


class CatalogueBroken(Exception):
    """The data and the rules disagree: an argument without a role, a rule without its argument."""
