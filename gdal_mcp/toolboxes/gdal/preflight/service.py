"""Examines drafts before they run: their cost, limits that they would break, and likely mistakes."""

import os.path
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft, PrintedOutput, Work
from gdal_mcp.remote.places import label
from gdal_mcp.toolboxes.gdal.answers.transformations import operations_of
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.algorithm_calls import MAIN_INPUTS, calls_of
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, distinct
from gdal_mcp.toolboxes.gdal.preflight.checks import (
    cells,
    crs,
    fields,
    kinds,
    raster,
    sql,
    transformations,
    unexamined,
    values,
    vector,
)
from gdal_mcp.toolboxes.gdal.preflight.contradictions import contradictions
from gdal_mcp.toolboxes.gdal.preflight.description import (
    FAILED,
    absent_format,
    description_request,
    every_crs,
)
from gdal_mcp.toolboxes.gdal.preflight.estimate import (
    Estimate,
    LimitViolation,
    estimate,
    uncertain_space,
    violation,
)
from gdal_mcp.toolboxes.gdal.preflight.expected import expected
from gdal_mcp.toolboxes.gdal.preflight.facts import SELF_CONTAINED, DatasetFacts, FactsCache, facts_of
from gdal_mcp.toolboxes.gdal.preflight.predict import gaps, predicted
from gdal_mcp.toolboxes.gdal.preflight.suggested_calls import with_suggested_call
from gdal_mcp.toolboxes.preflight import Report
from sandbox.template import Limits
from sandbox.workspace import WorkspacePath

_CODES: Final = {"memory bytes": Code.MEMORY_LIMIT, "seconds": Code.TIMEOUT}
_CHECKS: Final = (*crs.CHECKS, *raster.CHECKS, *cells.CHECKS, *vector.CHECKS, *fields.CHECKS, *sql.CHECKS)


@dataclass(frozen=True, slots=True)
class PreflightReport(Report):
    """The result of examining a draft."""

    findings: tuple[Finding, ...] = ()
    estimate: Estimate | None = None
    violation: LimitViolation | None = None  # a limit that the call certainly exceeds

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.refuses)


