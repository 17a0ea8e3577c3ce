"""Lines that no correct client sends; stdout contains only protocol messages at all times."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import EITHER_ERA, Place

pytestmark = pytest.mark.engine


@pytest.fixture(params=EITHER_ERA, scope="module")
def wire(request: pytest.FixtureRequest, place: Place, grounds: Path) -> Iterator[Pipes]:
    """A server whose client has introduced itself. Whatever a test does, each line of stdout must be JSON-RPC."""
    with piped(place.command("--log-level", "debug"), grounds / "wire.log", era=request.param) as pipes:
        pipes.hello()
        yield pipes
        pipes.process.stdin.close()
        assert pipes.end() == 0
        for line in pipes.lines:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            assert {"id", "method"} & message.keys()


@pytest.mark.claim("resources.server-goes-on")
def test_very_long_argument_is_refused_and_not_repeated(wire: Pipes):
    result = wire.call("info", {"path": "a/" * 3_000_000})
    assert result["structuredContent"]["error"]["code"] == "PATH_NOT_ALLOWED"
    assert len(wire.lines[-1]) < 20_000
    result = wire.call("info", {"path": "dem.tif", "x" * 1_000_000: 1})
    assert result["structuredContent"]["error"]["code"] == "INVALID_ARGUMENT"
    assert len(wire.lines[-1]) < 20_000


@pytest.mark.claim("content.errors-tell-nothing")
def test_our_errors_reveal_no_host_secret(wire: Pipes, place: Place):
    answers = [
        wire.call("info", {"path": path})
        for path in ("/etc/shadow", "/root/.ssh/id_rsa", str(place.state / "audit.jsonl"))
    ]
    answers.append(wire.ask("resources/read", {"uri": "file:///root/.ssh/id_rsa"}))
    text = json.dumps(answers)
    assert "No such file" not in text
    assert "Permission" not in text
