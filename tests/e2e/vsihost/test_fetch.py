"""Finding and fetching remote data, as a client does it."""

import pytest

from tests.e2e.remote.catalogue import serve as serve_catalogue
from tests.e2e.remote.origin import Origin
from tests.e2e.vsihost.conftest import Serve

pytestmark = [pytest.mark.engine]
FINDING = {"stac_search", "remote_list", "fetch"}


@pytest.mark.claim("remote.fetched-is-checked")
def test_readable_raster_is_fetched_byte_for_byte(serve, origin, place):
    talk = serve("--approval", "never")
    result = talk.done("fetch", url=origin.url("/ok/a.tif"), output="in.tif")
    assert (place.workspace / "in.tif").read_bytes() == origin.files["a.tif"]
    assert result["receipt"]["network"] == "none"
    talk.done("info", path="in.tif")
    origin.files |= {"page.tif": b"<html>log in</html>" * 1000, "empty.tif": b""}
    for url, name in (
        ("/ok/page.tif", "page.tif"),
        ("/ok/empty.tif", "empty.tif"),
        ("/cut/a.tif", "cut.tif"),
        ("/ok/none.tif", "none.tif"),
        ("/ok/d.zarr", "d.zarr"),
        ("/ok/a.tif", "in.tif"),  # exists already
        ("/ok/e.vrt", "e.vrt"),
    ):
        talk.failed("fetch", url=origin.url(url), output=name)
    talk.failed("fetch", url="in.tif", output="copy.tif")
    assert sorted(path.name for path in place.workspace.iterdir() if path.name[0] != ".") == ["in.tif"]


def test_what_is_found_can_be_described(serve: Serve, origin: Origin):
    serve_catalogue(origin)
    origin.files["x.tif"] = origin.files["a.tif"]
    talk = serve("--approval", "never")
    result = talk.done("stac_search", api=origin.url("/stac"), collections=["cop-dem-glo-30"], limit=1)
    [step] = result["next"]
    [read] = talk.done(step["tool"], **step["arguments"])["receipt"]["remote"]
    assert read["host"] == origin.url("").rstrip("/")
    assert talk.failed("stac_search", api="https://elsewhere.test/stac")["code"] == "NETWORK_BLOCKED"


def test_fetch_tools_need_readable_sources_and_obey_rules(serve: Serve, origin: Origin):
    for options, there in (({}, True), ({"remote": ""}, False)):
        listed = {tool.name for tool in serve(**options).ask("list_tools").tools}
        assert FINDING & listed == (FINDING if there else set())
    asks = serve("--approval", "always")
    assert asks.failed("stac_search", api=origin.url("/stac"))["code"] == "DENIED"
    assert origin.asked == []
