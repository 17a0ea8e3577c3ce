"""What runs inside the container next to GDAL. Sent along as text by `gdal_mcp.host.worker_source`; imports nothing else of ours."""
