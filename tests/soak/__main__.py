"""`python -m tests.soak [SECONDS]` runs a long soak and prints its numbers; exits with 1 after a fault."""

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
