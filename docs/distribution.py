"""The files by which clients, registries and catalogues install the server: `python -m docs.distribution`.

Name, version, description and addresses come from pyproject.toml alone, so that no two files can differ. `--check` writes nothing and
exits with 1 when a file is not what it must be. A release asks for two more texts, which no commit can hold: `--release BUNDLE COMMIT`
writes server.json with the bundle's digest, and the Docker catalogue's entry with the commit that was tested, beside the bundle.
"""

import argparse
import base64
import hashlib
import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import yaml

from docs.promises import ROOT
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import Settings

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE, VERSION, DESCRIPTION = PROJECT["name"], PROJECT["version"], PROJECT["description"]
HOME: Final = PROJECT["urls"]["Repository"]
OWNER, NAME = HOME.split("/")[-2:]
TITLE: Final = "GDAL Sandbox"
REGISTERED: Final = f"io.github.{OWNER}/{NAME}"  # name in the registry, in the README and on the image
IMAGE: Final = f"ghcr.io/{OWNER}/{NAME}"
BUNDLE: Final = f"{NAME}-{VERSION}.mcpb"
SERVER_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_SOCKET: Final = "/var/run/docker.sock"
_FOLDERS: Final = "Folders with geodata that calls may read and, with your approval, write to"

Json = dict[str, Any]


def uvx(*folders: str) -> Json:
    """The command with which a client starts this version of the published package."""
    return {"command": "uvx", "args": [f"{PACKAGE}@{VERSION}", "serve", *folders]}


def server(bundle: bytes | None = None) -> Json:
    """The registry's entry; if the bundle's bytes are given, it also names the bundle."""
    folder = {"description": _FOLDERS, "format": "filepath", "isRequired": True}
    serve = {"type": "positional", "value": "serve"}
    stdio = {"type": "stdio"}
    packages = [
        {
            "registryType": "pypi",
            "registryBaseUrl": "https://pypi.org",
            "identifier": PACKAGE,
            "version": VERSION,
            "runtimeHint": "uvx",
            "transport": stdio,
            "packageArguments": [serve, {"type": "positional", "valueHint": "folder", "isRepeated": True, **folder}],
        },
        {
            "registryType": "oci",
            "identifier": f"{IMAGE}:{VERSION}",
            "runtimeHint": "docker",
            "transport": stdio,
            "runtimeArguments": [
                {"type": "named", "name": "--interactive"},
                {"type": "named", "name": "--rm"},
                {"type": "named", "name": "--volume", "value": f"{_SOCKET}:{_SOCKET}"},
                {"type": "named", "name": "--volume", "value": "{folder}:{folder}", "variables": {"folder": folder}},
            ],
            "packageArguments": [
                serve,
                {"type": "positional", "valueHint": "folder", "value": "{folder}", "variables": {"folder": folder}},
            ],
        },
    ]  # fmt: skip
    if bundle is not None:
        packages.append(
            {
                "registryType": "mcpb",
                "identifier": f"{HOME}/releases/download/v{VERSION}/{BUNDLE}",
                "fileSha256": hashlib.sha256(bundle).hexdigest(),
                "transport": stdio,
            }
        )
    return {
        "$schema": SERVER_SCHEMA,
        "name": REGISTERED,
        "title": TITLE,
        "description": DESCRIPTION,
        "version": VERSION,
        "repository": {"url": HOME, "source": "github"},
        "packages": packages,
    }


def _about() -> Json:
    """The description in plugins and bundles."""
    return {
        "name": NAME,
        "version": VERSION,
        "description": DESCRIPTION,
        "author": {"name": f"The {NAME} contributors", "url": HOME},
        "homepage": HOME,
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
    }


def bundle_manifest() -> Json:
    """The manifest of the bundle that Claude Desktop installs.

    Its uv installs Python and the locked packages; the sources are in the bundle.
    """
    run = "run --no-project --python >=3.11 --directory ${__dirname} --with-requirements requirements.txt".split()
    return {
        "manifest_version": "0.4",
        **_about(),
        "display_name": TITLE,
        "icon": "icon.png",
        "repository": {"type": "git", "url": HOME},
        "documentation": f"{HOME}#readme",
        "support": f"{HOME}/issues",
        "server": {
            "type": "uv",
            "entry_point": "gdal_mcp/__main__.py",
            "mcp_config": {
                "command": "uv",
                "args": [*run, "python", "-m", "gdal_mcp", "serve", "${user_config.workspaces}"],
            },
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in _tools()],
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": PROJECT["requires-python"]},
        },
        "user_config": {
            "workspaces": {
                "type": "directory",
                "title": "Workspaces",
                "description": f"{_FOLDERS}.",
                "required": True,
                "multiple": True,
            }
        },
    }


def codex_plugin() -> Json:
    words = {
        "displayName": TITLE,
        "shortDescription": "Maps and geodata, each call in its own container",
        "longDescription": DESCRIPTION,
        "developerName": _about()["author"]["name"],
        "category": "Data",
        "capabilities": ["Interactive", "Read", "Write"],
        "websiteURL": HOME,
        "defaultPrompt": ["What is in dem.tif, and is anything wrong with it?"],
    }
    return {**_about(), "repository": HOME, "mcpServers": {"gdal": uvx(".")}, "interface": words}


