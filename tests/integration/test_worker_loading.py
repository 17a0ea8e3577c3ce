"""How the worker loads GDAL: its libraries first, and nothing that a job may never need."""

import json
from typing import Any

import pytest

from gdal_mcp.toolboxes.gdal.worker_source import gdal_command
from tests.oracle.container import Oracle

pytestmark = pytest.mark.engine

PROGRAM = r"""
import json, os, sys, tempfile, types
handler = types.ModuleType("handler")
exec(sys.argv[2], handler.__dict__)
sys.meta_path.insert(0, handler.PartsImporter(sys.argv[3:]))
libraries = handler.part("libraries")

def loaded():
    with open("/proc/self/maps") as file:
        return {os.path.basename(line.split()[-1]) for line in file if ".so" in line}

def hidden(data):
    # as in an image whose libgdal lies elsewhere, or is none
    folders = libraries.FOLDERS
    with tempfile.TemporaryDirectory() as folder:
        if data is not None:
            with open(folder + "/libgdal.so.1", "wb") as file:
                file.write(data)
        libraries.FOLDERS = (folder + "/absent", folder)
        before = loaded()
        libraries.load_each()
        libraries.FOLDERS = folders
        return loaded() == before

with open(libraries.libgdal(), "rb") as file:
    real = file.read(1 << 16)
unharmed = [hidden(data) for data in (None, b"", b"no library", real[:20], real[:64], real[:200], real, real[:64] + bytes(4096))]
needed = libraries.needed(libraries.libgdal())
libraries.load_each()
first = loaded()
handler.prepare()
print(json.dumps({
    "unharmed": unharmed, "needed": needed, "first": sorted(first), "all": sorted(loaded()), "modules": sorted(sys.modules),
}))
"""


@pytest.fixture(scope="module")
def libraries(oracle: Oracle) -> dict[str, Any]:
    python, isolated, switch, _worker, *words = gdal_command()
    return json.loads(oracle.must(python, isolated, switch, PROGRAM, *words))


def test_what_libgdal_needs_is_loaded_before_it(libraries: dict[str, Any]):
    assert len(libraries["needed"]) > 10
    assert "libc.so.6" in libraries["needed"]
    assert any(name.startswith("libproj.so") for name in libraries["first"])
    assert not any(name.startswith("libgdal.so") for name in libraries["first"])
    # the version of a file may differ from the one in its name
    first = {name.partition(".so")[0] for name in libraries["first"]}
    absent = [name for name in libraries["needed"] if name.partition(".so")[0] not in first]
    assert absent == []
    assert any(name.startswith("libgdal.so") for name in libraries["all"])


def test_image_with_opaque_libgdal_still_works(libraries: dict[str, Any]):
    assert libraries["unharmed"] == [True] * len(libraries["unharmed"])


def test_loading_skips_expensive_rarely_used_modules(libraries: dict[str, Any]):
    assert not {"traceback", "numpy", "inspect", "dataclasses", "osgeo.gdal_array"} & set(
        libraries["modules"]
    )
