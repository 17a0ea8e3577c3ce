"""The documentation builds as a site without broken links, with the tools in requirements/site.txt."""

import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from scripts import pictures

ROOT = Path(__file__).parents[3]


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site like `make site`, without installing its tools."""
    recipe = (ROOT / "Makefile").read_text().partition("\nsite: ")[2].splitlines()[1]
    command = recipe.strip().replace(".venv/bin/uv", str(ROOT / ".venv/bin/uv"))
    command = command.replace("requirements/", f"{ROOT}/requirements/")
    return subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("mkdocs.yml", "SECURITY.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.mark.nightly
@pytest.mark.engine
def test_front_page_picture_comes_from_a_real_run(tmp_path: Path):
    anyio.run(pictures.main, tmp_path)
    drawn = (tmp_path / "docs/pictures/conversation.jpg").read_bytes()
    assert drawn.startswith(b"\xff\xd8")
    assert 50_000 < len(drawn) < 300_000
    assert "docs/pictures/conversation.jpg" in (ROOT / "README.md").read_text()


@pytest.mark.nightly
def test_the_site_builds_and_broken_links_fail(copied: Path):
    done = build(copied)
    assert done.returncode == 0, done.stdout + done.stderr
    readers = ("analyst", "operator", "reviewer", "developer")
    for page in ("index", *readers, "CONTRIBUTING", "SECURITY", "adr/0001-container-per-call"):
        rendered = copied / "site" / ("index.html" if page == "index" else f"{page}/index.html")
        assert "<h1" in rendered.read_text(), page
    assert 'href="../promises/#paths"' in (copied / "site/SECURITY/index.html").read_text()
    assert 'id="paths.inside"' in (copied / "site/promises/index.html").read_text()
    assert not [path for path in (copied / "site").rglob("*") if path.suffix in (".py", ".toml")]
    page = copied / "docs/analyst.md"
    text = page.read_text()
    for broken in ("[x](reference.md#no-such-anchor)", "[x](#nowhere)"):
        page.write_text(f"{text}\n{broken}\n")
        assert build(copied).returncode != 0, broken
