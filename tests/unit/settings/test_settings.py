import os
import re
from pathlib import Path

import pytest

from gdal_mcp.cli.options import option_of
from gdal_mcp.settings import Settings, SettingsError, load_settings
from gdal_mcp.settings.reference import describe
from gdal_mcp.settings.types import LEAST_MEMORY, parse_size
from sandbox.template import Limits


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.upper().startswith("GDAL_MCP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gdal-mcp.toml"
    path.write_text(text)
    return path


def problems_of(**explicit: object) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(**explicit)
    return caught.value.problems


# Sources


def test_the_defaults_are_the_careful_ones() -> None:
    settings = load_settings()
    assert settings.approval == "writes"
    assert settings.log_level == "warning"
    assert settings.workspaces == settings.workspaces_ro == ()
    assert 1 <= settings.cpus <= 2
    assert load_settings(cpus=Limits().cpus).limits() == Limits()


def test_each_source_is_above_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = toml(tmp_path, "pids = 11\nopen_files = 111\nundo_calls = 1111")
    monkeypatch.setenv("GDAL_MCP_OPEN_FILES", "222")
    monkeypatch.setenv("GDAL_MCP_UNDO_CALLS", "2222")
    settings = load_settings(config=config, undo_calls=3333)
    assert (settings.pids, settings.open_files, settings.undo_calls) == (11, 222, 3333)
    assert settings.staging_files == 10_000


# Mistakes


def test_unknown_file_key_error_names_the_nearest(tmp_path: Path) -> None:
    (problem,) = problems_of(config=toml(tmp_path, "memroy = 1"))
    assert "memory" in problem


def test_unknown_variable_error_names_the_nearest(monkeypatch):
    for name in ("GDAL_MCP_MEMROY", "gdal_mcp_memroy", "GDAL_MCP_MEMORY_"):
        with monkeypatch.context() as there:
            there.setenv(name, "1")
            (problem,) = problems_of()
        assert re.search(r"GDAL_MCP_MEMORY\b", problem)


def test_every_problem_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDAL_MCP_MEMORY", "much")
    monkeypatch.setenv("GDAL_MCP_NONSENSE", "1")
    problems = problems_of(cpus=-1, approval="sometimes")
    assert len(problems) == 4
    for part in ("GDAL_MCP_MEMORY", "GDAL_MCP_NONSENSE", "cpus", "approval"):
        assert any(part in problem for problem in problems)


def test_memory_too_small_for_containers_is_an_error() -> None:
    assert load_settings(memory=LEAST_MEMORY).limits().memory_bytes == LEAST_MEMORY
    assert problems_of(memory=LEAST_MEMORY - 1)


def test_file_without_settings_is_an_error(tmp_path: Path) -> None:
    for text in ("memory = ", "\x00", "[", "memory = 1\nmemory = 2", 'config = "other.toml"'):
        assert problems_of(config=toml(tmp_path, text)), text
    for place in (tmp_path / "none.toml", tmp_path):
        assert problems_of(config=place)
    config = toml(tmp_path, "pids = 11")
    config.chmod(0o666)  # everybody can write to it
    assert problems_of(config=config)


def test_a_value_out_of_bounds_is_an_error(subtests: pytest.Subtests) -> None:
    for name, value in (
        ("memory", "63MiB"), ("memory", True), ("memory", 2.5e9), ("cpus", 0), ("cpus", "nan"),
        ("cpus", "inf"), ("pids", 0), ("pids", 1.5), ("timeout_seconds", 0), ("timeout_seconds", "inf"),
        ("approval_seconds", -1), ("approval", "Never "), ("runtime", "runsc; rm"), ("runtime", "a\n"),
        ("preview", "perhaps"), ("read_chunk", "1GiB"), ("undo_calls", -1),
        ("state_dir", ""), ("workspaces", [""]), ("workspaces", ["a\0b"]), ("workspaces", 3),
        *(("outputs_folder", name) for name in ("", ".", "..", "a/b", "/a", ".gdal-mcp", "a\nb", "a\0b", "x" * 256, "é" * 128)),
    ):  # fmt: skip
        with subtests.test(name=name, value=value):
            assert any(name in problem for problem in problems_of(**{name: value}))


# Sizes


def test_sizes_are_parsed_and_others_refused(subtests: pytest.Subtests) -> None:
    for text, size in (
        ("0", 0), ("1", 1), (7, 7), ("512B", 512), ("1KiB", 1024), ("1kb", 1000), ("2GiB", 2 << 30), ("2 gib", 2 << 30),
        (" 2GB ", 2_000_000_000), ("1.5MiB", 3 << 19), ("3TiB", 3 << 40), ("1TB", 10**12),
    ):  # fmt: skip
        with subtests.test(text=text, size=size):
            assert parse_size(text) == size
    wrong = [
        "", "G", "2G", "2g", "2GiBs", "-1", "-1GiB", "1e9", "1.5", "1.5B", "1,5GiB", "٣GiB", "0x10",
        "9" * 5000,
    ]  # fmt: skip
    for text in wrong:
        with subtests.test(text=text), pytest.raises(ValueError):
            parse_size(text)


def test_bounds_of_sizes_are_named_with_their_units(subtests: pytest.Subtests) -> None:
    for name, value, bound in (
        ("memory", "10", "128MiB"),
        ("memory", 10, "128MiB"),
        ("read_chunk", "1GiB", "16MiB"),
        ("body_size", "1KiB", "64KiB"),
        ("upload_size", "2TiB", "1TiB"),
        ("undo_size", -1, "0B"),
    ):
        with subtests.test(name=name, value=value):
            (problem,) = problems_of(**{name: value})
            assert bound in problem
            assert repr(value) in problem


def test_settings_impossible_in_a_cluster_stop_the_start(subtests: pytest.Subtests) -> None:
    without = load_settings(engine="k8s://", nodes_without="landlock,pids-limit").nodes_without
    assert without == ("landlock", "pids-limit")
    for wrong in (
        {"engine": "k8s://", "mount_scope": "inputs"},
        {"engine": "k8s://", "nodes_without": "seccomp"},
        {"nodes_without": "landlock"},
    ):
        with subtests.test(**wrong), pytest.raises(SettingsError):
            load_settings(**wrong)


# Paths


def test_workspaces_variable_is_separated_like_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDAL_MCP_WORKSPACES", os.pathsep.join(["/ws/a", "/ws/b c", ""]))
    monkeypatch.setenv("GDAL_MCP_WORKSPACES_RO", "/ro")
    settings = load_settings()
    assert settings.workspaces == (Path("/ws/a"), Path("/ws/b c"))
    assert settings.workspaces_ro == (Path("/ro"),)


@pytest.mark.claim("paths.nothing-by-default")
def test_an_empty_entry_never_means_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDAL_MCP_WORKSPACES", os.pathsep)
    assert load_settings().workspaces == ()
    for folder in ("", "data\0"):
        assert problems_of(workspaces=[folder])


def test_relative_paths_and_tildes_are_resolved(tmp_path, monkeypatch):
    current = tmp_path / "current"
    current.mkdir()
    monkeypatch.chdir(current)
    monkeypatch.setenv("HOME", "/home/someone")
    config = toml(tmp_path, 'workspaces = ["data", "/ws/a", "~/maps"]\nstate_dir = "state"')
    settings = load_settings(config=config, workspaces_ro=["ro"])
    assert settings.workspaces == (tmp_path / "data", Path("/ws/a"), Path("/home/someone/maps"))
    assert settings.state_dir == tmp_path / "state"
    assert settings.workspaces_ro == (current / "ro",)


@pytest.mark.claim("paths.workspaces-are-plain")
def test_state_and_settings_lie_apart_from_workspaces(tmp_path):
    (tmp_path / "ws" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("ws")
    for kind in ("workspaces", "workspaces_ro"):
        for state, folder in (("ws/state", "ws"), ("ws", "ws"), ("ws", "ws/inner"), ("link/state", "ws")):
            assert problems_of(state_dir=tmp_path / state, **{kind: [tmp_path / folder]})
    assert problems_of(config=toml(tmp_path, "pids = 11"), workspaces=[tmp_path])
    load_settings(state_dir=tmp_path / "ws-state", workspaces=[tmp_path / "ws"])  # side by side


@pytest.mark.claim("paths.workspaces-are-plain")
def test_calls_cannot_replace_links_to_trusted_files(tmp_path: Path):
    for name in ("ws", "away", "away/state"):
        (tmp_path / name).mkdir()
    file = toml(tmp_path / "away", "pids = 11")
    (tmp_path / "ws" / "file.toml").symlink_to(file)
    (tmp_path / "ws" / "folder").symlink_to("../away")
    (tmp_path / "chain.toml").symlink_to("ws/folder/../away/" + file.name)
    (tmp_path / "beside.toml").symlink_to(file)
    routes = ("ws/file.toml", f"ws/folder/{file.name}", "chain.toml")
    for name in ("config", "policy"):
        for route in routes:
            assert problems_of(workspaces=[tmp_path / "ws"], **{name: tmp_path / route}), (name, route)
        load_settings(workspaces=[tmp_path / "ws"], **{name: tmp_path / "beside.toml"})
    assert problems_of(workspaces=[tmp_path / "ws"], state_dir=tmp_path / "ws" / "folder" / "state")


@pytest.mark.claim("paths.workspaces-are-plain")
def test_server_keys_may_not_lie_in_workspaces(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    inside, outside = tmp_path / "ws" / "key.pem", tmp_path / "key.pem"
    for name in ("tls_key", "tls_cert"):
        files = {"tls_key": outside, "tls_cert": outside, name: inside}
        assert problems_of(workspaces=[tmp_path / "ws"], **files)
    account = {"source": [{"at": "gs://maps", "service_account": inside}]}
    for remote in (account, {"ca": inside}):
        assert problems_of(workspaces=[tmp_path / "ws"], remote=remote)


@pytest.mark.timeout(20)
def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")  # to which nobody writes
    assert problems_of(config=tmp_path / "pipe")
    assert problems_of(config=toml(tmp_path, "# " + "x" * (1 << 20)))


def test_a_file_that_everybody_could_replace_is_refused(tmp_path: Path):
    file = toml(tmp_path, "pids = 11")
    tmp_path.chmod(0o777)
    assert problems_of(config=file)
    tmp_path.chmod(0o1777)  # like /tmp, where other users cannot replace the file
    load_settings(config=file)


@pytest.mark.claim("paths.nothing-by-default")
def test_missing_workspace_is_an_error_on_request() -> None:
    with pytest.raises(SettingsError):
        load_settings().require_workspaces()
    load_settings(workspaces=["/ws"]).require_workspaces()
    load_settings(workspaces_ro=["/ws"]).require_workspaces()


def test_every_bound_reaches_the_sandbox() -> None:
    settings = load_settings(
        memory="3GiB", cpus=1.5, pids=33, timeout_seconds=44, staging_size="5MiB", staging_files=66, file_size="7MiB",
        stdout_size="8MiB", open_files=99, scratch_size="10MiB",
    )  # fmt: skip
    assert settings.limits() == Limits(
        memory_bytes=3 << 30, cpus=1.5, pids=33, wall_seconds=44.0, staging_bytes=5 << 20, staging_files=66,
        file_bytes=7 << 20, stdout_bytes=8 << 20, open_files=99, scratch_bytes=10 << 20,
    )  # fmt: skip


# The table


def test_every_setting_is_described_in_one_sentence() -> None:
    rows = describe()
    assert sorted(row.name for row in rows) == sorted(Settings.model_fields)
    for row in rows:
        assert row.env == f"GDAL_MCP_{row.name.upper()}"
        assert row.type
        assert row.description.endswith(".")
        assert "\n" not in row.description
        assert len(row.description) > 10


def test_the_table_is_the_same_on_every_host(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe()
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere/state")
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert describe() == before
    assert load_settings().cpus == 1.0


def test_documented_defaults_equal_the_real_defaults() -> None:
    special = {"cpus", "state_dir"}  # they depend on the host
    shown = {row.name: row.default for row in describe() if row.default and row.name not in special}
    settings, defaults = load_settings(**shown), load_settings()
    assert settings == defaults
    assert {"memory", "approval", "preview", "read_chunk"} < set(shown)


def test_settings_file_problem_names_file_and_key(tmp_path: Path) -> None:
    config = toml(tmp_path, 'memory = "lots"\napproval = "sometimes"')
    problems = problems_of(config=config, pids="many")
    for key in ("memory", "approval"):
        assert [str(config) in problem for problem in problems if f" {key} " in problem] == [True]
    assert [str(config) in problem for problem in problems if problem.startswith("pids ")] == [False]


def test_wrong_value_is_named_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GDAL_MCP_PIDS", "many")
    config = toml(tmp_path, 'memory = "lots"')
    with pytest.raises(SettingsError) as caught:
        load_settings(option_of, config=config, approval="sometimes", preview=3)
    for name in ("--approval ", "--no-preview ", "GDAL_MCP_PIDS ", f"Settings file {config}: memory "):
        assert [problem.startswith(name) for problem in caught.value.problems].count(True) == 1, name


def test_settings_paths_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, working_folder = tmp_path / "own", tmp_path / "elsewhere"
    for folder in (own / "maps", working_folder):
        folder.mkdir(parents=True)
    monkeypatch.chdir(working_folder)
    config = toml(
        own,
        'workspaces = ["maps"]\nclassifiers = "maps"\n[remote]\nca = "ca.pem"\n'
        '[[remote.source]]\nat = "gs://maps/"\nservice_account = "account.json"\n',
    )
    (own / "ca.pem").write_text("x")
    (own / "account.json").write_text("{}")
    settings = load_settings(config=config)
    assert settings.classifiers == own / "maps"
    assert settings.remote.ca == own / "ca.pem"
    assert settings.remote.source[0].service_account == own / "account.json"


def test_wrong_remote_key_names_file_and_nearest_key(tmp_path: Path):
    file = tmp_path / "settings.toml"
    file.write_text('[[remote.source]]\nat = "data.example.org"\nbaerer = "env:TOKEN"\n')
    with pytest.raises(SettingsError) as caught:
        load_settings(config=file)
    (problem,) = caught.value.problems
    assert [part for part in (str(file), "remote.source.0.baerer", "bearer") if part not in problem] == []
    assert "env:TOKEN" not in problem


def test_file_value_error_names_absolute_file_path(tmp_path: Path, monkeypatch):
    (tmp_path / "settings.toml").write_text('memory = "1Gibs"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as caught:
        load_settings(config="settings.toml")
    assert f"{tmp_path}/settings.toml: memory" in caught.value.problems[0]
