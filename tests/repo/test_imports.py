"""The folder list is the architecture: which part may import which, read from the sources."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDARD = frozenset(sys.stdlib_module_names)
# sent into containers as text, where only GDAL is available
INSIDE = (
    "sandbox.worker", "sandbox.isolation.probe", "sandbox.escape.probe", "sandbox.engines.k8s.gate", "gdal_mcp.toolboxes.gdal.inside",
    "gdal_mcp.toolboxes.python.inside", "gdal_mcp.toolboxes.augment.inside", "gdal_mcp.toolboxes.gdal.catalogue.capture_program",
)  # fmt: skip
# a module that is declared pure imports none of these
WORLD = frozenset(
    """os io socket subprocess sqlite3 urllib shutil tempfile threading time random secrets docker mcp anyio structlog
    logging asyncio select signal""".split()
)


def modules() -> dict[str, Path]:
    """Module name -> file."""
    files = {}
    for package in ("sandbox", "gdal_mcp"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            files[name.removesuffix(".__init__")] = path
    return files


ALL = modules()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> tuple[str, ...]:
    """All modules that a file imports, except those only for type checkers."""
    tree = tree_of(path)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names: list[str] = []
    for node in ast.walk(tree):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names += [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
    return tuple(names)


def libraries(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_rooms_import_only_what_is_below_them():
    """The contracts are in pyproject.toml, under [tool.importlinter]."""
    ran = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]


def test_the_package_has_a_dozen_rooms():
    rooms = {path.name for path in (ROOT / "gdal_mcp").iterdir() if (path / "__init__.py").exists()}
    loose = {path.stem for path in (ROOT / "gdal_mcp").glob("*.py")}
    assert len(rooms) <= 12
    assert loose == {"__init__", "__main__", "errors", "invoked", "logs", "plan"}


@pytest.mark.claim("content.host-opens-no-dataset")
def test_nothing_that_judges_a_call_opens_a_file():
    opening = {"open_file", "open_folder", "open", "Path"}
    rooms = ("gdal_mcp.toolboxes.gdal.preflight", "gdal_mcp.tools", "gdal_mcp.toolboxes.gdal.discovery")
    openers = {
        module
        for module, path in ALL.items()
        if within(module, *rooms)
        and any(isinstance(node, ast.Name) and node.id in opening for node in ast.walk(tree_of(path)))
    }
    assert openers == set()


def test_no_module_imports_itself_through_others():
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail, module))
        if module not in done:
            for inner in {name for name in imports(ALL[module]) if name in ALL and name != module}:
                visit(inner, (*trail, module))
            done.add(module)

    for module in ALL:
        visit(module, ())


# a protocol and its implementation are the same idea
SHARED_NAMES = {"Preflight": "the protocol of all toolboxes, and GDAL's implementation"}


def test_no_class_name_has_two_meanings():
    places: dict[str, list[str]] = {}
    for module, path in ALL.items():
        for name in {node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)}:
            places.setdefault(name, []).append(module)
    repeated = {name: modules for name, modules in places.items() if len(modules) > 1}
    assert repeated.keys() == SHARED_NAMES.keys(), repeated


def test_sandbox_imports_nothing_of_gdal_mcp_or_libraries():
    for module, path in ALL.items():
        if within(module, "sandbox"):
            engines = (
                {"docker", "requests", "urllib3", "wsproto", "yaml"}
                if within(module, "sandbox.engines")
                else set()
            )
            assert libraries(path) <= STANDARD | {"sandbox", "structlog", "pydantic"} | engines, module


def test_a_library_is_imported_in_its_own_place():
    for names, places in (
        ({"mcp", "mcp_types"}, ("gdal_mcp.server.mcp", "gdal_mcp.testing")),
        (
            {"starlette", "uvicorn"},
            ("gdal_mcp.server.http", "gdal_mcp.server.console"),
        ),
        ({"jwt", "httpx2"}, ("gdal_mcp.server.http", "gdal_mcp.testing")),
        ({"docker"}, ("sandbox.engines", "gdal_mcp.testing.container")),
    ):
        assert [m for m, path in ALL.items() if not within(m, *places) and libraries(path) & names] == []


@pytest.mark.claim("content.no-native-reader")
def test_container_code_needs_no_own_modules_nor_loading():
    together = (
        "gdal_mcp.toolboxes.gdal.inside.parts",
        "gdal_mcp.toolboxes.augment.inside",
    )  # each is sent as one
    for module, path in ALL.items():
        if within(module, *INSIDE):
            ours = [
                name
                for name in imports(path)
                if not any(within(module, parts) and within(name, parts) for parts in together)
            ]
            allowed = STANDARD | {"osgeo", "osgeo_utils", "numpy", "albumentations", "cv2", "scipy"}
            assert {name.partition(".")[0] for name in ours} <= allowed, module
        else:
            loaded = {name for name in imports(path) if within(name, *INSIDE)}
            # reads the sources of both, to detect when a host must be attested again
            reads = (
                {"sandbox.isolation.probe", "sandbox.worker"}
                if module == "gdal_mcp.runtime.hosting"
                else set()
            )
            assert loaded <= reads, module
            assert libraries(path).isdisjoint({"osgeo", "osgeo_utils", "numpy"}), module


def test_what_calls_itself_pure_touches_nothing():
    pure = [m for m, path in ALL.items() if re.search(r"\bPure\.", ast.get_docstring(tree_of(path)) or "")]
    assert len(pure) > 20
    for module in pure:
        assert (libraries(ALL[module]) & WORLD) <= _harmless(ALL[module]), module


def _harmless(path: Path) -> set[str]:
    """Standard modules of which a file uses only functions of texts."""
    used = {
        node.attr
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    harmless = {"os"} if used <= {"fsencode", "fsdecode", "sep"} else set()
    loaded = {name for name in imports(path) if within(name, "urllib")}
    return harmless | ({"urllib"} if all(within(name, "urllib.parse") for name in loaded) else set())


def test_a_package_does_nothing_when_it_is_imported():
    harmless = ast.Expr | ast.Assign | ast.ImportFrom | ast.AnnAssign | ast.FunctionDef
    for path in ALL.values():
        if path.name == "__init__.py":
            assert all(isinstance(node, harmless) for node in tree_of(path).body), path


def test_program_starts_without_loading_what_help_omits():
    code = "import sys, gdal_mcp.cli.main; gdal_mcp.cli.main.build_parser(); print(sorted({'mcp', 'docker', 'structlog', 'anyio', 'gdal_mcp.server.app', 'gdal_mcp.tools'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == "[]\n"
