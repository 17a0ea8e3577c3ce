"""The folder list is the architecture: which part may import which, read from the sources."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDARD = frozenset(sys.stdlib_module_names)
# touch the world; what is pure imports none of them
WORLD = frozenset(
    {
        "os",
        "io",
        "socket",
        "subprocess",
        "sqlite3",
        "urllib",
        "shutil",
        "tempfile",
        "threading",
        "time",
        "random",
        "secrets",
    }
    | {"docker", "mcp", "anyio", "structlog", "logging", "asyncio", "select", "signal"}
)
LAYERS = {  # from the top; a part imports from its own layer's modules and those below, never from one above
    "doors": (
        *("gdal_mcp.mcp", "gdal_mcp.web", "gdal_mcp.console", "gdal_mcp.testing"),
        *("gdal_mcp.cli", "gdal_mcp.__main__", "gdal_mcp.commands"),
        *("gdal_mcp.operations.rehearsal", "gdal_mcp.operations.undoing", "gdal_mcp.operations.uploading"),
    ),
    "app": ("gdal_mcp.app",),
    "pipeline": (
        *(
            "gdal_mcp.pipeline",
            "gdal_mcp.calls.activity",
            "gdal_mcp.calls.changes",
            "gdal_mcp.calls.drafting",
            "gdal_mcp.calls.refusals",
            "gdal_mcp.calls.ticket",
        ),
    ),
    "parts": (
        *("gdal_mcp.approval", "gdal_mcp.recovery", "gdal_mcp.surface", "gdal_mcp.calls.execution"),
        *("gdal_mcp.calls.results", "gdal_mcp.calls.longresults"),
        *("gdal_mcp.access.policy_file", "gdal_mcp.entitlements"),
        *("gdal_mcp.calls.records", "gdal_mcp.ledger.statement", "gdal_mcp.ledger.shelf"),
        *("gdal_mcp.ledger.metrics", "gdal_mcp.ledger.exposition"),
    ),
    "tools": ("gdal_mcp.tools",),
    "knowledge": (
        *("gdal_mcp.gdal.discovery", "gdal_mcp.access.policy", "gdal_mcp.gdal.answers.chaining"),
        "gdal_mcp.access.aliases",
        *("gdal_mcp.gdal.datasets.operations", "gdal_mcp.gdal.datasets.listing"),
        *("gdal_mcp.gdal.preflight.service", "gdal_mcp.operations.comparison", "gdal_mcp.ledger.provenance"),
    ),
    "ground": (
        *("gdal_mcp.gdal.catalogue", "gdal_mcp.gdal.preflight", "gdal_mcp.plan"),
        *("gdal_mcp.gdal.datasets.names", "gdal_mcp.gdal.datasets.paths"),
        *("gdal_mcp.gdal.datasets.files", "gdal_mcp.gdal.datasets.scope", "gdal_mcp.gdal.datasets.reading"),
        *("gdal_mcp.gdal.answers.described", "gdal_mcp.gdal.answers.described_report"),
        *("gdal_mcp.gdal.answers.described_words", "gdal_mcp.calls.printed", "gdal_mcp.calls.translation"),
        *("gdal_mcp.ledger.registry", "gdal_mcp.ledger.tasks", "gdal_mcp.ledger.audit"),
        *(
            "gdal_mcp.access.admission",
            "gdal_mcp.access.rates",
            "gdal_mcp.host.hosting",
            "gdal_mcp.host.nested",
        ),
    ),
    "base": (
        *("gdal_mcp.errors", "gdal_mcp.logs", "gdal_mcp.untrusted"),
        *("gdal_mcp.settings", "gdal_mcp.state"),
        *("gdal_mcp.ledger.audit_files", "gdal_mcp.ledger.audit_reading", "gdal_mcp.ledger.audit_record"),
        *("gdal_mcp.ledger.rows", "gdal_mcp.ledger.schema"),
        *("gdal_mcp.access.identity", "gdal_mcp.access.tokens"),
        *("gdal_mcp.gdal.environment", "gdal_mcp.settings.pathmap", "gdal_mcp.gdal.worker_source"),
        *("gdal_mcp.host.image", "gdal_mcp.host.standin", "gdal_mcp.host.pulling"),
    ),
    "inside": ("gdal_mcp.gdal.inside",),
}
FOLDERS = (
    "access",
    "answers",
    "calls",
    "datasets",
    "host",
    "ledger",
)  # a subject each, through several layers


def modules(package: str) -> dict[str, Path]:
    """Module name -> file, without what is not code."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    assert found
    return found


