"""Data from outside is parsed with a bound on its values and levels: by `sandbox.parsing`, or as a row here says."""

import ast
from collections.abc import Iterator

import pytest

from tests.repo.test_imports import ALL, INSIDE, tree_of

BOUNDED = "sandbox.parsing"
# parsers that make as many objects as a text asks for
PARSERS = frozenset(
    """json.load json.loads json.JSONDecoder tomllib.load tomllib.loads ast.parse ast.literal_eval
    yaml.load yaml.load_all yaml.safe_load yaml.safe_load_all yaml.full_load yaml.unsafe_load yaml.compose yaml.parse
    pickle.load pickle.loads marshal.load marshal.loads plistlib.load plistlib.loads configparser.ConfigParser
    xml.etree.ElementTree.parse xml.etree.ElementTree.fromstring xml.etree.ElementTree.XML
    xml.etree.ElementTree.iterparse xml.etree.ElementTree.XMLParser xml.parsers.expat.ParserCreate
    xml.dom.minidom.parse xml.dom.minidom.parseString xml.sax.parse xml.sax.parseString
    pydantic_core.from_json orjson.loads jwt.decode jwt.decode_complete jwt.get_unverified_header""".split()
)
METHODS = frozenset(
    {"json", "model_validate_json", "validate_json"}
)  # of responses, models and type adapters

OWN = "a file of this program, in a folder that only its own user writes"
USER = "a file or text of the person who runs the program"
PACKAGE = "a text of this package"
SEALED = "a text that this process sealed"
COUNTED = "printed by a container; `calls/execution.py` counts its values before"
ENGINE = "written by the engine, which is trusted with this host"
PARSED = {
    "gdal_mcp.calls.workflows.document:load": "64 KiB of YAML at most, without aliases",
    "gdal_mcp.calls.workflows.document:read_value": USER,
    "gdal_mcp.calls.workflows.store:_measured": OWN,
    "gdal_mcp.calls.workflows.store:find": OWN,
    "gdal_mcp.cli.catalogue:refresh": "a text of this package, and one that `capture.py` made",
    "gdal_mcp.invoked:uvx_source": "written by the installer of this package",
    "gdal_mcp.cli.clients:_with_json": USER,
    "gdal_mcp.cli.clients:_with_toml": USER,
    "gdal_mcp.cli.streams:json_object": USER,
    "gdal_mcp.records.audit_files:read_head": OWN,
    "gdal_mcp.records.audit_record:parse_line": OWN,
    "gdal_mcp.records.schema:all": OWN,
    "gdal_mcp.remote.listing:read": "elements, attributes, levels and keys are counted; no DOCTYPE",
    "gdal_mcp.remote.signing:_google_signer": USER,
    "gdal_mcp.runtime.cached:cached_attestation": OWN,
    "gdal_mcp.server.console.pictures:legend": OWN,
    "gdal_mcp.server.console.runtime_file:running": OWN,
    "gdal_mcp.server.console.workflows:forget": OWN,
    "gdal_mcp.server.http.oauth:verify": "a token in a head of 32 KiB or a body of 16 KiB at most",
    "gdal_mcp.server.mcp.elicitation:answered": SEALED,
    "gdal_mcp.server.mcp.sampling:answered": SEALED,
    "gdal_mcp.server.mcp.stdio:_leniently": "a line that the SDK did not parse, from the user's own client",
    "gdal_mcp.server.operations.examine:examine_in_process": "printed by a process of this program",
    "gdal_mcp.server.operations.forecasts:find_forecast": OWN,
    "gdal_mcp.settings.file:trusted_toml": USER,
    "gdal_mcp.toolboxes.augment.reading:_arguments": "a prompt, of 500 characters at most",
    "gdal_mcp.toolboxes.augment.tool:specification": PACKAGE,
    "gdal_mcp.toolboxes.gdal.answers.report:read_json": COUNTED,
    "gdal_mcp.toolboxes.gdal.catalogue.load:catalogue_of": "a text of this package, or one that `capture.py` made",
    "gdal_mcp.toolboxes.gdal.catalogue.load:servable": "a text of this package, or one that `capture.py` made",
    "gdal_mcp.toolboxes.gdal.faults:load_probed": OWN,
    "gdal_mcp.toolboxes.gdal:data_of": PACKAGE,
    "gdal_mcp.toolboxes.toolbox:": COUNTED,
    "gdal_mcp.tools.look:_stored_result": OWN,
    "sandbox.capacity:_ledger_of": OWN,
    "sandbox.engines.discovery:_read": USER,
    "sandbox.engines.k8s.cluster:from_kubeconfig": USER,
    "sandbox.engines.libpod:_compared": PACKAGE,
    "sandbox.engines.oci.bundle:labels": OWN,
    "sandbox.engines.oci.config:config": PACKAGE,
    "sandbox.engines.oci.store:_all": OWN,
    "sandbox.engines.oci.store:_compare": OWN,
    "sandbox.engines.podman:_libpod": ENGINE,
    "sandbox.engines.podman:_runtime_configuration": ENGINE,
    "sandbox.engines.trial:_read": OWN,
    "sandbox.isolation.seccomp:rules": PACKAGE,
}


def names_of(tree: ast.Module) -> dict[str, str]:
    """The full names of what a module imports, by the names that it uses."""
    full_names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            full_names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            full_names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return full_names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    first, dot, rest = ast.unparse(node).partition(".")
    return names.get(first, first) + dot + rest


def parsers(tree: ast.Module) -> Iterator[str]:
    """The functions in which a parser is used or passed on, once for each use."""
    names = names_of(tree)

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if called and node.func.attr in METHODS:  # type: ignore[attr-defined]
            yield function
        if isinstance(node, ast.Name | ast.Attribute) and full_name(node, names) in PARSERS:
            yield function
        for child in ast.iter_child_nodes(node):
            yield from walk(child, function)

    return walk(tree, "")


@pytest.mark.claim("remote.answers-bounded")
def test_only_named_functions_parse_without_a_bound():
    parsing = {
        f"{name}:{function}"
        for name, path in ALL.items()
        if not name.startswith(INSIDE) and name != BOUNDED
        for function in parsers(tree_of(path))
    }
    assert parsing == set(PARSED)


@pytest.mark.parametrize(
    "text",
    [
        "import json\ndef f(data): return json.loads(data)",
        "from json import loads as read\ndef f(data): return read(data)",
        "import xml.etree.ElementTree as ET\ndef f(data): return ET.fromstring(data)",
        "import json\ndef f(texts): return map(json.loads, texts)",
        "async def f(response): return response.json()",
        "def f(model, data): return model.model_validate_json(data)",
    ],
)
def test_a_parser_is_found_under_every_name(text: str):
    assert list(parsers(ast.parse(text))) == ["f"]
