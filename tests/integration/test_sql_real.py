"""SQL against a real GDAL in a hardened container: every permitted function reads, writes and reaches only its
arguments.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.catalogue.errors import ArgumentRefused
from gdal_mcp.toolboxes.gdal.catalogue.sql import check_statement
from gdal_mcp.toolboxes.gdal.discovery import read
from gdal_mcp.toolboxes.gdal.environment import environment
from sandbox.outcome import Exited
from sandbox.runner import Job, Runner
from sandbox.waiting import Cancellation
from tests.conftest import SMALL, TemplateMaker, handler

pytestmark = pytest.mark.engine

LIMITS = replace(SMALL, memory_bytes=512 << 20, wall_seconds=300)
CANARY = "CANARY-7-41"

SOURCES = r"""
from osgeo import gdal, ogr
gdal.UseExceptions(); gdal.PushErrorHandler("CPLQuietErrorHandler")
def filled(data):
    layer = data.CreateLayer("poly"); layer.CreateField(ogr.FieldDefn("a", ogr.OFTString))
    feature = ogr.Feature(layer.GetLayerDefn()); feature["a"] = "x"; layer.CreateFeature(feature)
    return data
filled(gdal.GetDriverByName("GPKG").CreateVector("/tmp/in.gpkg")).Close()
sources = {"SQLITE": filled(gdal.GetDriverByName("MEM").CreateVector("")), "": gdal.OpenEx("/tmp/in.gpkg", gdal.OF_VECTOR)}
def rows(dialect, statement):
    found = sources[dialect].ExecuteSQL(statement, None, dialect)
    said = [[one.GetField(at) for at in range(one.GetFieldCount())] for one in found or ()]
    if found: sources[dialect].ReleaseResultSet(found)
    return said
"""
FUNCTIONS = (
    SOURCES
    + """
names = {name for dialect in sources for (name,) in rows(dialect, "SELECT DISTINCT name FROM pragma_function_list")}
return {"code": 0, "told": sorted(names)}
"""
)
CALLED = (
    SOURCES
    + """
def files():
    return {os.path.join(top, name) for top, _, names in os.walk("/tmp") for name in names}
before, told, done = files(), [], 0
for dialect, statement in [(dialect, one) for dialect in sources for one in job["statements"]]:
    try:
        said = repr(rows(dialect, statement))
        done += 1
    except RuntimeError as error:
        said = str(error).replace(statement, "")
    if job["canary"] in said:
        told.append(statement)
return {"code": 0, "told": told, "made": sorted(files() - before), "done": done}
"""
)


@pytest.fixture
def ask(
    runner: Runner, make_template: TemplateMaker, workspace: Path, cancel: Cancellation
) -> Callable[..., Any]:
    """Runs a program in a container with a call's environment that sees the workspace, and returns its answer."""
    (workspace / "canary.csv").write_text(f"id,name\n1,{CANARY}\n")
    (workspace / "canary.xml").write_text(f"<a>{CANARY}</a>")
    (workspace / "line.csv").write_text(f"{CANARY}\n")

    def run(body: str, **job: Any) -> Any:
        template = make_template(
            handler(body), limits=LIMITS, workspace=workspace, environment=dict(environment(LIMITS))
        )
        result = runner.run(Job("call-0001", template, job), cancel)
        assert result.outcome == Exited(0), result
        assert result.final is not None
        return result.final

    return run


def passes(statement: str) -> bool:
    try:
        return bool(check_statement(statement, "sql"))
    except ArgumentRefused:
        return False


@pytest.mark.nightly  # about fourteen thousand statements
@pytest.mark.claim("sql.one-select")
def test_no_callable_function_opens_or_writes_a_file(ask, workspace):
    names = ask(FUNCTIONS)["told"]
    callable_ones = [name for name in names if passes(f"SELECT {name}('x')")]
    assert len(names) * 0.95 < len(callable_ones) < len(names)
    files = [f"'{workspace}/canary.csv'", f"'{workspace}/canary.xml'", f"'CSV:{workspace}/canary.csv'"]
    arguments = [(path,) * count for path in files for count in (1, 2)]
    statements = [f"SELECT {name}({', '.join(texts)})" for name in callable_ones for texts in arguments]
    done = 0
    for some in batched(statements, 1000):  # one container each, so that none needs minutes
        result = ask(CALLED, statements=some, canary=CANARY)
        assert result["told"] == []
        assert result["made"] == []
        done += result["done"]
    assert done > 1000


def batched(statements: list[str], size: int) -> Iterator[list[str]]:
    return (statements[start : start + size] for start in range(0, len(statements), size))


def test_documented_functions_exist_unless_they_have_substitutes(ask):
    known = read("sql.toml")
    there = {name.lower() for name in ask(FUNCTIONS)["told"]}
    assert {name.lower() for names in known["functions"].values() for name in names.split()} <= there
    assert not set(known["instead"]) & there


@pytest.mark.claim("sql.one-select")
def test_functions_opening_files_are_known_and_refused(ask, workspace):
    """Most refused functions would reach nothing either; those that make a table from a file would."""
    file = f"{workspace}/canary.csv"
    reached = [
        f"SELECT XB_Create(CAST('<a/>' AS BLOB), 0, '{workspace}/line.csv'), XB_GetLastValidateError()",
        f'SELECT * FROM "{file}".canary',
        f"SELECT * FROM '{file}'.canary",
        f'SELECT * FROM poly, "{file}".canary',
    ]
    stopped = [
        f"SELECT readfile('{file}')",
        f"SELECT BlobFromFile('{file}')",
        f"SELECT ogr_datasource_load_layers('{file}')",
        f"SELECT load_extension('{workspace}/evil.so')",
        f"SELECT ExportDBF('poly', '{workspace}/made.dbf', 'utf8')",
        "VACUUM INTO '/tmp/made.db'",
    ]
    assert not any(map(passes, (*reached, *stopped)))
    result = ask(CALLED, statements=[*reached, *stopped], canary=CANARY)
    assert set(result["told"]) == set(reached)
    assert [path for path in result["made"] if "made.dbf" in path] == []