@cache
def imports(path: Path, *, everywhere: bool = True) -> tuple[str, ...]:
    """The modules a file imports; without `everywhere` only when it is loaded, and not for type checkers."""
    return tuple(_imports(path, everywhere=everywhere))


def _imports(path: Path, *, everywhere: bool) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


def tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


ALL = modules("sandbox") | modules("gdal_mcp")
# asks an image, and keeps what it said
CATALOGUE_IO = (
    "gdal_mcp.gdal.catalogue.capture",
    "gdal_mcp.gdal.catalogue.capture_program",
    "gdal_mcp.gdal.catalogue.store",
)
# sent into containers as text, where it meets GDAL and nothing of ours
INSIDE = (
    *("sandbox.worker", "sandbox.isolation.probe", "sandbox.isolation.attempts", "sandbox.isolation.looks"),
    *("gdal_mcp.gdal.inside", "gdal_mcp.gdal.catalogue.capture_program"),
)


@pytest.mark.parametrize("module", [name for name in ALL if within(name, "sandbox")])
def test_the_sandbox_knows_nothing_of_gdal_mcp_or_its_libraries(module: str):
    allowed = STANDARD | {"sandbox", "structlog", "pydantic"}
    if within(module, "sandbox.engines"):
        allowed |= {"docker", "requests", "urllib3"}
    assert tops(ALL[module]) <= allowed


@pytest.mark.claim("content.no-native-reader")
@pytest.mark.parametrize("module", [name for name in ALL if within(name, *INSIDE)])
def test_what_runs_in_a_container_needs_nothing_of_ours(module: str):
    """The parts of the worker are sent together, and may use one another."""
    together = "gdal_mcp.gdal.inside.parts"
    outside = [
        name for name in imports(ALL[module]) if not within(module, together) or not within(name, together)
    ]
    assert {name.partition(".")[0] for name in outside} <= STANDARD | {"osgeo", "osgeo_utils", "numpy"}


@pytest.mark.claim("content.no-native-reader")
@pytest.mark.parametrize("module", [name for name in ALL if not within(name, *INSIDE)])
def test_what_runs_in_a_container_is_never_loaded_outside(module: str):
    loaded = [name for name in imports(ALL[module]) if within(name, *INSIDE)]
    if (
        module == "gdal_mcp.host.hosting"
    ):  # reads the sources of both, to know when a host must be attested anew
        assert set(loaded) <= {"sandbox.isolation.probe", "sandbox.worker"}
    else:
        assert loaded == []
    assert tops(ALL[module]).isdisjoint({"osgeo", "osgeo_utils", "numpy"})


@pytest.mark.parametrize("module", ALL)
def test_only_the_mcp_folder_imports_the_protocol_and_only_the_sandbox_the_engine(module: str):
    names = tops(ALL[module])
    if not within(module, "gdal_mcp.mcp", "gdal_mcp.testing"):
        assert names.isdisjoint({"mcp", "mcp_types"})
    if not within(module, "gdal_mcp.web", "gdal_mcp.console"):
        assert names.isdisjoint({"starlette", "uvicorn"})
    if not within(module, "gdal_mcp.web", "gdal_mcp.testing"):
        assert names.isdisjoint({"jwt", "httpx2"})
    if not within(
        module,
        "sandbox.engines",
        "gdal_mcp.host.image",
        "gdal_mcp.host.standin",
        "gdal_mcp.host.pulling",
        *CATALOGUE_IO,
    ):
        assert "docker" not in names


PURE = ("gdal_mcp.plan", "gdal_mcp.access.policy", "gdal_mcp.calls.translation", "gdal_mcp.untrusted", "gdal_mcp.gdal.environment", "gdal_mcp.errors",
        "gdal_mcp.ledger.audit_record", "gdal_mcp.gdal.answers.described", "gdal_mcp.gdal.answers.described_report", "gdal_mcp.gdal.answers.described_words", "gdal_mcp.gdal.discovery", "gdal_mcp.gdal.answers.chaining",
        "gdal_mcp.calls.results", "gdal_mcp.operations.comparison", "gdal_mcp.gdal.datasets.names", "gdal_mcp.gdal.preflight", "gdal_mcp.tools",
        "gdal_mcp.gdal.catalogue", "sandbox.protocol", "sandbox.outcome", "sandbox.template", "sandbox.errors", "sandbox.isolation.attest")  # fmt: skip
# a lock around what was read, and the only reader of files
FORESIGHT_IO = ("gdal_mcp.gdal.preflight.cache", "gdal_mcp.gdal.preflight.headers.window")


def _calls_itself_pure(path: Path) -> bool:
    return bool(re.search(r"\bPure\.", ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""))


