"""Which of several engines is used: the first on which a container starts; and which results of trials are stored."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gdal_mcp.server.app import running
from gdal_mcp.settings import load_settings
from sandbox.engine import EngineInfo
from sandbox.engines import opening
from sandbox.engines.discovery import EngineRefused
from sandbox.engines.opening import Candidate, first_that_starts
from sandbox.engines.trial import Results, control_groups, forget_results, program, root_archive
from sandbox.errors import EngineUnavailable

INFO = EngineInfo("one", "1", (1, 0), "x86_64", "1", (), False, (), "", "")


class Fake:
    """An engine as far as the selection needs it. `closed` counts calls of `close`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = 0

    def info(self) -> EngineInfo:
        return replace(INFO, name=self.name)

    def close(self) -> None:
        self.closed += 1


class Ladder:
    """Candidates by name, each with the result of its trial ("" for success), or the error of opening it."""

    def __init__(self, file: Path, **outcomes: str | Exception) -> None:
        self.outcomes, self.file = outcomes, file
        self.tried: list[str] = []
        self.engines: dict[str, Fake] = {}

    def climb(self, *, fresh: bool = False) -> opening.OpenedEngine:
        steps = [Candidate(name, f"at {name}", lambda name=name: self._open(name)) for name in self.outcomes]
        return first_that_starts(steps, Results(self.file), fresh=fresh, attempt=self._try)

    def _open(self, name: str) -> Fake:
        outcome = self.outcomes[name]
        if isinstance(outcome, Exception):
            raise outcome
        self.engines[name] = Fake(name)
        return self.engines[name]

    def _try(self, engine: Fake, _owner: str) -> str:
        self.tried.append(engine.name)
        return str(self.outcomes[engine.name])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "engines.json"


def test_first_working_engine_is_used_and_others_named(file: Path) -> None:
    ladder = Ladder(
        file, docker=FileNotFoundError(2, "nothing"), podman="no", crun="hybrid", runc="", later=""
    )
    opened = ladder.climb()
    assert (opened.engine, opened.address) == (ladder.engines["runc"], "at runc")
    assert [(rejected.candidate, rejected.absent) for rejected in opened.passed_over] == [
        ("docker", True),
        ("podman", False),
        ("crun", False),
    ]
    assert [rejected.reason for rejected in opened.passed_over[1:]] == ["no", "hybrid"]
    assert ladder.tried == ["podman", "crun", "runc"]
    assert [ladder.engines[name].closed for name in ladder.tried] == [1, 1, 0]


def test_no_engine_names_each_reason_and_stores_nothing(file: Path) -> None:
    ladder = Ladder(file, docker=OSError("it is stopped"), crun="hybrid", runc=EngineUnavailable("too old"))
    with pytest.raises(EngineUnavailable) as caught:
        ladder.climb()
    assert not isinstance(caught.value, EngineRefused)
    for part in ("docker: it is stopped", "crun: hybrid", "runc: too old"):
        assert part in str(caught.value)
    assert not file.exists()


def test_forbidden_socket_is_refused_only_without_alternative(file: Path) -> None:
    denied = PermissionError(13, "Permission denied")
    assert Ladder(file, docker=denied, crun="").climb().address == "at crun"
    with pytest.raises(EngineRefused):
        Ladder(file, docker=denied).climb()


def test_known_trial_result_is_reused_until_forgotten(file: Path) -> None:
    ladder = Ladder(file, crun="hybrid", runc="")
    ladder.climb()
    again = ladder.climb()
    assert ladder.tried == ["crun", "runc"]
    assert [str(rejected) for rejected in again.passed_over] == ["crun: hybrid"]
    ladder.climb(fresh=True)
    assert ladder.tried == ["crun", "runc"] * 2
    forget_results(file)
    ladder.climb()
    assert ladder.tried == ["crun", "runc"] * 3


