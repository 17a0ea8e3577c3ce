"""Signed tokens: which are valid, and every way in which one is not."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import anyio
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gdal_mcp.policy.identity import ADMIN, READ, WRITE, Principal
from gdal_mcp.server.http.issuers import Issuer as Known
from gdal_mcp.server.http.issuers import SigningKeys
from gdal_mcp.server.http.oauth import LEEWAY_SECONDS, SignedTokens
from tests.e2e.web.issuing import Issuer, Signer

RESOURCE = "https://gdal.example.org/mcp"
OTHER = Issuer("https://other.example")
Verify = Callable[[str], Principal | None]


class Given(SigningKeys):
    """The keys of an issuer that need not be fetched."""

    def __init__(self, name: str, document: Any) -> None:
        super().__init__(Known(name, f"{name}/jwks"))
        self.document = document

    def fetch_data(self) -> Any:
        return self.document


def verifying(*issuers: Issuer, document: Any = None) -> Verify:
    """Verifies one token, like a server that knows these issuers."""

    def verify(text: str) -> Principal | None:
        known = {issuer.name: Given(issuer.name, document or issuer.keys) for issuer in issuers}
        return anyio.run(SignedTokens(known, RESOURCE).verify, text)

    return verify


def part(value: Any) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "PS256", "EdDSA"])
@pytest.mark.parametrize("kid", ["k1", None])
def test_known_issuer_token_gives_its_named_principal(algorithm: str, kid: str | None):
    issuer = Issuer(signer=Signer(algorithm, kid))
    principal = verifying(issuer)(issuer.token(RESOURCE, scope=f"{READ} {WRITE} openid"))
    assert principal == Principal("oauth:https://issuer.example#ann", frozenset({READ, WRITE}))


def test_scopes_are_known_ones_named_in_the_token():
    issuer = Issuer()
    for claims, scopes in (
        ({"scope": None, "scp": f"{READ} {WRITE}"}, {READ, WRITE}),
        ({"scope": None, "scp": [READ, ADMIN, 7, None]}, {READ, ADMIN}),
        ({"scope": None}, set()),
        ({"scope": {"gdal:read": True}}, set()),
        ({"scope": READ.upper()}, set()),
        ({"scope": f"x{READ}"}, set()),
        ({"scope": READ, "scp": [ADMIN]}, {READ}),
        ({"aud": ["https://a.example", RESOURCE]}, {READ}),  # one of several audiences may be ours
        ({"exp": int(time.time()) - 5}, {READ}),  # clocks may differ a little
    ):
        principal = verifying(issuer)(issuer.token(RESOURCE, **claims))
        assert principal is not None
        assert principal.scopes == scopes


NOW = time.time()  # when tests are collected, which may be half an hour before they run
BAD_CLAIMS = {
    "another audience": {"aud": "https://elsewhere.example/mcp"},
    "the server without its path": {"aud": "https://gdal.example.org"},
    "an audience that begins like ours": {"aud": RESOURCE + "/x"},
    "no audience": {"aud": None},
    "other audiences": {"aud": ["https://a.example", "https://b.example"]},
    "ended": {"exp": int(NOW) - LEEWAY_SECONDS - 5},
    "no end": {"exp": None},
    "an end that is no time": {"exp": "tomorrow"},
    "an endless end": {"exp": float("inf")},
    "not begun": {"nbf": int(NOW) + 86_400},
    "made in the future": {"iat": int(NOW) + 86_400},
    "no making": {"iat": None},
    "no issuer": {"iss": None},
    "a strange issuer": {"iss": "https://strange.example"},
    "an issuer with a slash more": {"iss": "https://issuer.example/"},
    "two issuers": {"iss": ["https://issuer.example"]},
    "nobody": {"sub": None},
    "an empty name": {"sub": ""},
    "a name that is a number": {"sub": 7},
    "a name with a line end": {"sub": "ann\nbob"},
    "a name without end": {"sub": "a" * 256},
}


@pytest.mark.claim("identity.signed-tokens")
def test_token_for_another_server_or_time_is_invalid(subtests: pytest.Subtests):
    for claims in BAD_CLAIMS.values():
        with subtests.test(claims=claims):
            issuer = Issuer()
            payload = {**issuer.claims(RESOURCE), **claims}
            text = by_hand(issuer.signer, payload)
            assert verifying(issuer)(issuer.token(RESOURCE)) is not None
            assert verifying(issuer)(text) is None


@pytest.mark.claim("identity.signed-tokens")
def test_only_access_tokens_count_unless_issuer_allows_others():
    """As in RFC 9068, whose check excludes an ID token of the same issuer."""
    issuer = Issuer()

    def verified(kind: Any, *, plain: bool) -> bool:
        keys = Given(issuer.name, issuer.keys)
        keys.issuer = Known.parsed(f"{issuer.name} {issuer.name}/jwks{' typ=JWT' if plain else ''}")
        text = issuer.signer.sign(issuer.claims(RESOURCE), typ=kind)
        return anyio.run(SignedTokens({issuer.name: keys}, RESOURCE).verify, text) is not None

    for kind in ("at+jwt", "application/at+jwt", "AT+JWT"):
        assert verified(kind, plain=False)
        assert verified(kind, plain=True)
    for kind in ("JWT", None):
        assert not verified(kind, plain=False)
        assert verified(kind, plain=True)
    for kind in ("id+jwt", "logout+jwt", "dpop+jwt", "at", "jwt+at", "application/jwt"):
        assert not verified(kind, plain=False)
        assert not verified(kind, plain=True)


def by_hand(signer: Signer, payload: dict[str, Any]) -> str:
    """Signs by hand, because a library would refuse to make some of these tokens."""
    clean = {name: value for name, value in payload.items() if value is not None}
    head = {"alg": "ES256", "kid": signer.kid, "typ": "at+jwt"}
    signing = f"{part(head)}.{part(clean)}"
    signature = jwt.get_algorithm_by_name("ES256").sign(signing.encode(), signer.key)
    return f"{signing}.{part(signature)}"


@pytest.mark.claim("identity.signed-tokens")
def test_a_token_without_a_signature_is_nothing():
    issuer = Issuer()
    claims = issuer.claims(RESOURCE)
    for algorithm in ("none", "None", "NONE", "", None):
        assert verifying(issuer)(f"{part({'alg': algorithm, 'kid': 'k1'})}.{part(claims)}.") is None
    head, body, _signature = issuer.token(RESOURCE).split(".")
    assert verifying(issuer)(f"{head}.{body}.") is None


@pytest.mark.claim("identity.signed-tokens")
def test_public_key_is_never_a_shared_secret():
    issuer = Issuer(signer=Signer("RS256"))
    public, spki = issuer.signer.key.public_key(), serialization.PublicFormat.SubjectPublicKeyInfo
    pem, der = (
        public.public_bytes(encoding, spki)
        for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER)
    )
    for digest in ("sha256", "sha384", "sha512"):
        head = part({"alg": f"HS{digest[3:]}", "kid": "k1"})
        signing = f"{head}.{part(issuer.claims(RESOURCE))}"
        for secret in (pem, pem.strip(), der, json.dumps(issuer.signer.public).encode(), b""):
            signature = hmac.new(secret, signing.encode(), getattr(hashlib, digest)).digest()
            assert verifying(issuer)(f"{signing}.{part(signature)}") is None


@pytest.mark.claim("identity.signed-tokens")
def test_an_issuer_speaks_for_itself_alone():
    issuer = Issuer()
    verify = verifying(issuer, OTHER)
    assert verify(OTHER.token(RESOURCE)) == Principal("oauth:https://other.example#ann", frozenset({READ}))
    forged = OTHER.signer.sign(OTHER.claims(RESOURCE, iss=issuer.name))
    assert verify(forged) is None


@pytest.mark.claim("identity.signed-tokens")
def test_embedded_keys_and_unknown_critical_headers_prove_nothing():
    issuer, mine = Issuer(), Signer(kid="k1")
    claims = issuer.claims(RESOURCE)
    evil = "https://evil.example/x"
    for headers in ({"jwk": mine.public}, {"jku": evil}, {"x5u": evil}):
        assert verifying(issuer)(mine.sign(claims, **headers)) is None
    assert verifying(issuer)(issuer.signer.sign(claims, crit=["exotic"], exotic=True)) is None


def test_unsuitable_ambiguous_or_symmetric_keys_prove_nothing():
    issuer, unnamed = Issuer(), Issuer(signer=Signer(kid=None))
    for row in ({"use": "enc"}, {"alg": "ES384"}, {"kty": "RSA"}, {"crv": "P-384"}):
        document = {"keys": [{**issuer.signer.public, **row}]}
        assert verifying(issuer, document=document)(issuer.token(RESOURCE)) is None, row
    other = Signer(kid=None, key=ec.generate_private_key(ec.SECP256R1()))
    document = {"keys": [unnamed.signer.public, other.public]}
    assert verifying(unnamed, document=document)(unnamed.token(RESOURCE)) is None
    secret = b"s" * 64
    document = {"keys": [{"kty": "oct", "k": part(secret), "kid": "k1", "alg": "HS256"}]}
    text = jwt.encode(issuer.claims(RESOURCE), secret, algorithm="HS256", headers={"kid": "k1"})
    assert verifying(issuer, document=document)(text) is None


def test_a_short_key_proves_nothing():
    short = Signer("RS256", key=rsa.generate_private_key(public_exponent=65537, key_size=1024))
    issuer = Issuer(signer=short)
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        text = issuer.token(RESOURCE)
    assert verifying(issuer)(text) is None


def test_rubbish_is_nothing_and_breaks_nothing(subtests: pytest.Subtests):
    for text in (
        *("", ".", "..", "a.b.c", "a.b.c.d.e", "é.é.é", "x" * 5000, "\ud800.a.b"),
        f"{part({'alg': 'ES256'})}.{part([])}.AA",
        f"{part([])}.{part({})}.AA",
        f"{part({'alg': ['ES256']})}.{part({'iss': 'https://issuer.example'})}.AA",
        f"{part({'alg': {'a': 1}})}.{part({'iss': {'a': 1}})}.AA",
        f"{part(b'[' * 100_000)}.{part({})}.AA",
        f"{part({'alg': 'ES256', 'kid': {'a': 1}})}.{part({'iss': 'https://issuer.example'})}.AA",
    ):
        with subtests.test(text=text):
            assert verifying(Issuer())(text) is None
