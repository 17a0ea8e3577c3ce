"""From the text after `Bearer` to a principal: static tokens, and those of issuers."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import anyio.to_thread

from gdal_mcp.access.identity import Principal
from gdal_mcp.access.tokens import PREFIX, TokenStore


class Unavailable(Exception):
    """Whether a token is good cannot be told now. Nobody comes in, and nobody's token is called bad."""


class Verifier(Protocol):
    """One kind of token."""

    async def verify(self, text: str) -> Principal | None:
        """Whose token it is; None for one that is not good. Raises Unavailable."""


@dataclass(frozen=True, slots=True)
class StaticTokens:
    """Tokens that `gdal-mcp token` made."""

    store: TokenStore

    async def verify(self, text: str) -> Principal | None:
        found = await anyio.to_thread.run_sync(partial(self.store.find, text))
        return found.principal() if found else None


@dataclass(frozen=True, slots=True)
class Verifiers:
    """Every kind of token; which one is meant is told by its form."""

    static: Verifier
    signed: Verifier | None

    async def verify(self, text: str) -> Principal | None:
        if text.startswith(PREFIX):
            return await self.static.verify(text)
        return await self.signed.verify(text) if self.signed else None
