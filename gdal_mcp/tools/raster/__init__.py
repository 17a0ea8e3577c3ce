"""Tools of `gdal raster`."""
