"""Static tokens: what is stored of them, when they are valid, and `gdal-mcp token` as a person runs it."""

import json
import re
from pathlib import Path

import pytest

from gdal_mcp.cli.main import main
from gdal_mcp.policy.identity import ADMIN, READ, WRITE, Principal
from gdal_mcp.policy.tokens import TokenRefused, TokenStore, TokensUnavailable

DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens.sqlite"


@pytest.fixture
def store(path: Path) -> TokenStore:
    return TokenStore(path)


def test_a_token_has_one_principal_and_its_scopes(store: TokenStore):
    text = store.new("ann", (READ, WRITE), None)
    token = store.find(text)
    assert token is not None
    assert token.principal() == Principal("token:ann", frozenset({READ, WRITE}))
    texts = [text, *(store.new(f"n{number}", (READ,), None) for number in range(20))]
    assert len({token.split("_", 2)[2] for token in texts}) == 21
    assert all(re.fullmatch(r"gdalmcp_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", token) for token in texts)


@pytest.mark.claim("identity.static-tokens")
def test_no_part_of_the_secret_is_kept_anywhere(store: TokenStore, path: Path):
    secret = store.new("ann", (READ,), None).split("_", 2)[2]
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert secret.encode() not in stored
    assert secret[:12].encode() not in stored


def test_a_secret_opens_its_own_row_alone(store: TokenStore):
    ann, bob = store.new("ann", (READ,), None), store.new("bob", (READ, ADMIN), None)
    mixed = "_".join([*bob.split("_", 2)[:2], ann.split("_", 2)[2]])
    assert store.find(mixed) is None


def test_revoked_token_fails_in_other_processes_too(store: TokenStore, path: Path):
    second = TokenStore(path)
    text = store.new("ann", (READ,), None)
    assert second.find(text) is not None
    assert store.revoke("ann")
    assert second.find(text) is None
    assert not store.revoke("ann")


@pytest.mark.claim("identity.static-tokens")
def test_token_expires_after_last_day_and_frees_name(path: Path):
    now = [1_800_000_000.0]
    store = TokenStore(path, clock=lambda: now[0])
    text = store.new("ann", (READ,), 2)
    now[0] += 2 * DAY - 1
    assert store.find(text) is not None
    with pytest.raises(TokenRefused):
        store.new("ann", (READ,), None)
    now[0] += 1
    assert store.find(text) is None
    store.new("ann", (READ,), None)
    assert store.find(text) is None


def test_invalid_token_name_scope_or_end_is_refused(store: TokenStore):
    for name in ("", "Ann", "a b", "../x", "-a", "a" * 65, "a#b", "a:b", "ä", "a\n"):
        with pytest.raises(TokenRefused):
            store.new(name, (READ,), None)
    for scopes, days in (((), None), (("gdal:all",), None), ((READ,), 0), ((READ,), -1), ((READ,), 1e9)):
        with pytest.raises(TokenRefused):
            store.new("ann", scopes, days)
    assert store.all() == ()


@pytest.mark.claim("identity.static-tokens")
def test_the_file_is_private_from_its_first_moment(store: TokenStore, path: Path):
    store.new("ann", (READ,), None)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.claim("identity.static-tokens")
def test_writable_or_broken_token_file_is_not_trusted(store, path):
    text = store.new("ann", (READ,), None)
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        with pytest.raises(TokensUnavailable):
            store.find(text)
        with pytest.raises(TokensUnavailable):
            store.new("bob", (READ,), None)
    path.chmod(0o600)
    path.write_bytes(b"no database" * 100)
    with pytest.raises(TokensUnavailable):
        store.find(text)


@pytest.mark.claim("audit.private")
def test_link_replacing_the_token_file_is_not_followed(store: TokenStore, path: Path, tmp_path: Path):
    stranger = TokenStore(tmp_path / "other.sqlite")
    text = stranger.new("ann", (READ, ADMIN), None)
    path.parent.mkdir()
    path.symlink_to(stranger.path)
    with pytest.raises(TokensUnavailable):
        store.find(text)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("GDAL_MCP_STATE_DIR", str(folder))
    return folder


def events(state: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line)["event"] for line in (state / "audit.jsonl").read_text().splitlines()]
    return [(row["type"], row["subject"]) for row in rows]


def test_new_token_is_printed_alone_and_only_reads(capsys, state):
    assert main(["token", "new", "ann"]) == 0
    [text] = capsys.readouterr().out.splitlines()
    token = TokenStore(state / "tokens.sqlite").find(text)
    assert token is not None
    assert token.scopes == (READ,)
    # the first exists, the second is not a valid name
    assert [main(["token", "new", name]) for name in ("ann", "Ann!")] == [2, 2]
    assert events(state) == [("token.made", "token:ann")]
    assert text not in (state / "audit.jsonl").read_text()


def test_listed_token_hides_secret_and_revocation_is_recorded(capsys, state: Path):
    assert main(["token", "new", "ann", "--scope", READ, "--scope", WRITE, "--days", "7"]) == 0
    text = capsys.readouterr().out.strip()
    assert main(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert WRITE in listed
    assert not any(part in listed for part in text.split("_", 2)[1:])
    assert main(["token", "revoke", "ann"]) == 0
    assert TokenStore(state / "tokens.sqlite").find(text) is None
    assert events(state)[-1] == ("token.revoked", "token:ann")
    assert main(["token", "revoke", "ann"]) == 1


def test_unrecordable_token_is_never_shown(capsys: pytest.CaptureFixture[str], state: Path):
    state.mkdir()
    (state / "audit.jsonl").mkdir()
    assert main(["token", "new", "ann"]) == 1
    assert capsys.readouterr().out == ""
    assert TokenStore(state / "tokens.sqlite").all() == ()
