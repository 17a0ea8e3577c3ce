"""Cases with known answers from GDAL's own test suite.

They are outside the repository. Without them this folder has no tests, and `tests/e2e/mcp/test_tools.py` compares the
same tools with an independent GDAL on our own data.
"""

import os
from pathlib import Path

from tests.oracle.fixtures import grounds

__all__ = ["grounds"]

SHARED = Path(os.environ.get("GDAL_MCP_TEST_TRUTH") or Path(__file__).resolve().parents[3] / "shared")
TRUTH, DATA = SHARED / "truth" / "public.jsonl", SHARED / "data"

collect_ignore = [] if TRUTH.is_file() else ["test_known_answers.py"]
