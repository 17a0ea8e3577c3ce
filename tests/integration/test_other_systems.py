"""The host's part without calls that only Linux has: they are removed in a separate process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdal_mcp.testing.samples import write_samples
from sandbox.engines.docker_spec import READ_ONLY_RECURSIVE

MOUNTS = "/proc/self/mountinfo"
# before our modules are loaded, as on macOS: no /proc, no calls that only Linux has, and other constants of the kernel
WITHOUT_LINUX = """
import builtins, ctypes, io, os, sys, time
import truststore  # loads macOS's own libraries where it believes to be there
def gone(real):
    def opening(path, *given, **named):
        name = "" if isinstance(path, int) else os.fsdecode(path)
        if name.startswith(("/proc/", "/sys/")) and name != os.environ.get("LEFT"):
            raise FileNotFoundError(2, "no such file", path)
        return real(path, *given, **named)
    return opening
for place, name in ((os, "open"), (io, "open"), (builtins, "open"), (os, "stat"), (os, "readlink"), (os, "scandir"), (os, "listdir")):
    setattr(place, name, gone(getattr(place, name)))
def refused(*_given, **_named):
    raise PermissionError(1, "for root alone")
for name in ("O_PATH", "O_TMPFILE", "pipe2", "pidfd_open", "fdatasync", "posix_fallocate", "copy_file_range", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
os.mknod = os.sendfile = refused
del time.CLOCK_BOOTTIME
names = os.uname()
os.uname = lambda: os.uname_result(("Darwin", names.nodename, "23.6.0", "Darwin Kernel", names.machine))
class Library(ctypes.CDLL):
    def __getattr__(self, name):
        if name in ("renameat2", "syncfs", "sync_file_range", "unshare", "mallopt", "malloc_trim"):
            raise AttributeError(name)
        return super().__getattr__(name)
ctypes.CDLL = Library
"""
RUN = WITHOUT_LINUX + "\nfrom gdal_mcp.cli.main import main\nsys.exit(main(sys.argv[1:]))"


def run(*words: str, code: str = RUN, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    (tmp_path / "maps").mkdir(mode=0o755)
    write_samples(tmp_path / "maps")
    return ["--workspace", str(tmp_path / "maps"), "--state-dir", str(tmp_path / "state")]


@pytest.mark.engine
@pytest.mark.nightly
def test_calls_work_without_linux_but_replace_nothing(place: list[str], tmp_path: Path, engine):
    """Replacing needs an atomic exchange of names; on systems without it, the old file stays."""

    def call(tool: str, left: str = MOUNTS, /, **arguments: object) -> dict:
        ran = run("call", tool, json.dumps(arguments), "--yes", *place, LEFT=left)
        assert ran.stdout, ran.stderr
        return json.loads(ran.stdout)

    # an engine that leaves mounts below a workspace writable needs a reader of the mount table
    blind = call("info", "", path="dem.tif")
    assert ("error" not in blind) == (engine.info().api_version >= READ_ONLY_RECURSIVE), blind
    facts = call("info", path="dem.tif")
    assert facts.get("size") == [24, 16], facts
    converted = call("convert", input="dem.tif", output="copy.tif")
    assert converted["output"] == str(tmp_path / "maps/copy.tif"), converted
    before = (tmp_path / "maps/copy.tif").read_bytes()
    refused = call("convert", input="dem.tif", output="copy.tif", overwrite=True, output_format="COG")
    assert refused["error"]["code"] == "OUTPUT_REJECTED", refused
    assert (tmp_path / "maps/copy.tif").read_bytes() == before


@pytest.mark.engine
@pytest.mark.nightly
def test_doctor_names_missing_parts_and_that_calls_run(place: list[str]):
    report = json.loads(run("doctor", "--report", *place, LEFT=MOUNTS).stdout)
    assert report["ok"], report
    assert {"renameat2", "O_PATH", "boot_id, CLOCK_BOOTTIME"} <= set(report["system"]["missing"])


def test_unsupported_system_names_the_command_that_works():
    windows = "import os, sys; os.name = 'nt'; sys.modules['fcntl'] = None\nfrom gdal_mcp.__main__ import main\nsys.exit(main())"
    ran = run("serve", code=windows)
    assert ran.returncode == 2
    assert "docker run -i --rm -v" in ran.stderr
    assert "Traceback" not in ran.stderr
