"""`python -m gdal_mcp`."""

import sys

from gdal_mcp.cli import main

sys.exit(main())
