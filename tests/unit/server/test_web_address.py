"""Where a server may listen, when clients must authenticate, and under which names it answers."""

from pathlib import Path

import pytest

from gdal_mcp.server.http.address import hosts, origins, require_safe, resource
from gdal_mcp.server.http.server import prepare
from gdal_mcp.settings import SettingsError, load_settings

CERT = {"tls_cert": "/c.pem", "tls_key": "/k.pem"}
PUBLIC = {"public_url": "https://gdal.example.org"}
ISSUERS = {"issuers": "https://issuer.example"}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GDAL_MCP_STATE_DIR", str(tmp_path))


def test_a_server_that_strangers_cannot_use_may_start():
    for options, tokens in (
        ({}, True),
        ({"host": "::1"}, True),
        (ISSUERS, False),
        ({"no_auth": True}, False),
        ({"host": "0.0.0.0", **CERT, **PUBLIC}, True),
        ({"host": "0.0.0.0", "behind_proxy": True, **PUBLIC, **ISSUERS}, False),
        ({"behind_proxy": True, **PUBLIC}, True),
    ):
        require_safe(load_settings(**options), tokens=tokens)


def test_insecurely_exposed_server_does_not_start(subtests: pytest.Subtests):
    for options, tokens in (
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "0.0.0.0", **PUBLIC}, True),
        ({"host": "192.0.2.7", **PUBLIC}, True),
        ({"host": "::", **PUBLIC}, True),
        ({"host": "gdal.example.org", **PUBLIC}, True),
        ({"host": "127.0.0.1.example.org", **PUBLIC}, True),
        ({"host": "0.0.0.0", **CERT}, True),  # no address to which tokens could be bound
        ({"host": "0.0.0.0", **CERT, **PUBLIC}, False),
        ({"host": "0.0.0.0", "behind_proxy": True, **PUBLIC}, False),
        ({"host": "0.0.0.0", **CERT, **PUBLIC, "no_auth": True}, True),
        ({"no_auth": True, "behind_proxy": True}, True),
        ({"no_auth": True, **PUBLIC}, True),
        ({"no_auth": True, **ISSUERS}, True),
    ):
        with subtests.test(given=options, tokens=tokens), pytest.raises(SettingsError):
            require_safe(load_settings(**options), tokens=tokens)


def test_unsafe_or_unworkable_settings_are_reported_before_listening(subtests: pytest.Subtests):
    for options in (
        {},
        {"no_auth": True, **CERT},
        {"issuers": "http://issuer.example"},
        {"issuers": "https://issuer.example,ftp://other.example"},
    ):
        with subtests.test(given=options), pytest.raises(SettingsError):
            prepare(load_settings(port=0, **options))
    urls = "gdal.example.org ftp://gdal.example.org https:// https://a.example/?q=1 https://a.example/#x https://u:p@a.example"
    for options in (
        {"tls_cert": "/c.pem"},
        {"tls_key": "/k.pem"},
        *({"public_url": url} for url in urls.split()),
    ):
        with subtests.test(given=options), pytest.raises(SettingsError):
            load_settings(**options)


def test_tokens_are_for_the_public_address():
    assert resource(load_settings(**PUBLIC), 8000) == "https://gdal.example.org/mcp"
    assert resource(load_settings(public_url="https://a.example/gdal/"), 8000) == "https://a.example/gdal/mcp"
    assert resource(load_settings(), 4711) == "http://127.0.0.1:4711/mcp"
    assert resource(load_settings(host="::1"), 1) == "http://[::1]:1/mcp"


def test_loopback_names_with_port_are_the_only_hosts():
    assert set(hosts(load_settings(), 8000)) == {"127.0.0.1:8000", "localhost:8000", "[::1]:8000"}
    public = load_settings(host="0.0.0.0", http_hosts="in.example:1", **CERT, **PUBLIC)
    assert set(hosts(public, 8000)) == {"gdal.example.org", "in.example:1"}


def test_own_and_named_origins_may_call():
    allowed = origins(
        load_settings(host="0.0.0.0", http_origins="https://app.example", **CERT, **PUBLIC), 8000
    )
    assert set(allowed) == {"https://gdal.example.org", "https://app.example"}
    assert "null" not in origins(load_settings(), 8000)
