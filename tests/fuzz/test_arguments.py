"""Any JSON that a client sends to any tool: a typed refusal, or a command of known words and places in the workspace."""

import functools
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings
from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.catalogue.model import PATH_ROLES, RESERVED_TOKENS, Algorithm, Argument, Role
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.notation import parse_notation
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import preflight, surface
from tests.fuzz.kit import anything, outcome, tries
from tests.unit.toolboxes.fitting import BY_DRIVER, FITTING, calls, kind_of, minimal

REFUSALS = (ToolError, ArgumentRefused, ValidationError)
FILES = (
    "dem.tif", "zones.gpkg", "dem.gpkg", "cube.nc", "a b.tif", "-dash.tif", "--config", "@list", "x=y.tif", "q?.tif",
    "a=?", "[1].tif", "!", "sub/in.tif",
)  # fmt: skip


@functools.cache
def desk() -> DraftContext:
    """The draft context of a server with every tool and SQL, on a workspace with files of unusual names."""
    base = Path(tempfile.mkdtemp())
    root = base / "workspace"
    (root / "sub").mkdir(parents=True)
    for name in FILES:
        (root / name).write_bytes(b"x")
    settings = Settings(workspaces=[root], state_dir=base / "state", toolsets=("all",))
    paths = Paths(Workspaces((Workspace.at(root, writable=True),)), "outputs", "0123456789abcdef", 2)
    return DraftContext(paths, settings, surface(settings), preflight(settings), packaged())


HOSTILE = st.sampled_from(
    (
        *FILES, "/etc/passwd", "../x", "--config=GDAL_HTTP_PROXY=x", "-co", "--config", "GDAL_DATA=/", "external", "!", "[", "]", "@/etc/passwd",
        "/vsicurl/http://h/x", "PG:dbname=x", "<VRTDataset/>", "{}", "?", "x=?", "a\nb", "a\0b", "\ud800", "out.tif", "sub/out.gpkg",
        "NETCDF:cube.nc:v", "/vsizip/x.zip", "--help", "--version", "GTiff", "json", "", "/staging/x", "~", "file:///etc/passwd", "read dem.tif ! info",
        "[ read dem.tif ]", "dem.tif,band=1", "A=dem.tif", "1", "-1", "a,b", '"', "--update", "--pipeline",
    )
)  # fmt: skip


def near(argument: Argument) -> st.SearchStrategy[Any]:
    """Values that may pass, mixed with those that never do."""
    fitting = [*FITTING.get(argument.rule.check, []), *(argument.choices or ())]
    fitting += [value for values in BY_DRIVER.get(argument.rule.check, {}).values() for value in values]
    fitting += [True, 1, 2.5, [1, 2], [1, 2, 3, 4], ["dem.tif"]]
    fitting += ["dem.tif", "zones.gpkg", "out.tif", "out.gpkg"]
    may_pass = st.sampled_from(fitting)
    return may_pass | may_pass.map(lambda value: [value]) | HOSTILE | st.lists(HOSTILE, max_size=3) | anything


@st.composite
def arguments_of(draw: st.DrawFn, algorithm: Algorithm) -> dict[str, Any]:
    """A call that is probably valid, with up to two arguments that may be anything."""
    arguments = minimal(algorithm) | (draw(calls(algorithm)) if draw(st.booleans()) else {})
    for name, value in arguments.items():
        if (argument := algorithm.long_names[name]).role in PATH_ROLES:
            ending = "gpkg" if kind_of(algorithm, name) == "vector" else "tif"
            stem = "out" if argument.role is Role.OUTPUT else "dem"
            arguments[name] = (
                [f"{stem}.{ending}"] * len(value) if isinstance(value, list) else f"{stem}.{ending}"
            )
    for name in draw(st.lists(st.sampled_from(sorted(algorithm.long_names)), max_size=2)):
        arguments[name] = draw(near(algorithm.long_names[name]))
    if draw(st.integers(0, 9)) == 0:
        arguments[draw(HOSTILE)] = draw(anything)
    spell = draw(st.sampled_from((str, lambda name: name.replace("-", "_"))))
    return {spell(name): value for name, value in arguments.items()}


