"""Addresses, names and servers that try to redirect, change or stall a read, or to leak data.

Each is judged by the requests to the origin, and by the container's result, which must be empty.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from gdal_mcp.errors import Code, ToolError
from gdal_mcp.remote.address import NotAnAddress, parse
from gdal_mcp.remote.checks import is_allowed
from gdal_mcp.remote.places import without_secrets
from gdal_mcp.settings import SettingsError, load_settings
from sandbox.questions import Status
from tests.e2e.remote.conftest import DATA, WHO, Make, Opened, Resolver
from tests.e2e.remote.origin import Handler, Origin, to

# places that redirects and names must not reach
INSIDE = """http://169.254.169.254/latest/meta-data/ https://127.0.0.1/x https://[::1]/x https://localhost/x
https://private.test/x https://10.0.0.1/x file:///etc/passwd gopher://data.test/x https://user:password@data.test/x""".split()

Fails = Callable[..., str]


@pytest.fixture
def failed(make: Make, opened: Opened, server: Origin) -> Fails:
    """`failed(*sources, path=..., **settings)`: the error of a call that reads an address, before it runs or while it
    reads.
    """

    def failure_message(
        *sources: Any, path: str = "/ok/x.tif", host: str = "data.test", **settings: Any
    ) -> str:
        try:
            call = opened(make(*sources, **settings), server.url(path, host))
        except ToolError as error:
            return error.message
        assert call.read((1_000_000, 100_000)).status is Status.EIO
        assert call.reading.failure is not None
        assert call.look().status is Status.EIO  # every question after the first failure fails
        return call.reading.failure.message

    return failure_message


@pytest.mark.claim("remote.off-by-default")
def test_remote_reading_is_off_by_default_with_advice(make: Make, server: Origin):
    gateway = make(source=[])
    with pytest.raises(ToolError) as caught:
        gateway.address("https://other.test/x.tif", WHO)
    assert caught.value.code is Code.NETWORK_BLOCKED
    assert "--remote other.test" in caught.value.suggestion
    assert server.asked == []


@pytest.mark.claim("remote.off-by-default")
def test_hosts_buckets_and_folders_are_matched_whole(make: Make):
    listed = "data.test *.wild.test https://x.test:8443/cog/ s3://bucket/maps/ http://plain.test bücher.test"
    gateway = make(*listed.split())
    for text in """https://data.test/x https://DATA.test:443/x https://a.wild.test/x https://a.b.wild.test/x
        https://x.test:8443/cog/a/b.tif s3://bucket/maps/x.tif http://plain.test/x https://BÜCHER.test/x
        https://xn--bcher-kva.test/x""".split():
        gateway.address(text, WHO)
    refused = """http://data.test/x https://data.test:8443/x https://data.test.evil.test/x https://evil-data.test/x
        https://wild.test/x https://awild.test/x https://x.test:8443/cogs/a https://x.test:8443/cog/../a
        https://x.test:8443/cog/%2e%2e/a https://x.test:8443/cog/..;/a https://x.test:8443/cog/..%2fa https://x.test:8443/cog\\..\\a https://x.test/cog/a
        s3://bucket/maps s3://bucket/mapsx/x s3://bucket2/maps/x s3://bucket/maps/../x https://plain.test/x
        https://data.test@evil.test/x https://evil.test#@data.test/x https://data.test/x?leak=1 ftp://data.test/x
        /vsicurl/https://data.test/x file:///etc/passwd""".split()
    for text in (*refused, "https://data.test/x\n"):
        with pytest.raises(ToolError):
            gateway.address(text, WHO)


def test_a_policy_narrows_what_a_principal_reads(make: Make):
    gateway = make("data.test", "other.test", narrowed={"local:bob": ("other.test",)}.get)
    gateway.address("https://data.test/x", WHO)
    gateway.address("https://other.test/x", "local:bob")
    with pytest.raises(ToolError) as caught:
        gateway.address("https://data.test/x", "local:bob")
    assert "policy" in caught.value.suggestion


@pytest.mark.claim("remote.checked-addresses-only")
def test_only_public_addresses_and_listed_networks_are_contacted(failed, resolver, server):
    inside = """0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.8.9.1 169.254.169.254 172.16.0.1 192.168.1.1 192.0.0.8 192.0.2.1
        192.88.99.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 239.1.2.3 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1
        ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1::
        2002:a9fe:a9fe::1 3fff::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1""".split()
    assert [address for address in inside if is_allowed(address, [])] == []
    assert all(
        is_allowed(address, [])
        for address in ("8.8.8.8", "193.0.6.139", "2001:4860:4860::8888", "2a00:1450::1")
    )
    for addresses in (["10.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::1"]):
        resolver.names["data.test"] = [addresses]
        assert "networks" in failed({"at": f"data.test:{server.port}", "networks": []})
    assert server.asked == []


