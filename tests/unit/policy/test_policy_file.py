"""The policy file: its contents are read, and a mistake in it never passes for a rule."""

from pathlib import Path
from typing import Any

import pytest

from gdal_mcp.calls.entitlements import EntitlementResolver, Entitlements
from gdal_mcp.errors import ToolError
from gdal_mcp.plan import Effect
from gdal_mcp.policy.policy import WAYS, Policy
from gdal_mcp.policy.policy_file import load_policy
from gdal_mcp.settings import Settings, SettingsError
from gdal_mcp.settings.types import LEAST_MEMORY
from sandbox.errors import PathRefused
from sandbox.workspace import Workspace, Workspaces
from tests.boxes import BOXES

NAMES = (
    *("info", "convert", "gdalwarp", "gdal_read", "vector_info"),
    *("raster hillshade", "raster_hillshade", "raster reproject"),
)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "one", tmp_path / "two")
    for folder in paths:
        folder.mkdir()
    return paths


def loaded(folders: tuple[Path, Path], text: str, **more: object) -> Policy:
    file = folders[0].parent / "policy.toml"
    file.write_text(text, encoding="utf-8")
    return load_policy(settings(folders, policy=file, **more), lambda: NAMES)


def settings(folders: tuple[Path, Path], **more: object) -> Settings:
    return Settings(workspaces=folders, state_dir=folders[0].parent / "state", **more)  # type: ignore[arg-type]


def test_rules_and_entries_are_read(folders: tuple[Path, Path], tmp_path: Path):
    (tmp_path / "link").symlink_to(folders[1])  # a workspace means the folder, however it is written
    policy = loaded(
        folders,
        f"""
        [[rule]]
        decision = "require"
        tools = ["raster *"]
        effects = ["replace"]
        workspaces = ["{folders[0]}"]
        principals = ["token:*"]
        ways = ["console"]
        reason = "maps are shared"
        [[principal]]
        principals = ["token:ann"]
        workspaces = ["{tmp_path}/link"]
        memory = "256MiB"
        calls_per_minute = 3
        concurrent = 2
        output_bytes_a_day = "1MiB"
        """,
    )
    (rule,) = policy.rules
    assert (rule.decision, rule.tools, rule.effects) == ("require", ("raster *",), {Effect.REPLACE})
    assert (rule.workspaces, rule.ways, rule.reason) == ((folders[0],), {"console"}, "maps are shared")
    (entry,) = policy.entries
    assert (entry.workspaces, entry.memory, entry.calls_per_minute) == ((folders[1],), 256 << 20, 3)
    assert (entry.concurrent, entry.output_bytes_a_day, entry.cpu_seconds_a_day) == (2, 1 << 20, None)
    assert len(policy.digest) == 64
    (rule,) = loaded(folders, '[[rule]]\ndecision = "deny"').rules  # an omitted condition matches everything
    assert (rule.tools, rule.effects, rule.ways) == (("*",), set(Effect), WAYS)


@pytest.mark.claim("approval.policy-whole")
def test_a_slip_is_an_error(folders: tuple[Path, Path], subtests: pytest.Subtests):
    deny, require = ('[[rule]]\ndecision = "deny"\n', '[[rule]]\ndecision = "require"\n')
    ann = '[[principal]]\nprincipals = ["token:ann"]\n'
    for text in (
        "[[rule]]", '[[rule]]\ndecision = "maybe"', '[[rules]]\ndecision = "deny"', "[[principal]]", "not toml",
        f'{deny}tool = ["info"]', f'{deny}tools = ["inof"]', f"{deny}tools = []", f"{deny}effects = []",
        f'{deny}effects = ["write"]', f'{deny}workspaces = ["/nowhere"]', f'{require}ways = ["email"]', f"{require}ways = []",
        f'{ann}memory = "1MiB"', f"{ann}memory = {LEAST_MEMORY - 1}", f"{ann}calls_per_minute = 0", f"{ann}calls_a_minute = 5",
    ):  # fmt: skip
        with subtests.test(text=text), pytest.raises(SettingsError):
            loaded(folders, text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            '[[rule]]\ndecision = "deny"\n[[rule]]\ndecision = "deny"\ntool = ["info"]',
            ("rule 2: ", "'tool'", "tools"),
        ),
        ('[[rules]]\ndecision = "deny"', ("'rules'", "nearest is rule")),
        ("[[rule]]", ("rule 1: ", "decision")),
        ('[[rule]]\ndecision = "maybe"', ("rule 1, decision: ", "'maybe'", "'require'")),
        ('[[rule]]\ndecision = "deny"\neffects = ["write"]', ("rule 1, effects: ", "'write'", "'replace'")),
        ('[[principal]]\nprincipals = ["*"]\nmemory = "1MiB"', ("principal 1, memory: ", "'1MiB'")),
        ('[[principal]]\nprincipals = ["*"]\ncalls_a_minute = 5', ("principal 1: ", "calls_per_minute")),
        ('rule = "deny"', ("rule: ", "[[rule]]")),
    ],
)
def test_policy_error_names_file_table_key_and_remedy(
    folders: tuple[Path, Path], text: str, parts: tuple[str, ...]
):
    with pytest.raises(SettingsError) as caught:
        loaded(folders, text)
    (problem,) = caught.value.problems
    assert [part for part in (str(folders[0].parent / "policy.toml"), *parts) if part not in problem] == []


