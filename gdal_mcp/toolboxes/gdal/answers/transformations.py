"""A container's report of a change of CRS: PROJ's operations, their accuracy, and a better alternative. Pure.

Invariant: apart from names of operations, `known` contains only numbers, switches and authority codes. The names may
contain the name of a CRS, which can be text from a file. They are cleaned, and `operations_of` returns them apart, for `untrusted`.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from gdal_mcp.toolboxes.gdal.answers.words import Box, CrsCode, Flag, Number, many, shape, valid_parts
from gdal_mcp.toolboxes.untrusted import clean_text

_NAME_CHARACTERS: Final = 300
_CODES: Final = many(CrsCode, 12)
_OPERATION: Final = shape(
    name=Annotated[str, AfterValidator(lambda text: clean_text(text, _NAME_CHARACTERS))],
    codes=_CODES,
    through=_CODES,
    accuracy=Number,
    ballpark=Flag,
    grid_missing=Flag,
    share=Number,
    area=Box,
)
_CHANGE: Final = shape(
    **{"from": CrsCode, "to": CrsCode},
    operations=many(_OPERATION, 3),
    ballpark=Flag,
    alike=Flag,
    in_use=Flag,
    better=_OPERATION,
    heights=Number,
    drift=Number,
    years=Number,
    vertical=CrsCode,
)


def known(value: Any) -> Mapping[str, Any] | None:
    """A valid change of CRS from a container's report; None if the value is not one."""
    change = valid_parts(_CHANGE, value)
    return change if any(change.get("operations") or ()) else None


def _operation_row(change: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any]:
    """`accuracy` is in metres, None if PROJ does not know it."""
    better = change.get("better") or {}
    row = {
        "from": change.get("from"),
        "to": change.get("to"),
        "operation": [code for code in operation.get("codes") or () if code],
        "accuracy": operation.get("accuracy"),
        "ballpark": operation.get("ballpark", False),
        "grid_missing": bool(better.get("grid_missing")),
    }
    if operation.get("share", 1) < 1:
        row["share"] = round(operation["share"], 2)
    if better:
        row["better"] = {
            "operation": [code for code in better.get("codes") or () if code],
            "accuracy": better.get("accuracy"),
        }
    return row


def operations_of(changes: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The operations of changes of CRS for a result, and their names for `untrusted`, in the same order."""
    pairs = [(change, operation) for change in changes for operation in filter(None, change["operations"])]
    if not pairs:
        return {}, {}
    rows = [_operation_row(*pair) for pair in pairs]
    names = [operation.get("name") or "" for _, operation in pairs]
    return {"transformation": rows[0] if len(rows) == 1 else rows}, {"transformation": names}
