"""The generated parts of the documentation match the code."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import __main__ as docs
from docs.__main__ import filled, pages
from docs.promises import Drift
from docs.tables import markdown
from gdal_mcp.cli.parsers import build_parser
from gdal_mcp.errors import Code
from gdal_mcp.plan import Draft
from gdal_mcp.settings import Settings, load_settings
from gdal_mcp.toolboxes.base import ImmediateResult
from gdal_mcp.toolboxes.gdal.catalogue.load import packaged
from gdal_mcp.toolboxes.gdal.datasets.paths import Paths
from gdal_mcp.tools.classic import CLASSIC
from gdal_mcp.tools.common import DraftContext
from gdal_mcp.tools.listing import core
from gdal_mcp.tools.toolbox import TOOLSETS
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import preflight
from tests.boxes import surface as surface_of
from tests.security.attacks.table import TABLE

ROOT = Path(__file__).parents[2]
# files that the examples read; a draft only checks that they exist
EXAMPLE_DATA = ("dem.tif", "west.tif", "east.tif", "zones.gpkg")


def page_with(part, text=""):
    return f"before\n<!-- generated: {part} -->\n{text}<!-- end -->\nafter\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_documentation_in_this_repository_is_current():
    done = subprocess.run(
        [sys.executable, "-m", "docs", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_stale_part_is_rewritten_and_the_page_kept(root):
    written = root / "README.md"
    for part in docs.PARTS:
        written.write_text(page_with(part, "stale\n"), encoding="utf-8")
        assert docs.main(["--check"], root) == 1
        assert "stale" in written.read_text(encoding="utf-8")
        assert docs.main([], root) == 0
        text = written.read_text(encoding="utf-8")
        assert "stale" not in text, part
        assert len(text) > len(page_with(part)) + 100
        assert text.startswith("before\n")
        assert text.endswith("<!-- end -->\nafter\n")
        assert docs.main(["--check"], root) == 0


def cells(part):
    return {line.split("|")[1].strip().strip("`") for line in docs.PARTS[part]() if line.startswith("| `")}


def test_every_tool_setting_and_code_has_its_row():
    assert cells("tools") == {tool.name for tool in (*core(packaged()), *CLASSIC)}
    assert cells("toolsets") == set(TOOLSETS)
    assert cells("settings") == set(Settings.model_fields)
    assert cells("errors") == {str(code) for code in Code}


def test_algorithms_are_named_once_and_arguments_counted_once():
    rows = [line.split("|") for line in docs.PARTS["algorithms"]() if line.startswith("| ")][1:]
    named = [
        f"{group.strip(' `')} {name.strip(' *').rstrip('*').replace(chr(92), '')}".replace("*", "").strip()
        for _, group, _, names, _ in rows[1:]
        for name in names.split(", ")
    ]
    assert sorted(named) == sorted(packaged().algorithms)
    arguments = sum(len(algorithm.arguments) for algorithm in packaged().algorithms.values())
    counts = [int(line.split("|")[3]) for line in docs.PARTS["roles"]() if line.startswith("| `")]
    assert sum(counts) == arguments


def test_documented_subjects_and_sentences_match_completely(monkeypatch):
    words = markdown.rows_of("words.toml")
    for part in ("errors", "toolsets", "roles", "hardening"):
        for changed in (
            dict(list(words[part].items())[1:]),
            {**words[part], "Invented": "nothing has this name"},
        ):
            monkeypatch.setattr(
                markdown, "rows_of", lambda _name, part=part, row=changed: {**words, part: row}
            )
            with pytest.raises(Drift):
                filled(page_with(part), docs.PARTS)


def test_no_unexplained_abbreviations_are_used():
    for page in pages():
        assert not re.findall(r"\b(?:e\.g|i\.e|etc)\.", page.read_text(encoding="utf-8")), page


def anchors(page):
    """The names that a link to the page can have after its #: headings as the forge spells them, and the project's
    own marks.
    """
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    spelt = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return spelt | set(re.findall(r'<a id="([^"]+)">', text))


def test_every_link_within_the_documentation_leads_somewhere():
    for page in pages():
        text = page.read_text(encoding="utf-8")
        targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^]]+\]: (\S+)$", text, re.MULTILINE)
        for target in (target for target in targets if not re.match(r"\w+:", target)):
            name, _, anchor = target.partition("#")
            there = (page.parent / name).resolve() if name else page
            assert there.exists(), (page, target)
            assert not anchor or anchor in anchors(there), (page, target)


# every command of these is run: tests/e2e/cli/test_pages.py
RUN = {"tutorial.md", "howto.md"}


def examples():
    """Every call on the other pages: in a block of calls, or as a command."""
    for page in (page for page in pages() if page.name not in RUN):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```calls\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        shown = [line.split(" ", 1) for block in blocks for line in block.splitlines()]
        shown += re.findall(r"gdal-mcp call (\w+) '(\{.*\})'", text)
        yield from ((page.name, tool, arguments) for tool, arguments in shown)


@pytest.fixture
def desk(tmp_path):
    folder = tmp_path / "maps"
    folder.mkdir()
    for name in EXAMPLE_DATA:
        (folder / name).touch()
    settings = load_settings(workspaces=[folder], state_dir=tmp_path / "state")
    paths = Paths(Workspaces((Workspace.at(folder, writable=True),)), "outputs", "0" * 16, 1)
    return DraftContext(paths, settings, surface_of(settings), preflight(settings), packaged())


def test_every_call_in_pages_suits_a_default_server(desk):
    shown = list(examples())
    for page, tool, arguments in shown:
        draft = desk.surface.callable[tool].draft(json.loads(arguments), desk)
        assert isinstance(draft, Draft | ImmediateResult), (page, tool)
    assert len(shown) > 12


def test_every_place_named_by_the_design_exists():
    section = (ROOT / "docs/design.md").read_text(encoding="utf-8").split("\n## ")[2]
    assert section.startswith("Where would you add")
    places = [
        place
        for line in section.splitlines()
        if line.startswith("| ")
        for place in re.findall(r"`([\w./]+/[\w./]*)`", line.rpartition(" | ")[2])
    ]
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_front_page_is_short_and_counts_gdal_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"All {len(packaged().algorithms)} commands" in text
    calls = sum(len(attack.calls) for attack in TABLE.values())
    assert f"Attacks in the table of the tests: {len(TABLE)}, with {calls} calls" in text
    assert len(text.splitlines()) <= 150


def command_lines():
    """Every `gdal-mcp ...` command of the documentation: page and words."""
    for page in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8").replace("\\|", "|")
        for match in re.finditer(r"(?:^    |^(?=gdal-mcp )|`)gdal-mcp ([^`\n]*)", text, re.MULTILINE):
            words = re.sub(r"'.*'", "JSON", match[1])  # a call's arguments
            yield page.name, words.partition(" #")[0].split()


def below(parser):
    """The commands that may follow."""
    return next(
        (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)), {}
    )


def test_every_documented_command_is_accepted_by_the_program():
    program, count = build_parser(), 0
    for page, words in command_lines():
        parser, rest = program, list(words)
        while below(parser) and rest and not rest[0].startswith("-"):
            assert rest[0] in below(parser), (page, words)
            parser, count = below(parser)[rest.pop(0)], count + 1
        known = {text for action in parser._actions for text in action.option_strings}
        options = {word.strip("[]").partition("=")[0] for word in rest if word.strip("[").startswith("--")}
        assert options <= known, (page, words)
    assert count > 60
