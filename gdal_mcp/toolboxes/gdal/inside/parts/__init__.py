"""Modules that run inside the container next to GDAL.

`gdal_mcp.toolboxes.gdal.worker_source` sends them as text. They import nothing else of this project.
"""
