"""A real server that receives anything, on stdin and over HTTP: it answers in its protocol and keeps serving."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdal_mcp.policy.identity import ADMIN, APPROVE, READ, WRITE
from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import ERAS, Place
from tests.e2e.web.hosted import Hosted, bearer, hosting
from tests.fuzz.kit import anything, tries

pytestmark = [pytest.mark.nightly, pytest.mark.engine, pytest.mark.claim("resources.server-goes-on")]

METHODS = st.sampled_from(
    ("tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
     "resources/subscribe", "initialize", "server/discover", "tasks/get", "tasks/result", "tasks/cancel", "subscriptions/listen", "notifications/cancelled",
     "notifications/initialized", "notifications/progress", "tools/call", "x", "")
)  # fmt: skip
URIS = st.sampled_from(("gdal://calls/x", "gdal://calls/0/result?offset=9", "gdal://calls/" + "0" * 16, "file:///etc/passwd", "file:///a?offset=-1&length=1", "file://h/x",
                        "gdal://calls/x/result?offset=" + "9" * 5000, "", "\0", "http://[", "gdal://calls/../../x"))  # fmt: skip
# tools that answer without a container, and calls that fail before they need one
TOOLS = st.sampled_from(("gdal_search", "gdal_describe", "gdal_formats", "validate_call", "nothing", ""))
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": TOOLS | anything, "arguments": anything | st.dictionaries(st.sampled_from(("query", "name", "tool", "arguments")), anything), "uri": URIS | anything,
        "cursor": anything, "ref": anything | st.fixed_dictionaries({"type": st.sampled_from(("ref/prompt", "ref/resource")), "name": anything}),
        "argument": anything | st.fixed_dictionaries({"name": st.just("path"), "value": anything}), "level": anything, "requestId": anything, "taskId": anything,
        "_meta": anything, "requestState": anything, "inputResponses": anything, "protocolVersion": anything, "capabilities": anything, "clientInfo": anything,
    },
)  # fmt: skip
# ids that no request of the test itself has
IDS = st.sampled_from(("x", "", -1, 10**30, 0.5, None, [], {}, False, "\ud800"))
MESSAGES = st.fixed_dictionaries({}, optional={"jsonrpc": st.sampled_from(("2.0", "2.0", "2.0", "1.0", 2)), "id": IDS, "method": METHODS | anything, "params": PARAMS | anything,
                                               "result": anything, "error": anything})  # fmt: skip
REQUESTS = st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": IDS, "method": METHODS, "params": PARAMS})


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


@st.composite
def cut_short(draw: st.DrawFn) -> bytes:
    complete = line(draw(REQUESTS))
    return complete[: draw(st.integers(0, len(complete)))]


BYTES = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" "))
# the beginning, the repeated part with its count, and the end; as one text they would be too long to print
GIANTS = st.sampled_from(
    ((b"", b"[", 100_000, b""), (b"", b'{"a":', 50_000, b""), (b'"', b"x", 3_000_000, b'"'), (b"", b"9", 100_000, b""), (b'{"jsonrpc":"2.0","id":"x","method":"', b"a", 1_000_000, b'"}'))
)  # fmt: skip
ONE = REQUESTS.map(line) | REQUESTS.map(line) | MESSAGES.map(line) | anything.map(line) | cut_short() | BYTES
LINES = st.lists(ONE | GIANTS, min_size=1, max_size=6)


def expanded(part: bytes | tuple[bytes, bytes, int, bytes]) -> bytes:
    return part if isinstance(part, bytes) else part[0] + part[1] * part[2] + part[3]


class Wire:
    """A server's pipes, with a short representation, because its output can be long."""

    def __init__(self, pipes: Pipes) -> None:
        self.pipes = pipes

    def answers(self) -> bool:
        """True if the next request is answered, in a line of a usual length."""
        answered = self.pipes.ask("ping" if self.pipes.era == ERAS[0] else "tools/list")
        assert "result" in answered, answered
        return len(json.dumps(answered)) < 100_000


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module", params=ERAS)
def wire(request: pytest.FixtureRequest, base: Path) -> Iterator[Wire]:
    """A server whose client has introduced itself; each line of its output must be JSON-RPC, and it must end
    normally.
    """
    place = Place.made(base / request.param)
    with piped(place.command(), base / "wire.log", era=request.param) as pipes:
        pipes.hello()
        new_wire = Wire(pipes)
        assert new_wire.answers()  # the era of the connection is decided by now
        yield new_wire
        pipes.process.stdin.close()
        assert pipes.end() == 0
        for text in pipes.lines:
            message = json.loads(text)
            assert message["jsonrpc"] == "2.0"
            assert {"id", "method"} & message.keys()
            assert "Traceback" not in text


