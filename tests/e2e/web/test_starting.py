"""When a server over HTTP starts, and when it refuses to."""

import ssl

import httpx2
import pytest

from tests.certificates import self_signed
from tests.e2e.cli.conftest import DEAD, gdal_mcp
from tests.e2e.web.hosted import PORT, hosting, new_token

pytestmark = pytest.mark.engine


@pytest.mark.claim("http.no-open-door")
def test_publicly_readable_server_ends_with_a_message(make_place):
    place = make_place()
    new_token(place, "ann")
    ended = gdal_mcp(*place.command(*PORT, *DEAD, "--host", "0.0.0.0")[3:])
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("gdal-mcp: ")


def test_server_with_certificate_speaks_only_tls(make_place, grounds, tmp_path):
    cert, key = self_signed(tmp_path, "127.0.0.1")
    options = (*DEAD, "--tls-cert", str(cert), "--tls-key", str(key))
    with hosting(make_place(), grounds / "tls.log", *options) as hosted:
        assert hosted.url.startswith("https://")
        with httpx2.Client(verify=ssl.create_default_context(cafile=str(cert))) as client:
            assert client.get(f"{hosted.base}/healthz").text == "ok\n"
            assert client.post(hosted.url).status_code == 401
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(hosted.base.replace("https:", "http:") + "/healthz")
