"""What `scripts/browser.sh` does on machines made of stubs."""

import shutil
from pathlib import Path

import pytest

from tests.unit.test_setup_scripts import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_a_browser_that_is_there_is_used_and_nothing_installed(machine: Machine, name: str):
    browser = machine.stub(name, "")
    machine.stub("id", "echo 0")
    machine.stub("apt-get", "")
    done = machine.run("browser.sh")
    assert done.returncode == 0
    assert str(browser) in done.stdout
    assert "apt-get" not in machine.ran


@pytest.mark.parametrize(("user", "apt"), [("1000", True), ("0", False)])
def test_without_the_right_to_install_a_command_is_given(machine: Machine, user: str, apt: bool):
    machine.stub("id", f"echo {user}")
    if apt:
        machine.stub("apt-get", "")
    done = machine.run("browser.sh")
    assert done.returncode != 0
    assert "chromium" in done.stderr
    assert "apt-get" not in machine.ran


def test_root_gets_it_installed(machine: Machine):
    machine.stub("id", "echo 0")
    machine.stub(
        "apt-get",
        f'{shutil.which("touch")} "{machine.bin}/chromium"; {shutil.which("chmod")} +x "{machine.bin}/chromium"',
    )
    done = machine.run("browser.sh")
    assert done.returncode == 0
    assert f"{machine.bin}/chromium" in done.stdout


@pytest.mark.parametrize("apt", ["exit 100", "exit 0"])
def test_an_installation_that_brings_none_fails(machine: Machine, apt: str):
    machine.stub("id", "echo 0")
    machine.stub("apt-get", apt)
    assert machine.run("browser.sh").returncode != 0
