"""The tools for discovery, over the wire: formats, CRSs, search and description, compared with the image itself."""

import pytest

from tests.e2e.mcp.talk import Talk

pytestmark = pytest.mark.engine


def test_crs_is_found_by_text_box_or_dataset(modern: Talk):
    [row] = modern.done("find_crs", query="equal area europe", limit=1)["matches"]
    assert (row["code"], row["property"], row["unit"]) == ("EPSG:3035", "equal-area", "metre")
    [row] = modern.done("find_crs", query="wgs 84 utm", bbox=[10, 47, 11, 48], limit=1)["matches"]
    assert (row["code"], row["accuracy_m"]) == ("EPSG:32632", 0)
    result = modern.done("find_crs", query="utm", input="dem.tif", limit=2)
    assert all(set(row) <= {"code", "kind", "property", "bbox", "accuracy_m"} for row in result["matches"])
    texts = result["untrusted"]["matches"]  # texts from a container that has opened a file
    assert [row["code"] for row in texts] == [row["code"] for row in result["matches"]]
    assert "UTM" in texts[0]["name"]


def test_empty_crs_question_is_refused(modern: Talk, subtests: pytest.Subtests):
    for arguments in (
        {}, {"query": "  "}, {"bbox": [0, 50, 10]}, {"bbox": [0, 50, 10, 40]}, {"bbox": [0, 50, 200, 60]},
        {"bbox": [0, 50, 10, 60], "input": "dem.tif"}, {"query": "utm", "input": "../outside.tif"},
    ):  # fmt: skip
        with subtests.test(arguments=arguments):
            assert modern.call("find_crs", **arguments).is_error
