"""The image of the toolbox `python`, and the packages in it that a model is told of."""

from typing import Final

from gdal_mcp.wheels import WheelImage

PYTHON_IMAGE: Final = WheelImage("python")
SHOWN: Final = (  # in the order in which a model is told of them
    *("numpy", "scipy", "pandas", "geopandas", "pyogrio", "shapely", "pyproj", "rasterio"),
    *("xarray", "pyarrow", "networkx", "scikit-learn", "matplotlib"),
)
