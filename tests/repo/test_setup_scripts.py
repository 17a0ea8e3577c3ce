"""The set-up scripts on a machine made of stubs: the commands that they run, refuse and leave out."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "basename", "cat", "grep", "sha256sum", "rm", "sleep", "tail", "date")


class Machine:
    """A separate clone and PATH. A stub records its name and arguments in `ran`, then does its task."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "a clone"  # with a space, as in real paths
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.bin.mkdir()
        self.log.touch()
        shutil.copytree(ROOT / "scripts", self.clone / "scripts")
        (self.clone / "requirements").mkdir()
        (self.clone / "requirements/dev.txt").write_text("x==1\n")
        (self.clone / "pyproject.toml").write_text("[project]\n")
        for tool in TOOLS:
            program = shutil.which(tool)
            assert program, tool
            (self.bin / tool).symlink_to(program)

    def stub(self, path: Path | str, script: str) -> Path:
        file = self.bin / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'#!/bin/sh\necho "{file.name} $*" >>"{self.log}"\n{script}\n')
        file.chmod(0o755)
        return file

    def environment_python(self, script: str) -> None:
        self.stub(self.clone / ".venv/bin/python", script)

    def becoming_root(self, installed: str, *programs: str) -> None:
        """Makes the user appear as root, with an `apt-get` that installs this and stubs of these programs."""
        self.stub("id", "echo 0")
        self.stub("apt-get", installed)
        for program in programs:
            self.stub(program, "")

    def run(self, script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.clone / "scripts" / script, *words],
            env={"PATH": str(self.bin), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def ran(self) -> list[str]:
        return [line.split()[0] for line in self.log.read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


STARTERS = ("service", "systemctl", "setsid")
# the output of discovery, the user, the available programs, whether an engine is found, and the commands that are run
# for it
ENGINES = {
    "it answers": ("echo unix:///run/engine.sock", "0", ("apt-get",), True, {"python"}),
    "it cannot be used": ("echo no; exit 2", "0", ("apt-get", "dockerd"), False, {"python"}),
    "none, and no root": ("exit 1", "1000", ("apt-get",), False, {"python", "id"}),
    "none, and no apt-get": ("exit 1", "0", (), False, {"python", "id"}),
    "installed, for root to start": ("exit 1", "1000", ("dockerd", "apt-get", *STARTERS), False, {"python", "id"}),
    "a failed installation": ("exit 1", "0", ("apt-get", *STARTERS), False, {"python", "id", "apt-get"}),
}  # fmt: skip


@pytest.mark.claim("supply.engine-never-reinstalled")
def test_engine_is_used_unchanged_or_a_command_suggested(tmp_path: Path) -> None:
    for number, (what, (discovery, user, programs, works, ran)) in enumerate(ENGINES.items()):
        (tmp_path / str(number)).mkdir()
        machine = Machine(tmp_path / str(number))
        machine.environment_python(discovery)
        machine.stub("id", f"echo {user}")
        for program in programs:
            machine.stub(program, "exit 100")
        done = machine.run("engine.sh")
        assert (done.returncode == 0, set(machine.ran)) == (works, ran), what
        assert ("unix:///run/engine.sock" in done.stdout) is works
        assert works or done.stderr, what
        assert "docker.io" in done.stderr or not what.startswith("none"), what


@pytest.mark.parametrize("words", [(), ("docker",)])
def test_engine_started_by_a_package_is_not_restarted(machine, words):
    answers = machine.log.parent / "answers"
    machine.environment_python(f'[ -e "{answers}" ] && echo unix:///run/new.sock')
    machine.becoming_root(f'{shutil.which("touch")} "{answers}" "{machine.bin}/dockerd"', *STARTERS)
    done = machine.run("engine.sh", *words)
    assert done.returncode == 0
    assert "unix:///run/new.sock" in done.stdout
    assert set(machine.ran) == {"python", "id", "apt-get"}
    if words:  # what tests are run with
        assert all(program in machine.log.read_text() for program in ("crun", "runc", "skopeo", "umoci"))


@pytest.mark.claim("supply.no-daemon-unasked")
@pytest.mark.parametrize("has_docker", [False, True])
def test_root_without_engine_gets_runtime_without_daemon(machine: Machine, has_docker: bool) -> None:
    crun = machine.bin / "crun"
    machine.environment_python(f'[ -e "{crun}" ] && echo oci')
    installed = f'{shutil.which("touch")} "{crun}"; {shutil.which("chmod")} +x "{crun}"'
    machine.becoming_root(installed, *STARTERS, *(["dockerd"] if has_docker else []))
    done = machine.run("engine.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("oci\n")
    assert set(machine.ran) == {"python", "id", "apt-get"}
    assert "docker" not in machine.log.read_text()


def make_python(machine: Machine, *, new_enough: bool = True, can_make: bool = True) -> None:
    """Creates a `python3` with a version, with or without support for virtual environments."""
    python = machine.clone / ".venv/bin/python"
    copy, folder = shutil.which("cp"), shutil.which("mkdir")
    machine.stub("fresh", "")
    machine.stub(
        "python3",
        f"""case "$*" in
        *version_info*) exit {0 if new_enough else 1} ;;
        *ensurepip*) exit {0 if can_make else 1} ;;
        "-m venv .venv") {folder} -p "{python.parent}" && {copy} "{machine.bin}/fresh" "{python}" ;;
        esac""",
    )


def test_the_environment_is_made_once(machine: Machine) -> None:
    make_python(machine)
    assert machine.run("venv.sh").returncode == 0
    log = machine.log.read_text()
    assert "--require-hashes" in log
    assert "--editable ." in log
    machine.log.write_text("")
    assert machine.run("venv.sh").returncode == 0
    assert machine.log.read_text() == "fresh -c \n"


def test_new_lock_or_moved_clone_makes_new_environment(machine: Machine) -> None:
    make_python(machine)
    machine.run("venv.sh")
    for change in ("lock", "place"):
        (machine.clone / ".venv/leftover").touch()
        if change == "lock":
            (machine.clone / "requirements/dev.txt").write_text("x==2\n")
        else:
            machine.clone = machine.clone.rename(machine.clone.with_name("moved"))
            make_python(machine)
        assert machine.run("venv.sh").returncode == 0
        assert not (machine.clone / ".venv/leftover").exists()


def test_a_new_declaration_only_installs_the_project_again(machine: Machine) -> None:
    make_python(machine)
    machine.run("venv.sh")
    machine.log.write_text("")
    (machine.clone / "pyproject.toml").write_text("[project]\nversion = '2'\n")
    assert machine.run("venv.sh").returncode == 0
    assert "--editable ." in machine.log.read_text()
    assert "python3" not in machine.ran


def test_failed_installation_is_retried_next_time(machine: Machine) -> None:
    make_python(machine)
    machine.stub("fresh", "exit 1")
    assert machine.run("venv.sh").returncode != 0
    make_python(machine)
    machine.log.write_text("")
    assert machine.run("venv.sh").returncode == 0
    assert "--require-hashes" in machine.log.read_text()


@pytest.mark.parametrize(("new_enough", "can_make"), [(False, True), (True, False)])
def test_without_a_suitable_python_the_old_environment_stays(machine, new_enough, can_make):
    make_python(machine, new_enough=new_enough, can_make=can_make)
    machine.stub("id", "echo 1000")
    machine.stub("apt-get", "")
    before = machine.clone / ".venv/before"
    before.parent.mkdir()
    before.touch()
    assert machine.run("venv.sh").returncode != 0
    assert before.exists()
    assert "apt-get" not in machine.ran


def test_pip_output_is_shown_only_when_it_fails(machine: Machine) -> None:
    make_python(machine)
    noise = "WARNING: Location 'file:///elsewhere' is ignored"
    machine.stub("fresh", f'echo "{noise}"; echo "{noise}" >&2')
    done = machine.run("venv.sh")
    assert (done.returncode, noise in done.stdout + done.stderr) == (0, False)
    shutil.rmtree(machine.clone / ".venv")
    machine.stub("fresh", f'echo "{noise}"; exit 1')
    done = machine.run("venv.sh")
    assert (done.returncode != 0, noise in done.stderr) == (True, True)


def test_progress_says_how_long_it_took(machine: Machine) -> None:
    make_python(machine)
    began = int(time.time()) - 125
    assert "[2:0" in machine.run("venv.sh", SETUP_STARTED=str(began)).stdout


def test_failing_crun_is_followed_by_runc_without_daemon(machine: Machine) -> None:
    """The stub of discovery finds an engine once runc is installed, as on a host where crun fails its trial."""
    runc = machine.bin / "runc"
    machine.environment_python(f'[ -e "{runc}" ] && echo oci || {{ echo "crun: hybrid" >&2; exit 1; }}')
    script = f'for last; do :; done; {shutil.which("touch")} "{machine.bin}/$last"; {shutil.which("chmod")} +x "{machine.bin}/$last"'
    machine.becoming_root(script, *STARTERS)
    done = machine.run("engine.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("oci\n")
    assert set(machine.ran) == {"python", "id", "apt-get"}
    assert "docker" not in machine.log.read_text()


def test_where_neither_runtime_starts_anything_docker_is_installed(machine: Machine) -> None:
    dockerd = machine.bin / "dockerd"
    machine.environment_python(
        f'[ -e "{dockerd}" ] && echo docker || {{ echo "runc: too old" >&2; exit 1; }}'
    )
    touch, chmod = shutil.which("touch"), shutil.which("chmod")
    script = f'for one; do case $one in docker.io) one=dockerd ;; esac; case $one in crun|runc|dockerd) {touch} "{machine.bin}/$one"; {chmod} +x "{machine.bin}/$one" ;; esac; done'
    machine.becoming_root(script, *STARTERS)
    done = machine.run("engine.sh")
    assert done.returncode == 0, done.stderr
    assert "runc: too old" in done.stdout
    assert done.stdout.endswith("docker\n")
    installed = [line.split() for line in machine.log.read_text().splitlines() if line.startswith("apt-get")]
    assert [words[-1] for words in installed if "install" in words][:2] == ["crun", "runc"]
