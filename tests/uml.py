"""A separate kernel, User Mode Linux, for what the host's kernel lacks or what tests must not do to it.

Its root is that of the host, read-only, with empty folders at /run, /mnt, /var and /tmp. Packages of Debian are
unpacked into a cache, and none is installed.
"""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = "/mnt/out"  # the folder for the results of a script
_START = """\
#!/bin/sh
exec >/dev/console 2>&1
set -x
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LD_LIBRARY_PATH={tools}/usr/lib/x86_64-linux-gnu:{tools}/lib/x86_64-linux-gnu
mount -t proc proc /proc
for place in /run /mnt /var; do mount -t tmpfs tmpfs $place; done
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir -p -m 1777 /var/tmp {out}
{uncovered}
mount -t hostfs -o {there} none {out}
ip link set lo up
ln -s {tools}/bin/kmod /run/insmod
for one in {modules}; do /run/insmod $(echo {tools}/usr/lib/uml/modules/*/kernel)/$one.ko; done
"""
_END = "\npoweroff -f\n"


def tools(name: str, packages: Sequence[str]) -> Path:
    """The folder with these Debian packages, unpacked. They are fetched once, with user-mode-linux and kmod."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gdal-mcp-tests" / name
    if not folder.is_dir():
        assert shutil.which("apt-get"), "this is tried with User Mode Linux, which needs Debian's packages"
        fresh = folder.with_name(f"fetching-{name}-{os.getpid()}")
        fresh.mkdir(parents=True)
        packages = ("user-mode-linux", "kmod", "libkmod2", *packages)
        subprocess.run(["apt-get", "-qq", "download", *packages], cwd=fresh, check=True, capture_output=True)
        for package in fresh.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, fresh], check=True)
            package.unlink()
        fresh.rename(folder)
    return folder


def outcomes(*files: Path) -> dict[str, str]:
    """The failures in JUnit files by the name of the test; "" for a test that passed."""
    return {
        case.attrib["name"]: "".join(wrong.attrib["message"] for wrong in case if wrong.tag != "system-out")
        for file in files
        for case in ET.parse(file).iter("testcase")
    }


def uncovered(*folders: Path) -> str:
    """Commands that mount these folders of the host again where an empty /run, /mnt, /var or /tmp covers them."""
    covered = [folder for folder in folders if folder.parts[1] in {"run", "mnt", "var", "tmp"}]
    return "\n".join(
        f"mkdir -p {folder}; mount -t hostfs -o ro,{folder} none {folder}"
        for folder in dict.fromkeys(covered)
    )


def run(
    folder: Path,
    tools: Path,
    modules: Sequence[str],
    script: str,
    files: Sequence[str],
    memory: str = "700M",
    disk: Path | None = None,
    parameters: Sequence[str] = (),
) -> list[Path]:
    """Runs a script as process 1 and returns the files that it leaves in `OUT`.

    The time limit of the test ends it. `parameters` are additional parameters of the kernel. `disk` is the image of a
    file system, which the kernel has as /dev/ubda; what is written to it is discarded at the end.
    """
    out, init = folder / "out", folder / "init"
    out.mkdir()
    out.chmod(0o777)
    needed = uncovered(ROOT, Path(sys.prefix), Path(sys.base_prefix), tools)
    start = _START.format(tools=tools, out=OUT, there=out, modules=" ".join(modules), uncovered=needed)
    init.write_text(start + script + _END)
    init.chmod(0o755)
    command = [f"{tools}/usr/bin/linux.uml", f"mem={memory}", f"init={init}", *parameters]
    if disk is not None:
        command.append(f"ubd0={folder / 'written'},{disk}")
    command += "rootfstype=hostfs rootflags=/ root=/dev/root ro con=null con0=null,fd:1 quiet".split()
    with (folder / "console").open("w") as console:
        environment = {**os.environ, "TMPDIR": str(folder)}  # the folder for its memory
        streams = {"stdin": subprocess.DEVNULL, "stdout": console, "stderr": console}
        subprocess.run(command, check=False, env=environment, **streams)
    paths = [out / name for name in files]
    assert all(path.exists() for path in paths), (folder / "console").read_text(errors="replace")[-4000:]
    return paths
