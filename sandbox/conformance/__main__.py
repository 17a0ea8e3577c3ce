"""Runs the checks over the engine of this host, or one that is named, and prints a verdict for each.

Ends with 0 when every one is as it must be, with 1 otherwise.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox.conformance.bench import Bench
from sandbox.conformance.known import KNOWN
from sandbox.conformance.suite import Exemption, Verdict, run
from sandbox.engine import Engine
from sandbox.engines.docker import DockerEngine
from sandbox.engines.memory import MemoryEngine
from sandbox.engines.opening import open_engine, unanswered
from sandbox.errors import ImageMissing, SandboxError


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandbox.conformance", description=__doc__)
    parser.add_argument("--engine", help="its address, such as unix:///run/podman/podman.sock")
    parser.add_argument("--image", required=True, help="an image that it has, with python3")
    parser.add_argument("--runtime", default="", help="an OCI runtime that it knows, such as runsc")
    names = [one.name for one in KNOWN]
    parser.add_argument("--exempt-as", choices=names, help="believe the exemptions that this engine has")
    return parser.parse_args(words)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gdal-mcp-conformance-"))
    folder.chmod(0o755)  # the container's user must be able to enter it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(words: Sequence[str] | None = None) -> int:
    given = _arguments(words)
    known: tuple[Exemption, ...] = next((one.exemptions for one in KNOWN if one.name == given.exempt_as), ())
    try:
        engine = open_engine(given.engine)
        if (image := engine.images.find(given.image)) is None:
            raise ImageMissing(f"image {given.image} is not on the engine's host. Pull it, or name another.")
    except (SandboxError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with _folder() as folder:
        bench = Bench(engine, image.id, folder, given.runtime, lambda: _gone(engine))
        verdicts = [_told(one) for one in run(bench, known)]
    wrong = sum(not one.ok for one in verdicts)
    sys.stdout.write(f"{len(verdicts) - wrong} of {len(verdicts)} are as they must be\n")
    return 1 if wrong else 0


def _gone(engine: Engine) -> Engine:
    """An engine of the same kind that does not answer."""
    if isinstance(engine, DockerEngine):
        return unanswered(type(engine))
    gone = MemoryEngine()
    gone.gone = True
    return gone


def _told(verdict: Verdict) -> Verdict:
    sys.stdout.write(f"{verdict.status:18}{verdict.check.id:25}{verdict.check.sentence}\n")
    if verdict.detail:
        sys.stdout.write(f"{'':18}{verdict.detail}\n")
    sys.stdout.flush()
    return verdict


if __name__ == "__main__":
    sys.exit(main())
