"""One server with a console, shared by the tests of this folder, and a browser for each file of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from gdal_mcp.testing.samples import write_samples
from tests.e2e.console.kit import Stage, Window, window
from tests.e2e.mcp.conftest import Containers, containers
from tests.e2e.mcp.talk import Place, talking
from tests.oracle.fixtures import grounds
from tests.waiting import until

__all__ = ["containers", "grounds"]

expect.set_options(timeout=30_000)  # milliseconds: a bound on waiting, far above what anything takes


def sampled(folder: Path) -> Place:
    place = Place.made(folder)
    write_samples(place.workspace)
    return place


@pytest.fixture(scope="session")
def stage(grounds: Path, containers: Containers) -> Iterator[Stage]:
    """A server whose calls wait for approval. Checks after all tests that nothing of it is left."""
    place = sampled(grounds / "console")
    options = ("--console", "on", "--approval-wait", "60", "--approval-seconds", "60")
    with talking(place.command(*options), grounds / "console.log") as talk:
        until(lambda: place.owners)  # the server has started
        owners = place.owners
        yield Stage(place, talk)
    assert containers.of_owners(owners) == []
    assert place.staged == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser, from Debian; one for each file, because its driver blocks the thread's event loop."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "there is no Chromium; scripts/browser.sh installs it"
    with sync_playwright() as driver:
        # a browser that runs as root cannot have its sandbox; it only shows the server's own page
        chromium = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Browser, stage: Stage) -> Iterator[Window]:
    """A window of a person who is signed in."""
    with window(browser, stage.link()) as signed_in:
        yield signed_in
