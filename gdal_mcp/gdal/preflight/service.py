"""Foresight on drafts: what a call would cost, which limit it is certain to break, and what is odd about it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.catalogue.formats import driver_for
from gdal_mcp.gdal.catalogue.load import catalogue
from gdal_mcp.gdal.preflight.advice import Advice, advise
from gdal_mcp.gdal.preflight.cache import HeaderCache
from gdal_mcp.gdal.preflight.classic import spoken
from gdal_mcp.gdal.preflight.described import header_of_description
from gdal_mcp.gdal.preflight.estimate import Estimate, estimate
from gdal_mcp.gdal.preflight.excess import Excess, excess
from gdal_mcp.gdal.preflight.header import Header
from gdal_mcp.gdal.preflight.request import Request
from gdal_mcp.plan import Draft
from sandbox.template import Limits
from sandbox.workspace import Located

_ABOUT = frozenset({"input", "dataset"})  # arguments that name what a call is about; others go with it
_READS = frozenset({"raster read", "vector read"})
_ENDS = {"raster write": "raster convert", "vector write": "vector convert"}  # what a last step is like
_CODES = {"memory bytes": Code.MEMORY_LIMIT, "seconds": Code.TIMEOUT}


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What can be told of a draft without running it."""

    request: Request
    estimate: Estimate | None
    excess: Excess | None
    advice: tuple[Advice, ...]


@dataclass(frozen=True)
class Foresight:
    """Knows the limits, and the headers of the files that were looked at. For several threads."""

    limits: Limits
    headers: HeaderCache = field(default_factory=HeaderCache)

    def look(self, draft: Draft) -> Foreseen:
        request = self._end_of_chain(draft) or self.request(draft)
        cost = estimate(request)
        broken = excess(cost, self.limits) if cost is not None else None
        return Foreseen(request, cost, broken, advise(request) if draft.writes else ())

    def check(self, draft: Draft) -> Foreseen:
        """What can be told of a draft. Raises ToolError when it is certain to break a limit."""
        seen = self.look(draft)
        if seen.excess is not None:
            code = _CODES.get(seen.excess.what, Code.DISK_LIMIT)
            raise ToolError(code, Stage.VALIDATE, seen.excess.message, seen.excess.suggestion)
        return seen

    def request(self, draft: Draft) -> Request:
        algorithm, arguments = draft.algorithm, draft.arguments
        if draft.command.program != "gdal":
            algorithm, arguments = spoken(draft.command.program, draft.command.options)
        about, others = self._inputs(draft)
        output = draft.output
        return Request(
            algorithm=algorithm,
            arguments=arguments,
            inputs=about,
            others=others,
            driver=_driver(draft) if output else "",
            output=output.target.name if output else "",
            updates=any(one.update for one in draft.outputs),
            trust=_trust(arguments),
            limits=self.limits,
        )

    def _end_of_chain(self, draft: Draft) -> Request | None:
        """What a pipeline ends with, on the raster that its steps would make; None where that cannot be told."""
        if not draft.chain or draft.output is None:
            return None
        about, others = self._inputs(draft)
        first, opened = draft.chain[0]
        # a step that joins its inputs makes another raster than the first of them is
        header = about[0] if about and first in _READS else None
        trust = _trust(opened)
        for path, arguments in draft.chain[1:-1]:
            with_it = _of_step(others, arguments)
            step = estimate(Request(path, arguments, (header,), with_it, trust=trust, limits=self.limits))
            header, trust = (step.output, step.certain) if step is not None else (None, 0.0)
        path, arguments = draft.chain[-1]
        name = draft.output.target.name
        ended = _ENDS.get(path, path)
        driver = _driver(replace(draft, algorithm=ended, arguments=arguments))
        return Request(
            algorithm=ended,
            arguments=arguments,
            inputs=(header,),
            others=_of_step(others, arguments),
            driver=driver,
            output=name,
            trust=trust,
            limits=self.limits,
        )

    def _inputs(self, draft: Draft) -> tuple[tuple[Header | None, ...], Mapping[str, Header]]:
        """The headers of what a draft is about, and those of other datasets by the argument that names them."""
        named = draft.named
        if named is None:
            named = tuple(("input", located) for located in draft.inputs)
        changed = [("input", one.target) for one in draft.outputs if one.update]
        pairs = [(name, self.headers.get(located)) for name, located in (*named, *changed)]
        about = tuple(header for name, header in pairs if name in _ABOUT)
        told = Counter(name for name, _ in pairs)  # of two steps: which is meant is not known
        others = {name: header for name, header in pairs if name not in _ABOUT and told[name] == 1}
        return about, {name: header for name, header in others.items() if header is not None}

    def learn(self, located: Located, facts: Mapping[str, Any]) -> None:
        """Remembers what a container said of a file."""
        size = located.identity.size if located.identity else 0
        header = header_of_description(facts, size)
        if header is not None:
            self.headers.put(located, header)


def _trust(arguments: Mapping[str, tuple[str, ...]]) -> float:
    """What of a header is certain: an open option may choose another size or part of the file."""
    return 0.0 if arguments.get("open-option") else 1.0


def _of_step(others: Mapping[str, Header], arguments: Mapping[str, tuple[str, ...]]) -> dict[str, Header]:
    return {name: header for name, header in others.items() if name in arguments}


def _driver(draft: Draft) -> str:
    """The format of the output: the one that is named, else the one that its name means."""
    given = draft.arguments.get("output-format")
    algorithm = catalogue().algorithms.get(draft.algorithm)
    if given:
        return given[0]
    kind = (algorithm.makes or algorithm.kind) if algorithm else "raster"
    assert draft.output is not None
    return driver_for(catalogue(), draft.output.target.name, kind) or ""