@pytest.mark.claim("remote.checked-addresses-only")
def test_name_is_resolved_once_to_the_checked_address(
    make: Make, opened: Opened, failed: Fails, resolver: Resolver, server: Origin
):
    """A second look-up could lead to another place."""
    resolver.names["data.test"] = [["127.0.0.1"], ["127.0.0.2"], ["169.254.169.254"]]
    assert opened(make(), server.url("/ok/x.tif")).read((0, 100)).body == DATA[:100]
    assert resolver.lookups["data.test"] == 1
    # and a new connection is checked again
    resolver.names["data.test"] = [["10.0.0.1"]]
    assert "networks" in failed()


@pytest.mark.claim("remote.checked-addresses-only", "remote.redirects-checked")
def test_redirects_lead_nowhere_inside(failed: Fails, server: Origin, resolver: Resolver):
    resolver.names["private.test"] = [["10.0.0.1"]]
    for place in INSIDE:
        server.special["/ok/x.tif"] = to(place)
        failed()
    # not even if the name itself is listed, because its address is not
    server.special["/ok/x.tif"] = to(f"https://private.test:{server.port}/ok/x.tif")
    failed(f"data.test:{server.port}", {"at": f"private.test:{server.port}", "networks": []})
    assert set(server.paths()) == {"/ok/x.tif"}
    server.special["/ok/x.tif"] = to(server.url("/ok/x.tif"))
    before = len(server.asked)
    failed()
    assert len(server.asked) == before + 4


@pytest.mark.claim("remote.redirects-checked")
def test_another_host_gets_no_credentials_after_a_redirect(make, opened, server, monkeypatch):
    """Neither the credentials of the first host nor its own, because the caller did not name it."""
    monkeypatch.setenv("FIRST", "first-secret")
    monkeypatch.setenv("SECOND", "second-secret")
    first = {"at": f"data.test:{server.port}", "bearer": "env:FIRST", "headers": {"X-Key": "env:FIRST"}}
    second = {"at": f"other.test:{server.port}", "bearer": "env:SECOND"}
    server.special["/ok/moved"] = to(server.url("/ok/x.tif", "other.test"))
    server.special["/ok/same"] = to("/ok/x.tif")
    assert opened(make(first, second), server.url("/ok/same")).read((0, 10)).body == DATA[:10]
    assert {request.headers["authorization"] for request in server.asked} == {"Bearer first-secret"}
    server.asked.clear()
    call = opened(make(first, second), server.url("/ok/moved"))
    assert call.read((1_000_000, 10)).body == DATA[1_000_000:1_000_010]
    for request in server.asked:
        to_first = request.host.startswith("data.test")
        assert (request.headers.get("authorization"), request.headers.get("x-key")) == (
            ("Bearer first-secret", "first-secret") if to_first else (None, None)
        )
    assert {request.host for request in server.asked} == {
        f"data.test:{server.port}",
        f"other.test:{server.port}",
    }
    (row,) = call.reading.record()
    assert (row.address, row.final) == (server.url("/ok/moved"), server.url("/ok/x.tif", "other.test"))


@pytest.mark.claim("remote.redirects-checked")
def test_credentials_do_not_follow_redirects_to_other_hosts(make, opened, server, monkeypatch):
    """Not even if one setting lists both hosts: the second host must not choose what is read from the first."""
    monkeypatch.setenv("WILD", "secret")
    source = {"at": f"*.wild.test:{server.port}", "bearer": "env:WILD"}
    server.special["/ok/there"] = to(server.url("/ok/back", "b.wild.test"))
    server.special["/ok/back"] = to(server.url("/ok/x.tif", "a.wild.test"))
    opened(make(source), server.url("/ok/there", "a.wild.test"))
    sent = [
        (request.host.partition(":")[0], request.headers.get("authorization")) for request in server.asked
    ]
    assert sent == [("a.wild.test", "Bearer secret"), ("b.wild.test", None), ("a.wild.test", None)]


WRONG = """changing longer shorter cut elsewhere whole gzip twice chunked dripping drippingheaders hugeheaders stalling reset
500 403 503""".split()


@pytest.mark.claim("remote.exact-answers")
def test_unexpected_answer_fails_the_call(failed: Fails, server: Origin):
    for mode in WRONG:
        server.asked.clear()
        endless = mode in ("dripping", "drippingheaders", "stalling")
        why = failed(
            path=f"/{mode}/x.tif", **({"silence_seconds": 0.4, "answer_seconds": 0.8} if endless else {})
        )
        assert "secret inside" not in why
        if mode in ("shorter", "cut", "reset", "503"):
            assert len(server.asked) == 3, mode  # two repetitions
    assert server.sent < 64 << 20  # of endless chunks, only the length of the range


