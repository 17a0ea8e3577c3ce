"""The protocol from a client's point of view, in both eras."""

import pytest

from tests.e2e.mcp.talk import Talk

pytestmark = pytest.mark.engine

MADE = {"input": "dem.tif", "output": "x.tif"}


def test_refused_call_is_a_located_error_with_advice(talk: Talk, subtests: pytest.Subtests):
    twice = {"size": [5, 5], "resolution": 2.0}
    smuggled = {"extra_args": ["--config=GDAL_SKIP="]}
    for tool, arguments, code, stage in (
        ("info", {"path": "absent.tif"}, "NOT_FOUND", "resolve"),
        ("info", {"path": "/etc/passwd"}, "PATH_NOT_ALLOWED", "resolve"),
        ("info", {"path": "/vsicurl/http://192.0.2.1/a.tif"}, "NETWORK_BLOCKED", "resolve"),
        ("info", {"path": "dem.tif", "color": True}, "INVALID_ARGUMENT", "validate"),
        ("info", {}, "INVALID_ARGUMENT", "validate"),
        ("info", {"path": 7}, "INVALID_ARGUMENT", "validate"),
        ("info", {"path": "zones.dbf.txt\n"}, "PATH_NOT_ALLOWED", "resolve"),
        ("gdal_rasterize", {"src_vector": "zones.gpkg", "burn_value": 10**400}, "INVALID_ARGUMENT", "validate"),
        ("reproject", {**MADE, "dst_crs": "EPSG:3857", **twice}, "INVALID_ARGUMENT", "validate"),
        ("convert", {**MADE, **smuggled}, "INVALID_ARGUMENT", "validate"),
    ):  # fmt: skip
        with subtests.test(tool=tool, arguments=arguments, code=code, stage=stage):
            error = talk.failed(tool, **arguments)
            assert (error["code"], error["stage"]) == (code, stage)
            assert error["message"]
            assert error["suggestion"]
            assert error["call_id"]


def test_gdal_error_text_is_separate_and_untrusted(talk: Talk, place):
    place.path("noise.txt").write_text("this is no dataset at all")
    error = talk.failed("gdalinfo", dataset="noise.txt")
    assert (error["code"], error["stage"]) == ("GDAL_ERROR", "run")
    assert any("noise.txt" in text for text in error["untrusted"]["gdal"])
    assert "stderr" not in error["untrusted"]  # which would repeat it


def test_long_computation_progress_grows_to_the_end(talk: Talk):
    name = f"progress-{talk.modern}.tif"
    options = {"dst_crs": "EPSG:3857", "size": [1500, 1500], "resampling": "lanczos"}
    talk.done("reproject", input="rgb.tif", output=name, **options)
    fractions = [fraction for fraction, _ in talk.progress]
    assert len(fractions) > 2
    # a call that is sent again with its answer starts from the beginning
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert {total for _, total in talk.progress} == {1.0}