def marketplace() -> Json:
    about = _about()
    entry = {key: about[key] for key in ("name", "description", "version", "license", "keywords")}
    return {
        "name": NAME,
        "owner": about["author"],
        "metadata": {"description": DESCRIPTION, "version": VERSION},
        "plugins": [{**entry, "source": "./"}],
    }


def catalogue_entry(commit: str | None = None) -> Json:
    """The entry of the Docker catalogue, which requires the tested commit."""
    source = {"project": HOME, "branch": "main"} | ({"commit": commit} if commit else {})
    folders = {"type": "array", "items": {"type": "string"}, "default": ["/Users/me/maps"]}
    return {
        "name": NAME,
        "image": f"mcp/{NAME}",
        "type": "server",
        "meta": {"category": "data-analytics", "tags": PROJECT["keywords"]},
        "about": {"title": TITLE, "description": DESCRIPTION},
        "source": source,
        "run": {
            "command": ["serve", f"{{{{{NAME}.folders|volume-target|into}}}}"],
            "volumes": [f"{{{{{NAME}.folders|volume|into}}}}", f"{_SOCKET}:{_SOCKET}"],
            "disableNetwork": True,
        },
        "config": {
            "description": f"{_FOLDERS}. The engine's socket starts a container for each call",
            "parameters": {"type": "object", "properties": {"folders": folders}, "required": ["folders"]},
        },
    }


def _tools() -> Sequence[Any]:
    settings = Settings.model_construct(toolsets=("core",), tools=(), exclude_tools=(), read_only=False)
    return toolboxes(settings).surface(settings).listed


def catalogue_tools() -> list[Json]:
    """The tools as the Docker catalogue lists them if it cannot start a server."""

    def arguments(schema: Mapping[str, Any]) -> Iterator[Json]:
        for name, argument in schema.get("properties", {}).items():
            kind = argument.get("type", "object" if "$ref" in argument else "string")
            text = kind if isinstance(kind, str) else " or ".join(kind)
            yield {"name": name, "type": text, "desc": argument.get("description", "")}

    return [
        {"name": tool.name, "description": tool.description, "arguments": list(arguments(tool.input_schema))}
        for tool in _tools()
    ]


def buttons() -> Iterator[str]:
    """The links of the first page that install the server with one click, for the open folder."""
    entry = json.dumps(uvx("${workspaceFolder}"), separators=(",", ":"))
    badge = "https://img.shields.io/badge"
    code = f"https://insiders.vscode.dev/redirect/mcp/install?name=gdal&config={quote(entry, safe='')}"
    cursor = (
        f"https://cursor.com/install-mcp?name=gdal&config={quote(base64.b64encode(entry.encode()).decode())}"
    )
    yield f"[![Install in VS Code]({badge}/VS_Code-install-0098FF)]({code})"
    yield f"[![Install in Cursor]({badge}/Cursor-install-black)]({cursor})"
    yield f"[![Bundle for Claude Desktop]({badge}/Claude_Desktop-download-D97757)]({HOME}/releases/latest)"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _yaml(value: Json) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)


FILES: Final[Mapping[str, Callable[[], str]]] = {
    "server.json": lambda: _json(server()),
    ".mcp.json": lambda: _json({"mcpServers": {"gdal": uvx("${CLAUDE_PROJECT_DIR:-.}")}}),
    ".vscode/mcp.json": lambda: _json({"servers": {"gdal": {"type": "stdio", **uvx("${workspaceFolder}")}}}),
    ".claude-plugin/plugin.json": lambda: _json({**_about(), "repository": HOME}),
    ".claude-plugin/marketplace.json": lambda: _json(marketplace()),
    ".codex-plugin/plugin.json": lambda: _json(codex_plugin()),
    "glama.json": lambda: _json({"$schema": "https://glama.ai/mcp/schemas/server.json", "maintainers": [OWNER]}),
    "deploy/bundle/manifest.json": lambda: _json(bundle_manifest()),
    "deploy/docker-catalog/server.yaml": lambda: _yaml(catalogue_entry()),
    "deploy/docker-catalog/tools.json": lambda: _json(catalogue_tools()),
}  # fmt: skip


def release(bundle: Path, commit: str) -> None:
    """Writes the texts of a release that the repository does not contain, beside the bundle."""
    (bundle.parent / "server.json").write_text(_json(server(bundle.read_bytes())), encoding="utf-8")
    (bundle.parent / "server.yaml").write_text(_yaml(catalogue_entry(commit)), encoding="utf-8")


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs.distribution", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when a file is out of date"
    )
    parser.add_argument("--release", nargs=2, metavar=("BUNDLE", "COMMIT"), help="write what a release adds")
    options = parser.parse_args(arguments)
    if options.release:
        release(Path(options.release[0]), options.release[1])
        return 0
    stale = [name for name, make in FILES.items() if not _is(root / name, make())]
    for name in stale:
        if not options.check:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(FILES[name](), encoding="utf-8")
        sys.stdout.write(f"{name}: {'out of date; run `make docs`' if options.check else 'written'}\n")
    return 1 if options.check and stale else 0


def _is(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
