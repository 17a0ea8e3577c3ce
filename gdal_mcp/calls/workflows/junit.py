"""The outcome of a workflow as a JUnit file, which CI systems read. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree as ET

_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
START: Final = f"{_DECLARATION}<testsuite "  # how every report begins
_NOT_XML: Final = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # characters that XML 1.0 does not allow, even as references


def junit(name: str, steps: Sequence[Mapping[str, Any]], error: Mapping[str, Any] | None) -> str:
    """A test suite with a case for each step.

    `steps` are rows with `id` and, from a check, `state`; `error` is the error of the call. A wrong step, or the one
    that the error names, is a failure; a step that could not be checked, or did not run, is skipped.
    """
    check = (error or {}).get("check") or {}
    failed = check.get("step", "")
    rows = [*steps] if any(step["id"] == failed for step in steps) or not failed else [*steps, {"id": failed}]
    suite = ET.Element("testsuite", name=name)
    counts = {"failures": 0, "skipped": 0, "errors": 0}
    for row in rows:
        case = ET.SubElement(suite, "testcase", classname=name, name=_text(row["id"]))
        own = row.get("error") or (error if row["id"] == failed else None)
        if own:
            counts["failures"] += 1
            failure = ET.SubElement(case, "failure", type=_text(own["code"]), message=_text(own["message"]))
            failure.text = _text(own.get("suggestion", ""))
        elif row.get("state") == "unknown":
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message="; ".join(map(_text, row.get("unknown", ()))))
    if error and not failed:
        counts["errors"] += 1
        case = ET.SubElement(suite, "testcase", classname=name, name="workflow")
        ET.SubElement(case, "error", type=_text(error["code"]), message=_text(error["message"]))
    for key, number in counts.items():
        suite.set(key, str(number))
    suite.set("tests", str(len(suite)))
    ET.indent(suite)
    return f"{_DECLARATION}{ET.tostring(suite, encoding='unicode')}\n"


def _text(value: object) -> str:
    """A text without the characters that XML does not allow; one of them would make the whole file unreadable."""
    return _NOT_XML.sub("\ufffd", str(value))
