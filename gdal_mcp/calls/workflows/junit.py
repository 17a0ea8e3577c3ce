"""The outcome of a workflow as a JUnit file, which CI systems read. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET


def junit(name: str, steps: Sequence[Mapping[str, Any]], error: Mapping[str, Any] | None) -> str:
    """A test suite with a case for each step. `steps` are rows with `id` and, from a check, `state`; `error` is that of the call.

    A wrong step, or the one that the error names, is a failure; a step that could not be checked, or did not run, is skipped.
    """
    check = (error or {}).get("check") or {}
    failed = check.get("step", "")
    rows = [*steps] if any(one["id"] == failed for one in steps) or not failed else [*steps, {"id": failed}]
    suite = ET.Element("testsuite", name=name)
    counts = {"failures": 0, "skipped": 0, "errors": 0}
    for row in rows:
        case = ET.SubElement(suite, "testcase", classname=name, name=str(row["id"]))
        own = row.get("error") or (error if row["id"] == failed else None)
        if own:
            counts["failures"] += 1
            ET.SubElement(case, "failure", type=str(own["code"]), message=str(own["message"])).text = str(
                own.get("suggestion", "")
            )
        elif row.get("state") == "unknown":
            counts["skipped"] += 1
            ET.SubElement(case, "skipped", message="; ".join(map(str, row.get("unknown", ()))))
    if error and not failed:
        counts["errors"] += 1
        case = ET.SubElement(suite, "testcase", classname=name, name="workflow")
        ET.SubElement(case, "error", type=str(error["code"]), message=str(error["message"]))
    for key, number in counts.items():
        suite.set(key, str(number))
    suite.set("tests", str(len(suite)))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"