@pytest.mark.claim("approval.policy-whole")
def test_a_file_that_everybody_may_change_is_refused(folders: tuple[Path, Path]):
    file = folders[0].parent / "policy.toml"
    file.write_text("")
    file.chmod(0o666)
    with pytest.raises(SettingsError):
        load_policy(settings(folders, policy=file), lambda: NAMES)


@pytest.mark.claim("paths.workspaces-are-plain")
def test_a_file_that_calls_could_change_is_refused(folders: tuple[Path, Path]):
    with pytest.raises(ValueError):
        settings(folders, policy=folders[0] / "policy.toml")


def reaches(folders: tuple[Path, Path], text: str, **more: Any) -> EntitlementResolver:
    own = settings(folders, **more)
    spaces = Workspaces(tuple(Workspace.at(folder, writable=True) for folder in folders))
    return EntitlementResolver(Entitlements.full(own, spaces, BOXES), loaded(folders, text), BOXES)


@pytest.mark.claim("identity.reach-narrows")
def test_unnamed_principal_has_nothing_once_any_is_named(folders: tuple[Path, Path]):
    some = reaches(folders, '[[principal]]\nprincipals = ["token:ann"]')
    assert some.of("token:ann").workspaces == some.full.workspaces
    assert (some.of("token:ann").entry is None, some.full.entry) == (False, None)
    with pytest.raises(ToolError):
        some.of("token:bob")
    everybody = reaches(folders, '[[rule]]\ndecision = "deny"')
    assert everybody.of("token:bob") is everybody.full


@pytest.mark.claim("identity.reach-narrows")
def test_a_reach_holds_its_workspaces_and_no_other(folders: tuple[Path, Path]):
    text = f'[[principal]]\nprincipals = ["*"]\nworkspaces = ["{folders[1]}"]'
    reach = reaches(folders, text).of("token:ann")
    assert [workspace.root for workspace in reach.workspaces.items] == [folders[1]]
    (folders[0] / "secret.tif").write_bytes(b"x")
    with pytest.raises(PathRefused):
        reach.workspaces.input(str(folders[0] / "secret.tif"))


def test_a_workspace_to_be_read_is_not_written(folders: tuple[Path, Path]):
    text = (
        f'[[principal]]\nprincipals = ["*"]\nworkspaces = ["{folders[1]}"]\nworkspaces_ro = ["{folders[0]}"]'
    )
    reach = reaches(folders, text).of("token:ann")
    assert {workspace.root: workspace.writable for workspace in reach.workspaces.items} == {
        folders[0]: False,
        folders[1]: True,
    }
    alone = reaches(folders, '[[principal]]\nprincipals = ["*"]\nread_only = true').of("token:ann")
    assert not any(workspace.writable for workspace in alone.workspaces.items)
    assert alone.settings.read_only
    assert not any(tool.writes for tool in alone.surface.listed)


@pytest.mark.claim("identity.reach-narrows")
def test_an_entry_never_widens_a_limit(folders: tuple[Path, Path]):
    text = '[[principal]]\nprincipals = ["*"]\nmemory = "900GiB"\ncpus = 1000\ntimeout_seconds = 0.5'
    some = reaches(folders, text)
    limits, full = some.of("token:ann").limits, some.full.limits
    assert (limits.memory_bytes, limits.cpus) == (full.memory_bytes, full.cpus)
    assert limits.wall_seconds == 0.5


def test_tools_are_given_and_taken_by_either_spelling(folders: tuple[Path, Path]):
    offered = reaches(folders, '[[principal]]\nprincipals = ["*"]\ntools = ["info", "raster_hillshade"]')
    surface = offered.of("token:ann").surface
    assert set(surface.callable) == {"info"}
    assert surface.permits("raster hillshade")
    assert not surface.permits("raster slope")
    taken = reaches(folders, '[[principal]]\nprincipals = ["*"]\nexclude_tools = ["raster hillshade"]')
    assert not taken.of("token:ann").surface.permits("raster hillshade")
    assert taken.of("token:ann").surface.permits("raster slope")


@pytest.mark.claim("args.exclusion-whole")
def test_excluded_entry_is_gone_whatever_runs_it(folders: tuple[Path, Path]):
    head = '[[principal]]\nprincipals = ["*"]\n'
    for rules, gone in (
        ('exclude_tools = ["raster repro*"]', {"reproject", "gdalwarp"}),
        ('tools = ["info", "gdalwarp", "gdal_read"]\nexclude_tools = ["vector_info"]', {"info"}),
    ):
        surface = reaches(folders, head + rules).of("token:ann").surface
        assert not gone & set(surface.callable)
        assert "gdal_read" in surface.callable


@pytest.mark.claim("args.exclusion-whole")
def test_what_the_server_excludes_no_entry_gives_back(folders: tuple[Path, Path]):
    text = '[[principal]]\nprincipals = ["*"]\ntools = ["info", "convert", "raster *"]'
    surface = reaches(folders, text, exclude_tools=("raster info",)).of("token:ann").surface
    assert "info" not in surface.callable
    assert "convert" in surface.callable
    assert not surface.permits("raster info")
    assert not surface.permits("info")
