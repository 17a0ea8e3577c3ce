"""The list of what is installed: valid, complete, the same each time; and what is read from an image's own lists."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

from gdal_mcp.commands import sbom as sbom_command
from gdal_mcp.commands.cyclonedx import PACKAGE, ImageParts, SystemPackage, document, system_packages
from gdal_mcp.commands.exits import Exit
from gdal_mcp.settings import load_settings
from sandbox.errors import EngineUnavailable

ROOT = Path(__file__).parents[2]
IMAGE = ImageParts(
    "ghcr.io/osgeo/gdal:ubuntu-small-3.13.3",
    f"sha256:{'a' * 64}",
    f"sha256:{'b' * 64}",
    "3.13.3",
    "ubuntu",
    (SystemPackage("libc6", "2.39-0ubuntu8", "amd64"), SystemPackage("libc6", "2.39-0ubuntu8", "i386")),
)
DPKG = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-1
Description: a library
 Package: not this
 .
Conffiles:
 /etc/x 0

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

Package: adduser
Status: install ok installed
Architecture: all
Version: 3:3.134
"""
APK = "C:Q1abc=\nP:musl\nV:1.2.5-r10\nA:x86_64\nT:a library\n\nP:zlib\nV:1.3.1-r2\nA:x86_64\n"


BOTH = "import sys; from gdal_mcp.commands.cyclonedx import document; from tests.unit.test_sbom import IMAGE; sys.stdout.write(document(None) + document(IMAGE))"


@pytest.mark.claim("supply.sbom")
def test_the_document_is_valid_and_the_same_each_time():
    texts = [document(None), document(IMAGE)]
    for text in texts:
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    done = subprocess.run(
        [sys.executable, "-c", BOTH],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "".join(texts)


def pinned_here() -> dict[str, str]:
    """What the lock of the server has for this Python and platform."""
    lines = (ROOT / "requirements/server.txt").read_text().replace("\\\n", " ").splitlines()
    found = [Requirement(line.partition(" --hash")[0]) for line in lines if "==" in line]
    here = [one for one in found if one.marker is None or one.marker.evaluate()]
    return {one.name: next(iter(one.specifier)).version for one in here}


@pytest.mark.claim("supply.sbom")
def test_every_installed_package_that_the_server_needs_is_listed_and_no_other():
    said = json.loads(document(None))
    assert {one["name"]: one["version"] for one in said["components"]} == pinned_here()
    assert said["metadata"]["component"]["name"] == PACKAGE


def test_who_needs_whom_is_said():
    below = {one["ref"]: set(one.get("dependsOn", ())) for one in json.loads(document(IMAGE))["dependencies"]}
    names = {ref: {inner.partition("@")[0] for inner in refs} for ref, refs in below.items()}
    (root,) = [ref for ref in below if ref.startswith(f"pypi:{PACKAGE}@")]
    assert {"pypi:mcp", "pypi:docker", f"image:{IMAGE.id}"} <= names[root]
    assert "pypi:pytest" not in names[root]
    (signed,) = [refs for ref, refs in names.items() if ref.startswith("pypi:pyjwt@")]
    assert "pypi:cryptography" in signed  # comes with an extra that we ask for
    assert names[f"image:{IMAGE.id}"] == {"gdal", "deb:libc6"}
    assert len(below[f"image:{IMAGE.id}"]) == 3


def test_the_image_is_told_by_name_digest_and_content():
    (container,) = [one for one in json.loads(document(IMAGE))["components"] if one["type"] == "container"]
    assert (container["name"], container["version"]) == (IMAGE.reference, IMAGE.digest)
    assert container["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]


def test_the_lists_of_both_kinds_of_system_are_read_and_what_was_removed_is_left_out():
    assert system_packages(DPKG) == (
        SystemPackage("adduser", "3:3.134", "all"),
        SystemPackage("libc6", "2.41-1", "amd64"),
    )
    assert system_packages(APK) == (
        SystemPackage("musl", "1.2.5-r10", "x86_64"),
        SystemPackage("zlib", "1.3.1-r2", "x86_64"),
    )


@pytest.mark.parametrize("listing", ["", "\n\n\n", "no list at all", ":\n:\n\n:", "Package: x\n\nP: y\n"])
def test_what_is_no_list_of_packages_has_none(listing):
    assert system_packages(listing) == ()


def test_without_the_extra_it_is_said_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    monkeypatch.delitem(sys.modules, "gdal_mcp.commands.cyclonedx")
    for name in [one for one in sys.modules if one.startswith("cyclonedx.")]:
        monkeypatch.delitem(sys.modules, name)
    assert sbom_command.show(load_settings(state_dir=tmp_path), with_image=False) == Exit.FAILED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "gdal-sandbox-mcp[sbom]" in printed.err


def test_an_engine_that_is_not_there_is_an_error_and_no_shorter_list(capsys, tmp_path):
    settings = load_settings(state_dir=tmp_path, engine="unix:///nonexistent.sock")
    with pytest.raises(EngineUnavailable):
        sbom_command.show(settings, with_image=True)
    assert capsys.readouterr().out == ""
    assert sbom_command.show(settings, with_image=False) == Exit.DONE
    assert json.loads(capsys.readouterr().out) == json.loads(document(None))
