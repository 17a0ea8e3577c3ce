"""What is known of a dataset without GDAL. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Box: TypeAlias = tuple[float, float, float, float]  # west, south, east, north, in the CRS at hand

# bytes of one value, by GDAL's names of data types; UInt8 is what the command line calls Byte
TYPE_BYTES: Final = MappingProxyType(
    {
        **dict.fromkeys(("Byte", "UInt8", "Int8"), 1),
        **dict.fromkeys(("UInt16", "Int16", "Float16"), 2),
        **dict.fromkeys(("UInt32", "Int32", "Float32", "CInt16", "CFloat16"), 4),
        **dict.fromkeys(("UInt64", "Int64", "Float64", "CInt32", "CFloat32"), 8),
        "CFloat64": 16,
    }
)

# lowest and highest value; types that are not here hold any number
TYPE_RANGE: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "Byte": (0, 255),
        **{f"UInt{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
        **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    }
)


@dataclass(frozen=True, slots=True)
class Header:
    """A raster or a vector dataset. None and "" mean not known, never that there is none, unless said otherwise."""

    driver: str  # GDAL's short name
    kind: Literal["raster", "vector"]
    disk_bytes: int = 0
    width: int = 0  # pixels
    height: int = 0
    bands: int = 0
    data_type: str = ""  # of the first band, by GDAL's name
    nodata: float | None = None
    crs: str | None = None  # AUTHORITY:CODE
    has_crs: bool | None = None  # False: the dataset itself names none
    degrees: bool | None = None  # whether coordinates are longitude and latitude in degrees
    extent: Box | None = None
    compression: str = ""  # by the name of GDAL's creation option; NONE is uncompressed
    block: tuple[int, int] | None = None  # pixels
    features: int | None = None  # of all layers
    geometry: str = ""

    @property
    def pixels(self) -> int:
        return self.width * self.height

    @property
    def raw_bytes(self) -> int:
        """The pixels of all bands, uncompressed."""
        return self.pixels * self.bands * TYPE_BYTES.get(self.data_type, 1)

    @property
    def pixel_size(self) -> tuple[float, float] | None:
        """Mean width and height of a pixel in units of the CRS; None without an extent."""
        if self.extent is None or not self.pixels:
            return None
        west, south, east, north = self.extent
        size = (east - west) / self.width, (north - south) / self.height
        return size if min(size) > 0 else None
