"""The toolboxes of this product. Only this module knows all of them by name."""

from collections.abc import Callable, Mapping
from typing import Final

from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.toolboxes.surface import Toolboxes
from gdal_mcp.toolboxes.toolbox import Toolbox
from gdal_mcp.tools.toolbox import gdal


def _python(settings: Settings) -> Toolbox:
    from gdal_mcp.toolboxes.python.toolbox import python  # noqa: PLC0415 - what is off is not loaded

    return python(settings)


def _augment(settings: Settings) -> Toolbox:
    from gdal_mcp.toolboxes.augment.toolbox import augment  # noqa: PLC0415 - what is off is not loaded

    return augment(settings)


# GDAL's toolbox is first: it is the default, and a setting that names an image means GDAL's
KNOWN: Final[Mapping[str, Callable[[Settings], Toolbox]]] = {
    "gdal": gdal,
    "python": _python,
    "augment": _augment,
}


def toolboxes(settings: Settings) -> Toolboxes:
    """The toolboxes that the settings turn on. Raises CatalogueBroken, SettingsError."""
    for name in settings.toolboxes:
        if name not in KNOWN:
            raise SettingsError(f"{name[:40]!r} is not a toolbox. The toolboxes are {', '.join(KNOWN)}.")
    if "gdal" not in settings.toolboxes:
        raise SettingsError("The toolbox gdal cannot be left out: add it to `toolboxes`.")
    return Toolboxes(tuple(make(settings) for name, make in KNOWN.items() if name in settings.toolboxes))