@tries(15)
@given(lines=LINES)
def test_any_lines_are_survived_by_the_next_request(wire: Wire, lines: list[Any]):
    for input_line in lines:
        wire.pipes.write(expanded(input_line) + b"\n")
    assert wire.answers()


# HTTP

SCOPES = {"all": (READ, WRITE, APPROVE, ADMIN), "reader": (READ,)}
PATHS = st.sampled_from(
    ("/mcp", "/files/" + "0" * 16, "/files/x/", "/files/" + "0" * 16 + "/a.tif", "/uploads", "/uploads/0/a.tif", "/uploads/0/", "/uploads/9999/x", "/metrics", "/healthz",
     "/readyz", "/console/", "/console/api/me", "/console/api/calls", "/console/api/outputs", "/console/api/live", "/console/api/questions/x",
     "/console/api/calls/x", "/console/api/pictures/99999999999999999999999", "/console/api/pictures/1", "/console/api/grants", "/console/api/login",
     "/console/files/x", "/console/%2e%2e/x", "/.well-known/oauth-protected-resource/mcp", "/uploads/0/%2e%2e/%2e%2e/x", "/uploads/0/%00", "/uploads/0/%ff", "//", "/%")
)  # fmt: skip
QUERIES = st.lists(
    st.tuples(
        st.sampled_from(("cursor", "q", "outcome", "seconds", "expires", "signature", "x")),
        st.sampled_from(
            ("", "1", "-1", "9" * 5000, "nan", "inf", "1e999", "%00", "%ff", "\u00e9", "a" * 3000, "१")
        ),
    ),
    max_size=3,
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
HEADERS = st.dictionaries(
    st.sampled_from(("range", "if-range", "if-none-match", "if-match", "if-modified-since", "content-type", "cookie", "origin", "host", "mcp-session-id", "accept",
                     "mcp-protocol-version", "x-console-key", "sec-fetch-site", "content-digest", "repr-digest", "expect", "last-event-id")),
    st.sampled_from(("", "x", "bytes=0-", "bytes=9-1", "*", '"', "application/json", "text/event-stream", "http://evil.example", "same-origin", "2026-07-28", "1.0", "=;=",
                     "sha-256=:" + "A" * 43 + "=:", "a" * 4000, "\xff\xfe", "100-continue")),
    max_size=4,
)  # fmt: skip
BODIES = (REQUESTS | MESSAGES | anything).map(line) | st.binary(max_size=40)
BODIES |= st.sampled_from((b"", b"[" * 9_000, b'{"ticket":"\\ud800"}'))


@pytest.fixture(scope="module")
def server(base: Path) -> Iterator[tuple[Hosted, dict[str, str]]]:
    with hosting(Place.made(base / "http"), base / "http.log", "--console", "on") as hosted:
        yield hosted, {name: hosted.token(name, *scopes) for name, scopes in SCOPES.items()}
        assert hosted.request("GET", "/healthz").status_code == 200
    assert "Traceback" not in (base / "http.log").read_text()


@tries(50)
@given(
    st.sampled_from(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "X")), PATHS, QUERIES, HEADERS, BODIES, st.sampled_from(("all", "reader", None, "forged"))
)  # fmt: skip
def test_any_request_is_answered_or_refused_without_faults(server, method, path, query, headers, body, who):
    hosted, tokens = server
    if path == "/console/api/live" and method == "GET":
        return  # a stream without an end
    token = tokens.get(who, "gdalmcp_" + "0" * 16 + "_" + "A" * 43)
    given_headers = {**headers, **(bearer(token) if who else {})}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in given_headers.items()]
    with httpx2.Client(timeout=60, trust_env=False) as client:
        try:
            with client.stream(method, f"{hosted.base}{path}?{query}", headers=raw, content=body) as answer:
                status = answer.status_code
        except (httpx2.InvalidURL, httpx2.LocalProtocolError, httpx2.RemoteProtocolError):
            status = 400  # the client did not send it, or the server's HTTP library refused to read it
        assert status < 500, (method, path, query, headers)
        assert client.get(f"{hosted.base}/healthz").status_code == 200