@dataclass(frozen=True)
class Preflight:
    """Examines drafts using the facts of their inputs, which containers reported. Thread-safe.

    How the pipeline uses it:

    * `check(draft)` after the draft is made: uses known facts and starts no container;
    * a call that runs sends `crs_to_describe(draft)` with its request as `crs`. Before its worker executes the job,
      it describes the inputs (`sandbox.protocol.Interim`), and `check_described(draft, value)` checks again. An error
      raised there ends the job, and nothing is published;
    * a call that needs a person's approval, and `validate_call`, first run `description(draft)` if it is not None: a
      job that only describes the inputs. Its JSON output is passed to `described(look.looked_at, rows)`, after which
      `check(draft, described=True)` has these facts, and reports the inputs that still have none;
    * `learn(located, facts)` for each published output.
    """

    limits: Limits
    catalogue: Catalogue
    known: FactsCache = field(default_factory=FactsCache)

    def within(self, limits: Limits) -> "Preflight":
        """A Preflight with the same facts and other limits."""
        return replace(self, limits=limits)

    def look(self, draft: Draft, *, described: bool = False) -> PreflightReport:
        """Examines a draft with the known facts.

        With `described`, a container has been asked to describe the inputs, so what is still unknown is reported.
        """
        calls = self._calls(draft)
        cost = estimate(calls[-1])
        broken = violation(cost, self.limits) if cost is not None else None
        changed = self._changes(draft)
        all_findings = list(self._findings(calls, draft)) if is_judged(draft, self.catalogue) else []
        all_findings += transformations.findings(changed, draft)
        known = [facts for located in examined_files(draft) if (facts := self.known.get(located)) is not None]
        all_findings += crs.unknown_crs(every_crs(draft), known)
        all_findings += self._of_pixels(draft)
        all_findings += values.of_aspect(draft.work.steps)
        inputs = [self.known.get(located) for located in draft.inputs]
        all_findings += kinds.findings(draft, zip(draft.inputs, inputs, strict=True), self.catalogue)
        all_findings += sql.layers_as_table(draft, inputs) if draft.command.program == "query" else ()
        all_findings += transformations.unexamined_changes(draft, self.catalogue)
        undescribed = self._undescribed(draft) if described else None
        all_findings += unexamined.findings(draft, undescribed, self._described_inputs(draft), self.catalogue)
        all_findings += unexamined.space(uncertain_space(cost, self.limits) if cost is not None else None)
        all_findings = [
            with_suggested_call(finding, draft, calls[0].path, self.catalogue) for finding in all_findings
        ]
        figures, operations = cost.figures if cost else None, operations_of([change for change, _ in changed])
        return PreflightReport(figures, distinct(all_findings), *operations, cost, broken)

    def _findings(self, calls: Sequence[AlgorithmCall], draft: Draft) -> Iterator[Finding]:
        """The findings of each step of a pipeline, with the number of the step."""
        first = len(draft.work.chain) - len(calls)  # the read step is not among the calls
        for number, call in enumerate(calls, first):
            for finding in findings(call):
                yield replace(finding, step=number) if len(draft.work.chain) > 1 else finding

    def _of_pixels(self, draft: Draft) -> Iterator[Finding]:
        """Findings from the pixel probes of each input."""
        wanted = values.pixel_probes(draft, self.catalogue)
        described = self._described_inputs(draft)
        for number, facts in described if wanted else ():
            if facts is not None:
                looks = {name: facts.looks.get(name) or {} for name in wanted}
                merges = draft.command.program == "gdal_merge"
                for finding in values.findings(looks, facts.nodata, draft.work.steps, merges=merges):
                    yield replace(finding, inputs=(number,)) if len(described) > 1 else finding

    def _undescribed(self, draft: Draft) -> tuple[int, ...]:
        """The numbers of the inputs that no container has described."""
        numbered = enumerate(examined_files(draft))
        return tuple(number for number, file in numbered if not (file.is_folder or self.known.knows(file)))

    def _described_inputs(self, draft: Draft) -> Sequence[tuple[int, DatasetFacts | None]]:
        return list(enumerate(map(self.known.get, examined_files(draft))))

    def _changes(self, draft: Draft) -> Sequence[tuple[Mapping[str, Any], tuple[int, ...]]]:
        """Each change of CRS in the call, with the numbers of its inputs if the call has several."""
        mains = {located for name, located in draft.work.named or () if name in MAIN_INPUTS} or {
            *draft.inputs
        }
        numbered = [(number, located) for number, located in enumerate(draft.inputs) if located in mains]
        changes: dict[str, tuple[Mapping[str, Any], list[int]]] = {}
        for source, change in transformations.crs_changes_by_input(draft, self.catalogue):
            for number, located in inputs_named(source, numbered):
                facts = self.known.get(located)
                if facts and (change_facts := facts.changes.get(transformations.key(change))):
                    changes.setdefault(repr(change_facts), (change_facts, []))[1].append(number)
        several = len(draft.inputs) > 1
        return [(change, tuple(dict.fromkeys(at)) if several else ()) for change, at in changes.values()]

    def check(
        self, draft: Draft, stage: Stage = Stage.VALIDATE, *, described: bool = False
    ) -> PreflightReport:
        """Like `look`. Raises ToolError if the call is certain to break a limit, or if a finding refuses it."""
        report = self.look(draft, described=described)
        if (broken := report.violation) is not None:
            code = _CODES.get(broken.what, Code.DISK_LIMIT)
            raise ToolError(code, stage, broken.message, broken.suggestion)
        if report.refusals:
            first = report.refusals[0]
            # the error itself contains these texts
            check = {
                key: value for key, value in first.as_dict().items() if key not in ("message", "suggestion")
            }
            raise ToolError(Code.INVALID_ARGUMENT, stage, first.message, first.suggestion, check=check)
        return report

    def check_described(self, draft: Draft, value: Mapping[str, Any]) -> PreflightReport:
        """Like `check`, with the description of the inputs that the worker sends before it executes the job."""
        self.described(examined_files(draft), value.get("inputs"))
        return self.check(draft, Stage.RUN, described=True)

    def description(self, draft: Draft) -> Draft | None:
        """The job that describes inputs and files to be replaced without sufficient facts; None if there are none.

        Facts are sufficient if a container described the file, and in all CRSs that the draft names.
        """
        return self.describing((draft,), draft.inputs)

    def describing(self, drafts: Sequence[Draft], inputs: Iterable[WorkspacePath]) -> Draft | None:
        """Like `description`, as one job for several drafts that use these inputs or results made from them."""
        request: dict[str, Any] = {"crs": (), "changes": (), "looks": ()}
        for draft in drafts:
            for name, entries in description_request(draft, self.catalogue).items():
                request[name] += tuple(entry for entry in entries if entry not in request[name])
        keys = request["crs"], tuple(map(transformations.key, request["changes"])), request["looks"]
        outputs = [output for draft in drafts for output in draft.outputs]
        replaced = [
            output.target for output in outputs if output.target.identity and output.kind == "dataset"
        ]
        request["ranges"] = tuple(map(str, replaced))
        files = dict.fromkeys((*inputs, *replaced))
        unknown = tuple(
            located for located in files if not located.is_folder and not self.known.knows(located, *keys)
        )
        if not unknown:
            return None
        return Draft(
            Command("describe", (), tuple(map(str, unknown)), extra=request),
            (),
            looked_at=unknown,
            addresses=tuple(dict.fromkeys(address for draft in drafts for address in draft.addresses)),
            work=Work("dataset identify"),
            printed=PrintedOutput(is_json=True),
        )

    def learn(
        self, located: WorkspacePath, facts: Mapping[str, Any], predicted: DatasetFacts | None = None
    ) -> None:
        """Stores a container's description of a written file, which lacks field names; those are from `predicted`."""
        self.described((located,), [{"facts": facts}])
        known = self.known.get(located)
        if predicted is not None and known is not None:
            self.known.put(located, replace(known, schema=predicted.schema))

    def kind_of(self, located: WorkspacePath) -> str:
        """A summary of a file for an approval question; "" if no container described it."""
        return _numbers(self.known.get(located))

    def becomes(self, draft: Draft) -> str:
        """A summary of the output, as far as it can be predicted; else ""."""
        cost = self.look(draft).estimate
        if cost is not None and cost.output is not None:
            return _numbers(cost.output)
        first = self.known.get(draft.inputs[0]) if draft.inputs else None
        return _numbers(replace(first, driver="")) if first and "features" in expected(draft) else ""

    def predicted(self, draft: Draft) -> DatasetFacts | None:
        """The predicted facts of the first output; None if they cannot be predicted."""
        return predicted(self._calls(draft)) if draft.outputs else None

    def assume(self, located: WorkspacePath, facts: DatasetFacts | None) -> None:
        """Stores predicted facts for a file that does not exist yet and has an empty placeholder."""
        self.known.put(located, facts)

    def contradictions(
        self, predicted: DatasetFacts | None, facts: Mapping[str, Any]
    ) -> Mapping[str, tuple[str, str]]:
        """The predicted facts that the description of the written file contradicts, by name.

        Each value is the predicted and the actual fact.
        """
        actual = facts_of({"facts": facts})
        return contradictions(predicted, actual) if predicted is not None and actual is not None else {}

    def gaps(self, draft: Draft, located: WorkspacePath) -> tuple[str, ...]:
        """Facts of an input that the checks need and the prediction lacks, as nouns."""
        facts = self.known.get(located)
        return gaps(facts, self._calls(draft)[-1]) if facts is not None else ()

    def unknown(self, draft: Draft) -> tuple[WorkspacePath, ...]:
        """The inputs without facts. Folders are left out, because they are not described."""
        return tuple(
            located
            for located in examined_files(draft)
            if not located.is_folder and self.known.get(located) is None
        )

    def names_others(self, located: WorkspacePath) -> bool:
        """True if a file may refer to other files.

        False for folders, for files that could not be described, and for formats that store everything in the file
        and its sidecar files.
        """
        facts = self.known.get(located)
        if facts is None:
            return not (located.is_folder or self.known.knows(located))
        return facts.driver not in SELF_CONTAINED

    def size_of(self, located: WorkspacePath) -> int:
        """The size of a file in bytes, from its description; 0 if there is none."""
        facts = self.known.get(located)
        return facts.disk_bytes if facts is not None else 0

    def described(self, files: Sequence[WorkspacePath], rows: Any) -> None:
        """Stores descriptions of files. Raises FormatAbsent if the container's GDAL lacks the format of a file.

        A file without a description stays unknown: one without a row, and one whose row says that describing it failed.
        """
        for located, row in zip(files, rows if isinstance(rows, list) else (), strict=False):
            if row == FAILED:
                self.known.forget(located)
                continue
            if (lacks := absent_format(self.catalogue, located.name, row)) is not None:
                raise lacks
            if located.identity:
                size = located.identity.size
            else:  # remote data has no local size
                facts = row.get("facts") if isinstance(row, Mapping) else None
                count = facts.get("bytes") if isinstance(facts, Mapping) else None
                size = count if type(count) is int and 0 <= count < 1 << 62 else 0
            self.known.put(located, facts_of(row, size))

    def _calls(self, draft: Draft) -> list[AlgorithmCall]:
        return calls_of(draft, self.known, self.catalogue, self.limits)


