"""Input from browsers and strangers: headers, cookies, tickets, links and sealed state. Forged input opens nothing."""

import json
import re
from collections.abc import Awaitable
from typing import Any

import anyio
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from starlette.datastructures import Headers
from starlette.requests import Request

from gdal_mcp.policy.identity import READ, Principal
from gdal_mcp.server.console.auth import KEY_HEADER, ConsoleAuth, Refused
from gdal_mcp.server.console.sessions import (
    LINK_SECONDS,
    ConsoleSession,
    LoginTokens,
    Sessions,
    Viewer,
    new_login_token,
)
from gdal_mcp.server.http.files import precondition
from gdal_mcp.server.http.links import Subject
from gdal_mcp.server.http.signing import Signer
from gdal_mcp.toolboxes.untrusted import TRUNCATED, clean_text, clean_value, shown_text
from tests.fuzz.kit import anything, outcome, tries
from tests.quick import quick

ANN = Principal("token:ann", frozenset({READ}))
ETAG = '"' + "ab" * 32 + '"'
TAGS = st.sampled_from((ETAG, f"W/{ETAG}", "*", '""', f'"x", {ETAG}', '"', "W/", "," * 3000, '"' * 3001))


def mutated(good: str) -> st.SearchStrategy[str]:
    """The text with some letters changed, inserted or removed; sometimes the text itself."""

    @st.composite
    def change(draw: st.DrawFn) -> str:
        at = draw(st.integers(0, len(good)))
        # letters that do not depend on the text, which is different each time
        some = st.sampled_from("aA0-_.") | st.characters()
        return good[:at] + "".join(draw(st.lists(some, max_size=2))) + good[at + draw(st.integers(0, 2)) :]

    return change()


@tries(70)
@given(st.dictionaries(st.sampled_from(("if-match", "if-none-match")), TAGS | st.text(max_size=30)))
def test_any_condition_is_answered(headers: dict[str, str]):
    request_headers = Headers(
        raw=[(key.encode(), text.encode("latin-1", "replace")) for key, text in headers.items()]
    )
    status = outcome(precondition, request_headers, ETAG, refused=())
    assert status in (None, 304, 412)
    if status is None and "if-match" in headers:
        assert headers["if-match"].strip() == "*" or ETAG in headers["if-match"] or "*" in headers["if-match"]


@tries(70)
@given(st.data(), st.sampled_from((0.0, 1.0, float(LINK_SECONDS), LINK_SECONDS + 5.0)))
@pytest.mark.claim("console.links-once")
def test_only_the_very_ticket_opens_and_only_once(data: st.DataObject, later: float):
    now = 1_700_000_000.0
    good = new_login_token("secret", now)
    tickets = LoginTokens("secret", lambda: now + later)
    forged = data.draw(mutated(good) | st.just(new_login_token("other", now)) | st.text(max_size=90))
    assume(forged != good)
    assert not tickets.take(forged)
    assert [tickets.take(good) for _ in range(3)] == [later < LINK_SECONDS, False, False]


@tries(60)
@given(st.data())
@pytest.mark.claim("console.session-needed")
def test_only_both_secrets_of_one_session_find_it(data: st.DataObject):
    sessions = Sessions()
    session, other = sessions.open(ANN, None), sessions.open(ANN, None)
    secrets = (session.id, session.key, other.id, other.key)
    texts = st.sampled_from(range(4)).map(lambda at: secrets[at]) | mutated(session.id)
    texts |= st.sampled_from(("", "\udcff"))
    name, key = data.draw(texts), data.draw(texts)
    match = sessions.find(name, key)
    assert (match is not None) == ((name, key) in ((session.id, session.key), (other.id, other.key)))


HEADERS = st.dictionaries(
    st.sampled_from(("origin", "cookie", "authorization", "content-type", "sec-fetch-site", KEY_HEADER.lower())),
    st.sampled_from(("http://127.0.0.1:1", "null", "https://evil.example", "Bearer x", "Bearer  good", "bearer good", "Basic good", "application/json", "same-origin",
                     "cross-site", "c=x", "c=\xff", "c=ID", "KEY", "text/plain", "")) | st.text(st.characters(max_codepoint=255), max_size=20),
)  # fmt: skip
BODIES = st.binary(max_size=20) | anything.map(lambda value: json.dumps(value).encode())
BODIES |= st.sampled_from((b"[" * 16_000, b"{" * 20_000))
BODIES |= st.sampled_from((b'{"ticket":5}', b'{"token":"good"}', b'{"ticket":"\\ud800"}'))


async def answer(answering: Awaitable[Any]) -> Any:
    """The answer, or the status of the refusal."""
    try:
        return await answering
    except Refused as refused:
        return refused.status


async def verify(text: str) -> Principal | None:
    return ANN if text == "good" else None


