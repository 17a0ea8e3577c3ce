"""What a measurement was made on."""

import os
import platform
from pathlib import Path

from bench.arena import Arena
from bench.report import Section
from gdal_mcp import __version__
from sandbox.engine import EngineInfo

BUSY = 0.5  # other work for each CPU, from which on the figures say little and only ratios count


def describe(arena: Arena, info: EngineInfo, load_before: float) -> Section:
    """The machine, the engine and the image, and how busy the machine was with other things before the first measurement."""
    cpus = os.cpu_count() or 1
    image = arena.image
    kind = "a local stand-in built from Debian, not the official image" if image.standin else "as pulled"
    busy = "; other work was running, so only ratios count" if load_before / cpus > BUSY else ""
    rows = (
        ("processors", f"{cpus} x {_cpu_model()}"),
        ("memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        (
            "engine",
            f"{info.name} {info.version}, API {'.'.join(map(str, info.api_version))}, cgroup v{info.cgroup_version}",
        ),
        ("image", f"{image.reference} ({kind}), GDAL {image.gdal_version}, {image.digest[:19]}"),
        ("server", f"gdal-mcp {__version__}, Python {platform.python_version()}"),
        ("load average before the run", f"{load_before:.1f}{busy}"),
    )
    return Section("Machine", "What this run was made on.", ("", ""), rows)


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()
