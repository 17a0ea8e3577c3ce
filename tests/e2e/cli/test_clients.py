"""Entries for clients: they start this server, and no file of a client loses any of its contents."""

import importlib.metadata
import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdal_mcp.cli.clients import CLIENTS
from tests.e2e.cli.conftest import Ended, at_terminal, gdal_mcp
from tests.e2e.mcp.talk import environment

# typical contents of such files; numbers and unknown keys must be unchanged afterwards
JSON = """{
  "theme": "dark", "size": 16.0, "large": 12345678901234567890,
  "KEY": {"other": {"command": "Ünïcode", "args": ["a", null, true]}, "gdal": {"env": {"MINE": "1"}, "command": "old"}}
}
"""
TOML = '# mine\nmodel = "x" # why\n[mcp_servers.other]\ncommand = "o"\n[profiles.a]\nsize = 1_000.50\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/my maps").mkdir(parents=True)
    return tmp_path / "home"


def run(home: Path, *words: str, folder: str = "my maps") -> Ended:
    return gdal_mcp("clients", *words, "--workspace", str(home / folder), variables={"HOME": str(home)})


def file_of(home: Path, name: str) -> Path:
    return (home if CLIENTS[name].in_home else home / ".config") / CLIENTS[name].path


def read(path: Path) -> dict:
    return (tomllib if path.suffix == ".toml" else json).loads(path.read_text())


def servers(home: Path, name: str) -> dict:
    return read(file_of(home, name))[CLIENTS[name].key]


def test_every_client_entry_starts_this_program_from_anywhere(home: Path):
    printed, starts = run(home).stdout, set()
    for name in CLIENTS:
        path = file_of(home, name)
        assert f"clients install {name}" in printed
        assert str(path) in printed
        done = run(home, "install", name, "--yes")
        assert done.code == 0, done.stderr
        entry = servers(home, name)["gdal"]
        assert entry["args"][-3:] == ["serve", "--workspace", str(home / "my maps")]
        assert Path(entry["command"]).is_absolute()
        starts.add((entry["command"], *entry["args"][: entry["args"].index("serve")]))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        written = path.read_bytes()
        assert run(home, "install", name, "--yes").code == 0
        assert path.read_bytes() == written  # nothing to do
        assert [file.name for file in path.parent.iterdir() if file.is_file()] == [path.name]
    for words in starts:
        ran = subprocess.run(
            [*words, "--version"], cwd="/", env={}, capture_output=True, text=True, check=True
        )
        assert ran.stdout.startswith("gdal-mcp ")


def test_existing_client_configuration_is_preserved_and_backed_up(home: Path):
    for name, client in CLIENTS.items():
        path = file_of(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        old = TOML if path.suffix == ".toml" else JSON.replace("KEY", client.key)
        path.write_text(old)
        path.chmod(0o640)
        assert run(home, "install", name, "--yes").code == 0, name
        before, after = (tomllib if path.suffix == ".toml" else json).loads(old), read(path)
        mine = after[client.key].pop("gdal")
        had = before[client.key].pop("gdal", {})
        assert after == before
        assert mine["command"] != "old"
        assert mine.get("env") == had.get("env")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        [copy] = [file for file in path.parent.iterdir() if file.name.startswith(path.name + ".")]
        assert copy.read_text() == old
        if path.suffix == ".toml":
            assert path.read_text().startswith(TOML)  # including the remarks


def test_uncertain_client_file_is_untouched_and_entry_shown(home: Path):
    unsure = {
        "zed": ['{"a": 1, // mine\n}', '{"a": 1, "a": 2}', '{"a": NaN}', "[]", '{"context_servers": 3}', "\ufeff{}", "{" * 9999],
        "codex": ["[mcp_servers.gdal]\ncommand = 'x'\n", "mcp_servers = {}\n", "a = [", "mcp_servers = 3\n"],
    }  # fmt: skip
    for name, texts in unsure.items():
        path = file_of(home, name)
        path.parent.mkdir(parents=True)
        for text in texts:
            path.write_text(text)
            done = run(home, "install", name, "--yes")
            assert done.code == 2, text
            assert str(home / "my maps") in done.stderr
            assert path.read_text() == text
            assert list(path.parent.iterdir()) == [path]


def test_concurrent_client_changes_survive_in_file_and_copy(home: Path):
    path = file_of(home, "cursor")
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": {"one": {"command": "a"}}}')
    later = '{"mcpServers": {"one": {"command": "a"}, "two": {"command": "b"}}}'
    master, slave = pty.openpty()
    words = [
        sys.executable,
        "-m",
        "gdal_mcp",
        "clients",
        "install",
        "cursor",
        "--workspace",
        str(home / "my maps"),
    ]
    with subprocess.Popen(
        words, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(HOME=str(home))
    ) as asking:
        prompt = b""
        while not prompt.endswith(b"[y/N] "):
            prompt += os.read(asking.stderr.fileno(), 4096)
        path.write_text(later)
        os.write(master, b"y\n")
        assert asking.wait(timeout=60) == 0
    os.close(master)
    os.close(slave)
    assert set(servers(home, "cursor")) == {"one", "two", "gdal"}
    [copy] = [file for file in path.parent.iterdir() if file != path]
    assert copy.read_text() == later


def test_nothing_is_written_without_a_yes(home: Path):
    path = file_of(home, "cursor")
    assert run(home, "install", "cursor").code == 2  # nobody can be asked
    words = ("clients", "install", "cursor", "--workspace", str(home / "my maps"))
    for answer, code in (("\n", 1), ("n\n", 1), ("y\n", 0)):
        assert not path.exists()
        ran = at_terminal(answer, *words, variables={"HOME": str(home)})
        assert ran.code == code
        assert str(path) in ran.stderr
    assert path.exists()


def test_file_link_stays_and_unknown_client_is_refused(home: Path):
    (home / "dotfiles").mkdir()
    real, path = home / "dotfiles/mcp.json", file_of(home, "cursor")
    real.write_text("{}")
    path.parent.mkdir()
    path.symlink_to(real)
    assert run(home, "install", "cursor", "--yes").code == 0
    assert path.is_symlink()
    assert "gdal" in read(real)["mcpServers"]
    assert run(home, "install", "notepad", "--yes").code == 2
    assert run(home, "install", "cursor", "--yes", folder="gone").code == 2


def test_under_uvx_the_entry_names_uvx_itself(home: Path, monkeypatch: pytest.MonkeyPatch):
    from gdal_mcp.cli import clients

    monkeypatch.setenv("UV", "/opt/bin/uv")
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/abc")
    commit = {"url": "https://git.test/x", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    for origin, words in (
        (None, [f"gdal-sandbox-mcp@{clients.__version__}"]),
        ({"url": "file:///a/clone", "dir_info": {}}, ["--from", "file:///a/clone", "gdal-sandbox-mcp"]),
        (commit, ["--from", "git+https://git.test/x@abc", "gdal-sandbox-mcp"]),
    ):
        installed = SimpleNamespace(read_text=lambda _name, record=origin: record and json.dumps(record))
        monkeypatch.setattr(importlib.metadata, "distribution", lambda _name, package=installed: package)
        assert clients._program() == ["/opt/bin/uvx", *words]
