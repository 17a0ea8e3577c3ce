"""An issuer of tokens with real keys, and a web server for its documents."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from gdal_mcp.policy.identity import READ
from tests.serving import Handler, serving


def _rsa() -> Any:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Signer:
    """One private key with its name."""

    algorithm: str = "ES256"
    kid: str | None = "k1"
    key: Any = None

    def __post_init__(self) -> None:
        if self.key is None:
            makers = {
                "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                "EdDSA": ed25519.Ed25519PrivateKey.generate,
            }
            self.key = makers.get(self.algorithm, _rsa)()

    @property
    def public(self) -> dict[str, Any]:
        """The public half as a JWK."""
        kind = jwt.get_algorithm_by_name(self.algorithm)
        row = dict(kind.to_jwk(self.key.public_key(), as_dict=True))
        named = {"alg": "PS256"} if self.algorithm == "PS256" else {}  # otherwise the key's type implies it
        return {**row, "use": "sig", **named, **({"kid": self.kid} if self.kid else {})}

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        named = {"typ": "at+jwt", **({"kid": self.kid} if self.kid else {}), **headers}
        return jwt.encode(claims, self.key, algorithm=self.algorithm, headers=named)


@dataclass
class Issuer:
    """An issuer that signs tokens."""

    name: str = "https://issuer.example"
    signer: Signer = field(default_factory=Signer)

    @property
    def keys(self) -> dict[str, Any]:
        return {"keys": [self.signer.public]}

    def claims(self, resource: str, **more: Any) -> dict[str, Any]:
        """Valid claims; a None in `more` removes a claim."""
        now = int(time.time())
        who = {"iss": self.name, "sub": "ann", "client_id": "a-client"}
        complete = {**who, "aud": resource, "scope": READ, "iat": now, "exp": now + 300, **more}
        return {name: value for name, value in complete.items() if value is not None}

    def token(self, resource: str, **more: Any) -> str:
        return self.signer.sign(self.claims(resource, **more))


@dataclass
class Site:
    """Documents by their paths, and the number of requests for each."""

    documents: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    base: str = ""


@contextmanager
def site() -> Iterator[Site]:
    """A web server on loopback."""
    new_site = Site()

    class Documents(Handler):
        def respond(self) -> None:
            new_site.asked.append(self.path)
            if self.path in new_site.redirects:
                self.answer(302, Location=new_site.redirects[self.path])
            else:
                body = json.dumps(new_site.documents.get(self.path, {})).encode()
                self.answer(200 if self.path in new_site.documents else 404, body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Documents)
    new_site.base = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield new_site
