"""Runs the checks over the engine of this host, or one that is named, and prints a verdict for each.

Ends with 0 when every one is as it must be, with 1 otherwise.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sandbox.conformance.bench import Bench
from sandbox.conformance.known import KNOWN
from sandbox.conformance.suite import run
from sandbox.engine import Engine
from sandbox.engines.docker import DockerEngine
from sandbox.engines.memory import MemoryEngine
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.opening import open_engine, unanswered
from sandbox.errors import ImageMissing, SandboxError


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.conformance", description=__doc__)
    parser.add_argument("--engine", help="its address, such as unix:///run/podman/podman.sock")
    parser.add_argument("--image", required=True, help="an image that it has, with python3")
    parser.add_argument("--runtime", default="", help="an OCI runtime that it knows, such as runsc")
    exemptions = {one.name: one.exemptions for one in KNOWN}
    parser.add_argument("--exempt-as", choices=[*exemptions], help="believe the exemptions of this engine")
    given = parser.parse_args(words)
    try:
        engine = open_engine(given.engine)
        if (image := engine.images.find(given.image)) is None:
            raise ImageMissing(f"image {given.image} is not on the engine's host. Pull it, or name another.")
    except (SandboxError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    fine = []
    with TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # the container's user must be able to enter it
        bench = Bench(engine, image.id, Path(folder), given.runtime, lambda: _gone(engine))
        for verdict in run(bench, exemptions.get(given.exempt_as, ())):
            fine.append(verdict.ok)
            sys.stdout.write(f"{verdict.status:18}{verdict.check.id:25}{verdict.check.sentence}\n")
            if verdict.detail:
                sys.stdout.write(f"{'':18}{verdict.detail}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{sum(fine)} of {len(fine)} are as they must be\n")
    return 0 if all(fine) else 1


def _gone(engine: Engine) -> Engine:
    """An engine of the same kind that does not answer."""
    if isinstance(engine, DockerEngine):
        return unanswered(type(engine))
    if isinstance(engine, OciEngine):
        return OciEngine(Path("/nonexistent/engine"))
    gone = MemoryEngine()
    gone.gone = True
    return gone


if __name__ == "__main__":
    sys.exit(main())
