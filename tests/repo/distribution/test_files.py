"""The files by which clients install the server: each has its format, all agree, and the commands in them start this
server.
"""

import base64
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jsonschema
import pytest
import yaml

from docs import distribution
from gdal_mcp import __version__
from gdal_mcp.cli.parsers import build_parser
from scripts import bundle
from tests.e2e.cli.conftest import DEAD, gdal_mcp

ROOT = Path(__file__).parents[3]
SCHEMAS = Path(__file__).parent / "schemas"
DOCUMENTED = json.loads((SCHEMAS / "documented.json").read_text())["$defs"]
MANIFEST = json.loads((SCHEMAS / "mcpb-manifest-v0.4.schema.json").read_text())
FORMATS = {**DOCUMENTED, "deploy/bundle/manifest.json": MANIFEST}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def read(path: Path):
    return (yaml.safe_load if path.suffix == ".yaml" else json.loads)(path.read_text())


def fits(name: str, value: object) -> bool:
    """True if a value has the required format; addresses are checked too."""
    checker = jsonschema.Draft202012Validator(FORMATS[name], format_checker=jsonschema.FormatChecker())
    return checker.is_valid(value)


def walk(value: object):
    yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(child)


def test_every_file_matches_project_and_format():
    command = [sys.executable, "-m", "docs.distribution", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(distribution.FILES) == set(FORMATS)
    for name in FORMATS:
        value = read(ROOT / name)
        jsonschema.Draft202012Validator(FORMATS[name]).validate(value)
        broken = {**value, "unheard-of": 1} if isinstance(value, dict) else [{}]
        assert not fits(name, broken), name


def test_manually_changed_file_is_found_and_rewritten(tmp_path, capsys):
    assert distribution.main([], tmp_path) == 0
    for name in distribution.FILES:
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("gdal", "gdaI", 1))
    capsys.readouterr()
    assert distribution.main(["--check"], tmp_path) == 1
    output = capsys.readouterr().out
    assert [line.partition(":")[0] for line in output.splitlines()] == list(distribution.FILES)
    assert "gdaI" in (tmp_path / "server.json").read_text()
    assert distribution.main([], tmp_path) == 0
    assert "gdaI" not in (tmp_path / "server.json").read_text()


def test_version_description_and_name_agree_in_every_file():
    texts = {name: (ROOT / name).read_text() for name in (*distribution.FILES, "Dockerfile", "compose.yaml")}
    assert PROJECT["version"] == __version__
    for name, text in texts.items():
        assert set(re.findall(r"\b\d+\.\d+\.\d+\b", text)) <= {__version__, "127.0.0", "0.0.0"}, name
    described = (
        "server.json", "deploy/bundle/manifest.json", "deploy/docker-catalog/server.yaml", "Dockerfile",
    )  # fmt: skip
    for name in described:
        assert PROJECT["description"] in texts[name], name
    registered = distribution.REGISTERED
    assert f"mcp-name: {registered}" in (ROOT / "README.md").read_text()
    assert f'io.modelcontextprotocol.server.name="{registered}"' in texts["Dockerfile"]
    assert f'org.opencontainers.image.source="{PROJECT["urls"]["Repository"]}"' in texts["Dockerfile"]


def test_every_project_address_is_that_of_pyproject():
    owned, home = f"{distribution.OWNER}/{distribution.NAME}", distribution.HOME
    address = r"(?:ghcr\.io|github\.com|githubusercontent\.com|add)[/ ]([\w.-]+/gdal-mcp)"
    pages = ("README.md", "llms-install.md", "mkdocs.yml", "docs/platforms.md")
    for name in (*pages, "Dockerfile", "gdal_mcp/__main__.py"):
        repositories = re.findall(address, (ROOT / name).read_text())
        assert repositories, name
        assert {*repositories} == {owned}, name
    # the package's page shows the README, where a relative link leads nowhere
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text()):
        assert link.startswith("https://"), link
        base, _, path = link.partition("/HEAD/")
        if path:
            assert base in (f"{home}/blob", f"https://raw.githubusercontent.com/{owned}"), link
            assert (ROOT / path.partition("#")[0]).exists(), link


