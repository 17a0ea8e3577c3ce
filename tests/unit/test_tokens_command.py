"""`gdal-mcp token` as a person runs it."""

import json
from pathlib import Path

import pytest

from gdal_mcp.access.identity import READ, WRITE
from gdal_mcp.access.tokens import TokenStore
from gdal_mcp.cli import main


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "state"
    monkeypatch.setenv("GDAL_MCP_STATE_DIR", str(made))
    return made


def events(state: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line)["event"] for line in (state / "audit.jsonl").read_text().splitlines()]
    return [(row["type"], row["subject"]) for row in rows]


def test_what_new_prints_is_the_token_alone_and_it_reads_only(capsys, state):
    assert main(["token", "new", "ann"]) == 0
    [text] = capsys.readouterr().out.splitlines()
    found = TokenStore(state / "tokens.sqlite").find(text)
    assert found is not None
    assert found.scopes == (READ,)
    assert events(state) == [("token.made", "token:ann")]
    assert text not in (state / "audit.jsonl").read_text()


def test_the_list_shows_no_secret(capsys: pytest.CaptureFixture[str]):
    assert main(["token", "new", "ann", "--scope", READ, "--scope", WRITE, "--days", "7"]) == 0
    text = capsys.readouterr().out.strip()
    assert main(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert WRITE in listed
    assert not any(part in listed for part in text.split("_", 2)[1:])


def test_a_token_that_is_revoked_is_gone_and_recorded(capsys: pytest.CaptureFixture[str], state: Path):
    main(["token", "new", "ann"])
    text = capsys.readouterr().out.strip()
    assert main(["token", "revoke", "ann"]) == 0
    assert TokenStore(state / "tokens.sqlite").find(text) is None
    assert events(state)[-1] == ("token.revoked", "token:ann")
    assert main(["token", "revoke", "ann"]) == 1


def test_a_second_token_of_a_name_and_a_strange_name_are_errors(capsys: pytest.CaptureFixture[str]):
    assert main(["token", "new", "ann"]) == 0
    assert main(["token", "new", "ann"]) == 2
    assert main(["token", "new", "Ann!"]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_token_that_cannot_be_recorded_is_shown_to_nobody(capsys: pytest.CaptureFixture[str], state: Path):
    state.mkdir()
    (state / "audit.jsonl").mkdir()
    assert main(["token", "new", "ann"]) == 1
    assert capsys.readouterr().out == ""
    assert TokenStore(state / "tokens.sqlite").all() == ()
