"""What runs inside the container next to GDAL. Sent along as text by `gdal_mcp.toolboxes.gdal.worker_source`; imports nothing else of ours."""
