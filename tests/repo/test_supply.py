"""All installed, built and executed software is pinned: packages by hash, actions by commit, the npm suites by
digest.
"""

import asyncio
import inspect
import json
import re
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
import yaml
from jwt import PyJWKClient
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from uvicorn.protocols.http.h11_impl import H11Protocol

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("dev.txt", "server.txt", "package.txt", "site.txt")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
_PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;]+)(?: ; [^\\]+)?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(text: str) -> list[str]:
    """The requirements in the lock, one per line: continued lines are joined, comments are removed."""
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")]


def unpinned(text: str) -> list[str]:
    """The entries that are not a version with hashes and nothing else."""
    wrong = []
    for entry in entries(text):
        pin, *hashes = re.split(r"\s+(?=--hash)", entry)
        if not (_PIN.fullmatch(pin) and hashes and all(_HASH.fullmatch(option.strip()) for option in hashes)):
            wrong.append(entry)
    return wrong


def lock(name: str) -> str:
    return (ROOT / "requirements" / name).read_text()


def versions(name: str) -> dict[str, set[str]]:
    """The versions of each package in the lock: several if they depend on the Python or the platform."""
    by_name: dict[str, set[str]] = {}
    for entry in entries(lock(name)):
        pin = _PIN.match(entry)
        by_name.setdefault(canonicalize_name(pin["name"]), set()).add(pin["version"])
    return by_name


def requirements(*lists: list[str]) -> list[Requirement]:
    return [Requirement(line) for lines in lists for line in lines]


def listed(name: str) -> list[str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


OWN = PROJECT["project"]["dependencies"]
EXTRAS = [
    requirement for extra in PROJECT["project"]["optional-dependencies"].values() for requirement in extra
]
DECLARED = {
    # packages of an extra are tested in the versions of the lock, too
    "dev.txt": requirements(OWN, EXTRAS, PROJECT["dependency-groups"]["dev"], listed("build.in")),
    "server.txt": requirements(OWN),
    "site.txt": requirements(PROJECT["dependency-groups"]["site"]),
    "package.txt": requirements(listed("package.in"), PROJECT["build-system"]["requires"]),
}


@pytest.mark.claim("supply.locked")
def test_locked_packages_have_versions_and_hashes_without_hosts():
    for name in LOCKS:
        assert unpinned(lock(name)) == []
        assert len(entries(lock(name))) >= len(DECLARED[name])


@pytest.mark.claim("supply.locked")
def test_a_lock_holds_what_is_declared():
    for name in LOCKS:
        locked = versions(name)
        for requirement in DECLARED[name]:
            pinned = locked[canonicalize_name(requirement.name)]
            assert all(requirement.specifier.contains(version, prereleases=True) for version in pinned), (
                requirement
            )


@pytest.mark.claim("supply.locked")
def test_no_two_locks_hold_different_package_versions():
    tested = versions("dev.txt")
    for name in ("server.txt", "package.txt"):
        assert not {
            package: pinned for package, pinned in versions(name).items() if not pinned <= tested[package]
        }


@pytest.mark.claim("supply.locked")
def test_server_image_has_nothing_for_developers():
    developers = requirements(PROJECT["dependency-groups"]["dev"], EXTRAS)
    own = {canonicalize_name(requirement.name) for requirement in requirements(OWN)}
    # our own dependencies may need one of these
    tools = {canonicalize_name(requirement.name) for requirement in developers} - own - {"packaging"}
    assert tools
    assert not tools & set(versions("server.txt"))


@pytest.mark.claim("supply.locked")
def test_server_image_installs_nothing_without_its_hash():
    installs = re.findall(r"pip\b[^\n&]*? (?:install|wheel) [^\n&]*", (ROOT / "Dockerfile").read_text())
    assert len(installs) >= 3
    # the project's own package is built from the sources next to it, without other packages
    allowed = re.compile(r"--require-hashes|--no-(index|build-isolation)")
    assert not [command for command in installs if not allowed.search(command)]


@pytest.mark.claim("supply.locked")
def test_every_npm_conformance_package_has_its_digest():
    packages = json.loads((ROOT / "tests/e2e/conformance/package-lock.json").read_text())["packages"]
    assert len(packages) > 50
    assert not [
        name for name, package in packages.items() if name and "sha512-" not in package.get("integrity", "")
    ]


def steps(workflow: Path):
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        yield from job["steps"]


@pytest.mark.claim("supply.actions-pinned")
@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_and_workflows_read_only(workflow):
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert not [action for action in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", action)]
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    out = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert {step["with"].get("persist-credentials") for step in out} == {False}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_what_a_workflow_makes_is_a_target(workflow):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    commands = [step["run"] for step in steps(workflow) if step.get("run", "").startswith("make ")]
    named = {word for line in commands for word in line.split()[1:] if re.fullmatch("[a-z-]+", word)}
    named |= {
        target for job in jobs for target in job.get("strategy", {}).get("matrix", {}).get("target", ())
    }
    assert named
    assert named <= targets


def test_private_names_are_used_only_with_tested_versions():
    """Uvicorn's connections, sessions of the SDK, the client of keys: if one of them moves, this test fails before a
    server does.
    """
    bounds = {
        requirement.name: requirement.specifier
        for requirement in map(Requirement, PROJECT["project"]["dependencies"])
    }
    assert not bounds["mcp"].contains("3.0.0")
    assert not bounds["uvicorn"].contains("1.0.0")
    assert not bounds["pyjwt"].contains("2.14.0")  # which fails if the answer of an issuer is not keys
    server = uvicorn.Server(uvicorn.Config(lambda: None))
    assert isinstance(server.server_state.connections, set)
    with closing(asyncio.new_event_loop()) as loop:
        connection = H11Protocol(uvicorn.Config(lambda: None), server.server_state, {}, loop)
    assert connection.cycle is None
    assert hasattr(connection, "transport")
    assert isinstance(StreamableHTTPSessionManager(Server("x"))._session_owners, dict)
    assert "cooldown_duration" in inspect.signature(PyJWKClient).parameters