def inputs_named(
    source: str, inputs: Sequence[tuple[int, WorkspacePath]]
) -> Sequence[tuple[int, WorkspacePath]]:
    """The inputs that the call spells as `source`, with their numbers.

    All inputs if that is uncertain, for example for a path with a driver prefix.
    """
    path = os.path.normpath(source)
    matches = [
        (number, located)
        for number, located in inputs
        if source in (str(located), label(located))
        or path in (str(located), str(getattr(located, "relative", "")))
    ]
    return matches if source and matches else inputs


def examined_files(draft: Draft) -> tuple[WorkspacePath, ...]:
    """The inputs, and files that are changed in place."""
    return (*draft.inputs, *(output.target for output in draft.outputs if output.update))


def _numbers(facts: DatasetFacts | None) -> str:
    if facts is None:
        return ""
    features = "unknown number of" if facts.features is None else facts.features
    geometry = {"": "", "None": "no geometry"}.get(facts.geometry, facts.geometry)
    pixels = f"{facts.width} x {facts.height}, {facts.bands} band{'s'[: facts.bands != 1]}"
    place = f"within {' '.join(f'{number:.9g}' for number in facts.extent)}" if facts.extent else ""
    size = [pixels, facts.data_type] if facts.kind == "raster" else [geometry, f"{features} features"]
    values = f"values {facts.values[0]:.6g} to {facts.values[1]:.6g}" if facts.values else ""
    return ", ".join(filter(None, (facts.driver, *size, values, facts.crs, place)))


def is_judged(draft: Draft, catalogue: Catalogue) -> bool:
    """True if a call writes, runs SQL, reads at a position or changes a CRS, so that its result can be wrong."""
    asks = any(
        {"sql", "where", "position", "position-dataset"} & set(arguments) for _, arguments in draft.work.steps
    )
    return draft.writes or asks or bool(transformations.crs_changes(draft, catalogue))


def findings(call: AlgorithmCall) -> tuple[Finding, ...]:
    return tuple(finding for check in _CHECKS for finding in check(call))
