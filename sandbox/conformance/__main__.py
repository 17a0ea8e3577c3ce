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
from sandbox.engines.discovery import connect
from sandbox.engines.opening import engine_of, unanswered
from sandbox.errors import SandboxError


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
        client = connect(given.engine)
        image = client.images.get(given.image)
        engine = engine_of(client, image.attrs["Config"].get("Env") or ())
    except (SandboxError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    content = f"sha256:{str(image.id).removeprefix('sha256:')}"
    with _folder() as folder:
        bench = Bench(engine, content, folder, given.runtime, lambda: unanswered(type(engine)))
        verdicts = [_told(one) for one in run(bench, known)]
    wrong = sum(not one.ok for one in verdicts)
    sys.stdout.write(f"{len(verdicts) - wrong} of {len(verdicts)} are as they must be\n")
    return 1 if wrong else 0


def _told(verdict: Verdict) -> Verdict:
    sys.stdout.write(f"{verdict.status:18}{verdict.check.id:25}{verdict.check.sentence}\n")
    if verdict.detail:
        sys.stdout.write(f"{'':18}{verdict.detail}\n")
    sys.stdout.flush()
    return verdict


if __name__ == "__main__":
    sys.exit(main())