@pytest.mark.claim("remote.bounded")
def test_busy_server_is_retried_and_each_attempt_counts(make, opened, failed, server):
    call = opened(make(), server.url("/429twice/x.tif"))
    assert call.look().status is Status.OK
    assert call.reading.record()[0].requests == len(server.asked) == 3
    assert "requests_a_call" in failed(path="/429twice/x.tif", requests_a_call=2)


@pytest.mark.claim("remote.exact-answers")
def test_file_changing_between_reads_fails_the_call(make: Make, opened: Opened, server: Origin):
    call = opened(make(), server.url("/ok/x.tif"))
    call.look()
    server.etags["x.tif"] = '"v2"'
    assert call.read((1_000_000, 10)).status is Status.EIO
    assert "changed" in str(call.reading.failure)
    assert server.asked[-1].headers["if-match"] == '"v1"'


@pytest.mark.claim("remote.exact-answers")
def test_changed_bytes_with_equal_validator_fail_the_call(make: Make, opened: Opened, server: Origin):
    """If the server does not report a change of the file, reading a block twice does."""
    call = opened(make(cache=0), server.url("/silent/x.tif"))
    assert call.read((1_000_000, 10)).status is Status.OK
    assert call.read((1_000_000, 10)).status is Status.EIO


@pytest.mark.claim("remote.checked-addresses-only")
def test_certificate_of_wrong_host_or_authority_is_refused(make, failed, server, resolver):
    resolver.names["unnamed.test"] = [["127.0.0.1"]]
    failed(f"unnamed.test:{server.port}", host="unnamed.test")
    failed(ca=None)
    for wrong in (__file__, "/nowhere/ca.pem"):
        with pytest.raises(SettingsError):
            make(ca=wrong)
    assert server.asked == []


@pytest.mark.claim("remote.requests-from-nothing")
def test_request_holds_nothing_of_environment_or_answers(
    make: Make, opened: Opened, server: Origin, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine data.test login a password b")
    monkeypatch.setenv("HOME", str(tmp_path))

    def with_cookie(handler: Handler) -> None:
        handler.part(DATA[: 64 << 10], 0, 64 << 10, len(DATA), Set_Cookie="a=b")

    server.special["/ok/x.tif"] = with_cookie
    call = opened(make(), server.url("/ok/x.tif"))
    server.special.clear()
    assert call.read((1_000_000, 10)).status is Status.OK
    names = {"host", "range", "if-match", "user-agent", "accept-encoding"}
    assert all(set(request.headers) <= names for request in server.asked)
    assert all(request.headers["accept-encoding"] == "identity" for request in server.asked)


@pytest.mark.claim("remote.no-secret-kept")
def test_no_secret_is_seen_anywhere(make, opened, server, monkeypatch, caplog, tmp_path):
    """Secrets of an address, of the settings, of a redirect: not in names, answers, failures, records, texts, logs or
    stored files.
    """
    monkeypatch.setenv("KEY", "hidden-in-settings")
    caplog.set_level(logging.INFO)
    source = {"at": f"data.test:{server.port}", "bearer": "env:KEY", "query": ["shown"]}
    signed = server.url("/ok/x.tif?X-Amz-Signature=hidden-in-address&shown=1&sig=hidden-too")
    server.special["/ok/moved"] = to("/ok/x.tif?token=hidden-in-redirect&other=hidden-other&hidden-alone")
    texts, failing = [], (signed.replace("/ok/", mode) for mode in ("/500/", "/whole/"))
    for text in (signed, server.url("/ok/moved"), *failing):
        gateway = make(source)
        texts += [repr(gateway.settings), repr(gateway.address(text, WHO)), str(gateway.address(text, WHO))]
        try:
            call = opened(gateway, text)
        except ToolError as error:
            texts += [str(error), repr(error), error.suggestion, repr(error.__cause__)]
            continue
        texts += map(repr, (call.name, call.look(), call.reading.record(), call.list("1")))
        texts += [repr(row.as_dict()) for row in call.reading.record()]
        texts += [str(path) for path in tmp_path.rglob("*")]
    assert "hidden-in-address" in server.asked[0].path
    assert server.asked[0].headers["authorization"] == "Bearer hidden-in-settings"
    assert "hidden" not in "\n".join((*texts, caplog.text))
    assert "shown=1" in "\n".join(texts)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("usage*") if path.is_file())
    assert b"hidden" not in stored


