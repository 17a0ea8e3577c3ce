"""The folder list is the architecture: which part may import which, read from the sources."""

import ast
import sys
from collections.abc import Iterator
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
LAYERS = {  # from the top; a part imports from its own layer's modules below it, never from one above
    "doors": ("gdal_mcp.mcp", "gdal_mcp.cli", "gdal_mcp.calling", "gdal_mcp.doctor"),
    "app": ("gdal_mcp.app",),
    "pipeline": ("gdal_mcp.pipeline",),
    "parts": ("gdal_mcp.approval", "gdal_mcp.records", "gdal_mcp.execution", "gdal_mcp.policy"),
    "tools": ("gdal_mcp.tools",),
    "ground": (
        "gdal_mcp.paths",
        "gdal_mcp.plan",
        "gdal_mcp.catalogue",
        "gdal_mcp.registry",
        "gdal_mcp.audit",
        "gdal_mcp.hosting",
    ),
}


def modules(package: str) -> dict[str, Path]:
    """Module name -> file, without what is not code."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    assert found
    return found


def imports(path: Path, *, everywhere: bool = True) -> Iterator[str]:
    """The modules a file imports; without `everywhere` only when it is loaded, and not for type checkers."""
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
    "gdal_mcp.catalogue.capture",
    "gdal_mcp.catalogue.capture_program",
    "gdal_mcp.catalogue.store",
)
# sent into containers as text, where it meets GDAL and nothing of ours
INSIDE = ("sandbox.worker", "sandbox.probe", "gdal_mcp.gdal_worker", "gdal_mcp.catalogue.capture_program")


@pytest.mark.parametrize("module", [name for name in ALL if within(name, "sandbox")])
def test_the_sandbox_knows_nothing_of_gdal_mcp_or_its_libraries(module: str):
    allowed = STANDARD | {"sandbox", "structlog", "pydantic"}
    if within(module, "sandbox.engines"):
        allowed |= {"docker", "requests", "urllib3"}
    assert tops(ALL[module]) <= allowed


@pytest.mark.parametrize("module", [name for name in INSIDE if name in ALL])
def test_what_runs_in_a_container_needs_nothing_of_ours(module: str):
    assert tops(ALL[module]) <= STANDARD | {"osgeo", "osgeo_utils", "numpy"}


@pytest.mark.parametrize("module", ALL)
def test_only_the_mcp_folder_imports_the_protocol_and_only_the_sandbox_the_engine(module: str):
    names = tops(ALL[module])
    if not within(module, "gdal_mcp.mcp"):
        assert names.isdisjoint({"mcp", "mcp_types", "starlette", "uvicorn"})
    if not within(
        module,
        "sandbox.engines",
        "gdal_mcp.image",
        "gdal_mcp.standin",
        "gdal_mcp.registry_pull",
        *CATALOGUE_IO,
    ):
        assert "docker" not in names


PURE = ("gdal_mcp.plan", "gdal_mcp.policy", "gdal_mcp.translation", "gdal_mcp.untrusted", "gdal_mcp.environment", "gdal_mcp.errors",
        "gdal_mcp.audit_record", "sandbox.protocol", "sandbox.outcome", "sandbox.template", "sandbox.errors", "sandbox.attest")  # fmt: skip


@pytest.mark.parametrize(
    "module",
    [
        *PURE,
        *(name for name in ALL if within(name, "gdal_mcp.catalogue") and not within(name, *CATALOGUE_IO)),
    ],
)
def test_the_pure_parts_import_nothing_that_touches_the_world(module: str):
    assert tops(ALL[module]).isdisjoint(WORLD)


@pytest.mark.parametrize("module", [name for name in ALL if within(name, "gdal_mcp")])
def test_dependencies_point_one_way(module: str):
    order = list(LAYERS)
    own = next((order.index(layer) for layer, packages in LAYERS.items() if within(module, *packages)), None)
    if own is None:
        return
    above = [package for layer in order[:own] for package in LAYERS[layer]]
    assert not [name for name in imports(ALL[module], everywhere=False) if within(name, *above)]


@pytest.mark.parametrize("package", ["gdal_mcp.catalogue", "gdal_mcp.policy"])
def test_catalogue_and_policy_know_no_door_and_no_state(package: str):
    reached = {name for module, path in ALL.items() if within(module, package) for name in imports(path)}
    forbidden = (
        "gdal_mcp.pipeline",
        "gdal_mcp.app",
        "gdal_mcp.mcp",
        "gdal_mcp.registry",
        "gdal_mcp.audit",
        "gdal_mcp.hosting",
        "gdal_mcp.execution",
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
                isinstance(node, ast.Expr | ast.Assign | ast.ImportFrom | ast.AnnAssign) for node in body
            ), path


def test_the_program_starts_without_loading_what_help_does_not_need():
    from subprocess import run

    code = "import sys, gdal_mcp.cli; gdal_mcp.cli.build_parser(); print(sorted({'mcp', 'docker', 'structlog', 'anyio'} & set(sys.modules)))"
    assert (
        run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        == "[]\n"
    )
