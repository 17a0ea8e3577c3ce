"""When the page opens, who gets its address, and which part of that a model can read."""

from pathlib import Path

import pytest

from gdal_mcp.server.app import local_user
from gdal_mcp.server.console import runtime_file
from tests.e2e.console.conftest import sampled
from tests.e2e.console.kit import SECONDS, Person, approvals, console, links, plain, published
from tests.e2e.mcp.pipes import piped
from tests.e2e.mcp.talk import Place, talking
from tests.waiting import until

pytestmark = pytest.mark.engine


@pytest.fixture
def place(tmp_path: Path) -> Place:
    tmp_path.chmod(0o755)
    return sampled(tmp_path)


def opened(place: Place) -> list[str]:
    return [path.stem for path in (place.state / runtime_file.FOLDER).glob("*.json")]


@pytest.mark.claim("approval.address-is-no-key")
def test_question_opens_page_without_giving_models_access(place: Place, tmp_path: Path):
    with talking(place.command("--console", "auto", "--approval-wait", "0"), tmp_path / "log") as talk:
        talk.done("info", path="dem.tif")
        assert opened(place) == []  # nothing needed it
        result = talk.call("convert", input="dem.tif", output="a.tif")
        confirmation = result.structured_content["error"]["requiresConfirmation"]
        (notice,) = runtime_file.running(place.state, lambda _server: True)
        assert confirmation["console"] == f"{notice.address}#approval={confirmation['approval']}"
        text = result.model_dump_json() + (tmp_path / "log").read_text()
        assert notice.secret not in text
        assert "ticket" not in text
        assert plain("GET", confirmation["console"]).status_code == 200
        assert plain("GET", f"{notice.address}api/questions/{confirmation['approval']}").status_code == 401
        person = Person.by(notice.address, {"ticket": console(place.state).stdout.strip().partition("=")[2]})
        assert person.post(f"api/decide/{confirmation['approval']}", {"approved": True}).json()["yours"]
        assert not talk.call("convert", input="dem.tif", output="a.tif").is_error  # the same call once more


@pytest.mark.nightly
def test_requested_page_opens_and_ends_with_its_server(place: Place, tmp_path: Path):
    with talking(place.command("--console", "auto"), tmp_path / "log"):
        until(lambda: place.owners)
        base, _, ticket = console(place.state).stdout.strip().partition("#ticket=")
        assert Person.by(base, {"ticket": ticket}).get("api/me").status_code == 200
    until(lambda: opened(place) == [])
    done = console(place.state)
    assert (done.code, done.stdout) == (1, "")


def test_page_of_killed_server_is_no_longer_named(place: Place, tmp_path: Path):
    with piped(place.command("--console", "on"), tmp_path / "log") as pipes:
        until(lambda: opened(place))
        pipes.process.kill()
        pipes.process.wait(SECONDS)
        assert opened(place)
        assert console(place.state).stdout == ""
        assert opened(place) == []


@pytest.mark.nightly
def test_a_server_without_a_console_opens_none(place: Place, tmp_path: Path):
    with talking(place.command("--console", "off", "--approval-wait", "0"), tmp_path / "log") as talk:
        error = talk.failed("convert", input="dem.tif", output="a.tif")
        assert error["requiresConfirmation"]["console"] is None
        assert opened(place) == []


@pytest.mark.nightly
def test_a_port_that_is_taken_ends_no_server(place: Place, tmp_path: Path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ("--console", "on", "--console-port", port, "--approval-wait", "0")
        with talking(place.command(*options), tmp_path / "log") as talk:
            assert talk.done("info", path="dem.tif")
            error = talk.failed("convert", input="dem.tif", output="a.tif")
            assert error["requiresConfirmation"]["console"] is None


@pytest.mark.nightly
def test_open_page_does_not_keep_server_running(place: Place, tmp_path: Path):
    with piped(place.command("--console", "on"), tmp_path / "log") as pipes:
        pipes.hello()
        link = console(place.state).stdout.strip()
        base, _, ticket = link.partition("#ticket=")
        assert Person.by(base, {"ticket": ticket}).first_event()
        pipes.process.stdin.close()
        assert pipes.process.wait(SECONDS) == 0
    assert opened(place) == []


def test_picture_that_would_need_approval_is_not_made(place: Place, tmp_path: Path):
    with talking(place.command("--console", "on", "--approval", "always"), tmp_path / "log"):
        until(lambda: links(place.state))
        base, _, ticket = links(place.state)[0].partition("#ticket=")
        person = Person.by(base, {"ticket": ticket})
        _, artifact = published(place, local_user().id, place.path("dem.tif"))
        assert person.get(f"api/pictures/{artifact.id}").status_code == 404
        with approvals(place) as store:
            assert store.pending() == ()
        assert "call.started" not in {event["type"] for event in place.audited}