def started() -> list[list[str]]:
    """The words after `uvx` in every file and button that starts the published package."""
    values = [read(ROOT / name) for name in FORMATS]
    for line in distribution.buttons():
        query = parse_qs(urlsplit(line[line.rindex("(") + 1 : -1]).query)
        configs = query.get("config", [])
        values += [
            json.loads(config if config.startswith("{") else base64.b64decode(config)) for config in configs
        ]
    entries = [entry for value in values for entry in walk(value) if isinstance(entry, dict)]
    return [entry["args"] for entry in entries if entry.get("command") == "uvx"]


def test_clients_start_an_existing_script_and_command():
    commands = started()
    assert len(commands) == 5
    for package, *words in commands:
        name, _, version = package.partition("@")
        assert (name, version) == (PROJECT["name"], PROJECT["version"])
        assert name in PROJECT["scripts"]
        assert build_parser().parse_args(words).folders


def needs(job: dict) -> list[str]:
    named = job.get("needs", [])
    return [named] if isinstance(named, str) else named


def test_dry_run_release_can_write_nothing():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    tagged = {name for name, job in jobs.items() if job.get("if") == "github.ref_type == 'tag'"}
    for _ in jobs:  # a job that needs a skipped job is skipped
        tagged |= {name for name, job in jobs.items() if tagged & set(needs(job))}
    for name, job in jobs.items():
        assert (name in tagged) == ("permissions" in job) == (job.get("environment") == "release"), name
        assert "secrets." not in str(job)
    assert {"test", "build", "image"} == jobs.keys() - tagged


def test_release_names_bundle_digest_and_tested_commit(tmp_path):
    path = bundle.build(tmp_path)
    distribution.main(["--release", str(path), COMMIT])
    server, entry = read(tmp_path / "server.json"), read(tmp_path / "server.yaml")
    assert fits("server.json", server)
    assert fits("deploy/docker-catalog/server.yaml", entry)
    assert entry["source"]["commit"] == COMMIT
    mcpb = next(package for package in server["packages"] if package["registryType"] == "mcpb")
    output = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True).stdout
    assert output.startswith(mcpb["fileSha256"])
    del mcpb["fileSha256"]
    assert not fits("server.json", server)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(bundle.build(folder)) as archive:
        archive.extractall(folder / "in")
    return folder / "in"


def test_bundle_is_reproducible_and_holds_its_manifest_targets(unpacked: Path, tmp_path: Path):
    first, second = bundle.build(tmp_path), bundle.build(tmp_path / "again")
    assert first.read_bytes() == second.read_bytes()
    manifest = json.loads((unpacked / "manifest.json").read_text())
    assert (unpacked / manifest["server"]["entry_point"]).is_file()
    assert (unpacked / manifest["icon"]).read_bytes().startswith(b"\x89PNG")
    command = manifest["server"]["mcp_config"]
    assert command["command"] == "uv"
    assert (unpacked / command["args"][command["args"].index("--with-requirements") + 1]).is_file()
    # the command that uv starts, with this interpreter instead: the sources of the bundle, not those of the checkout
    words = command["args"][command["args"].index("python") + 1 :]
    assert words[-1] == "${user_config.workspaces}"
    code = "import gdal_mcp, sys; sys.argv[1:] = ['--version']; print(gdal_mcp.__file__)"
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=unpacked, text=True)
    assert Path(printed.strip()).is_relative_to(unpacked)
    subprocess.run([sys.executable, *words[:-1], "--help"], cwd=unpacked, capture_output=True, check=True)


def test_folders_from_a_client_are_ordinary_workspaces(tmp_path: Path):
    one, two, gone = tmp_path / "one", tmp_path / "two", tmp_path / "gone"
    one.mkdir(), two.mkdir()
    program = ("serve", *DEAD, "--state-dir", str(tmp_path / "state"))
    for words in ([], [str(gone)], [str(one), str(gone)], ["--workspace", str(one), str(gone)]):
        ended = gdal_mcp(*program, *words)
        assert ended.code == 2, words
        assert not words or str(gone) in ended.stderr
