"""Examines drafts before they run: their cost, limits that they would break, and likely mistakes."""

import os.path
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gdal_mcp.errors import Code, Stage, ToolError
from gdal_mcp.plan import Command, Draft
from gdal_mcp.remote.places import label
from gdal_mcp.toolboxes.gdal.answers.transformations import names, told
from gdal_mcp.toolboxes.gdal.catalogue.formats import FormatAbsent, driver_for, lacking_by_file
from gdal_mcp.toolboxes.gdal.catalogue.model import Catalogue
from gdal_mcp.toolboxes.gdal.preflight.call import AlgorithmCall, Finding, distinct, forwarded_facts, steps_of
from gdal_mcp.toolboxes.gdal.preflight.checks import (
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
from gdal_mcp.toolboxes.gdal.preflight.estimate import (
    Estimate,
    LimitViolation,
    estimate,
    table,
    uncertain_space,
    violation,
)
from gdal_mcp.toolboxes.gdal.preflight.expected import expected
from gdal_mcp.toolboxes.gdal.preflight.facts import SELF_CONTAINED, DatasetFacts, FactsCache, facts_of
from gdal_mcp.toolboxes.gdal.preflight.layers import tables_of
from gdal_mcp.toolboxes.gdal.preflight.predict import gaps, predicted
from gdal_mcp.toolboxes.gdal.preflight.sql.reading import codes_named
from gdal_mcp.toolboxes.gdal.preflight.suggested_calls import with_suggested_call
from sandbox.template import Limits
from sandbox.workspace import WorkspacePath

_MAIN: Final = frozenset({"input", "dataset"})  # arguments with the main inputs
_READS: Final = frozenset({"raster read", "vector read"})
# write steps of a pipeline, and the algorithms that they are checked as
_ENDS: Final = {"raster write": "raster convert", "vector write": "vector convert"}
_CODES: Final = {"memory bytes": Code.MEMORY_LIMIT, "seconds": Code.TIMEOUT}
# arguments that name a CRS, each with the arguments for which the inputs' extent in that CRS is requested; PROJ takes
# milliseconds to compute it
_CRS_ARGUMENTS: Final = {"output-crs": ("resolution", "size"), "bbox-crs": ("bbox",)}
# arguments with a CRS that PROJ must know
_NAMING: Final = ("output-crs", "input-crs", "bbox-crs", "crs", "geometry-crs")
_CHECKS: Final = (*crs.CHECKS, *raster.CHECKS, *vector.CHECKS, *fields.CHECKS, *sql.CHECKS)
# algorithms whose output is wrong across the antimeridian
_ABOUT_180: Final = frozenset({"raster reproject", "raster footprint"})
_MAX_CRS: Final = 4  # number of CRSs for which a container is asked for extents
_MAX_CRS_TEXT: Final = 4096  # characters


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The result of examining a draft."""

    estimate: Estimate | None = None
    violation: LimitViolation | None = None  # the limit that the call is certain to break
    findings: tuple[Finding, ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()  # changes of CRS, in the form of `answers.transformations`

    @property
    def refusals(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.refuses)

    @property
    def facts(self) -> dict[str, Any]:
        """The operations that change the CRS, for the result."""
        rows = [row for one in self.changes for row in told(one)]
        return {"transformation": rows[0] if len(rows) == 1 else rows} if rows else {}

    @property
    def untrusted(self) -> dict[str, Any]:
        """The names of these operations, in the same order."""
        found = [name for one in self.changes for name in names(one)]
        return {"transformation": found} if found else {}

    @property
    def figures(self) -> Mapping[str, int | None] | None:
        return self.estimate.figures if self.estimate is not None else None


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
      `check(draft)` has these facts;
    * `learn(located, facts)` for each published output.
    """

    limits: Limits
    catalogue: Catalogue
    known: FactsCache = field(default_factory=FactsCache)

    def within(self, limits: Limits) -> "Preflight":
        """A Preflight with the same facts and other limits."""
        return replace(self, limits=limits)

    def look(self, draft: Draft, *, looked_at: int | None = None) -> PreflightReport:
        """Examines a draft with the known facts.

        `looked_at` is the number of `examined_files(draft)` that a container described or tried to; None before that.
        """
        calls = self._calls(draft)
        cost = estimate(calls[-1])
        broken = violation(cost, self.limits) if cost is not None else None
        changed = self._changes(draft)
        said = list(self._findings(calls, draft)) if is_judged(draft, self.catalogue) else []
        said += transformations.findings(changed, draft)
        known = [one for located in examined_files(draft) if (one := self.known.get(located)) is not None]
        said += crs.unknown_crs(every_crs(draft), known)
        said += self._of_pixels(draft)
        inputs = [self.known.get(one) for one in draft.inputs]
        said += kinds.findings(draft, zip(draft.inputs, inputs, strict=True), self.catalogue)
        said += sql.layers_as_table(draft, inputs) if draft.command.program == "query" else ()
        said += transformations.unexamined_changes(draft, self.catalogue)
        said += unexamined.findings(draft, looked_at, self._described_inputs(draft), self.catalogue)
        said += unexamined.space(uncertain_space(cost, self.limits) if cost is not None else None)
        said = [with_suggested_call(one, draft, calls[0].path, self.catalogue) for one in said]
        return PreflightReport(cost, broken, distinct(said), tuple(change for change, _ in changed))

    def _findings(self, calls: Sequence[AlgorithmCall], draft: Draft) -> Iterator[Finding]:
        """The findings of each step of a pipeline, with the number of the step."""
        first = len(draft.chain) - len(calls)  # the read step is not a call
        for number, call in enumerate(calls, first):
            for one in findings(call):
                yield replace(one, step=number) if len(draft.chain) > 1 else one

    def _of_pixels(self, draft: Draft) -> Iterator[Finding]:
        """Findings from the pixel probes of each input."""
        wanted = values.pixel_probes(draft, self.catalogue)
        described = self._described_inputs(draft)
        for number, facts in described if wanted else ():
            if facts is not None:
                looks = {name: facts.looks.get(name) or {} for name in wanted}
                merges = draft.command.program == "gdal_merge"
                for one in values.findings(looks, facts.nodata, steps_of(draft), merges=merges):
                    yield replace(one, inputs=(number,)) if len(described) > 1 else one

    def _described_inputs(self, draft: Draft) -> Sequence[tuple[int, DatasetFacts | None]]:
        return list(enumerate(map(self.known.get, examined_files(draft))))

    def _changes(self, draft: Draft) -> Sequence[tuple[Mapping[str, Any], tuple[int, ...]]]:
        """Each change of CRS in the call, with the numbers of its inputs if the call has several."""
        mains = {located for name, located in draft.named or () if name in _MAIN} or {*draft.inputs}
        numbered = [(number, one) for number, one in enumerate(draft.inputs) if one in mains]
        found: dict[str, tuple[Mapping[str, Any], list[int]]] = {}
        for source, change in transformations.crs_changes_by_input(draft, self.catalogue):
            for number, located in inputs_named(source, numbered):
                facts = self.known.get(located)
                if facts and (change_facts := facts.changes.get(transformations.key(change))):
                    found.setdefault(repr(change_facts), (change_facts, []))[1].append(number)
        several = len(draft.inputs) > 1
        return [(change, tuple(dict.fromkeys(at)) if several else ()) for change, at in found.values()]

    def check(
        self, draft: Draft, stage: Stage = Stage.VALIDATE, *, looked_at: int | None = None
    ) -> PreflightReport:
        """Like `look`. Raises ToolError if the call is certain to break a limit, or if a finding refuses it."""
        report = self.look(draft, looked_at=looked_at)
        if (broken := report.violation) is not None:
            code = _CODES.get(broken.what, Code.DISK_LIMIT)
            raise ToolError(code, stage, broken.message, broken.suggestion)
        if report.refusals:
            first = report.refusals[0]
            # the error itself contains these texts
            check = {key: one for key, one in first.as_dict().items() if key not in ("message", "suggestion")}
            raise ToolError(Code.INVALID_ARGUMENT, stage, first.message, first.suggestion, check=check)
        return report

    def check_described(self, draft: Draft, value: Mapping[str, Any]) -> PreflightReport:
        """Like `check`, with the description of the inputs that the worker sends before it executes the job."""
        rows = value.get("inputs")
        self.described(examined_files(draft), rows)
        return self.check(draft, Stage.RUN, looked_at=len(rows) if isinstance(rows, list) else 0)

    def description(self, draft: Draft) -> Draft | None:
        """The job that describes inputs and files to be replaced without sufficient facts; None if there are none.

        Facts are sufficient if a container described the file, and in all CRSs that the draft names.
        """
        return self.describing((draft,), draft.inputs)

    def describing(self, drafts: Sequence[Draft], inputs: Iterable[WorkspacePath]) -> Draft | None:
        """Like `description`, as one job for several drafts that use these inputs or results made from them."""
        asked: dict[str, Any] = {"crs": (), "changes": (), "looks": ()}
        for draft in drafts:
            for name, more in description_request(draft, self.catalogue).items():
                asked[name] += tuple(one for one in more if one not in asked[name])
        keys = asked["crs"], tuple(map(transformations.key, asked["changes"])), asked["looks"]
        outputs = [one for draft in drafts for one in draft.outputs]
        replaced = [one.target for one in outputs if one.target.identity and one.kind == "dataset"]
        asked["ranges"] = tuple(map(str, replaced))
        files = dict.fromkeys((*inputs, *replaced))
        unknown = tuple(one for one in files if not one.is_folder and not self.known.knows(one, *keys))
        if not unknown:
            return None
        return Draft(
            Command("describe", (), tuple(map(str, unknown)), extra=asked),
            (),
            looked_at=unknown,
            addresses=tuple(dict.fromkeys(one for draft in drafts for one in draft.addresses)),
            wants_json=True,
            algorithm="dataset identify",
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
        """The predicted facts that the description of the written file contradicts: by name, the predicted and the
        actual one.
        """
        made = facts_of({"facts": facts})
        return contradictions(predicted, made) if predicted is not None and made is not None else {}

    def gaps(self, draft: Draft, located: WorkspacePath) -> tuple[str, ...]:
        """Facts of an input that the checks need and the prediction lacks, as nouns."""
        facts = self.known.get(located)
        return gaps(facts, self._calls(draft)[-1]) if facts is not None else ()

    def unknown(self, draft: Draft) -> tuple[WorkspacePath, ...]:
        """The inputs without facts. Folders are left out, because they are not described."""
        return tuple(
            one for one in examined_files(draft) if not one.is_folder and self.known.get(one) is None
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
        """Stores descriptions of files. Raises FormatAbsent if the container's GDAL lacks the format of a file."""
        for located, row in zip(files, rows if isinstance(rows, list) else (), strict=False):
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
        """The draft as one call, or as the steps of a pipeline, each with the predicted raster of the previous step."""
        named = draft.named if draft.named is not None else [("input", one) for one in draft.inputs]
        changed = [("input", one.target) for one in draft.outputs if one.update]
        facts = [(name, self.known.get(located)) for name, located in (*named, *changed)]
        inputs = tuple(one for name, one in facts if name in _MAIN)
        # if two steps have the argument, its step is unclear
        count = Counter(name for name, _ in facts)
        others = {name: one for name, one in facts if one and name not in _MAIN and count[name] == 1}
        path, steps = draft.algorithm, [(_ENDS.get(path, path), given) for path, given in draft.chain]
        if len(steps) < 2:
            if draft.command.program in table().algorithm:  # a classic program with its own row of costs
                path = draft.command.program
            elif path == "raster convert" and inputs and inputs[0] and inputs[0].kind == "vector":
                path = "vector convert"  # the tool `convert` accepts rasters and vectors
            steps = [(path, draft.arguments)]
        # an open option may change the size or select a part of the file
        certain = 0.0 if steps[0][1].get("open-option") else 1.0
        if len(draft.chain) > 1:
            # a first step that combines inputs makes a raster that differs from the first input
            inputs, steps = inputs[:1] if steps[0][0] in _READS and inputs else (None,), steps[1:]
        calls: list[AlgorithmCall] = []
        for path, arguments in steps:
            flowing = None
            if calls:
                made, flowing = estimate(calls[-1]), forwarded_facts(calls[-1])
                inputs, certain = ((made.output,), made.certain) if made else ((None,), 0.0)
            own = {name: one for name, one in others.items() if name in arguments} if draft.chain else others
            call = AlgorithmCall(
                path, arguments, inputs, own, certain=certain, flowing=flowing, limits=self.limits
            )
            calls.append(call)
        if draft.output is not None:
            last, name = calls[-1], draft.output.target.name
            algorithms = self.catalogue.algorithms
            # a classic program is not among the algorithms; the draft names the corresponding one
            algorithm = algorithms.get(last.algorithm) or algorithms.get(draft.algorithm)
            kind = (algorithm.makes or algorithm.kind) if algorithm else "raster"
            driver = last.text("output-format") or driver_for(self.catalogue, name, kind) or ""
            updates = any(one.update for one in draft.outputs)
            calls[-1] = replace(last, driver=driver, output=name, updates=updates)
            calls = [replace(one, written=driver) for one in calls]
        if calls[-1].path == "vector sql":
            tables = tables_of(draft, [self.known.get(located) for located in draft.inputs])
            calls[-1] = replace(calls[-1], tables=tables, is_query=draft.command.program == "query")
        return calls


def inputs_named(
    source: str, inputs: Sequence[tuple[int, WorkspacePath]]
) -> Sequence[tuple[int, WorkspacePath]]:
    """The inputs that the call spells as `source`, with their numbers.

    All inputs if that is uncertain, for example for a path with a driver prefix.
    """
    path = os.path.normpath(source)
    found = [
        (number, one)
        for number, one in inputs
        if source in (str(one), label(one)) or path in (str(one), str(getattr(one, "relative", "")))
    ]
    return found if source and found else inputs


def examined_files(draft: Draft) -> tuple[WorkspacePath, ...]:
    """The inputs, and files that are changed in place."""
    return (*draft.inputs, *(one.target for one in draft.outputs if one.update))


def _numbers(facts: DatasetFacts | None) -> str:
    if facts is None:
        return ""
    features = "unknown" if facts.features is None else facts.features
    pixels = f"{facts.width} x {facts.height}, {facts.bands} band{'s'[: facts.bands != 1]}"
    place = f"within {' '.join(f'{one:.9g}' for one in facts.extent)}" if facts.extent else ""
    size = [pixels, facts.data_type] if facts.kind == "raster" else [f"{features} features"]
    values = f"values {facts.values[0]:.6g} to {facts.values[1]:.6g}" if facts.values else ""
    return ", ".join(filter(None, (facts.driver, *size, values, facts.crs, place)))


def is_judged(draft: Draft, catalogue: Catalogue) -> bool:
    """True if a call writes, runs SQL, reads at a position or changes a CRS, so that its result can be wrong."""
    asks = any({"sql", "where", "position"} & set(given) for _, given in steps_of(draft))
    return draft.writes or asks or bool(transformations.crs_changes(draft, catalogue))


def findings(call: AlgorithmCall) -> tuple[Finding, ...]:
    return tuple(found for check in _CHECKS for found in check(call))


def description_request(draft: Draft, catalogue: Catalogue) -> dict[str, Any]:
    """What a container describes of the inputs in addition to their facts."""
    return {
        "crs": crs_to_describe(draft),
        "changes": transformations.crs_changes(draft, catalogue),
        "looks": values.pixel_probes(draft, catalogue),
    }


def absent_format(catalogue: Catalogue, name: str, row: Any) -> FormatAbsent | None:
    """The error for a file in a format that the image lacks, from its first bytes in hexadecimal (`head`)."""
    head = row.get("head") if isinstance(row, Mapping) else None
    if not isinstance(head, str) or not re.fullmatch(r"([0-9a-f]{2}){1,16}", head):
        return None
    lacks = lacking_by_file(catalogue, name, bytes.fromhex(head))
    return FormatAbsent(catalogue, lacks, reads=True) if lacks is not None else None


def every_crs(draft: Draft) -> tuple[str, ...]:
    """Each CRS in the arguments, as spelled there; those in SQL as EPSG:CODE."""
    steps = ((draft.algorithm, draft.arguments), *draft.chain)
    found = [text for _, given in steps for name in _NAMING for text in given.get(name, ())]
    found += [code for _, given in steps for text in given.get("sql", ()) for code in codes_named(text)]
    return tuple(text for text in dict.fromkeys(found) if text.lower() not in ("none", "null"))


def crs_to_describe(draft: Draft) -> tuple[str, ...]:
    """The CRSs in which the extent of the inputs is needed, then the other CRSs of the call with the prefix `?`.

    They are spelled as in the call.
    """
    texts: list[str] = []
    steps = ((draft.algorithm, draft.arguments), *draft.chain)
    for _, given in steps:
        for name, needed_for in _CRS_ARGUMENTS.items():
            if any(given.get(one) for one in needed_for):
                texts += given.get(name, ())
    texts += [text for path, given in steps if path in _ABOUT_180 for text in given.get("output-crs", ())]
    reprojections = [given for path, given in draft.chain if path == "vector reproject"]
    texts += [text for given in reprojections for text in given.get("output-crs", ())]
    texts += ["EPSG:3857" for path, _ in steps if path == "raster tile"]
    texts += [f"?{text}" for text in every_crs(draft) if text not in texts]
    return tuple(dict.fromkeys(text for text in texts if len(text) <= _MAX_CRS_TEXT))[:_MAX_CRS]
