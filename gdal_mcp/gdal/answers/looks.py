"""What a container saw in an input's pixels, as numbers and switches. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from gdal_mcp.gdal.answers.words import Count, Number, Switch, kept, shape

_LOOK: Final = shape(
    holes=Switch,
    classes=Switch,
    mask=Switch,
    outside=Count,
    nan=Count,
    fractional=Count,
    digits=Count,
    count=Count,
    minimum=Number,
    maximum=Number,
    exact=Switch,
    bands=Count,
)


def known(value: Any) -> Mapping[str, Any]:
    """What a container says of a look; nothing of what is no answer."""
    return kept(_LOOK, value)
