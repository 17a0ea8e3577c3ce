"""`python -m tests.soak [SECONDS]`: a long soak with its numbers; ends with 1 when there was a fault."""

import sys
import tempfile
from pathlib import Path

from tests.soak.soak import Plan, run

with tempfile.TemporaryDirectory(prefix="gdal-mcp-soak-", dir="/var/tmp") as name:
    folder = Path(name)
    folder.chmod(0o755)
    found = run(folder, Plan(seconds=float(sys.argv[1])) if sys.argv[1:] else Plan())
print(found.report())
sys.exit(bool(found.faults))