@pytest.mark.parametrize(
    "module",
    [
        name
        for name, path in ALL.items()
        if not within(name, *CATALOGUE_IO, *FORESIGHT_IO)
        and (within(name, *PURE) or _calls_itself_pure(path))
    ],
)
def test_the_pure_parts_import_nothing_that_touches_the_world(module: str):
    assert (tops(ALL[module]) & WORLD) <= _harmless(ALL[module])


def _harmless(path: Path) -> set[str]:
    """Modules of the world of which a file uses nothing but functions of texts."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    found = {"os"} if "os" in set(imports(path)) and used <= {"fsencode", "fsdecode", "sep"} else set()
    loaded = {name for name in imports(path) if within(name, "urllib")}
    return found | ({"urllib"} if all(within(name, "urllib.parse") for name in loaded) else set())


@pytest.mark.claim("content.host-reads-headers")
def test_foresight_opens_files_in_one_place_alone():
    opening = {"open_file", "open_folder", "open", "Path"}
    found = {
        name
        for name, path in ALL.items()
        if within(
            name,
            "gdal_mcp.gdal.preflight",
            "gdal_mcp.tools",
            "gdal_mcp.gdal.catalogue",
            "gdal_mcp.gdal.discovery",
        )
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id in opening
    }
    assert found <= {"gdal_mcp.gdal.preflight.headers.window", *CATALOGUE_IO}


def test_every_module_has_its_layer():
    known = [package for packages in LAYERS.values() for package in packages]
    folders = {"gdal_mcp", *(f"gdal_mcp.{folder}" for folder in FOLDERS)}
    placed = {name for name in ALL if within(name, "gdal_mcp")} - folders
    assert [name for name in placed if not within(name, *known)] == []
    assert all(ALL[name].read_text(encoding="utf-8") == "" for name in folders - {"gdal_mcp"})
    assert [package for package in known if package not in ALL] == []


@pytest.mark.parametrize("module", [name for name in ALL if within(name, "gdal_mcp")])
def test_dependencies_point_one_way(module: str):
    order = list(LAYERS)
    if module == "gdal_mcp" or module.removeprefix("gdal_mcp.") in FOLDERS:
        assert not [name for name in imports(ALL[module]) if within(name, "gdal_mcp", "sandbox")]
        return
    own = next(order.index(layer) for layer, packages in LAYERS.items() if within(module, *packages))
    above = [package for layer in order[:own] for package in LAYERS[layer]]
    assert not [name for name in imports(ALL[module], everywhere=False) if within(name, *above)]


@pytest.mark.parametrize(
    "package",
    [
        *(
            "gdal_mcp.gdal.catalogue",
            "gdal_mcp.access.policy",
            "gdal_mcp.tools",
            "gdal_mcp.gdal.preflight",
            "gdal_mcp.gdal.discovery",
        ),
        *(
            "gdal_mcp.gdal.answers.chaining",
            "gdal_mcp.gdal.answers.described",
            "gdal_mcp.gdal.datasets.operations",
            "gdal_mcp.gdal.datasets.listing",
        ),
        "gdal_mcp.gdal.answers.described_report",
    ],
)
def test_what_judges_a_call_knows_no_door_and_no_state(package: str):
    reached = {name for module, path in ALL.items() if within(module, package) for name in imports(path)}
    forbidden = (
        "gdal_mcp.pipeline",
        "gdal_mcp.app",
        "gdal_mcp.mcp",
        "gdal_mcp.ledger.registry",
        "gdal_mcp.ledger.audit",
        "gdal_mcp.host.hosting",
        "gdal_mcp.calls.execution",
    )
    assert not [name for name in reached if within(name, *forbidden)]


def test_no_module_imports_itself_through_others():
    graph = {
        module: {name for name in imports(path, everywhere=False) if name in ALL and name != module}
        for module, path in ALL.items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module in done:
            return
        for inner in graph[module]:
            visit(inner, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_a_package_does_nothing_when_it_is_imported():
    for path in ALL.values():
        if path.name == "__init__.py":
            body = ast.parse(path.read_text(encoding="utf-8")).body
            assert all(
                isinstance(node, ast.Expr | ast.Assign | ast.ImportFrom | ast.AnnAssign | ast.FunctionDef)
                for node in body
            ), path


def test_the_program_starts_without_loading_what_help_does_not_need():
    from subprocess import run

    code = "import sys, gdal_mcp.cli; gdal_mcp.cli.build_parser(); print(sorted({'mcp', 'docker', 'structlog', 'anyio'} & set(sys.modules)))"
    assert (
        run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        == "[]\n"
    )
