"""The keys of issuers: where they come from, how often they are requested, and how long they are valid."""

from collections.abc import Iterator
from functools import partial, reduce
from types import SimpleNamespace
from typing import Any

import anyio
import jwt
import jwt.api_jwk
import jwt.jwk_set_cache
import jwt.jwks_client
import pytest

from gdal_mcp.server.http import issuers
from gdal_mcp.server.http.auth import Unavailable
from gdal_mcp.server.http.issuers import FetchFailed, Issuer, SigningKeys, fetched
from gdal_mcp.settings import SettingsError
from tests.e2e.web.issuing import Issuer as Signing
from tests.e2e.web.issuing import Signer, Site
from tests.e2e.web.issuing import site as serving


class Web:
    """Documents by address, with a count of requests; None for an address that does not answer."""

    def __init__(self, **documents: Any) -> None:
        self.documents: dict[str, Any] = documents
        self.asked: list[str] = []
        self.now = 1000.0

    async def fetch(self, url: str) -> Any:
        self.asked.append(url)
        await anyio.lowlevel.checkpoint()
        document = self.documents.get(url)
        if document is None:
            raise FetchFailed(url)
        return document

    def keys(
        self, name: str = "https://issuer.example", jwks: str = "https://issuer.example/jwks"
    ) -> SigningKeys:
        return SigningKeys(Issuer(name, jwks))


JWKS = "https://issuer.example/jwks"


def deep(levels: int) -> list[Any]:
    return reduce(lambda inner, _: [inner], range(levels), [])


def has_key(keys: SigningKeys, kid: str | None = "k1") -> bool:
    return anyio.run(keys.find, "ES256", kid) is not None


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Web:
    new_web = Web(**{JWKS: Signing().keys})
    clock = SimpleNamespace(monotonic=lambda: new_web.now)
    for module in (issuers, jwt.api_jwk, jwt.jwks_client, jwt.jwk_set_cache):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(issuers, "fetched", new_web.fetch)
    return new_web


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as new_site:
        yield new_site


def test_foreign_tokens_do_not_trigger_repeated_issuer_requests(web: Web):
    keys = web.keys()
    assert has_key(keys)
    for number in range(50):
        assert not has_key(keys, f"stranger-{number}")
    assert len(web.asked) == 1
    web.now += issuers.PAUSE_SECONDS
    assert not has_key(keys, "stranger")
    assert not has_key(keys, "stranger-2")
    assert len(web.asked) == 2


def test_many_tokens_at_once_are_one_question(web: Web):
    keys = web.keys()

    async def all_at_once() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(30):
                group.start_soon(keys.find, "ES256", "k1")

    anyio.run(all_at_once)
    assert len(web.asked) == 1


def test_new_key_is_found_and_withdrawn_soon_forgotten(web: Web):
    keys = web.keys()
    assert has_key(keys)
    web.documents[JWKS] = {"keys": [Signer(kid="k2").public]}
    web.now += issuers.PAUSE_SECONDS
    assert has_key(keys, "k2")
    assert not has_key(keys, "k1")
    assert not has_key(keys, "k1")


def test_keys_of_absent_issuer_last_one_hour(web: Web):
    keys = web.keys()
    assert has_key(keys)
    web.documents.clear()
    web.now += issuers.CACHE_SECONDS - 1
    assert has_key(keys)
    web.now += issuers.FRESH_SECONDS + 1
    with pytest.raises(Unavailable):
        has_key(keys)


@pytest.mark.claim("identity.signed-tokens")
def test_keys_that_are_none_let_nobody_in(web: Web):
    unusable = {"kty": "EC", "crv": "P-256", "kid": "k1"}
    for document in ([], {}, {"keys": {}}, {"keys": [7, None, {}]}, {"keys": [unusable]}):
        web.documents[JWKS] = document
        assert not has_key(web.keys())


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("https://issuer.example/a", "https://issuer.example/.well-known/oauth-authorization-server/a"),
        ("https://issuer.example/a", "https://issuer.example/a/.well-known/openid-configuration"),
        ("https://issuer.example", "https://issuer.example/.well-known/oauth-authorization-server"),
        ("https://issuer.example/", "https://issuer.example/.well-known/openid-configuration"),
    ],
)
def test_an_issuer_is_asked_where_its_keys_are(web: Web, name: str, place: str):
    web.documents[place] = {"issuer": name, "jwks_uri": JWKS}
    assert has_key(web.keys(name, ""))


def test_a_description_of_somebody_else_is_not_believed(web: Web):
    place = "https://issuer.example/.well-known/oauth-authorization-server"
    web.documents[place] = {"issuer": "https://evil.example", "jwks_uri": JWKS}
    with pytest.raises(Unavailable):
        has_key(web.keys(jwks=""))
    assert JWKS not in web.asked


@pytest.mark.claim("identity.signed-tokens")
def test_nothing_is_fetched_in_clear_or_from_files():
    for url in (
        "http://issuer.example/jwks", "file:///etc/passwd", "ftp://127.0.0.1/x", "https://", "", "None", "https://[::1",
        "http://127.0.0.1.evil.example/", "https://user:secret@issuer.example/", "http://127.0.0.1@evil.example/",
    ):  # fmt: skip
        with pytest.raises(FetchFailed):
            anyio.run(fetched, url)


def test_an_issuer_in_the_clear_is_no_setting():
    texts = (
        "http://issuer.example", "issuer.example", "https://a.example http://b.example/jwks",
        "https://a.example#x",
    )  # fmt: skip
    for text in (*texts, 'https://a.example/"'):
        with pytest.raises(SettingsError):
            Issuer.parsed(text)


def test_documents_are_fetched_and_redirects_are_not_followed(site: Site):
    site.documents["/jwks"] = {"keys": [1]}
    site.redirects["/moved"] = "/jwks"
    assert anyio.run(fetched, f"{site.base}/jwks") == {"keys": [1]}
    with pytest.raises(FetchFailed):
        anyio.run(fetched, f"{site.base}/moved")
    with pytest.raises(FetchFailed):
        anyio.run(fetched, f"{site.base}/nothing")
    assert site.asked == ["/jwks", "/moved", "/nothing"]


def test_endless_document_is_not_read_to_its_end(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(issuers, "_MAX_BYTES", 1000)
    site.documents |= {"/large": {"keys": ["x" * 2000]}, "/small": {"keys": ["x" * 500]}}
    assert anyio.run(fetched, f"{site.base}/small")
    with pytest.raises(FetchFailed):
        anyio.run(fetched, f"{site.base}/large")


@pytest.mark.parametrize("document", [{"keys": [[]] * 20_000}, {"keys": deep(300)}])
def test_document_with_too_many_values_or_levels_fails(site: Site, document: Any):
    site.documents["/jwks"] = document
    with pytest.raises(FetchFailed):
        anyio.run(fetched, f"{site.base}/jwks")


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(issuers, "_FETCH_SECONDS", 0.2)

    async def hold(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async def silent() -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            async with anyio.create_task_group() as group:
                group.start_soon(partial(listener.serve, hold))
                with pytest.raises(FetchFailed):
                    await fetched(f"http://127.0.0.1:{port}/jwks")
                group.cancel_scope.cancel()

    anyio.run(silent)
