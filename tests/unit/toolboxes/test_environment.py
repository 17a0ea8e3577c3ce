"""The environment of a container contains only our variables."""

from pathlib import Path

import pytest

from gdal_mcp.toolboxes.gdal.environment import FIXED, SKIPPED_DRIVERS, environment, gdal_threads
from sandbox.template import Limits

# variables that must never be missing: each blocks a way out that worked without it in a test
NEEDED = {
    "GDAL_VRT_ENABLE_PYTHON": "NO", "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "SIBLING_OR_CHILD_OF_VRT_PATH",
    "GDAL_ALGORITHM_ALLOW_WRITES_IN_STREAM": "NO", "OGR_SQLITE_DIALECT_ALLOW_CREATE_VIRTUAL_TABLE": "NO",
    "CPL_ENABLE_PATH_TRAVERSAL_DETECTION": "YES", "CPL_VSIL_CURL_ALLOWED_FILENAME": "/vsicurl/disabled",
    "MRF_ENABLE_CACHING": "NO", "GDAL_ENABLE_EXTERNAL": "NO", "GDAL_CONFIG_FILE": "/dev/null",
    "CPL_ALLOW_VSISTDIN": "NO", "OGR_SQLITE_ALLOW_EXTERNAL_ACCESS": "NO", "PROJ_NETWORK": "OFF",
    "GDAL_MEM_ENABLE_OPEN": "NO", "GML_DOWNLOAD_SCHEMA": "NO",
}  # fmt: skip
DANGEROUS_DRIVERS = set("ODBC MSSQLSpatial PGeo ADBC PostgreSQL MySQL HTTP WMS GPSBabel WFS STACIT".split())


@pytest.mark.claim("network.drivers-off")
def test_every_door_that_was_found_open_is_shut():
    assert NEEDED.items() <= FIXED.items()
    assert set(SKIPPED_DRIVERS) >= DANGEROUS_DRIVERS
    assert set(FIXED["GDAL_SKIP"].split(",")) == set(SKIPPED_DRIVERS)
    assert len(SKIPPED_DRIVERS) == len(set(SKIPPED_DRIVERS))


@pytest.mark.claim("sandbox.environment")
def test_container_environment_ignores_the_host_environment(monkeypatch: pytest.MonkeyPatch):
    before = environment(Limits())
    monkeypatch.setenv("GDAL_SKIP", "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    assert environment(Limits()) == before
    assert not Path(before["HOME"]).exists()


def test_gdal_is_told_how_many_processors_it_has():
    for cpus, threads in ((0.25, 1), (1.0, 1), (1.9, 1), (2.0, 2), (16.0, 16)):
        limits = Limits(cpus=cpus)
        assert gdal_threads(limits) == threads
        assert environment(limits)["GDAL_NUM_THREADS"] == str(threads)


def test_block_cache_leaves_most_memory_to_the_computation():
    for memory in (64 << 20, 2 << 30, 64 << 30):
        cache = int(environment(Limits(memory_bytes=memory))["GDAL_CACHEMAX"]) << 20
        assert 0 < cache <= memory // 4
