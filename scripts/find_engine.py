"""`python -m scripts.find_engine`: prints the address of the engine in use, for the scripts that set up a clone.

It lists the candidates that were passed over on stderr, and exits with 0. It exits with 1 if there is no engine, and with 2 if the
named engine or the only engine cannot be used, so that installing another one would not help. The option `--daemon` considers only
engines with a daemon.
"""

import sys

from sandbox.engines.discovery import EngineRefused
from sandbox.engines.opening import default_engine
from sandbox.engines.trial import Results
from sandbox.errors import EngineUnavailable


def main() -> int:
    try:
        opened = default_engine(Results(), daemon="--daemon" in sys.argv)
    except EngineUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, EngineRefused) else 1
    opened.engine.close()
    sys.stdout.write(f"{opened.address}\n")
    sys.stdout.flush()
    for skipped in opened.passed_over:
        if not skipped.absent:
            sys.stderr.write(f"  passed over {skipped}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