def test_writable_or_damaged_trial_results_are_not_trusted(file: Path) -> None:
    ladder = Ladder(file, crun="")
    ladder.climb()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.chmod(0o666)
    ladder.climb()
    file.unlink()
    for text in ("{", "[]", '{"x": 1}', '{"x": ["", "soon"]}'):
        file.write_text(text)
        ladder.climb()
    assert ladder.tried == ["crun"] * 6


def test_another_layout_of_control_groups_is_another_host(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    table = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t{}\t1\nhugetlb\t{}\t1\t1\n"

    def layout(mounts: str, groups: int, hierarchy: int) -> list[str]:
        (tmp_path / "self/mounts").write_text(f"proc /proc proc rw 0 0\n{mounts}")
        (tmp_path / "cgroups").write_text(table.format(groups, hierarchy))
        return control_groups(tmp_path)

    hybrid = layout("cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", 1, 0)
    assert layout("cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", 99, 0) == hybrid
    assert layout("cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", 1, 9) != hybrid
    assert layout("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", 1, 0) != hybrid


def test_each_container_architecture_has_its_trial_program() -> None:
    assert program("x86_64")[:4] == program("aarch64")[:4] == b"\x7fELF"
    assert program("x86_64") != program("aarch64")
    assert (program("amd64"), program("arm64")) == (program("x86_64"), program("aarch64"))
    assert len(root_archive("x86_64")) < 20_000
    with pytest.raises(EngineUnavailable):
        program("riscv64")


def test_the_trial_program_sends_back_what_it_reads(tmp_path: Path) -> None:
    file = tmp_path / "answer"
    file.write_bytes(program(os.uname().machine))
    file.chmod(0o755)
    assert subprocess.run([file], input=b"a nonce", capture_output=True, check=True).stdout == b"a nonce"


class Machine:
    """A host for a person's set-up: packages that make an engine start there, and packages that were installed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, helps: str, blocked: str = "") -> None:
        self.installed: list[str] = []
        self.said: list[str] = []
        self.helps = helps
        monkeypatch.setattr(opening, "open_first", self._open)
        monkeypatch.setattr(opening, "obstacle", lambda: blocked)
        monkeypatch.setattr(
            opening, "ensure_installed", lambda programs, *_: self.installed.append(programs[0])
        )
        monkeypatch.setattr("shutil.which", lambda name: name if name in self.installed else None)

    def _open(self, _address: str | None) -> opening.OpenedEngine:
        if self.helps in self.installed:
            return opening.OpenedEngine(
                Fake(self.helps), "there", (opening.RejectedCandidate("crun", "hybrid"),)
            )
        raise EngineUnavailable("crun: hybrid\nadvice")

    def set_up(self, address: str | None = None) -> list[str]:
        opening.open_or_install(address, self.said.append)
        return self.installed


@pytest.mark.parametrize(
    ("helps", "installed"),
    [("crun", ["crun"]), ("runc", ["crun", "runc"]), ("dockerd", ["crun", "runc", "dockerd"])],
)
def test_setup_installs_engines_until_a_container_starts(monkeypatch, helps, installed):
    machine = Machine(monkeypatch, helps)
    assert machine.set_up() == installed
    assert any("hybrid" in line for line in machine.said)


def test_setup_for_daemonless_engine_installs_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, "dockerd")
    with pytest.raises(EngineUnavailable):
        machine.set_up("oci")
    assert machine.installed == ["crun", "runc"]


@pytest.mark.parametrize(("address", "blocked"), [(None, "no mounts"), ("docker:", ""), ("k8s://", "")])
def test_setup_installs_nothing_that_would_not_help(monkeypatch, address, blocked):
    machine = Machine(monkeypatch, "crun", blocked)
    with pytest.raises(EngineUnavailable):
        machine.set_up(address)
    assert machine.installed == []


def test_an_engine_that_is_lost_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "maps").mkdir()
    results = Results()
    results.add("an engine", "")
    results.save()
    with running(load_settings(workspaces=(tmp_path / "maps",), state_dir=tmp_path / "state")) as app:
        assert Results().find("an engine") == ""
        app.hosting.invalidate(SimpleNamespace(toolbox=app.toolboxes.items[0]))
    assert Results().find("an engine") is None
