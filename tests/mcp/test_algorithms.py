"""Option injection through every text argument of every algorithm, as a client sends it: refused, or one word that stays a value."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.gdal.catalogue.load import packaged
from gdal_mcp.gdal.catalogue.model import RESERVED_TOKENS, Algorithm, Argument, Role
from tests.mcp.talk import Person, Place, Talk, inside

pytestmark = [pytest.mark.nightly, pytest.mark.engine]

INJECTED = (
    "--config", "--config=CPL_LOG=/tmp/PWNED", "--config CPL_LOG=/tmp/PWNED", "x --config CPL_LOG=/tmp/PWNED", "--optfile=/etc/passwd",
    "/etc/passwd", "@/etc/passwd", "../outside/secret.txt", "file:///etc/passwd", "http://192.0.2.1/x", "/vsicurl/http://192.0.2.1/x", "CSV:/etc/passwd",
    "[ read /etc/passwd ]", "! write /tmp/PWNED", "x=?", "$(id)", "x\n--config", "x\0y", "\u202ex", '"--config"', "--", "-", "--help", "x,--config",
)  # fmt: skip
REACHING = ("/etc/passwd", "/tmp/PWNED", "192.0.2.1", "../outside")
# what an algorithm cannot do without, besides its datasets
NEEDED: dict[str, Any] = {
    "distance": 1, "ratio": 0.5, "max-length": 5, "tolerance": 5, "output-crs": "EPSG:4326", "operation": "union", "fields": ["name"],
    "x": "name", "y": "name", "field-type": "Integer", "stat": ["mean"], "band": ["1"], "output-data-type": "Byte", "calc": ["A+1"],
    "kernel": ["edge1"], "mapping": "1=2", "array": ["x"], "size": [5, 5], "burn": [1],
}  # fmt: skip
PATHS = frozenset({Role.INPUT, Role.OUTPUT, Role.UPDATE, Role.SIDECAR})


@pytest.fixture(scope="module")
def own(grounds: Path, place: Place) -> Place:
    made = Place.made(grounds / "algorithms")
    for name in ("dem.tif", "zones.shp", "zones.shx", "zones.dbf", "zones.prj"):
        made.path(name).write_bytes(place.path(name).read_bytes())
    return made


@pytest.fixture(scope="module")
def talker(own: Place) -> Iterator[Talk]:
    with inside(own.command(), person=Person()) as made:
        yield made


def honest(algorithm: Algorithm) -> dict[str, Any]:
    """A call that has what it needs, mostly accepted."""
    given: dict[str, Any] = {}
    for one in algorithm.arguments:
        if one.required and one.role is Role.INPUT:
            name = (
                "zones.shp"
                if algorithm.path.startswith("vector") or one.name in ("zones", "method")
                else "dem.tif"
            )
            given[one.name] = [name] if one.is_list else name
        elif one.required and one.role is Role.UPDATE:
            given[one.name] = ["dem.tif"] if one.is_list else "dem.tif"
        elif one.required and one.role in PATHS:
            given[one.name] = (
                "new.gpkg" if algorithm.makes == "vector" or algorithm.kind == "vector" else "new.tif"
            )
        elif one.required and one.name in NEEDED:
            given[one.name] = NEEDED[one.name]
    return given


def texts(algorithm: Algorithm) -> list[Argument]:
    return [
        one for one in algorithm.arguments if one.element_type in ("string", "dataset") and not one.hidden
    ]


def attacks() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Each text argument with two of the texts; over all of the algorithms every text meets many arguments."""
    payloads = cycle(INJECTED)
    for path, algorithm in packaged().algorithms.items():
        for argument in texts(algorithm):
            for text in (next(payloads), next(payloads)):
                value = [text] if argument.is_list else text
                yield path, argument.name, text, {**honest(algorithm), argument.name: value}
        next(payloads)  # so that arguments of the same name do not meet the same texts


# names of layers, fields and arrays inside of a file, and texts that stand in one: whatever they hold, they open nothing
INNER = frozenset({"layer", "new-layer", "field", "label", "metadata", "multidim", "page-text", "page-url"})


def faults(argv: list[str], path: str, name: str, text: str) -> Iterator[str]:
    """What is wrong with the command of a call that was accepted."""
    words = argv[1 + len(path.split()) :]
    inner = packaged().algorithms[path].long_names[name].rule.check in INNER
    for word in words:
        switch = word.partition("=")[0]
        if not switch.startswith("--") or switch.lower() in RESERVED_TOKENS or "\0" in word:
            yield f"{word} is a word of its own"
        if switch != f"--{name}" and text in word and len(text) > 3:
            yield f"{word} holds the text"
        if not (inner and switch == f"--{name}") and any(place in word for place in REACHING):
            yield f"{word} reaches out"


@pytest.mark.claim("args.no-bare-words")
def test_no_text_becomes_an_option_or_reaches_out(talker: Talk, own: Place):
    made = list(attacks())
    assert len(made) > 1000
    wrong, accepted = [], 0
    for start in range(0, len(made), 100):
        some = made[start : start + 100]
        calls = [
            talker.start(
                "validate_call", tool="gdal_write", arguments={"algorithm": path, "arguments": arguments}
            )
            for path, _, _, arguments in some
        ]
        for (path, name, text, _), call in zip(some, calls, strict=True):
            told = call.result(timeout=300).structured_content
            if "error" in told:
                if told["error"]["code"] == "INTERNAL":
                    wrong.append((path, name, text, told["error"]["message"]))
                continue
            accepted += 1
            wrong += [(path, name, text, fault) for fault in faults(told["argv"], path, name, text)]
    assert wrong == []
    assert accepted > 50  # most are refused; the others are harmless words such as the name of a layer
    assert {one["tool"] for one in own.audited if one["type"] == "call.started"} <= {
        "validate_call"
    }  # looks at inputs
