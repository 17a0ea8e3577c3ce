"""Signed links: exactly what they allow."""

from pathlib import Path

import pytest

from gdal_mcp.policy.identity import ADMIN, READ, WRITE, Principal
from gdal_mcp.policy.tokens import TokenStore
from gdal_mcp.server.http.links import CredentialStatus, Subject, may_link
from gdal_mcp.server.http.links import expiry_and_signature as parameters
from gdal_mcp.server.http.signing import Signer

NOW = 1_700_000_000.0
SUBJECT = Subject("0123456789abcdef", "dem.tif", "ab" * 32, "token:ann", "1.0")


@pytest.mark.claim("http.links")
def test_the_boundary_between_two_parts_cannot_be_moved():
    signer = Signer(lambda: NOW)
    expires, signature = signer.sign(SUBJECT._replace(call_id="ab", name="cd"), 60)
    assert not signer.verify(SUBJECT._replace(call_id="abc", name="d"), str(expires), signature)


def test_the_key_is_in_no_text():
    signer = Signer()
    assert signer._key.hex() not in repr(signer)
    assert repr(signer._key) not in repr(signer)


def test_an_address_with_anything_besides_is_no_link():
    for pairs in (
        [], [("signature", "a")], [("signature", "a"), ("expires", "1")],
        [("expires", "1"), ("signature", "a"), ("signature", "b")],
        [("expires", "1"), ("expires", "2"), ("signature", "a")],
        [("expires", "1"), ("signature", "a"), ("x", "y")],
    ):  # fmt: skip
        assert parameters(pairs) is None
    assert parameters([("expires", "1"), ("signature", "a")]) == ("1", "a")


def test_status_ends_with_token_despite_reused_name(tmp_path: Path):
    now = [NOW]
    store = TokenStore(tmp_path / "tokens.sqlite", lambda: now[0])
    standing = CredentialStatus(store, lambda: now[0])
    assert standing.of("token:ann") is None
    store.new("ann", (READ,), 1)
    first = standing.of("token:ann")
    assert first is not None
    now[0] += 86_400
    assert standing.of("token:ann") is None
    store.revoke("ann")
    store.new("ann", (READ,), None)
    assert standing.of("token:ann") not in (None, first)


def test_token_without_read_scope_has_no_status(tmp_path: Path):
    store = TokenStore(tmp_path / "tokens.sqlite")
    store.new("writer", (WRITE,), None)
    assert CredentialStatus(store).of("token:writer") is None


def test_only_whose_file_it_is_makes_a_link():
    assert may_link(Principal("token:ann", frozenset({READ})), "token:ann")
    assert not may_link(Principal("token:root", frozenset({READ, ADMIN})), "token:ann")
    assert not may_link(Principal("token:ann", frozenset({WRITE})), "token:ann")