def check_command(draft: Draft, names: Mapping[str, Any]) -> None:
    """Checks that a command has only known words: the command, `--known=value`, separators of steps, and absolute
    places.
    """
    root = str(desk().paths.workspaces.items[0].root)
    program, *words = draft.command.argv
    if program != "gdal":
        return
    for word in words:
        if word.startswith("-"):
            name = word.partition("=")[0]
            assert name.removeprefix("--") in names, word
            assert name.lower() not in RESERVED_TOKENS
        elif word.startswith("/"):
            assert word.startswith((f"{root}/", "/staging/", "/vsizip/{" + root)) or word == root, word
        else:
            assert (
                word in ("!", "[", "]") or word in COMMANDS or f':"{root}/' in word or f":{root}/" in word
            ), word
        assert "\0" not in word
        assert not word.endswith("=?")
        word.encode()
    assert "external" not in words
    for place in (*draft.inputs, *(output.target for output in draft.outputs)):
        assert place.path.is_relative_to(root)
        assert ".." not in place.path.parts
    json.dumps([draft.command.argv, {name: list(values) for name, values in draft.work.arguments.items()}])


EVERY = {
    path: algorithm
    for path, algorithm in packaged().algorithms.items()
    if not any(a.rule.check == "pipeline" for a in algorithm.arguments)
}
NAMES = {
    name
    for algorithm in (
        *packaged().algorithms.values(),
        *(step.algorithm for step in packaged().steps.values()),
    )
    for name in algorithm.long_names
}
COMMANDS = {
    word
    for path in (*packaged().algorithms, *(step.name for step in packaged().steps.values()))
    for word in path.split()
}


@tries(100)
@given(st.data())
@pytest.mark.claim("args.no-bare-words")
def test_arguments_of_any_algorithm_are_refused_or_known(data: st.DataObject):
    path = data.draw(st.sampled_from(sorted(EVERY)))
    tool = desk().surface.callable.get(path.replace(" ", "_").replace("-", "_"))
    arguments = data.draw(arguments_of(EVERY[path]))
    draft = outcome(tool.draft, arguments, desk(), refused=REFUSALS) if tool else None
    if isinstance(draft, Draft):
        check_command(draft, NAMES)
        desk().preflight.look(draft)


@tries(100)
@given(st.data())
@pytest.mark.claim("args.no-bare-words")
def test_any_arguments_of_any_tool_end_typed(data: st.DataObject):
    """Includes the hand-written tools, with their own schemas."""
    tool = desk().surface.callable[data.draw(st.sampled_from(sorted(desk().surface.callable)))]
    values = (
        HOSTILE
        | st.sampled_from(
            ([0, 0, 1, 1], ["COMPRESS=LZW"], {"COMPRESS": "LZW"}, "EPSG:4326", 1, 2.5, True, ["dem.tif"])
        )
        | anything
    )
    properties = sorted(tool.input_schema["properties"])
    needed = {
        name: "dem.tif" if name.endswith(("path", "dataset", "input")) else data.draw(values)
        for name in tool.input_schema.get("required", ())
    }
    optional = data.draw(
        st.dictionaries(st.sampled_from(properties) if properties else HOSTILE, values, max_size=3)
    )
    draft = outcome(tool.draft, {**needed, **optional}, desk(), refused=REFUSALS)
    if isinstance(draft, Draft):
        check_command(draft, NAMES)
        desk().preflight.look(draft)


# Pipelines

STEPS = sorted({step.name for step in packaged().steps.values()})
ODD_STEPS = st.sampled_from(
    (*STEPS, "read", "read", "write", "tee", "external", "materialize", "info", "READ", "gdal", "-", "")
)


@st.composite
def steps(draw: st.DrawFn, depth: int = 2) -> list[dict[str, Any]]:
    """A pipeline of JSON that often begins and ends correctly."""
    pipeline: list[dict[str, Any]] = []
    for name in ("read", *draw(st.lists(ODD_STEPS, max_size=3)), "write"):
        known = [step.algorithm for step in packaged().steps.values() if step.name == name]
        arguments = draw(arguments_of(draw(st.sampled_from(known)))) if known and draw(st.booleans()) else {}
        arguments = {"read": {"input": "dem.tif"}, "write": {"output": "out.tif"}}.get(name, {}) | arguments
        step: dict[str, Any] = {"step": name, "arguments": arguments}
        if name == "tee" and depth:
            step["branches"] = [draw(steps(depth - 1))[1:]]
        pipeline.append(step)
    return pipeline


