"""The script that sees to the further engines, on a machine made of stubs."""

from pathlib import Path

import pytest

from tests.unit.test_setup_scripts import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_engines_that_are_here_are_used_as_they_are(machine: Machine) -> None:
    for name in ("podman", "runsc", "apt-get"):
        machine.stub(name, "")
    assert machine.run("engines.sh").returncode == 0
    assert "apt-get" not in machine.ran


def test_where_nothing_may_be_installed_the_command_is_told(machine: Machine) -> None:
    machine.stub("id", "echo 1000")
    machine.stub("apt-get", "")
    machine.stub("apt-cache", "echo Package: runsc")
    done = machine.run("engines.sh")
    assert done.returncode != 0
    assert "podman" in done.stderr
    assert "runsc" in done.stderr
    assert "apt-get" not in machine.ran


def test_a_system_without_gvisor_says_so_and_goes_on(machine: Machine) -> None:
    machine.stub("podman", "")
    machine.stub("apt-cache", "exit 100")
    done = machine.run("engines.sh")
    assert done.returncode == 0
    assert "gVisor" in done.stdout
