"""Builds the bundle that Claude Desktop installs: dist/gdal-mcp-VERSION.mcpb, the same bytes for the same sources.

The sources are the files in git, the packages are those of requirements/server.txt, which uv checks by their hashes.
"""

import subprocess
import zipfile
from pathlib import Path

from docs.distribution import BUNDLE
from docs.promises import ROOT

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first date that a zip archive can contain


def parts() -> dict[str, Path]:
    """The files of the bundle, by their names in it."""
    command = ["git", "ls-files", "gdal_mcp", "sandbox", "LICENSE", "README.md"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own words
    return {
        "manifest.json": ROOT / "deploy/bundle/manifest.json",
        "icon.png": ROOT / ".claude-plugin/icon.png",
        "requirements.txt": ROOT / "requirements/server.txt",
        **{name: ROOT / name for name in listed.splitlines()},
    }


def build(folder: Path) -> Path:
    """Writes the bundle into the folder and returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / BUNDLE
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(parts().items()):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return target


if __name__ == "__main__":
    print(build(ROOT / "dist"))
