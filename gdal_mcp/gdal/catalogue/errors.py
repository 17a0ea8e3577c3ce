"""The catalogue's failures.

ArgumentRefused        a client's argument may not be passed to GDAL
├── CrsRefused         a coordinate reference system that is a file, a URL, or names a grid
└── UnknownArgument    the algorithm has no such argument
CatalogueBroken        the packaged data and the hand-written rules do not fit together; nothing is served
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.errors import Code, Stage, ToolError

MAX_TOLD: Final = 5  # refusals in one message


class ArgumentRefused(ToolError):
    """An argument that is not passed on. `code` is INVALID_ARGUMENT, or NETWORK_BLOCKED where it names the network."""

    def __init__(self, message: str, suggestion: str = "", *, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(code, Stage.VALIDATE, message, suggestion)


class CrsRefused(ArgumentRefused):
    """A CRS in a form that GDAL or PROJ might resolve by opening a file or a URL, or that is no CRS at all."""


class UnknownArgument(ArgumentRefused):
    """The algorithm has no argument of that name."""


class CatalogueBroken(Exception):
    """The data and the rules disagree: an argument without a role, a rule without its argument."""


@dataclass(slots=True)
class Problems:
    """Refusals of several arguments, told together."""

    found: list[ArgumentRefused] = field(default_factory=list)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keeps an ArgumentRefused for later."""
        try:
            yield
        except ArgumentRefused as error:
            self.found.append(error)

    def raise_any(self) -> None:
        """Raises the refusal, or one that tells several."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0]
        shown = self.found[:MAX_TOLD]
        rest = len(self.found) - len(shown)
        message = " ".join(f"({number}) {one.message}" for number, one in enumerate(shown, 1))
        suggestion = " ".join(f"({number}) {one.suggestion}" for number, one in enumerate(shown, 1))
        codes = [one.code for one in self.found if one.code is not Code.INVALID_ARGUMENT]
        raise ArgumentRefused(
            f"{len(self.found)} arguments are refused: {message}{f' and {rest} more.' if rest else ''}",
            suggestion,
            code=codes[0] if codes else Code.INVALID_ARGUMENT,
        )
