"""The JUnit file of a workflow is valid XML, whatever the texts of a call contain."""

from typing import Any
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.calls.workflows.junit import START, junit

_HOSTILE = "a\x00\x1b[31m\ud800\ufffe\x0b]]><testcase/>&\"'\n\r\t b"
_TEXTS = st.text(st.characters(exclude_categories=()))


def _row(text: str) -> dict[str, Any]:
    return {"id": "slope", "state": "unknown", "unknown": [text]}


@given(_TEXTS)
def test_every_text_makes_a_readable_file(text: str):
    for hostile in (text, _HOSTILE + text):
        error = {"code": "GDAL_ERROR", "message": hostile, "suggestion": hostile}
        for steps, failure in (
            ([_row(hostile)], None),
            ([{"id": "slope", "error": error}], None),
            ([], error),
            ([{"id": "slope"}], {**error, "check": {"step": "slope"}}),
        ):
            written = junit("terrain", steps, failure)
            assert written.startswith(START)
            suite = ET.fromstring(written.encode())
            assert [case.get("name") for case in suite.iter("testcase")] == ["slope" if steps else "workflow"]


def test_message_is_complete_except_for_invalid_xml_characters():
    error = {"code": "GDAL_ERROR", "message": 'Zürich <"1">\n\x1b[0m', "suggestion": ""}
    suite = ET.fromstring(junit("terrain", [], error).encode())
    element = suite.find("testcase/error")
    assert element is not None
    assert element.get("message") == 'Zürich <"1">\n\ufffd[0m'
