"""What a draft would do, before it runs: its estimate, the limit it is certain to break, and what is odd about it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.gdal.catalogue.formats import driver_for
from gdal_mcp.gdal.catalogue.model import Catalogue
from gdal_mcp.gdal.preflight.advice import Advice, advise
from gdal_mcp.gdal.preflight.classic import spoken
from gdal_mcp.gdal.preflight.estimate import Estimate, estimate
from gdal_mcp.gdal.preflight.facts import DatasetFacts, FactsCache, facts_of
from gdal_mcp.gdal.preflight.limits import LimitViolation, violation
from gdal_mcp.gdal.preflight.request import Request
from gdal_mcp.plan import Command, Draft
from sandbox.template import Limits
from sandbox.workspace import Located

_ABOUT: Final = frozenset({"input", "dataset"})  # arguments that name what a call is about; others go with it
_READS: Final = frozenset({"raster read", "vector read"})
_ENDS: Final = {
    "raster write": "raster convert",
    "vector write": "vector convert",
}  # what a last step is like
_CODES: Final = {"memory bytes": Code.MEMORY_LIMIT, "seconds": Code.TIMEOUT}
_CRS_ARGUMENTS: Final = ("output-crs", "bbox-crs")
_MAX_CRS: Final = 4  # that a container is asked about
_MAX_CRS_TEXT: Final = 4096  # characters


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """What can be told of a draft without running it."""

    estimate: Estimate | None = None
    violation: LimitViolation | None = None  # the limit that the call is certain to break
    advice: tuple[Advice, ...] = ()

    @property
    def figures(self) -> Mapping[str, float | None] | None:
        return self.estimate.figures if self.estimate is not None else None


@dataclass(frozen=True)
class Preflight:
    """Judges drafts by the facts of their inputs, which containers told. For several threads.

    How the pipeline uses it:

    * `check(draft)` once the draft is made: judges by what is known already, and costs no container;
    * a call that runs sends `crs_named(draft)` with its request as `crs`; before it works, its worker says what the inputs are
      (`sandbox.protocol.Interim`), and `heard(draft, value)` judges anew. What it raises ends the job: nothing is published;
    * a call that a person is asked about, and `validate_call`, run `description(draft)` first when it is not None: a job that
      only describes the inputs. Its printed JSON goes to `described(draft, rows)`, then `check(draft)` knows more;
    * `learn(located, facts)` for each published output.
    """

    limits: Limits
    catalogue: Catalogue
    known: FactsCache = field(default_factory=FactsCache)

    def within(self, limits: Limits) -> "Preflight":
        """The same knowledge under other limits."""
        return replace(self, limits=limits)

    def look(self, draft: Draft) -> PreflightReport:
        request = self._end_of_chain(draft) or self.request(draft)
        cost = estimate(request)
        broken = violation(cost, self.limits) if cost is not None else None
        return PreflightReport(cost, broken, advise(request) if draft.writes else ())

    def check(self, draft: Draft, stage: Stage = Stage.VALIDATE) -> PreflightReport:
        """As `look`. Raises ToolError for a call that is certain to break a limit."""
        report = self.look(draft)
        if report.violation is not None:
            code = _CODES.get(report.violation.what, Code.DISK_LIMIT)
            raise ToolError(code, stage, report.violation.message, report.violation.suggestion)
        return report

    def heard(self, draft: Draft, value: Mapping[str, Any]) -> PreflightReport:
        """As `check`, by what the worker said of the inputs before it began to work."""
        self._learn_rows(draft.inputs, value.get("inputs"))
        return self.check(draft, Stage.RUN)

    def unknown(self, draft: Draft) -> tuple[Located, ...]:
        """The inputs that no container has described yet, or not in the CRSs that this call names."""
        crs = crs_named(draft)
        return tuple(one for one in draft.inputs if not one.is_folder and not self.known.knows(one, crs))

    def description(self, draft: Draft) -> Draft | None:
        """A call that describes the inputs which are not known yet and prints a list; None where all are known."""
        unknown = self.unknown(draft)
        if not unknown:
            return None
        command = Command(
            "describe", (), tuple(map(str, unknown)), layout="inputs-output", extra={"crs": crs_named(draft)}
        )
        return Draft(command, (), looked_at=unknown, wants_json=True, algorithm="dataset identify")

    def described(self, described: Draft, rows: Any) -> None:
        """Keeps what a call made by `description` printed."""
        self._learn_rows(described.looked_at, rows)

    def learn(self, located: Located, facts: Mapping[str, Any]) -> None:
        """Keeps what a container said of a file that it wrote."""
        self._learn_rows((located,), [{"facts": facts}])

    def _learn_rows(self, files: Sequence[Located], rows: Any) -> None:
        for located, row in zip(files, rows if isinstance(rows, list) else (), strict=False):
            self.known.put(located, facts_of(row, located.identity.size if located.identity else 0))

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
            driver=_driver(draft, self.catalogue) if output else "",
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
        driver = _driver(replace(draft, algorithm=ended, arguments=arguments), self.catalogue)
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

    def _inputs(self, draft: Draft) -> tuple[tuple[DatasetFacts | None, ...], Mapping[str, DatasetFacts]]:
        """The facts of what a draft is about, and those of other datasets by the argument that names them."""
        named = draft.named
        if named is None:
            named = tuple(("input", located) for located in draft.inputs)
        changed = [("input", one.target) for one in draft.outputs if one.update]
        pairs = [(name, self.known.get(located)) for name, located in (*named, *changed)]
        about = tuple(header for name, header in pairs if name in _ABOUT)
        told = Counter(name for name, _ in pairs)  # of two steps: which is meant is not known
        others = {name: header for name, header in pairs if name not in _ABOUT and told[name] == 1}
        return about, {name: header for name, header in others.items() if header is not None}


def crs_named(draft: Draft) -> tuple[str, ...]:
    """The CRSs, as the call spells them, in which it matters where its inputs lie."""
    arguments = draft.arguments
    if draft.command.program != "gdal":
        _, arguments = spoken(draft.command.program, draft.command.options)
    steps = (arguments, *(one for _, one in draft.chain))
    texts = [text for step in steps for name in _CRS_ARGUMENTS for text in step.get(name, ())]
    if any(path == "raster tile" for path in (draft.algorithm, *(path for path, _ in draft.chain))):
        texts += ["EPSG:3857"]
    return tuple(dict.fromkeys(text for text in texts if len(text) <= _MAX_CRS_TEXT))[:_MAX_CRS]


def _trust(arguments: Mapping[str, tuple[str, ...]]) -> float:
    """What of the facts is certain: an open option may choose another size or part of the file."""
    return 0.0 if arguments.get("open-option") else 1.0


def _of_step(
    others: Mapping[str, DatasetFacts], arguments: Mapping[str, tuple[str, ...]]
) -> dict[str, DatasetFacts]:
    return {name: header for name, header in others.items() if name in arguments}


def _driver(draft: Draft, catalogue: Catalogue) -> str:
    """The format of the output: the one that is named, else the one that its name means."""
    given = draft.arguments.get("output-format")
    algorithm = catalogue.algorithms.get(draft.algorithm)
    if given:
        return given[0]
    kind = (algorithm.makes or algorithm.kind) if algorithm else "raster"
    assert draft.output is not None
    return driver_for(catalogue, draft.output.target.name, kind) or ""
