"""Errors, cache hints, capabilities and icons conform to the protocol, in both eras, over stdio and over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.e2e.mcp.pipes import piped
from tests.e2e.mcp.talk import ERAS, Place
from tests.e2e.web.hosted import hosting
from tests.e2e.web.raw import Raw

pytestmark = pytest.mark.engine

LEGACY, MODERN = ERAS
META = "io.modelcontextprotocol/"
DOORS = [(door, era) for door in ("stdio", "http") for era in ERAS]
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


class Asks(Protocol):
    """A client of either era, which may send any message."""

    era: str

    def ask(self, method: str, params: Any = None) -> dict[str, Any]: ...


@pytest.fixture(scope="module")
def clients(place: Place, grounds: Path) -> Iterator[dict[tuple[str, str], Asks]]:
    """One client for each transport and era."""
    log = grounds / "book.log"
    own = Place.made(grounds / "book")
    with (
        piped(own.command(), log, era=LEGACY) as legacy,
        piped(own.command(), log, era=MODERN) as modern,
        hosting(own, log) as hosted,
    ):
        connected: dict[tuple[str, str], Any] = {("stdio", LEGACY): legacy, ("stdio", MODERN): modern}
        connected |= {("http", era): Raw(hosted, hosted.token(era.lower()), era) for era in ERAS}
        for client in connected.values():
            client.hello()
        yield connected


@pytest.fixture(params=DOORS, ids="-".join)
def asking(request: pytest.FixtureRequest, clients: dict[tuple[str, str], Asks]) -> Asks:
    return clients[request.param]


def test_an_error_has_the_code_of_its_era(asking: Asks, subtests: pytest.Subtests):
    for method, params, legacy, modern in (
        ("tools/call", {"name": "no_such_tool", "arguments": {}}, -32602, -32602),
        ("prompts/get", {"name": "no_such_prompt"}, -32602, -32602),
        ("resources/read", {"uri": "file:///nowhere"}, -32002, -32602),
        ("resources/read", {"uri": "gdal://calls/none"}, -32002, -32602),
        ("no/such/method", {}, -32601, -32601),
        ("logging/setLevel", {"level": "info"}, -32601, -32601),
        ("subscriptions/listen", {"notifications": {}}, -32601, None),
        ("resources/subscribe", {"uri": "file:///x"}, None, -32601),
        ("ping", {}, None, -32601),
        ("tasks/get", {"taskId": "x"}, -32601, -32021),
        ("tools/call", {"name": "info", "arguments": 7}, -32602, -32602),
        *((method, {"cursor": "not one of ours"}, -32602, -32602) for method in LISTS),
    ):
        with subtests.test(method=method, params=params, legacy=legacy, modern=modern):
            expected = modern if asking.era == MODERN else legacy
            if expected is not None:
                error = asking.ask(method, params)["error"]
                assert error["code"] == expected
                assert method != "resources/read" or error["data"] == params


def test_unsupported_version_is_answered_with_supported_ones(clients, subtests):
    for door in ("stdio", "http"):
        with subtests.test(door=door):
            meta = {f"{META}protocolVersion": "2099-01-01", f"{META}clientCapabilities": {}}
            error = clients[door, MODERN].ask("tools/list", {"_meta": meta})["error"]
            assert error["code"] == -32022
            assert MODERN in error["data"]["supported"]


def test_cacheable_results_declare_duration_and_scope(clients: Any):
    lasting = {*LISTS, "server/discover"} - {"resources/list", "prompts/list"}
    for door in ("stdio", "http"):
        for method in {*LISTS, "server/discover"}:
            result = clients[door, MODERN].ask(method)["result"]
            assert (result["ttlMs"] > 0) == (method in lasting)
            own = method in ("resources/list", "prompts/list")
            private = own or (method == "tools/list" and door == "http")
            assert (result["cacheScope"] == "private") == private


def test_an_older_protocol_has_no_hints(clients: Any):
    for door in ("stdio", "http"):
        for method in LISTS:
            assert {"ttlMs", "cacheScope", "resultType"}.isdisjoint(
                clients[door, LEGACY].ask(method)["result"]
            )


def test_what_changes_is_promised_and_nothing_else(clients: Any):
    for door in ("stdio", "http"):
        capabilities = clients[door, MODERN].ask("server/discover")["result"]["capabilities"]
        assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
        assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": False}
        assert "completions" in capabilities
        assert "logging" not in capabilities


def test_icons_are_in_lists_without_other_hosts(asking: Asks):
    prompts = asking.ask("prompts/list")["result"]["prompts"]
    templates = asking.ask("resources/templates/list")["result"]["resourceTemplates"]
    icons = [icon for entry in (*prompts, *templates) for icon in entry["icons"]]
    assert len(icons) == len(prompts) + len(templates)
    assert {icon["src"].partition(",")[0] for icon in icons} == {"data:image/svg+xml"}
    assert all(entry["title"] for entry in (*prompts, *templates))


def test_server_icon_is_only_in_first_answer(clients: Any):
    name = f"{META}serverInfo"
    for door in ("stdio", "http"):
        client = clients[door, MODERN]
        first = client.ask("server/discover")["result"]["_meta"][name]
        assert first["icons"][0]["src"].startswith("data:")
        other = client.ask("tools/list")["result"]["_meta"][name]
        assert other == {key: value for key, value in first.items() if key != "icons"}


def test_lists_are_identical_on_every_transport_and_era(clients: Any):
    def listed(client: Asks, method: str) -> str:
        [rows] = [value for value in client.ask(method)["result"].values() if isinstance(value, list)]
        return json.dumps(rows, sort_keys=True)

    for method in LISTS:
        assert len({listed(client, method) for client in (*clients.values(), *clients.values())}) == 1