@tries(100)
@given(HEADERS, BODIES)
@pytest.mark.claim("console.session-needed")
def test_any_console_request_is_authenticated_or_refused(headers: dict[str, str], body: bytes):
    auth = ConsoleAuth(Principal("local:me"), LoginTokens("s"), "c", ("http://127.0.0.1:1",), verify)
    session = auth.sessions.open(ANN, None)
    sent = {
        name: text.replace("ID", session.id).replace("KEY", session.key) for name, text in headers.items()
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent.items()]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def check_answers() -> None:
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw}
        request = Request(scope, receive)
        foreign = sent.get("origin", "http://127.0.0.1:1") != "http://127.0.0.1:1"
        bearer = re.fullmatch(r"(?i)bearer\s+good\s*", sent.get("authorization", ""))
        cookie = f"c={session.id}" in sent.get("cookie", "")
        secrets = cookie and sent.get(KEY_HEADER.lower()) == session.key
        viewer = await answer(auth.viewer(request))
        if isinstance(viewer, Viewer):
            assert not foreign
            assert bearer or ("authorization" not in sent and secrets)
            assert viewer.principal == ANN
        entered = await answer(auth.enter(request))
        if isinstance(entered, ConsoleSession):
            assert not foreign
            assert entered.principal == ANN
            assert json.loads(body) == {"token": "good"}
        assert {result if isinstance(result, int) else 400 for result in (viewer, entered)} <= set(
            range(400, 500)
        )

    with quick():
        anyio.run(check_answers)


SUBJECT = Subject("c" * 16, "a.tif", "ab" * 32, "token:ann", "1.0")


@tries(30)
@given(st.data())
@pytest.mark.claim("http.links")
def test_only_the_exact_link_of_a_file_works(data: st.DataObject):
    now = 1_700_000_000.0
    signer = Signer(lambda: now)
    expires, signature = signer.sign(SUBJECT, 60)
    names = ("call_id", "name", "sha256", "principal", "credential_version")
    others = ("9" * 12, "9" * 5000, f"0{expires}", f"{expires} ", "")

    def same_or_not(good: str) -> st.SearchStrategy[str]:
        return st.just(good) | mutated(good)

    fields = {name: data.draw(same_or_not(getattr(SUBJECT, name))) for name in names}
    end = data.draw(same_or_not(str(expires)) | st.sampled_from(others))
    signed = data.draw(st.just(signature) | same_or_not(signature))
    same = (Subject(**fields), end, signed) == (SUBJECT, str(expires), signature)
    assert signer.verify(Subject(**fields), end, signed) == same
    assert not Signer(lambda: now).verify(SUBJECT, str(expires), signature)


# Texts of files

LETTERS = st.characters() | st.sampled_from(
    "\u202e\u200b\u2066\U000e0041\x1b\x07\u0301\u0323\ufe0f\u115f\u2028\x85\ufeff\ud800ae\n\t"
)


@tries(70)
@given(st.text(LETTERS, max_size=60), st.integers(1, 40), st.integers(1, 3000))
@pytest.mark.claim("content.cleaned")
def test_cleaned_text_is_short_visible_and_stable(text: str, limit: int, times: int):
    with quick():
        cleaned, shown = clean_text(text, limit), shown_text(text, limit)
        clean_text(text * times)
    assert len(cleaned.removesuffix(TRUNCATED)) <= limit
    assert len(shown) <= limit * 10 + len(TRUNCATED)
    assert clean_text(cleaned) == cleaned
    for letter in cleaned + shown:
        assert letter in "\n\t" or letter.isprintable() or letter.isspace()
        assert not re.match(
            "[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ff]", letter
        )
    assert "\n" not in shown


def hidden(number: int) -> str:
    """A number in letters that cleaning removes."""
    return f"{number:b}".translate({48: 0x200B, 49: 0x200C})


@tries(8)
@given(
    st.lists(st.tuples(st.text("\u200b\u200ca (2)", max_size=8), anything), max_size=30), st.integers(1, 700)
)
@example([("", 1)], 20_000)
@pytest.mark.claim("content.cleaned")
def test_cleaned_keys_never_replace_each_other(rows: list[tuple[str, Any]], times: int):
    value = {f"{key}{hidden(number)}": field for number, (key, field) in enumerate(rows * times)}
    with quick():
        cleaned = clean_value(value)
    assert len(cleaned) == min(len(value), 20_001)
    json.dumps(cleaned, allow_nan=False)


# Texts that the protocol seals and returns


@tries(50)
@given(st.data())
@pytest.mark.claim("approval.sealed-state")
def test_changed_sealed_state_is_not_opened(data: st.DataObject):
    codec = AESGCMRequestStateCodec([b"k" * 32])
    good = codec.seal(b'{"approval":"1"}')
    changed = data.draw(
        mutated(good) | st.just(AESGCMRequestStateCodec([b"l" * 32]).seal(b"{}")) | st.text(max_size=80)
    )
    assume(changed != good)
    assert outcome(codec.unseal, changed, refused=InvalidRequestState) is InvalidRequestState
    assert codec.unseal(good) == b'{"approval":"1"}'
