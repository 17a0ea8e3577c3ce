"""A client that misbehaves: arguments, identifiers and floods that no library of the protocol would send."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mcp.pipes import Pipes, piped
from tests.e2e.mcp.talk import EITHER_ERA
from tests.security.attacks.conftest import SETTINGS, Attacked
from tests.security.attacks.leaks import leaked

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module", params=EITHER_ERA)
def pipes(request: pytest.FixtureRequest, attacked: Attacked, grounds: Path) -> Iterator[Pipes]:
    with piped(
        attacked.place.command(*SETTINGS), grounds / f"raw-{request.param}.log", era=request.param
    ) as client:
        client.hello()
        yield client
        assert "tools" in client.ask("tools/list")["result"]  # alive
        assert not any(leaked(line.encode()) for line in client.lines)


def write(pipes: Pipes, identifier: int | str, arguments: str, tool: str = "info") -> None:
    """Sends a call with raw arguments, which need not be JSON."""
    meta = json.dumps(pipes._enveloped({}).get("_meta", {}))
    call = (
        '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":{%s},"_meta":%s}}\n'
    )
    pipes.write(call % (json.dumps(identifier), tool, arguments, meta))


WRONG = [
    {"path": ["ok.tif"]}, {"path": {"path": "ok.tif"}}, {"path": 7}, {"path": None}, {"path": True}, {}, {"path": "ok.tif", "unknown": 1},
    {"path": "ok.tif", "config": {}}, {"path": "ok.tif", "__class__": "x"}, {"path": "ok.tif", "format": "xml"}, {"path": "x" * 100_000},
    {"path": "ok.tif", "format": ["json"]}, {"PATH": "ok.tif"}, {"path": "ok.tif", "path ": "x"},
]  # fmt: skip


@pytest.mark.claim("args.unknown-refused")
def test_malformed_arguments_are_refused_and_start_nothing(pipes: Pipes, attacked: Attacked):
    for arguments in WRONG:
        result = pipes.call("info", arguments)
        assert result.get("isError") or "protocol_error" in result, arguments
        if result.get("isError"):
            assert result["structuredContent"]["error"]["stage"] in ("lookup", "validate", "resolve")


@pytest.mark.claim("resources.server-goes-on")
def test_deep_arguments_are_refused(pipes: Pipes):
    for depth in (100, 2_000, 50_000):
        steps = '[{"step":"read","arguments":' * depth + "1" + "}]" * depth
        write(pipes, 900_000 + depth, '"steps":' + steps, "pipeline")
    assert "tools" in pipes.ask("tools/list")["result"]
    assert not any('"isError":false' in line for line in pipes.lines if '"id":90' in line)


UNREADABLE = {
    "half a character": r'"bad\udcff\udcfe.tif"', "a number without end": "1" + "0" * 5000, "a nest": "[" * 300 + "]" * 300,
    "a raw control": '"ok\t.tif"', "no end": '"ok.tif', "no value": "",
}  # fmt: skip
UNANSWERED = [
    "\n", "  \n", r'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"\ud800"}}' + "\n",
    r'{"jsonrpc":"2.0","id":6100000,"result":{"a":"\ud800"}}' + "\n",
]  # fmt: skip


@pytest.mark.claim("args.unreadable-answered")
def test_unreadable_request_is_answered_without_endless_waiting(pipes: Pipes):
    for number, text in enumerate(list(UNREADABLE.values())[:4], 6_000_000):
        write(pipes, number, '"path":' + text)
        assert pipes.answer(number)["error"]["code"] == -32700
    assert "tools" in pipes.ask("tools/list")["result"]  # all before it is answered
    before = unnamed(pipes)
    for text in list(UNREADABLE.values())[4:]:  # requests without a readable id
        write(pipes, 6_000_010, '"path":' + text)
    assert "tools" in pipes.ask("tools/list")["result"]
    assert [answer["error"]["code"] for answer in unnamed(pipes)[len(before) :]] == [-32700, -32700]


@pytest.mark.claim("args.unreadable-answered")
@pytest.mark.parametrize(
    "identifier", ["1.5", "1.0", "true", "[1]", "{}", "null", "NaN", "1e400", "-Infinity"]
)
@pytest.mark.parametrize("method", ["ping", "tools/call", "no/such"])
def test_request_with_invalid_id_type_is_answered(pipes: Pipes, identifier: str, method: str):
    before = unnamed(pipes)
    pipes.write('{"jsonrpc":"2.0","id":%s,"method":"%s","params":{"name":"info"}}\n' % (identifier, method))
    assert "tools" in pipes.ask("tools/list")["result"]
    assert [answer["error"]["code"] for answer in unnamed(pipes)[len(before) :]] == [-32600]


def unnamed(pipes: Pipes) -> list[dict[str, Any]]:
    """The answers without an id."""
    return [answer for answer in map(json.loads, pipes.lines) if answer.get("id", 0) is None]


@pytest.mark.claim("args.unreadable-answered")
def test_what_is_no_request_is_never_answered(pipes: Pipes):
    assert "tools" in pipes.ask("tools/list")["result"]
    before = len(pipes.lines)
    for line in UNANSWERED:
        pipes.write(line)
    assert "tools" in pipes.ask("tools/list")["result"]
    messages = [json.loads(line) for line in pipes.lines[before:]]
    assert [message for message in messages if "error" in message] == []


@pytest.mark.claim("args.one-reading-of-a-call")
def test_duplicate_key_is_read_once_and_checked_so(pipes: Pipes):
    """The checked arguments are those that run, whichever of the two keys the parser takes."""
    for first, second in (("ok.tif", "../outside/secret.tif"), ("../outside/secret.tif", "ok.tif")):
        identifier = f"twice-{first}"
        write(pipes, identifier, f'"path":"{first}","path":"{second}"')
        result = pipes.answer(identifier).get("result", {})
        if not result.get("isError", True):
            uri = f"gdal://calls/{result['structuredContent']['receipt']['call_id']}"
            read = pipes.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
            assert json.loads(read)["argv"][-1].endswith("/ok.tif")


@pytest.mark.claim("outputs.listed-only")
def test_foreign_record_and_climbing_path_are_not_found(pipes: Pipes, attacked: Attacked):
    base = attacked.place.workspace.as_uri()
    for uri in (
        "gdal://calls/", "gdal://calls/..", "gdal://calls/%2e%2e/result", "gdal://calls/ffffffffffffffff", "gdal://calls/x/provenance/../../y", "gdal://other/x",
        f"{base}/..", f"{base}/ok.tif?offset=0", f"{base}/ok.tif#x", f"{base}//etc/passwd", f"{base}/%00", "file://localhost/etc/passwd", "file:/etc/passwd",
        "ftp://127.0.0.1/x", "data:text/plain,x", "\u202efile:///etc/passwd", "x" * 100_000,
        (attacked.ground.outside / "secret.txt").as_uri(), f"{base}/ok.tif", f"{base}/ln_abs.tif", f"{base}/../outside/secret.txt", "file:///etc/passwd",
        f"{base}/%2e%2e/outside/secret.txt", f"{base}/ln_dir/secret.txt", f"{base}/.gdal-mcp/lock", "gdal://calls/../../secret.txt",
    ):  # fmt: skip
        assert "error" in pipes.ask("resources/read", {"uri": uri}), uri


@pytest.mark.claim("args.completions-tell-workspaces")
def test_completions_tell_no_name_outside(pipes: Pipes, attacked: Attacked):
    prompts = pipes.ask("prompts/list")["result"]["prompts"]
    typed = "../ ../outside/ / /etc/ ln_dir/ ln_root/ %2e%2e/ .gdal-mcp/ \u202e sub/../../outside/".split()
    references = [
        ({"type": "ref/prompt", "name": prompt["name"]}, row["name"])
        for prompt in prompts
        for row in prompt.get("arguments", [])
    ]
    references += [({"type": "ref/resource", "uri": "file://{+path}"}, "path")]
    references += [({"type": "ref/resource", "uri": "gdal://calls/{id}"}, "id")]
    for reference, argument in references:
        for text in (*typed, "x" * 50_000):
            params = {"ref": reference, "argument": {"name": argument, "value": text}}
            completion = pipes.ask("completion/complete", params).get("result", {}).get("completion", {})
            shown = [
                value
                for value in completion.get("values", [])
                if "secret" in value or "passwd" in value or ".." in value
            ]
            assert shown == [], (argument, text)


@pytest.mark.claim("identity.others-unseen")
def test_cancelling_or_following_foreign_calls_does_nothing(pipes: Pipes, attacked: Attacked):
    meta = {"progressToken": ["not", "a", "token"]}
    identifier = pipes.send("tools/call", {"name": "info", "arguments": {"path": "ok.tif"}, "_meta": meta})
    for other in (identifier + 1000, "1", None, -1, 1.5, {"a": 1}, [identifier], True):
        pipes.notify("notifications/cancelled", {"requestId": other})
    pipes.notify("notifications/progress", {"progressToken": 1, "progress": 1e308})
    answer = pipes.answer(identifier)
    assert "error" in answer or answer["result"]["structuredContent"]["size"] == [20, 20]
    assert pipes.call("info", {"path": "ok.tif"})["structuredContent"]["size"] == [20, 20]


@pytest.mark.nightly
@pytest.mark.claim("resources.server-goes-on")
def test_flood_of_requests_and_stray_answers_is_survived(pipes: Pipes):
    calls = {
        5_000_000 + number: pipes._enveloped({"name": "info", "arguments": {"path": f"none-{number}.tif"}})
        for number in range(300)
    }
    yes = {"action": "accept", "content": {"approve": True}}
    words = {"role": "assistant", "content": {"type": "text", "text": "approved"}, "model": "x"}
    messages = [{"id": number, "method": "tools/call", "params": call} for number, call in calls.items()]
    messages += [{"id": number, "result": yes} for number in range(300)] + [{"id": "sample", "result": words}]
    pipes.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
    for number in calls:
        assert pipes.answer(number)["result"]["structuredContent"]["error"]["code"] == "NOT_FOUND"