@tries(60)
@given(steps(), st.sampled_from(("pipeline", "raster_pipeline", "vector_pipeline")))
@pytest.mark.claim("args.pipelines-parsed")
def test_any_pipeline_is_refused_or_becomes_known_words(raw_steps: list[dict[str, Any]], name: str):
    tool = desk().surface.callable[name]
    key = "steps" if "steps" in tool.input_schema["properties"] else "pipeline"
    draft = outcome(tool.draft, {key: raw_steps}, desk(), refused=REFUSALS)
    if isinstance(draft, Draft):
        check_command(draft, NAMES)


def written(parts: list[Any]) -> str:
    """A list of words and branches in GDAL's notation."""
    return " ".join(f"[ {written(part)} ]" if isinstance(part, list) else part for part in parts)


PIECES = st.sampled_from(
    (
        "read", "dem.tif", "!", "write", "out.tif", "tee", "external", "--command=rm", "-f", "hillshade", "--zfactor", "2", "-1", "reproject", "info",
        "--dst-crs=EPSG:4326", '"a b.tif"', '"', "\\", "'", "[", "]", "--config", "X=Y", "--", "-", "=", "--input", "--overwrite", "\u00a0", "\n", "é",
    )
)  # fmt: skip
NOTATION = PIECES | st.lists(PIECES | st.lists(PIECES, max_size=3), max_size=4)

GOOD = (
    "read dem.tif ! hillshade --zfactor 2 ! write out.tif",
    "read zones.gpkg ! reproject --dst-crs=EPSG:4326 ! write out.gpkg --overwrite",
    "read dem.tif ! tee [ write a.tif ] ! contour --interval 10 ! write lines.gpkg",
    'read "a b.tif" ! clip --bbox=1,2,3,4 ! info',
)


@st.composite
def notations(draw: st.DrawFn) -> str:
    """A valid notation with up to two errors."""
    words: list[Any] = draw(st.sampled_from(GOOD)).split(" ")
    for piece in draw(st.lists(NOTATION | HOSTILE, max_size=2)):
        at = draw(st.integers(0, len(words)))
        words[at : at + draw(st.integers(0, 1))] = [piece]
    return written(words)


@tries(90)
@given(notations())
@pytest.mark.claim("args.pipelines-parsed")
def test_any_notation_is_refused_or_becomes_known_words(text: str):
    draft = outcome(desk().surface.callable["pipeline"].draft, {"steps": text}, desk(), refused=REFUSALS)
    if isinstance(draft, Draft):
        check_command(draft, NAMES)


def quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def printed(parsed: Any) -> str:
    """Steps in GDAL's notation, with every word in quotes and after the branches: a word before a branch may be its
    switch.
    """
    return " ! ".join(" ".join((step.name, *_branches(step), *map(quoted, step.words))) for step in parsed)


def _branches(step: Any) -> Iterator[str]:
    for place, branch in zip(step.places, step.branches, strict=True):
        yield f"{f'--{place} ' if place else ''}[ {printed(branch)} ]"


def gathered(parsed: Any) -> Iterator[Any]:
    for step in parsed:
        yield step.name
        yield step.words
        yield step.places
        yield [list(gathered(branch)) for branch in step.branches]


@tries(100)
@given(notations() | st.lists(NOTATION, min_size=1, max_size=8).map(written) | st.text(max_size=40))
def test_parsed_notation_survives_writing_and_parsing_again(text: str):
    parsed = outcome(parse_notation, text, refused=ArgumentRefused)
    if not isinstance(parsed, type):
        assert list(gathered(parse_notation(printed(parsed)))) == list(gathered(parsed))


@tries(12)
@given(
    st.sampled_from(("[ a ", "] ", '"', "\\", "a ! ", "a [ b ] ", "read ", '"\\" ', "\t", "tee [ ", "--")),
    st.integers(1, 40_000),
    st.sampled_from(("", '"', "]")),
)
def test_a_long_notation_ends_at_once(part: str, times: int, end: str):
    text = (part * times)[:40_000] + end
    outcome(desk().surface.callable["pipeline"].draft, {"steps": text}, desk(), refused=REFUSALS)
