"""`python -m tests.soak`: a long soak with its numbers; ends with 1 when there was a fault."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.soak.soak import Plan, run


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="gdal-mcp-soak-", dir=options.folder) as name:
        folder = Path(name)
        folder.chmod(0o755)
        found = run(
            folder,
            Plan(
                seconds=options.seconds, warm_up=options.warm_up, clients=options.clients, seed=options.seed
            ),
        )
    print(found.report())
    return 1 if found.faults else 0


def _options() -> argparse.Namespace:
    plan = Plan()
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=plan.seconds, help="(default: %(default)s)")
    parser.add_argument(
        "--warm-up", type=float, default=plan.warm_up, help="seconds before that (default: %(default)s)"
    )
    parser.add_argument(
        "--clients", type=int, default=plan.clients, help="each with a server (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=plan.seed, help="of what is called when (default: %(default)s)"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="for temporary data (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