@pytest.mark.claim("remote.no-secret-kept")
def test_secret_sharing_a_prefix_is_fully_hidden():
    texts = ["https://data.test/x?sig=ab", "https://data.test/x?sig=abcdef"]
    for order in (texts, texts[::-1]):
        hidden = without_secrets({"steps": [" ".join(order)]}, [parse(address) for address in order])
        assert hidden == {"steps": ["https://data.test/x?sig=... https://data.test/x?sig=..."]}


@pytest.mark.claim("remote.no-secret-kept")
def test_misleading_address_is_refused_without_repeating_it():
    for text in (
        *"""https://data.test/x?x-amz-request-payer=requester https://user:secret-word@data.test/x
        s3://bucket/key?secret-word=1 https://data.test/secret-word%00 https://data.test/secret-word\u202e
        https://data.test/x#secret-word stac+https://data.test/secret-word https:///secret-word""".split(),
        "https://data.test/" + "secret-word" * 1000,
    ):
        with pytest.raises(NotAnAddress) as caught:
            parse(text)
        assert "secret-word" not in str(caught.value), text


@pytest.mark.claim("remote.no-secret-kept")
def test_credentials_are_never_written_out_in_settings():
    for table in ({"bearer": "hidden-word"}, {"access_key": "hidden-word"}, {"sas": "sig=hidden-word"}):
        with pytest.raises(SettingsError) as caught:
            load_settings(remote={"source": [{"at": "data.test", **table}]})
        assert "hidden-word" not in str(caught.value)
        assert "env:NAME" in str(caught.value)


@pytest.mark.claim("remote.only-what-was-named")
def test_a_stac_item_cannot_lead_elsewhere(make: Make, opened: Opened, server: Origin):
    wrong = enumerate((*INSIDE, "/vsicurl/https://x", "", 7, None))
    assets = {f"a{number}": {"href": place} for number, place in wrong}
    assets |= {"good": {"href": "../ok/x.tif"}, "redirected": {"href": "/ok/moved"}}
    server.special["/ok/moved"] = to(INSIDE[0])
    server.special["/items/1"] = lambda handler: handler.answer(200, json.dumps({"assets": assets}).encode())
    gateway = make()
    call = opened(gateway, f"stac+{server.url('/items/1')}#good")
    assert call.name == "1/1.good"
    assert call.read((5, 10)).body == DATA[5:15]
    assert call.reading.record()[0].address == f"stac+{server.url('/items/1')}#good"
    assert call.reading.record()[0].final == server.url("/ok/x.tif")
    before = len(server.asked)
    for name in (*assets, "missing"):
        if name != "good":
            with pytest.raises(ToolError):
                opened(gateway, f"stac+{server.url('/items/1')}#{name}")
    assert set(server.paths()[before:]) == {"/items/1", "/ok/moved"}


@pytest.mark.claim("remote.redirects-checked")
def test_only_assets_of_an_item_may_change_host(make: Make, opened: Opened, server: Origin):
    there = server.url("/ok/x.tif", "other.test")
    server.special["/items/1"] = lambda handler: handler.answer(
        200, json.dumps({"assets": {"a": {"href": there}}}).encode()
    )
    server.special["/ok/moved"] = to(there)
    gateway = make(*(f"{name}:{server.port}" for name in ("data.test", "other.test")))
    item, moved = f"stac+{server.url('/items/1')}#a", server.url("/ok/moved")
    approved = (server.url("/"),)
    assert opened(gateway, item, within=approved).read((5, 10)).body == DATA[5:15]
    assert opened(gateway, moved).read((5, 10)).body == DATA[5:15]
    for addresses in ((moved,), (item, moved)):
        with pytest.raises(ToolError):
            opened(gateway, *addresses, within=approved)


def test_non_ascii_address_is_encoded_without_adding_headers(make, opened, server):
    gateway = make()
    assert opened(gateway, server.url("/ok/x.tif?sig=\u00e9&key=a%2Fb|c")).read((5, 10)).body == DATA[5:15]
    assert server.asked[0].path.endswith("?sig=%C3%A9&key=a%2Fb|c")
    kept_url = server.url("/ok/kept")
    server.special["/ok/moved"] = to("/ok/x.tif?a=\u00e9")
    server.special["/ok/kept"] = lambda handler: handler.part(DATA, 0, 65536, len(DATA), ETag='"\u00e9"')
    for address in (server.url("/ok/moved"), kept_url):
        with pytest.raises(ToolError) as caught:
            opened(gateway, address).look()
        assert caught.value.code is Code.REMOTE_ERROR
    # nothing of it is stored that would make the next call fail
    del server.special["/ok/kept"]
    server.files["kept"] = DATA
    assert opened(gateway, kept_url).read((5, 10)).body == DATA[5:15]
