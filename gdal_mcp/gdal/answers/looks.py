"""What a container saw in an input's pixels, as numbers and switches. Pure."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from typing_extensions import TypedDict

from gdal_mcp.gdal.answers.words import Count, Kept, Number, Switch, adapter


class _Look(TypedDict, total=False):
    holes: Kept[Switch]
    classes: Kept[Switch]
    outside: Kept[Count]
    nan: Kept[Count]
    fractional: Kept[Count]
    digits: Kept[Count]
    count: Kept[Count]
    minimum: Kept[Number]
    maximum: Kept[Number]
    exact: Kept[Switch]
    bands: Kept[Count]


def known(value: Any) -> Mapping[str, Any]:
    """What a container says of a look; nothing of what is no answer."""
    try:
        found: Mapping[str, Any] = adapter(_Look).validate_python(value)
    except ValidationError:
        return {}
    return found
