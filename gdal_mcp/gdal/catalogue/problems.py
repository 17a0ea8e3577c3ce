"""Refusals of several arguments, told together."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from gdal_mcp.errors import Code
from gdal_mcp.gdal.catalogue.errors import ArgumentRefused

MAX_TOLD: Final = 5


@dataclass(slots=True)
class Problems:
    """What was refused so far."""

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
        told = self.found[:MAX_TOLD]
        rest = len(self.found) - len(told)
        message = " ".join(f"({number}) {one.message}" for number, one in enumerate(told, 1))
        suggestion = " ".join(f"({number}) {one.suggestion}" for number, one in enumerate(told, 1))
        codes = [one.code for one in self.found if one.code is not Code.INVALID_ARGUMENT]
        raise ArgumentRefused(
            f"{len(self.found)} arguments are refused: {message}{f' and {rest} more.' if rest else ''}",
            suggestion,
            code=codes[0] if codes else Code.INVALID_ARGUMENT,
        )
