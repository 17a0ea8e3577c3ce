"""Which names stand for others, so that what a policy says of an algorithm holds for everything that runs it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Aliases:
    """The names of one toolbox.

    `generic` has algorithms of which only the data tells which other one runs, such as `info` for `raster info` and
    `vector info`. `besides` has, by tool, what its arguments can make of it other than the algorithm that it is most like.
    """

    generic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    besides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def expand(self, name: str) -> tuple[str, ...]:
        """The algorithms that a generic one stands for; none for any other name."""
        return self.generic.get(name, ())

    def resolves_to(self, tool: str, algorithm: str) -> tuple[str, ...]:
        """Every algorithm that a call of a tool may run; `algorithm` is the one that it is, or is most like."""
        expanded = self.expand(tool) or self.expand(algorithm)
        return expanded or (*((algorithm,) if algorithm else ()), *self.besides.get(tool, ()))


NO_ALIASES: Final = Aliases()
