"""The standard for a cold call without a daemon: the same container, started by the runtime only, with Python, GDAL
and `info`.
"""

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bench.place import NotMeasurable, Place
from bench.report import timed
from sandbox.engines.oci.bundle import Bundle
from sandbox.engines.oci.config import config
from sandbox.engines.oci.confinement import confinement
from sandbox.engines.oci.engine import OciEngine
from sandbox.engines.oci.kernel import ControlGroup, parent_group
from sandbox.engines.oci.runtime import installed, usable

_INFO = """
import sys
from osgeo import gdal
info = gdal.GetGlobalAlgorithmRegistry().InstantiateAlg("info")
info.ParseCommandLineArguments(["--output-format=json", sys.argv[1]]) and info.Run()
print(info.GetActualAlgorithm().GetArg("output-string").GetAsString())
"""


@dataclass(frozen=True, slots=True)
class RuntimeAlone:
    """Containers with the settings of a call, created and run to their end by one command of the runtime."""

    place: Place
    image: Path
    program: str
    folder: Path

    def info(self, path: Path) -> float:
        """The seconds from the start of the runtime to its end. Raises NotMeasurable when it fails."""
        hosting, name = self.place.app.hosting, secrets.token_hex(32)
        group = ControlGroup(f"{parent_group()}/{name}")
        template = hosting.templates.build(hosting.ready(), None)
        runtime_config = config(template, group.path, os.uname().machine, confinement())
        runtime_config["process"]["args"] = ["python3", "-I", "-c", _INFO, str(path)]
        bundle = Bundle(self.folder, name)
        bundle.write({}, runtime_config)
        targets = [
            (PurePosixPath(mount["destination"]), Path(mount["source"]).is_file())
            for mount in runtime_config["mounts"]
        ]
        taken: list[float] = []

        def run(_wrapper: Sequence[str]) -> None:
            words = [
                self.program,
                "--root",
                str(self.folder / "states"),
                "run",
                "--bundle",
                str(bundle.folder),
                name,
            ]
            taken.append(timed(lambda: _run(words)))

        try:
            bundle.with_root(self.image, targets, run)
        finally:
            group.kill_and_remove()
            shutil.rmtree(bundle.folder)
        return taken[0]


def _run(words: Sequence[str]) -> None:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode or "size" not in json.loads(done.stdout or "{}"):
        raise NotMeasurable(f"the runtime alone failed: {done.stderr.strip()[-500:]}")


@contextmanager
def runtime_alone(place: Place) -> Iterator[RuntimeAlone]:
    """The contender. Raises NotMeasurable for an engine with a daemon, and without root, which mounts these
    containers' root.
    """
    host = place.app.hosting.ready()
    if not isinstance(host.engine, OciEngine) or os.geteuid():
        raise NotMeasurable("only as root, over the engine without a daemon (GDAL_MCP_ENGINE=oci)")
    folder = place.state / "runtime-alone"
    folder.mkdir()
    program = usable(installed())[0].path
    yield RuntimeAlone(place, host.engine.images.rootfs(host.image.id), program, folder)
